"""Steps that take several times as long as they did."""

from collections.abc import Iterator
from dataclasses import dataclass

from rlhfdoctor.measures import logged, track
from rlhfdoctor.model import Finding, Run, Skip
from rlhfdoctor.rules import rule
from rlhfdoctor.rules._alarm import alarms
from rlhfdoctor.series import end_level, start_level


@dataclass(frozen=True, slots=True)
class Limits:
    """When a step is slow."""

    growth: float = 4.0  # times the step time of the first rows
    patience: int = 5  # consecutive logged rows; the first rows of the log are as many
    whole: float = 0.95  # of the step time: a stage that takes as much is the step itself


@rule(
    "LOG005",
    signal="log",
    needs=["step_time", "rows>=11"],
    limits=Limits,
    text="step time {start:.3g} -> {level:.3g} s for {rows} logged rows ({steps} steps){more}",
    brief="step time {start:.3g} -> {level:.3g} s",
)
def step_time_grows(run: Run, limits: Limits) -> Iterator[Finding | Skip]:
    """Steps take several times as long as at the start, and keep doing so.

    Longer responses cost time, and so do a failing machine, a full disk, a reward service that
    slows down. In verl 1224 the steps went from 25 to 118 s while the policy collapsed; the factor
    of 4 comes from there. It says nothing about the health of the policy, so it is information.
    The first row is left out: it holds compilation and loading.

    Remedy: see which stage grew, and whether the response length grew with it; where it did, look
    at the length first.
    """
    time = track(run, "step_time")
    start = start_level(time.values[1:], limits.patience)
    if start <= 0.0:
        return
    yield from alarms(
        run,
        time,
        patience=limits.patience,
        above=limits.growth * start,
        severity=lambda level: "info",
        args={"start": start, "more": _slowest(run, start, limits) + _longer(run, limits)},
    )


def _slowest(run: Run, whole: float, limits: Limits) -> str:
    """Name the stage that grew most, in seconds; a stage that is all of the step is none."""
    grown = []
    for name in run.columns:
        if name.startswith("time_stage[") and logged(run, name):
            values = track(run, name).values
            before = start_level(values[1:] or values, limits.patience)
            after = end_level(values, limits.patience)
            if before < limits.whole * whole and after > before:
                grown.append((after - before, name[len("time_stage[") : -1], before, after))
    if not grown:
        return ""
    _, name, before, after = max(grown)
    return f"; {name} took {before:.3g} s, at the end {after:.3g} s"


def _longer(run: Run, limits: Limits) -> str:
    """Say how the response length went."""
    if not logged(run, "response_length_mean"):
        return ""
    values = track(run, "response_length_mean").values
    before, after = (level(values, limits.patience) for level in (start_level, end_level))
    return f"; mean response length {before:.4g} -> {after:.4g} tokens"
