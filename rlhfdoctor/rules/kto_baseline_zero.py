"""KTO's baseline that is never above zero."""

from collections.abc import Iterator
from dataclasses import dataclass

from rlhfdoctor.measures import metric_evidence, track
from rlhfdoctor.model import Finding, Onset, Run, Skip
from rlhfdoctor.rules import rule


@dataclass(frozen=True, slots=True)
class Limits:
    """How many rows of zero are no start."""

    rows: int = 10  # logged rows


@rule(
    "DPO011",
    signal="config",
    needs=["kto_kl_baseline", "rows>=5"],
    zeros=True,
    limits=Limits,
    text="KTO's baseline is exactly 0 in all {count} logged rows: it is clamped there, or was not "
    "computed",
    brief="KTO baseline 0 in every row",
)
def kto_baseline_zero(run: Run, limits: Limits) -> Iterator[Finding | Skip]:
    """KTO holds its rewards against a baseline that says nothing.

    The baseline is the mean log-ratio of answers paired with prompts that are not theirs, clamped
    at 0. It leaves 0 as soon as the policy gives such answers more probability than the reference
    does. Exactly 0 in every row means a policy below its reference everywhere, a batch of one
    (which cannot be mismatched), a loss without a baseline (apo_zero_unpaired), or no update. KTO
    works without it, so this is information. It is no KL of the policy, and no drift. [H]

    Remedy: more than one example a device, so that answers can be paired anew; where the chosen
    reward falls as well, a lower learning rate.
    """
    baseline = track(run, "kto_kl_baseline")
    if len(baseline) < limits.rows:
        yield Skip("", (f"rows>={limits.rows}",))
        return
    if baseline.placeholder:
        yield Finding(
            "info",
            (metric_evidence(run, baseline, 0, len(baseline) - 1, 0.0, limit_low=0.0),),
            {"count": len(baseline)},
            onset=Onset(baseline.steps[0], baseline.steps[0], baseline.steps[0]),
        )
