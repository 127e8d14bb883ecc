"""Judging sampled steps: few, far apart, and therefore only by what holds to the end."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence

from rlhfdoctor.measures import Batch, ladders, sample_evidence
from rlhfdoctor.model import Finding, Onset, Run, Skip


def measured(
    run: Run, fewest: int, measure: Callable[[Batch], float | None]
) -> list[tuple[list[Batch], list[float]]]:
    """Return each sample file's steps with their measure, where at least two steps have one."""
    found = []
    for ladder in ladders(run, fewest):
        pairs = [(batch, measure(batch)) for batch in ladder]
        known = [(batch, value) for batch, value in pairs if value is not None]
        if len(known) > 1:
            found.append(([batch for batch, _ in known], [value for _, value in known]))
    return found


def rewarded(run: Run, fewest: int) -> list[list[Batch]]:
    """Return the sample files in which every response carries a finite reward."""
    return [
        ladder
        for ladder in ladders(run, fewest)
        if all(item.reward is not None for batch in ladder for item in batch.items)
    ]


def longest(steps: Sequence[Batch]) -> int:
    """Return the greatest length of a file's responses: the limit, where they pile up there."""
    return max(item.length for batch in steps for item in batch.items)


def alarms(
    run: Run,
    fewest: int,
    measure: Callable[[Batch], float | None],
    *,
    wants: str | None,
    subject: str,
    unit: str,
    estimator: str | None = None,
    above: Callable[[float], float] | None = None,
    below: Callable[[float], float] | None = None,
    holds: Callable[[Sequence[Batch]], bool] = lambda steps: True,
    args: Callable[[Sequence[Batch]], Mapping[str, object]] = lambda steps: {},
) -> Iterator[Finding | Skip]:
    """Yield a critical finding for each sample file that is beyond its limit to the end.

    wants: what the responses must carry, for the skip where no file has two measurable steps; None
    where something else was looked at. above, below: the limit, given the measure of the file's
    first step. holds: whether it stands a second look at the steps. The template's arguments are
    source, start, level, step (the first beyond), and ``args`` of the file's steps.
    """
    files = measured(run, fewest, measure)
    if not files and wants is not None:
        yield too_few(fewest, wants)
    for steps, values in files:
        high = above(values[0]) if above else math.inf
        low = below(values[0]) if below else -math.inf
        bad = standing_from([not low <= value <= high for value in values])
        if bad is None or not holds(steps):
            continue
        first, last = steps[bad], steps[-1]
        evidence = sample_evidence(
            first,
            last,
            subject,
            values[-1],
            unit=unit,
            estimator=estimator,
            limit_low=low if below else None,
            limit_high=high if above else None,
        )
        told = {
            "source": first.source,
            "start": values[0],
            "level": values[-1],
            "step": first.step,
            **args(steps),
        }
        yield Finding("critical", (evidence,), told, onset=onset_between(run, steps, bad))


def too_few(fewest: int, what: str) -> Skip:
    """Return the skip of a rule that found no two sampled steps to compare."""
    return Skip("", (f"two sampled steps with {fewest} responses or more {what}",))


def standing_from(bad: Sequence[bool]) -> int | None:
    """Return the first index from which every later step is bad."""
    index = len(bad)
    while index > 0 and bad[index - 1]:
        index -= 1
    return index if index < len(bad) else None


def onset_between(run: Run, ladder: Sequence[Batch], bad: int) -> Onset:
    """Return the onset between the last good sampled step and the first bad one, in logged steps.

    A sampled step counts updates; the log row that belongs to it is ``log_offset`` later.
    """
    at = (ladder[bad].step or 0) + run.log_offset
    if bad == 0:
        return Onset(
            step=at, low=min(at if run.first_step is None else run.first_step, at), high=at
        )
    after = (ladder[bad - 1].step or 0) + run.log_offset + 1
    return Onset(step=at, low=min(after, at), high=at)
