from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlhfdoctor.errors import DoctorError
from rlhfdoctor.replay import (
    BETA_RANGE,
    CONTROLLERS,
    Constants,
    Curve,
    above_for,
    above_spread,
    adaptive,
    below_start,
    exponential,
    in_band,
    normalised,
    oscillation,
    pushed,
    spread_over,
    variance,
    ziegler,
)

LOSSES = [2.1, 2.0, 1.9, 1.9, 1.8, 1.8, 1.7, 1.8, 1.7, 5.5, 4.2, 5.1]
KL = [0.03, 0.03, 0.04, 0.04, 0.04, 0.05, 0.05, 0.05, 0.05, 0.08, 0.09, 0.09]
"""A published demonstration of both alarms, twelve steps."""


def half(start: float) -> float:
    return start / 2


@pytest.mark.parametrize(
    ("values", "rows", "rings_at"),
    [
        pytest.param([6.0] * 9, 10, [], id="nine rows are not ten"),
        pytest.param([6.0] * 11, 10, [9, 10], id="it rings at the tenth and goes on"),
        pytest.param([5.0] * 12, 10, [], id="at the ceiling is not above it"),
        pytest.param([6.0] * 9 + [5.0] + [6.0] * 10, 10, [19], id="one row below begins anew"),
        pytest.param([1.0, 6.0, 1.0], 1, [1], id="a patience of one row"),
    ],
)
def test_a_value_above_for_some_rows(values: list[float], rows: int, rings_at: list[int]) -> None:
    seen = above_for(values, 5.0, rows)
    assert [place for place, value in enumerate(seen) if value is not None] == rings_at
    assert len(seen) == len(values)


@pytest.mark.parametrize(
    ("values", "rings_at"),
    [
        pytest.param([1.0, 3.0, 1.0, 3.0, 5.5], [4], id="2 + 3 x 1.155 is less than 5.5"),
        pytest.param([1.0, 3.0, 1.0, 3.0, 5.4], [], id="and more than 5.4"),
        pytest.param([1.0, 3.0, 1.0, 9.0], [], id="three rows are no warm-up of four"),
        pytest.param([1.0, 3.0, 1.0, 3.0, 9.0, 9.0, 9.0], [4, 5, 6], id="an explosion that lasts"),
        pytest.param([1.0, 3.0, 1.0, 3.0, 9.0, 2.0, 9.0], [4, 6], id="one that comes back"),
        pytest.param([2.0, 2.0, 2.0, 2.0, 2.0, 2.5], [5], id="any longer than equal ones"),
    ],
)
def test_a_length_above_the_spread_of_the_rows_before(
    values: list[float], rings_at: list[int]
) -> None:
    seen = above_spread(values, 3.0, 4)
    assert [place for place, value in enumerate(seen) if value is not None] == rings_at


@pytest.mark.parametrize(
    ("values", "seen"),
    [
        pytest.param([15.2, 14.8, 16.1, 7.5, 7.7], [None, None, None, 7.5, None], id="falls"),
        pytest.param([15.2, 14.8], [None, None], id="a start alone"),
        pytest.param([2.3, 1.8, 1.5, 1.4], [None] * 4, id="low from the start"),
        pytest.param([], [], id="nothing"),
    ],
)
def test_a_fall_is_held_against_the_start(values: list[float], seen: list[float | None]) -> None:
    assert below_start(values, half, 3) == seen


def test_the_published_losses_have_the_published_population_variances() -> None:
    seen = spread_over(LOSSES, 0.5, 10)
    assert seen[:9] == [None] * 9
    assert [round(value or 0.0, 3) for value in seen[9:]] == [1.210, 1.556, 2.154]
    assert variance(LOSSES[:10]) == pytest.approx(1.2096)
    assert spread_over(LOSSES, 1.3, 10)[9] is None


def test_the_published_adaptive_beta_ends_below_its_start_by_rounding_alone() -> None:
    curve = adaptive(KL, 0.05, Constants(start=0.1)).beta
    assert curve[:5] == pytest.approx([0.09, 0.081, 0.0729, 0.06561, 0.059049])
    assert min(curve) == pytest.approx(0.05905, abs=5e-6)
    assert curve[-1] == pytest.approx(0.0786, abs=5e-5)
    assert 0.8 * 0.05 > 0.04


def test_in_exact_arithmetic_the_same_beta_ends_above_its_start() -> None:
    exact: Any = Fraction
    names = {"start": "0.1", "low": "0.8", "high": "1.2", "down": "0.9", "up": "1.1"}
    held = {"beta_low": "0.01", "beta_high": "1"}
    constants = Constants(**{name: exact(text) for name, text in {**names, **held}.items()})
    curve = adaptive([exact(str(value)) for value in KL], exact("0.05"), constants).beta
    assert min(curve) == exact("0.081")
    assert curve[-1] == exact("0.1") * exact("0.81") * exact("1.331")
    assert curve[-1] > constants.start


def test_the_adaptive_beta_is_held_within_its_bounds_and_that_is_counted() -> None:
    up = adaptive([9.0] * 60, 2.0, Constants())
    assert up.beta[0] == pytest.approx(0.011)
    assert up.beta[-1] == 1.0
    assert up.saturated == sum(value == 1.0 for value in up.beta)
    assert adaptive([0.0] * 3, 2.0, Constants()) == ([0.01] * 3, 3, (0.01, 1.0))
    assert adaptive([1.6, 2.0, 2.4], 2.0, Constants()).beta == [0.01] * 3


def test_the_exponential_beta_is_the_series_computed_by_hand() -> None:
    curve = exponential([2.0, 3.0, 1.0, 2.5], 2.0, Constants())
    expected = [0.01, 0.012214027581601699, 0.01, 0.01 * math.exp(0.1)]
    assert curve.beta == pytest.approx(expected)
    assert curve.saturated == 0


def test_the_exponent_is_held_and_that_is_counted() -> None:
    curve = exponential([300.0, -300.0, 7.0], 2.0, Constants())
    assert curve.beta == pytest.approx([0.01 * math.e, 0.01, 0.01 * math.e])
    assert curve.saturated == 2
    assert exponential([300.0] * 500, 2.0, Constants()).beta[-1] == BETA_RANGE[1]


@pytest.mark.parametrize("kl", [-300.0, 1.5, 3.0, 300.0])
def test_one_row_of_the_exponential_is_the_first_of_the_series(kl: float) -> None:
    stated = Constants()
    assert pushed(stated.start, kl, 2.0, stated) == exponential([kl], 2.0, stated).beta[0]


def test_one_row_pushes_any_beta_by_at_most_the_exponent() -> None:
    assert pushed(0.0, 3.0, 2.0, Constants()) == 0.0
    assert pushed(1e40, 300.0, 2.0, Constants()) == pytest.approx(1e40 * math.e)


def test_zieglers_beta_is_the_series_computed_by_hand() -> None:
    curve = ziegler([3.0, 2.1, 1.0], 2.0, Constants(responses=1000))
    assert curve.beta == pytest.approx([0.0102, 0.0102 * 1.005, 0.0102 * 1.005 * 0.98])
    assert curve.saturated == 2


def test_zieglers_beta_stays_positive_however_many_responses_a_row_has() -> None:
    curve = ziegler([0.0] * 2000, 2.0, Constants(responses=10**9))
    assert curve.beta[1] == pytest.approx(0.01 * 0.8**2)
    assert curve.beta[-1] == BETA_RANGE[0]


def test_the_band_holds_both_its_ends() -> None:
    assert in_band([1.6, 2.4, 1.59, 2.41], 2.0, Constants()) == 0.5


def waves(period: int, rows: int = 120, noise: float = 0.0) -> list[float]:
    rng = random.Random(1)
    return [2 + math.sin(2 * math.pi * row / period) + rng.gauss(0, noise) for row in range(rows)]


@pytest.mark.parametrize("period", [4, 8, 25])
@pytest.mark.parametrize("name", CONTROLLERS)
def test_an_oscillation_is_found_by_its_period(name: str, period: int) -> None:
    curve = CONTROLLERS[name](waves(period, noise=0.1), 2.0, Constants(start=0.1))
    found = oscillation(curve.beta)
    assert found is not None
    assert abs(found[0] - period) <= period / 12
    assert 0.3 < found[1] <= 1.0


@pytest.mark.parametrize(
    "kl",
    [
        pytest.param([0.05 * row for row in range(120)], id="a steady climb"),
        pytest.param([2.0] * 120, id="nothing moves"),
        pytest.param([2.0] * 60 + [9.0] * 60, id="one jump"),
        pytest.param([random.Random(3).gauss(2, 1) for _ in range(4)], id="four rows"),
        pytest.param([7.0], id="one row"),
    ],
)
def test_what_does_not_repeat_has_no_period(kl: list[float]) -> None:
    assert oscillation(exponential(kl, 2.0, Constants()).beta) is None


def test_noise_has_a_period_in_fewer_than_one_of_twenty_runs() -> None:
    rng = random.Random(5)
    found = [
        oscillation(exponential([rng.gauss(2, 1) for _ in range(150)], 2.0, Constants()).beta)
        for _ in range(100)
    ]
    assert sum(item is not None for item in found) < 5


def test_a_reward_is_normalised_by_all_up_to_itself() -> None:
    assert normalised([1.0, 3.0, 2.0]) == pytest.approx([0.0, 1.0, 0.0])
    assert normalised([4.0, 4.0]) == [0.0, 0.0]


def test_nothing_lies_five_deviations_out_before_the_twenty_seventh_reward() -> None:
    assert max(normalised([0.0] * 25 + [1.0])) <= 5.0 < max(normalised([0.0] * 26 + [1.0]))


FINITE = st.lists(st.floats(-1e6, 1e6), max_size=60)


def beta_of(
    controller: Callable[[Sequence[float], float, Constants], Curve], values: Sequence[float]
) -> list[float]:
    return controller(values, 2.0, Constants()).beta


REPLAYS: dict[str, Callable[[Sequence[float]], list[Any]]] = {
    "KL": lambda values: above_for(values, 1.0, 3),
    "length": lambda values: above_spread(values, 1.0, 4),
    "perplexity": lambda values: below_start(values, half, 3),
    "loss variance": lambda values: spread_over(values, 0.5, 4),
    "normaliser": normalised,
    **{name: partial(beta_of, controller) for name, controller in CONTROLLERS.items()},
}


@pytest.mark.parametrize("name", REPLAYS)
def test_appending_rows_changes_nothing_that_was_said_before(name: str) -> None:
    @given(FINITE, FINITE)
    @settings(deadline=None, max_examples=60)
    def check(before: list[float], after: list[float]) -> None:
        said = REPLAYS[name](before)
        assert len(said) == len(before)
        assert REPLAYS[name]([*before, *after])[: len(before)] == said

    check()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("kl_ceiling", 0.0),
        ("kl_ceiling", math.nan),
        ("kl_rows", 0),
        ("warmup", 1),
        ("window", 1),
        ("perplexity_share", 1.1),
        ("target", -1.0),
        ("start", 0.0),
        ("eta", math.inf),
        ("low", 1.1),
        ("high", 0.9),
        ("horizon", 0),
        ("clip", math.nan),
        ("keep", 0),
        ("lr_share", 0.0),
    ],
)
def test_a_constant_outside_its_range_is_refused_by_its_option(name: str, value: float) -> None:
    with pytest.raises(DoctorError, match=f"--{name.replace('_', '-')}") as caught:
        Constants(**{name: value})  # type: ignore[arg-type]
    assert caught.value.hint.startswith("from ")


@pytest.mark.parametrize(
    ("name", "value", "hint"),
    [
        ("kl_rows", 1_000_001, "from 1 to 1000000"),
        ("horizon", 0, "from 1 to 1000000000"),
        ("eta", 101.0, "from 1e-06 to 100"),
    ],
)
def test_a_range_is_told_in_numbers_that_can_be_typed(name: str, value: Any, hint: str) -> None:
    with pytest.raises(DoctorError) as caught:
        Constants(**{name: value})
    assert caught.value.hint == hint


@pytest.mark.parametrize(
    ("stated", "told"),
    [
        ({"start": 5.0}, "--start 5 lies outside --beta-low 0.01 to --beta-high 1"),
        ({"beta_low": 0.05}, "--start 0.01 lies outside --beta-low 0.05 to --beta-high 1"),
    ],
    ids=("above", "below"),
)
def test_a_start_outside_the_adaptive_bounds_is_refused(
    stated: dict[str, float], told: str
) -> None:
    with pytest.raises(DoctorError, match=told):
        Constants(**stated)  # type: ignore[arg-type]


def test_a_start_at_a_bound_is_taken() -> None:
    assert Constants(start=1.0).start == Constants().beta_high


def test_a_least_beta_above_the_greatest_is_refused() -> None:
    with pytest.raises(DoctorError, match="--beta-low 2 lies above"):
        Constants(beta_low=2.0)
