"""Groups that are too small to compare within."""

from collections.abc import Iterator
from dataclasses import dataclass

from rlhfdoctor.measures import logged, track
from rlhfdoctor.model import Finding, Run, Skip
from rlhfdoctor.rules import rule
from rlhfdoctor.rules._config import algorithms, from_the_start, setting_evidence


@dataclass(frozen=True, slots=True)
class Limits:
    """What a comparison needs."""

    fewest: int = 2  # responses a prompt
    share: float = 0.99  # share of groups without spread that confirms it, in every row
    float_noise: float = 1e-5  # reward units; a spread below is rounding


@rule(
    "CFG008",
    signal="config",
    needs=["config.group_size"],
    limits=Limits,
    text="{size} response a prompt: its advantage over its own group is nothing{confirmed}",
    brief="groups of {size}",
)
def group_of_one(run: Run, limits: Limits) -> Iterator[Finding | Skip]:
    """A prompt has a single response, which cannot be compared with others of its group.

    GRPO's and RLOO's advantage is a difference within the group; in a group of one it is zero, and
    its standard deviation is NaN (R1-V 69). TRL refuses it today. The setting alone is information:
    agent frameworks on verl form their groups elsewhere and leave ``rollout.n`` at 1, and verl
    takes the bare reward for the advantage of a group of one. It is a warning where the log agrees:
    no group with a spread in any row, or a spread that is NaN throughout.

    Remedy: four responses a prompt or more (num_generations, rollout.n, n_samples_per_prompt).
    """
    size = run.number("group_size")
    if size is None or not algorithms(run) <= {"GRPO", "RLOO"}:
        yield Skip("", ("an algorithm that compares within groups",))
    elif size < limits.fewest:
        agrees = _no_spread(run, limits)
        yield Finding(
            "warning" if agrees else "info",
            (setting_evidence(run, "group_size", unit="responses/prompt", low=limits.fewest),),
            {"size": int(size), "confirmed": ", and the log shows no spread" if agrees else ""},
            onset=from_the_start(run) if agrees else None,
        )


def _no_spread(run: Run, limits: Limits) -> bool:
    """Say whether every row of the log tells that no group has a spread."""
    if logged(run, "frac_reward_zero_std"):
        return min(track(run, "frac_reward_zero_std").values) >= limits.share
    if logged(run, "reward_group_std"):
        return max(track(run, "reward_group_std").values) < limits.float_noise
    return any(
        name in run.columns and bool(run.metrics[name].is_nan().any())
        for name in ("reward_group_std", "reward_std")
        if not logged(run, name)
    )
