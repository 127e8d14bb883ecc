"""Perplexity under the reference that rises by multiples."""

from collections.abc import Iterator
from dataclasses import dataclass

from rlhfdoctor.model import Finding, Run, Skip
from rlhfdoctor.rules import rule
from rlhfdoctor.rules._ladder import alarms


@dataclass(frozen=True, slots=True)
class Limits:
    """What counts as a rise."""

    rise: float = 5.0  # times the run's own start
    fewest: int = 8  # responses a sampled step


@rule(
    "PPL002",
    signal="kl",
    needs=["samples.ref_logprobs", "samples.steps"],
    limits=Limits,
    text="perplexity of the samples under the reference rises from {start:.3g} to {level:.3g} "
    "(from the log-probabilities in {source})",
    brief="perplexity under the reference {start:.3g} -> {level:.3g}",
)
def reference_perplexity(run: Run, limits: Limits) -> Iterator[Finding | Skip]:
    """The reference no longer recognises what the policy writes.

    In a full collapse the policy's perplexity goes to 1 while the reference's goes to thousands; in
    a preference-training collapse both rise. Five times the start is far beyond the factor of 1.5
    that healthy runs show. The log-probabilities are the file's own, not recomputed. [H]

    Remedy: as for KL002 and KL003; recompute against the reference to confirm.
    """
    yield from alarms(
        run,
        limits.fewest,
        lambda batch: batch.ref_perplexity,
        wants="and log-probabilities of the reference",
        above=lambda start: limits.rise * start,
        subject="samples.ref_logprobs",
        unit="perplexity",
    )
