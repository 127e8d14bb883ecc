"""KL from the samples' own log-probabilities."""

from collections.abc import Iterator
from dataclasses import dataclass

from rlhfdoctor.model import Finding, Run, Skip
from rlhfdoctor.rules import rule
from rlhfdoctor.rules._ladder import alarms


@dataclass(frozen=True, slots=True)
class Limits:
    """When the alarm rings."""

    ceiling: float = 1.0  # nats per token
    fewest: int = 8  # responses a step


@rule(
    "KL005",
    signal="kl",
    needs=["samples.logprobs", "samples.ref_logprobs", "samples.steps"],
    limits=Limits,
    text="the samples of {source} are above {ceiling:g} nats/token (k1) from the reference from "
    "step {step} on and reach {level:.3g}, by their own log-probabilities",
    brief="KL of samples {level:.3g} nats/token (k1)",
)
def kl_of_samples(run: Run, limits: Limits) -> Iterator[Finding | Skip]:
    """The sampled responses are far from the reference, by the log-probabilities in the file.

    The mean of log-probability under the policy minus that under the reference, token-weighted: the
    k1 estimate, unbiased where the responses were drawn from the policy of that step. It needs no
    GPU and sees what a trainer with beta 0 or a moving reference does not log. The numbers are the
    file's own; nothing was recomputed. The ceiling is that of KL003. [H]

    Remedy: as for KL002 and KL003; recompute against the reference to confirm.
    """
    yield from alarms(
        run,
        limits.fewest,
        lambda batch: batch.k1,
        wants="and log-probabilities of both models",
        above=lambda start: limits.ceiling,
        subject="samples.logprobs - samples.ref_logprobs",
        unit="nats/token",
        estimator="k1",
    )
