"""Responses that repeat themselves more and more."""

from collections.abc import Iterator
from dataclasses import dataclass
from statistics import fmean

from rlhfdoctor.measures import Batch, sample_evidence
from rlhfdoctor.model import Finding, Run, Skip
from rlhfdoctor.rules import rule
from rlhfdoctor.rules._ladder import measured, onset_between, standing_from, too_few
from rlhfdoctor.text import loop


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
    brief="different 3-grams {start:.0%} -> {level:.0%}",
)
def repetition(run: Run, limits: Limits) -> Iterator[Finding | Skip]:
    """The same words come again and again within a response.

    The share of different 3-grams of a response, averaged over the responses of a step, against the
    run's own start; healthy runs stay within a few hundredths, collapsed ones fall to a tenth.
    Token ids are compared where the file has them, words otherwise. [H]

    Remedy: go back to before it began; if the reward rises with the repeated phrase (RWD002) repair
    the reward, otherwise raise the KL penalty and put repetition among the rejected answers.
    """
    found = measured(run, limits.fewest, lambda batch: batch.distinct_3)
    if not found:
        yield too_few(limits.fewest, "of three words or more")
    for ladder, values in found:
        bad = standing_from([value < limits.fall * values[0] for value in values])
        if bad is None:
            continue
        yield Finding(
            "critical",
            (
                sample_evidence(
                    ladder[bad],
                    ladder[-1],
                    "samples.response",
                    values[-1],
                    unit="share of different 3-grams",
                    limit_low=limits.fall * values[0],
                ),
            ),
            {
                "source": ladder[0].source,
                "level": values[-1],
                "start": values[0],
                "loops": _looping(ladder[-1]),
            },
            onset=onset_between(run, ladder, bad),
        )


def _looping(batch: Batch) -> float:
    return fmean(loop(item.tokens)[0] > 0 for item in batch.items)
