"""Response length above the run's own mean plus three standard deviations."""

from collections.abc import Iterator
from dataclasses import dataclass

from rlhfdoctor.measures import metric_evidence, track
from rlhfdoctor.model import Finding, Onset, Run, Skip
from rlhfdoctor.rules import rule

ROUNDING = 1e-9
"""Relative size of differences that are none."""


@dataclass(frozen=True, slots=True)
class Limits:
    """When a row stands out."""

    deviations: float = 3.0  # standard deviations above the mean of the rows before
    history: int = 10  # logged rows before the first judgement


@rule(
    "LEN001",
    signal="length",
    needs=["response_length_mean", "rows>=11"],
    limits=Limits,
    text="mean response length {value:.4g} at step {step} is above mean + {deviations:g} sd "
    "({limit:.4g}) of the rows before; such rows: {count}",
)
def length_spike(run: Run, limits: Limits) -> Iterator[Finding | Skip]:
    """A row's mean response length lies far above everything before it.

    Mean plus three standard deviations of the rows before is a practitioners' alarm to stop and
    read samples. It misses slow drift and a pile-up at the length limit (LEN002, LEN003, LEN005),
    and single rows of healthy runs trip it, so it is information.

    Remedy: read the samples of that step.
    """
    length = track(run, "response_length_mean")
    spikes: list[tuple[int, float]] = []
    mean = squares = 0.0
    for index, value in enumerate(length.values):
        spread = squares / (index - 1) if index > 1 else 0.0
        limit = mean + limits.deviations * spread**0.5
        if index >= max(limits.history, 2) and value > limit * (1 + ROUNDING):
            spikes.append((index, limit))
        away = value - mean
        mean += away / (index + 1)
        squares += away * (value - mean)
    if spikes:
        index, limit = spikes[0]
        step, value = length.steps[index], length.values[index]
        yield Finding(
            "info",
            (metric_evidence(run, length, index, index, value, limit_high=limit),),
            {"value": value, "step": step, "limit": limit, "count": len(spikes)},
            onset=Onset(step, length.steps[index - 1], step),
        )
