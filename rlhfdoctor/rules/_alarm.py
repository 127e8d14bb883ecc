"""The common shape of an alarm on a logged metric: beyond a limit, for a number of rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from rlhfdoctor.measures import Track, metric_evidence
from rlhfdoctor.model import Finding, Run, Severity
from rlhfdoctor.series import end_level, onset, start_level, stretches

MOST = 20
"""Stretches that are told of one metric; a noisy log of half a million rows has hundreds."""


def alarms(
    run: Run,
    found: Track,
    *,
    patience: int,
    above: float | None = None,
    below: float | None = None,
    severity: Callable[[float], Severity] = lambda level: "critical",
    weak: Callable[[float], Severity] = lambda level: "warning",
    args: Mapping[str, object] | None = None,
) -> Iterator[Finding]:
    """Yield a finding for each stretch of at least ``patience`` rows beyond the limit.

    A stretch that the run has not left for ``patience`` rows by its end stands, with the severity
    that its level (median of its last rows) deserves, ``weak`` of it where nothing else agrees; any
    other is information with ``recovered_at``, dated from the rows since the stretch before, so
    that a number that comes and goes costs no more than one that stays. Of more than ``MOST``
    stretches the first, the last and the longest are told. The template's arguments are start,
    level, rows, steps, unit, estimator, and ``args``.
    """

    def beyond(value: float) -> bool:
        return (above is not None and value > above) or (below is not None and value < below)

    after = 0
    for first, last in _telling(stretches(found.values, beyond, patience)):
        stands = len(found) - 1 - last < patience
        begun = slice(0 if stands else after, first + 3 * patience)
        after = last + 1
        level = end_level(found.values[first : last + 1], patience)
        yield Finding(
            severity(level) if stands else "info",
            (metric_evidence(run, found, first, last, level, limit_low=below, limit_high=above),),
            {**numbers(found, first, last, level), **(args or {})},
            onset=onset(found.steps[begun], found.values[begun], first - begun.start, patience),
            recovered_at=None if stands else found.steps[last + 1],
            weak=weak(level),
        )


def numbers(found: Track, first: int, last: int, level: float) -> dict[str, object]:
    """Return what templates tell of the rows ``first`` to ``last`` of a metric."""
    return {
        "start": start_level(found.values),
        "level": level,
        "rows": last - first + 1,
        "steps": found.steps[last] - found.steps[first] + 1,
        "unit": found.column.unit,
        "estimator": found.column.estimator or "estimator unknown",
    }


def _telling(found: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the first, the last and the longest of many stretches, in order."""
    if len(found) <= MOST:
        return found
    longest = sorted(found[1:-1], key=lambda ends: ends[0] - ends[1])[: MOST - 2]
    return [found[0], *sorted(longest), found[-1]]
