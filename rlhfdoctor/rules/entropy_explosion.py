"""Entropy that rises far above the run's own start."""

from collections.abc import Iterator
from dataclasses import dataclass

from rlhfdoctor.measures import track
from rlhfdoctor.model import Finding, Run, Skip
from rlhfdoctor.rules import rule
from rlhfdoctor.rules._alarm import alarms
from rlhfdoctor.series import start_level


@dataclass(frozen=True, slots=True)
class Limits:
    """What counts as a rise."""

    times: float = 2.0  # of the run's own start
    least: float = 0.5  # nats per token that must have been gained
    fine: float = 1.0  # nats per token; "ok while below 1" (rllm 116)
    bad: float = 2.0  # nats per token; called bad there, below it a rise is information
    patience: int = 5  # consecutive logged rows


@rule(
    "ENT002",
    signal="entropy",
    needs=["entropy", "rows>=8"],
    limits=Limits,
    text="entropy rises from {start:.3g} to {level:.3g} {unit}, above {limit:.3g} for {rows} "
    "logged rows ({steps} steps)",
    brief="entropy {start:.2g} -> {level:.2g}",
)
def entropy_explosion(run: Run, limits: Limits) -> Iterator[Finding | Skip]:
    """The entropy of the policy exploded: it no longer prefers anything.

    Text falls apart into gibberish and other languages while the entropy climbs: an entropy bonus
    (verl's 0.001, verl 781), an upper clip range too wide, cut samples, a mismatch between rollout
    and training. Practitioners call it fine below 1 nat a token and bad at 2 (rllm 116). Levels
    depend on the task, a base model starts at 3, so the run must also have left its own start:
    twice of it, and half a nat more; reasoning runs that rise from 0.13 to 0.28 explore and are
    sound. Below 2 nats it is information; above, a warning, and critical where another class of
    evidence agrees. An entropy of unknown unit may be a sum that grows with the length and is not
    judged. [H]

    Remedy: go back to before the rise; set the entropy bonus to 0, lower the upper clip range or
    the learning rate, and compare the log-probabilities of rollout engine and trainer.
    """
    entropy = track(run, "entropy")
    start = start_level(entropy.values)
    limit = max(limits.times * start, start + limits.least, limits.fine)
    yield from alarms(
        run,
        entropy,
        above=limit,
        patience=limits.patience,
        severity=lambda level: "critical" if level > limits.bad else "info",
        args={"limit": limit},
    )
