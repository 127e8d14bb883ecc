"""The quantities of a run that people look at, as curves: what reports draw and exports name.

Nothing is interpolated and nothing judged. Each panel has one unit; what has another is drawn in a
panel of its own. Steps are logged steps.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rlhfdoctor.measures import Track, logged, track
from rlhfdoctor.model import Run
from rlhfdoctor.vocabulary import metric_of

WINDOW = 10
"""Logged rows that the moving average and the 90th percentile look back over: practitioners show
the KL as three lines, the current value, a moving average of 10 and the 90th percentile."""

PERCENTILE = 0.9

QUANTITIES: dict[str, tuple[str, ...]] = {
    "KL to the reference": (
        *("kl_ref_response", "kl_ref_token", "kl_ref_token_diluted", "kl_unknown"),
    ),
    "Perplexity": ("ppl_policy", "ppl_policy_sequence", "ppl_rollout", "ppl_ref"),
    "Entropy": ("entropy", "entropy_unknown"),
    "Response length": ("response_length_mean",),
    "Reward": (
        *("reward_raw_mean", "reward_shaped_mean", "dpo_margin", "heldout_score"),
        *("heldout_reward", "eval_reward_raw_mean", "eval_dpo_margin"),
    ),
    "Accuracy": ("success_rate", "heldout_rate", "dpo_accuracy", "eval_dpo_accuracy"),
    "Gradient norm": ("grad_norm",),
}
"""What is drawn, in this order, and the columns that tell it."""

SMOOTHED = "KL to the reference"
"""The quantity that is shown as three lines."""


@dataclass(frozen=True, slots=True)
class Line:
    """One curve: the finite values of a column, or what was derived from them, by logged step."""

    name: str
    column: str
    steps: tuple[int, ...]
    values: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Panel:
    """Curves of one quantity in one unit.

    unit: "unknown" where nobody said it. estimator: of a KL, else None. placeholder: exact zeros
    throughout, so nobody measured it. keys: what the trainer calls these columns.
    """

    quantity: str
    unit: str
    estimator: str | None
    lines: tuple[Line, ...]
    placeholder: bool
    keys: tuple[str, ...]


def panels(run: Run) -> tuple[Panel, ...]:
    """Return what of a run can be drawn: one panel for each quantity and unit that was logged."""
    return tuple(panel for quantity in QUANTITIES for panel in _of(run, quantity))


def _of(run: Run, quantity: str) -> Iterator[Panel]:
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
        if quantity == SMOOTHED:
            first = tracks[0]
            steps = tuple(first.steps)
            average = tuple(moving_average(first.values))
            high = tuple(moving_percentile(first.values))
            lines.append(Line(f"moving average of {WINDOW}", first.metric, steps, average))
            lines.append(Line(f"90th percentile of {WINDOW}", first.metric, steps, high))
        keys = (place.key for item in tracks for place in item.column.sources if place.key)
        yield Panel(
            quantity,
            unit,
            estimator,
            tuple(lines),
            placeholder=all(item.placeholder for item in tracks),
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
    recent: deque[float] = deque(maxlen=window)
    averages = []
    for value in values:
        recent.append(value)
        averages.append(sum(item / len(recent) for item in recent))
    return averages


def moving_percentile(
    values: Sequence[float], window: int = WINDOW, share: float = PERCENTILE
) -> list[float]:
    """Return the nearest-rank percentile of each value and those before it, ``window`` at most."""
    recent: deque[float] = deque()
    ordered: list[float] = []
    percentiles = []
    for value in values:
        recent.append(value)
        insort(ordered, value)
        if len(recent) > window:
            del ordered[bisect_left(ordered, recent.popleft())]
        percentiles.append(ordered[-(-int(share * 100) * len(ordered) // 100) - 1])
    return percentiles


def thinned(line: Line, most: int) -> Line:
    """Return a line with at most ``most`` points that still shows every peak and trough.

    Each of ``most / 2`` stretches of steps keeps its smallest and its largest value, in the order
    in which they occur.
    """
    if len(line.steps) <= most:
        return line
    low, high, room = line.steps[0], line.steps[-1], max(most // 2, 1)
    kept: dict[int, tuple[int, int]] = {}
    for place, (step, value) in enumerate(zip(line.steps, line.values, strict=True)):
        bucket = min((step - low) * room // max(high - low, 1), room - 1)
        least, largest = kept.get(bucket, (place, place))
        kept[bucket] = (
            place if value < line.values[least] else least,
            place if value > line.values[largest] else largest,
        )
    places = sorted({place for pair in kept.values() for place in pair})
    return Line(
        line.name,
        line.column,
        tuple(line.steps[place] for place in places),
        tuple(line.values[place] for place in places),
    )
