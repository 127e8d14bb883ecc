"""One answer to every question."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rlhfdoctor.measures import Batch
from rlhfdoctor.model import Finding, Run, Skip
from rlhfdoctor.rules import rule
from rlhfdoctor.rules._ladder import too_few
from rlhfdoctor.rules._shares import File, files, graded, told

SHOWN = 60
"""Characters of the answer that the sentence shows."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Which answer is one and the same, and how often."""

    shortest: int = 100  # characters; a label in its format answers many questions rightly
    prompts: int = 4  # different prompts of a sampled step
    few: float = 0.1  # share of responses: information
    some: float = 0.5  # share of responses: a warning
    most: float = 0.9  # share of responses: critical
    fewest: int = 8  # responses a sampled step


@rule(
    "SMP005",
    signal="text",
    needs=["samples.response", "samples.prompt", "samples.steps"],
    limits=Limits,
    text="{level:.0%} of the responses in {source} are one and the same answer to different "
    "prompts, '{answer}' ({before})",
    brief="{level:.0%} of responses are one and the same",
)
def constant_answer(run: Run, limits: Limits) -> Iterator[Finding | Skip]:
    """Different prompts get the very same answer, letter for letter: the mode collapsed.

    A reward that never moves while the loss does is its trace in the log (DSE 586: one output at
    every step). Refusals are the same to many prompts on purpose, hence only a rise above the
    run's own first samples counts, half of the responses is a warning, and only nine tenths are
    critical. Short answers (a label,
    a number, with the tags or the JSON around it) are left out. [H]

    Remedy: go back to before it; a lower learning rate, a stronger KL penalty or an entropy bonus,
    and a reward that reads the prompt.
    """

    def marks(steps: Sequence[Batch]) -> list[list[float | None]]:
        return [_same(batch, limits) for batch in steps]

    known = files(run, limits.fewest, marks)
    if not known:
        yield too_few(limits.fewest, f"to {limits.prompts} different prompts")
    grade = graded(limits.few, limits.some, limits.most)
    yield from told(run, known, grade, limits.few, lambda file: {"answer": _answer(file)})


def _same(batch: Batch, limits: Limits) -> list[float | None]:
    """Mark the responses that are the answer which the most different prompts were given."""
    prompts: dict[str, set[str]] = defaultdict(set)
    for item in batch.items:
        if item.prompt is not None:
            prompts[item.text.strip()].add(item.prompt)
    if len(set().union(*prompts.values())) < limits.prompts:
        return [None] * len(batch.items)
    long = [answer for answer in prompts if len(answer) >= limits.shortest]
    answer = max(long, key=lambda text: len(prompts[text]), default="")
    if not answer or len(prompts[answer]) < 2:
        return [0.0] * len(batch.items)
    return [float(item.text.strip() == answer) for item in batch.items]


def _answer(file: File) -> str:
    said = file.showing()[-1][1].text.strip()
    return said if len(said) <= SHOWN else f"{said[:SHOWN]}..."
