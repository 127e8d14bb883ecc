"""What rules on one logged number share: lasting stretches, grades, tracks without zeros, dates."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from rlhfdoctor.measures import Track, metric_evidence
from rlhfdoctor.model import Finding, Onset, Run, Severity
from rlhfdoctor.rules._alarm import numbers
from rlhfdoctor.series import end_level, onset, stretches

GENERIC = "generic"
"""The dialect of keys that no framework owns: a name alone is no proof of what was measured."""


def sustained(
    run: Run,
    found: Track,
    *,
    patience: int,
    above: float | None = None,
    below: float | None = None,
    severity: Callable[[float], Severity],
    args: Mapping[str, object] | None = None,
) -> Iterator[Finding]:
    """Yield the longest stretch beyond the limit that ended, and the one that stands at the end.

    Like ``alarms``, with its arguments for the template, but two findings at most, however noisy
    the log. What ended is information; so is all that was translated by name alone, and a log
    shorter than ``patience`` that lies beyond throughout.
    """

    def beyond(value: float) -> bool:
        return (above is not None and value > above) or (below is not None and value < below)

    end = len(found) - 1
    short = len(found) < patience
    spans = stretches(found.values, beyond, len(found) if short else patience) if found else []
    ended = [span for span in spans if end - span[1] >= patience]
    told = [max(ended, key=lambda span: span[1] - span[0])] if ended else []
    for first, last in [*told, *(span for span in spans if span not in ended)]:
        level = end_level(found.values[first : last + 1], patience)
        stands = (first, last) not in ended
        sure = stands and not short and run.dialect != GENERIC
        date = (
            appeared(found.steps, 0)
            if first == 0
            else onset(found.steps, found.values, first, patience)
        )
        yield Finding(
            severity(level) if sure else "info",
            (metric_evidence(run, found, first, last, level, limit_low=below, limit_high=above),),
            {**numbers(found, first, last, level), **(args or {})},
            onset=date,
            recovered_at=None if stands else found.steps[last + 1],
        )


def graded(fault: float) -> Callable[[float], Severity]:
    """Return the severity of a level: a warning above ``fault``, information below."""

    def severity(level: float) -> Severity:
        return "warning" if level > fault else "info"

    return severity


def without_zeros(found: Track) -> Track:
    """Leave out exact zeros: batches without any signal have no gradient, which is no small one."""
    kept = [(step, value) for step, value in zip(found.steps, found.values, strict=True) if value]
    return replace(found, steps=[step for step, _ in kept], values=[value for _, value in kept])


def magnitudes(found: Track) -> Track:
    """Return a signed quantity without its sign: a k1 estimate strays to either side."""
    return replace(found, values=[abs(value) for value in found.values])


def appeared(steps: Sequence[int], index: int) -> Onset:
    """Date what shows in a row and did not in the row before."""
    low = steps[index - 1] + 1 if index else steps[0]
    return Onset(steps[index], low, steps[index])
