"""Updates that clip a good part of the tokens."""

from collections.abc import Iterator
from dataclasses import dataclass
from statistics import median

from rlhfdoctor.measures import logged, track
from rlhfdoctor.model import Finding, Run, Skip
from rlhfdoctor.rules import rule
from rlhfdoctor.rules._sustained import magnitudes, sustained


@dataclass(frozen=True, slots=True)
class Limits:
    """Which share is large, and what makes it a fault."""

    share: float = 0.3  # share of tokens whose ratio was clipped
    kl: float = 0.1  # nats per token, policy to the policy that sampled
    patience: int = 5  # consecutive logged rows


@rule(
    "OPT004",
    signal="optimiser",
    needs=["clip_frac"],
    zeros=True,
    limits=Limits,
    text="{level:.0%} of the ratios are clipped, above {share:.0%} for {rows} logged rows "
    "({steps} steps); KL to the policy that sampled: {seen}",
    brief="{level:.0%} of ratios clipped",
)
def clip_fraction(run: Run, limits: Limits) -> Iterator[Finding | Skip]:
    """So many ratios are clipped that the updates have left the region they were made for.

    Sound runs clip a per mille to a few per cent (0.0008 in verl 7412); a run whose updates were
    far too large ended at 0.61. A clip range of 3e-4, as GSPO uses, clips more by design, so the
    share alone is information; it is a warning where the KL to the policy that sampled is above
    0.1 nats a token as well, TRL's bound for stopping an update early. Exactly 0 is what a single
    update for each rollout gives. [H]

    Remedy: fewer inner updates for each rollout, a lower learning rate; look whether the ratio is
    1 at the first of them.
    """
    share = track(run, "clip_frac")
    old = magnitudes(track(run, "kl_old_token")) if logged(run, "kl_old_token") else None
    high = {
        step: value
        for step, value in zip(share.steps, share.values, strict=True)
        if value > limits.share
    }
    beside = (
        [value for step, value in zip(old.steps, old.values, strict=True) if step in high]
        if old
        else []
    )
    far = len(beside) >= limits.patience and median(beside) > limits.kl
    yield from sustained(
        run,
        share,
        above=limits.share,
        patience=limits.patience,
        severity=lambda level: "warning" if far else "info",
        args={"seen": f"{median(beside):.3g} nats/token" if beside else "not logged"},
    )
