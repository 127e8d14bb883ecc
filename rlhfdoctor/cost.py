"""What a run computed for nothing: after its onset, and in groups that carry no signal."""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise
from statistics import fmean
from typing import NamedTuple

import polars as pl

from rlhfdoctor.measures import logged, track
from rlhfdoctor.model import Cost, Onset, Run

SECONDS = 3600.0
"""Seconds of an hour."""


def cost(run: Run, onset: Onset | None, price: float | None = None) -> Cost | None:
    """Count steps, wall-clock hours and GPU-hours; None where neither is known to be lost.

    onset: of a run that is lost from there on; None where it is not. price: of one GPU-hour, in
    whatever currency; money is counted only with it. Hours come from the logged time of each step,
    or from the clock of the log; GPU-hours need the number of GPUs from the configuration.
    """
    silent = _silent_share(run, onset)
    first, last = run.first_step, run.last_step
    if first is None or last is None or (onset is None and silent is None):
        return None
    begins = onset.step if onset else last
    after = max(last - begins, 0)
    clock = clock_of(run)
    hours = clock.hours(begins, last) if onset else None
    before = clock.hours(first, begins)
    lost = gpu_hours(run, begins, last) if onset else None
    computed = gpu_hours(run, first, begins)
    idle = None if silent is None or computed is None else silent * computed
    known = [part for part in (lost, idle) if part is not None]
    return Cost(
        steps_after_onset=after,
        fraction=after / max(last, 1),
        hours=hours,
        gpu_hours=lost,
        silent_fraction=silent,
        silent_gpu_hours=idle,
        money=sum(known) * price if price is not None and known else None,
        unpriced=_unpriced(run, hours, before) if price is not None and not known else "",
    )


def spent(run: Run) -> tuple[float | None, float | None]:
    """Return the wall-clock hours and the GPU-hours of the whole log; None where it does not tell.

    As in ``cost``: the logged time of each step, or the clock; the GPUs of the configuration.
    """
    first, last = run.first_step, run.last_step
    if first is None or last is None or first == last:
        return None, None
    return clock_of(run).hours(first, last), gpu_hours(run, first, last)


def gpu_hours(run: Run, first: int, last: int) -> float | None:
    """Return the GPU-hours from one logged step to another; None without a clock or the GPUs.

    The clock is not read where the configuration tells no number of GPUs.
    """
    gpus = run.number("gpus")
    hours = None if gpus is None else clock_of(run).hours(first, last)
    return None if hours is None or gpus is None else hours * gpus


def _unpriced(run: Run, *hours: float | None) -> str:
    """Say what a price lacks to become money."""
    lacking = (
        [] if run.number("gpus") is not None else ["the configuration tells no number of GPUs"]
    )
    if all(each is None for each in hours):
        lacking.append("the log has no clock")
    return " and ".join(lacking)


def _silent_share(run: Run, onset: Onset | None) -> float | None:
    """Return the mean share of groups without reward spread, of the rows before the onset."""
    if not logged(run, "frac_reward_zero_std"):
        return None
    found = track(run, "frac_reward_zero_std")
    pairs = zip(found.steps, found.values, strict=True)
    shares = [share for step, share in pairs if onset is None or step < onset.step]
    return fmean(shares) if shares else None


class Clock(NamedTuple):
    """What tells the time: seconds of a step at each row (``each``), or of the day."""

    steps: list[int]
    seconds: list[float]
    each: bool

    def hours(self, first: int, last: int) -> float | None:
        """Return the wall-clock hours from one logged step to another; None where none is told."""
        if self.each:
            there = zip(pairwise((first, *self.steps)), self.seconds, strict=True)
            spent = [
                (step - max(before, first)) * seconds
                for (before, step), seconds in there
                if first < step <= last
            ]
            return sum(spent) / SECONDS
        pairs = zip(self.steps, self.seconds, strict=True)
        times = [time for step, time in pairs if first <= step <= last]
        if len(times) < 2 or times != sorted(times):
            return None
        return (times[-1] - times[0]) / SECONDS


@lru_cache(maxsize=1)
def clock_of(run: Run) -> Clock:
    """Return the logged time of each step, else the clock of the log, which may be empty."""
    if logged(run, "step_time"):
        time = track(run, "step_time")
        if time.column.unit == "s" and not time.placeholder:
            return Clock(time.steps, time.values, each=True)
    rows = (
        run.observations.filter(pl.col("wall_time").is_finite() & (pl.col("split") == "train"))
        .group_by("step")
        .agg(pl.col("wall_time").min())
        .drop_nulls("step")
        .sort("step")
        .collect()
    )
    return Clock(rows["step"].to_list(), rows["wall_time"].to_list(), each=False)
