"""The quantities of a run that people look at, as curves: what reports draw and exports name.

Nothing is interpolated and nothing judged. Each panel has one unit; what has another is drawn in a
panel of its own. Steps are logged steps.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right, insort
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal

from rlhfdoctor.measures import Track, logged, track
from rlhfdoctor.model import Diagnosis, Onset, Run
from rlhfdoctor.vocabulary import metric_of

WINDOW = 10
"""Logged rows that the moving average and the 90th percentile look back over: practitioners show
the KL as three lines, the current value, a moving average of 10 and the 90th percentile."""

PERCENTILE = 0.9

KL = ("kl_ref_response", "kl_ref_token", "kl_ref_token_diluted", "kl_unknown")
ENTROPY = ("entropy", "entropy_unknown")
LENGTH = ("response_length_mean",)
REWARD = ("reward_raw_mean", "reward_shaped_mean", "dpo_margin")
GRADIENT = ("grad_norm",)

QUANTITIES: dict[str, tuple[str, ...]] = {
    "KL to the reference": KL,
    "Perplexity": ("ppl_policy", "ppl_policy_sequence", "ppl_rollout", "ppl_ref"),
    "Entropy": ENTROPY,
    "Response length": LENGTH,
    "Reward": (
        *(*REWARD, "heldout_score", "heldout_reward"),
        *("eval_reward_raw_mean", "eval_dpo_margin"),
    ),
    "Accuracy": ("success_rate", "heldout_rate", "dpo_accuracy", "eval_dpo_accuracy"),
    "Gradient norm": GRADIENT,
}
"""What is drawn, in this order, and the columns that tell it."""

SMOOTHED = "KL to the reference"
"""The quantity that is shown as three lines."""

COMPUTED = (SMOOTHED, "Perplexity", "Entropy")
"""Quantities that are exactly 0 throughout only where nobody computed them. A reward, an accuracy
or a gradient of 0 is a measurement."""

SPIKES = (SMOOTHED, "Perplexity", "Gradient norm")
"""Quantities whose peaks are the illness: of several rows in one column the highest is drawn."""

USUAL_GAPS = 3
"""Mean gaps between logged rows after which a column without a row is empty [H]."""


@dataclass(frozen=True, slots=True)
class Line:
    """One curve: the finite values of a column, or what was derived from them, by logged step.

    kind: the values, their moving mean or their moving 90th percentile, of ``WINDOW`` rows.
    """

    name: str
    column: str
    steps: tuple[int, ...]
    values: tuple[float, ...]
    kind: Literal["value", "mean", "p90"] = "value"


@dataclass(frozen=True, slots=True)
class Panel:
    """Curves of one quantity in one unit.

    unit: "unknown" where nobody said it. estimator: of a KL, else None. placeholder: one of
    ``COMPUTED`` and exact zeros throughout, so nobody measured it. keys: what the trainer calls
    these columns.
    """

    quantity: str
    unit: str
    estimator: str | None
    lines: tuple[Line, ...]
    placeholder: bool
    keys: tuple[str, ...]


def panels(run: Run, *, smooth: bool = True) -> tuple[Panel, ...]:
    """Return what of a run can be drawn: one panel for each quantity and unit that was logged.

    smooth: with the moving lines of the KL.
    """
    return tuple(panel for quantity in QUANTITIES for panel in _of(run, quantity, smooth))


def _of(run: Run, quantity: str, smooth: bool) -> Iterator[Panel]:
    found: dict[tuple[str, str | None], list[str]] = {}
    for name in QUANTITIES[quantity]:
        if logged(run, name):
            column = run.columns[name]
            found.setdefault((column.unit, column.estimator), []).append(name)
    for (unit, estimator), names in found.items():
        tracks = [track(run, name) for name in names]
        lines: list[Line] = []
        for item in tracks:
            steps = tuple(item.steps)
            words = "current" if quantity == SMOOTHED and len(tracks) == 1 else _words(item)
            lines.append(Line(words, item.metric, steps, tuple(item.values)))
        if smooth and quantity == SMOOTHED:
            first = tracks[0]
            steps, own = tuple(first.steps), first.metric
            average = tuple(moving_average(first.values))
            high = tuple(moving_percentile(first.values))
            lines.append(Line(f"moving average of {WINDOW}", own, steps, average, "mean"))
            lines.append(Line(f"90th percentile of {WINDOW}", own, steps, high, "p90"))
        keys = (place.key for item in tracks for place in item.column.sources if place.key)
        yield Panel(
            quantity,
            unit,
            estimator,
            tuple(lines),
            placeholder=quantity in COMPUTED and all(item.placeholder for item in tracks),
            keys=tuple(dict.fromkeys(keys)),
        )


def not_finite(run: Run, column: str) -> tuple[int, ...]:
    """Return the logged steps at which a column was logged as NaN or as an infinity."""
    values = run.metrics[column]
    there = run.metrics.filter(values.is_not_null() & ~values.is_finite())
    return tuple(there["step"].to_list())


def _words(found: Track) -> str:
    """Return what a column is in words, followed by "evaluation" where it is of one."""
    metric = metric_of(found.column.metric)
    words = metric.meaning if metric else found.column.metric
    return f"{words}, evaluation" if found.metric.startswith("eval_") else words


def moving_average(values: Sequence[float], window: int = WINDOW) -> list[float]:
    """Return the mean of each value and those before it, ``window`` at most."""
    rising = [mean(values[: count + 1]) for count in range(min(window - 1, len(values)))]
    return rising + [mean(part) for part in zip(*(values[k:] for k in range(window)), strict=False)]


def mean(values: Sequence[float]) -> float:
    """Return the mean of at least one finite value; it is finite too, however large they are."""
    total = sum(values)
    if math.isfinite(total):
        return total / len(values)
    return sum(value / len(values) for value in values)


def moving_percentile(
    values: Sequence[float], window: int = WINDOW, share: float = PERCENTILE
) -> list[float]:
    """Return the nearest-rank percentile of each value and those before it, ``window`` at most."""
    ranks = [max(math.ceil(round(share * count, 9)), 1) - 1 for count in range(window + 1)]
    recent: deque[float] = deque()
    ordered: list[float] = []
    percentiles = []
    for value in values:
        recent.append(value)
        insort(ordered, value)
        if len(recent) > window:
            del ordered[bisect_left(ordered, recent.popleft())]
        percentiles.append(ordered[ranks[len(ordered)]])
    return percentiles


def smoothed(line: Line, step: int) -> tuple[int, float, float, float] | None:
    """Return the last value until a step with its moving average and percentile.

    First the rows that these are of, ``WINDOW`` at most. None before the first row.
    """
    end = bisect_right(line.steps, step)
    recent = line.values[max(end - WINDOW, 0) : end]
    if not recent:
        return None
    return len(recent), recent[-1], moving_average(recent)[-1], moving_percentile(recent)[-1]


def thinned(line: Line, most: int) -> Line:
    """Return a line with at most ``most`` points (2 or more) that shows every peak and trough.

    Each of ``most / 2`` stretches of steps keeps its smallest and its largest value, in the order
    in which they occur.
    """
    if len(line.steps) <= most:
        return line
    places: set[int] = set()
    for low, high in pairwise(bounds(line.steps, line.steps[0], line.steps[-1], most // 2)):
        part = line.values[low:high]
        if part:
            places |= {low + part.index(min(part)), low + part.index(max(part))}
    kept = sorted(places)
    return replace(
        line,
        steps=tuple(line.steps[place] for place in kept),
        values=tuple(line.values[place] for place in kept),
    )


def bounds(steps: Sequence[int], first: int, last: int, count: int) -> list[int]:
    """Return where each of ``count`` stretches of the steps ``first`` to ``last`` begins.

    The stretches are as wide as each other, to a step; the end of the last one follows.
    """
    span = last - first + 1
    return [bisect_left(steps, first - -place * span // count) for place in range(count + 1)]


@dataclass(frozen=True, slots=True)
class Marks:
    """What is marked on a run's step axis, by logged step.

    saved: step and name of each checkpoint of the policy. back: those of the one to go back to,
    None where no plan is needed. The logged step of a checkpoint is its own and ``log_offset``.
    """

    onset: Onset | None
    saved: tuple[tuple[int, str], ...]
    back: tuple[int, str] | None


def marks(diagnosis: Diagnosis) -> Marks:
    """Return what every drawing and every export marks."""
    offset, plan = diagnosis.run.log_offset, diagnosis.rollback
    saved = tuple((item.step + offset, item.name) for item in diagnosis.run.policies)
    goal = plan.checkpoint if plan.needed else None
    return Marks(diagnosis.onset, saved, (goal.step + offset, goal.name) if goal else None)


def interval(onset: Onset) -> str:
    """Return "50 (49-51)": where it began, and the interval that this lies in."""
    low, high = onset.low, onset.high
    return f"{onset.step} ({low}-{high})" if low < high else str(onset.step)


def unlogged(line: Line) -> tuple[int, ...]:
    """Return the steps before which more than ``USUAL_GAPS`` mean gaps went by without a row."""
    steps = line.steps
    most = USUAL_GAPS * (steps[-1] - steps[0]) / max(len(steps) - 1, 1)
    return tuple(later for earlier, later in pairwise(steps) if later - earlier > most)


def cells(
    line: Line, first: int, last: int, count: int, *, peaks: bool
) -> tuple[float | None, ...]:
    """Return a line as ``count`` cells over the steps ``first`` to ``last``.

    A cell is the highest value logged in it, or the mean without ``peaks``; where none was, the
    last value before it, unless the next row is more than ``USUAL_GAPS`` away: then None.
    """
    steps, values = line.steps, line.values
    most = USUAL_GAPS * (steps[-1] - steps[0]) / max(len(steps) - 1, 1)
    found: list[float | None] = []
    for place, (low, high) in enumerate(pairwise(bounds(steps, first, last, count))):
        if low < high:
            found.append(max(values[low:high]) if peaks else mean(values[low:high]))
            continue
        same = low > 0 and steps[low - 1] == first + place * (last - first + 1) // count
        near = 0 < low < len(steps) and steps[low] - steps[low - 1] <= most
        found.append(values[low - 1] if same or near else None)
    return tuple(found)
