"""An entropy, or minus a log-probability, below zero."""

from collections.abc import Iterator
from dataclasses import dataclass

from rlhfdoctor.measures import logged, metric_evidence, track
from rlhfdoctor.model import Finding, Onset, Run, Skip
from rlhfdoctor.rules import rule

NEVER_NEGATIVE = ("entropy", "neg_logp_token", "neg_logp_response")


@dataclass(frozen=True, slots=True)
class Limits:
    """What rounding explains."""

    rounding: float = 0.01  # nats below zero that half precision may make of none


@rule(
    "ENT004",
    signal="numbers",
    any_of=NEVER_NEGATIVE,
    limits=Limits,
    text="{key} is below zero in {rows} of {count} logged rows, down to {level:.3g} {unit}: "
    "it measures something else as well",
    brief="{key} below zero",
)
def entropy_negative(run: Run, limits: Limits) -> Iterator[Finding | Skip]:
    """The logged entropy is negative, which no entropy of tokens can be.

    Over a vocabulary it lies between 0 and the logarithm of its size, and minus the log-probability
    of a sample is positive as well. Negative numbers count what is no response: TRL's PPO fills
    padding with a log-probability of +1, so that the shorter the responses, the more negative the
    sum (TRL 6121); padding counted likewise spoils the entropy and the KL of online DPO (TRL 6803).
    It is the measurement that is at fault, so this is information: the run may be sound, and its
    entropy is unknown. Half precision (bfloat16 next to 1 rounds by 0.008) may end just below zero.

    Remedy: mask padding and what follows EOS before summing; judge the entropy by another metric.
    """
    for name in NEVER_NEGATIVE:
        if not logged(run, name):
            continue
        found = track(run, name)
        below = [row for row, value in enumerate(found.values) if value < -limits.rounding]
        if not below:
            continue
        level, step = min(found.values), found.steps[below[0]]
        yield Finding(
            "info",
            (metric_evidence(run, found, below[0], below[-1], level, limit_low=-limits.rounding),),
            {
                "key": found.column.sources[0].key or name,
                "rows": len(below),
                "count": len(found),
                "level": level,
                "unit": found.column.unit,
            },
            onset=Onset(step, step, step),
        )
