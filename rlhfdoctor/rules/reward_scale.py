"""Reward-model scores in the tens, with the KL inside the reward."""

from collections.abc import Iterator
from dataclasses import dataclass
from statistics import median

from rlhfdoctor.measures import finite_rows, metric_evidence, track
from rlhfdoctor.model import Finding, Run, Skip
from rlhfdoctor.rules import rule

INSIDE = ("kl_penalty_reward", "kl_penalty_reward_token", "reward_shaped_mean")
"""Metrics that only trainers with the KL inside the reward log."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What counts as large."""

    level: float = 20.0  # reward; a magnitude that scores centred for PPO do not reach


@rule(
    "RWD009",
    signal="reward",
    needs=["reward_raw_mean"],
    limits=Limits,
    text="scores lie at {level:.3g} (median), above {limit:g} in size, and the KL penalty is added "
    "to them: its coefficient is worth little there",
    brief="scores at {level:.3g} with the KL inside the reward",
)
def reward_scale(run: Run, limits: Limits) -> Iterator[Finding | Skip]:
    """Scores are so large that a KL penalty inside the reward hardly counts.

    Bradley-Terry scores have no origin: 60-70 or -30 with a ranking accuracy of 0.9 is a sound
    reward model. With the KL inside the reward the scale decides what the
    coefficient is worth; with group-relative advantages it does not matter and is not told. [H]

    Remedy: centre and scale the scores (running mean and spread) before the KL is subtracted, or
    choose the coefficient for this scale.
    """
    flag = run.config.get("kl_in_reward")
    inside = flag is not None and flag.value is True
    if not inside and not any(finite_rows(run, name) for name in INSIDE):
        return
    reward = track(run, "reward_raw_mean")
    level = median(reward.values)
    if abs(level) > limits.level:
        low, high = (-limits.level, None) if level < 0.0 else (None, limits.level)
        yield Finding(
            "info",
            (
                metric_evidence(
                    run, reward, 0, len(reward) - 1, level, limit_low=low, limit_high=high
                ),
            ),
            {"level": level, "limit": limits.level},
        )
