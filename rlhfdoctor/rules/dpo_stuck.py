"""A preference loss that never leaves ln 2."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

from rlhfdoctor.measures import metric_evidence, track
from rlhfdoctor.model import Finding, Onset, Run, Skip
from rlhfdoctor.rules import rule


@dataclass(frozen=True, slots=True)
class Limits:
    """How close to ln 2 counts as stuck."""

    tolerance: float = 5e-4  # loss; the reported case stayed within 0.6931-0.6934
    rows: int = 10  # logged rows


@rule(
    "UPD002",
    signal="update",
    needs=["loss_total", "dpo_margin", "rows>=10"],
    zeros=True,
    limits=Limits,
    text="the loss stays at ln 2 and every margin is exactly 0 in all {count} logged rows: policy "
    "and reference are the same",
    brief="preference loss stuck at ln 2",
)
def dpo_stuck(run: Run, limits: Limits) -> Iterator[Finding | Skip]:
    """Policy and reference never part.

    A sigmoid preference loss is ln 2 = 0.6931 while both models agree. Margins of exactly 0 beside
    it mean frozen weights, an adapter that is not trained, or a reference that shares its weights
    with the policy (TRL 4023, 1311). Margins that are small but not 0 are a slow start.

    Remedy: count the parameters that require a gradient; check that the reference is a model of its
    own; restart after the fix.
    """
    loss, margin = track(run, "loss_total"), track(run, "dpo_margin")
    if loss.placeholder:
        yield Skip("", ("loss_total: exact zeros throughout, never computed",))
        return
    near = all(abs(value - math.log(2)) < limits.tolerance for value in loss.values)
    enough = min(len(loss), len(margin)) >= limits.rows
    if enough and near and margin.placeholder:
        yield Finding(
            "critical",
            (
                metric_evidence(run, loss, 0, len(loss) - 1, loss.values[-1]),
                metric_evidence(run, margin, 0, len(margin) - 1, 0.0),
            ),
            {"count": len(loss)},
            onset=Onset(loss.steps[0], loss.steps[0], loss.steps[0]),
            alone=True,
        )
