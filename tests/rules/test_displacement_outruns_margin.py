import pytest

from tests.builders import clear, only, run_of, skipped
from tests.rules.shapes import NAN, log_of, logged, silent

FELL = [0.0, -1.0, -3.0, *[-12.0] * 9]
SICK = (run_of(dpo_reward_chosen=FELL, dpo_margin=[1.0] * 12),)


@pytest.mark.parametrize(
    ("chosen", "margin", "alarms"),
    [
        pytest.param(-5.1, 1.0, True, id="just more than five times the margin"),
        pytest.param(-5.1, 1.03, False, id="just less than five times the margin"),
        pytest.param(-4.9, 0.1, False, id="less than five nats*beta are no matter"),
        pytest.param(-5.1, -2.0, True, id="a margin that is negative"),
        pytest.param(9.0, 1.0, False, id="a reward that rises"),
        pytest.param(-1.0, 2.0, False, id="an ordinary run"),
        pytest.param(-4.5, 3.8, False, id="a long ordinary run"),
        pytest.param(-2.0, 1.0, False, id="a fall of twice the margin"),
        pytest.param(-0.1, 0.09, False, id="a fall as large as the margin"),
        pytest.param(NAN, 1.0, False, id="NaN has not fallen"),
    ],
)
@pytest.mark.parametrize(
    "split", [pytest.param("", id="in training"), pytest.param("eval_", id="in evaluation")]
)
def test_a_fall_of_five_times_the_margin(
    split: str, chosen: float, margin: float, alarms: bool
) -> None:
    columns = {
        f"{split}dpo_reward_chosen": [0.0] * 8 + [chosen] * 6,
        f"{split}dpo_margin": [0.0] * 8 + [margin] * 6,
    }
    assert silent("DPO004", log_of(columns)) is not alarms


def test_it_is_a_warning_dated_where_the_fall_begins() -> None:
    run = run_of(
        dpo_reward_chosen=[0.0] * 10 + [-2.0 * index for index in range(1, 11)],
        dpo_reward_rejected=[0.0] * 10 + [-2.1 * index for index in range(1, 11)],
    )
    finding = only("DPO004", run)
    assert finding.severity == "warning"
    assert finding.onset is not None
    assert 9 <= finding.onset.step <= 13
    evidence = finding.evidence[0]
    assert logged(evidence, "dpo_reward_chosen", "nats*beta")
    assert evidence.limit_low == -5.0
    assert evidence.observed == -16.0
    assert (evidence.first_step, evidence.last_step) == (13, 20)
    assert "falls from 0 to -16 nats*beta for a margin of 0.8:" in finding.message
    assert finding.summary == "chosen reward 0 -> -16 for a margin of 0.8"


def test_two_evaluations_are_enough() -> None:
    run = run_of(
        steps=[100, 900],
        eval_dpo_reward_chosen=[0.0, -32.0],
        eval_dpo_reward_rejected=[0.0, -34.0],
    )
    finding = only("DPO004", run)
    assert finding.severity == "warning"
    assert finding.onset is not None
    assert (finding.onset.low, finding.onset.step, finding.onset.high) == (101, 900, 900)
    assert logged(finding.evidence[0], "eval_dpo_reward_chosen", "nats*beta")
    assert "to -32 nats*beta in evaluation for a margin of 2:" in finding.message
    assert skipped("DPO004", run_of(eval_dpo_reward_chosen=[-32.0], eval_dpo_margin=[2.0]))


def test_an_evaluation_that_recovered_is_none() -> None:
    run = run_of(eval_dpo_reward_chosen=[0.0, -9.0, -1.0], eval_dpo_margin=[0.0, 0.1, 0.5])
    assert clear("DPO004", run)


@pytest.mark.parametrize(
    ("beta", "chosen", "alarms"),
    [
        pytest.param(0.02, -1.1, True, id="55 nats at a beta of 0.02"),
        pytest.param(0.02, -0.9, False, id="45 nats at a beta of 0.02"),
        pytest.param(1.0, -20.0, False, id="20 nats at a beta of 1"),
        pytest.param(0.0, -5.1, True, id="a beta of zero is not known"),
    ],
)
def test_with_beta_known_the_fall_is_counted_in_nats(
    beta: float, chosen: float, alarms: bool
) -> None:
    run = run_of(
        dpo_reward_chosen=[0.0] * 8 + [chosen] * 6,
        dpo_margin=[0.01] * 14,
        config={"kl_coef": beta},
    )
    assert clear("DPO004", run) is not alarms


@pytest.mark.parametrize(
    ("rows", "looks"),
    [
        pytest.param(7, False, id="seven rows of training are too few"),
        pytest.param(8, True, id="eight rows of training are enough"),
    ],
)
def test_eight_rows_of_training_are_needed(rows: int, looks: bool) -> None:
    run = run_of(dpo_reward_chosen=[0.1] * rows, dpo_margin=[0.1] * rows)
    assert skipped("DPO004", run) is not looks


@pytest.mark.parametrize(
    ("last", "alarms"),
    [
        pytest.param(2, False, id="two of the last five rows are no median"),
        pytest.param(3, True, id="three of the last five rows are"),
    ],
)
def test_the_last_five_rows_are_judged(last: int, alarms: bool) -> None:
    run = run_of(dpo_reward_chosen=[0.0] * 10 + [-9.0] * last, dpo_margin=[0.1] * (10 + last))
    assert clear("DPO004", run) is not alarms


@pytest.mark.parametrize(
    "unit",
    [
        pytest.param("unknown", id="a reward without a reference"),
        pytest.param("nats/response", id="a log-ratio without beta"),
    ],
)
def test_what_is_no_log_ratio_times_beta_is_not_judged(unit: str) -> None:
    run = run_of(dpo_reward_chosen=FELL, dpo_margin=[1.0] * 12, units={"dpo_reward_chosen": unit})
    assert skipped("DPO004", run)


def test_a_margin_is_needed() -> None:
    assert skipped("DPO004", run_of(dpo_reward_chosen=FELL))
    assert skipped("DPO004", run_of(dpo_reward_chosen=[0.0] * 12, dpo_margin=[0.0] * 12))


def test_the_limits_can_be_set() -> None:
    run = run_of(dpo_reward_chosen=[0.0] * 8 + [-3.0] * 6, dpo_margin=[1.0] * 14)
    assert clear("DPO004", run)
    assert only("DPO004", run, times=2.0, fall=2.0)
    assert skipped("DPO004", run_of(dpo_reward_chosen=[0.1] * 4, dpo_margin=[0.1] * 4))
    assert clear("DPO004", run_of(dpo_reward_chosen=[0.1] * 4, dpo_margin=[0.1] * 4), rows=4)
    known = run_of(
        dpo_reward_chosen=[0.0] * 8 + [-3.0] * 6, dpo_margin=[0.1] * 14, config={"kl_coef": 0.1}
    )
    assert clear("DPO004", known)
    assert only("DPO004", known, nats=20.0)
    assert only(
        "DPO004", run_of(dpo_reward_chosen=[0.0] * 9 + [-9.0], dpo_margin=[0.1] * 10), patience=1
    )
