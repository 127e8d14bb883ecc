"""Judging sampled steps: few, far apart, and therefore only by what holds to the end."""

from __future__ import annotations

from collections.abc import Sequence

from rlhfdoctor.measures import Batch
from rlhfdoctor.model import Onset, Run


def standing_from(bad: Sequence[bool]) -> int | None:
    """Return the first index from which every later step is bad; never the first step of all."""
    index = len(bad)
    while index > 1 and bad[index - 1]:
        index -= 1
    return index if index < len(bad) else None


def onset_between(run: Run, ladder: Sequence[Batch], bad: int) -> Onset:
    """Return the onset between the last good sampled step and the first bad one, in logged steps.

    A sampled step counts updates; the log row that belongs to it is ``log_offset`` later.
    """
    after = (ladder[bad - 1].step or 0) + run.log_offset + 1
    at = (ladder[bad].step or 0) + run.log_offset
    return Onset(step=at, low=min(after, at), high=at)
