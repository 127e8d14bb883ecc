"""Responses that are one character over and over."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from rlhfdoctor.measures import Item
from rlhfdoctor.model import Finding, Run, Severity, Skip
from rlhfdoctor.responses import spoken
from rlhfdoctor.rules import rule
from rlhfdoctor.rules._shares import File, each, files, told

TOKEN_0 = "!"
"""What token 0 of the vocabularies of GPT-2 and Qwen reads."""


RULES = frozenset("-=_*.~#+|\u2500\u2501\u2502\u2503\u2550\u2551\u2588\u2591\u2592\u2593")
"""Characters that lines are drawn with."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Which run of one character is a fault, and how often."""

    length: int = 50  # characters; longer than a table's rule or a line of a log
    part: float = 0.5  # of a response: a run that is more of it needs not be its end
    some: float = 0.1  # share of responses: a warning
    most: float = 0.5  # share of responses: critical where it rose
    fewest: int = 8  # responses a sampled step


@rule(
    "SMP003",
    signal="text",
    needs=["samples.response"],
    limits=Limits,
    text="{level:.1%} of the responses in {source} are or end in one character over and over, "
    "'{character}' ({before}){hint}",
    brief="{level:.0%} of responses are '{character}' over and over",
)
def character_runs(run: Run, limits: Limits) -> Iterator[Finding | Skip]:
    """One character fills the responses, or what is left of them.

    Logits that are NaN pick token 0, which reads "!" in Qwen's and GPT-2's vocabularies: answers
    become "!!!!" (vLLM 22881, and five more such reports). Lines under headings and tables are runs
    as well, so a run must reach the end of the response or be most of it. It is critical where most
    do so that did not at first, and a warning from a tenth of the responses, with or without
    samples from before; of characters that lines are drawn with it is one only where it grew. [H]

    Remedy: look for NaN where the text is made: compare the rollout engine's log-probabilities with
    the trainer's, try another attention kernel or precision, look at the weights it was sent.
    """

    def grade(file: File) -> Severity | None:
        if file.level <= limits.some or (file.since is None and _character(file) in RULES):
            return "info" if file.level > 0.0 else None
        return "critical" if file.since is not None and file.level > limits.most else "warning"

    known = files(run, limits.fewest, each(lambda item: _filled(item, limits)), limits.fewest)
    if not known:
        yield Skip("", (f"{limits.fewest} responses",))
    yield from told(run, known, grade, limits.some, _told)


def _filled(item: Item, limits: Limits) -> bool:
    if item.run < limits.length:
        return False
    end = spoken(item.text)[-limits.length :]
    return len({*end}) == 1 or item.run > limits.part * len(item.text)


def _character(file: File) -> str:
    """Return the character of most of the runs."""
    return Counter(item.run_of for _, item in file.showing()).most_common(1)[0][0]


def _told(file: File) -> dict[str, str]:
    characters = {item.run_of for _, item in file.showing()}
    character = _character(file)
    hint = ""
    if character == TOKEN_0:
        hint = ": token 0 of many vocabularies, what NaN logits pick"
    elif len(characters) == 1 < len(file.showing()) and character not in RULES:
        hint = ", the same one in all of them: NaN logits look like this"
    return {"character": character, "hint": hint}
