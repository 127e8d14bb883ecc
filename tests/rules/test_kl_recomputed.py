from typing import Any

import pytest

from rlhfdoctor.doctor import diagnose
from rlhfdoctor.model import Onset, Skip
from tests.builders import began, clear, judge, only, run_of, scored, skipped

NAN, INF = float("nan"), float("inf")
CALM = [0.5] * 40
"""A log whose steps are 1 to 40."""


def ladder(*kls: float | None, **columns: Any) -> list[dict[str, Any]]:
    return [scored(10 * place, kl, **columns) for place, kl in enumerate(kls, start=1)]


@pytest.mark.parametrize(
    "kls",
    [
        pytest.param([0.05, 0.2, 0.4], id="a healthy climb"),
        pytest.param([0.05, 1.0], id="at the ceiling"),
        pytest.param([2.0, 0.9], id="a policy that came back"),
        pytest.param([1e-7, 1e-6], id="next to nothing"),
        pytest.param([0.2], id="one checkpoint"),
    ],
)
def test_a_ladder_that_ends_at_the_ceiling_or_below_is_clear(kls: list[float]) -> None:
    assert clear("KL006", run_of(scores=[began(), *ladder(*kls)]))


@pytest.mark.parametrize(
    ("kls", "first", "onset"),
    [
        pytest.param([0.1, 0.2, 1.01], 30, (31, 22, 31), id="the last one alone"),
        pytest.param([0.1, 1.5, 2.0], 20, (21, 12, 21), id="from the second on"),
        pytest.param([1.5, 0.5, 2.0], 30, (31, 22, 31), id="after it came back once"),
        pytest.param([2.0, 3.0], 10, (11, 1, 11), id="from the first one on"),
        pytest.param([2.0], 10, (11, 1, 11), id="one checkpoint"),
    ],
)
def test_a_ladder_that_ends_above_it_is_dated_between_checkpoints(
    kls: list[float], first: int, onset: tuple[int, int, int]
) -> None:
    run = run_of(scores=[began(), *ladder(*kls)], log_offset=1, lr=CALM)
    finding = only("KL006", run)
    assert (finding.severity, finding.alone) == ("critical", True)
    assert finding.args["checkpoint"] == f"checkpoint-{first}"
    assert finding.onset == Onset(*onset)
    (evidence,) = finding.evidence
    assert (evidence.observed, evidence.unit, evidence.estimator) == (
        kls[-1],
        "nats/token",
        "exact",
    )


def test_a_log_that_begins_at_step_0_is_dated_from_there() -> None:
    run = run_of(scores=[began(), scored(10, 2.0)], steps=range(40), lr=CALM)
    assert only("KL006", run).onset == Onset(10, 0, 10)


def test_the_ceiling_can_be_set() -> None:
    run = run_of(scores=[began(), *ladder(0.3, 0.6)])
    assert only("KL006", run, ceiling=0.5).args["checkpoint"] == "checkpoint-20"


def test_every_sample_file_is_judged() -> None:
    fresh = ladder(0.1, 0.9, samples_file="fresh.jsonl")
    own = ladder(0.1, 1.1, samples_file="own.jsonl")
    assert only("KL006", run_of(scores=[began(), *fresh, *own])).args["source"] == "own.jsonl"


def test_pairs_are_judged_by_their_chosen_answers() -> None:
    chosen = ladder(0.1, 3.0, part="chosen", on_policy=False)
    rejected = ladder(3.0, 0.1, part="rejected", on_policy=False)
    assert only("KL006", run_of(scores=[*chosen, *rejected])).args["level"] == 3.0
    assert clear("KL006", run_of(scores=rejected + ladder(0.1, part="chosen")))


def test_samples_that_others_drew_count_only_where_there_are_no_own_ones() -> None:
    fixed = ladder(0.1, 5.0, on_policy=False, samples_file="loops.jsonl")
    assert clear("KL006", run_of(scores=[*ladder(0.1, 0.2), *fixed]))
    assert only("KL006", run_of(scores=fixed)).args["source"] == "loops.jsonl"


# Which reference it is held to


def test_the_reference_that_training_started_from_decides() -> None:
    sft = [began("sft", 0.01), *ladder(0.1, 0.2, reference="sft")]
    base = [began("base", 2.0), *ladder(1.5, 1.6)]
    assert clear("KL006", run_of(scores=[*base, *sft]))
    far = [began("sft", 0.01), *ladder(0.1, 4.0, reference="sft")]
    assert only("KL006", run_of(scores=[*base, *far])).args["reference"] == "sft"


def test_of_two_that_it_may_have_started_from_the_logged_one_decides() -> None:
    near = [began("near", 0.01), *ladder(2.0, reference="near")]
    logged = [began("logged", 0.02), *ladder(0.5, reference="logged")]
    assert clear("KL006", run_of(scores=[*near, *logged], kl_ref_token=CALM))


def test_a_model_that_training_did_not_start_from_says_nothing() -> None:
    outcome = judge("KL006", run_of(scores=[began(gap=2.0), *ladder(1.5, 1.6)]))
    assert isinstance(outcome, Skip)
    assert outcome.missing == ("the model that training started from",)


def test_it_does_where_the_log_was_measured_against_it() -> None:
    kl = [0.1] * 15 + [2.0] * 25
    run = run_of(scores=[began(gap=2.0), *ladder(0.1, 2.0, 2.0)], kl_ref_token=kl)
    assert only("KL006", run).severity == "critical"


@pytest.mark.parametrize(
    ("kls", "severity"),
    [
        pytest.param([1.5, 1.6], "warning", id="as far as ever"),
        pytest.param([0.5, 1.6], "critical", id="it went there"),
    ],
)
def test_of_an_unknown_reference_only_growth_is_critical(kls: list[float], severity: str) -> None:
    finding = only("KL006", run_of(scores=ladder(*kls)))
    assert (finding.severity, finding.alone) == (severity, severity == "critical")


# What cannot be judged


@pytest.mark.parametrize(
    ("rows", "missing"),
    [
        pytest.param([], "scores", id="no rows"),
        pytest.param([began()], "a scored checkpoint", id="a reference alone"),
        pytest.param([scored(10, 3.0, part="rejected")], "a scored checkpoint", id="rejected ones"),
        pytest.param(
            [scored(10, NAN)], "a finite kl_ref_token_exact of checkpoint-10", id="NaN weights"
        ),
        pytest.param([scored(10, INF)], "kl_ref_token_exact", id="infinity"),
        pytest.param([scored(10, None)], "kl_ref_token_exact", id="nothing"),
        pytest.param(ladder(0.1, NAN), "checkpoint-20", id="NaN in the last one"),
        pytest.param([{**scored(10, 3.0), "step": None}], "a scored checkpoint", id="no step"),
    ],
)
def test_what_was_not_measured_is_skipped(rows: list[dict[str, Any]], missing: str) -> None:
    outcome = judge("KL006", run_of(scores=rows))
    assert isinstance(outcome, Skip)
    assert missing in " ".join(outcome.missing)


def test_nobody_recomputed() -> None:
    assert skipped("KL006", run_of(kl_ref_token=CALM))


def test_a_number_that_is_not_finite_hides_no_finding() -> None:
    finding = only("KL006", run_of(scores=ladder(0.1, 2.0, NAN)))
    assert finding.args["last"] == "checkpoint-20"


def test_one_finding_without_a_log_is_a_collapse() -> None:
    diagnosis = diagnose(run_of(scores=[began(), *ladder(0.1, 3.0)]))
    assert diagnosis.verdict == "collapsed"
    assert "exact KL 3 nats/token" in diagnosis.headline


def test_checkpoints_that_nobody_could_score_are_no_health() -> None:
    diagnosis = diagnose(run_of(scores=[scored(10, NAN, perplexity_policy=NAN)], lr=CALM))
    assert diagnosis.verdict == "inconclusive"


@pytest.mark.parametrize(
    ("columns", "severity"),
    [
        pytest.param({}, "critical", id="enough samples"),
        pytest.param({"samples": 8}, "critical", id="just enough"),
        pytest.param({"samples": 7}, "warning", id="too few"),
        pytest.param({"interval_low": 1.0}, "warning", id="an interval that reaches the ceiling"),
        pytest.param({"interval_low": None}, "warning", id="responses to one prompt alone"),
    ],
)
def test_few_samples_are_a_warning(columns: dict[str, Any], severity: str) -> None:
    run = run_of(scores=[began(), scored(10, 0.1), scored(20, 1.5, **columns)])
    assert only("KL006", run).severity == severity
