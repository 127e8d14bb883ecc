from typing import Any

import pytest

from rlhfdoctor.vocabulary import METRICS
from tests.builders import clear, judge, only, run_of, skipped
from tests.rules.shapes import NAN, log_of, logged

INF = float("inf")
GOOD = [1.0] * 10


@pytest.mark.parametrize(
    ("rows_broken", "severity"),
    [
        pytest.param(4, "info", id="four rows at the end may still come back"),
        pytest.param(5, "critical", id="five rows at the end are the end of the run"),
    ],
)
def test_five_rows_at_the_end_are_lasting(rows_broken: int, severity: str) -> None:
    finding = only("NUM001", run_of(loss_total=GOOD + [NAN] * rows_broken))
    assert finding.severity == severity
    assert finding.alone is (severity == "critical")


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        pytest.param(NAN, "nan", id="NaN"),
        pytest.param(INF, "inf", id="infinity"),
        pytest.param(-INF, "-inf", id="minus infinity"),
    ],
)
def test_it_is_dated_at_the_first_such_value(value: float, shown: str) -> None:
    finding = only("NUM001", run_of(steps=range(5, 85, 5), loss_total=GOOD + [value] * 6))
    assert finding.severity == "critical"
    assert finding.recovered_at is None
    assert finding.onset is not None
    assert (finding.onset.low, finding.onset.step, finding.onset.high) == (55, 55, 55)
    evidence = finding.evidence[0]
    assert logged(evidence, "loss_total", "loss")
    assert evidence.where.line == 11
    assert (evidence.first_step, evidence.last_step) == (55, 80)
    assert f"loss_total is {shown} at step 55, first of loss_total;" in finding.message
    assert "not finite in 6 rows" in finding.message
    assert f"loss_total is {shown} from step 55" in finding.summary


@pytest.mark.parametrize(
    ("column", "severity"),
    [
        pytest.param("loss_total", "critical", id="the loss ends the run"),
        pytest.param("grad_norm", "critical", id="the gradient norm ends the run"),
        pytest.param("reward_raw_mean", "critical", id="the reward ends the run"),
        pytest.param("entropy", "critical", id="the entropy ends the run"),
        pytest.param("dpo_margin", "critical", id="the margin ends the run"),
        pytest.param("logp_chosen", "critical", id="a log-probability ends the run"),
        pytest.param("kl_ref_token", "warning", id="a KL per token is a fault of the estimator"),
        pytest.param("kl_ref_response", "warning", id="a KL per response likewise"),
        pytest.param("eval_loss_total", "warning", id="an evaluation is a fault of measurement"),
        pytest.param("clip_frac", "info", id="what is not at the core is information"),
        pytest.param("kl_unknown", "info", id="a KL of unknown unit is not at the core"),
        pytest.param("eval_clip_frac", "info", id="its evaluation neither"),
    ],
)
def test_only_the_core_of_training_ends_a_run(column: str, severity: str) -> None:
    finding = only("NUM001", log_of({column: GOOD + [NAN] * 6}))
    assert finding.severity == severity
    assert finding.evidence[0].subject == column
    assert finding.evidence[0].unit


def test_one_part_of_a_metric_is_judged_like_the_metric() -> None:
    run = log_of({"reward_component_mean[format]": GOOD + [NAN] * 6})
    assert only("NUM001", run).severity == "info"


def test_values_that_came_back_are_information_since_the_step_where_they_did() -> None:
    finding = only("NUM001", run_of(grad_norm=[*GOOD, INF, 1.0, INF, *GOOD]))
    assert finding.severity == "info"
    assert finding.recovered_at == 14
    assert not finding.alone
    assert finding.onset is not None
    assert finding.onset.step == 11
    assert (finding.evidence[0].first_step, finding.evidence[0].last_step) == (11, 14)
    assert "not finite in 2 rows" in finding.message


def test_values_that_broke_last_have_not_come_back() -> None:
    finding = only("NUM001", run_of(grad_norm=[*GOOD, INF, *GOOD, INF]))
    assert finding.severity == "info"
    assert finding.recovered_at is None
    assert finding.evidence[0].last_step == 22


@pytest.mark.parametrize(
    ("broken", "good", "severity"),
    [
        pytest.param(5, 5, "critical", id="half of the rows since the first"),
        pytest.param(5, 6, "info", id="less than half of them"),
        pytest.param(4, 4, "info", id="half of them, but only four"),
    ],
)
def test_half_of_the_rows_since_the_first_are_lasting(
    broken: int, good: int, severity: str
) -> None:
    run = run_of(loss_total=GOOD + [NAN] * broken + [1.0] * good)
    finding = only("NUM001", run)
    assert finding.severity == severity
    assert (finding.recovered_at is None) is (severity == "critical")


def test_a_finite_row_now_and_then_is_no_recovery() -> None:
    finding = only("NUM001", run_of(loss_total=GOOD + [NAN, 1.0] * 10))
    assert finding.severity == "critical"
    assert finding.recovered_at is None
    assert "not finite in 10 rows" in finding.message


def test_only_metrics_of_the_same_gravity_are_named() -> None:
    run = run_of(
        clip_frac=[NAN] * 21,
        eval_loss_total=[1.0] * 5 + [NAN] * 16,
        kl_ref_token=[NAN] + [1.0] * 20,
        loss_total=[1.0] * 12 + [NAN] * 9,
        grad_norm=GOOD + [NAN] * 11,
    )
    assert "first of grad_norm, loss_total;" in only("NUM001", run).message
    run = run_of(
        clip_frac=[NAN] * 21,
        eval_loss_total=[1.0] * 5 + [NAN] * 16,
        kl_ref_token=GOOD + [NAN] * 11,
        grad_norm=[NAN] + [1.0] * 20,
    )
    assert "first of eval_loss_total, kl_ref_token;" in only("NUM001", run).message


def test_what_ended_the_run_is_among_ten_pieces_of_evidence() -> None:
    others = [name for name, metric in METRICS.items() if not metric.core][:15]
    columns: dict[str, Any] = dict.fromkeys(others, [NAN] + [1.0] * 20)
    finding = only("NUM001", log_of(columns, loss_total=GOOD + [NAN] * 11))
    assert finding.evidence[0].subject == "loss_total"
    assert len(finding.evidence) == 10


def test_five_metrics_are_named() -> None:
    columns: dict[str, Any] = dict.fromkeys(sorted(METRICS), [NAN] + [1.0] * 20)
    first = ", ".join(sorted(METRICS)[:5])
    assert f"first of {first};" in only("NUM001", log_of(columns)).message


def test_what_lasts_is_told_before_what_broke_first() -> None:
    run = run_of(
        kl_ref_token=[NAN, *GOOD, *GOOD],
        grad_norm=GOOD + [NAN] * 11,
        clip_frac=[1.0] * 5 + [NAN] * 16,
    )
    finding = only("NUM001", run)
    assert finding.severity == "critical"
    assert finding.summary == "grad_norm is nan from step 11"
    assert finding.onset is not None
    assert finding.onset.step == 11
    subjects = {item.subject for item in finding.evidence}
    assert subjects == {"kl_ref_token", "clip_frac", "grad_norm"}


def test_a_measurement_that_lasts_is_told_before_what_came_back() -> None:
    run = run_of(grad_norm=[INF, *GOOD, *GOOD], kl_ref_token=GOOD + [NAN] * 11)
    finding = only("NUM001", run)
    assert finding.severity == "warning"
    assert finding.summary == "kl_ref_token is nan from step 11"
    assert finding.recovered_at is None
    assert [item.subject for item in finding.evidence] == ["kl_ref_token", "grad_norm"]


def test_in_a_log_shorter_than_the_limit_every_row_counts() -> None:
    assert only("NUM001", run_of(loss_total=[NAN])).severity == "critical"
    assert only("NUM001", run_of(loss_total=[1.0, NAN])).severity == "info"


def test_rows_without_the_metric_do_not_count() -> None:
    sparse: list[float | None] = [1.0, None, NAN, None, NAN, None, NAN, None, NAN, None, NAN, None]
    assert only("NUM001", run_of(loss_total=sparse)).severity == "critical"


@pytest.mark.parametrize(
    "values",
    [
        pytest.param([1.0] * 10, id="ordinary numbers"),
        pytest.param([0.0] * 10, id="zeros throughout"),
        pytest.param([1e308] * 10, id="huge numbers"),
        pytest.param([1.0, None] * 5, id="rows that are not there"),
    ],
)
def test_what_is_finite_is_clear(values: list[float | None]) -> None:
    assert clear("NUM001", run_of(loss_total=values))


def test_an_empty_log_is_not_judged() -> None:
    assert skipped("NUM001", run_of())


def test_the_limits_can_be_set() -> None:
    run = run_of(loss_total=GOOD + [NAN] * 4)
    assert judge("NUM001", run)
    assert only("NUM001", run, patience=3).severity == "critical"
