"""Responses that repeat themselves more and more."""

from collections.abc import Iterator
from dataclasses import dataclass

from rlhfdoctor.model import Finding, Run, Skip
from rlhfdoctor.rules import rule
from rlhfdoctor.rules._ladder import alarms
from rlhfdoctor.rules._shares import repeats


@dataclass(frozen=True, slots=True)
class Limits:
    """What counts as repetition."""

    fall: float = 0.8  # of the start's share of different 3-grams
    fewest: int = 8  # responses a sampled step


@rule(
    "SMP001",
    signal="text",
    needs=["samples.response", "samples.steps"],
    limits=Limits,
    text="responses in {source} repeat themselves: {level:.0%} different 3-grams a response, "
    "{start:.0%} at the start; {loops:.0%} of the last ones end in a loop",
    brief="distinct-3 {start:.2f} -> {level:.2f}",
)
def repetition(run: Run, limits: Limits) -> Iterator[Finding | Skip]:
    """The same words come again and again within a response.

    The share of different 3-grams of a response, averaged over the responses of a step, against the
    run's own start; healthy runs stay within a few hundredths, collapsed ones fall to a tenth.
    Token ids are compared where the file has them, words otherwise. Longer responses have fewer
    different 3-grams without repeating themselves more (84 % fell to 60 % in random text as it grew
    tenfold), so where the responses grew they must have fewer in windows of equal length too. [H]

    Remedy: go back to before it began; if the reward rises with the repeated phrase (RWD002) repair
    the reward, otherwise raise the KL penalty and put repetition among the rejected answers.
    """
    yield from alarms(
        run,
        limits.fewest,
        lambda batch: batch.distinct_3,
        wants="of three words or more",
        below=lambda start: limits.fall * start,
        subject="samples.response",
        unit="share of different 3-grams",
        holds=lambda steps: repeats(steps, limits.fall),
        args=lambda steps: {"loops": steps[-1].looping},
    )
