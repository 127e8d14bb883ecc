"""A KL that grows faster and faster to the end of the log."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from math import sqrt
from statistics import median

from rlhfdoctor.measures import metric_evidence, track
from rlhfdoctor.model import Finding, Run, Skip
from rlhfdoctor.rules import rule
from rlhfdoctor.rules._kl import KLS, told_unit
from rlhfdoctor.series import MEDIAN_ERROR, noise

PARTS = 6
"""Equal parts of the log whose medians are compared; the last two of their changes must lead."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What counts as acceleration."""

    times: float = 2.0  # the growth in the last third over the fastest growth before it
    standard_errors: float = 5.0  # of the difference of two parts' medians


@rule(
    "KL007",
    signal="kl",
    any_of=KLS,
    needs=["rows>=18"],
    limits=Limits,
    text="KL accelerates to the end: from {start:.3g} to {middle:.3g} in two thirds of the log, to "
    "{level:.3g} {unit} in the last",
    brief="KL accelerates to {level:.3g} {unit}",
)
def kl_accelerates(run: Run, limits: Limits) -> Iterator[Finding | Skip]:
    """The KL to the reference grows faster to the end of the log than ever before.

    A policy that learns moves away at a rate that falls once the penalty balances the reward. A
    growth that still speeds up when the log ends has no such balance: the log ends before the
    outcome, not after it. The log is cut in six equal parts, whose medians no single spike moves;
    each of the last two changes must exceed every earlier one, their sum be twice what two parts
    gained at the fastest before, and the last be five standard errors of noise.
    Only the shape is judged, so the unit may be unknown; and one voice that reports such detectors
    says that they audit well and warn badly (KNOWLEDGE, TRL 6350): information, never an onset. [H]

    Remedy: none by itself; look at what the next steps did, and keep a KL target if there are none.
    """
    kl = track(run, *KLS)
    bounds = [len(kl) * part // PARTS for part in range(PARTS + 1)]
    levels = [median(kl.values[first:last]) for first, last in pairwise(bounds)]
    *earlier, before, last = (b - a for a, b in pairwise(levels))
    fastest = max(0.0, *earlier)
    error = MEDIAN_ERROR * noise(kl.values) * sqrt(2 * PARTS / len(kl))
    if not (last > before > fastest and before + last > 2 * limits.times * fastest):
        return
    if last > limits.standard_errors * error:
        yield Finding(
            "info",
            (metric_evidence(run, kl, bounds[-3], len(kl) - 1, levels[-1]),),
            {
                "start": levels[0],
                "middle": levels[-3],
                "level": levels[-1],
                "unit": told_unit(kl.column),
            },
        )
