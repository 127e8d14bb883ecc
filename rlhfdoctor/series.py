"""Arithmetic on series, without thresholds: robust location and scale, stretches, onsets, trends.

Every function takes plain lists of finite numbers, oldest first.
"""

from __future__ import annotations

import math
import operator
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from statistics import fmean, median
from typing import NamedTuple

from rlhfdoctor.model import Onset

CHI2_95 = 3.84
"""95 % quantile of the chi-squared distribution with one degree of freedom."""

STRAIGHT = 1e-12
"""Share of the variance that rounding may leave of a straight line."""

TOGETHER = 16
"""Responses of which a share is taken at least: below, one response is a large part of it."""

LIKELY, SURE = 2.0, 4.0
"""Standard errors by which one row, and by which all of them, must stand apart."""

NORMAL_95 = 1.96
"""Standard errors on each side of a mean within which 95 % of a normal distribution lie."""

LARGEST = 1e100
"""Magnitude from which squares and sums may overflow."""

MEDIAN_ERROR = 1.2533
"""Ratio of the standard errors of median and mean for a normal distribution, sqrt(pi / 2)."""

MAD_TO_SIGMA = 1.4826
"""Ratio of standard deviation to median absolute deviation for a normal distribution."""


def finite(value: float) -> bool:
    """Say whether a number is finite and no larger than a float."""
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


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
    return fmean(scaled) * scale, math.sqrt(variance(scaled) / len(scaled)) * scale


def ratio_interval(
    sums: Sequence[float], weights: Sequence[float], clusters: Sequence[object]
) -> tuple[float, float] | None:
    """Return the 95 % interval of a weighted mean, sum of ``sums`` over sum of ``weights``.

    What belongs to one cluster counts as one observation: the linearised ratio estimator. None
    with fewer than two clusters, no weight, or a sum that is not finite.
    """
    total = math.fsum(weights)
    if len({*clusters}) < 2 or total <= 0.0 or not all(map(math.isfinite, sums)):
        return None
    mean = math.fsum(sums) / total
    rest: dict[object, float] = {}
    for cluster, value, weight in zip(clusters, sums, weights, strict=True):
        rest[cluster] = rest.get(cluster, 0.0) + value - mean * weight
    count = len(rest)
    scatter = math.fsum(value * value for value in rest.values()) * count / (count - 1)
    half = NORMAL_95 * math.sqrt(scatter) / total
    return mean - half, mean + half


def halves_differ(values: Sequence[float]) -> float:
    """Return the difference of the two halves' means in standard errors; 0 where undefined."""
    values, _ = _scaled(values)
    middle = len(values) // 2
    early, late = values[:middle], values[middle:]
    if len(early) < 2 or len(late) < 2:
        return 0.0
    error = math.sqrt(variance(early) / len(early) + variance(late) / len(late))
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


EXACT = 50_000
"""Sums that an exact count may form, a tenth of a second: enough for 30 runs of two verdicts
with as many values of a setting, or of three verdicts with four."""

DRAWS = 4_999
"""Arrangements drawn where too many would have to be counted: no p-value below 1 / 5,000, and a
standard error of 0.003 at 0.05."""


def ranks(values: Sequence[float]) -> list[float]:
    """Return the rank of each value, from 1; equal values share the mean of their ranks."""
    order = sorted(values)
    first = {value: place for place, value in reversed(list(enumerate(order, start=1)))}
    last = {value: place for place, value in enumerate(order, start=1)}
    return [(first[value] + last[value]) / 2 for value in values]


def rank_correlation(xs: Sequence[float], ys: Sequence[float]) -> float | None:
    """Return Spearman's rho, or None for fewer than three points or a constant side."""
    return correlation(ranks(xs), ranks(ys))


def rank_test(xs: Sequence[float], ys: Sequence[float]) -> float:
    """Return the two-sided p-value of Spearman's rho, were all arrangements equally likely.

    The share of the arrangements of ``ys`` at which |rho| is no smaller, ties included, counted
    exactly; where that takes more than ``EXACT`` sums, of ``DRAWS`` arrangements drawn by a fixed
    seed and the observed one. Never 0. Student's t would answer 0 for a single odd value on each
    side, whatever the number of pairs: so many ties are no normal distribution.
    """
    doubled = [[round(2 * rank) for rank in ranks(side)] for side in (xs, ys)]
    few, many = sorted(doubled, key=lambda side: len({*side}))
    mean = len(many) * (len(many) + 1) ** 2
    least = abs(sum(a * b for a, b in zip(many, few, strict=True)) - mean)
    sums = _arranged(many, few)
    if sums is None:
        sums = _drawn(many, few)
        sums[mean + least] += 1
    return sum(ways for total, ways in sums.items() if abs(total - mean) >= least) / sums.total()


def _arranged(many: Sequence[int], few: Sequence[int]) -> Counter[int] | None:
    """Count the arrangements of ``few`` by their sum of products with ``many``.

    Equal values of ``many`` are dealt with at once: by how many of each value of ``few`` they get.
    None where it takes more than ``EXACT`` sums.
    """
    values = sorted({*few})
    formed = 0
    dealt: dict[tuple[int, ...], Counter[int]] = {tuple(map(few.count, values)): Counter({0: 1})}
    for rank, size in Counter(many).items():
        further: dict[tuple[int, ...], Counter[int]] = {}
        for left, sums in dealt.items():
            for taken in _hands(left, size):
                formed += len(sums)
                if formed > EXACT:
                    return None
                ways = math.prod(map(math.comb, left, taken))
                gain = rank * sum(map(operator.mul, values, taken))
                into = further.setdefault(tuple(map(operator.sub, left, taken)), Counter())
                for total, times in sums.items():
                    into[total + gain] += times * ways
        dealt = further
    (sums,) = dealt.values()
    return sums


def _hands(left: Sequence[int], size: int) -> Iterator[tuple[int, ...]]:
    """Yield how many of each kind may be taken, ``size`` in all, where so many are ``left``."""
    if len(left) == 1:
        yield (size,)
        return
    for first in range(max(0, size - sum(left[1:])), min(left[0], size) + 1):
        for rest in _hands(left[1:], size - first):
            yield first, *rest


def _drawn(many: Sequence[int], few: Sequence[int]) -> Counter[int]:
    """Count ``DRAWS`` random arrangements of ``few`` by their sum of products with ``many``.

    Only what differs from the commonest value of ``few`` is dealt out.
    """
    common = Counter(few).most_common(1)[0][0]
    odd = [value - common for value in few if value != common]
    base = common * sum(many)
    chance = random.Random(0)
    return Counter(
        base + sum(map(operator.mul, odd, chance.sample(many, len(odd)))) for _ in range(DRAWS)
    )


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p-values corrected for their number by Holm's step-down method (Holm 1979)."""
    order = sorted(range(len(p_values)), key=lambda place: p_values[place])
    corrected = [0.0] * len(p_values)
    largest = 0.0
    for passed, place in enumerate(order):
        largest = max(largest, min((len(p_values) - passed) * p_values[place], 1.0))
        corrected[place] = largest
    return corrected


def spread(values: Sequence[float]) -> tuple[float, float, float]:
    """Return median, variance, and a robust relative variance: (1.4826 MAD / median)^2.

    The variance of a single value is 0; the relative one is infinite about a median of 0, unless
    nothing varies.
    """
    middle = median(values)
    scaled, scale = _scaled(values)
    spread = variance(scaled) * scale * scale if len(values) > 1 else 0.0
    mad = MAD_TO_SIGMA * median([abs(value - middle) for value in values])
    relative = mad / abs(middle) if middle else math.inf if mad else 0.0
    return middle, spread, relative * relative


def grown(hits: Sequence[int], totals: Sequence[int]) -> tuple[int, int, int] | None:
    """Date the rise of a share: the row from which it stands above the start's for good.

    hits, totals: responses that show something, and responses, of each row. Rows with few responses
    are taken together with the next. Each of them from there on lies ``LIKELY`` standard errors of
    the binomial distribution above the first, and all together ``SURE``.

    Returns:
        The row, and the first and the last row that may be it: that after the last one at which the
        share was not above the start's, and the end of those that were taken together. None where
        nothing rose.
    """
    starts: list[int] = []
    found: list[tuple[int, int]] = []
    held = there = 0
    for row, (hit, total) in enumerate(zip(hits, totals, strict=True)):
        starts += [] if there else [row]
        held, there = held + hit, there + total
        if there >= TOGETHER:
            found.append((held, there))
            held = there = 0
    if len(found) < 2:
        return None
    at = len(found)
    while at > 1 and share_above(*found[0], *found[at - 1]) > LIKELY:
        at -= 1
    later = sum(hit for hit, _ in found[at:]), sum(total for _, total in found[at:])
    if at == len(found) or share_above(*found[0], *later) <= SURE:
        return None
    low = at
    while low > 1 and found[low - 1][0] * found[0][1] > found[0][0] * found[low - 1][1]:
        low -= 1
    ends = [*starts[1:], len(totals)]
    return starts[at], starts[low], ends[at] - 1


def share_above(hits: int, total: int, later_hits: int, later_total: int) -> float:
    """Return by how many standard errors of the pooled share a later share lies above one."""
    if not total or not later_total:
        return 0.0
    share = (hits + later_hits) / (total + later_total)
    error = math.sqrt(share * (1 - share) * (1 / total + 1 / later_total))
    gain = later_hits / later_total - hits / total
    return gain / error if error > 0.0 else 0.0


def pooled(both: float, own: float, other: float) -> float | None:
    """Return Pearson's r from sums of products and squares about the means of each group.

    None where one of the two never varies within a group.
    """
    scale = own * other
    if not (math.isfinite(scale) and scale > 0.0 and math.isfinite(both)):
        return None
    return max(-1.0, min(1.0, both / math.sqrt(scale)))


def onset(steps: Sequence[int], values: Sequence[float], first: int, patience: int) -> Onset:
    """Date the beginning of what an alarm saw, with the interval that the rows allow.

    ``first`` is the index of the alarm's first row; the alarm rings ``patience`` rows later. Three
    shapes are fitted to the raw values from the first row on. A jump (``jump``) is dated at its
    first row, after the row before. A ramp is two straight lines that meet (``hinge``, both slopes
    free), up to the row where 90 % of the change is done; the change is read 2 x ``patience`` rows
    after the alarm, so that neither a plateau nor a second jump bends the lines. An exponential is
    the same in logarithms, and speaks where that is likelier: lines see it only once it is steep.
    The interval holds every break whose squared error exceeds the best one's by at most 3.84
    sigma^2. No answer is later than the alarm itself. Where nothing can be fitted, or the best
    break is one that slows the change down (it was under way from the start), the answer is the row
    after the last one that had done less than a quarter of the change, and the interval begins with
    the log.

    Single rows before the alarm that stand out from both neighbours and come back are no beginning;
    they take their neighbours' mean.

    A fit over the whole series, CUSUM, and the alarm's first row all date worse: a second jump
    long after the first pulls the first away, CUSUM fires on healthy drift, and an alarm is late
    by construction.
    """
    window = _without_spikes(values[: first + 3 * patience], first)
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
    last = first + patience - 1
    leap = jump(window[: end + 1 + patience])
    if leap is not None:
        best, low, high = (min(index, last) for index in leap)
        return Onset(steps[best], min(steps[low - 1] + 1, steps[best]), steps[high])
    xs, ys = steps[: end + 1], window[: end + 1]
    lines = hinge(xs, ys, rising=rising)
    grows = rising if ys[0] > 0.0 else not rising
    fitted = (exponential(xs, ys, lines) if grows else None) or lines
    if fitted is None:
        quarter = start_level(window) + 0.25 * (end_level(window) - start_level(window))
        still = [
            index
            for index in range(first)
            if (window[index] < quarter if rising else window[index] > quarter)
        ]
        return Onset(step=steps[still[-1] + 1 if still else 0], low=steps[0], high=steps[first])
    best, low, high = (min(index, last) for index in (fitted.best, fitted.low, fitted.high))
    return Onset(step=steps[best], low=steps[low], high=steps[high])


SPIKE = 6.0
"""Noise by which a single row must stand out from both neighbours to be a spike."""

ABRUPT = 0.25
"""Share of a jump that the row before it may have done, and the first row of it may still lack."""

LIKELIER = 3.0
"""Log-likelihood by which an exponential must beat two lines; 3 is a factor of 20."""


def _without_spikes(values: Sequence[float], first: int) -> list[float]:
    """Return the values with each spike before index ``first`` replaced by its neighbours' mean."""
    calm = list(values)
    least = SPIKE * noise(values[:first]) if first > 2 else math.inf
    for index in range(1, first - 1):
        before, value, after = values[index - 1 : index + 2]
        if max(value - max(before, after), min(before, after) - value) > least > 0.0:
            calm[index] = before / 2 + after / 2
    return calm


def jump(ys: Sequence[float]) -> tuple[int, int, int] | None:
    """Fit one level and then another; return (best, lowest, highest) index of the second's first.

    None where the change takes more than a row, or a value on either side lies nearer to the other
    level: what comes and goes, a ramp, a change that goes on.
    """
    count = len(ys)
    if count < 4:
        return None
    ys, _ = _scaled(ys)
    centre = fmean(ys)
    y = [value - centre for value in ys]
    total = math.fsum(value * value for value in y)
    if total <= 0.0 or not math.isfinite(total):
        return None
    errors: dict[int, float] = {}
    left = 0.0
    for k in range(1, count):
        left += y[k - 1]
        errors[k] = max(total - left * left * count / (k * (count - k)), 0.0)
    best = min(errors, key=lambda k: (errors[k], k))
    before, after = median(y[:best]), median(y[best:])
    size = after - before
    share = [(value - before) / size if size else 0.0 for value in y]
    if not size or share[best - 1] > ABRUPT or share[best] < 1 - ABRUPT:
        return None
    strays = sum(value < 0.5 for value in share[best:]) + sum(value > 0.5 for value in share[:best])
    if strays or any(abs(value) > 1 + 2 * ABRUPT for value in share[best:]):
        return None
    sigma2 = errors[best] / max(count - 3, 1)
    allowed = [k for k, error in errors.items() if error - errors[best] <= CHI2_95 * sigma2]
    return best, min(allowed), max(allowed)


def exponential(xs: Sequence[int], ys: Sequence[float], lines: Bend | None) -> Bend | None:
    """Fit a hinge to the logarithms; None where the two ``lines`` through the values are as likely.

    Both are held to the logarithms, so that noise in proportion to the value favours neither.
    Values that are all negative grow downwards.
    """
    sign = 1.0 if ys[0] > 0.0 else -1.0
    sizes = [sign * value for value in ys]
    if min(sizes) <= 0.0:
        return None
    logs = [math.log(value) for value in sizes]
    grown = hinge(xs, logs, rising=True)
    if grown is None or lines is None:
        return grown
    least = math.log(min(sizes))
    drawn = [math.log(sign * y) if sign * y > 0.0 else least for y in lines.through(xs)]
    missed = math.fsum((a - b) ** 2 for a, b in zip(drawn, logs, strict=True))
    likelier = missed > grown.error * math.exp(2 * LIKELIER / len(ys))
    return grown if likelier else None


class Bend(NamedTuple):
    """Two lines: index of the break, of the earliest and the latest allowed, squared error.

    level, slope, bend: y at the break, its slope before, and what the slope gains there.
    """

    best: int
    low: int
    high: int
    error: float
    level: float
    slope: float
    bend: float

    def through(self, xs: Sequence[int]) -> list[float]:
        """Return the fitted values."""
        at = xs[self.best]
        return [self.level + self.slope * (x - at) + self.bend * max(0, x - at) for x in xs]


def hinge(xs: Sequence[int], ys: Sequence[float], *, rising: bool) -> Bend | None:
    """Fit y = a + b x + c max(0, x - x_k) for each index k.

    Linear in the number of rows: the sums to the right of k are kept while k walks left.
    Returns None below six rows, for a straight line, and where the best break has c < 0 although
    the series is ``rising`` (c > 0 although it falls).
    """
    count = len(xs)
    if count < 6:
        return None
    ys, magnitude = _scaled(ys)
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
    lines: dict[int, tuple[float, float, float]] = {}
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
        lines[k] = (b, c, h / count)
    if not errors:
        return None
    best = min(errors, key=lambda k: (errors[k], k))
    b, c, h = lines[best]
    if (c > 0.0) != rising:
        return None
    sigma2 = errors[best] / max(count - 4, 1)
    allowed = [k for k, error in errors.items() if error - errors[best] <= CHI2_95 * sigma2]
    level = (centre_y + b * x[best] - c * h) * magnitude
    return Bend(
        best,
        min(allowed),
        max(allowed),
        errors[best],
        level,
        b * magnitude / scale,
        c * magnitude / scale,
    )


def _scaled(values: Sequence[float]) -> tuple[Sequence[float], float]:
    """Divide values too large to be squared or summed by their magnitude; return both."""
    largest = max((abs(value) for value in values), default=0.0)
    if largest < LARGEST:
        return values, 1.0
    return [value / largest for value in values], largest


def variance(values: Sequence[float]) -> float:
    """Return the unbiased variance of at least two values."""
    mean = fmean(values)
    return sum((value - mean) ** 2 for value in values) / (len(values) - 1)
