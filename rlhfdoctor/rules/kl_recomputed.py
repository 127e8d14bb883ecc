"""Recomputed KL that leaves the reference for good."""

from collections.abc import Iterator
from dataclasses import dataclass

from rlhfdoctor.model import Finding, Run, Skip
from rlhfdoctor.rules import rule
from rlhfdoctor.rules._ladder import standing_from
from rlhfdoctor.scores import (
    Score,
    between,
    ladders,
    measured,
    principal,
    score_evidence,
    unmeasured,
)


@dataclass(frozen=True, slots=True)
class Limits:
    """When the alarm rings."""

    ceiling: float = 1.0  # nats per token, exact
    fewest: int = 8  # samples of the last checkpoint; with fewer it is a warning


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
    given and the samples of step 0 tell. A model that training did not start from and that the log
    was not measured against says nothing; one of which nobody knows says less where every
    checkpoint is as far: the policy may have begun there; so do few samples, or an interval that
    reaches below the ceiling. Samples that the checkpoint did not draw
    count only where there are no others. [H]

    Remedy: as for KL002 and KL003; go back to a checkpoint below the ceiling.
    """
    reference = principal(run)
    if reference is None:
        return
    if reference.started is False and not reference.matches:
        yield Skip("", ("the model that training started from",))
        return
    missing: list[str] = []
    looked = False
    for scored in _told(run, reference.name):
        ladder = measured(scored, "kl_ref_token_exact")
        missing += unmeasured(scored, "kl_ref_token_exact")
        if not ladder:
            continue
        looked = True
        bad = standing_from([row["kl_ref_token_exact"] > limits.ceiling for row in ladder])
        if bad is None:
            continue
        first, last = ladder[bad], ladder[-1]
        low = last["interval_low"]
        sure = (last["samples"] or 0) >= limits.fewest and low is not None and low > limits.ceiling
        grew = sure and (bad > 0 or reference.started is True)
        yield Finding(
            "critical" if grew else "warning",
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
            alone=grew,
        )
    if missing or not looked:
        yield Skip("", (*dict.fromkeys(missing),) or ("a scored checkpoint",))


def _told(run: Run, reference: str) -> list[list[Score]]:
    """Return the ladders to judge: those of the policy's own responses, else all."""
    every = (*ladders(run, reference), *ladders(run, reference, "chosen"))
    own = [[row for row in ladder if row["on_policy"]] for ladder in every]
    return [ladder for ladder in own if ladder] or [*every]
