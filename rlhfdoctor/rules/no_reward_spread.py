"""Groups whose answers all earn the same."""

from collections.abc import Iterator
from dataclasses import dataclass
from statistics import median

from rlhfdoctor.measures import logged, metric_evidence, track
from rlhfdoctor.model import Evidence, Finding, Onset, Run, Skip
from rlhfdoctor.rules import rule
from rlhfdoctor.series import end_level, start_level, stretches


@dataclass(frozen=True, slots=True)
class Limits:
    """When groups carry no signal."""

    share: float = 0.99  # share of groups without spread
    throughout: float = 0.95  # share of rows from which it counts as the whole run
    float_noise: float = 1e-5  # reward units; a spread below is rounding
    patience: int = 10  # consecutive logged rows


@rule(
    "GRP001",
    signal="groups",
    any_of=["frac_reward_zero_std", "reward_group_std"],
    needs=["rows>=5"],
    zeros=True,
    limits=Limits,
    text="no reward spread within groups in {rows} of {total} logged rows: advantages are zero and "
    "nothing is learnt (median reward {reward})",
    brief="no reward spread in any group",
)
def no_reward_spread(run: Run, limits: Limits) -> Iterator[Finding | Skip]:
    """Every answer of a group earns the same, so there is nothing to learn from.

    Group-relative advantages are differences within a group; where all its rewards are equal they
    are zero. ``frac_reward_zero_std`` says it directly. A spread of 1e-6 is float rounding. With
    reward near its minimum the task is too hard, the parser or the template is wrong; near its
    maximum it is solved. Throughout the run it stands alone; towards the end it is information
    where the reward had risen before (solved, or collapsed), a warning otherwise.

    Remedy: too hard: check the reward's parser and the prompt template first, then easier prompts;
    solved: harder prompts, or stop; in between: a higher sampling temperature, larger groups.
    """
    spread = track(run, "frac_reward_zero_std", "reward_group_std")
    if spread.metric == "frac_reward_zero_std":
        dead = [value >= limits.share for value in spread.values]
        low, high = None, limits.share
    else:
        dead = [value < limits.float_noise for value in spread.values]
        low, high = limits.float_noise, None
    reward = track(run, "reward_raw_mean") if logged(run, "reward_raw_mean") else None
    shown = f"{median(reward.values):.3g}" if reward else "not logged"
    args = {"rows": sum(dead), "total": len(dead), "reward": shown}

    def seen(first: int, last: int) -> tuple[Evidence]:
        level = end_level(spread.values[first : last + 1])
        return (metric_evidence(run, spread, first, last, level, limit_low=low, limit_high=high),)

    if any(dead) and sum(dead) >= limits.throughout * len(dead):
        first = dead.index(True)
        yield Finding(
            "critical",
            seen(first, len(dead) - 1),
            args,
            onset=Onset(spread.steps[first], spread.steps[0], spread.steps[first]),
            alone=True,
        )
        return
    for first, last in stretches([float(item) for item in dead], bool, limits.patience):
        if len(dead) - 1 - last >= limits.patience:
            continue
        rose = reward is not None and end_level(reward.values) > start_level(reward.values)
        yield Finding(
            "info" if rose else "warning",
            seen(first, last),
            args,
            onset=Onset(spread.steps[first], spread.steps[first], spread.steps[first]),
        )
