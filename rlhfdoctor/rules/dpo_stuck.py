"""A preference loss that never leaves ln 2."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from rlhfdoctor.measures import Track, logged, metric_evidence, track
from rlhfdoctor.model import Finding, Onset, Run, Skip
from rlhfdoctor.rules import rule


@dataclass(frozen=True, slots=True)
class Limits:
    """How close to ln 2 counts as stuck."""

    tolerance: float = 5e-4  # loss; the reported case stayed within 0.6931-0.6934
    rows: int = 10  # logged rows that prove it
    few: int = 3  # logged rows that are a warning where the learning rate is past its warm-up
    slow: float = 0.002  # loss around ln 2, within which a policy that moves has learnt nothing
    many: int = 20  # logged rows from which that is worth a line
    done: float = 0.5  # share of the planned steps, likewise


@rule(
    "UPD002",
    signal="update",
    needs=["loss_total", "dpo_margin", "rows>=3"],
    zeros=True,
    limits=Limits,
    text="the loss stays at ln 2 and {margins} in all {count} logged rows: {so}",
    brief="preference loss stuck at ln 2",
)
def dpo_stuck(run: Run, limits: Limits) -> Iterator[Finding | Skip]:
    """Policy and reference never part.

    A sigmoid preference loss is ln 2 = 0.6931 while both models agree. Margins of exactly 0 beside
    it mean frozen weights, an adapter that is not trained, or a reference that shares its weights
    with the policy (TRL 4023, 1311). Margins that are small but not 0 are a slow start. TRL's first
    rows are 0 by design (its learning rate begins at 0), and in half precision a warm-up's tiny
    steps may change nothing at first: fewer than ten rows are a warning, and only where the last
    three had a learning rate above 0 that no longer rose. A slow start that lasts for twenty rows
    and half of the planned steps is information: the run is sound and has hardly learnt anything
    yet. [H]

    Remedy: count the parameters that require a gradient; check that the reference is a model of its
    own; restart after the fix.
    """
    loss, margin = track(run, "loss_total"), track(run, "dpo_margin")
    if loss.placeholder:
        yield Skip("", ("loss_total: exact zeros throughout, never computed",))
        return
    near = all(abs(value - math.log(2)) < limits.tolerance for value in loss.values)
    count = min(len(loss), len(margin))
    if not margin.placeholder:
        if _slow(run, loss, limits):
            largest = max(margin.values, key=abs)
            yield Finding(
                "info",
                (
                    metric_evidence(run, loss, 0, len(loss) - 1, loss.values[-1]),
                    metric_evidence(run, margin, 0, len(margin) - 1, largest),
                ),
                {
                    "count": len(loss),
                    "margins": f"no margin is larger than {abs(largest):.2g}",
                    "so": "hardly anything was learnt yet; is the learning rate too low?",
                },
                onset=Onset(loss.steps[0], loss.steps[0], loss.steps[0]),
            )
        return
    if not near:
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
            {
                "count": len(loss),
                "margins": "every margin is exactly 0",
                "so": "policy and reference are the same",
            },
            onset=Onset(loss.steps[0], loss.steps[0], loss.steps[0]),
            alone=proved,
        )


def _slow(run: Run, loss: Track, limits: Limits) -> bool:
    """Say whether the loss lies around ln 2 in many rows, over much of the planned run."""
    planned = run.number("planned_steps") or 0.0
    return (
        len(loss) >= limits.many
        and loss.steps[-1] >= limits.done * planned
        and all(abs(value - math.log(2)) < limits.slow for value in loss.values)
    )


def _warm(run: Run, rows: int) -> bool:
    """Say whether the learning rate was above 0 in the last rows and rose no more."""
    if not logged(run, "lr"):
        return False
    last = track(run, "lr").values[-rows:]
    return len(last) == rows and last[-1] > 0.0 and all(a >= b for a, b in pairwise(last))
