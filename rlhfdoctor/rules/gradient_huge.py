"""A gradient norm in the thousands."""

from collections.abc import Iterator
from dataclasses import dataclass
from statistics import median

from rlhfdoctor.measures import metric_evidence, prefers, track
from rlhfdoctor.model import Finding, Onset, Run, Skip
from rlhfdoctor.rules import rule
from rlhfdoctor.rules._sustained import GENERIC, without_zeros

ON_POLICY = ("GRPO", "RLOO", "PPO", "REINFORCE")
"""Algorithms whose trainers divide the loss by tokens or sequences, whatever the model."""


@dataclass(frozen=True, slots=True)
class Limits:
    """From where a norm is remarkable, and from where it is a fault."""

    large: float = 100.0  # L2 norm; median of the run
    huge: float = 1000.0  # L2 norm
    share: float = 0.9  # share of the rows with a gradient that are huge
    rows: int = 5  # logged rows with a gradient


@rule(
    "OPT002",
    signal="optimiser",
    needs=["grad_norm", "rows>=5"],
    limits=Limits,
    text="the gradient norm (before clipping) is {level:.4g} in the median of {rows} logged rows",
    brief="gradient norm {level:.4g} throughout",
)
def gradient_huge(run: Run, limits: Limits) -> Iterator[Finding | Skip]:
    """The gradient norm is enormous from the first row to the last.

    verl's runs live at 0.1-1; the same run had 0.3 and, with a load-balancing loss that was not
    normalised under context parallelism, 3168 (verl 6609). Preference losses sum over a response
    and know no such level (24 in a DPO run, 42 in a KTO run), and a loss summed over tokens
    multiplies the norm by the length: a median above 100 is information. Only thousands in nearly
    all rows of an on-policy algorithm, whose trainers all divide by tokens or sequences, are a
    warning. A leap in single rows is another rule's. [H]

    Remedy: compare one step with parallelism, packing and auxiliary losses switched off; check how
    the loss is normalised. If the loss is a sum by design, there is nothing to mend.
    """
    norm = without_zeros(track(run, "grad_norm"))
    if len(norm) < limits.rows:
        yield Skip("", (f"{limits.rows} rows with a gradient norm above 0",))
        return
    level = median(norm.values)
    if level <= limits.large:
        return
    huge = sum(value > limits.huge for value in norm.values) >= limits.share * len(norm)
    fault = huge and run.algorithm in ON_POLICY and not prefers(run) and run.dialect != GENERIC
    first, last = norm.steps[0], len(norm) - 1
    bar = limits.huge if huge else limits.large
    yield Finding(
        "warning" if fault else "info",
        (metric_evidence(run, norm, 0, last, level, limit_high=bar),),
        {"level": level, "rows": len(norm)},
        onset=Onset(first, first, first),
    )
