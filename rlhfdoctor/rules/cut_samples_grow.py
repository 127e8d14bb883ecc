"""Sampled responses that no longer end before the length limit."""

from collections.abc import Iterator
from dataclasses import dataclass

from rlhfdoctor.model import Finding, Run, Severity, Skip
from rlhfdoctor.rules import rule
from rlhfdoctor.rules._ladder import too_few
from rlhfdoctor.rules._shares import File, cut, each, files, told


@dataclass(frozen=True, slots=True)
class Limits:
    """Which share of cut responses is a fault."""

    few: float = 0.1  # share of responses: information
    most: float = 0.5  # share of responses: critical
    start: float = 0.25  # largest share at the first step that still counts as a change
    fewest: int = 8  # responses a sampled step


@rule(
    "LEN011",
    signal="length",
    any_of=["samples.truncated", "samples.token_ids"],
    needs=["samples.steps"],
    limits=Limits,
    text="{level:.0%} of the responses in {source} are cut at the length limit, {before}",
    brief="{level:.0%} of responses cut at the length limit",
)
def cut_samples_grow(run: Run, limits: Limits) -> Iterator[Finding | Skip]:
    """More and more sampled answers do not end by themselves: by a field, or by no end token.

    LEN003 for runs whose log does not tell: a run that began with few cut answers and ends with
    most of them cut has exploded in length. Reasoning runs cut more answers as they learn to think
    longer: information, up to one half. [H]

    Remedy: as for LEN003.
    """

    def grade(file: File) -> Severity | None:
        if file.since is None or file.start >= limits.start or file.level <= limits.few:
            return None
        return "critical" if file.level > limits.most else "info"

    known = files(run, limits.fewest, each(cut))
    if not known:
        yield too_few(limits.fewest, "that tell how they ended")
    yield from told(run, known, grade, limits.few, subject="samples.truncated")
