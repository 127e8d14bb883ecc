"""A KL of exactly 0 although the policy is trained."""

from collections.abc import Iterator
from dataclasses import dataclass

from rlhfdoctor.measures import logged, metric_evidence, track
from rlhfdoctor.model import Finding, Onset, Run, Skip
from rlhfdoctor.rules import rule


@dataclass(frozen=True, slots=True)
class Limits:
    """When an update shows."""

    updated: float = 0.5  # share of the rows whose gradient norm is above zero


@rule(
    "KL009",
    signal="config",
    any_of=["kl_ref_token", "kl_ref_response"],
    needs=["rows>=10"],
    zeros=True,
    limits=Limits,
    text="the KL to the reference is exactly 0 in all {count} logged rows while the weights are "
    "updated ({shown})",
    brief="KL exactly 0 in every row",
)
def kl_zero(run: Run, limits: Limits) -> Iterator[Finding | Skip]:
    """The KL to the reference is exactly 0 in every row, although the weights are updated.

    No policy that learns keeps a KL of exactly 0: the reference shares its weights with the policy
    (ChatGLM-ET 380), an adapter that should be switched off for the reference is not, or the
    updates are lost in half precision. Loggers of their own also write zeros where they compute
    nothing. So this is a warning only where the configuration asks for a KL penalty (a coefficient
    above 0) and the gradient norm is above zero in most rows; information where only the gradients
    are known, and nothing was measured where the coefficient is 0. A policy without an update has
    this KL rightly (UPD001), and a console may have printed a small number as 0.

    Remedy: load the reference anew from disk or copy it before training, and compare its weights
    with the policy's after a few updates; no KL coefficient has worked so far.
    """
    kl = track(run, "kl_ref_token", "kl_ref_response")
    if not kl.placeholder:
        return
    coefficient = _coefficient(run)
    share = _updated(run)
    if coefficient == 0.0:
        yield Skip("", (f"{kl.metric}: the KL coefficient is 0, not measured",))
    elif kl.column.printed:
        yield Skip("", (f"{kl.metric}: 0 as a console printed it, which may have rounded",))
    elif share is None or share <= limits.updated:
        yield Skip("", (f"{kl.metric}: exact zeros throughout, and no gradient norm above 0",))
    else:
        asked = coefficient is not None
        shown = "the gradient norm is above 0"
        first = kl.steps[0]
        yield Finding(
            "warning" if asked else "info",
            (metric_evidence(run, kl, 0, len(kl) - 1, 0.0, limit_low=0.0),),
            {
                "count": len(kl),
                "shown": f"{shown}, the KL coefficient {coefficient:g}" if asked else shown,
            },
            onset=Onset(first, first, first),
        )


def _coefficient(run: Run) -> float | None:
    """Return the weight of the KL penalty: the largest logged one, else the configuration's."""
    if logged(run, "kl_coef"):
        return max(track(run, "kl_coef").values)
    return run.number("kl_coef")


def _updated(run: Run) -> float | None:
    """Return the share of rows with a gradient norm above 0, or None where none is logged."""
    if not logged(run, "grad_norm"):
        return None
    norms = track(run, "grad_norm").values
    return sum(norm > 0.0 for norm in norms) / len(norms)
