"""KL per token above 1 for five rows."""

from collections.abc import Iterator
from dataclasses import dataclass

from rlhfdoctor.measures import track
from rlhfdoctor.model import Finding, Run, Skip
from rlhfdoctor.rules import rule
from rlhfdoctor.rules._alarm import alarms


@dataclass(frozen=True, slots=True)
class Limits:
    """When the alarm rings."""

    ceiling: float = 1.0  # nats per token
    patience: int = 5  # consecutive logged rows


@rule(
    "KL003",
    signal="kl",
    needs=["kl_ref_token", "rows>=5"],
    limits=Limits,
    text="KL above {ceiling:g} nats/token ({estimator}) for {rows} logged rows ({steps} steps): "
    "{start:.3g} at the start, {level:.3g} at the end",
    brief="KL {start:.2g} -> {level:.3g} nats/token ({estimator})",
)
def kl_token_runaway(run: Run, limits: Limits) -> Iterator[Finding | Skip]:
    """The policy ran away from the reference model, measured per token.

    Per token, 1.0 is far: one published series was best at 0.168, worse at 0.7 and diverged at 3.96
    (MarinFold 237); verl's adaptive controller aims at 0.1. A ceiling anywhere in 1.0-2.0 dates the
    same onset on runs made for this purpose, 0.3 alarms on a healthy run that drifts slowly. The
    level is the median of the last rows: single rows of k3 spike by orders of magnitude. [H]

    Remedy: stop, go back to a checkpoint before the onset, lower the learning rate or raise beta;
    if the reward rose meanwhile, repair the reward first.
    """
    kl = track(run, "kl_ref_token")
    yield from alarms(
        run,
        kl,
        above=limits.ceiling,
        patience=limits.patience,
        args={"start": round(kl.values[0], 3) + 0.0},
    )
