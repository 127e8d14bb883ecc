"""Reward that rises over the run."""

from collections.abc import Iterator
from dataclasses import dataclass

from rlhfdoctor.measures import metric_evidence, track
from rlhfdoctor.model import Finding, Run, Skip
from rlhfdoctor.rules import rule
from rlhfdoctor.rules._reward import rises
from rlhfdoctor.series import end_level, start_level


@dataclass(frozen=True, slots=True)
class Limits:
    """What counts as a rise."""

    standard_errors: float = 4.0  # between the halves, or between the first and the last rows


@rule(
    "RWD003",
    signal="reward",
    needs=["reward_raw_mean", "rows>=10"],
    zeros=True,
    limits=Limits,
    text="reward rises from {start:.3g} to {level:.3g}",
    brief="reward {start:.2g} -> {level:.3g}",
)
def reward_rises(run: Run, limits: Limits) -> Iterator[Finding | Skip]:
    """The reward rises, as it should; beside a runaway it says what the policy ran after.

    It is what every run is for, hence information. In the tree it tells reward over-optimisation
    (distance and reward rise together) from drift that earns nothing.

    Remedy: none.
    """
    reward = track(run, "reward_raw_mean")
    if rises(reward.values, limits.standard_errors):
        yield Finding(
            "info",
            (metric_evidence(run, reward, 0, len(reward) - 1, end_level(reward.values)),),
            {"start": start_level(reward.values), "level": end_level(reward.values)},
        )
