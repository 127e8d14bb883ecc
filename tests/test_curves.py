import math
import re
import statistics
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlhfdoctor.curves import (
    QUANTITIES,
    WINDOW,
    Line,
    bounds,
    cells,
    interval,
    marks,
    mean,
    moving_average,
    moving_percentile,
    panels,
    smoothed,
    thinned,
    unlogged,
)
from rlhfdoctor.doctor import diagnose
from rlhfdoctor.export import openmetrics
from rlhfdoctor.model import Checkpoint, Onset
from rlhfdoctor.reports import Page
from rlhfdoctor.reports._curves import curve_lines
from rlhfdoctor.reports._svg import PIXELS
from rlhfdoctor.reports.html import html
from rlhfdoctor.vocabulary import METRICS
from tests.builders import run_of

FINITE = st.floats(allow_nan=False, allow_infinity=False)
ROWS = st.lists(st.tuples(st.integers(0, 10**12), FINITE), min_size=1, max_size=60).map(
    lambda rows: sorted(dict(rows).items())
)


def line_of(values: Sequence[float], steps: Sequence[int] | None = None) -> Line:
    return Line("a", "a", tuple(steps or range(1, len(values) + 1)), tuple(values))


@pytest.mark.parametrize(
    ("values", "averages"),
    [
        pytest.param([], [], id="no rows"),
        pytest.param([3.0], [3.0], id="one row"),
        pytest.param([2.0, 4.0], [2.0, 3.0], id="fewer rows than the window take what there is"),
        pytest.param([3.0, 6.0, 9.0, 0.0], [3.0, 4.5, 6.0, 5.0], id="the window forgets"),
        pytest.param([-1.0, -3.0, -5.0], [-1.0, -2.0, -3.0], id="negative values"),
        pytest.param([1e308] * 3, [1e308] * 3, id="a sum beyond the largest number"),
        pytest.param([1e308, 0.0, 0.0, 3.0], [1e308, 5e307, 1e308 / 3, 1.0], id="no drift"),
        pytest.param([5e-324] * 3, [5e-324] * 3, id="the smallest number"),
    ],
)
def test_a_moving_average_is_the_mean_of_what_the_window_holds(
    values: list[float], averages: list[float]
) -> None:
    assert moving_average(values, 3) == pytest.approx(averages, rel=1e-12, abs=0)


@pytest.mark.parametrize(
    ("values", "share", "percentiles"),
    [
        pytest.param([], 0.9, [], id="no rows"),
        pytest.param([3.0], 0.9, [3.0], id="one row"),
        pytest.param([5.0, 1.0, 2.0], 0.9, [5.0, 5.0, 5.0], id="the highest of fewer than ten"),
        pytest.param([*range(1, 11)], 0.9, [*range(1, 10), 9], id="the ninth of ten"),
        pytest.param([*range(10)], 0.29, [0, 0, 0, 1, 1, 1, 2, 2, 2, 2], id="29 % of ten is three"),
        pytest.param([2.0, 1.0], 0.0, [2.0, 1.0], id="the lowest"),
        pytest.param([1.0, 2.0, 1.5], 1.0, [1.0, 2.0, 2.0], id="the highest"),
        pytest.param([-1e308, 1e308], 0.5, [-1e308, -1e308], id="values at both ends"),
    ],
)
def test_a_moving_percentile_is_the_nearest_rank(
    values: list[float], share: float, percentiles: list[float]
) -> None:
    assert moving_percentile(values, WINDOW, share) == percentiles


@given(st.lists(FINITE, max_size=40), st.integers(1, 12))
def test_what_moves_stays_between_the_least_and_the_largest_of_the_window(
    values: list[float], window: int
) -> None:
    for moved in (moving_average(values, window), moving_percentile(values, window)):
        assert len(moved) == len(values)
        for place, value in enumerate(moved):
            held = values[max(place - window + 1, 0) : place + 1]
            room = 1e-9 * max(map(abs, held))
            assert min(held) - room <= value <= max(held) + room


@given(st.lists(FINITE, min_size=1, max_size=30))
def test_a_mean_is_finite_and_the_mean(values: list[float]) -> None:
    exact = statistics.mean(map(Fraction, values))
    scale = max(map(abs, values))
    assert math.isfinite(mean(values))
    assert abs(mean(values) - float(exact)) <= 1e-12 * scale + 5e-324 * len(values)


@given(ROWS, st.integers(2, 20))
def test_a_thinned_line_keeps_its_ends_of_range_and_its_order(
    rows: list[tuple[int, float]], most: int
) -> None:
    steps, values = zip(*rows, strict=True)
    line = line_of(values, steps)
    thin = thinned(line, most)
    assert len(thin.steps) <= max(most, 2)
    assert set(zip(thin.steps, thin.values, strict=True)) <= set(rows)
    assert [*thin.steps] == sorted(set(thin.steps))
    assert (min(thin.values), max(thin.values)) == (min(values), max(values))


def test_a_line_with_few_points_is_left_as_it_is() -> None:
    line = line_of([1.0, 3.0, 2.0])
    assert thinned(line, 3) is line


def test_a_thinned_line_keeps_one_spike_among_many_rows() -> None:
    values = [0.0] * 10_000
    values[6_543] = 9.0
    thin = thinned(line_of(values), 100)
    assert dict(zip(thin.steps, thin.values, strict=True))[6_544] == 9.0


@given(
    st.lists(st.integers(0, 500), max_size=50).map(lambda steps: sorted(set(steps))),
    st.integers(1, 80),
)
def test_each_step_lies_in_the_stretch_that_its_share_of_the_way_says(
    steps: list[int], count: int
) -> None:
    found = bounds(steps, 0, 500, count)
    assert (found[0], found[-1]) == (0, len(steps))
    for place, (low, high) in enumerate(pairwise(found)):
        assert all(step * count // 501 == place for step in steps[low:high])


@pytest.mark.parametrize(
    ("line", "count", "peaks", "expected"),
    [
        pytest.param(
            line_of([1.0, 3.0, 2.0, 6.0]), 2, True, (3.0, 6.0), id="the highest of two rows"
        ),
        pytest.param(line_of([1.0, 3.0, 2.0, 6.0]), 2, False, (2.0, 4.0), id="the mean of two"),
        pytest.param(line_of([1.0, 3.0]), 4, True, (1.0, 1.0, 3.0, 3.0), id="a step is two cells"),
        pytest.param(
            line_of([1.0, 2.0, 3.0], [1, 4, 7]),
            7,
            True,
            (1.0, 1.0, 1.0, 2.0, 2.0, 2.0, 3.0),
            id="a value holds until the next row",
        ),
        pytest.param(
            line_of([1.0] * 20, [*range(1, 11), *range(91, 101)]),
            4,
            True,
            (1.0, None, None, 1.0),
            id="where logging paused nothing is drawn",
        ),
        pytest.param(line_of([5.0], [3]), 1, True, (5.0,), id="one row"),
        pytest.param(line_of([1e308, 1e308]), 1, False, (1e308,), id="a mean of the largest"),
    ],
)
def test_a_cell_tells_the_rows_logged_in_it(
    line: Line, count: int, peaks: bool, expected: tuple[float | None, ...]
) -> None:
    assert cells(line, line.steps[0], line.steps[-1], count, peaks=peaks) == expected


def test_before_and_after_its_rows_a_line_has_no_cells() -> None:
    assert cells(line_of([1.0], [2]), 1, 4, 4, peaks=True) == (None, 1.0, None, None)


@given(ROWS, st.integers(1, 30))
def test_the_cells_reach_every_peak(rows: list[tuple[int, float]], count: int) -> None:
    steps, values = zip(*rows, strict=True)
    found = cells(line_of(values, steps), steps[0], steps[-1], count, peaks=True)
    assert len(found) == count
    assert max(value for value in found if value is not None) == max(values)


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        pytest.param(0, None, id="before the first row there is none"),
        pytest.param(1, (1, 1.0, 1.0, 1.0), id="at the first row"),
        pytest.param(3, (2, 2.0, 1.5, 2.0), id="between rows the last one counts"),
        pytest.param(99, (2, 2.0, 1.5, 2.0), id="after the last row"),
    ],
)
def test_the_three_numbers_of_a_kl_at_a_step(
    step: int, expected: tuple[int, float, float, float] | None
) -> None:
    assert smoothed(line_of([1.0, 2.0], [1, 2]), step) == expected


def test_the_kl_is_three_lines_and_two_where_it_need_not_be_smooth() -> None:
    run = run_of(kl_ref_token=[0.0, 0.5, 1.0])
    (panel,) = panels(run)
    assert (panel.quantity, panel.unit) == ("KL to the reference", "nats/token")
    assert [line.name for line in panel.lines] == [
        "current",
        "moving average of 10",
        "90th percentile of 10",
    ]
    assert [line.values for line in panel.lines] == [(0, 0.5, 1), (0, 0.25, 0.5), (0, 0.5, 1)]
    assert [line.name for line in panels(run, smooth=False)[0].lines] == ["current"]


def test_what_has_another_unit_has_a_panel_of_its_own() -> None:
    run = run_of(reward_raw_mean=[1.0], reward_shaped_mean=[0.5], dpo_margin=[0.1])
    found = [(panel.unit, len(panel.lines)) for panel in panels(run)]
    assert found == [("reward", 2), ("nats*beta", 1)]


def test_a_unit_that_nobody_said_stays_unknown() -> None:
    (panel,) = panels(run_of(kl_unknown=[0.1, 0.2], units={"kl_unknown": "unknown"}))
    assert panel.unit == "unknown"


@pytest.mark.parametrize(
    ("column", "placeholder"),
    [
        pytest.param("kl_ref_token", True, id="a KL of exactly 0 was not measured"),
        pytest.param("entropy", True, id="an entropy of exactly 0 was not measured"),
        pytest.param("reward_raw_mean", False, id="a reward of 0 is a reward"),
        pytest.param("grad_norm", False, id="a gradient of 0 is a gradient"),
        pytest.param("success_rate", False, id="no success is a rate"),
    ],
)
def test_zeros_throughout_are_a_placeholder_only_of_what_is_computed(
    column: str, placeholder: bool
) -> None:
    zeros: dict[str, Any] = {column: [0.0, 0.0]}
    (panel,) = panels(run_of(**zeros))
    assert panel.placeholder is placeholder


@pytest.mark.parametrize(
    "values",
    [
        pytest.param([None, None], id="no value"),
        pytest.param([math.nan, math.inf], id="no finite value"),
    ],
)
def test_a_column_without_a_finite_value_is_not_drawn(values: list[float | None]) -> None:
    assert panels(run_of(entropy=values)) == ()


def test_values_that_are_not_finite_are_left_out() -> None:
    (panel,) = panels(run_of(grad_norm=[1.0, math.nan, -math.inf, 2.0, None]))
    assert (panel.lines[0].steps, panel.lines[0].values) == ((1, 4), (1.0, 2.0))


def test_every_column_that_is_drawn_is_one_of_the_vocabulary() -> None:
    names = {name.removeprefix("eval_") for found in QUANTITIES.values() for name in found}
    assert names <= set(METRICS)


def test_a_line_tells_what_it_is_by_its_kind() -> None:
    (panel,) = panels(run_of(kl_ref_token=[0.0, 0.5, 1.0]))
    assert [line.kind for line in panel.lines] == ["value", "mean", "p90"]
    assert [thinned(line, 2).kind for line in panel.lines] == ["value", "mean", "p90"]


@pytest.mark.parametrize(
    ("onset", "told"),
    [
        pytest.param(Onset(50, 49, 51), "50 (49-51)", id="with the interval that it lies in"),
        pytest.param(Onset(50, 50, 50), "50", id="where there is one"),
    ],
)
def test_an_onset_is_told(onset: Onset, told: str) -> None:
    assert interval(onset) == told


SAVED = [
    Checkpoint(10, "a", "checkpoint-10"),
    Checkpoint(20, "b", "final", role="final"),
    Checkpoint(30, "c", "best", role="best"),
    Checkpoint(5, "d", "value_model", role="value"),
]


def test_checkpoints_stand_at_the_same_logged_steps_wherever_they_are_marked() -> None:
    found = diagnose(
        run_of(kl_ref_token=[float(step) for step in range(41)], checkpoints=SAVED, log_offset=1)
    )
    plan = replace(found.rollback, checkpoint=SAVED[0], needed=True)
    found = replace(found, rollback=plan, onset=Onset(25, 24, 25))
    marked = marks(found)
    assert marked.saved == ((11, "checkpoint-10"), (21, "final"), (31, "best"))
    assert (marked.back, marked.onset) == ((11, "checkpoint-10"), Onset(25, 24, 25))

    told = [text.plain for _, text in curve_lines(found, 14 + 41)]
    axis = next(line for line in told if "\u2514" in line).partition("\u2514")[2]
    assert {place + 1: mark for place, mark in enumerate(axis) if mark in "oR"} == {
        **{11: "R", 21: "o", 31: "o"}
    }

    page = html.render([found], Page(0))
    (ticks, *_) = re.findall(r'class="saved" d="([^"]*)"', page)
    drawn = [int(x) for x in re.findall(r"M(\d+) ", ticks)]
    assert drawn == [round(PIXELS * (step - 1) / 40) for step, _ in marked.saved]
    assert '<line class="back" x1="25.00%"' in page

    samples = re.findall(
        r'rlhf_(checkpoint|rollback){.*checkpoint="(.*)"} (\S+) (\S+)',
        "".join(openmetrics([found])),
    )
    assert samples == [
        *(("checkpoint", name, f"{step}.0", f"{step}.000") for step, name in marked.saved),
        ("rollback", "checkpoint-10", "11.0", "11.000"),
    ]


def test_a_plan_that_is_not_needed_leads_nowhere_back() -> None:
    found = diagnose(run_of(kl_ref_token=[0.1] * 40, checkpoints=SAVED))
    plan = replace(found.rollback, checkpoint=SAVED[0], needed=False)
    assert marks(replace(found, rollback=plan)).back is None


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        pytest.param((1, 2, 3, 4), (), id="every step"),
        pytest.param((10, 20, 30, 40), (), id="every tenth step"),
        pytest.param((*range(1, 41), *range(160, 201)), (160,), id="a stretch that nobody logged"),
        pytest.param((5,), (), id="one row"),
    ],
)
def test_a_stretch_without_rows_is_known(steps: tuple[int, ...], expected: tuple[int, ...]) -> None:
    line = Line("x", "kl_ref_token", steps, tuple(map(float, steps)))
    assert unlogged(line) == expected
