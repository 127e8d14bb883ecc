"""Training reward that falls."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from statistics import median

from rlhfdoctor.measures import Track, logged, metric_evidence, track
from rlhfdoctor.model import Finding, Run, Severity, Skip
from rlhfdoctor.rules import rule
from rlhfdoctor.rules._heldout import held_out, name_of, rewarding
from rlhfdoctor.rules._reward import Change, blocks, change, crossing
from rlhfdoctor.series import halves_differ

EITHER_WAY = ("entropy", "entropy_unknown", "response_length_mean")
DISTANCE = ("kl_ref_token", "kl_ref_response", "kl_unknown")
"""Metrics beside the reward: those that may leave their level up or down, and those that grow with
the steps of a sound run too."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How sure, how large, how much of what was gained, and what else must have happened."""

    standard_errors: float = 4.0  # between the best and the last part of the run
    effect: float = 1.0  # standard deviations of the rows, likewise: worth a line
    large: float = 2.0  # standard deviations of the rows: a fault
    material: float = 0.2  # of the best level (or start) or of the last, whichever is larger
    gain: float = 0.5  # share that was lost of what the run had gained until then
    most: float = 0.75  # of the larger level: so much is lost to no change of prompts
    apart: float = 3.0  # times its level at the best: entropy, length, KL or gradient went along
    cut: float = 0.3  # share of the answers that are cut at the end and were not at the best
    hint: float = 2.0  # standard errors by which a held-out quantity rises or falls
    evaluations: int = 3  # of a held-out quantity, from which its best one says something


@rule(
    "RWD008",
    signal="reward",
    needs=["reward_raw_mean", "rows>=10"],
    zeros=True,
    limits=Limits,
    text="reward falls from {best:.3g} to {level:.3g} by the end of the run "
    "({effect:.1f} standard deviations of its rows; {start:.3g} at the start){beside}",
    brief="reward {best:.3g} -> {level:.3g}",
)
def reward_falls(run: Run, limits: Limits) -> Iterator[Finding | Skip]:
    """The run ends with a lower reward than it had reached: it made the policy worse.

    The best fifth of the run (five rows at least) is compared with the last fifth, and with the
    last tenth where that fell further. Batches of few prompts are noisy; so the fall must be four
    standard errors and a standard deviation to be worth a line, and two, with half of what had
    been gained and a fifth of the level lost, to be a fault.

    Prompts that grow harder lower the reward of a sound run just so. Where a held-out quantity
    rises meanwhile, or has its best evaluation in the last third of the run, and none falls, it is
    information. Without one it is a fault only with a second witness: entropy, length, KL (beyond
    growth in proportion to the steps), gradient norm or the share of cut answers left its level;
    or the reward ends below the run's own start; or three quarters of it are lost. A learning rate
    that is too high, a value model that diverges and a policy that ran away look like this. [H]

    Remedy: go back to the best fifth; lower the learning rate; if prompts grew harder on purpose,
    judge by a held-out score instead.
    """
    reward = track(run, "reward_raw_mean")
    part, last, lost = _fall(reward.values, limits)
    if not _sure(lost, limits, limits.effect):
        return
    begun = change(reward.values[blocks(len(reward), 5)[0]], reward.values[last])
    grave = (
        _sure(lost, limits, limits.large)
        and lost.loses(limits.material)
        and -lost.gain >= limits.gain * (lost.before - begun.before)
    )
    better = _better(run, reward.steps[part.start], limits) if grave else None
    witness = better or (_moved(run, reward, part, last, limits) if grave else None)
    far = lost.loses(limits.most) or (
        _sure(begun, limits, limits.effect) and begun.loses(limits.material)
    )
    severity: Severity = "critical" if grave and not better and (witness or far) else "info"
    evidence = [metric_evidence(run, reward, last.start, last.stop - 1, lost.after)]
    beside = "; nothing else that is logged moved: harder prompts?" if grave and not far else ""
    if witness:
        found, before, after = witness
        evidence.append(metric_evidence(run, found, 0, len(found) - 1, after))
        key = found.column.sources[0].key or found.metric
        beside = f"; meanwhile {key} goes from {before:.3g} to {after:.3g}"
    yield Finding(
        severity,
        tuple(evidence),
        {
            "best": lost.before,
            "level": lost.after,
            "effect": -lost.effect,
            "start": begun.before,
            "beside": beside,
        },
        onset=crossing(
            reward.steps[part.start :],
            reward.values[part.start :],
            (lost.before + lost.after) / 2,
        ),
    )


def _fall(values: list[float], limits: Limits) -> tuple[slice, slice, Change]:
    """Return the best part, the last part, and the change between them.

    The last part is the last fifth; the last tenth where only that has lost most of the reward.
    """
    fifths = blocks(len(values), 5)
    tenth = blocks(len(values), 5, 10)[-1]
    whole = _worst(values, fifths[:-1], fifths[-1])
    late = _worst(values, [part for part in fifths if part.stop <= tenth.start], tenth)
    worse = _sure(late[2], limits, limits.large) and late[2].loses(limits.most)
    return late if worse and not whole[2].loses(limits.most) else whole


def _worst(values: list[float], parts: list[slice], last: slice) -> tuple[slice, slice, Change]:
    changes = [(part, last, change(values[part], values[last])) for part in parts]
    return max(changes, key=lambda item: item[2].before)


def _sure(moved: Change, limits: Limits, effect: float) -> bool:
    return moved.errors <= -limits.standard_errors and moved.effect <= -effect


def _better(run: Run, since: int, limits: Limits) -> tuple[Track, float, float] | None:
    """Return a held-out quantity that gets better while the reward falls; None where one falls."""
    risen: tuple[Track, float, float] | None = None
    for found in rewarding(held_out(run)):
        later = [v for step, v in zip(found.steps, found.values, strict=True) if step >= since]
        errors = halves_differ(later)
        if errors <= -limits.hint and name_of(found.metric) != "success_rate":
            return None
        best = max(range(len(found)), key=lambda index: (found.values[index], index))
        late = 3 * best >= 2 * (len(found) - 1) and found.values[best] > found.values[0]
        if errors >= limits.hint or (late and len(found) >= limits.evaluations):
            risen = risen or (found, found.values[0], found.values[-1])
    return risen


def _moved(
    run: Run, reward: Track, part: slice, last: slice, limits: Limits
) -> tuple[Track, float, float] | None:
    """Return a metric of another kind that is far from where it was at the best reward."""
    good = (reward.steps[part.start], reward.steps[part.stop - 1])
    bad = (reward.steps[last.start], reward.steps[last.stop - 1])
    grown = max(1.0, sum(bad) / max(1, sum(good)))
    for name in (*EITHER_WAY, *DISTANCE, "grad_norm", "truncation_rate"):
        if not logged(run, name):
            continue
        found = track(run, name)
        before, after = found.between(*good), found.between(*bad)
        if not before or not after:
            continue
        old, new = median(before), median(after)
        if name == "truncation_rate":
            far = new - old >= limits.cut
        else:
            usual = limits.apart * (grown if name in DISTANCE else 1.0)
            far = 0.0 < usual * old <= new or (name in EITHER_WAY and new * usual <= old > 0.0)
        if far:
            return found, old, new
    return None
