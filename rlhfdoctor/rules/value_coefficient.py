"""A weight of the value loss outside what is usual."""

from collections.abc import Iterator
from dataclasses import dataclass

from rlhfdoctor.model import Finding, Run, Skip
from rlhfdoctor.rules import rule
from rlhfdoctor.rules._config import algorithms, setting_evidence


@dataclass(frozen=True, slots=True)
class Limits:
    """What is usual."""

    low: float = 0.01  # weight of the value loss; a tenth of TRL's default [H]
    high: float = 1.0  # weight of the value loss; trlX's default


@rule(
    "CFG004",
    signal="config",
    needs=["config.vf_coef"],
    limits=Limits,
    text="weight of the value loss {weight:g}, outside the usual {low:g} to {high:g}",
    brief="vf_coef {weight:g}",
)
def value_coefficient(run: Run, limits: Limits) -> Iterator[Finding | Skip]:
    """The value loss weighs unusually much or little beside the policy's.

    Where policy and critic share their weights, the coefficient decides whose gradient they follow:
    TRL's default is 0.1, that of Stable-Baselines3 0.5, trlX's 1.0. Near 0 the critic is not
    trained and the advantages are noise; far above 1 the value loss drives the policy's weights. A
    critic with a learning rate of its own is another model: its coefficient means little there and
    is not judged. Information only.

    Remedy: a weight of 0.1 to 1.0; look at the explained variance of the critic.
    """
    weight = run.number("vf_coef")
    if weight is None or "lr_critic" in run.config or "PPO" not in algorithms(run):
        yield Skip("", ("a critic that shares the policy's optimizer",))
    elif not limits.low <= weight <= limits.high:
        evidence = setting_evidence(run, "vf_coef", unit="1", low=limits.low, high=limits.high)
        yield Finding("info", (evidence,), {"weight": weight})
