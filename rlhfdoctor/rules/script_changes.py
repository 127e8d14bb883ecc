"""Responses in a script that the run did not write at first."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rlhfdoctor import text
from rlhfdoctor.measures import Batch, Item
from rlhfdoctor.model import Finding, Run, Skip
from rlhfdoctor.rules import rule
from rlhfdoctor.rules._ladder import too_few
from rlhfdoctor.rules._shares import File, files, graded, told

LETTERS = 3
"""Letters of a script in a prompt from which an answer in it is no change."""


FORMULAS = ("Greek",)
"""Scripts whose letters stand in formulas."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What is another script, what is a mixture, and how often."""

    usual: float = 0.05  # share of the first responses that makes a script one of the run's own
    mixed: float = 0.05  # changes of script a character: one in twenty
    few: float = 0.1  # share of responses: information
    most: float = 0.5  # share of responses: a warning
    fewest: int = 8  # responses a sampled step


@rule(
    "SMP006",
    signal="text",
    needs=["samples.response", "samples.steps"],
    limits=Limits,
    text="{level:.0%} of the responses in {source} are in a script that neither their prompts nor "
    "the first responses have, or mix scripts ({scripts}); {before}",
    brief="{level:.0%} of responses change script ({scripts})",
)
def script_changes(run: Run, limits: Limits) -> Iterator[Finding | Skip]:
    """The text leaves its script: gibberish of many languages, or another language altogether.

    What entropy explosions end in; and what reasoning models do for a while where nobody pays for
    one language, which harms readers rather than answers: a warning at most. An answer in a script
    that its own prompt has is asked for, and so is one that mixes scripts as its prompt does. [H]

    Remedy: read them; gibberish comes from an entropy bonus, a temperature or an upper clip range
    that is too high; a foreign language from a reward that does not read it.
    """

    def marks(steps: Sequence[Batch]) -> list[list[float | None]]:
        first = Counter(item.script for item in steps[0].items if item.script)
        own = {script for script, count in first.items() if count >= limits.usual * first.total()}
        return [[_strange(item, own, limits) for item in batch.items] for batch in steps]

    known = files(run, limits.fewest, marks)
    if not known:
        yield too_few(limits.fewest, "with letters")
    grade = graded(limits.few, limits.most)
    yield from told(run, known, grade, limits.few, lambda file: {"scripts": _scripts(file)})


def _strange(item: Item, own: set[str], limits: Limits) -> float | None:
    if item.script is None:
        return None
    if item.script not in own and item.script not in FORMULAS:
        asked = text.scripts(item.prompt or "")
        return float(asked.get(item.script, 0) < LETTERS)
    mixed = limits.mixed * len(item.text)
    if item.switches <= mixed:
        return 0.0
    prompt = item.prompt or ""
    return float(text.switches(prompt) <= limits.mixed * len(prompt))


def _scripts(file: File) -> str:
    found = Counter(item.script for _, item in file.showing() if item.script)
    return ", ".join(script for script, _ in found.most_common(3))
