"""Groups whose answers all earn the same."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median

from rlhfdoctor.measures import Track, finite_rows, metric_evidence, track
from rlhfdoctor.model import Evidence, Finding, Onset, Run, Skip
from rlhfdoctor.rules import rule
from rlhfdoctor.rules._reward import reward_of, stuck
from rlhfdoctor.series import end_level, start_level, stretches

HARD = "nothing is earned: too hard, or the parser or the template is wrong"
EASY = "everything is earned: the prompts are solved"
BETWEEN = "neither solved nor hopeless: the answers of a group are all alike"
UNKNOWN = "whether too hard or too easy is not to be told from it"

HOPELESS, SOLVED = 0.1, 0.9
"""Shares of the rewards' range up to which prompts are too hard, from which they are solved. [H]"""


@dataclass(frozen=True, slots=True)
class Limits:
    """When groups carry no signal."""

    share: float = 0.99  # share of groups without spread
    throughout: float = 0.95  # share of rows from which it counts as the whole run
    sparse: float = 0.667  # share of dead rows in either half of a run that never earns more
    float_noise: float = 1e-5  # reward units; a spread below is rounding
    patience: int = 10  # consecutive logged rows
    few: int = 5  # logged rows below which all of them must be dead, and the gradient too


@rule(
    "GRP001",
    signal="groups",
    any_of=["frac_reward_zero_std", "reward_group_std"],
    zeros=True,
    limits=Limits,
    text="no reward spread within groups in {rows} of {total} logged rows: advantages are zero and "
    "nothing is learnt (median reward {reward}; {kind})",
    brief="no reward spread in {rows} of {total} rows",
)
def no_reward_spread(run: Run, limits: Limits) -> Iterator[Finding | Skip]:
    """Every answer of a group earns the same, so there is nothing to learn from.

    Group-relative advantages are differences within a group; where all its rewards are equal they
    are zero. ``frac_reward_zero_std`` says it directly. A spread of 1e-6 is float rounding. With
    the median reward near the lowest that the run ever logged, or at or below 0, the task is too
    hard, the parser or the template is wrong (TRL 6966); near the highest it is solved.

    Throughout the run it stands alone. A log of fewer than five rows that are all dead, with a
    gradient norm of 0 where one is logged, has nothing else to say: a warning. Two thirds of the
    rows dead from beginning to end, with a reward that is stuck at one value in most rows and never
    rises, is a run that does not learn either: a warning; a run that thins its signal because it
    solves more has a reward that rises (GRP002). Towards the end it is information where the reward
    had risen before (solved, or collapsed) or is near its highest, a warning otherwise. [H]

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
    reward = reward_of(run)
    args = {
        "rows": sum(dead),
        "total": len(dead),
        "reward": f"{median(reward.values):.3g}" if reward else "not logged",
        "kind": _kind(run, reward, median),
    }

    def seen(first: int, last: int) -> tuple[Evidence]:
        level = end_level(spread.values[first : last + 1])
        return (metric_evidence(run, spread, first, last, level, limit_low=low, limit_high=high),)

    if len(dead) < limits.few:
        if all(dead) and _learns(run):
            yield Skip("", (f"rows>={limits.few}",))
        elif all(dead):
            start = spread.steps[0]
            onset = Onset(start, start, start)
            yield Finding("warning", seen(0, len(dead) - 1), args, onset=onset)
        return
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
    if reward is not None and _sparse(dead, limits) and stuck(reward.values):
        first = dead.index(True)
        yield Finding(
            "warning",
            seen(first, len(dead) - 1),
            args,
            onset=Onset(spread.steps[first], spread.steps[0], spread.steps[first]),
        )
        return
    for first, last in stretches([float(item) for item in dead], bool, limits.patience):
        if len(dead) - 1 - last >= limits.patience:
            continue
        rose = reward is not None and end_level(reward.values) > start_level(reward.values)
        kind = _kind(run, reward, end_level)
        yield Finding(
            "info" if rose or kind == EASY else "warning",
            seen(first, last),
            {**args, "kind": kind},
            onset=Onset(spread.steps[first], spread.steps[first], spread.steps[first]),
        )


def _learns(run: Run) -> bool:
    """Say whether a gradient was logged that is not zero."""
    return finite_rows(run, "grad_norm") > 0 and not track(run, "grad_norm").placeholder


def _sparse(dead: Sequence[bool], limits: Limits) -> bool:
    """Say whether both halves of a run that is long enough are mostly dead."""
    middle = len(dead) // 2
    halves = (dead[:middle], dead[middle:])
    return middle >= limits.patience and all(
        sum(half) >= limits.sparse * len(half) for half in halves
    )


def _kind(run: Run, reward: Track | None, of: Callable[[list[float]], float]) -> str:
    """Return where the reward lies in what the run itself ever reached, in words."""
    if reward is None:
        return UNKNOWN
    level = of(reward.values)
    bounds = [*reward.values]
    for name in ("reward_min", "reward_max"):
        bounds += track(run, name).values if finite_rows(run, name) else []
    low, high = min(bounds), max(bounds)
    if high <= 0.0:
        return EASY if level == 0.0 and low < 0.0 else HARD
    if high == low:
        return UNKNOWN
    place = (level / 2 - low / 2) / (high / 2 - low / 2)
    return EASY if place >= SOLVED else HARD if place <= HOPELESS else BETWEEN
