"""One part of the reward takes all of it while another is not learnt or is lost."""

from collections.abc import Iterator
from dataclasses import dataclass
from statistics import fmean

from rlhfdoctor.measures import Track, common, finite_rows, metric_evidence, track
from rlhfdoctor.model import Finding, Onset, Run, Severity, Skip
from rlhfdoctor.rules import rule
from rlhfdoctor.rules._heldout import name_of
from rlhfdoctor.rules._reward import Change, blocks, change, crossing, reward_of
from rlhfdoctor.series import halves_differ, noise

LOST = "is lost"
"""What became of a part that was earned at first."""

APART = 4.0
"""Noise of the rows by which a part must stand above its start."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What counts as owning, as lost and as never learnt."""

    standard_errors: float = 4.0  # between the first and the last block of rows
    effect: float = 2.0  # standard deviations of the rows, likewise
    lost: float = 0.1  # of the first level: a part below it is lost
    part: float = 0.1  # least share of the reward that a lost part had at first
    dead: float = 0.05  # of the owner's last level: a part below it is not learnt
    hint: float = 2.0  # standard errors from which a part may be learnt after all
    rows: int = 20  # logged rows from which a part that is not learnt is a fault
    same: float = 1e-4  # of the largest reward: differences from the owner that are rounding


@rule(
    "RWD005",
    signal="reward",
    needs=["rows>=10"],
    limits=Limits,
    text="the reward rises from {start:.3g} to {end:.3g} by {owner} alone; {other} {what} "
    "({before:.3g} -> {after:.3g})",
    brief="reward up by {owner} alone, {other} {before:.2g} -> {after:.2g}",
)
def component_owns(run: Run, limits: Limits) -> Iterator[Finding | Skip]:
    """One part of the reward makes all of its rise, and another part is lost or never learnt.

    Rewards of several parts are often taken by the cheapest: format 1, accuracy 0 (open-r1 373,
    255). A part that had a share of the reward and is lost (below a tenth of where it began) while
    another carries the whole up is a fault. So is a part that is earned now and then, hardly ever,
    and never more often, while the reward that is paid equals one other part in every row: what is
    watched is not what is paid. Where both are paid, the cheap part comes first in sound runs too:
    information, and so is a part of exact zeros, which may be a penalty that never struck as well
    as a parser that never matches. Judged by numbers alone: names of parts say nothing here. [H]

    Remedy: pay what is wanted, and the cheap part only together with it; check that the parser of
    the part that is not learnt ever matches; go back to before the parts went apart.
    """
    parts = [
        track(run, column)
        for column in run.columns
        if name_of(column) == "reward_component_mean"
        and not column.startswith("eval_")
        and finite_rows(run, column) >= limits.rows / 2
    ]
    reward = reward_of(run)
    if reward is None or len(parts) < 2 or len(reward) < limits.rows / 2:
        yield Skip("", ("reward_raw_mean", "two parts of the reward"))
        return
    total = _overall(reward)
    changes = [_overall(part) for part in parts]
    if not _sure(total, limits, 1.0):
        return
    whole = [_is_all(reward, part, limits.same) for part in parts]
    place = max(range(len(parts)), key=lambda index: (whole[index], changes[index].gain))
    owner, gained = parts[place], changes[place]
    if not _sure(gained, limits, 1.0):
        return
    others = [
        (part, moved)
        for index, (part, moved) in enumerate(zip(parts, changes, strict=True))
        if index != place
    ]
    alone = whole[place] and not any(
        _sure(moved, limits, 1.0) and not _alike(moved, gained, limits.dead) for _, moved in others
    )
    found: list[tuple[Severity, str, Track, Change]] = []
    for part, moved in others:
        verdict = _judge(part, moved, total, gained, alone, limits)
        found += [(*verdict, part, moved)] if verdict else []
    if not found:
        return
    severity, what, other, moved = min(found, key=lambda item: item[0] == "info")
    yield Finding(
        severity,
        (
            metric_evidence(run, owner, 0, len(owner) - 1, gained.after),
            metric_evidence(run, other, 0, len(other) - 1, moved.after),
        ),
        {
            "start": total.before,
            "end": total.after,
            "owner": _called(owner),
            "other": _called(other),
            "what": what,
            "before": moved.before,
            "after": moved.after,
        },
        onset=_half_way(other, moved) if what == LOST else _apart(owner, gained),
    )


def _half_way(found: Track, moved: Change) -> Onset:
    """Date the change of a part, from the row where half of it is done for good."""
    return crossing(found.steps, found.values, (moved.before + moved.after) / 2)


def _apart(found: Track, moved: Change) -> Onset:
    """Date an owner from where it has left its start for good; the rise may have begun before.

    Every reward rises from the first update on; that one part alone makes it can be told only once
    that part stands above its start, and stays there, by more than the noise of its rows.
    """
    rise = _half_way(found, moved)
    above = moved.before + APART * noise(found.values)
    below = [index for index, value in enumerate(found.values) if value <= above]
    first = min(below[-1] + 1 if below else 0, len(found) - 1)
    step = max(found.steps[first], rise.step)
    return Onset(step, rise.low, max(step, rise.high))


def _judge(
    part: Track, moved: Change, total: Change, owner: Change, alone: bool, limits: Limits
) -> tuple[Severity, str] | None:
    """Say what became of a part that is not the owner, and how bad it is; None: nothing bad."""
    had = moved.before > limits.part * abs(total.before) and moved.before > 0.0
    if had and _sure(moved, limits, -1.0) and moved.after < limits.lost * moved.before:
        return "warning", LOST
    if part.placeholder:
        return "info", "never paid anything"
    rare = min(part.values) >= 0.0 and fmean(part.values) < limits.dead * owner.after
    if rare and abs(halves_differ(part.values)) < limits.hint:
        return "warning" if alone and len(part) >= limits.rows else "info", "is not learnt"
    return None


def _overall(found: Track) -> Change:
    """Return the change from the first to the last block of a track."""
    parts = blocks(len(found), 5)
    return change(found.values[parts[0]], found.values[parts[-1]])


def _sure(moved: Change, limits: Limits, sign: float) -> bool:
    return sign * moved.errors > limits.standard_errors and sign * moved.effect > limits.effect


def _is_all(reward: Track, owner: Track, same: float) -> bool:
    """Say whether the reward is this part, times one weight, in every row."""
    paid, part = common(reward, owner)
    largest = max(part, key=abs, default=0.0)
    if largest == 0.0:
        return False
    weight = paid[part.index(largest)] / largest
    scale = max(abs(value) for value in paid)
    return all(abs(a - weight * b) <= same * scale for a, b in zip(paid, part, strict=True))


def _alike(one: Change, other: Change, share: float) -> bool:
    """Say whether two parts are the same but for a small share: one is made from the other."""
    near = share * abs(other.after)
    return abs(one.before - other.before) <= near and abs(one.after - other.after) <= near


def _called(found: Track) -> str:
    return found.metric.partition("[")[2].rstrip("]") or found.metric
