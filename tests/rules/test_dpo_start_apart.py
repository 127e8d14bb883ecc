from dataclasses import replace

import pytest

from tests.builders import clear, only, run_of, skipped
from tests.rules.shapes import NAN, logged

SICK = (run_of(dpo_reward_chosen=[9.8] * 4),)


@pytest.mark.parametrize(
    ("first", "second", "apart"),
    [
        pytest.param(5.1, 5.0, True, id="more than five and it stands"),
        pytest.param(-5.1, -5.0, True, id="less than minus five and it stands"),
        pytest.param(4.9, 4.9, False, id="just less than five"),
        pytest.param(0.0, 0.0, False, id="zero, as it should be"),
        pytest.param(-5.1, -10.0, True, id="a second row of not quite twice the first"),
        pytest.param(-5.1, -10.4, False, id="a second row of more than twice: on its way"),
        pytest.param(9.8, -9.8, False, id="rows of either sign are noise"),
    ],
)
def test_a_first_row_far_from_zero(first: float, second: float, apart: bool) -> None:
    run = run_of(dpo_reward_chosen=[first, second, 1.0])
    assert clear("DPO008", run) is not apart


@pytest.mark.parametrize(
    ("steps", "looks"),
    [
        pytest.param([1, 2, 3], True, id="every update"),
        pytest.param([10, 20, 30], True, id="every tenth update"),
        pytest.param([1, 10, 20], True, id="the first and every tenth update"),
        pytest.param([0, 5, 10], True, id="an update of zero"),
        pytest.param([25, 50, 75], True, id="every 25th update"),
        pytest.param([26, 52, 78], False, id="rows that are the mean of more updates"),
        pytest.param([11, 21, 31], False, id="a log whose first row is missing"),
    ],
)
def test_only_the_beginning_of_a_run_is_judged(steps: list[int], looks: bool) -> None:
    run = run_of(steps=steps, dpo_reward_chosen=[9.8, 9.7, 9.6])
    assert skipped("DPO008", run) is not looks


@pytest.mark.parametrize(
    ("first", "looks"),
    [
        pytest.param(9, True, id="0.09 of an epoch"),
        pytest.param(11, False, id="0.11 of an epoch"),
    ],
)
def test_rows_without_a_step_count_in_epochs(first: int, looks: bool) -> None:
    run = run_of(steps=[first, first + 1], dpo_reward_chosen=[9.8, 9.7])
    assert skipped("DPO008", replace(run, step_unit="row")) is not looks


def test_rows_without_step_and_epoch_are_not_judged() -> None:
    run = replace(run_of(dpo_reward_chosen=[9.8, 9.7]), step_unit="row")
    none = run.metrics.with_columns(epoch=None)
    assert skipped("DPO008", replace(run, metrics=none))


def test_it_is_a_warning_from_the_first_row() -> None:
    finding = only("DPO008", run_of(steps=[10, 20, 30], dpo_reward_chosen=[9.8, 9.9, 10.0]))
    assert finding.severity == "warning"
    assert finding.onset is not None
    assert (finding.onset.low, finding.onset.step, finding.onset.high) == (10, 10, 10)
    evidence = finding.evidence[0]
    assert logged(evidence, "dpo_reward_chosen", "nats*beta")
    assert (evidence.observed, evidence.limit_low, evidence.limit_high) == (9.8, None, 5.0)
    assert "the first logged row, at step 10, has a chosen reward of 9.8" in finding.message
    assert "9.8 in the first row" in finding.summary


@pytest.mark.parametrize(
    ("beta", "apart"),
    [
        pytest.param(0.6, True, id="thirteen at a beta of 0.6 are 22 nats"),
        pytest.param(0.7, False, id="thirteen at a beta of 0.7 are 19 nats"),
        pytest.param(0.01, True, id="thirteen at a beta of 0.01"),
        pytest.param(0.0, True, id="a beta of zero is not known"),
    ],
)
def test_with_beta_known_it_must_be_far_in_nats_too(beta: float, apart: bool) -> None:
    run = run_of(dpo_reward_chosen=[13.0] * 3, config={"kl_coef": beta})
    assert clear("DPO008", run) is not apart


def test_a_small_beta_lowers_no_floor() -> None:
    assert clear("DPO008", run_of(dpo_reward_chosen=[4.0] * 3, config={"kl_coef": 0.01}))


def test_a_reward_without_a_reference_is_not_judged() -> None:
    run = run_of(dpo_reward_chosen=[-9.0] * 6, units={"dpo_reward_chosen": "unknown"})
    assert skipped("DPO008", run)


def test_two_finite_rows_are_needed() -> None:
    assert skipped("DPO008", run_of(dpo_reward_chosen=[9.8]))
    assert skipped("DPO008", run_of(dpo_reward_chosen=[9.8, NAN, NAN]))


def test_the_limits_can_be_set() -> None:
    run = run_of(dpo_reward_chosen=[3.0, 9.5])
    assert clear("DPO008", run)
    assert only("DPO008", run, apart=2.0, drift=4.0)
    assert clear("DPO008", run_of(dpo_reward_chosen=[9.8] * 2, config={"kl_coef": 0.1}), nats=99.0)
    late = run_of(steps=[40, 80], dpo_reward_chosen=[9.8] * 2)
    assert skipped("DPO008", late)
    assert only("DPO008", late, updates=50)
    rows = replace(run_of(steps=[30, 60], dpo_reward_chosen=[9.8] * 2), step_unit="row")
    assert only("DPO008", rows, epoch=0.4)
