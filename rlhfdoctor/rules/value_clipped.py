"""Value predictions that are clipped throughout."""

from collections.abc import Iterator
from dataclasses import dataclass

from rlhfdoctor.measures import track
from rlhfdoctor.model import Finding, Run, Skip
from rlhfdoctor.rules import rule
from rlhfdoctor.rules._sustained import sustained


@dataclass(frozen=True, slots=True)
class Limits:
    """Which share is large."""

    share: float = 0.6  # share of value predictions that were clipped
    patience: int = 5  # consecutive logged rows


@rule(
    "VAL003",
    signal="value",
    needs=["value_clip_frac"],
    zeros=True,
    limits=Limits,
    text="{level:.0%} of the value predictions are clipped, above {share:.0%} for {rows} logged "
    "rows ({steps} steps)",
    brief="{level:.0%} of values clipped",
)
def value_clipped(run: Run, limits: Limits) -> Iterator[Finding | Skip]:
    """Most predictions of the value model move further in an update than its clip range lets them.

    Clipped predictions have no gradient, so the value model learns from the rest. The notes of
    TRL's old trainer call 0.3-0.6 frequent; above that the range is too narrow for the scale of
    the returns, which slows the critic and breaks nothing by itself: information. Exactly 0 is no
    clipping at all.

    Remedy: a wider value clip range, normalised rewards, or a lower learning rate for the value
    model.
    """
    yield from sustained(
        run,
        track(run, "value_clip_frac"),
        above=limits.share,
        patience=limits.patience,
        severity=lambda level: "info",
    )
