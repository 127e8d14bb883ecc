"""Answers to one prompt that are all the same."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rlhfdoctor.measures import Batch
from rlhfdoctor.model import Finding, Run, Severity, Skip
from rlhfdoctor.rules import rule
from rlhfdoctor.rules._shares import File, files, told


@dataclass(frozen=True, slots=True)
class Limits:
    """How many answers must have a twin."""

    shortest: int = 20  # characters; a label or a number is right more than once
    share: float = 0.5  # share of the responses that share their prompt with another
    fewest: int = 8  # such responses a sampled step


@rule(
    "SMP009",
    signal="text",
    needs=["samples.response", "samples.prompt"],
    limits=Limits,
    text="{level:.0%} of the responses in {source} have a twin among the other answers to their "
    "prompt ({before})",
    brief="{level:.0%} of answers to one prompt are the same",
)
def no_exploration(run: Run, limits: Limits) -> Iterator[Finding | Skip]:
    """Answers to one prompt that were sampled several times are the same, letter for letter.

    What is the same earns the same: such a group teaches GRPO and RLOO nothing, and no better
    answer is ever tried. Files that were written by greedy decoding look like this, and so does a
    task that is solved: information. Whether groups earn the same is GRP001's. [H]

    Remedy: look at the sampling temperature; where it is above zero, entropy has gone: go back to
    before, raise the upper clip range or add an entropy bonus.
    """

    def marks(steps: Sequence[Batch]) -> list[list[float | None]]:
        return [_twins(batch, limits) for batch in steps]

    def grade(file: File) -> Severity | None:
        return "info" if file.level > limits.share else None

    known = files(run, limits.fewest, marks, limits.fewest)
    if not known:
        yield Skip("", (f"{limits.fewest} responses that share their prompts",))
    yield from told(run, known, grade, limits.share)


def _twins(batch: Batch, limits: Limits) -> list[float | None]:
    prompts = [item.group or item.prompt for item in batch.items]
    asked = Counter(prompts)
    given = Counter((prompt, item.text) for prompt, item in zip(prompts, batch.items, strict=True))
    return [
        float(given[prompt, item.text] > 1)
        if prompt is not None and asked[prompt] > 1 and len(item.text) >= limits.shortest
        else None
        for prompt, item in zip(prompts, batch.items, strict=True)
    ]
