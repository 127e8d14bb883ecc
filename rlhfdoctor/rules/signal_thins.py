"""Groups without reward spread that become the majority."""

from collections.abc import Iterator
from dataclasses import dataclass
from statistics import fmean

from rlhfdoctor.measures import metric_evidence, track
from rlhfdoctor.model import Finding, Run, Skip
from rlhfdoctor.rules import rule
from rlhfdoctor.rules._reward import reward_of, rises
from rlhfdoctor.series import end_level, onset, start_level

PATIENCE = 5
"""Logged rows that the date rests on."""


@dataclass(frozen=True, slots=True)
class Limits:
    """When the signal is thin, and when it has thinned."""

    share: float = 0.5  # share of groups without spread at the end, and not at the start
    standard_errors: float = 3.0  # between the halves, or between the first and the last rows


@rule(
    "GRP002",
    signal="groups",
    needs=["frac_reward_zero_std", "rows>=10"],
    zeros=True,
    limits=Limits,
    text="groups without reward spread grow from {start:.0%} to {level:.0%} while the reward "
    "{meanwhile}; over the run {waste:.0%} of the answers were generated for no gradient",
    brief="groups without signal {start:.0%} -> {level:.0%}",
)
def signal_thins(run: Run, limits: Limits) -> Iterator[Finding | Skip]:
    """More and more groups earn all the same, so that most of what is generated teaches nothing.

    A policy that solves more of its prompts has fewer groups with a spread: the signal thins
    because the run goes well, hence information with what it costs. Where the reward does not rise
    the same says that answers of a group become alike. From half of the groups on the batch is half
    of what it is called, and a rollback past that point is worth a thought. [H]

    Remedy: sample until enough groups have a spread (DAPO's dynamic sampling), draw harder prompts,
    larger groups; or stop, if the held-out score has stopped rising too.
    """
    dead, reward = track(run, "frac_reward_zero_std"), reward_of(run)
    start, level = start_level(dead.values), end_level(dead.values)
    if not start < limits.share < level or not rises(dead.values, limits.standard_errors):
        return
    above = next(index for index, value in enumerate(dead.values) if value > limits.share)
    yield Finding(
        "info",
        (metric_evidence(run, dead, 0, len(dead) - 1, level, limit_high=limits.share),),
        {
            "start": start,
            "level": level,
            "waste": fmean(dead.values),
            "meanwhile": _meanwhile(reward.values if reward else []),
        },
        onset=onset(dead.steps, dead.values, above, PATIENCE),
    )


def _meanwhile(reward: list[float]) -> str:
    if not reward:
        return "is not logged"
    return "rises" if rises(reward) else "shows no clear rise"
