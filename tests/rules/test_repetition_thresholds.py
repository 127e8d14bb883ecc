from typing import Any

import pytest

from tests.builders import clear, only, run_of, skipped
from tests.rules.shapes import prose, sampled, sharing, silent


def paragraphs(place: int) -> str:
    """Three paragraphs over and over, each time in another order: no loop."""
    parts = [prose(place, 12), prose(place + 1000, 12), prose(place + 2000, 12)]
    orders = ((0, 1, 2), (1, 0, 2), (2, 1, 0))
    return "\n\n".join(parts[part] for order in orders for part in order)


def long(place: int) -> str:
    return prose(place, 108)


def grown(*counts: int, of: int = 20, **fields: Any) -> list[dict[str, Any]]:
    return sharing(*counts, of=of, text=paragraphs, other=long, **fields)


SICK = (run_of(samples=grown(0, 20)),)


@pytest.mark.parametrize(
    ("counts", "found"),
    [
        pytest.param((0, 50, 26), True, id="just more than a quarter"),
        pytest.param((0, 50, 25), False, id="a quarter"),
        pytest.param((60, 60, 60), False, id="a task that repeats on purpose"),
        pytest.param((0, 60, 0), False, id="repetition that went away again"),
    ],
)
def test_far_more_responses_than_at_the_start(counts: tuple[int, ...], found: bool) -> None:
    assert clear("SMP007", run_of(samples=grown(*counts, of=100))) is not found


def test_longer_answers_that_do_not_repeat_are_clear() -> None:
    assert clear("SMP007", run_of(samples=sharing(0, 20, text=lambda place: prose(place, 500))))


def test_it_is_information_that_names_the_threshold_and_the_size() -> None:
    finding = only("SMP007", run_of(samples=grown(0, 0, 20), log_offset=1))
    assert finding.severity == "info"
    assert finding.onset is not None
    assert (finding.onset.low, finding.onset.step, finding.onset.high) == (12, 21, 21)
    assert sampled(finding.evidence[0], "samples.jsonl", "share of responses")
    assert "most often duplicate lines (0% at step 0); zlib leaves" in finding.message
    assert "100% of responses exceed Gopher's thresholds" in finding.summary


def test_short_responses_have_no_size_to_compare() -> None:
    samples = sharing(0, 20, text=paragraphs, other=lambda place: prose(place, 2))
    assert "zlib" not in only("SMP007", run_of(samples=samples)).message


def test_samples_of_two_steps_are_needed() -> None:
    assert skipped("SMP007", run_of(samples=grown(20)))
    assert skipped("SMP007", run_of(response_length_mean=[50.0] * 20))


@pytest.mark.parametrize(
    ("count", "looked"),
    [pytest.param(7, False, id="seven responses"), pytest.param(8, True, id="eight responses")],
)
def test_eight_responses_a_step_are_needed(count: int, looked: bool) -> None:
    run = run_of(samples=grown(0, count, of=count))
    assert skipped("SMP007", run) is not looked
    assert silent("SMP007", run) is not looked


def test_the_limits_can_be_set() -> None:
    run = run_of(samples=grown(0, 60, of=100))
    assert clear("SMP007", run, share=0.7)
    assert silent("SMP007", run, fewest=101)
