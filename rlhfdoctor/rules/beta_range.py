"""A weight of the KL outside what is usual."""

from collections.abc import Iterator
from dataclasses import dataclass

from rlhfdoctor.measures import logged, prefers, track
from rlhfdoctor.model import Finding, Run, Skip
from rlhfdoctor.rules import rule
from rlhfdoctor.rules._config import algorithms, from_the_start, samples_itself, setting_evidence

_KLS = ("kl_ref_token", "kl_ref_response", "kl_unknown")
_OTHER_BETAS = frozenset({"ORPO", "CPO", "SimPO"})


@dataclass(frozen=True, slots=True)
class Limits:
    """What is usual."""

    low: float = 0.01  # beta of DPO and its kin, 1/nat
    high: float = 1.0  # beta of DPO and its kin, 1/nat; weight of the KL, reward/nat


@rule(
    "CFG002",
    signal="config",
    needs=["config.kl_coef"],
    limits=Limits,
    text="weight of the KL {beta:g}: {why}",
    brief="beta {beta:g}",
)
def beta_range(run: Run, limits: Limits) -> Iterator[Finding | Skip]:
    """The weight of the KL to the reference (DPO's beta) is zero or outside what is usual.

    DPO: practitioners use 0.1 to 1.0 and warn outside 0.01 to 1.0; Zephyr's rerun liked 0.01 better
    than 0.1. A beta of 0 makes the loss ln 2 whatever the policy does: a warning, unless margins
    that left zero show that it is not the run's. ORPO, CPO and SimPO use the word for another
    weight. PPO, GRPO: TRL 0.05, verl 0.001, MOSS 0.01 to 0.1, Anthropic 0.001, and controllers are
    clamped to at most 1.0. A weight of 0 is legitimate (TRL's GRPO default, DAPO); where no KL is
    logged either, nobody sees how far the policy has gone, and that is told.

    Remedy: DPO: a beta between 0.01 and 1.0; where the KL is neither penalised nor logged,
    recompute it from the checkpoints (rlhfdoctor recompute).
    """
    beta = run.number("kl_coef")
    if beta is None or algorithms(run) & _OTHER_BETAS:
        yield Skip("", ("a weight of the KL to a reference",))
    elif prefers(run):
        unit = "1/nat"
        if beta == 0.0:
            margins = logged(run, "dpo_margin") and not track(run, "dpo_margin").placeholder
            why = "the margins of the log contradict it" if margins else "the loss is a constant"
            yield Finding(
                "info" if margins or not run.logged_steps else "warning",
                (setting_evidence(run, "kl_coef", unit=unit, low=limits.low),),
                {"beta": beta, "why": why},
                onset=None if margins else from_the_start(run),
            )
        elif not limits.low <= beta <= limits.high:
            yield Finding(
                "info",
                (setting_evidence(run, "kl_coef", unit=unit, low=limits.low, high=limits.high),),
                {"beta": beta, "why": f"outside the usual {limits.low:g} to {limits.high:g}"},
            )
    elif not samples_itself(run):
        yield Skip("", ("an algorithm whose KL it weighs",))
    elif beta == 0.0 and not any(_measured(run, name) for name in _KLS):
        yield Finding(
            "info",
            (setting_evidence(run, "kl_coef", unit="reward/nat"),),
            {"beta": beta, "why": "the KL to the reference is neither penalised nor logged"},
        )
    elif beta > limits.high:
        yield Finding(
            "info",
            (setting_evidence(run, "kl_coef", unit="reward/nat", high=limits.high),),
            {"beta": beta, "why": f"above {limits.high:g}, where controllers are clamped"},
        )


def _measured(run: Run, name: str) -> bool:
    return logged(run, name) and not track(run, name).placeholder
