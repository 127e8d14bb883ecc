"""A preference loss that never leaves ln 2."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from rlhfdoctor.measures import logged, metric_evidence, track
from rlhfdoctor.model import Finding, Onset, Run, Skip
from rlhfdoctor.rules import rule


@dataclass(frozen=True, slots=True)
class Limits:
    """How close to ln 2 counts as stuck."""

    tolerance: float = 5e-4  # loss; the reported case stayed within 0.6931-0.6934
    rows: int = 10  # logged rows that prove it
    few: int = 3  # logged rows that are a warning where the learning rate is past its warm-up


@rule(
    "UPD002",
    signal="update",
    needs=["loss_total", "dpo_margin", "rows>=3"],
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
    with the policy (TRL 4023, 1311). Margins that are small but not 0 are a slow start. TRL's first
    rows are 0 by design (its learning rate begins at 0), and in half precision a warm-up's tiny
    steps may change nothing at first: fewer than ten rows are a warning, and only where the last
    three had a learning rate above 0 that no longer rose. [H]

    Remedy: count the parameters that require a gradient; check that the reference is a model of its
    own; restart after the fix.
    """
    loss, margin = track(run, "loss_total"), track(run, "dpo_margin")
    if loss.placeholder:
        yield Skip("", ("loss_total: exact zeros throughout, never computed",))
        return
    near = all(abs(value - math.log(2)) < limits.tolerance for value in loss.values)
    count = min(len(loss), len(margin))
    if not (near and margin.placeholder):
        return
    if count < limits.rows and not _warm(run, limits.few):
        yield Skip("", (f"rows>={limits.rows}, or a learning rate past its warm-up",))
        return
    if count >= limits.few:
        proved = count >= limits.rows
        yield Finding(
            "critical" if proved else "warning",
            (
                metric_evidence(run, loss, 0, len(loss) - 1, loss.values[-1]),
                metric_evidence(run, margin, 0, len(margin) - 1, 0.0),
            ),
            {"count": len(loss)},
            onset=Onset(loss.steps[0], loss.steps[0], loss.steps[0]),
            alone=proved,
        )


def _warm(run: Run, rows: int) -> bool:
    """Say whether the learning rate was above 0 in the last rows and rose no more."""
    if not logged(run, "lr"):
        return False
    last = track(run, "lr").values[-rows:]
    return len(last) == rows and last[-1] > 0.0 and all(a >= b for a, b in pairwise(last))
