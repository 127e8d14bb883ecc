"""Entropy that is on its way to nothing, or was there from the start."""

from collections.abc import Iterator
from dataclasses import dataclass

from rlhfdoctor.measures import Track, metric_evidence, track
from rlhfdoctor.model import Finding, Run, Skip
from rlhfdoctor.rules import rule
from rlhfdoctor.series import end_level, halves_differ, start_level

CENTRE = 2
"""Index of the middle one of the five rows whose median is a level."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Where the floor lies, and what counts as a fall."""

    floor: float = 0.1  # of the run's own start
    standard_errors: float = 4.0  # by which the second half of the log must fall within itself
    sure: float = 0.01  # nats per token; a policy below it from the start has nothing to explore


@rule(
    "ENT003",
    signal="entropy",
    any_of=["entropy", "entropy_unknown"],
    needs=["rows>=20"],
    limits=Limits,
    text="entropy {course}",
    brief="entropy {course}",
)
def entropy_floor(run: Run, limits: Limits) -> Iterator[Finding | Skip]:
    """The entropy reaches a tenth of its start before training ends, at its present rate.

    Reward is bought with entropy (R = -a exp(H) + b in published fits), and what is left of it when
    it reaches its floor is all that the policy will find. The rate is that of the second half of
    the log, between the medians of its first and its last rows; the time is counted against the
    planned steps, else against as many steps as that half took. An entropy below 0.01 nats a token
    in the first rows was spent before training began: a peaked start, and no collapse of this run.
    Both are information. [H]

    Remedy: a higher sampling temperature, a higher upper clip range (0.28) or a KL penalty keep the
    entropy up; a start without any needs a model that was trained less.
    """
    entropy = track(run, "entropy", "entropy_unknown")
    values, steps = entropy.values, entropy.steps
    start, level = start_level(values), end_level(values)
    if entropy.metric == "entropy" and 0.0 <= start < limits.sure:
        course = f"is {start:.2g} {entropy.column.unit} from the start: nothing is left to explore"
        yield _info(run, entropy, 0, start, limits.sure, course)
        return
    half = len(values) // 2
    before, floor = start_level(values[half:]), limits.floor * start
    falls = halves_differ(values[half:]) < -limits.standard_errors
    if not falls or not 0.0 < floor < level < before:
        return
    planned = run.number("planned_steps") or 2 * steps[-1] - steps[half]
    rate = (before - level) / (steps[-1 - CENTRE] - steps[half + CENTRE])
    needed = (level - floor) / rate - (steps[-1] - steps[-1 - CENTRE])
    if needed <= planned - steps[-1]:
        course = (
            f"falls from {start:.3g} to {level:.3g} ({entropy.column.unit}) and at this rate "
            f"reaches {limits.floor:.0%} of its start {needed:.0f} steps after the log's end"
        )
        yield _info(run, entropy, half, level, floor, course)


def _info(
    run: Run, entropy: Track, first: int, observed: float, floor: float, course: str
) -> Finding:
    last = len(entropy) - 1
    evidence = metric_evidence(run, entropy, first, last, observed, limit_low=floor)
    return Finding("info", (evidence,), {"course": course})
