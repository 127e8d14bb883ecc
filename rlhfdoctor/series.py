"""Arithmetic on series, without thresholds: robust location and scale, stretches, onsets, trends.

Every function takes plain lists of finite numbers, oldest first.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from statistics import fmean, median

from rlhfdoctor.model import Onset

CHI2_95 = 3.84
"""95 % quantile of the chi-squared distribution with one degree of freedom."""

STRAIGHT = 1e-12
"""Share of the variance that rounding may leave of a straight line."""

LARGEST = 1e100
"""Magnitude from which squares and sums may overflow."""

MEDIAN_ERROR = 1.2533
"""Ratio of the standard errors of median and mean for a normal distribution, sqrt(pi / 2)."""

MAD_TO_SIGMA = 1.4826
"""Ratio of standard deviation to median absolute deviation for a normal distribution."""


def start_level(values: Sequence[float], rows: int = 5) -> float:
    """Return the median of the first ``rows`` values: where the run came from."""
    return median(values[:rows])


def end_level(values: Sequence[float], rows: int = 5) -> float:
    """Return the median of the last ``rows`` values: where the run stands."""
    return median(values[-rows:])


def noise(values: Sequence[float]) -> float:
    """Return a robust standard deviation of the row-to-row noise, blind to trends.

    The median absolute first difference, scaled to a normal distribution and divided by sqrt(2).
    """
    steps = [abs(b - a) for a, b in pairwise(values)]
    return MAD_TO_SIGMA * median(steps) / math.sqrt(2) if steps else 0.0


def stretches(
    values: Sequence[float], holds: Callable[[float], bool], patience: int
) -> list[tuple[int, int]]:
    """Return [first, last] index pairs of every run of at least ``patience`` rows that hold.

    Two runs with fewer than ``patience`` other rows between them are one.
    """
    found: list[tuple[int, int]] = []
    first: int | None = None
    for index, value in enumerate(values):
        if holds(value):
            first = index if first is None else first
        elif first is not None:
            if index - first >= patience:
                found.append((first, index - 1))
            first = None
    if first is not None and len(values) - first >= patience:
        found.append((first, len(values) - 1))
    merged: list[tuple[int, int]] = []
    for first, last in found:
        if merged and first - merged[-1][1] <= patience:
            merged[-1] = (merged[-1][0], last)
        else:
            merged.append((first, last))
    return merged


def mean_error(values: Sequence[float]) -> tuple[float, float]:
    """Return the mean and its standard error; an infinite error for a single value."""
    scaled, scale = _scaled(values)
    if len(scaled) < 2:
        return values[0], math.inf
    return fmean(scaled) * scale, math.sqrt(_variance(scaled) / len(scaled)) * scale


def halves_differ(values: Sequence[float]) -> float:
    """Return the difference of the two halves' means in standard errors; 0 where undefined."""
    values, _ = _scaled(values)
    middle = len(values) // 2
    early, late = values[:middle], values[middle:]
    if len(early) < 2 or len(late) < 2:
        return 0.0
    error = math.sqrt(_variance(early) / len(early) + _variance(late) / len(late))
    difference = fmean(late) - fmean(early)
    if error == 0.0:
        return math.copysign(math.inf, difference) if difference else 0.0
    return difference / error


def rise(values: Sequence[float], rows: int = 5) -> float:
    """Return the change from the first to the last rows in standard errors of their medians.

    The noise is that from row to row, so a late jump counts in full; 0 where nothing changed.
    """
    values, _ = _scaled(values)
    change = end_level(values, rows) - start_level(values, rows)
    error = MEDIAN_ERROR * noise(values) * math.sqrt(2 / min(rows, len(values)))
    if error == 0.0:
        return math.copysign(math.inf, change) if change else 0.0
    return change / error


def correlation(xs: Sequence[float], ys: Sequence[float]) -> float | None:
    """Return Pearson's r, or None for fewer than three points or a constant side."""
    if len(xs) < 3:
        return None
    xs, ys = _scaled(xs)[0], _scaled(ys)[0]
    mean_x, mean_y = fmean(xs), fmean(ys)
    sxx = sum((x - mean_x) ** 2 for x in xs)
    syy = sum((y - mean_y) ** 2 for y in ys)
    if sxx <= 0.0 or syy <= 0.0:
        return None
    sxy = sum((x - mean_x) * (y - mean_y) for x, y in zip(xs, ys, strict=True))
    return sxy / math.sqrt(sxx * syy)


def onset(steps: Sequence[int], values: Sequence[float], first: int, patience: int) -> Onset:
    """Date the beginning of what an alarm saw, with the interval that the rows allow.

    ``first`` is the index of the alarm's first row; the alarm rings ``patience`` rows later. Two
    straight lines that meet (a hinge, both slopes free) are fitted to the raw values from the
    first row to the row where 90 % of the change is done; the change is read 2 x ``patience``
    rows after the alarm, so that neither a plateau nor a second jump bends the lines. The
    interval holds every break whose squared error exceeds the best one's by at most 3.84 sigma^2.
    No answer is later than the alarm itself. Where nothing can be fitted, or the best break is one
    that slows the change down (it was under way from the start), the answer is the row after the
    last one that had done less than a quarter of the change, and the interval begins with the log.

    A fit over the whole series, CUSUM, and the alarm's first row all date worse: a second jump
    long after the first pulls the first away, CUSUM fires on healthy drift, and an alarm is late
    by construction.
    """
    window = values[: first + 3 * patience]
    done = start_level(window) + 0.9 * (end_level(window) - start_level(window))
    rising = end_level(window) >= start_level(window)
    end = next(
        (
            index
            for index in range(first + 1, len(window))
            if (window[index] >= done if rising else window[index] <= done)
        ),
        len(window) - 1,
    )
    fitted = _hinge(steps[: end + 1], values[: end + 1], rising=rising)
    if fitted is None:
        quarter = start_level(window) + 0.25 * (end_level(window) - start_level(window))
        still = [
            index
            for index in range(first)
            if (values[index] < quarter if rising else values[index] > quarter)
        ]
        return Onset(step=steps[still[-1] + 1 if still else 0], low=steps[0], high=steps[first])
    best, low, high = (min(index, first + patience - 1) for index in fitted)
    return Onset(step=steps[best], low=steps[low], high=steps[high])


def _hinge(xs: Sequence[int], ys: Sequence[float], *, rising: bool) -> tuple[int, int, int] | None:
    """Fit y = a + b x + c max(0, x - x_k) for each k; return (best, lowest, highest) index k.

    Linear in the number of rows: the sums to the right of k are kept while k walks left.
    Returns None below six rows, for a straight line, and where the best break has c < 0 although
    the series is ``rising`` (c > 0 although it falls).
    """
    count = len(xs)
    if count < 6:
        return None
    ys, _ = _scaled(ys)
    centre_x, centre_y = fmean(xs), fmean(ys)
    scale = max(abs(xs[-1] - centre_x), abs(xs[0] - centre_x)) or 1.0
    x = [(value - centre_x) / scale for value in xs]
    y = [value - centre_y for value in ys]
    total = sum(value * value for value in y)
    if total <= 0.0 or not math.isfinite(total):
        return None
    sxx = sum(value * value for value in x)
    sxy = sum(a * b for a, b in zip(x, y, strict=True))
    if total - sxy * sxy / sxx <= STRAIGHT * total:
        return None
    errors: dict[int, float] = {}
    bends: dict[int, float] = {}
    right_n = right_x = right_xx = right_y = right_xy = 0.0
    for k in range(count - 2, 0, -1):
        after = k + 1
        right_n += 1
        right_x += x[after]
        right_xx += x[after] * x[after]
        right_y += y[after]
        right_xy += x[after] * y[after]
        at = x[k]
        h = right_x - at * right_n
        hh = right_xx - 2 * at * right_x + at * at * right_n
        xh = right_xx - at * right_x
        hy = right_xy - at * right_y
        # x and y are centred, so centring h alone removes the constant from the equations
        hh -= h * h / count
        determinant = sxx * hh - xh * xh
        if hh <= 0.0 or determinant <= 1e-12 * sxx * hh:
            continue
        b = (sxy * hh - hy * xh) / determinant
        c = (hy * sxx - sxy * xh) / determinant
        errors[k] = max(total - b * sxy - c * hy, 0.0)
        bends[k] = c
    if not errors:
        return None
    best = min(errors, key=lambda k: (errors[k], k))
    if (bends[best] > 0.0) != rising:
        return None
    sigma2 = errors[best] / max(count - 4, 1)
    allowed = [k for k, error in errors.items() if error - errors[best] <= CHI2_95 * sigma2]
    return best, min(allowed), max(allowed)


def _scaled(values: Sequence[float]) -> tuple[Sequence[float], float]:
    """Divide values too large to be squared or summed by their magnitude; return both."""
    largest = max((abs(value) for value in values), default=0.0)
    if largest < LARGEST:
        return values, 1.0
    return [value / largest for value in values], largest


def _variance(values: Sequence[float]) -> float:
    mean = fmean(values)
    return sum((value - mean) ** 2 for value in values) / (len(values) - 1)
