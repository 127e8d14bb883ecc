"""Answers that hold nothing, more and more of them."""

from collections.abc import Iterator
from dataclasses import dataclass

from rlhfdoctor.model import Finding, Run, Skip
from rlhfdoctor.rules import rule
from rlhfdoctor.rules._ladder import too_few
from rlhfdoctor.rules._shares import each, files, graded, told


@dataclass(frozen=True, slots=True)
class Limits:
    """From which share of the last responses on a rise is worth what."""

    few: float = 0.02  # share of responses: information
    some: float = 0.1  # share of responses: a warning
    most: float = 0.5  # share of responses: critical
    fewest: int = 8  # responses a sampled step


@rule(
    "SMP004",
    signal="text",
    needs=["samples.response", "samples.steps"],
    limits=Limits,
    text="{level:.0%} of the responses in {source} are empty, {before}",
    brief="{level:.0%} of responses are empty",
)
def empty_answers(run: Run, limits: Limits) -> Iterator[Finding | Skip]:
    """The policy ends its answers before it says anything.

    Nothing but white space or an end token. Rewards that only punish (a length penalty, a format
    check without a task) are best served by silence; a mean length hides it behind the other
    answers. Answers that only call a tool are empty too, in every run alike, so only a rise above
    the run's own first samples counts. [H]

    Remedy: look what the reward pays for silence and make it less than for a poor answer; ask for a
    least length while it lasts; go back to before it began.
    """
    known = files(run, limits.fewest, each(lambda item: item.empty))
    if not known:
        yield too_few(limits.fewest, "to compare")
    grade = graded(limits.few, limits.some, limits.most)
    yield from told(run, known, grade, limits.few)
