from typing import Any

import pytest

from tests.builders import clear, judge, only, run_of, skipped
from tests.rules.shapes import prose, sampled, sharing, silent

ANSWER = (
    "As a language model I am happy to help you with that, and with all else that you may wish to "
    "know about it."
)


def same(*counts: int, of: int = 20, text: str = ANSWER, **fields: Any) -> list[dict[str, Any]]:
    return sharing(*counts, of=of, text=lambda place: text, **fields)


SICK = (run_of(samples=same(0, 20)),)


@pytest.mark.parametrize(
    ("last", "severity"),
    [
        pytest.param(91, "critical", id="more than nine tenths"),
        pytest.param(90, "warning", id="nine tenths"),
        pytest.param(51, "warning", id="just more than half"),
        pytest.param(50, "info", id="half, as refusals may be"),
    ],
)
def test_a_rise_is_graded_by_the_last_step(last: int, severity: str) -> None:
    assert only("SMP005", run_of(samples=same(0, 0, last, of=100))).severity == severity


@pytest.mark.parametrize(
    ("last", "found"),
    [pytest.param(40, False, id="a tenth"), pytest.param(44, True, id="more than that")],
)
def test_a_tenth_of_them_is_little(last: int, found: bool) -> None:
    assert clear("SMP005", run_of(samples=same(0, last, of=400))) is not found


@pytest.mark.parametrize(
    ("count", "looked"),
    [pytest.param(7, False, id="seven responses"), pytest.param(8, True, id="eight responses")],
)
def test_eight_responses_a_step_are_needed(count: int, looked: bool) -> None:
    run = run_of(samples=same(0, count, of=count))
    assert skipped("SMP005", run) is not looked
    assert silent("SMP005", run) is not looked


@pytest.mark.parametrize(
    "counts",
    [
        pytest.param((60, 60, 60), id="a refusal that was there from the start"),
        pytest.param((0, 90, 0), id="an answer that went away again"),
    ],
)
def test_what_did_not_grow_is_clear(counts: tuple[int, ...]) -> None:
    assert clear("SMP005", run_of(samples=same(*counts, of=100)))


@pytest.mark.parametrize(
    ("text", "found"),
    [
        pytest.param("a" * 99, False, id="99 characters may answer many questions"),
        pytest.param("a" * 100, True, id="100 characters"),
        pytest.param("Yes.", False, id="a label"),
    ],
)
def test_short_answers_are_right_more_than_once(text: str, found: bool) -> None:
    assert clear("SMP005", run_of(samples=same(0, 20, text=text))) is not found


def test_white_space_around_an_answer_makes_no_other_one() -> None:
    samples = sharing(0, 20, text=lambda place: ANSWER + " " * (place % 3))
    assert only("SMP005", run_of(samples=samples)).severity == "critical"


@pytest.mark.parametrize(
    ("prompts", "looked"),
    [
        pytest.param(3, False, id="three prompts are too few"),
        pytest.param(4, True, id="four prompts"),
    ],
)
def test_the_prompts_differ(prompts: int, looked: bool) -> None:
    samples = same(0, 20, prompt=lambda place: f"prompt {place % prompts}")
    assert skipped("SMP005", run_of(samples=samples)) is not looked
    assert silent("SMP005", run_of(samples=samples)) is not looked


def test_one_answer_to_one_prompt_is_no_constant() -> None:
    def text(place: int) -> str:
        return prose(place % 4)

    samples = sharing(0, 20, text=text, prompt=lambda place: f"prompt {place % 4}")
    assert clear("SMP005", run_of(samples=samples))


def test_it_is_dated_and_the_answer_is_told() -> None:
    long = ANSWER * 3
    run = run_of(samples=same(0, 0, 20, text=long), log_offset=1)
    finding = only("SMP005", run)
    assert finding.onset is not None
    assert (finding.onset.low, finding.onset.step, finding.onset.high) == (12, 21, 21)
    assert sampled(finding.evidence[0], "samples.jsonl", "share of responses")
    assert f"'{long[:60]}...' (0% at step 0)" in finding.message
    assert "100% of responses are one and the same" in finding.summary


def test_samples_of_two_steps_with_prompts_are_needed() -> None:
    assert skipped("SMP005", run_of(samples=same(20)))
    assert skipped("SMP005", run_of(samples=same(0, 20, prompt=None)))


def test_the_limits_can_be_set() -> None:
    run = run_of(samples=same(0, 60, of=100))
    assert only("SMP005", run, most=0.5).severity == "critical"
    assert only("SMP005", run, some=0.7).severity == "info"
    assert clear("SMP005", run, few=0.7)
    assert clear("SMP005", run, shortest=200)
    assert skipped("SMP005", run_of(samples=same(0, 5, of=5)))
    assert judge("SMP005", run_of(samples=same(0, 5, of=5)), fewest=5)
    three = run_of(samples=same(0, 20, prompt=lambda place: f"prompt {place % 3}"))
    assert judge("SMP005", three, prompts=3)
