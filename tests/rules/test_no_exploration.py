from typing import Any

import pytest

from tests.builders import clear, only, run_of, skipped
from tests.rules.shapes import prose, sampled, sharing, silent


def twins(*counts: int, of: int = 20, size: int = 4, **fields: Any) -> list[dict[str, Any]]:
    """Groups of ``size`` answers to one prompt; those that count are the same within a group."""
    grouped = {"prompt": lambda place: f"prompt {place // size}", **fields}
    return sharing(*counts, of=of, text=lambda place: prose(place // size), **grouped)


def apart(place: int) -> str:
    return prose(place + 10_000)


SICK = (run_of(samples=twins(20)),)


@pytest.mark.parametrize(
    ("count", "found"),
    [
        pytest.param(50, False, id="half of them"),
        pytest.param(52, True, id="more than half of them"),
    ],
)
def test_more_than_half_have_a_twin(count: int, found: bool) -> None:
    samples = sharing(
        count,
        of=100,
        text=lambda place: prose(place // 4),
        other=apart,
        prompt=lambda place: f"prompt {place // 4}",
    )
    assert clear("SMP009", run_of(samples=samples)) is not found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        pytest.param("a" * 19, False, id="19 characters may be right more than once"),
        pytest.param("a" * 20, True, id="20 characters"),
    ],
)
def test_short_answers_are_left_out(text: str, found: bool) -> None:
    samples = sharing(20, text=lambda place: text, prompt=lambda place: f"prompt {place // 4}")
    assert silent("SMP009", run_of(samples=samples)) is not found


def test_the_same_answer_to_different_prompts_is_another_matter() -> None:
    samples = sharing(20, text=lambda place: "the very same answer, always")
    assert skipped("SMP009", run_of(samples=samples))


def test_a_group_goes_before_the_prompt() -> None:
    def text(place: int) -> str:
        return prose(place // 4)

    samples = sharing(20, text=text, prompt="one", group=lambda place: f"{place}")
    assert skipped("SMP009", run_of(samples=samples))
    samples = sharing(20, text=text, prompt="one", group=lambda place: f"{place // 4}")
    assert only("SMP009", run_of(samples=samples)).severity == "info"


def test_it_is_information_dated_where_it_rose() -> None:
    samples = sharing(
        0,
        0,
        20,
        text=lambda place: prose(place // 4),
        other=apart,
        prompt=lambda place: f"prompt {place // 4}",
    )
    finding = only("SMP009", run_of(samples=samples, log_offset=1))
    assert finding.severity == "info"
    assert finding.onset is not None
    assert (finding.onset.low, finding.onset.step, finding.onset.high) == (12, 21, 21)
    assert sampled(finding.evidence[0], "samples.jsonl", "share of responses")
    assert "(0% at step 0)" in finding.message
    assert "100% of answers to one prompt are the same" in finding.summary


def test_prompts_are_needed() -> None:
    assert skipped("SMP009", run_of(samples=twins(20, prompt=None)))
    assert skipped("SMP009", run_of(response_length_mean=[50.0] * 20))


@pytest.mark.parametrize(
    ("count", "looked"),
    [pytest.param(7, False, id="seven responses"), pytest.param(8, True, id="eight responses")],
)
def test_eight_responses_a_step_are_needed(count: int, looked: bool) -> None:
    run = run_of(samples=twins(count, of=count, size=count))
    assert skipped("SMP009", run) is not looked
    assert silent("SMP009", run) is not looked


def test_the_limits_can_be_set() -> None:
    run = run_of(samples=twins(20))
    assert clear("SMP009", run, share=1.0)
    assert silent("SMP009", run, shortest=1000)
    assert silent("SMP009", run, fewest=21)
