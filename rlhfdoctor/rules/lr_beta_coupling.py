"""A high learning rate with nothing to hold it."""

from collections.abc import Iterator
from dataclasses import dataclass

from rlhfdoctor.measures import prefers
from rlhfdoctor.model import Finding, Run, Skip
from rlhfdoctor.rules import rule
from rlhfdoctor.rules._config import algorithms, samples_itself, setting_evidence


@dataclass(frozen=True, slots=True)
class Limits:
    """From where on the two make each other worse."""

    dpo_rate: float = 1e-5  # learning rate of DPO, full weights
    dpo_beta: float = 0.05  # 1/nat; DPO's beta, at most [H]
    rl_rate: float = 1e-5  # learning rate of PPO and GRPO without any KL penalty, full weights [H]
    lora: float = 10.0  # times these rates, where adapters are trained


@rule(
    "CFG003",
    signal="config",
    needs=["config.learning_rate", "config.kl_coef"],
    limits=Limits,
    text="learning rate {rate:g} with a weight of the KL of {beta:g}: little holds the policy",
    brief="learning rate {rate:g} at beta {beta:g}",
)
def lr_beta_coupling(run: Run, limits: Limits) -> Iterator[Finding | Skip]:
    """A high learning rate meets a weak pull towards the reference.

    DPO is sensitive to beta and to the learning rate together: a beta of 0.01 is fine at Zephyr's
    5e-7, and reports of looping samples come from 5e-5 to 1e-4 (LLaMA-Factory 7734). From 1e-5,
    the upper end of the rule of thumb, with a beta of 0.05 or less [H] it is told; so are PPO and
    GRPO with a KL weight of 0 from ten times the rule of thumb's 1e-6 [H]. Adapters take ten times
    as much. Information only: it explains a collapse, it is none.

    Remedy: lower the learning rate first, then raise beta.
    """
    rate, beta = run.number("learning_rate"), run.number("kl_coef")
    if rate is None or beta is None or not (prefers(run) or samples_itself(run)):
        yield Skip("", ("an algorithm with a weight of the KL",))
        return
    if algorithms(run) & {"ORPO", "CPO", "SimPO"}:
        yield Skip("", ("a weight of the KL to a reference",))
        return
    weakest = limits.dpo_beta if prefers(run) else 0.0
    fastest = limits.dpo_rate if prefers(run) else limits.rl_rate
    fastest *= limits.lora if "lora_rank" in run.config else 1.0
    if rate >= fastest and beta <= weakest:
        yield Finding(
            "info",
            (
                setting_evidence(run, "learning_rate", unit="1/step", high=fastest),
                setting_evidence(run, "kl_coef", unit="1/nat", low=weakest),
            ),
            {"rate": rate, "beta": beta},
        )
