"""A gradient norm that grows slowly and late."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from rlhfdoctor.measures import metric_evidence, track
from rlhfdoctor.model import Finding, Run, Skip
from rlhfdoctor.rules import rule
from rlhfdoctor.rules._sustained import without_zeros
from rlhfdoctor.series import end_level, halves_differ


@dataclass(frozen=True, slots=True)
class Limits:
    """What counts as growth."""

    standard_errors: float = 4.0  # between the means of the two halves
    growth: float = 3.0  # last tenth over second quarter
    rows: int = 20  # logged rows with a gradient


@rule(
    "OPT008",
    signal="optimiser",
    needs=["grad_norm", "rows>=20"],
    limits=Limits,
    text="the gradient norm grows from quarter to quarter: {early:.3g} in the second, {level:.3g} "
    "in the last tenth of the run",
    brief="gradient norm grows {early:.2g} -> {level:.3g}",
)
def gradient_grows(run: Run, limits: Limits) -> Iterator[Finding | Skip]:
    """The gradient norm grows steadily in the later part of the run.

    Long runs without a KL penalty that reuse each rollout several times end this way (TRL 2980:
    beyond 10,000 updates, beta 0, four iterations), and so does a run about to diverge. Rewards
    that begin to flow make gradients grow as well, so it is information. The first quarter, with
    its warm-up, is left out. [H]

    Remedy: look at the ratio, the clip fraction and the mismatch to the rollout engine over the
    same rows; where they grow too, lower the learning rate or the number of inner iterations.
    """
    norm = without_zeros(track(run, "grad_norm"))
    count = len(norm)
    if count < limits.rows:
        yield Skip("", (f"{limits.rows} rows with a gradient norm above 0",))
        return
    quarters = [count * part // 4 for part in range(1, 5)]
    medians = [median(norm.values[first:last]) for first, last in pairwise(quarters)]
    early, level = medians[0], end_level(norm.values, max(count // 10, 2))
    steady = all(one < other for one, other in pairwise((*medians, level)))
    grows = halves_differ(norm.values) > limits.standard_errors
    if steady and grows and level >= limits.growth * early:
        yield Finding(
            "info",
            (metric_evidence(run, norm, quarters[0], count - 1, level),),
            {"early": early, "level": level},
        )
