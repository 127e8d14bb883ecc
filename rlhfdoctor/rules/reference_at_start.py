"""A policy that is not its reference before the first update."""

from collections.abc import Iterator
from dataclasses import dataclass

from rlhfdoctor.measures import metric_evidence, track
from rlhfdoctor.model import Finding, Onset, Run, Skip
from rlhfdoctor.rules import rule


@dataclass(frozen=True, slots=True)
class Limits:
    """How far from zero the first KL may be."""

    response: float = 1.0  # nats per response
    token: float = 0.05  # nats per token; half precision alone makes 0.002


@rule(
    "REF002",
    signal="kl",
    any_of=["kl_ref_token", "kl_ref_response"],
    limits=Limits,
    text="KL is {level:.3g} {unit} at step {step}, before the first update: the policy did not "
    "start from the reference",
    brief="KL {level:.3g} {unit} before the first update",
)
def reference_at_start(run: Run, limits: Limits) -> Iterator[Finding | Skip]:
    """The first logged KL, measured before any update, is not zero.

    Until its first update the policy is the model that training started from; a KL to "the"
    reference by then means another model: the bare base under a supervised adapter (TRL 1340, 3194,
    6591), a wrong path, another chat template, or log-probabilities that disagree (padding,
    position ids). It makes every later KL meaningless. Only logs whose rows are known to precede
    their update, and that begin with the first one, can be judged: a first row that averages ten
    steps is none, nor is a row whose step had to be counted (an excerpt may begin anywhere).

    Remedy: recompute against base, supervised model and first checkpoint; the one with KL 0 is what
    training started from. Restart from it with the right reference: every checkpoint is tainted.
    """
    kl = track(run, "kl_ref_token", "kl_ref_response")
    if run.log_offset < 1 or kl.steps[0] > run.log_offset or run.step_unit == "row":
        yield Skip("", ("a logged row that precedes the first update",))
        return
    limit = limits.token if kl.metric == "kl_ref_token" else limits.response
    level = kl.values[0]
    if level > limit:
        yield Finding(
            "warning",
            (metric_evidence(run, kl, 0, 0, level, limit_high=limit),),
            {"level": level, "unit": kl.column.unit, "step": kl.steps[0]},
            onset=Onset(kl.steps[0], kl.steps[0], kl.steps[0]),
        )
