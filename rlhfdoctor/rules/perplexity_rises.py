"""Perplexity that rises far above the run's own start."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from rlhfdoctor.model import Finding, Run, Skip
from rlhfdoctor.rules import rule
from rlhfdoctor.rules._perplexity import departures


@dataclass(frozen=True, slots=True)
class Limits:
    """What counts as a rise."""

    rise: float = 1.6  # times the run's own start; half a nat a token
    far: float = 3.0  # times that start; below it a rise is information
    patience: int = 5  # consecutive logged rows
    fewest: int = 8  # responses a sampled step


@rule(
    "PPL004",
    signal="entropy",
    any_of=["ppl_policy", "samples.logprobs"],
    zeros=True,
    limits=Limits,
    text="perplexity under the policy rises from {start:.3g} to {level:.3g} ({origin})",
    brief="perplexity {start:.3g} -> {level:.3g}",
)
def perplexity_rises(run: Run, limits: Limits) -> Iterator[Finding | Skip]:
    """The policy no longer finds its own responses likely.

    A rise is milder than a fall and means something else: exploration, a temperature, a drift away
    from what was learnt before; but where preference training destroyed a policy made for this
    purpose, its perplexity went from 33 to 110. Half a nat a token (1.6 times the run's own start)
    is worth saying; three times the start, more than a nat, is a warning where it stands to the
    end, and critical where another class of evidence agrees. Logged values are used where they
    exist, and the log-probabilities in the sample files, which are the file's own numbers. [H]

    Remedy: read the samples of the rise; go back to before it, lower the learning rate, and add a
    supervised term if preference pairs taught it.
    """
    for item in departures(run, patience=limits.patience, fewest=limits.fewest, above=limits.rise):
        yield item if isinstance(item, Skip) else _weighed(item, limits)


def _weighed(finding: Finding, limits: Limits) -> Finding:
    """Return a finding as it is where the level is far above the start, else as information."""
    start, level = finding.args["start"], finding.args["level"]
    far = isinstance(start, float) and isinstance(level, float) and level > limits.far * start
    return finding if far else replace(finding, severity="info")
