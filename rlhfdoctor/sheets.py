"""What one file logged, by key, and the arithmetic of its step axis.

A sheet is sparse: each key has the rows at which it was logged and its values there. Long logs and
logs of thousands of keys cost what they hold, and nothing is filled in.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

import polars as pl

from rlhfdoctor.model import Row, Rows
from rlhfdoctor.readers._json import LARGEST_STEP, split_of

INDEX: dict[str, type[pl.DataType]] = {
    "step": pl.Int64,
    "epoch": pl.Float64,
    "rank": pl.Int64,
    "line": pl.Int64,
    "segment": pl.Int64,
    "wall_time": pl.Float64,
}
"""Columns of ``Sheet.index``, besides ``evaluation`` (whether all of a row is one) and ``run``."""

MOST_KEYS = 100_000
"""Keys that one file may open; no trainer logs a hundredth of it."""

ALIKE = 0.8
"""Share of a row's keys that the next must carry to be the next row of the same log."""

FEWEST_KEYS = 3
"""Keys that both must carry: rows of one or two keys are alike by chance."""


@dataclass(frozen=True, slots=True, eq=False)
class Sheet:
    """The rows of one file. series: for each key the rows that have it, and its values there."""

    index: pl.DataFrame
    series: Mapping[str, tuple[pl.Series, pl.Series]]
    others: frozenset[str] = frozenset()

    def __len__(self) -> int:
        """Return the number of rows."""
        return self.index.height

    @property
    def steps(self) -> list[int | None]:
        """The step of each row."""
        return self.index["step"].to_list()

    @property
    def trained(self) -> list[bool]:
        """Of each row, whether it is one of training."""
        return (~self.index["evaluation"]).to_list()

    @property
    def training(self) -> pl.DataFrame:
        """The index of the rows of training that carry a step."""
        return self.index.filter(~pl.col("evaluation")).drop_nulls("step")

    def column(self, key: str) -> pl.Series:
        """Return one value a row, null where the key was not logged."""
        places, values = self.series[key]
        if len(values) == len(self) and places[0] == 0 and places[-1] == len(self) - 1:
            ordered = places.is_sorted() and places.n_unique() == len(places)
            if ordered:
                return values.alias(key)
        empty = pl.repeat(None, len(self), dtype=pl.Float64, eager=True)
        return empty.scatter(places, values).alias(key)

    def with_index(self, **columns: Sequence[object]) -> Sheet:
        """Return the sheet with other steps, segments, ranks."""
        made = [pl.Series(name, items, dtype=INDEX[name]) for name, items in columns.items()]
        return replace(self, index=self.index.with_columns(made))

    def as_evaluation(self) -> Sheet:
        """Return the sheet with every metric behind the prefix of evaluations."""
        series = {
            key if split_of(key) == "eval" else f"eval_{bare(key)}": held
            for key, held in self.series.items()
        }
        return replace(self, index=self.index.with_columns(evaluation=pl.lit(True)), series=series)

    def take(self, keep: Sequence[bool]) -> Sheet:
        """Return the sheet of some of its rows; keys that they do not hold are gone."""
        mask = pl.Series(keep, dtype=pl.Boolean)
        if mask.all():
            return self
        place = mask.cast(pl.UInt32).cum_sum() - 1
        series = {}
        for key, (places, values) in self.series.items():
            kept = mask.gather(places)
            if kept.any():
                series[key] = (place.gather(places.filter(kept)), values.filter(kept))
        return replace(self, index=self.index.filter(mask), series=series)


@dataclass(slots=True)
class Builder:
    """A sheet while its file is read. ``refused``: values under keys beyond ``MOST_KEYS``."""

    steps: list[int | None] = field(default_factory=list)
    epochs: list[float | None] = field(default_factory=list)
    lines: list[int | None] = field(default_factory=list)
    ranks: dict[int, int] = field(default_factory=dict)
    walls: dict[int, float] = field(default_factory=dict)
    evals: list[int] = field(default_factory=list)
    runs: dict[int, str] = field(default_factory=dict)
    series: dict[str, tuple[array[int], array[float]]] = field(default_factory=dict)
    others: set[str] = field(default_factory=set)
    refused: int = 0

    def add(self, item: Row | Rows) -> None:
        """Take one row or many."""
        start = len(self.steps)
        if isinstance(item, Row):
            self.steps.append(item.step)
            self.epochs.append(item.epoch)
            self.lines.append(item.line)
            if item.rank is not None:
                self.ranks[start] = item.rank
            if item.wall_time is not None:
                self.walls[start] = item.wall_time
            if item.split == "eval":
                self.evals.append(start)
            if item.run is not None:
                self.runs[start] = item.run
            for key, value in item.values.items():
                self._put(key, (start,), (value,))
        else:
            self.steps.extend(item.steps)
            self.epochs.extend(item.epochs)
            self.lines.extend(item.lines)
            self.ranks.update(
                (start + place, rank) for place, rank in enumerate(item.ranks) if rank is not None
            )
            self.evals.extend(start + place for place, is_eval in enumerate(item.evals) if is_eval)
            self.runs.update(
                (start + place, run) for place, run in enumerate(item.runs) if run is not None
            )
            for places, table in item.tables:
                at = array("I", [start + place for place in places])
                for key, values in table.items():
                    self._put(key, at, values)
        self.others.update(item.others)

    def sheet(self) -> Sheet:
        """Return what was gathered."""
        count = len(self.steps)
        empty = pl.repeat(None, count, eager=True)
        index = pl.DataFrame(
            {
                "step": pl.Series(self.steps, dtype=pl.Int64),
                "epoch": pl.Series(self.epochs, dtype=pl.Float64),
                "rank": empty.cast(pl.Int64).scatter(list(self.ranks), list(self.ranks.values())),
                "line": pl.Series(self.lines, dtype=pl.Int64),
                "segment": pl.repeat(0, count, dtype=pl.Int64, eager=True),
                "wall_time": empty.cast(pl.Float64).scatter(
                    list(self.walls), list(self.walls.values())
                ),
                "evaluation": pl.repeat(False, count, eager=True).scatter(self.evals, True),
                "run": empty.cast(pl.String).scatter(list(self.runs), list(self.runs.values())),
            }
        )
        every = array("I", range(count))
        everywhere = pl.Series(every, dtype=pl.UInt32)
        series = {}
        while self.series:
            key, (places, values) = self.series.popitem()
            at = everywhere if places == every else pl.Series(places, dtype=pl.UInt32)
            series[key] = (at, pl.Series(values, dtype=pl.Float64))
        return Sheet(index, dict(sorted(series.items())), frozenset(self.others))

    def _put(self, key: str, places: Iterable[int], values: Sequence[float]) -> None:
        if key not in self.series:
            if len(self.series) >= MOST_KEYS:
                self.refused += len(values)
                return
            self.series[key] = (array("I"), array("d"))
        at, found = self.series[key]
        at.extend(places)
        found.extend(values)


def bare(key: str) -> str:
    """Return a key without the prefixes of trackers and evaluations."""
    return key[5:] if split_of(key) == "eval" else key.removeprefix("train/")


# The step axis


def numbered(sheet: Sheet, interval: int = 1) -> Sheet:
    """Number the training rows by ``interval`` from the first; an evaluation has the last's.

    A log of nothing but evaluations is numbered by them. Where the epoch goes back to the first,
    another run begins.
    """
    steps, step = [], 0
    first = last = None
    interval = min(interval, LARGEST_STEP // max(len(sheet), 1))
    evaluations_alone = not any(sheet.trained)
    for trained, epoch in zip(sheet.trained, sheet.index["epoch"].to_list(), strict=True):
        if trained and epoch is not None:
            first = epoch if first is None else first
            step = 0 if last is not None and last > epoch <= first else step
            last = epoch
        step += interval if trained or evaluations_alone else 0
        steps.append(max(step, interval))
    return sheet.with_index(step=steps)


def counted_on(sheet: Sheet, period: float | None = None) -> tuple[Sheet, int]:
    """Count steps on where they are counted anew in each epoch; return how often that was.

    The epoch goes on where the step goes back: it is no restart and no resume. period: the steps
    of an epoch, where the log tells them; else an epoch is as long as its last step says, or one
    interval longer where it began at 0.
    """
    if _rising(sheet):
        return sheet, 0
    shift = times = 0
    pace = 1
    last: tuple[int, float] | None = None
    counted: list[int | None] = []
    for step, epoch, trained in zip(
        sheet.steps, sheet.index["epoch"].to_list(), sheet.trained, strict=True
    ):
        if step is not None and trained:
            if last and step < last[0] and last[0] and (epoch or 0.0) > last[1]:
                told = period is not None and last[0] <= period < 2 * last[0] + 1
                beyond = pace if step == 0 else 0
                length = int(period) if told and period is not None else last[0] + beyond
                shift, times = min(shift + length, LARGEST_STEP), times + 1
            elif last and step > last[0]:
                pace = step - last[0]
            last = (step, epoch or 0.0)
        counted.append(step if step is None else step + shift)
    return (sheet.with_index(step=counted), times) if times else (sheet, 0)


def counted_between(sheet: Sheet) -> tuple[Sheet, int]:
    """Give training rows without a step the one that is due; return how many got one.

    A row is due one logging interval after the row before it, where that one carries a step and
    the same keys (all but a few: the step is written with others), and the next step is later. The
    interval is the usual one of the log, or the first step where no two rows tell it.
    """
    steps = sheet.steps
    known = sheet.training["step"]
    lacking = [
        place
        for place, (step, is_trained) in enumerate(zip(steps, sheet.trained, strict=True))
        if step is None and is_trained
    ]
    if not lacking or not known.len():
        return sheet, 0
    gaps = known.diff().drop_nulls()
    usual = gaps.quantile(0.5, "lower") if gaps.len() else float(known[0])
    pace = int(usual) if usual and 1 <= usual < LARGEST_STEP else 1
    looked = {*lacking, *(place - 1 for place in lacking)}
    keys: dict[int, set[str]] = {place: set() for place in looked}
    for key, (places, _) in sheet.series.items():
        for place in looked.intersection(places.to_list()):
            keys[place].add(key)
    following: list[int | None] = [None] * len(steps)
    for place in range(len(steps) - 2, -1, -1):
        later = steps[place + 1] if sheet.trained[place + 1] else None
        following[place] = following[place + 1] if later is None else later
    times = 0
    for place in lacking:
        before = steps[place - 1] if place else None
        if before is None:
            continue
        shared = len(keys[place] & keys[place - 1])
        if shared < FEWEST_KEYS or shared < ALIKE * len(keys[place - 1]):
            continue
        after = following[place]
        if after is None or after > before + pace:
            steps[place] = before + pace
            times += 1
    return (sheet.with_index(step=steps), times) if times else (sheet, 0)


def placed_by_epoch(sheet: Sheet, other: Sheet, interval: int) -> Sheet | None:
    """Give rows the steps that their epochs have in another log; None where epochs are too coarse.

    An epoch is printed with two digits: half a digit must be less than half a logging interval.
    """
    pairs = other.training.select("step", "epoch").drop_nulls()
    pairs = pairs.filter(pl.col("epoch") > 0)
    if not pairs.height or sheet.index["epoch"].null_count():
        return None
    step, epoch = pairs.row(-1)
    pace = step / epoch
    exact = sheet.index["epoch"] * pace / interval
    counted = bool(exact.is_finite().all()) and bool((exact.abs() * interval < LARGEST_STEP).all())
    if not math.isfinite(pace) or 0.005 * pace >= interval / 2 or not counted:
        return None
    return sheet.with_index(step=(exact.round() * interval).cast(pl.Int64).to_list())


def restarts(sheet: Sheet) -> list[int]:
    """Return the rows at which another run begins.

    The training step goes back to where the log began, or to its own first logging interval: a run
    that is resumed goes back to where it was saved.
    """
    if _rising(sheet):
        return []
    trained = [
        (place, step)
        for place, (step, is_trained) in enumerate(zip(sheet.steps, sheet.trained, strict=True))
        if step is not None and is_trained
    ]
    found: list[int] = []
    start = 0
    for at in range(1, len(trained)):
        (place, step), last = trained[at], trained[at - 1][1]
        if step >= last:
            continue
        first = trained[start][1]
        pace = trained[start + 1][1] - first
        after = trained[at + 1][1] - step if at + 1 < len(trained) else 0
        if step <= first or (step == after and after > pace > 0):
            found.append(place)
            start = at
    return found


def parts(sheet: Sheet, starts: Sequence[int]) -> list[Sheet]:
    """Cut a sheet before each of these rows."""
    bounds = [0, *starts, len(sheet)]
    return [
        sheet.take([low <= place < high for place in range(len(sheet))])
        for low, high in pairwise(bounds)
    ]


def by_run(sheet: Sheet) -> dict[str, Sheet]:
    """Return the sheets of the runs that a file names, in the order in which they begin.

    A name that is new in every other row names no run. Nor do names that follow each other without
    a common step (a job's id, a seed drawn anew at a resume), or that are one for each process.
    """
    names = sheet.index["run"]
    told = names.drop_nulls().unique(maintain_order=True).to_list()
    ranked = sheet.index.select("run", "rank").drop_nulls().unique()
    if len(told) < 2 or 2 * len(told) > len(sheet) or ranked.height == len(told):
        return {}
    parts = {name: sheet.take((names == name).fill_null(False).to_list()) for name in told}
    if names.null_count():
        parts["without a name"] = sheet.take(names.is_null().to_list())
    ends = [(part.index["step"].min(), part.index["step"].max()) for part in parts.values()]
    said = all("=" in name for name in told)
    if said and all(_before(one[1], other[0]) for one, other in pairwise(ends)):
        return {}
    return parts


def _before(end: object, begin: object) -> bool:
    return isinstance(end, int) and isinstance(begin, int) and end < begin


def segmented(sheet: Sheet) -> Sheet:
    """Number the stretches between which the training step goes back."""
    if _rising(sheet):
        return sheet
    segments, segment, last = [], 0, None
    for step, trained in zip(sheet.steps, sheet.trained, strict=True):
        if trained and step is not None:
            if last is not None and step < last:
                segment += 1
            last = step
        segments.append(segment)
    return sheet.with_index(segment=segments) if segment else sheet


def _rising(sheet: Sheet) -> bool:
    """Say whether the training step never goes back."""
    return sheet.training["step"].is_sorted()
