"""Rollouts that are many versions old."""

from collections.abc import Iterator
from dataclasses import dataclass

from rlhfdoctor.measures import metric_evidence, track
from rlhfdoctor.model import Finding, Run, Skip
from rlhfdoctor.rules import rule
from rlhfdoctor.rules._sustained import sustained
from rlhfdoctor.series import end_level, onset, start_level


@dataclass(frozen=True, slots=True)
class Limits:
    """How old is old."""

    versions: float = 8.0  # weight versions between generation and training
    growth: float = 2.0  # level at the end over level at the start
    grown: float = 2.0  # weight versions that it grew by
    patience: int = 5  # consecutive logged rows; rows of the start and of the end


@rule(
    "MIS004",
    signal="mismatch",
    needs=["staleness_mean"],
    limits=Limits,
    text="the rollouts are {level:.3g} weight versions old ({start:.3g} at the start)",
    brief="rollouts {level:.3g} versions old",
)
def staleness(run: Run, limits: Limits) -> Iterator[Finding | Skip]:
    """The policy learns from samples of weights that are many updates old.

    Asynchronous trainers allow it by design, and corrected losses live with several versions; what
    it does shows in the KL to the engine (MIS001) and in the weights (MIS003). An age above eight
    versions, or one that doubles from its own start, explains those: information. [H]

    Remedy: bound the age (fewer batches in flight, faster generation), or drop old samples.
    """
    age = track(run, "staleness_mean")
    found = list(
        sustained(
            run,
            age,
            above=limits.versions,
            patience=limits.patience,
            severity=lambda level: "info",
        )
    )
    yield from found
    if found or len(age) < 2 * limits.patience:
        return
    start = start_level(age.values, limits.patience)
    level = end_level(age.values, limits.patience)
    bar = max(limits.growth * start, start + limits.grown)
    if level >= bar:
        last = len(age) - 1
        first = last - limits.patience + 1
        while first > 0 and age.values[first - 1] >= bar:
            first -= 1
        yield Finding(
            "info",
            (metric_evidence(run, age, first, last, level, limit_high=bar),),
            {"start": start, "level": level},
            onset=onset(age.steps, age.values, first, limits.patience),
        )
