"""Responses that are loops or nothing, in a file that shows no change."""

from collections.abc import Iterator
from dataclasses import dataclass

from rlhfdoctor.model import Finding, Run, Severity, Skip
from rlhfdoctor.rules import rule
from rlhfdoctor.rules._shares import File, each, files, told

KINDS = (
    ("end in a loop", each(lambda item: item.looping)),
    ("are empty", each(lambda item: item.empty)),
)
"""What breaks a response, in words, and its measure."""


@dataclass(frozen=True, slots=True)
class Limits:
    """From which share on it is said, and from which it is a fault."""

    few: float = 0.02  # share of responses: information
    most: float = 0.5  # share of responses: a warning where nothing can be compared
    fewest: int = 8  # responses a sampled step
    alone: int = 20  # responses of a file without steps


@rule(
    "SMP010",
    signal="text",
    needs=["samples.response"],
    limits=Limits,
    text="{shares} ({before})",
    brief="{shares}",
)
def broken_throughout(run: Run, limits: Limits) -> Iterator[Finding | Skip]:
    """Some responses end in a loop or are empty, and no earlier sample shows that they did not.

    A file without steps, or one in which the share stayed where it began. A base model loops too,
    and more than half of the answers to a number puzzle were cut in the midst of it before any
    training; so this is no collapse of anything. It is information, and a warning where more than
    half are broken and nothing tells whether they always were. [H]

    Remedy: sample the model that training started from with the same prompts and compare; name the
    field of the step if the file has one; raise the length limit if the loops are where it cuts.
    """
    found: dict[str, tuple[list[str], File]] = {}
    looked = False
    for words, marks in KINDS:
        for file in files(run, limits.fewest, marks, limits.alone):
            looked = True
            if file.since is None and file.level > limits.few:
                shares, first = found.setdefault(file.source, ([], file))
                shares.append(f"{file.level:.1%} of the responses in {file.source} {words}")
                if file.level > first.level:
                    found[file.source] = (shares, file)
    if not looked:
        yield Skip("", (f"{limits.alone} responses",))

    def grade(file: File) -> Severity | None:
        return "warning" if file.level > limits.most and len(file.steps) == 1 else "info"

    def args(file: File) -> dict[str, str]:
        return {"shares": ", ".join(found[file.source][0])}

    yield from told(run, [file for _, file in found.values()], grade, limits.few, args)
