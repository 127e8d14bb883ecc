"""Recomputed KL that leaves the reference for good."""

from collections.abc import Iterator
from dataclasses import dataclass

from rlhfdoctor.model import Finding, Run, Skip
from rlhfdoctor.rules import rule
from rlhfdoctor.scores import between, ladders, principal, score_evidence


@dataclass(frozen=True, slots=True)
class Limits:
    """When the alarm rings."""

    ceiling: float = 1.0  # nats per token, exact


@rule(
    "KL006",
    signal="kl",
    needs=["scores"],
    limits=Limits,
    text="recomputed against {reference}, {checkpoint} and every later checkpoint is above "
    "{ceiling:g} nats/token (exact); {last} is at {level:.3g} on {source}",
    brief="exact KL {level:.3g} nats/token",
)
def kl_recomputed(run: Run, limits: Limits) -> Iterator[Finding | Skip]:
    """The checkpoints are far from the reference, recomputed over the whole vocabulary.

    Nobody's log has a say in this: both models scored the same tokens. It stands alone. The ceiling
    is that of KL003: one published series had its optimum at 0.17 nats a token, was worse at 0.7
    and had diverged at 4. The reference is the one that training started from, where several were
    given and the samples of step 0 tell. [H]

    Remedy: as for KL002 and KL003; go back to a checkpoint below the ceiling.
    """
    reference = principal(run)
    if reference is None:
        return
    for ladder in (
        *ladders(run, reference.name),
        *ladders(run, reference.name, "chosen"),
    ):
        above = [row["kl_ref_token_exact"] > limits.ceiling for row in ladder]
        bad = len(above)
        while bad and above[bad - 1]:
            bad -= 1
        if bad == len(ladder):
            continue
        first, last = ladder[bad], ladder[-1]
        yield Finding(
            "critical",
            (
                score_evidence(
                    first,
                    "kl_ref_token_exact",
                    unit="nats/token",
                    estimator="exact",
                    last=last,
                    limit_high=limits.ceiling,
                ),
            ),
            {
                "reference": reference.name,
                "checkpoint": first["checkpoint"],
                "last": last["checkpoint"],
                "level": last["kl_ref_token_exact"],
                "source": last["samples_file"],
            },
            onset=between(run, ladder, bad),
            alone=True,
        )
