"""Groups whose answers all earn the same."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median

from rlhfdoctor.measures import (
    Track,
    finite_rows,
    logged,
    metric_evidence,
    prefers,
    silent_since,
    track,
)
from rlhfdoctor.model import Evidence, Finding, Onset, Run, Skip
from rlhfdoctor.rules import rule
from rlhfdoctor.rules._heldout import name_of
from rlhfdoctor.rules._reward import most_common, reward_of, rises, stuck
from rlhfdoctor.series import end_level, start_level, stretches

HARD = "the reward stays at its least: too hard, or the parser or the template is wrong"
EASY = "everything is earned: the prompts are solved"
BETWEEN = "neither solved nor hopeless: the answers of a group are all alike"
UNKNOWN = "whether too hard or too easy is not to be told from it"

GROUPS = ("frac_reward_zero_std", "reward_group_std")
"""What tells the spread within groups."""

SPREADS = ("reward_std", "reward_component_std", "reward_margin", "frac_group_mixed")
PARTS = ("reward_component_mean", "success_rate")
"""What shows that answers earn differently: by not being zero, and by moving from row to row."""

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
    chance: float = 1e-3  # that so many rows are dead at the end, of the share that was dead before
    same: float = 0.9  # share of rows with one and the same mean reward, where no spread is logged
    few: int = 5  # logged rows below which all of them must be dead, and the gradient too


@rule(
    "GRP001",
    signal="groups",
    any_of=["frac_reward_zero_std", "reward_group_std", "reward_raw_mean"],
    zeros=True,
    limits=Limits,
    text="no reward spread {where} in {rows} of {total} logged rows: advantages are zero and "
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
    rises, is a run that does not learn either: a warning, information where that value is its best;
    a run that thins its signal because it solves more has a reward that rises (GRP002). Towards the
    end it is information where the reward had risen before (solved, or collapsed) or is near its
    highest, a warning otherwise; batches of one prompt are dead by chance, so the end must be
    deader than what came before explains. [H]

    Where no spread within groups is logged, the same mean reward in nine rows of ten says so too,
    for different prompts never earn the same on average, unless rewards are ranks or normalised:
    the batch then has a spread, and where one is logged nobody accuses. At 1, the whole of a 0/1
    reward, or at the highest that the run ever earned, it is solved: information. Zeros are a
    measurement where a gradient is logged and no part of the reward, and no other score, moves. [H]

    Remedy: too hard: check the reward's parser and the prompt template first, then easier prompts;
    solved: harder prompts, or stop; in between: a higher sampling temperature, larger groups.
    """
    names = [name for name in GROUPS if logged(run, name)]
    if not names:
        yield from _one_reward(run, limits)
        return
    spread = track(run, *names)
    found = list(_groups(run, spread, limits))
    yield from found
    silent = silent_since(run, spread.metric)
    if not found and silent is not None:
        yield Skip("", (f"{spread.metric} after step {silent}",))


def _groups(run: Run, spread: Track, limits: Limits) -> Iterator[Finding | Skip]:
    """Judge a run by the spread within its groups."""
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
        **_told(run, reward, median(reward.values) if reward else 0.0),
        "where": "within groups",
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
            "info" if args["kind"] == EASY else "warning",
            seen(first, len(dead) - 1),
            args,
            onset=Onset(spread.steps[first], spread.steps[0], spread.steps[first]),
        )
        return
    for first, last in stretches([float(item) for item in dead], bool, limits.patience):
        usual = (sum(dead[:first]) + 1) / (first + 2)  # of a dead row, by Laplace's rule
        chance = usual ** sum(dead[first : last + 1])
        if len(dead) - 1 - last >= limits.patience or chance > limits.chance:
            continue
        rose = reward is not None and end_level(reward.values) > start_level(reward.values)
        meanwhile = _told(run, reward, end_level(reward.values) if reward else 0.0)
        yield Finding(
            "info" if rose or meanwhile["kind"] == EASY else "warning",
            seen(first, last),
            {**args, **meanwhile},
            onset=Onset(spread.steps[first], spread.steps[first], spread.steps[first]),
        )


def _one_reward(run: Run, limits: Limits) -> Iterator[Finding | Skip]:
    """Judge a run that logs no spread within groups, by a mean reward that never changes."""
    reward = track(run, "reward_raw_mean")
    values, share = reward.values, most_common(reward.values)
    level = median(values)
    never = reward.placeholder and not _sampled(run)
    still = len(values) >= limits.patience and share >= limits.same and not rises(values)
    if never or not still or prefers(run) or _differs(run, level, limits):
        yield Skip("", (" or ".join(GROUPS),))
        return
    solved = level == 1.0 or (level >= 0.0 and level == max(values) > min(values))
    start = reward.steps[0]
    yield Finding(
        "info" if solved else "warning",
        (metric_evidence(run, reward, 0, len(reward) - 1, level),),
        {
            "where": "from batch to batch",
            "rows": round(share * len(values)),
            "total": len(values),
            "reward": f"{level:.3g}",
            "kind": EASY if solved else HARD if level <= 0.0 else UNKNOWN,
        },
        onset=Onset(start, start, start),
    )


def _sampled(run: Run) -> bool:
    """Say whether answers were sampled and learnt from, so that a reward of 0 is one."""
    trained = any(logged(run, name) for name in ("grad_norm", "reward_std"))
    return trained and logged(run, "response_length_mean")


def _differs(run: Run, level: float, limits: Limits) -> bool:
    """Say whether anything else that is logged shows answers that earn differently."""
    for name in run.columns:
        kind, values = name_of(name), run.metrics[name].drop_nulls().drop_nans().to_list()
        if kind in SPREADS and any(value >= limits.float_noise for value in values):
            return True
        if kind in PARTS and values and most_common(values) < limits.same:
            return True
    if not (logged(run, "reward_min") and logged(run, "reward_max")):
        return False
    low, high = (median(track(run, name).values) for name in ("reward_min", "reward_max"))
    return low < level < high


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


def _told(run: Run, reward: Track | None, level: float) -> dict[str, str]:
    """Return a level of the reward, and where it lies in what the run ever reached, in words."""
    if reward is None:
        return {"reward": "not logged", "kind": UNKNOWN}
    bounds = [*reward.values]
    for name in ("reward_min", "reward_max"):
        bounds += track(run, name).values if finite_rows(run, name) else []
    low, high = min(bounds), max(bounds)
    if high <= 0.0:
        kind = EASY if level == 0.0 and low < 0.0 else HARD
    elif high == low:
        kind = UNKNOWN
    else:
        place = (level / 2 - low / 2) / (high / 2 - low / 2)
        kind = EASY if place >= SOLVED else HARD if place <= HOPELESS else BETWEEN
    return {"reward": f"{level:.3g}", "kind": kind}
