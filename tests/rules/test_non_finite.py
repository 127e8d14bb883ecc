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
        pytest.param(1, "info", id="one row at the end may be a batch"),
        pytest.param(4, "warning", id="four rows at the end may still come back"),
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


@pytest.mark.parametrize(
    ("norms", "severity"),
    [
        pytest.param([1.0] * 16, "excused", id="a finite gradient norm beside it"),
        pytest.param([1.0] * 15 + [NAN], "critical", id="a gradient norm that breaks too"),
        pytest.param([1.0] * 15 + [0.0], "critical", id="a gradient norm of zero"),
        pytest.param([1.0] * 10 + [None] * 6, "critical", id="no gradient norm beside it"),
    ],
)
@pytest.mark.parametrize(
    "column",
    [
        pytest.param("loss_total", id="a loss"),
        pytest.param("reward_raw_mean", id="a reward"),
        pytest.param("logp_chosen", id="a log-probability"),
        pytest.param("entropy", id="an entropy"),
    ],
)
def test_weights_that_have_a_gradient_are_not_lost(
    column: str, norms: list[float | None], severity: str
) -> None:
    finding = only("NUM001", log_of({column: GOOD + [NAN] * 6}, grad_norm=norms))
    excused = "critical" if column in ("loss_total", "reward_raw_mean") else "warning"
    assert finding.severity == (excused if severity == "excused" else severity)


@pytest.mark.parametrize("column", ["loss_total", "reward_raw_mean"])
@pytest.mark.parametrize(
    ("rows", "algorithm", "severity"),
    [
        pytest.param(6, "GRPO", "critical", id="that stays so is the end"),
        pytest.param(6, "KTO", "warning", id="of batches without one label is none"),
        pytest.param(4, "GRPO", "warning", id="of a log too short to tell is none yet"),
    ],
)
def test_what_training_aims_at_is_believed_beside_a_finite_gradient(
    column: str, rows: int, algorithm: str, severity: str
) -> None:
    run = log_of({column: [1.0] + [NAN] * rows}, grad_norm=[1.0] * (rows + 1), algorithm=algorithm)
    assert only("NUM001", run).severity == severity


@pytest.mark.parametrize(
    ("column", "severity"),
    [
        pytest.param("eval_entropy", "info", id="an evaluation's entropy"),
        pytest.param("eval_loss_total", "info", id="an evaluation's loss"),
        pytest.param("entropy", "info", id="an entropy beside a gradient"),
        pytest.param("logp_chosen", "info", id="a log-probability beside a gradient"),
        pytest.param("loss_total", "critical", id="the loss itself is no artefact"),
        pytest.param("reward_raw_mean", "critical", id="the reward neither"),
    ],
)
def test_what_was_never_finite_beside_a_gradient_was_never_computed(
    column: str, severity: str
) -> None:
    run = log_of({column: [NAN] * 10}, grad_norm=GOOD)
    assert only("NUM001", run).severity == severity


def test_what_was_never_finite_without_a_gradient_is_the_end() -> None:
    assert only("NUM001", run_of(entropy=[NAN] * 10)).severity == "critical"


@pytest.mark.parametrize(
    ("losses", "severity"),
    [
        pytest.param([1.0, NAN, NAN, NAN, NAN], "critical", id="four of five rows to the end"),
        pytest.param([1.0, 1.0, NAN, NAN, NAN], "critical", id="three of five rows to the end"),
        pytest.param([1.0, 1.0, 1.0, NAN, NAN, NAN], "warning", id="no more than half of the log"),
        pytest.param([1.0, NAN, NAN], "warning", id="two rows only"),
        pytest.param([NAN, NAN, NAN, NAN, 1.0, 1.0], "info", id="most of the log, not its end"),
    ],
)
def test_in_a_short_log_three_rows_that_are_most_of_it_are_lasting(
    losses: list[float], severity: str
) -> None:
    assert only("NUM001", run_of(loss_total=losses)).severity == severity


@pytest.mark.parametrize("loss", ["loss_total", "policy_loss"])
@pytest.mark.parametrize(
    ("column", "rows", "severity"),
    [
        pytest.param("grad_norm", 1, "warning", id="the gradient norm in one row"),
        pytest.param("grad_norm", 2, "critical", id="the gradient norm in two rows"),
        pytest.param("grad_norm", 4, "critical", id="the gradient norm in four rows"),
        pytest.param("entropy", 2, "critical", id="the entropy"),
        pytest.param("reward_raw_mean", 2, "critical", id="the reward"),
        pytest.param("dpo_margin", 2, "critical", id="the margins"),
        pytest.param("logp_chosen", 2, "critical", id="a log-probability"),
    ],
)
def test_a_loss_that_breaks_last_with_another_of_the_core_is_the_end(
    loss: str, column: str, rows: int, severity: str
) -> None:
    late = GOOD + [NAN] * rows
    finding = only("NUM001", log_of({loss: late, column: late}))
    assert finding.severity == severity
    assert finding.alone is (severity == "critical")
    assert finding.onset is not None
    assert finding.onset.step == 11
    assert finding.recovered_at is None


@pytest.mark.parametrize(
    ("columns", "severity"),
    [
        pytest.param({"grad_norm": GOOD + [NAN] * 4}, "info", id="a gradient norm alone"),
        pytest.param({"reward_raw_mean": GOOD + [NAN] * 4}, "info", id="a reward alone"),
        pytest.param({"loss_total": [*GOOD, NAN]}, "info", id="a loss in one row"),
        pytest.param({"loss_total": GOOD + [NAN] * 2}, "warning", id="a loss in two rows"),
        pytest.param(
            {"grad_norm": GOOD + [NAN] * 4, "entropy": GOOD + [NAN] * 4},
            "info",
            id="others without the loss",
        ),
        pytest.param(
            {"loss_total": [*GOOD, NAN], "kl_ref_token": [*GOOD, NAN]},
            "info",
            id="a KL is a measurement",
        ),
        pytest.param(
            {"loss_total": [*GOOD, NAN], "eval_loss_total": [*GOOD, NAN]},
            "info",
            id="an evaluation too",
        ),
        pytest.param(
            {"loss_total": [*GOOD, NAN], "clip_frac": [*GOOD, NAN]},
            "info",
            id="what is not of the core",
        ),
        pytest.param(
            {"loss_total": [NAN, *GOOD, NAN], "grad_norm": [NAN, *GOOD, NAN]},
            "info",
            id="finite in between",
        ),
        pytest.param(
            {"loss_total": [*GOOD, NAN, NAN, 1.0], "grad_norm": [*GOOD, NAN, NAN, 1.0]},
            "info",
            id="values that came back",
        ),
        pytest.param(
            {"loss_total": GOOD + [None] * 2 + [NAN], "entropy": [*GOOD, NAN, NAN, None]},
            "info",
            id="one before the other",
        ),
        pytest.param(
            {"loss_total": [*GOOD, 1.0, NAN], "grad_norm": [*GOOD, NAN, NAN]},
            "warning",
            id="together in one row",
        ),
        pytest.param(
            {"loss_total": [*GOOD, NAN], "entropy": [*GOOD, NAN], "grad_norm": [1.0] * 11},
            "info",
            id="one batch beside a finite gradient",
        ),
        pytest.param(
            {
                "loss_total": GOOD + [NAN] * 3,
                "entropy": GOOD + [NAN] * 3,
                "grad_norm": [1.0] * 13,
            },
            "warning",
            id="three batches beside a finite gradient",
        ),
    ],
)
def test_less_than_that_in_the_last_rows_is_not(
    columns: dict[str, list[float | None]], severity: str
) -> None:
    assert only("NUM001", log_of(columns)).severity == severity


def test_the_last_batches_of_one_label_are_information() -> None:
    late = GOOD + [NAN] * 3
    columns: dict[str, Any] = {"loss_total": late, "dpo_accuracy": late}
    run = log_of(columns, algorithm="KTO", grad_norm=[1.0] * 13)
    assert only("NUM001", run).severity == "info"


KTO: dict[str, Any] = {
    "algorithm": "KTO",
    "dpo_reward_chosen": [0.0, 0.1, NAN, 0.1, NAN, 0.2],
    "dpo_reward_rejected": [0.0, NAN, 0.1, NAN, 0.1, NAN],
    "dpo_margin": [0.0, NAN, NAN, NAN, NAN, NAN],
    "logp_rejected": [-9.0, NAN, -9.0, NAN, -9.0, NAN],
}


def test_a_kto_batch_without_a_label_is_information() -> None:
    finding = only("NUM001", run_of(**KTO, loss_total=[0.5] * 6))
    assert finding.severity == "info"
    assert finding.message.endswith("suspect: batches without one of the two labels, by design")
    paired = {**KTO, "algorithm": "DPO"}
    assert only("NUM001", run_of(**paired, loss_total=[0.5] * 6)).severity == "critical"


def test_a_class_that_came_back_still_tells_of_such_batches() -> None:
    run = run_of(
        algorithm="KTO",
        dpo_reward_chosen=[0.0, NAN, 0.1, 0.1, 0.1, 0.1],
        loss_total=[0.5] + [NAN] * 5,
        grad_norm=[30.0] * 6,
    )
    assert str(only("NUM001", run).args["suspect"]).startswith("a mean over batches without one")


def test_a_kto_loss_of_such_batches_is_a_warning_where_the_gradient_is_finite() -> None:
    run = run_of(**KTO, loss_total=[0.5] + [NAN] * 5, grad_norm=[30.0] * 6)
    finding = only("NUM001", run)
    assert finding.severity == "warning"
    assert "loss_total is nan at step 2, first of loss_total;" in finding.message
    assert finding.message.endswith(
        "a mean over batches without one of the two labels; the gradient is finite"
    )


FINE = [1.0] * 16
LATE = GOOD + [NAN] * 6


@pytest.mark.parametrize(
    ("columns", "suspect"),
    [
        pytest.param(
            {"grad_norm": LATE, "loss_total": [*GOOD, 1.0] + [NAN] * 5},
            "optimiser or precision",
            id="the gradient norm first",
        ),
        pytest.param(
            {"grad_norm": LATE, "loss_total": LATE},
            "precision or a bad batch",
            id="gradient norm and loss in one row",
        ),
        pytest.param(
            {"grad_norm": [*GOOD, 1.0] + [NAN] * 5, "logp_chosen": LATE},
            "data or labels, before the gradient",
            id="log-probabilities first",
        ),
        pytest.param(
            {"loss_total": LATE},
            "the log does not tell data from precision",
            id="a loss without a gradient norm",
        ),
        pytest.param(
            {"loss_total": [NAN] * 16},
            "precision, weights or data; the log begins with it",
            id="nothing was ever finite",
        ),
        pytest.param(
            {"kl_ref_token": LATE, "loss_total": [*GOOD, 1.0] + [NAN] * 5},
            "the KL, which overflowed before the loss that holds it",
            id="the KL before the loss",
        ),
        pytest.param(
            {"kl_ref_token": LATE, "loss_total": FINE},
            "the KL estimator (exp overflow, inf x 0 on padding), not the weights",
            id="the KL alone",
        ),
        pytest.param(
            {"logit_chosen": LATE, "logp_chosen": FINE},
            "the metric, nothing else broke",
            id="logits beside finite log-probabilities",
        ),
        pytest.param(
            {"sft_loss": LATE}, "labels that are all masked (-100)", id="a supervised loss alone"
        ),
        pytest.param(
            {"reward_std": [NAN] * 16},
            "groups of one response, whose spread is not defined",
            id="a spread from the start",
        ),
        pytest.param({"eval_loss_total": LATE}, "the evaluation or its logging", id="evaluations"),
        pytest.param(
            {"grad_norm": [*GOOD, INF, *GOOD]}, "an overflow that passed", id="one overflow"
        ),
        pytest.param(
            {"loss_total": LATE, "grad_norm": FINE},
            "a batch or a mean over nothing; the gradient is finite",
            id="a loss beside a finite gradient",
        ),
    ],
)
def test_what_broke_first_tells_where_to_look(
    columns: dict[str, list[float]], suspect: str
) -> None:
    assert only("NUM001", log_of(columns)).args["suspect"] == suspect


@pytest.mark.parametrize(
    ("normal", "last", "diverged"),
    [
        pytest.param(1.0, 10.1, True, id="ten times its normal and above ten"),
        pytest.param(0.9, 9.9, False, id="less than ten"),
        pytest.param(2.0, 19.9, False, id="less than ten times its normal"),
        pytest.param(0.0, 50.0, False, id="a loss whose normal is zero has no multiple"),
        pytest.param(-1.0, -11.0, True, id="a negative loss likewise"),
    ],
)
def test_a_loss_far_above_its_normal_in_the_row_before_is_a_divergence(
    normal: float, last: float, diverged: bool
) -> None:
    finding = only("NUM001", run_of(loss_total=[normal] * 5 + [last] + [INF] * 6))
    assert str(finding.args["suspect"]).startswith("a divergence") is diverged


@pytest.mark.parametrize(
    ("rows", "diverged"),
    [
        pytest.param(2, False, id="two rows are no normal"),
        pytest.param(3, True, id="three rows are"),
    ],
)
def test_a_normal_needs_three_rows(rows: int, diverged: bool) -> None:
    finding = only("NUM001", run_of(loss_total=[1.0] * rows + [30.0] + [INF] * 6))
    assert str(finding.args["suspect"]).startswith("a divergence") is diverged


def test_an_empty_log_is_not_judged() -> None:
    assert skipped("NUM001", run_of())


def test_the_limits_can_be_set() -> None:
    run = run_of(loss_total=GOOD + [NAN] * 4)
    assert judge("NUM001", run)
    assert only("NUM001", run, patience=3).severity == "critical"
    assert only("NUM001", run_of(loss_total=[1.0, NAN, NAN]), few=2).severity == "critical"
    assert only("NUM001", run_of(loss_total=[1.0, *[NAN] * 3]), few=4).severity == "warning"
    both = run_of(loss_total=GOOD + [NAN] * 2, grad_norm=GOOD + [NAN] * 2)
    assert only("NUM001", both, agreed=3).severity == "warning"
    run = run_of(loss_total=[1.0] * 5 + [5.0, INF])
    assert "divergence" not in only("NUM001", run).message
    assert "divergence" in only("NUM001", run, jump=4.0, large=4.0).message
