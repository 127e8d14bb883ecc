import pytest

from tests.builders import clear, only, run_of, skipped
from tests.rules.shapes import NAN, log_of, logged, silent

SICK = (run_of(dpo_reward_chosen=[-2000.0] * 5),)


@pytest.mark.parametrize(
    "column",
    [
        pytest.param("dpo_reward_chosen", id="chosen"),
        pytest.param("dpo_reward_rejected", id="rejected"),
    ],
)
@pytest.mark.parametrize(
    ("values", "alarms"),
    [
        pytest.param([101.0] * 6, True, id="above a hundred from the start"),
        pytest.param([-101.0] * 6, True, id="below minus a hundred from the start"),
        pytest.param([99.0] * 6, False, id="just below a hundred from the start"),
        pytest.param([0.0] * 5 + [-999.0] * 5, False, id="just less than a thousand later"),
        pytest.param([0.0] * 5 + [-1001.0] * 5, True, id="more than a thousand later"),
        pytest.param([0.0] * 5 + [1001.0] * 5, True, id="more than a thousand later, rising"),
        pytest.param([-500.0, *[0.0] * 5], False, id="one wild first row"),
        pytest.param([0.0] * 5 + [-5000.0] * 5 + [-2.0] * 5, False, id="a jump that passed"),
        pytest.param([NAN] * 6, False, id="NaN has no size"),
        pytest.param([-2.0, -3.0, -4.0, -8.0], False, id="an ordinary run"),
    ],
)
def test_rewards_of_an_impossible_size(column: str, values: list[float], alarms: bool) -> None:
    assert silent("DPO007", log_of({column: values})) is not alarms


def test_from_the_start_it_dates_to_the_first_row() -> None:
    run = run_of(steps=[10, 20, 30], dpo_reward_chosen=[-1500.0, -1600.0, -1700.0])
    finding = only("DPO007", run)
    assert finding.severity == "warning"
    assert finding.onset is not None
    assert (finding.onset.low, finding.onset.step, finding.onset.high) == (10, 10, 10)
    evidence = finding.evidence[0]
    assert logged(evidence, "dpo_reward_chosen", "nats*beta")
    assert (evidence.limit_low, evidence.limit_high) == (-100.0, None)
    assert "dpo_reward_chosen is -1600 nats*beta in the first rows" in finding.message
    assert finding.summary == "dpo_reward_chosen -1.6e+03 nats*beta"


def test_later_it_dates_to_where_it_grew() -> None:
    finding = only("DPO007", run_of(dpo_reward_rejected=[0.0] * 10 + [2000.0] * 10))
    assert finding.onset is not None
    assert 9 <= finding.onset.step <= 11
    assert "2000 nats*beta in the last rows" in finding.message
    assert (finding.evidence[0].limit_low, finding.evidence[0].limit_high) == (None, 1000.0)


@pytest.mark.parametrize(
    ("rows", "looks"),
    [
        pytest.param(2, False, id="two rows are too few"),
        pytest.param(3, True, id="three rows are enough"),
    ],
)
def test_three_rows_are_needed(rows: int, looks: bool) -> None:
    assert skipped("DPO007", run_of(dpo_reward_chosen=[0.1] * rows)) is not looks


def test_a_reward_without_a_reference_is_not_judged() -> None:
    run = run_of(dpo_reward_chosen=[-2000.0] * 6, units={"dpo_reward_chosen": "unknown"})
    assert skipped("DPO007", run)


def test_the_limits_can_be_set() -> None:
    assert only("DPO007", run_of(dpo_reward_chosen=[-60.0] * 6), at_start=50.0)
    assert only("DPO007", run_of(dpo_reward_chosen=[0.0] * 6 + [-600.0] * 6), later=500.0)
    assert clear("DPO007", run_of(dpo_reward_chosen=[-500.0] + [0.1] * 5))
    assert only("DPO007", run_of(dpo_reward_chosen=[-500.0] + [0.1] * 5), rows=1)
    long = run_of(dpo_reward_chosen=[-500.0] * 2 + [0.1] * 10)
    assert only("DPO007", long, rows=2)
    assert clear("DPO007", run_of(dpo_reward_chosen=[-500.0] * 3 + [0.1] * 10), rows=8)
