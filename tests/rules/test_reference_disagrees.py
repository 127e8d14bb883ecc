import math

import pytest

from rlhfdoctor.model import Run
from tests.builders import clear, only, run_of, skipped
from tests.rules.shapes import NAN, files, sampled


def two_files(
    gap: float,
    *,
    likeness: float = 0.0,
    steps: tuple[int, ...] = (10, 20),
    other_steps: tuple[int, ...] = (10, 20),
    count: int = 8,
    log_offset: int = 0,
) -> Run:
    """Two files whose k1 differ by ``gap`` and whose negative log-probabilities by ``likeness``."""
    near = files(
        logprobs=[-1.0] * len(steps),
        ref_logprobs=[-1.2] * len(steps),
        steps=steps,
        count=count,
        source="a.jsonl",
    )
    own = -1.0 - likeness
    far = files(
        logprobs=[own] * len(other_steps),
        ref_logprobs=[own - 0.2 - gap] * len(other_steps),
        steps=other_steps,
        count=count,
        source="b.jsonl",
    )
    return run_of(samples=[*near, *far], log_offset=log_offset)


@pytest.mark.parametrize(
    ("gap", "disagree"),
    [
        pytest.param(0.99, False, id="just less than a nat apart"),
        pytest.param(1.01, True, id="just more than a nat apart"),
        pytest.param(-1.01, True, id="whichever file is the farther"),
    ],
)
def test_a_nat_between_two_files(gap: float, disagree: bool) -> None:
    assert clear("REF001", two_files(gap)) is not disagree


@pytest.mark.parametrize(
    ("likeness", "disagree"),
    [
        pytest.param(0.49, True, id="responses of about the same perplexity"),
        pytest.param(0.51, False, id="responses that are another thing"),
        pytest.param(-0.51, False, id="whichever file is the surer"),
    ],
)
def test_only_responses_of_the_same_perplexity_are_compared(
    likeness: float, disagree: bool
) -> None:
    assert clear("REF001", two_files(3.0, likeness=likeness)) is not disagree


@pytest.mark.parametrize(
    ("count", "disagree"),
    [
        pytest.param(7, False, id="seven responses a step are too few"),
        pytest.param(8, True, id="eight responses a step are enough"),
    ],
)
def test_eight_responses_a_step_are_needed(count: int, disagree: bool) -> None:
    assert skipped("REF001", two_files(3.0, count=count)) is not disagree


def test_it_is_a_warning_with_a_line_of_both_files() -> None:
    finding = only("REF001", two_files(3.0, steps=(5, 10, 20), log_offset=1))
    assert finding.severity == "warning"
    assert finding.onset is not None
    assert (finding.onset.low, finding.onset.step, finding.onset.high) == (0, 11, 11)
    near, far = finding.evidence
    assert sampled(near, "a.jsonl", "nats/token")
    assert sampled(far, "b.jsonl", "nats/token")
    assert near.observed == pytest.approx(0.2)
    assert far.observed == pytest.approx(3.2)
    assert near.estimator == far.estimator == "k1"
    assert "a.jsonl and b.jsonl disagree about the reference at step 10" in finding.message
    assert "0.2 against 3.2 nats/token" in finding.message
    assert "reference of a.jsonl moved" in finding.summary


def test_steps_that_only_one_file_has_are_not_compared() -> None:
    assert skipped("REF001", two_files(3.0, other_steps=(30, 40)))
    finding = only("REF001", two_files(3.0, other_steps=(20, 40)))
    assert "at step 20" in finding.message


def test_files_that_disagree_early_and_agree_again_are_still_told() -> None:
    near = files(logprobs=[-1.0] * 3, ref_logprobs=[-1.2] * 3, steps=(1, 2, 3), source="a.jsonl")
    far = files(
        logprobs=[-1.0] * 3, ref_logprobs=[-1.2, -4.0, -1.2], steps=(1, 2, 3), source="b.jsonl"
    )
    finding = only("REF001", run_of(samples=[*near, *far]))
    assert finding.onset is not None
    assert finding.onset.step == 2


def test_files_that_agree_are_clear() -> None:
    assert clear("REF001", two_files(0.0))


def test_two_files_with_both_log_probabilities_are_needed() -> None:
    one = files(logprobs=[-1.0] * 4, ref_logprobs=[-1.2] * 4)
    assert skipped("REF001", run_of(samples=one))
    without = [
        *files(logprobs=[-1.0] * 4, source="a.jsonl"),
        *files(logprobs=[-1.0] * 4, source="b.jsonl"),
    ]
    assert skipped("REF001", run_of(samples=without))
    assert skipped("REF001", two_files(NAN))


def test_the_limits_can_be_set() -> None:
    assert not clear("REF001", two_files(0.5), gap=0.4)
    assert not clear("REF001", two_files(3.0, likeness=math.log(2)), likeness=0.7)
    assert not clear("REF001", two_files(3.0, count=4), fewest=4)
