from dataclasses import replace
from typing import Any

import polars as pl
import pytest

from rlhfdoctor.cost import cost, spent
from rlhfdoctor.model import Cost, Onset
from tests.builders import run_of

HOUR = [3600.0] * 10


def onset(step: int) -> Onset:
    return Onset(step, step, step)


def of(at: int | None, price: float | None = None, **columns: Any) -> Cost:
    found = cost(run_of(**columns), None if at is None else onset(at), price)
    assert found is not None
    return found


def test_steps_after_the_onset_are_lost() -> None:
    found = of(4, loss_total=[1.0] * 10)
    assert (found.steps_after_onset, found.fraction) == (6, 0.6)
    assert (found.hours, found.gpu_hours, found.money) == (None, None, None)


def test_a_run_that_is_not_lost_and_logs_no_groups_costs_nothing() -> None:
    assert cost(run_of(loss_total=[1.0] * 10), None) is None
    assert cost(run_of(), onset(1)) is None


@pytest.mark.parametrize(
    ("config", "gpu_hours"),
    [
        pytest.param({"gpus": 8}, 48.0, id="with the number of GPUs"),
        pytest.param({}, None, id="without it"),
    ],
)
def test_hours_come_from_the_time_of_a_step(
    config: dict[str, Any], gpu_hours: float | None
) -> None:
    found = of(4, step_time=HOUR, config=config)
    assert found.hours == 6.0
    assert found.gpu_hours == gpu_hours


def test_a_row_of_several_steps_costs_all_of_them() -> None:
    found = of(20, step_time=[3600.0] * 5, steps=[10, 20, 30, 40, 50])
    assert (found.steps_after_onset, found.hours) == (30, 30.0)


def test_an_onset_between_two_rows_costs_the_steps_after_it() -> None:
    found = of(25, step_time=[3600.0] * 5, steps=[10, 20, 30, 40, 50])
    assert (found.steps_after_onset, found.hours) == (25, 25.0)


def test_groups_without_spread_before_the_onset_are_told_apart_from_what_came_after() -> None:
    shares = [0.25, 0.25, 0.75, 0.75, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]
    found = of(5, frac_reward_zero_std=shares, step_time=HOUR, config={"gpus": 2})
    assert found.silent_fraction == 0.5
    assert found.silent_gpu_hours == pytest.approx(0.5 * 4 * 2)
    assert found.gpu_hours == 10.0


def test_a_sound_run_may_have_groups_without_signal() -> None:
    found = of(None, frac_reward_zero_std=[0.4] * 10)
    assert found.steps_after_onset == 0
    assert found.silent_fraction == pytest.approx(0.4)


def test_money_is_counted_only_where_a_price_is_given() -> None:
    shares = [0.5] * 10
    columns: dict[str, Any] = {"frac_reward_zero_std": shares, "step_time": HOUR}
    assert of(4, config={"gpus": 1}, **columns).money is None
    assert of(4, 2.0, config={"gpus": 1}, **columns).money == pytest.approx(2.0 * (6 + 0.5 * 3))
    unknown = of(4, 2.0, **columns)
    assert unknown.money is None
    assert unknown.unpriced == "the configuration tells no number of GPUs"
    assert of(4, 2.0, loss_total=[1.0] * 10).unpriced == (
        "the configuration tells no number of GPUs and the log has no clock"
    )


def test_times_in_another_unit_are_no_hours() -> None:
    assert of(4, step_time=[0.0] * 10, config={"gpus": 1}).hours is None


@pytest.mark.parametrize(
    ("clock", "hours"),
    [
        pytest.param("1800.0 * step", 3.0, id="that goes on"),
        pytest.param("3600.0 * (step % 3)", None, id="that goes back"),
        pytest.param("null", None, id="that was not logged"),
    ],
)
def test_hours_come_from_a_clock_where_no_step_is_timed(clock: str, hours: float | None) -> None:
    run = run_of(loss_total=[1.0] * 10)
    timed = run.observations.with_columns(pl.sql_expr(clock).cast(pl.Float64).alias("wall_time"))
    found = cost(replace(run, observations=timed), onset(4))
    assert found is not None
    assert found.hours == hours


def test_the_hours_of_a_whole_log_need_a_clock_and_its_gpu_hours_their_number() -> None:
    assert spent(run_of(step_time=HOUR, config={"gpus": 8})) == (9.0, 72.0)
    assert spent(run_of(step_time=HOUR)) == (9.0, None)
    assert spent(run_of(loss_total=[1.0] * 3, config={"gpus": 8})) == (None, None)
    assert spent(run_of(step_time=HOUR[:1])) == (None, None)
    assert spent(run_of()) == (None, None)
