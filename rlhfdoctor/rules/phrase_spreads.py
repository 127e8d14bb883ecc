"""A phrase that came into most responses."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

from rlhfdoctor.measures import Batch, Item, ladders
from rlhfdoctor.model import Finding, Run, Severity, Skip
from rlhfdoctor.rules import rule
from rlhfdoctor.rules._ladder import too_few
from rlhfdoctor.rules._shares import File, above, density, files, mean, occurrences, partial, told
from rlhfdoctor.series import SURE
from rlhfdoctor.text import count_ngrams, joined, ngrams

MOST = 512
"""Responses of the last steps that phrases are looked for in, evenly taken."""

CANDIDATES = 20
"""Phrases of one length that are compared with the first step, the most widespread first."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Which phrase is in most responses, and was not."""

    late: float = 0.7  # share of the responses of the last quarter of the steps that hold it
    early: float = 0.2  # share of the responses of the first step that may hold it
    growth: float = 2.0  # times its share of all phrases of its length at the first step
    fewest: int = 8  # responses a sampled step


@rule(
    "SMP008",
    signal="text",
    needs=["samples.response", "samples.steps"],
    limits=Limits,
    text="'{phrase}' is in {level:.0%} of the responses in {source}, {before}; it grew from step "
    "{step}{paid}",
    brief="'{phrase}' in {level:.0%} of responses",
)
def phrase_spreads(run: Run, limits: Limits) -> Iterator[Finding | Skip]:
    """A phrase that hardly any response held at first is now in most of them: a template.

    A format that was asked for looks like this (tags, a boxed answer), and so does the beginning of
    a phrase that is paid for (RWD002 judges that): information, for the eye. The longest phrase of
    up to three different words is named; the same word over and over is SMP001's. Longer answers
    hold more of everything, so it must be more frequent too. [H]

    Remedy: read it: if nobody asked for it, look what the reward pays for it, and go back to before
    the step from which it grew.
    """
    known = ladders(run, limits.fewest)
    if not known:
        yield too_few(limits.fewest, "to compare")
    phrases = {steps[0].source: _phrase(steps, limits) for steps in known}

    def marks(steps: Sequence[Batch]) -> list[list[float | None]]:
        phrase = phrases[steps[0].source]
        return [[_holds(item, phrase) for item in batch.items] for batch in steps]

    def grade(file: File) -> Severity | None:
        return "info" if file.since is not None and file.level >= limits.late else None

    def args(file: File) -> dict[str, str]:
        phrase = phrases[file.source]
        return {"phrase": joined(phrase), "paid": _paid(file, phrase)}

    yield from told(run, files(run, limits.fewest, marks), grade, limits.late, args)


def _paid(file: File, phrase: tuple[str, ...]) -> str:
    """Say how the reward goes with it at equal length, where every response has one."""
    items = [item for values in file.values for item, _ in values]
    rewards = [item.reward for item in items if item.reward is not None]
    if len(rewards) < len(items):
        return ""
    counts = [float(occurrences(item.words, phrase)) for item in items]
    r = partial(counts, rewards, [float(item.length) for item in items])
    return "" if r is None else f"; the reward goes with its count, r = {r:.2f} at equal length"


def _holds(item: Item, phrase: tuple[str, ...]) -> float | None:
    return float(phrase in ngrams(item.words, len(phrase))) if phrase else None


def _phrase(steps: Sequence[Batch], limits: Limits) -> tuple[str, ...]:
    """Return the longest phrase that most late responses hold and the first did not; or none."""
    quarter = steps[-max(1, len(steps) // 4) :]
    late = list(chain.from_iterable(batch.items for batch in quarter))
    last = [(item, item.words) for item in late[:: max(1, len(late) // MOST)]]
    first = [(item, item.words) for item in steps[0].items]
    for n in (3, 2, 1):
        _, holding = count_ngrams([words for _, words in last], n)
        ranked = sorted(holding.items(), key=lambda entry: (-entry[1], entry[0]))
        for phrase, count in ranked[:CANDIDATES]:
            if count < limits.late * len(last):
                break
            held = sum(phrase in ngrams(words, n) for _, words in first)
            if len({*phrase}) < n or held > limits.early * len(first):
                continue
            before, after = (
                [(item, density(words, phrase)) for item, words in part] for part in (first, last)
            )
            if above(before, after) > SURE and mean(after) > limits.growth * mean(before):
                return phrase
    return ()
