"""Weights that never moved."""

from collections.abc import Iterator
from dataclasses import dataclass

from rlhfdoctor.measures import Track, logged, metric_evidence, track
from rlhfdoctor.model import Finding, Onset, Run, Skip
from rlhfdoctor.rules import rule
from rlhfdoctor.series import halves_differ


@dataclass(frozen=True, slots=True)
class Limits:
    """What counts as moving."""

    rows: int = 2  # logged rows of gradient norm 0 that prove it
    standard_errors: float = 4.0  # between the halves of a metric: a trend needs an update


SIGNS = (
    "kl_ref_token",
    "kl_ref_response",
    "kl_unknown",
    "kl_old_token",
    "clip_frac",
    "dpo_margin",
    "dpo_reward_chosen",
)
"""Metrics that cannot leave zero without an update."""

TRENDS = ("loss_total", "reward_raw_mean", "entropy", "entropy_unknown", "response_length_mean")
"""Metrics whose trend shows updates where nothing else does."""


@rule(
    "UPD001",
    signal="update",
    needs=["rows>=2"],
    limits=Limits,
    text="the gradient norm is exactly 0 in all {count} logged rows: no weight was updated",
    brief="gradient norm 0 in every row",
)
def no_update(run: Run, limits: Limits) -> Iterator[Finding | Skip]:
    """No weight was ever updated.

    A gradient norm of exactly 0 in every row has one of few causes: an adapter loaded without
    ``is_trainable`` (TRL 6700), frozen parameters, all labels masked, or no reward spread in any
    group (GRP001). Where no gradient norm is logged, a KL, a margin or a clip fraction that left
    zero shows updates, and so does a trend: halves that differ by more than four standard errors.

    Remedy: count the parameters that require a gradient; compare a checkpoint with the initial
    weights; there is nothing to go back to, restart after the fix.
    """
    if logged(run, "grad_norm"):
        norm = track(run, "grad_norm")
        throughout = len(norm) >= limits.rows and 2 * len(norm) >= run.logged_steps
        if throughout and norm.placeholder:
            yield Finding(
                "critical",
                (metric_evidence(run, norm, 0, len(norm) - 1, 0.0, limit_low=0.0),),
                {"count": len(norm)},
                onset=Onset(norm.steps[0], norm.steps[0], norm.steps[0]),
                alone=True,
            )
        if throughout or not norm.placeholder:
            return
    present = [track(run, name) for name in (*SIGNS, *TRENDS) if logged(run, name)]
    if not any(_moved(found, limits) for found in present):
        yield Skip("", ("grad_norm", "a KL, margin or trend that shows an update"))


def _moved(found: Track, limits: Limits) -> bool:
    if found.metric in SIGNS and not found.placeholder:
        return True
    return abs(halves_differ(found.values)) > limits.standard_errors
