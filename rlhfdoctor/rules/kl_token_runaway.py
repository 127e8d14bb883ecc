"""KL per token above 1 for five rows."""

from collections.abc import Iterator
from dataclasses import dataclass

from rlhfdoctor.measures import logged, track
from rlhfdoctor.model import Finding, Run, Skip
from rlhfdoctor.rules import rule
from rlhfdoctor.rules._alarm import alarms
from rlhfdoctor.rules._kl import may_be_distance


@dataclass(frozen=True, slots=True)
class Limits:
    """When the alarm rings, and what is near in every unit."""

    ceiling: float = 1.0  # nats per token
    patience: int = 5  # consecutive logged rows
    near: float = 0.1  # nats per token or per response; verl's controller aims at it per token


@rule(
    "KL003",
    signal="kl",
    any_of=["kl_ref_token", "kl_unknown"],
    needs=["rows>=5"],
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

    A KL of unknown unit is never found too large. Where it stays within 0.1 of zero in every single
    row it is near in each unit that it could have (per response it would be nearer still than per
    token), so the policy did not run away. That is no band on an unknown unit: it clears, it never
    accuses, and whatever is larger is left open. A KL named after the policy that sampled, or after
    a loss that may hold a coefficient, is small in every run and clears nothing.

    Remedy: stop, go back to a checkpoint before the onset, lower the learning rate or raise beta;
    if the reward rose meanwhile, repair the reward first.
    """
    kl = track(run, "kl_ref_token", "kl_unknown")
    if logged(run, "kl_ref_token"):
        per_token = track(run, "kl_ref_token")
        yield from alarms(
            run,
            per_token,
            above=limits.ceiling,
            patience=limits.patience,
            args={"start": round(per_token.values[0], 3) + 0.0},
        )
    if kl.metric == "kl_unknown":
        near = all(abs(value) < limits.near for value in kl.values)
        if not (near and may_be_distance(kl.column)):
            yield Skip("", ("kl_ref_token",))
