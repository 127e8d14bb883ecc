"""Probabilities of the same tokens that differ between trainer and rollout engine."""

from collections.abc import Iterator
from dataclasses import dataclass

from rlhfdoctor.measures import logged, track
from rlhfdoctor.model import Finding, Run, Skip
from rlhfdoctor.rules import rule
from rlhfdoctor.rules._sustained import graded, sustained


@dataclass(frozen=True, slots=True)
class Limits:
    """From where each quantity is information, and from where it is a fault."""

    difference: float = 0.01  # mean difference of probabilities
    difference_fault: float = 0.02  # mean difference of probabilities
    factor: float = 1.05  # mean exp |log-ratio|
    factor_fault: float = 1.1  # mean exp |log-ratio|
    log_ratio: float = 0.05  # mean |log-ratio|, nats per token
    log_ratio_fault: float = 0.1  # mean |log-ratio|, nats per token
    correlation: float = 0.95  # Pearson's r; below it, information
    patience: int = 5  # consecutive logged rows


@rule(
    "MIS002",
    signal="mismatch",
    any_of=[
        "prob_diff_train_infer_mean",
        "prob_mult_error_train_infer",
        "logp_diff_train_infer_mean",
        "prob_corr_train_infer",
    ],
    limits=Limits,
    text="trainer and rollout engine give different probabilities to the same tokens: {what} "
    "{level:.4g}, beyond {bound:g} for {rows} logged rows ({steps} steps)",
    brief="trainer-rollout {what} {level:.3g}",
)
def rollout_probabilities(run: Run, limits: Limits) -> Iterator[Finding | Skip]:
    """The engine that samples and the trainer give the same tokens different probabilities.

    verl's FAQ: a mean difference below 0.005 is normal, above 0.01 the engine is wrong (cascade
    attention on A100 and L20, for one). NeMo-RL investigates a mean factor above 1.05. Sound runs
    with quantised rollouts cross those, so from there it is information, and twice as far a
    warning. A factor of 1.1 is a mean log-ratio of 0.1; half of it is again information. The
    correlation loses its meaning where nearly every token has probability 1, so it is never more
    than information. [H]

    Remedy: as for MIS001: replay one batch with learning rate 0, then precision, attention kernel,
    temperature and top_p, routing, weight synchronisation.
    """
    above = (
        ("prob_diff_train_infer_mean", "mean difference", "difference"),
        ("prob_mult_error_train_infer", "mean factor", "factor"),
        ("logp_diff_train_infer_mean", "mean log-ratio", "log_ratio"),
    )
    for metric, what, limit in above:
        if not logged(run, metric):
            continue
        bound: float = getattr(limits, limit)
        yield from sustained(
            run,
            track(run, metric),
            above=bound,
            patience=limits.patience,
            severity=graded(getattr(limits, f"{limit}_fault")),
            args={"what": what, "bound": bound},
        )
    if logged(run, "prob_corr_train_infer"):
        yield from sustained(
            run,
            track(run, "prob_corr_train_infer"),
            below=limits.correlation,
            patience=limits.patience,
            severity=lambda level: "info",
            args={"what": "correlation", "bound": limits.correlation},
        )
