"""Training that stopped moving the weights."""

from collections.abc import Iterator
from dataclasses import dataclass

from rlhfdoctor.measures import Track, logged, metric_evidence, prefers, track
from rlhfdoctor.model import Evidence, Finding, Run, Skip
from rlhfdoctor.rules import rule
from rlhfdoctor.rules._sustained import GENERIC, appeared

DECIMALS = 4
"""Decimals to which consoles round."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How long is for good."""

    rows: int = 10  # logged rows of exactly 0, to the end
    solved: float = 0.99  # share of groups without spread from which no gradient is expected


@rule(
    "UPD003",
    signal="update",
    any_of=["grad_norm", "loss_total"],
    limits=Limits,
    text="the {what} is exactly 0 in the last {count} logged rows and was not before: {meaning}",
    brief="{what} 0 from step {step}",
)
def loss_dead(run: Run, limits: Limits) -> Iterator[Finding | Skip]:
    """From some row on to the end nothing was updated any more.

    A gradient norm of exactly 0 in ten rows after it had been positive: weights frozen or unloaded
    on the way, a loss that became a constant, or groups without any spread. Where the log says that
    the groups have none (GRP001 judges that), or is silent about it in a run that learns from
    groups, it is information, as it is where a console rounds. A loss of exactly 0 is by design in
    GRPO with a single update for each rollout and no KL (TRL 3452) and says little alone. Zero
    throughout is UPD001's. [H]

    Remedy: compare the checkpoints on both sides of that step; look for the rewards' spread, for
    labels that are all masked, and for an adapter that was loaded anew.
    """
    if logged(run, "grad_norm"):
        norm = track(run, "grad_norm")
        first = _dead_since(norm, limits.rows)
        if first is None:
            return
        expected, seen = _expected(run, norm.steps[first], limits)
        sure = not expected and not _rounded(norm) and run.dialect != GENERIC
        yield _stopped(run, norm, first, seen, fault=sure)
        return
    loss = track(run, "loss_total")
    first = _dead_since(loss, limits.rows)
    if first is not None:
        yield _stopped(
            run,
            loss,
            first,
            "by design on a policy's own samples",
            fault=False,
        )


def _dead_since(found: Track, rows: int) -> int | None:
    """Return the row from which all values are exactly 0, where there are enough."""
    first = len(found)
    while first > 0 and found.values[first - 1] == 0.0:
        first -= 1
    return first if 0 < first <= len(found) - rows else None


def _expected(run: Run, step: int, limits: Limits) -> tuple[bool, str]:
    """Say whether no gradient was to be expected from a step on, and what tells so."""
    for name in ("frac_reward_zero_std", "reward_group_std"):
        if not logged(run, name):
            continue
        spread = track(run, name)
        late = [value for at, value in zip(spread.steps, spread.values, strict=True) if at >= step]
        if not late:
            continue
        if name == "reward_group_std":
            flat = [value == 0.0 for value in late]
        else:
            flat = [value >= limits.solved for value in late]
        if all(flat):
            return True, "no group has any spread of rewards"
        return False, f"{flat.count(False)} of these rows have groups with a spread of rewards"
    if prefers(run) or run.algorithm in ("PPO", "RM"):
        return False, "nothing was updated any more"
    return True, "the groups' spread of rewards is not logged"


def _rounded(found: Track) -> bool:
    return found.column.printed and all(value == round(value, DECIMALS) for value in found.values)


def _stopped(run: Run, found: Track, first: int, meaning: str, *, fault: bool) -> Finding:
    last = len(found) - 1
    evidence: tuple[Evidence, ...] = (metric_evidence(run, found, first, last, 0.0, limit_low=0.0),)
    return Finding(
        "warning" if fault else "info",
        evidence,
        {
            "what": "gradient norm" if found.metric == "grad_norm" else "loss",
            "count": last - first + 1,
            "meaning": meaning,
            "step": found.steps[first],
        },
        onset=appeared(found.steps, first),
    )
