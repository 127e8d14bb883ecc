"""Training reward that rises while the held-out score falls, or the task stays unsolved."""

from collections.abc import Iterator
from dataclasses import dataclass

from rlhfdoctor.measures import Track, metric_evidence
from rlhfdoctor.model import Evidence, Finding, Onset, Run, Severity, Skip
from rlhfdoctor.rules import rule
from rlhfdoctor.rules._heldout import held_out, name_of, rewarding
from rlhfdoctor.rules._reward import Change, blocks, change, reward_of, rises
from rlhfdoctor.series import halves_differ


@dataclass(frozen=True, slots=True)
class Limits:
    """What counts as falling and as unsolved."""

    fewest: int = 10  # evaluations
    standard_errors: float = 4.0  # between the best and the last block of evaluations
    effect: float = 2.0  # standard deviations of single evaluations, likewise
    material: float = 0.2  # share of the best level that must be lost
    unsolved: float = 0.02  # share of solved tasks that is as good as none
    hint: float = 2.0  # standard errors from which the share of solved tasks may rise
    rows: int = 50  # logged rows after which a task that nobody solves is a fault


@rule(
    "RWD004",
    signal="reward",
    limits=Limits,
    text="the training reward rises from {start:.3g} to {end:.3g} while {key} {what} "
    "({best:.3g} -> {level:.3g})",
    brief="reward up, {key} {best:.2g} -> {level:.2g}",
)
def heldout_falls(run: Run, limits: Limits) -> Iterator[Finding | Skip]:
    """The reward that is trained on rises and what it stands for does not.

    Over-optimisation: a training reward that rises while held-out scores fall from their best
    (Gao et al. 2210.10760; open-r1 373, MOSS 2). Every held-out quantity of which more is better is
    asked, and so is the share of solved tasks; it is a fault only where at least half of them fall
    by a fifth of their best and none rises. Where tasks are hardly ever solved, from the first row
    to the last, and the reward rises much, a proxy is learnt; for the first 50 rows that may be the
    format that comes before the answer, hence information. [H]

    Remedy: go back to the checkpoint with the best held-out score, never to the one with the best
    training reward; repair the reward before raising the KL coefficient, which only delays it.
    """
    reward = reward_of(run)
    tracks = [found for found in rewarding(held_out(run)) if len(found) >= limits.fewest]
    if reward is None or len(reward) < limits.fewest or not tracks:
        yield Skip("", ("reward_raw_mean", f"{limits.fewest} held-out evaluations"))
        return
    if not rises(reward.values, limits.standard_errors):
        return
    fallen = [(found, fall) for found in tracks if (fall := _fall(found, limits))]
    risen = [found for found in tracks if rises(found.values, limits.standard_errors)]
    if fallen:
        grave = not risen and 2 * len(fallen) >= len(tracks)
        found, (block, lost) = min(fallen, key=lambda item: item[1][1].effect)
        onset = Onset(found.steps[block.stop], found.steps[block.start], found.steps[-1])
        yield _found(run, reward, found, lost, "falls", "critical" if grave else "info", onset)
        return
    for found in tracks:
        if name_of(found.metric) == "success_rate" and _unsolved(reward, found, limits):
            long = min(len(found), len(reward)) >= limits.rows
            quarter = blocks(len(found), 2, 4)
            lost = change(found.values[quarter[0]], found.values[quarter[-1]])
            onset = Onset(found.steps[0], found.steps[0], found.steps[0])
            said = "stays as good as 0"
            yield _found(run, reward, found, lost, said, "warning" if long else "info", onset)
            return


def _fall(found: Track, limits: Limits) -> tuple[slice, Change] | None:
    """Return the best block of a track and the fall from it to the last, where there is one."""
    parts = blocks(len(found), 5)
    changes = [(part, change(found.values[part], found.values[parts[-1]])) for part in parts[:-1]]
    part, lost = max(changes, key=lambda item: item[1].before)
    sure = lost.errors < -limits.standard_errors and lost.effect < -limits.effect
    return (part, lost) if sure and -lost.gain > limits.material * abs(lost.before) else None


def _unsolved(reward: Track, found: Track, limits: Limits) -> bool:
    """Say whether nobody ever solves the task although the reward has grown by a lot."""
    parts = blocks(len(reward), 4)
    paid = change(reward.values[parts[0]], reward.values[parts[-1]])
    return (
        sum(found.values) <= limits.unsolved * len(found)
        and halves_differ(found.values) < limits.hint
        and paid.effect > limits.effect
    )


def _found(
    run: Run,
    reward: Track,
    found: Track,
    lost: Change,
    what: str,
    severity: Severity,
    onset: Onset,
) -> Finding:
    parts = blocks(len(reward), 4)
    paid = change(reward.values[parts[0]], reward.values[parts[-1]])
    evidence: tuple[Evidence, ...] = (
        metric_evidence(run, reward, 0, len(reward) - 1, paid.after),
        metric_evidence(run, found, 0, len(found) - 1, lost.after, limit_low=lost.before),
    )
    args = {
        "start": paid.before,
        "end": paid.after,
        "key": found.column.sources[0].key,
        "what": what,
        "best": lost.before,
        "level": lost.after,
    }
    return Finding(severity, evidence, args, onset=onset)
