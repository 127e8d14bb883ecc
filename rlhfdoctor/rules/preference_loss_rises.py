"""A preference loss above that of an untrained policy."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

from rlhfdoctor.measures import metric_evidence, track
from rlhfdoctor.model import Finding, Onset, Run, Skip
from rlhfdoctor.rules import rule
from rlhfdoctor.series import mean_error, start_level


@dataclass(frozen=True, slots=True)
class Limits:
    """How far above the start, and over how many rows."""

    near: float = 0.01  # loss; a first row this close to ln 2 is a sigmoid loss and nothing else
    standard_errors: float = 4.0  # above the start


@rule(
    "DPO003",
    signal="accuracy",
    needs=["loss_total", "dpo_accuracy", "rows>=10"],
    limits=Limits,
    text="the preference loss is {level:.3g} over the second half of the run, above the "
    "{start:.3g} of an untrained policy",
    brief="preference loss {start:.2g} -> {level:.2g}",
)
def preference_loss_rises(run: Run, limits: Limits) -> Iterator[Finding | Skip]:
    """Training made the policy worse at telling chosen from rejected than it was before.

    A sigmoid preference loss is ln 2 before the first update and can only be above it where margins
    are negative or wildly spread. The start is ln 2 where the first row says so, and the median of
    the first rows otherwise, for losses with other terms. Rows logged once in a while hide the fall
    of the log-probabilities behind their noise; this anchor does not move. [H]

    Remedy: a learning rate ten times lower; check that chosen and rejected are not swapped.
    """
    loss = track(run, "loss_total")
    first = len(loss) // 2
    late = loss.values[first:]
    sigmoid = abs(loss.values[0] - math.log(2)) < limits.near
    start = math.log(2) if sigmoid else start_level(loss.values)
    level, error = mean_error(late)
    if level > start + max(limits.standard_errors * error, limits.near):
        yield Finding(
            "critical",
            (metric_evidence(run, loss, first, len(loss) - 1, level, limit_high=start),),
            {"start": start, "level": level},
            onset=Onset(loss.steps[first], loss.steps[0], loss.steps[first]),
        )
