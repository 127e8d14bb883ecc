import math
import statistics
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise, permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlhfdoctor import series
from rlhfdoctor.series import (
    CHI2_95,
    correlation,
    end_level,
    exponential,
    finite,
    halves_differ,
    hinge,
    holm,
    jump,
    mean_error,
    noise,
    onset,
    rank_correlation,
    rank_test,
    ranks,
    rise,
    spread,
    start_level,
    stretches,
)


@pytest.mark.parametrize(
    ("values", "start", "end"),
    [
        pytest.param([3.0], 3.0, 3.0, id="one value is both"),
        pytest.param([1.0, 2.0], 1.5, 1.5, id="two values meet in the middle"),
        pytest.param([1.0, 100.0, 2.0, 3.0, -50.0, 7.0, 8.0], 2.0, 3.0, id="spikes do not count"),
        pytest.param([float(n) for n in range(11)], 2.0, 8.0, id="the first and the last five"),
    ],
)
def test_levels_are_medians_of_five(values: list[float], start: float, end: float) -> None:
    assert start_level(values) == start
    assert end_level(values) == end


def test_levels_of_another_number_of_rows() -> None:
    assert start_level([5.0, 1.0, 9.0], 1) == 5.0
    assert end_level([5.0, 1.0, 9.0], 2) == 5.0


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        pytest.param([], 0.0, id="nothing"),
        pytest.param([4.0], 0.0, id="one value"),
        pytest.param([4.0, 4.0, 4.0], 0.0, id="constant"),
        pytest.param([1.0, 3.0], 1.4826 * 2 / math.sqrt(2), id="one difference"),
        pytest.param([0.0, 1.0, 0.0, 1.0, 900.0], 1.4826 / math.sqrt(2), id="blind to one jump"),
    ],
)
def test_noise(values: list[float], expected: float) -> None:
    assert noise(values) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("pattern", "patience", "expected"),
    [
        pytest.param("", 2, [], id="nothing"),
        pytest.param(".....", 2, [], id="never"),
        pytest.param(".##..", 2, [(1, 2)], id="just patience"),
        pytest.param(".#..#", 2, [], id="never for long enough"),
        pytest.param("...##", 2, [(3, 4)], id="at the end"),
        pytest.param("....#", 2, [], id="too short at the end"),
        pytest.param("#####", 2, [(0, 4)], id="always"),
        pytest.param("##.##", 2, [(0, 4)], id="one row between is one stretch"),
        pytest.param("##..##", 2, [(0, 1), (4, 5)], id="patience rows between are two"),
        pytest.param("###..###", 3, [(0, 7)], id="two rows between under a patience of three"),
        pytest.param("##.##.##", 2, [(0, 7)], id="three become one"),
        pytest.param("###.#..###", 3, [(0, 2), (7, 9)], id="a short run is no bridge"),
        pytest.param(".#.#.", 1, [(1, 1), (3, 3)], id="under a patience of one nothing merges"),
    ],
)
def test_stretches(pattern: str, patience: int, expected: list[tuple[int, int]]) -> None:
    values = [1.0 if character == "#" else 0.0 for character in pattern]
    assert stretches(values, lambda value: value > 0.5, patience) == expected


@given(st.lists(st.booleans(), max_size=40), st.integers(1, 6))
@settings(deadline=None, max_examples=200)
def test_stretches_cover_every_long_run_and_no_gap_of_patience(
    holds: list[bool], patience: int
) -> None:
    found = stretches([float(value) for value in holds], lambda value: value > 0.5, patience)
    inside = {index for first, last in found for index in range(first, last + 1)}
    for start in range(len(holds) - patience + 1):
        window = range(start, start + patience)
        if all(holds[index] for index in window):
            assert inside.issuperset(window)
        if not any(holds[index] for index in window):
            assert not inside.intersection(window)
    for (_, before), (after, _) in pairwise(found):
        assert after - before - 1 >= patience
    for first, last in found:
        assert all(holds[first : first + patience])
        assert all(holds[last - patience + 1 : last + 1])


def test_halves_differ_is_welch() -> None:
    early, late = [1.0, 2.0, 4.0], [7.0, 7.5, 9.0, 11.0]
    error = math.sqrt(statistics.variance(early) / 3 + statistics.variance(late) / 4)
    expected = (statistics.mean(late) - statistics.mean(early)) / error
    assert halves_differ(early + late) == pytest.approx(expected)
    assert halves_differ([-value for value in early + late]) == pytest.approx(-expected)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        pytest.param([], 0.0, id="nothing"),
        pytest.param([1.0, 2.0, 3.0], 0.0, id="three values"),
        pytest.param([5.0] * 8, 0.0, id="constant"),
        pytest.param([1.0, 1.0, 2.0, 2.0], math.inf, id="a clean step up"),
        pytest.param([2.0, 2.0, 1.0, 1.0], -math.inf, id="a clean step down"),
    ],
)
def test_halves_differ_where_there_is_no_error(values: list[float], expected: float) -> None:
    assert halves_differ(values) == expected


def test_correlation_agrees_with_the_standard_library() -> None:
    xs, ys = [1.0, 2.0, 4.0, 8.0, 9.0], [3.0, -1.0, 4.0, 1.0, 5.0]
    assert correlation(xs, ys) == pytest.approx(statistics.correlation(xs, ys))
    assert correlation(xs, [2 * x + 1 for x in xs]) == pytest.approx(1.0)
    assert correlation(xs, [-x for x in xs]) == pytest.approx(-1.0)


@pytest.mark.parametrize(
    ("xs", "ys"),
    [
        pytest.param([1.0, 2.0], [1.0, 2.0], id="two points"),
        pytest.param([1.0] * 5, [1.0, 2.0, 3.0, 4.0, 5.0], id="a constant x"),
        pytest.param([1.0, 2.0, 3.0], [7.0] * 3, id="a constant y"),
    ],
)
def test_correlation_that_is_none(xs: list[float], ys: list[float]) -> None:
    assert correlation(xs, ys) is None


@pytest.mark.parametrize(
    ("values", "mean", "error"),
    [
        pytest.param([3.0], 3.0, math.inf, id="one value says nothing of its error"),
        pytest.param([2.0, 2.0, 2.0], 2.0, 0.0, id="constant"),
        pytest.param([1.0, 3.0], 2.0, 1.0, id="two values"),
        pytest.param([1.0, 2.0, 3.0, 4.0], 2.5, math.sqrt(5 / 3 / 4), id="four values"),
        pytest.param([1e200, 3e200], 2e200, 1e200, id="values too large to square"),
        pytest.param([1e308, 1e308, 1e308], 1e308, 0.0, id="values too large to sum"),
        pytest.param([1e308, -1e308], 0.0, 1e308, id="large values of either sign"),
    ],
)
def test_mean_error(values: list[float], mean: float, error: float) -> None:
    assert list(mean_error(values)) == pytest.approx([mean, error])


@pytest.mark.parametrize(
    ("values", "rows", "expected"),
    [
        pytest.param([4.0] * 12, 5, 0.0, id="constant"),
        pytest.param([1.0] * 6 + [2.0] * 6, 5, math.inf, id="a clean step up"),
        pytest.param([2.0] * 6 + [1.0] * 6, 5, -math.inf, id="a clean step down"),
        pytest.param([7.0], 5, 0.0, id="one value"),
        pytest.param(
            [0.0, 1.0] * 5 + [10.0, 11.0] * 5,
            5,
            11.0 / (1.2533 * 1.4826 / math.sqrt(2) * math.sqrt(2 / 5)),
            id="a late jump counts in full",
        ),
        pytest.param(
            [0.0, 1.0, 3.0, 4.0],
            5,
            0.0,
            id="the same rows at both ends",
        ),
        pytest.param(
            [0.0, 1.0, 3.0, 4.0],
            2,
            3.0 / (1.2533 * 1.4826 / math.sqrt(2) * math.sqrt(2 / 2)),
            id="another number of rows",
        ),
    ],
)
def test_rise(values: list[float], rows: int, expected: float) -> None:
    assert rise(values, rows) == pytest.approx(expected)
    assert rise([-value for value in values], rows) == pytest.approx(-expected)


@pytest.mark.parametrize("size", [1e-3, 1e99, 1e101, 1e200, 1e307])
def test_the_size_of_the_numbers_changes_no_judgement(size: float) -> None:
    plain = [1.0, -2.0, 1.5, 4.0, 7.0, 5.0, 9.0, 8.0]
    scaled = [size * value for value in plain]
    other = [2.0, 1.0, 4.0, 3.0, 8.0, 5.0, 6.0, 9.0]
    assert halves_differ(scaled) == pytest.approx(halves_differ(plain))
    assert rise(scaled, 3) == pytest.approx(rise(plain, 3))
    assert correlation(scaled, other) == pytest.approx(correlation(plain, other))
    assert correlation(other, scaled) == pytest.approx(correlation(other, plain))
    bent = [0.0, 0.01, 0.0, 0.02, 0.01, 0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 6.0]
    steps = list(range(1, 14))
    assert onset(steps, [size * value for value in bent], 7, 3) == onset(steps, bent, 7, 3)


# Onsets


ZERO = Fraction()


def solve(matrix: list[list[Fraction]], right: list[Fraction]) -> list[Fraction]:
    rows = [[*row, value] for row, value in zip(matrix, right, strict=True)]
    for pivot in range(3):
        best = next(index for index in range(pivot, 3) if rows[index][pivot])
        rows[pivot], rows[best] = rows[best], rows[pivot]
        for index in range(3):
            if index != pivot:
                factor = rows[index][pivot] / rows[pivot][pivot]
                rows[index] = [
                    a - factor * b for a, b in zip(rows[index], rows[pivot], strict=True)
                ]
    return [rows[index][3] / rows[index][index] for index in range(3)]


def dot(one: Sequence[Fraction], other: Sequence[Fraction | int]) -> Fraction:
    return sum((a * b for a, b in zip(one, other, strict=True)), ZERO)


def hinges(xs: Sequence[int], ys: Sequence[int]) -> dict[int, tuple[Fraction, Fraction]]:
    """Fit a + b x + c max(0, x - x_k) for every k exactly; return (squared error, c)."""
    found = {}
    for k in range(1, len(xs) - 1):
        basis = [[Fraction(1), Fraction(x), Fraction(max(0, x - xs[k]))] for x in xs]
        columns = list(zip(*basis, strict=True))
        fit = solve([[dot(a, b) for b in columns] for a in columns], [dot(a, ys) for a in columns])
        error = sum(((y - dot(fit, row)) ** 2 for row, y in zip(basis, ys, strict=True)), ZERO)
        found[k] = (error, fit[2])
    return found


def level(values: Sequence[int]) -> float:
    return float(statistics.median(values))


@st.composite
def alarms(draw: st.DrawFn) -> tuple[list[int], list[int], int, int]:
    """Draw steps, values, the first row of an alarm, and its patience."""
    count = draw(st.integers(7, 22))
    gaps = draw(st.lists(st.integers(1, 3), min_size=count, max_size=count))
    steps = [sum(gaps[: index + 1]) for index in range(count)]
    bend = draw(st.integers(0, count))
    slope = draw(st.integers(-6, 6))
    rough = draw(st.lists(st.integers(-4, 4), min_size=count, max_size=count))
    values = [slope * max(0, index - bend) + rough[index] for index in range(count)]
    patience = draw(st.integers(1, 4))
    return steps, values, draw(st.integers(0, count - patience)), patience


@given(alarms())
@settings(deadline=None, max_examples=120)
def test_an_onset_lies_in_its_interval_and_no_later_than_the_alarm(
    drawn: tuple[list[int], list[int], int, int],
) -> None:
    steps, values, first, patience = drawn
    found = onset(steps, [float(value) for value in values], first, patience)
    assert steps[0] <= found.low <= found.step <= found.high
    assert found.step <= steps[first + patience - 1]
    assert {found.step, found.high} <= set(steps)


@given(alarms())
@settings(deadline=None, max_examples=120)
def test_a_hinge_is_the_one_of_least_squares(
    drawn: tuple[list[int], list[int], int, int],
) -> None:
    xs, ys, _, _ = drawn
    rising = ys[-1] >= ys[0]
    found = hinge(xs, [float(value) for value in ys], rising=rising)
    fits = hinges(xs, ys) if len(set(ys)) > 1 else {}
    tiny = Fraction(1, 10**9)
    least = min((error for error, _ in fits.values()), default=Fraction())
    best = [k for k, (error, _) in fits.items() if error <= least + tiny]
    signs = {(fits[k][1] > 0) == rising for k in best if abs(fits[k][1]) > tiny}
    if len(signs) > 1 or (best and not signs):
        return  # rounding decides which of two equal breaks is taken
    if not best or False in signs:
        assert found is None
        return
    assert found is not None
    assert found.best in best
    assert found.error == pytest.approx(float(least), abs=1e-6)
    residuals = [y - fit for y, fit in zip(ys, found.through(xs), strict=True)]
    assert sum(value * value for value in residuals) == pytest.approx(found.error, abs=1e-6)
    bound = Fraction(CHI2_95) * least / max(len(xs) - 4, 1)
    sure = [k for k, (error, _) in fits.items() if error - least <= bound * (1 - tiny) - tiny]
    perhaps = [k for k, (error, _) in fits.items() if error - least <= bound * (1 + tiny) + tiny]
    assert all(found.low <= k <= found.high for k in sure)
    assert min(perhaps) <= found.low
    assert found.high <= max(perhaps)


@given(alarms())
@settings(deadline=None, max_examples=200)
def test_a_fall_is_dated_like_the_rise_that_mirrors_it(
    drawn: tuple[list[int], list[int], int, int],
) -> None:
    steps, values, first, patience = drawn
    window = values[: first + 3 * patience]
    if level(window[:5]) == level(window[-5:]):
        return  # neither a rise nor a fall
    up = onset(steps, [float(value) for value in values], first, patience)
    assert up == onset(steps, [-float(value) for value in values], first, patience)


@pytest.mark.parametrize("sign", [1.0, -1.0], ids=["rising", "falling"])
@pytest.mark.parametrize(
    ("values", "first", "step"),
    [
        pytest.param([4.0, 0.0, 0.0, 4.0] + [4.0] * 5, 0, 1, id="an alarm at the first row"),
        pytest.param([0.0, 1.0, 0.0, 2.0, 4.0] + [4.0] * 4, 3, 4, id="a quarter before it"),
    ],
)
def test_too_few_rows_for_a_fit(values: list[float], first: int, step: int, sign: float) -> None:
    steps = list(range(1, len(values) + 1))
    found = onset(steps, [sign * value for value in values], first, 2)
    assert (found.step, found.low, found.high) == (step, 1, first + 1)


@pytest.mark.parametrize("sign", [1.0, -1.0], ids=["rising", "falling"])
@pytest.mark.parametrize(
    ("values", "low", "step"),
    [
        pytest.param([0.0] * 3 + [4.0] * 6, 31, 40, id="in nine rows"),
        pytest.param([0.1, -0.1] * 10 + [4.0, 4.2] * 10, 201, 210, id="in noise"),
        pytest.param([0.0] * 10 + [1.0] + [4.0] * 10, 111, 120, id="a quarter of it a row early"),
        pytest.param([0.0] * 10 + [3.0] + [4.0] * 10, 101, 110, id="a quarter of it a row late"),
    ],
)
def test_a_jump_is_dated_at_its_first_row(
    values: list[float], low: int, step: int, sign: float
) -> None:
    steps = list(range(10, 10 * len(values) + 1, 10))
    first = next(index for index, value in enumerate(values) if value > 2.0)
    found = onset(steps, [sign * value for value in values], first, 5)
    assert (found.low, found.step, found.high) == (low, step, step)


def test_a_change_over_several_rows_is_no_jump() -> None:
    assert jump([0.0] * 10 + [4.0] * 10) == (10, 10, 10)
    assert jump([0.0] * 10 + [2.0] + [4.0] * 10) is None
    assert jump([0.0] * 10 + [4.0] * 5 + [0.0] * 5) is None
    assert jump([1.0] * 20) is None
    assert jump([0.0, 4.0, 4.0]) is None
    assert jump([0.0, 0.0, 4.0, 4.0]) == (2, 2, 2)


@pytest.mark.parametrize("sign", [1.0, -1.0], ids=["growing", "growing downwards"])
@pytest.mark.parametrize("bend", [12, 20])
def test_an_exponential_is_dated_where_it_leaves_its_level(bend: int, sign: float) -> None:
    wobble = (0.97, 1.02, 1.0, 1.03, 0.98)
    values = [
        sign * 0.1 * wobble[i % 5] * math.exp(0.4 * max(0, i - bend)) for i in range(bend + 16)
    ]
    first = next(i for i, value in enumerate(values) if abs(value) > 5)
    found = onset(list(range(len(values))), values, first, 3)
    assert found.low <= bend <= found.high
    assert abs(found.step - bend) <= 1


def test_a_ramp_is_no_exponential() -> None:
    xs = list(range(30))
    ramp = [0.1 + 0.5 * max(0, x - 15) for x in xs]
    grown = [0.1 * math.exp(0.5 * max(0, x - 15)) for x in xs]
    assert exponential(xs, ramp, hinge(xs, ramp, rising=True)) is None
    found = exponential(xs, grown, hinge(xs, grown, rising=True))
    assert found is not None
    assert found.best == 15
    assert exponential(xs, [0.0, *grown[1:]], None) is None


@pytest.mark.parametrize("spike", [50.0, -50.0])
def test_a_single_row_that_stands_out_and_comes_back_is_no_beginning(spike: float) -> None:
    values = [0.01 * (i % 3) + 0.5 * max(0, i - 20) for i in range(40)]
    steps = list(range(len(values)))
    first = next(i for i, value in enumerate(values) if value > 3)
    calm = onset(steps, values, first, 5)
    struck = [spike if i == 8 else value for i, value in enumerate(values)]
    assert onset(steps, struck, first, 5) == calm
    assert abs(calm.step - 20) <= 1


@pytest.mark.parametrize("sign", [1.0, -1.0], ids=["rising", "falling"])
@pytest.mark.parametrize("bend", [4, 10, 17])
def test_a_clean_bend_is_dated_to_the_row(bend: int, sign: float) -> None:
    values = [sign * (0.01 * i + 2.0 * max(0, i - bend)) for i in range(30)]
    first = next(i for i, value in enumerate(values) if abs(value) > 5)
    found = onset(list(range(100, 130)), values, first, 5)
    assert found.step == 100 + bend
    assert found.low <= 100 + bend <= found.high


def test_a_second_jump_long_after_does_not_move_the_first() -> None:
    calm, rise = [0.1] * 15, [0.1 + 0.5 * i for i in range(1, 11)]
    plateau = [5.1] * 40
    steps = list(range(1, 200))
    short = onset(steps[:65], calm + rise + plateau, 18, 5)
    long = onset(steps, calm + rise + plateau + [500.0] * 134, 18, 5)
    assert short == long
    assert 13 <= short.step <= 17


def test_what_was_under_way_from_the_start_may_have_begun_before() -> None:
    values = [10.0 * (1 - math.exp(-0.3 * i)) for i in range(30)]
    found = onset(list(range(1, 31)), values, 6, 5)
    assert found.low == 1
    assert found.high == 7
    assert found.low <= found.step <= found.high


@pytest.mark.parametrize(
    "values",
    [
        pytest.param([3.0] * 20, id="a constant series"),
        pytest.param([0.0, 0.0, 5.0], id="three rows"),
        pytest.param([1e308, -1e308] * 10, id="squares beyond any float"),
    ],
)
def test_where_nothing_can_be_fitted_the_alarm_bounds_the_answer(values: list[float]) -> None:
    steps = list(range(10, 10 + len(values)))
    found = onset(steps, values, 1, 2)
    assert (found.low, found.high) == (10, 11)
    assert 10 <= found.step <= 11


# ranks


@pytest.mark.parametrize(
    ("values", "found"),
    [
        pytest.param([30.0, 10.0, 20.0], [3.0, 1.0, 2.0], id="different values"),
        pytest.param([1.0, 1.0, 2.0, 0.0], [2.5, 2.5, 4.0, 1.0], id="ties share the mean rank"),
        pytest.param([5.0], [1.0], id="one value"),
    ],
)
def test_ranks(values: list[float], found: list[float]) -> None:
    assert ranks(values) == found


def brute(xs: Sequence[float], ys: Sequence[float]) -> float:
    """Return the share of all arrangements whose |rho| is no smaller."""
    observed = abs(rank_correlation(xs, ys) or 0.0)
    found = [abs(rank_correlation(xs, arranged) or 0.0) for arranged in permutations(ys)]
    return sum(rho >= observed - 1e-9 for rho in found) / len(found)


PAIRS = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 2)), min_size=3, max_size=6)


@given(PAIRS)
def test_the_rank_test_is_the_share_of_all_arrangements(pairs: list[tuple[int, int]]) -> None:
    xs, ys = [float(x) for x, _ in pairs], [float(y) for _, y in pairs]
    assert rank_test(xs, ys) == rank_test(ys, xs) == pytest.approx(brute(xs, ys))


@pytest.mark.parametrize(
    ("xs", "ys"),
    [
        pytest.param([1, 2, 3, 4, 5, 6], [0, 0, 1, 1, 2, 2], id="in order"),
        pytest.param([1, 5, 3, 3, 2, 6], [0, 1, 2, 2, 0, 1], id="some order"),
        pytest.param([1, 1, 1, 1, 1, 2], [0, 0, 0, 0, 0, 2], id="one odd value on each side"),
        pytest.param([3, 1, 2, 6, 5, 4, 7], [1, 2, 3, 4, 5, 6, 7], id="no ties"),
    ],
)
def test_arrangements_that_are_drawn_are_near_those_that_are_counted(
    xs: list[float], ys: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(series, "EXACT", 0)
    counted = brute(xs, ys)
    # five standard errors of the draws, and the one that was observed
    error = 5 * math.sqrt(counted * (1 - counted) / series.DRAWS) + 1 / series.DRAWS
    assert rank_test(xs, ys) == pytest.approx(counted, abs=error)
    assert rank_test(xs, ys) == rank_test(xs, ys)


@pytest.mark.parametrize("count", [5, 13, 30, 200])
def test_one_odd_value_that_meets_one_sick_run_may_be_chance(count: int) -> None:
    xs, ys = [1.0] * (count - 1) + [2.0], [0.0] * (count - 1) + [2.0]
    assert rank_test(xs, ys) == pytest.approx(1 / count)


@given(st.integers(13, 60).flatmap(lambda n: st.tuples(st.just(n), st.integers(1, n - 1))))
def test_a_perfect_separation_of_many_runs_is_one_way_of_all(sizes: tuple[int, int]) -> None:
    count, sick = sizes
    xs = [1.0] * (count - sick) + [2.0] * sick
    ways = math.comb(count, sick)
    # where halves are of one size, the opposite is as extreme
    found = (2 if 2 * sick == count else 1) / ways
    assert rank_test(xs, xs) == pytest.approx(found)


@settings(deadline=None, max_examples=20)
@given(st.lists(st.tuples(st.floats(-9, 9), st.integers(0, 2)), min_size=13, max_size=40))
def test_no_p_value_is_below_one_arrangement_of_all(pairs: list[tuple[float, int]]) -> None:
    xs, ys = [x for x, _ in pairs], [float(y) for _, y in pairs]
    ways = math.factorial(len(ys)) // math.prod(map(math.factorial, Counter(ys).values()))
    assert 1 / ways <= rank_test(xs, ys) * (1 + 1e-9) <= 1 + 1e-9


def test_a_rank_test_without_order_is_no_evidence() -> None:
    assert rank_test([1.0] * 20, [float(k) for k in range(20)]) == 1.0


def test_many_pairs_without_ties_in_order_are_as_rare_as_draws_can_tell() -> None:
    xs = [float(k) for k in range(20)]
    assert rank_test(xs, xs) == 1 / (series.DRAWS + 1)


@pytest.mark.parametrize(
    ("p_values", "found"),
    [
        pytest.param([], [], id="none"),
        pytest.param([0.01, 0.04, 0.03], [0.03, 0.06, 0.06], id="the textbook's three"),
        pytest.param([0.5, 0.9], [1.0, 1.0], id="never above 1"),
    ],
)
def test_holm(p_values: list[float], found: list[float]) -> None:
    assert holm(p_values) == pytest.approx(found)


@pytest.mark.parametrize(
    ("values", "found"),
    [
        pytest.param([2.0], (2.0, 0.0, 0.0), id="one value"),
        pytest.param([0.0, 0.0, 0.0], (0.0, 0.0, 0.0), id="zeros"),
        pytest.param([0.0, -1.0, 1.0], (0.0, 1.0, math.inf), id="about zero"),
        pytest.param(
            [1.0, 2.0, 3.0], (2.0, 1.0, (1.4826 / 2) ** 2), id="a spread of one about two"
        ),
    ],
)
def test_spread(values: list[float], found: tuple[float, float, float]) -> None:
    assert spread(values) == pytest.approx(found)


@pytest.mark.parametrize(
    ("value", "found"),
    [(1.5, True), (10**300, True), (math.nan, False), (-math.inf, False), (10**400, False)],
)
def test_what_no_float_holds_is_not_finite(value: float, found: bool) -> None:
    assert finite(value) is found
