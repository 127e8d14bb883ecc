"""Whether a run earns: what rules about lengths and groups ask of the reward beside them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, median

from rlhfdoctor.measures import Track, logged, track
from rlhfdoctor.model import Onset, Run
from rlhfdoctor.series import halves_differ, onset, rise, variance

TREND = 4.0
"""Standard errors that make a trend, as everywhere in this package."""

MOST = 0.5
"""Share of rows that earn the same, from which the reward is stuck there. [H]"""

ROUNDING = 1e-9
"""Relative size of differences that are none."""

SMOOTH = 5
"""Logged rows whose running median tells where a noisy reward crosses a level for good."""

FEW = 5
"""Logged rows below which all of them must earn the same."""

DECIMALS = 3
"""Decimals, in units of the largest reward, to which rewards are the same (DSE 586)."""


def reward_of(run: Run) -> Track | None:
    """Return the reward before any penalty, or None where it is not logged."""
    return track(run, "reward_raw_mean") if logged(run, "reward_raw_mean") else None


def rises(values: Sequence[float], errors: float = TREND) -> bool:
    """Say whether a series rises: between its halves, or from its first to its last rows."""
    return max(halves_differ(values), rise(values)) > errors


def falls(values: Sequence[float], errors: float = TREND) -> bool:
    """Say whether a series falls, likewise."""
    return rises([-value for value in values], errors)


def rounded(values: Sequence[float]) -> list[float]:
    """Return values as shares of the largest magnitude, rounded to what counts as the same."""
    scale = max((abs(value) for value in values), default=0.0) or 1.0
    return [round(value / scale, DECIMALS) + 0.0 for value in values]


def stuck(values: Sequence[float]) -> bool:
    """Say whether most rows earn exactly the same and the rest shows no rise: nothing is learnt."""
    share = most_common(values)
    return (share >= MOST if len(values) >= FEW else share == 1.0) and not rises(values)


def most_common(values: Sequence[float]) -> float:
    """Return the share of the rows that hold the most frequent value; 0 without rows."""
    counts = Counter(rounded(values))
    return max(counts.values()) / len(values) if counts else 0.0


@dataclass(frozen=True, slots=True)
class Change:
    """From one block of rows to a later one: the means, and how sure and how large it is.

    errors: of the difference, in standard errors. effect: in standard deviations of the rows.
    """

    before: float
    after: float
    errors: float
    effect: float

    @property
    def gain(self) -> float:
        """The difference of the means."""
        return self.after - self.before

    def loses(self, share: float) -> bool:
        """Say whether it is a fall by at least this share of the larger level."""
        return -self.gain >= share * max(abs(self.before), abs(self.after))


def change(before: Sequence[float], after: Sequence[float]) -> Change:
    """Compare two blocks of at least two rows; without any spread a difference is infinite."""
    scale = max((abs(value) for value in (*before, *after)), default=0.0) or 1.0
    one, two = [value / scale for value in before], [value / scale for value in after]
    difference = fmean(two) - fmean(one)
    spread = variance(one) / len(one) + variance(two) / len(two)
    pooled = math.sqrt((variance(one) + variance(two)) / 2)
    surely = math.copysign(math.inf, difference) if abs(difference) > ROUNDING else 0.0
    return Change(
        fmean(one) * scale,
        fmean(two) * scale,
        difference / math.sqrt(spread) if spread > ROUNDING**2 else surely,
        difference / pooled if pooled > ROUNDING else surely,
    )


def blocks(rows: int, least: int, parts: int = 5) -> list[slice]:
    """Cut rows into blocks of equal size, the last ending with the last row; none if too few."""
    size = max(least, rows // parts)
    first = rows % size
    return [slice(start, start + size) for start in range(first, rows, size)]


def crossing(steps: Sequence[int], values: Sequence[float], level: float) -> Onset:
    """Date a change of a noisy series from where it crosses a level for good.

    Batches of few prompts cross any level now and then: what counts is the first row after which
    the running median stays on the last rows' side. The change began there or before.
    """
    half = SMOOTH // 2
    smooth = [median(values[max(0, i - half) : i + half + 1]) for i in range(len(values))]
    above = smooth[-1] > level
    other = [i for i, value in enumerate(smooth) if (value > level) is not above]
    first = other[-1] + 1 if other else 0
    found = onset(steps, values, first, SMOOTH)
    return Onset(found.step, found.low, max(found.high, steps[first]))
