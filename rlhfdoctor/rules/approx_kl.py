"""Updates that lead far from the policy that sampled."""

from collections.abc import Iterator
from dataclasses import dataclass

from rlhfdoctor.measures import track
from rlhfdoctor.model import Finding, Run, Skip
from rlhfdoctor.rules import rule
from rlhfdoctor.rules._sustained import graded, magnitudes, sustained


@dataclass(frozen=True, slots=True)
class Limits:
    """How far an update may lead."""

    stop: float = 0.1  # nats per token, policy to the policy that sampled
    fault: float = 0.5  # nats per token
    patience: int = 5  # consecutive logged rows


@rule(
    "OPT005",
    signal="optimiser",
    needs=["kl_old_token"],
    limits=Limits,
    text="the KL to the policy that sampled is {level:.3g} nats/token ({estimator}), above "
    "{stop:g} for {rows} logged rows ({steps} steps)",
    brief="KL to the sampling policy {level:.3g} nats/token",
)
def approx_kl(run: Run, limits: Limits) -> Iterator[Finding | Skip]:
    """Each update leads far away from the policy whose samples it learns from.

    This KL compares the policy with itself a few updates earlier and says nothing of the reference.
    TRL stops an update above 0.1 (TRL PR 238, where 0.2 came before an instability), RL4LMs above
    0.5. Above the first bound for five rows it is information, above the second, where most ratios
    lie outside any clip range, a warning. A k1 estimate strays below 0, so its magnitude counts. A
    KL of whole responses is larger by their length and is not judged here.

    Remedy: fewer inner updates for each rollout, a lower learning rate, or the trainer's own
    bound for stopping an update early.
    """
    yield from sustained(
        run,
        magnitudes(track(run, "kl_old_token")),
        above=limits.stop,
        patience=limits.patience,
        severity=graded(limits.fault),
    )
