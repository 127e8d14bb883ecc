"""Too many passes over one batch of responses."""

from collections.abc import Iterator
from dataclasses import dataclass

from rlhfdoctor.model import Finding, Run, Skip
from rlhfdoctor.rules import rule
from rlhfdoctor.rules._config import samples_itself, setting_evidence


@dataclass(frozen=True, slots=True)
class Limits:
    """What is known to hold."""

    most: int = 4  # passes over a batch of responses
    deepspeed_chat: int = 1  # the same in DeepSpeed-Chat


@rule(
    "CFG006",
    signal="config",
    needs=["config.ppo_epochs"],
    limits=Limits,
    text="{epochs} passes over each batch of responses, more than {known} is known to hold",
    brief="{epochs} inner epochs",
)
def inner_epochs(run: Run, limits: Limits) -> Iterator[Finding | Skip]:
    """Each batch of responses is used for many updates, so that the later ones are off-policy.

    Clipping bounds each update, not their sum: 64 updates a rollout walked the mean ratio from 1.0
    to 1.10 (TRL 454), and four iterations a batch without KL penalty ended in growing gradient
    norms (TRL 2980). TRL's PPO default is 4, GRPO's and verl's is 1. DeepSpeed-Chat's authors saw
    divergence from the second pass on. Information only: small learning rates bear more.

    Remedy: fewer passes, or a lower learning rate; watch the ratio and the approximate KL of the
    update.
    """
    epochs = run.number("ppo_epochs")
    if epochs is None or not samples_itself(run):
        yield Skip("", ("an algorithm that learns from its own responses",))
        return
    known = limits.deepspeed_chat if run.framework == "DeepSpeed-Chat" else limits.most
    if epochs > known:
        evidence = setting_evidence(run, "ppo_epochs", unit="passes/batch", high=known)
        yield Finding("info", (evidence,), {"epochs": int(epochs), "known": known})
