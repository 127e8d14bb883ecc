"""Held-out evaluations that repeat the same numbers."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby

from rlhfdoctor.measures import Track, finite_rows, metric_evidence, track
from rlhfdoctor.model import Finding, Onset, Run, Severity, Skip
from rlhfdoctor.rules import rule
from rlhfdoctor.rules._heldout import held_out, rewarding


@dataclass(frozen=True, slots=True)
class Limits:
    """How many repetitions, and how unlikely."""

    repeats: int = 5  # evaluations in a row with exactly the same numbers
    chance: float = 0.002  # largest probability that they repeat by luck
    long: float = 0.25  # share of all evaluations from which a spell that ended is still a fault
    rate: float = 0.01  # share of the highest learning rate below which nothing can change


@rule(
    "RWD007",
    signal="reward",
    limits=Limits,
    text="{count} evaluations in a row give exactly the same numbers ({values}) after they had "
    "differed{loss}: the answers no longer depend on what is learnt",
    brief="{count} identical held-out evaluations",
)
def heldout_constant(run: Run, limits: Limits) -> Iterator[Finding | Skip]:
    """Held-out evaluations differ at first and then repeat the same numbers, below their best.

    A policy that always gives the same kind of answer scores the same whatever the updates do:
    "loss 0 and stable metrics" is a policy that became deterministic, not one that converged. All
    held-out quantities that ever varied must stand still at once, below the best that the run
    reached, and so often that small evaluation sets do not explain it: the share of the other
    evaluations with the same numbers, to the power of the repetitions. Where the learning rate is
    nearly 0 nothing can change: information. A spell that ended is a fault where it lasted for a
    quarter of the evaluations. [H]

    Remedy: read the held-out answers; go back to before they became alike; more entropy (bonus,
    temperature, KL) and a reward that a constant answer does not earn.
    """
    tracks = [found for found in held_out(run) if len(set(found.values)) > 1]
    shared = set.intersection(*(set(found.steps) for found in tracks)) if tracks else set()
    if len(shared) <= limits.repeats:
        yield Skip("", (f"more than {limits.repeats} held-out evaluations",))
        return
    tracks = [_at(found, shared) for found in tracks]
    rows = list(zip(*(found.values for found in tracks), strict=True))
    seen = Counter(rows)
    first = 0
    for numbers, same in groupby(rows):
        count = len(list(same))
        last = first + count - 1
        others = len(rows) - count
        share = (seen[numbers] - count + 1) / (others + 1) if count >= limits.repeats else 1
        unlikely = len(rows) * share ** (count - 1) <= limits.chance
        if first > 0 and count >= limits.repeats and unlikely and not _best(tracks, first):
            yield _found(run, tracks, first, last, limits)
        first = last + 1


def _at(found: Track, steps: set[int]) -> Track:
    """Return a track at these steps alone."""
    kept = [pair for pair in zip(found.steps, found.values, strict=True) if pair[0] in steps]
    return Track(
        found.metric, found.column, [step for step, _ in kept], [value for _, value in kept]
    )


def _best(tracks: list[Track], row: int) -> bool:
    """Say whether everything of which more is better is at the highest of the run."""
    good = rewarding(tracks)
    return bool(good) and all(found.values[row] >= max(found.values) for found in good)


def _found(run: Run, tracks: list[Track], first: int, last: int, limits: Limits) -> Finding:
    steps, count = tracks[0].steps, last - first + 1
    stands = last == len(steps) - 1
    severity: Severity = "warning" if count >= limits.long * len(steps) else "info"
    if stands:
        severity = "critical"
    if _still(run, steps[first], limits.rate):
        severity = "info"
    told = ", ".join(f"{found.column.sources[0].key} {found.values[first]:.3g}" for found in tracks)
    return Finding(
        severity,
        tuple(metric_evidence(run, found, first, last, found.values[first]) for found in tracks),
        {
            "count": count,
            "values": told,
            "loss": ", the loss being exactly 0"
            if _no_loss(run, steps[first], steps[last])
            else "",
        },
        onset=Onset(steps[first], steps[first - 1], steps[first]),
        recovered_at=None if stands else steps[last + 1],
    )


def _no_loss(run: Run, first: int, last: int) -> bool:
    """Say whether the loss was exactly 0 between two steps, in most rows."""
    values = _between(run, "loss_total", first, last)
    return bool(values) and 2 * values.count(0.0) > len(values)


def _still(run: Run, step: int, rate: float) -> bool:
    """Say whether the learning rate had all but ended at a step."""
    later = _between(run, "lr", step, run.last_step or step)
    return bool(later) and max(later) <= rate * max(track(run, "lr").values)


def _between(run: Run, metric: str, first: int, last: int) -> list[float]:
    if not finite_rows(run, metric):
        return []
    return track(run, metric).between(first, last)
