"""Preference accuracy below chance."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from statistics import fmean, stdev

from rlhfdoctor.measures import metric_evidence, track
from rlhfdoctor.model import Finding, Onset, Run, Skip
from rlhfdoctor.rules import rule


@dataclass(frozen=True, slots=True)
class Limits:
    """How far below chance, and over how many rows."""

    chance: float = 0.5  # accuracy of a coin
    standard_errors: float = 4.0  # below chance
    rows: int = 10  # logged rows in the second half of the run


@rule(
    "DPO002",
    signal="accuracy",
    needs=["dpo_accuracy", "rows>=10"],
    limits=Limits,
    text="accuracy on the training pairs is {level:.2f} over the second half of the run, below "
    "chance",
    brief="accuracy {level:.2f}, below chance",
)
def accuracy_below_chance(run: Run, limits: Limits) -> Iterator[Finding | Skip]:
    """The policy prefers the rejected answers.

    Before any update every margin is 0 and the accuracy is logged as 0, so only the second half of
    the run is judged, and only where its mean lies four standard errors below one half. [H]

    Remedy: swap check of chosen and rejected; then a learning rate ten times lower.
    """
    accuracy = track(run, "dpo_accuracy")
    first = len(accuracy) // 2
    late = accuracy.values[first:]
    if len(late) < limits.rows:
        yield Skip("", (f"{limits.rows} rows in the second half of the run",))
        return
    level, error = fmean(late), stdev(late) / math.sqrt(len(late))
    if level < limits.chance - limits.standard_errors * error:
        yield Finding(
            "critical",
            (
                metric_evidence(
                    run, accuracy, first, len(accuracy) - 1, level, limit_low=limits.chance
                ),
            ),
            {"level": level},
            onset=Onset(accuracy.steps[first], accuracy.steps[0], accuracy.steps[first]),
        )
