"""Importance ratios far from 1."""

from collections.abc import Iterator
from dataclasses import dataclass

from rlhfdoctor.measures import track
from rlhfdoctor.model import Finding, Run, Skip
from rlhfdoctor.rules import rule
from rlhfdoctor.rules._sustained import sustained


@dataclass(frozen=True, slots=True)
class Limits:
    """How far, and for how long."""

    low: float = 0.5  # mean ratio of new to old policy
    high: float = 2.0  # mean ratio of new to old policy
    patience: int = 5  # consecutive logged rows


@rule(
    "OPT003",
    signal="optimiser",
    needs=["ratio_mean"],
    limits=Limits,
    text="the mean importance ratio of new to old policy is {level:.3g}, outside {low:g}-{high:g} "
    "for {rows} logged rows ({steps} steps)",
    brief="importance ratio {level:.3g}",
)
def ratio_far(run: Run, limits: Limits) -> Iterator[Finding | Skip]:
    """The policy that is trained is no longer the one that sampled.

    TRL's guide to the ratio: "should float around 1.0"; 2.0, 1000 or 0.1 are "too drastic", and
    its old trainer skips a batch above 10. 64 updates for each rollout walked it from 1.0 to 1.10
    only (TRL 454). A ratio far off from the first row comes from padding or masks that differ
    between rollout and training (trlx 509, OpenRLHF 217, TRL 2708). The logged number averages
    inner updates, so a single high row is no fault of the first update; ratios of whole responses
    multiply hundreds of tokens and are information here, as is a largest ratio, which has no limit
    in a sound run.

    Remedy: off from the first row: recompute one batch with batch size 1 and right padding; later:
    fewer inner updates for each rollout, a lower learning rate.
    """
    ratio = track(run, "ratio_mean")
    responses = "whole responses" in (ratio.column.reduction or "")
    yield from sustained(
        run,
        ratio,
        below=limits.low,
        above=limits.high,
        patience=limits.patience,
        severity=lambda level: "info" if responses else "warning",
    )
