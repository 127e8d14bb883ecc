from typing import Any

import pytest

from rlhfdoctor.model import Onset, Skip
from tests.builders import began, clear, judge, only, run_of, scored, skipped

NAN, INF = float("nan"), float("inf")
LR = [1e-4] * 40


def ladder(*levels: float | None, **columns: Any) -> list[dict[str, Any]]:
    return [
        scored(10 * place, perplexity_policy=level, **columns)
        for place, level in enumerate(levels, start=1)
    ]


@pytest.mark.parametrize(
    "levels",
    [
        pytest.param([25.0, 18.0, 15.0], id="a healthy fall"),
        pytest.param([25.0, 10.0], id="half of the start"),
        pytest.param([5.0, 25.0], id="a dip that is over"),
        pytest.param([40.0, 90.0], id="a rise"),
        pytest.param([15.0], id="one checkpoint beside step 0"),
    ],
)
def test_what_ends_at_half_of_the_start_or_above_is_clear(levels: list[float]) -> None:
    assert clear("PPL003", run_of(scores=[began(), *ladder(*levels)]))


@pytest.mark.parametrize(
    ("levels", "first", "onset"),
    [
        pytest.param([25.0, 9.99], 20, (21, 12, 21), id="the last one"),
        pytest.param([9.0, 3.0, 2.0], 10, (11, 1, 11), id="from the first one on"),
        pytest.param([5.0, 25.0, 5.0], 30, (31, 22, 31), id="after a dip"),
        pytest.param([2.0], 10, (11, 1, 11), id="one checkpoint beside step 0"),
    ],
)
def test_less_than_half_of_step_0_is_a_fall(
    levels: list[float], first: int, onset: tuple[int, int, int]
) -> None:
    run = run_of(scores=[began(), *ladder(*levels)], log_offset=1, lr=LR)
    finding = only("PPL003", run)
    assert (finding.severity, finding.alone) == ("critical", False)
    assert finding.args["checkpoint"] == f"checkpoint-{first}"
    assert finding.args["start"] == 20.0
    assert finding.onset == Onset(*onset)
    assert finding.evidence[0].limit_low == 10.0


def test_the_share_can_be_set() -> None:
    run = run_of(scores=[began(), *ladder(15.0)])
    assert only("PPL003", run, fall=0.8)
    assert clear("PPL003", run, fall=0.7)


def test_without_step_0_the_first_checkpoint_is_the_start() -> None:
    assert clear("PPL003", run_of(scores=ladder(12.0, 7.0)))
    assert only("PPL003", run_of(scores=ladder(12.0, 5.0))).args["start"] == 12.0


@pytest.mark.parametrize(
    "start",
    [
        pytest.param(began(gap=2.0, perplexity_policy=90.0), id="another model"),
        pytest.param(began(gap=None, perplexity_policy=90.0), id="nobody knows which"),
        pytest.param(began(on_policy=False, perplexity_policy=90.0), id="others drew them"),
        pytest.param(began(part="chosen", perplexity_policy=90.0), id="chosen answers"),
        pytest.param(began(samples_file="other.jsonl", perplexity_policy=90.0), id="another file"),
        pytest.param(began(perplexity_policy=NAN), id="NaN"),
        pytest.param(began(perplexity_policy=INF), id="infinity"),
    ],
)
def test_a_row_that_is_not_the_policy_at_step_0_is_no_start(start: dict[str, Any]) -> None:
    assert clear("PPL003", run_of(scores=[start, *ladder(20.0, 19.0)]))
    assert skipped("PPL003", run_of(scores=[start, *ladder(20.0)]))


def test_a_reference_that_the_log_agrees_with_is_the_start() -> None:
    scores = [began(gap=None, perplexity_policy=50.0), *ladder(20.0)]
    assert only("PPL003", run_of(scores=scores, kl_ref_token=[0.05] * 40)).args["start"] == 50.0


def test_samples_that_others_drew_do_not_tell() -> None:
    fixed = ladder(20.0, 2.0, on_policy=False)
    assert skipped("PPL003", run_of(scores=fixed))
    own = ladder(20.0, 18.0, samples_file="own.jsonl")
    assert clear("PPL003", run_of(scores=[*fixed, *own]))


def test_every_sample_file_is_judged() -> None:
    first = ladder(20.0, 18.0, samples_file="a.jsonl")
    second = ladder(20.0, 3.0, samples_file="b.jsonl")
    assert only("PPL003", run_of(scores=[*first, *second])).args["source"] == "b.jsonl"


@pytest.mark.parametrize(
    ("rows", "missing"),
    [
        pytest.param([], "scores", id="no rows"),
        pytest.param([began()], "their own samples", id="a reference alone"),
        pytest.param(ladder(5.0), "their own samples", id="one checkpoint without a start"),
        pytest.param(ladder(NAN), "of checkpoint-10", id="NaN alone"),
        pytest.param(ladder(20.0, 19.0, NAN), "of checkpoint-30", id="NaN in the last one"),
        pytest.param(ladder(20.0, 19.0, None), "of checkpoint-30", id="nothing in the last one"),
        pytest.param(ladder(20.0, 19.0, INF), "of checkpoint-30", id="infinity in the last one"),
    ],
)
def test_what_was_not_measured_is_skipped(rows: list[dict[str, Any]], missing: str) -> None:
    outcome = judge("PPL003", run_of(scores=rows))
    assert isinstance(outcome, Skip)
    assert missing in " ".join(outcome.missing)


def test_a_number_that_is_not_finite_hides_no_fall() -> None:
    assert only("PPL003", run_of(scores=ladder(20.0, 2.0, NAN))).args["level"] == 2.0
    assert only("PPL003", run_of(scores=ladder(NAN, 20.0, 2.0))).args["start"] == 20.0


@pytest.mark.parametrize(
    ("samples", "looks"),
    [
        pytest.param(7, False, id="seven samples are too few"),
        pytest.param(8, True, id="eight samples are enough"),
    ],
)
def test_eight_samples_a_checkpoint_are_needed(samples: int, looks: bool) -> None:
    run = run_of(scores=[began(), *ladder(18.0, samples=samples)])
    assert skipped("PPL003", run) is not looks
