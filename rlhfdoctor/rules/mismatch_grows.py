"""A distance between trainer and rollout engine that grows with training."""

from collections.abc import Iterator
from dataclasses import dataclass

from rlhfdoctor.measures import track
from rlhfdoctor.model import Finding, Run, Skip
from rlhfdoctor.rules import rule
from rlhfdoctor.rules._sustained import graded, magnitudes, sustained
from rlhfdoctor.series import start_level


@dataclass(frozen=True, slots=True)
class Limits:
    """What counts as growth."""

    growth: float = 10.0  # times its own start
    floor: float = 0.001  # nats per token; below it, rounding
    fault: float = 0.01  # nats per token
    patience: int = 5  # consecutive logged rows; rows of the start


@rule(
    "MIS005",
    signal="mismatch",
    any_of=["kl_train_infer_token", "kl_train_infer_reverse_token", "js_train_infer_token"],
    needs=["rows>=10"],
    limits=Limits,
    text="the distance between trainer and rollout engine grew from {start:.2g} to {level:.3g} "
    "nats/token, more than {growth:g} times, for {rows} logged rows ({steps} steps)",
    brief="trainer-rollout distance {start:.2g} -> {level:.3g} nats/token",
)
def mismatch_grows(run: Run, limits: Limits) -> Iterator[Finding | Skip]:
    """Trainer and rollout engine drift apart while the clip fraction stays at 0.

    Rounding alone has no reason to grow: a distance that grows with training is weights that are
    not synchronised, or a policy that moved to where rounding hurts. In one report it grew ten
    thousand times at a clip fraction of 0, which therefore proves nothing about being on-policy.
    NeMo-RL's bound of 0.001 nats a token is the floor below which growth is no finding; above 0.01,
    the limit that tinker's users quote, it is a warning. [H]

    Remedy: compare the weights of both sides after a synchronisation; go back to before the rise;
    then as for MIS001.
    """
    distance = magnitudes(
        track(run, "kl_train_infer_token", "kl_train_infer_reverse_token", "js_train_infer_token")
    )
    start = start_level(distance.values, limits.patience)
    yield from sustained(
        run,
        distance,
        above=max(limits.growth * start, limits.floor),
        patience=limits.patience,
        severity=graded(limits.fault),
        args={"start": start},
    )
