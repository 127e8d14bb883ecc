"""Response length that drifts far from the run's own start."""

from collections.abc import Iterator
from dataclasses import dataclass

from rlhfdoctor.measures import metric_evidence, track
from rlhfdoctor.model import Finding, Run, Skip
from rlhfdoctor.rules import rule
from rlhfdoctor.series import end_level, halves_differ, start_level


@dataclass(frozen=True, slots=True)
class Limits:
    """What counts as a drift."""

    factor: float = 1.5  # times the start, or the start divided by it
    standard_errors: float = 4.0  # between the means of the two halves


@rule(
    "LEN002",
    signal="length",
    needs=["response_length_mean", "rows>=10"],
    limits=Limits,
    text="mean response length moves from {start:.4g} to {level:.4g} {unit}",
    brief="length {start:.3g} -> {level:.3g}",
)
def length_trend(run: Run, limits: Limits) -> Iterator[Finding | Skip]:
    """The mean response length drifts, up or down, by half or more.

    Reasoning runs grow their answers for good reasons and short-answer tasks shrink them, so the
    drift alone is information. It becomes a fault where answers no longer end (LEN003, LEN004,
    LEN005) or the reward pays for the length itself (RWD001). [H]

    Remedy: none by itself; check whether the reward follows the length.
    """
    length = track(run, "response_length_mean")
    start, level = start_level(length.values), end_level(length.values)
    significant = abs(halves_differ(length.values)) > limits.standard_errors
    drifts = level > limits.factor * start or level * limits.factor < start
    if significant and start > 0 and drifts:
        yield Finding(
            "info",
            (metric_evidence(run, length, 0, len(length) - 1, level),),
            {"start": start, "level": level, "unit": length.column.unit},
        )
