"""Groups whose answers all earn the same."""

from collections.abc import Iterator
from dataclasses import dataclass
from statistics import fmean

from rlhfdoctor.measures import logged, metric_evidence, track
from rlhfdoctor.model import Finding, Onset, Run, Skip
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
    limits=Limits,
    text="no reward spread within groups in {rows} of {total} logged rows: advantages are zero and "
    "nothing is learnt (mean reward {reward})",
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
    else:
        dead = [value < limits.float_noise for value in spread.values]
    reward = track(run, "reward_raw_mean") if logged(run, "reward_raw_mean") else None
    shown = f"{fmean(reward.values):.3g}" if reward else "not logged"
    args = {"rows": sum(dead), "total": len(dead), "reward": shown}
    if sum(dead) >= limits.throughout * len(dead):
        first = dead.index(True)
        yield Finding(
            "critical",
            (
                metric_evidence(
                    run, spread, first, len(dead) - 1, fmean(spread.values), limit_high=limits.share
                ),
            ),
            args,
            onset=Onset(spread.steps[first], spread.steps[0], spread.steps[first]),
            alone=True,
        )
        return
    for first, last in stretches([float(item) for item in dead], bool, limits.patience):
        if last != len(dead) - 1:
            continue
        rose = reward is not None and end_level(reward.values) > start_level(reward.values)
        yield Finding(
            "info" if rose else "warning",
            (metric_evidence(run, spread, first, last, 1.0, limit_high=limits.share),),
            args,
            onset=Onset(spread.steps[first], spread.steps[first], spread.steps[first]),
        )
