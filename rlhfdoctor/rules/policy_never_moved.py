"""A policy that still is its reference at the last checkpoint."""

from collections.abc import Iterator

from rlhfdoctor.model import Finding, Onset, Run, Skip
from rlhfdoctor.rules import NoLimits, rule
from rlhfdoctor.scores import ladders, principal, score_evidence


@rule(
    "REF006",
    signal="update",
    needs=["scores"],
    text="{checkpoint} cannot be told from {reference}: exact KL {level:.2g} nats/token, below the "
    "{floor:.0e} that {dtype} rounding makes; no checkpoint can",
    brief="no checkpoint differs from {reference}",
)
def policy_never_moved(run: Run, limits: NoLimits) -> Iterator[Finding | Skip]:
    """No checkpoint differs from the reference by more than rounding.

    The exact KL over the whole vocabulary of every scored checkpoint is below what arithmetic alone
    makes in float32 (measured: 4e-6 nats a token at most). Nothing was learnt, or an adapter was
    never applied. In half precision the floor is 0.005, below which a young healthy run may lie; it
    is then not judged.

    Remedy: count the parameters that require a gradient; compare the weights with the reference's;
    check that the checkpoint holds the trained weights.
    """
    reference = principal(run)
    scored = []
    if reference is not None:
        both = (*ladders(run, reference.name), *ladders(run, reference.name, "chosen"))
        scored = [row for ladder in both for row in ladder]
    if not scored:
        yield Skip("", ("a scored checkpoint",))
        return
    if not all(row["below_floor"] for row in scored):
        return
    if scored[-1]["dtype"] not in ("float32", "float64"):
        yield Skip("", ("float32 scores; half precision cannot tell",), "--dtype float32")
        return
    last = max(scored, key=lambda row: row["step"])
    at = min(row["step"] for row in scored) + run.log_offset
    first = at if run.first_step is None else min(run.first_step, at)
    yield Finding(
        "critical",
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
        alone=True,
    )
