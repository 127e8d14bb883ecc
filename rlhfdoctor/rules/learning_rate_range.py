"""A learning rate outside what is usual for the algorithm."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import isclose

from rlhfdoctor.measures import SIGNS, drifted, logged, metric_evidence, prefers, track
from rlhfdoctor.model import Evidence, Finding, Run, Skip
from rlhfdoctor.rules import rule
from rlhfdoctor.rules._config import from_the_start, samples_itself, setting_evidence

_ROUNDING = 1e-6
"""Relative; event files keep learning rates in single precision."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What is usual for full weights."""

    rl_low: float = 5e-7  # learning rate of PPO, GRPO and their kin
    rl_high: float = 1e-6  # learning rate of PPO, GRPO and their kin
    dpo_low: float = 5e-7  # learning rate of DPO and its kin
    dpo_high: float = 1e-5  # learning rate of DPO and its kin
    lora: float = 10.0  # times the upper end, where adapters are trained
    standard_errors: float = 4.0  # between the halves of a metric: a trend needs an update


@rule(
    "CFG001",
    signal="config",
    any_of=["config.learning_rate", "lr"],
    zeros=True,
    limits=Limits,
    text="learning rate {rate:g}: {why}",
    brief="learning rate {rate:g}",
)
def learning_rate_range(run: Run, limits: Limits) -> Iterator[Finding | Skip]:
    """The learning rate lies outside the range that is usual for the algorithm.

    Rules of thumb, and information only. Training on the policy's own responses: 5e-7 to 1e-6
    (MOSS 5e-7, verl and TRL's GRPO 1e-6; DeepSpeed-Chat's healthy reference run had 9.65e-6).
    Preference training: up to 1e-5; practitioners quote 5e-6 to 1e-5, which is high for full
    weights: TRL's default is 1e-6 and Zephyr's was 5e-7, which is the lower end here. Reported
    repetition sits at 5e-5 to 1e-4 (LLaMA-Factory 7734, DPO 36). Adapters take ten times as much
    [H]. Where neither the log nor the configuration tells the algorithm, only what lies outside all
    of these is told. The configured rate is judged, or else the highest of the log, which may
    have ended in its warm-up and is never called too low. A rate of 0 is a warning: nothing is
    learnt; it is information where the log shows that something was.

    Remedy: none by itself; where another finding shows a collapse, a learning rate ten times lower
    is the first change to make.
    """
    evidence = _seen(run)
    if evidence is None:
        yield Skip("", ("a learning rate above 0 in the log, or any in the configuration",))
        return
    rate = float(evidence.observed)
    if rate == 0.0:
        yield _zero(run, evidence, limits)
        return
    low, high, usual = _usual(run, limits)
    close = isclose(rate, low, rel_tol=_ROUNDING) or isclose(rate, high, rel_tol=_ROUNDING)
    beyond = rate > high or (rate < low and evidence.kind == "config")
    if beyond and not close:
        side = "below" if rate < low else "above"
        why = f"{side} the rule of thumb {low:g} to {high:g} ({usual})"
        seen = replace(evidence, limit_low=low, limit_high=high)
        yield Finding("info", (seen,), {"rate": rate, "why": why})


def _seen(run: Run) -> Evidence | None:
    """Return the configured rate, or else the highest of the log; a schedule's log knows better."""
    found = track(run, "lr") if logged(run, "lr") else None
    scheduled = found is not None and max(found.values) > 0
    if run.number("learning_rate") or ("learning_rate" in run.config and not scheduled):
        return setting_evidence(run, "learning_rate", unit="1/step")
    if found is None or not scheduled:
        return None
    peak = max(found.values)
    at = found.values.index(peak)
    return metric_evidence(run, found, at, at, peak)


def _zero(run: Run, evidence: Evidence, limits: Limits) -> Finding:
    moved = drifted(run, limits.standard_errors) is not None or any(
        logged(run, name) and not track(run, name).placeholder for name in SIGNS
    )
    if not run.logged_steps or moved:
        why = "nothing would be learnt" + (", but the log shows updates" if moved else "")
        return Finding("info", (evidence,), {"rate": 0.0, "why": why})
    why = "nothing is learnt, and nothing in the log shows an update"
    return Finding("warning", (evidence,), {"rate": 0.0, "why": why}, onset=from_the_start(run))


def _usual(run: Run, limits: Limits) -> tuple[float, float, str]:
    """Return the lower and the upper end for the run's algorithm, and for what they hold."""
    adapters = "lora_rank" in run.config
    factor = limits.lora if adapters else 1.0
    rest = "adapters" if adapters else f"adapters take {limits.lora:g} times as much"
    if prefers(run):
        return limits.dpo_low, limits.dpo_high * factor, f"preference training; {rest}"
    if samples_itself(run):
        return limits.rl_low, limits.rl_high * factor, f"training on own responses; {rest}"
    low, high = min(limits.rl_low, limits.dpo_low), max(limits.rl_high, limits.dpo_high)
    return low, high * limits.lora, "any algorithm, adapters included"
