"""Perplexity that falls to less than half of the run's own start."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from rlhfdoctor.model import Finding, Run, Skip
from rlhfdoctor.rules import rule
from rlhfdoctor.rules._perplexity import departures


@dataclass(frozen=True, slots=True)
class Limits:
    """What counts as a fall."""

    fall: float = 0.5  # of the run's own start
    deep: float = 0.2  # of the start's logarithm; a fall to more that nothing else shows is told
    patience: int = 5  # consecutive logged rows
    fewest: int = 8  # responses a sampled step


@rule(
    "PPL001",
    signal="entropy",
    any_of=["ppl_policy", "samples.logprobs"],
    zeros=True,
    limits=Limits,
    text="perplexity under the policy falls from {start:.3g} to {level:.3g} ({origin})",
    brief="perplexity {start:.3g} -> {level:.3g}",
)
def perplexity_collapse(run: Run, limits: Limits) -> Iterator[Finding | Skip]:
    """The policy has become too sure of what it writes.

    A perplexity that suddenly falls is worse than one that rises: field articles show 15.2, 14.8,
    16.1 for a healthy policy and 2.3, 1.8, 1.5 for a collapsed one. It is judged as a change from
    the run's own start, never as an absolute number: reasoning policies live at 1.1-2.3 from the
    beginning. Logged values are used where they exist, and the log-probabilities in the sample
    files otherwise; those are the file's own numbers, not recomputed. [H]

    Remedy: read the samples of the fall; go back to before it, and raise entropy by a lower
    learning rate, a stronger KL penalty, or a repaired reward.
    """
    for item in departures(run, patience=limits.patience, fewest=limits.fewest, below=limits.fall):
        yield item if isinstance(item, Skip) else _weighed(item, limits)


def _weighed(finding: Finding, limits: Limits) -> Finding:
    """Return a finding with what it is worth where nothing else agrees."""
    start, level = finding.args["start"], finding.args["level"]
    if not isinstance(start, float) or not isinstance(level, float) or start <= 0.0:
        return finding
    return replace(finding, weak="info") if level > start**limits.deep else finding
