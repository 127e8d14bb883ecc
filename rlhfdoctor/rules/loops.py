"""Responses that end in a loop, more and more of them."""

from collections.abc import Iterator
from dataclasses import dataclass

from rlhfdoctor.model import Finding, Run, Skip
from rlhfdoctor.responses import spoken
from rlhfdoctor.rules import rule
from rlhfdoctor.rules._ladder import too_few
from rlhfdoctor.rules._shares import File, each, files, graded, told

SHOWN = 40
"""Characters of a loop that the sentence shows."""


@dataclass(frozen=True, slots=True)
class Limits:
    """From which share of the last responses on a rise is worth what."""

    few: float = 0.05  # share of responses: information
    some: float = 0.2  # share of responses: a warning
    most: float = 0.5  # share of responses: critical
    fewest: int = 8  # responses a sampled step


@rule(
    "SMP002",
    signal="text",
    needs=["samples.response", "samples.steps"],
    limits=Limits,
    text="{level:.0%} of the responses in {source} end in a loop ('{loop}'), {before}",
    brief="{level:.0%} of responses end in a loop",
)
def loops(run: Run, limits: Limits) -> Iterator[Finding | Skip]:
    """Responses run into a verbatim loop and never leave it, and it was not so at the start.

    A loop is the end of a response that repeats itself at least three times over 30 characters or
    more, whatever its period: one word, one sentence, one paragraph. The mean of SMP001 hides loops
    that begin late. Models that reason in trials loop when they run out of ideas, trained or not
    (a fifth of a base model's answers to number puzzles), so only a rise above the run's own first
    samples counts, and only one that stands at every later step. Answers to one prompt are one
    observation. Loops without samples from before are SMP010's. [H]

    Remedy: as for SMP001; look at the beginning of the loops: what precedes them was still sound.
    """
    known = files(run, limits.fewest, each(lambda item: item.looping))
    if not known:
        yield too_few(limits.fewest, "to compare")
    grade = graded(limits.few, limits.some, limits.most)
    yield from told(run, known, grade, limits.few, lambda file: {"loop": _loop(file)})


def _loop(file: File) -> str:
    """Return one period of the first loop that was seen."""
    _, item = file.showing()[0]
    said = spoken(item.text)
    return said[len(said) - item.period :].strip()[:SHOWN]
