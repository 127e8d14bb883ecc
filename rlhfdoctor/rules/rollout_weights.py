"""Importance weights between trainer and rollout engine."""

from collections.abc import Iterator
from dataclasses import dataclass

from rlhfdoctor.measures import logged, track
from rlhfdoctor.model import Finding, Run, Severity, Skip
from rlhfdoctor.rules import rule
from rlhfdoctor.rules._sustained import sustained

TRUNCATED = ("TRL", "ms-swift", "Unsloth")
"""Frameworks whose logged weights are those of whole responses after truncation: often below 1."""


@dataclass(frozen=True, slots=True)
class Limits:
    """verl's bounds, and how far off a sampling setting shows."""

    low: float = 0.5  # mean importance weight
    high: float = 2.0  # mean importance weight
    off: float = 0.05  # distance of the mean weight from 1 that a sampling setting explains
    sample_size: float = 0.3  # effective sample size, fraction
    chi2: float = 1.0  # chi-square divergence over tokens; above it, information
    patience: int = 5  # consecutive logged rows


@rule(
    "MIS003",
    signal="mismatch",
    any_of=["is_ratio_train_infer_mean", "is_ess", "chi2_train_infer"],
    limits=Limits,
    text="the importance weights of trainer to rollout engine are off: {what} {level:.3g}, beyond "
    "{bound} for {rows} logged rows ({steps} steps){suspect}",
    brief="trainer-rollout weights: {what} {level:.3g}",
)
def rollout_weights(run: Run, limits: Limits) -> Iterator[Finding | Skip]:
    """The weights that should correct for the rollout engine say that it samples another policy.

    verl's guide to rollout correction: mean weight 0.5-2, effective sample size at least 0.3,
    chi-square over tokens at most 1. The mean and the sample size, which are taken of bounded
    weights, are warnings; the chi-square squares the largest weight of the batch and is
    information, as is a largest weight alone, which no rule reads. TRL logs weights of whole
    responses after cutting off the large ones, so that a low mean is information there. A mean
    that is off 1 by a constant factor while the configuration samples at another temperature or
    cuts the distribution (top_p) has its suspect: the first token's weight was 2.0 at temperature
    0.6 (TRL 4159), and 0.896 is the mass that top_p 0.8 kept (TRL 7269). [H]

    Remedy: sample at temperature 1 with top_p 1, or have both sides apply the same; then as for
    MIS001.
    """
    if logged(run, "is_ratio_train_infer_mean"):
        suspect = _suspect(run)
        # a suspect is named from where its factor shows, and accused of no more than that
        low = 1 - limits.off if suspect else limits.low
        high = 1 + limits.off if suspect else limits.high

        def grave(level: float) -> Severity:
            cut = level < limits.low and run.framework not in TRUNCATED
            return "warning" if cut or level > limits.high else "info"

        yield from sustained(
            run,
            track(run, "is_ratio_train_infer_mean"),
            below=low,
            above=high,
            patience=limits.patience,
            severity=grave,
            args={"what": "mean", "bound": f"{low:g}-{high:g}", "suspect": suspect},
        )
    if logged(run, "is_ess"):
        yield from sustained(
            run,
            track(run, "is_ess"),
            below=limits.sample_size,
            patience=limits.patience,
            severity=lambda level: "warning",
            args={
                "what": "effective sample size",
                "bound": f"{limits.sample_size:g}",
                "suspect": "",
            },
        )
    if logged(run, "chi2_train_infer"):
        yield from sustained(
            run,
            track(run, "chi2_train_infer"),
            above=limits.chi2,
            patience=limits.patience,
            severity=lambda level: "info",
            args={"what": "chi-square", "bound": f"{limits.chi2:g}", "suspect": ""},
        )


def _suspect(run: Run) -> str:
    """Name the sampling settings that change the distribution, or nothing."""
    told = []
    temperature, top_p = run.number("temperature"), run.number("top_p")
    if temperature is not None and temperature != 1.0:
        told.append(f"temperature {temperature:g}")
    if top_p is not None and top_p < 1.0:
        told.append(f"top_p {top_p:g}")
    return f"; suspect: {' and '.join(told)} in the configuration" if told else ""
