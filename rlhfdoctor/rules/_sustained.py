"""What rules on one logged number share: lasting stretches, grades, tracks without zeros, dates."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from rlhfdoctor.measures import Track, metric_evidence
from rlhfdoctor.model import Finding, Onset, Run, Severity
from rlhfdoctor.rules._alarm import alarms
from rlhfdoctor.series import end_level

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
    """Yield what ``alarms`` yields; a log shorter than its patience, all beyond, is information.

    Nothing that was translated by name alone is more than information. The template's arguments
    are those of ``alarms``.
    """
    named = run.dialect == GENERIC
    if len(found) >= patience:
        yield from alarms(
            run,
            found,
            patience=patience,
            above=above,
            below=below,
            severity=lambda level: "info" if named else severity(level),
            args=args,
        )
        return
    beyond = [
        (above is not None and value > above) or (below is not None and value < below)
        for value in found.values
    ]
    if found.values and all(beyond):
        level = end_level(found.values)
        last = len(found) - 1
        yield Finding(
            "info",
            (metric_evidence(run, found, 0, last, level, limit_low=below, limit_high=above),),
            {
                "start": found.values[0],
                "level": level,
                "rows": len(found),
                "steps": found.steps[-1] - found.steps[0] + 1,
                "unit": found.column.unit,
                "estimator": found.column.estimator or "estimator unknown",
                **(args or {}),
            },
            onset=appeared(found.steps, 0),
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
