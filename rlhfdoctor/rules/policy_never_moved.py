"""A policy that still is its reference at the last checkpoint."""

from collections.abc import Iterator
from dataclasses import dataclass

from rlhfdoctor.measures import scans
from rlhfdoctor.model import Finding, Onset, Run, Skip
from rlhfdoctor.rules import rule
from rlhfdoctor.scores import ladders, principal, score_evidence


@dataclass(frozen=True, slots=True)
class Limits:
    """What storing the weights makes of nothing."""

    rounding: float = 1e-6  # nats per token, exact; float16 storage was measured to make 2e-7


@rule(
    "REF006",
    signal="update",
    needs=["scores"],
    limits=Limits,
    text="{checkpoint} cannot be told from {reference}: exact KL {level:.2g} nats/token, below the "
    "{floor:.0e} that {dtype} rounding makes; no checkpoint can",
    brief="no checkpoint differs from {reference}",
)
def policy_never_moved(run: Run, limits: Limits) -> Iterator[Finding | Skip]:
    """No checkpoint differs from the reference by more than rounding.

    The exact KL over the whole vocabulary of every scored checkpoint is below what arithmetic alone
    makes in float32 (measured: 4e-6 nats a token at most). Nothing was learnt, or an adapter was
    never applied. In half precision the floor is 0.005, below which a young healthy run may lie; it
    is then not judged. A checkpoint of step 0 is the initial model and tells nothing. Checkpoints
    whose bytes differ, or that are further than storing them makes, were trained, however little:
    that is information.

    Remedy: count the parameters that require a gradient; compare the weights with the reference's;
    check that the checkpoint holds the trained weights.
    """
    reference = principal(run)
    scored = []
    if reference is not None:
        both = (*ladders(run, reference.name), *ladders(run, reference.name, "chosen"))
        scored = [row for ladder in both for row in ladder if row["step"] > 0]
    if not scored:
        yield Skip("", ("a scored checkpoint after step 0",))
        return
    if not all(row["below_floor"] for row in scored):
        return
    if any(row["dtype"] not in ("float32", "float64") for row in scored):
        yield Skip("", ("float32 scores; half precision cannot tell",), "--dtype float32")
        return
    last = max(scored, key=lambda row: row["step"])
    at = min(row["step"] for row in scored) + run.log_offset
    first = at if run.first_step is None else min(run.first_step, at)
    far = max(row["kl_ref_token_exact"] for row in scored) > limits.rounding
    trained = far or len({item.hash for item in scans(run) if item.finite and item.step > 0}) > 1
    yield Finding(
        "info" if trained else "critical",
        (
            score_evidence(
                last,
                "kl_ref_token_exact",
                unit="nats/token",
                estimator="exact",
                limit_high=last["noise_floor"],
            ),
        ),
        {
            "checkpoint": last["checkpoint"],
            "reference": last["reference"],
            "level": last["kl_ref_token_exact"],
            "floor": last["noise_floor"],
            "dtype": last["dtype"],
        },
        onset=Onset(first, first, first),
        alone=not trained,
    )
