"""A KL that only ever grows."""

from collections.abc import Iterator
from dataclasses import dataclass

from rlhfdoctor.measures import metric_evidence, track
from rlhfdoctor.model import Finding, Run, Skip
from rlhfdoctor.rules import rule
from rlhfdoctor.series import end_level, halves_differ


@dataclass(frozen=True, slots=True)
class Limits:
    """What counts as growth."""

    standard_errors: float = 4.0  # between the means of the two halves
    growth: float = 2.0  # level at the end over level in the middle


@rule(
    "KL004",
    signal="kl",
    any_of=["kl_ref_token", "kl_ref_response"],
    needs=["rows>=10"],
    limits=Limits,
    text="KL still grows: {middle:.3g} {unit} in the middle of the run, {level:.3g} at the end",
)
def kl_trend(run: Run, limits: Limits) -> Iterator[Finding | Skip]:
    """The KL to the reference still doubles in the second half of the run.

    Every policy that learns moves away from its reference, so growth is information and never an
    onset; growth that does not slow down is what a runaway looks like before it is one. [H]

    Remedy: none by itself; a KL coefficient with a target keeps the distance bounded.
    """
    kl = track(run, "kl_ref_token", "kl_ref_response")
    half = len(kl) // 2
    middle, level = end_level(kl.values[: half + 1]), end_level(kl.values)
    grows = halves_differ(kl.values) > limits.standard_errors
    if grows and middle > 0 and level > limits.growth * middle:
        yield Finding(
            "info",
            (metric_evidence(run, kl, half, len(kl) - 1, level),),
            {"middle": middle, "level": level, "unit": kl.column.unit},
        )
