"""Two sample files that remember different references."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

from rlhfdoctor.measures import Batch, ladders, sample_evidence
from rlhfdoctor.model import Finding, Onset, Run, Skip
from rlhfdoctor.rules import rule


@dataclass(frozen=True, slots=True)
class Limits:
    """How far two references may be apart."""

    gap: float = 1.0  # nats per token between the k1 estimates of two files at one step
    likeness: float = 0.5  # nats per token between the policy's own mean negative log-probabilities
    fewest: int = 8  # responses a sampled step


@rule(
    "REF001",
    signal="kl",
    needs=["samples.logprobs", "samples.ref_logprobs", "samples.steps"],
    limits=Limits,
    text="{near} and {far} disagree about the reference at step {step}: {low:.2g} against "
    "{high:.2g} nats/token (k1) for responses of the same perplexity",
    brief="the reference of {near} moved",
)
def reference_disagrees(run: Run, limits: Limits) -> Iterator[Finding | Skip]:
    """Two sample files of one step tell different distances to "the" reference.

    The policy is equally sure of both files' responses, but the reference log-probabilities differ
    by more than a nat a token: they come from two different references. A trainer that updates its
    reference (``sync_ref_model``) logs a calm KL however far the policy went. It is evidence from
    the files, not proof; a recomputation against the initial model is.

    Remedy: recompute against the model that training started from; switch the reference update off
    or slow it down.
    """
    steps: dict[int, list[Batch]] = {}
    for ladder in ladders(run, limits.fewest):
        for batch in ladder:
            if batch.step is not None and batch.k1 is not None:
                steps.setdefault(batch.step, []).append(batch)
    if all(len(found) < 2 for found in steps.values()):
        yield Skip("", ("two sample files with log-probabilities at the same step",))
    agreed = run.first_step or 0
    for step, found in sorted(steps.items()):
        if len(found) < 2:
            continue
        near = min(found, key=lambda batch: batch.k1 or 0.0)
        far = max(found, key=lambda batch: batch.k1 or 0.0)
        low, high = near.k1 or 0.0, far.k1 or 0.0
        alike = abs(math.log(near.perplexity or 1.0) - math.log(far.perplexity or 1.0))
        if high - low > limits.gap and alike < limits.likeness:
            yield Finding(
                "warning",
                tuple(
                    sample_evidence(
                        batch,
                        batch,
                        "samples.ref_logprobs",
                        batch.k1 or 0.0,
                        unit="nats/token",
                        estimator="k1",
                    )
                    for batch in (near, far)
                ),
                {"near": near.source, "far": far.source, "step": step, "low": low, "high": high},
                onset=Onset(step + run.log_offset, agreed, step + run.log_offset),
            )
            return
        agreed = step + run.log_offset + 1
