"""Responses that begin soundly and end in text that the policy knows by heart."""

from collections.abc import Iterator
from dataclasses import dataclass
from statistics import fmean

from rlhfdoctor.measures import Batch, ladders, sample_evidence
from rlhfdoctor.model import Finding, Run, Skip
from rlhfdoctor.rules import rule
from rlhfdoctor.rules._ladder import onset_between, standing_from, too_few


@dataclass(frozen=True, slots=True)
class Limits:
    """When the end of the responses has collapsed and their beginning has not."""

    share: float = 0.25  # of the first third's nats per token, and of the last third's at the start
    sound: float = 0.5  # of the first third's own nats per token at the start
    shortest: int = 30  # scored tokens of a response; ten a third
    fewest: int = 8  # such responses a sampled step


@rule(
    "PPL005",
    signal="entropy",
    needs=["samples.logprobs"],
    limits=Limits,
    text="the last third of the responses in {source} falls to {late:.2g} nats/token beside "
    "{early:.2g} in their first third ({late_start:.2g} and {early_start:.2g} at step {began})",
    brief="the ends of responses fall to {late:.2g} nats/token",
)
def perplexity_by_position(run: Run, limits: Limits) -> Iterator[Finding | Skip]:
    """The responses begin as they always did and end in what the policy knows by heart.

    Loops begin late: a mean over a response hides them behind a sound beginning. Text grows more
    predictable towards its end in every run (a last third of 3.0 nats a token beside a first of 3.8
    on runs made for this purpose), so it must have fallen to a quarter of the first third of the
    same responses, and to a quarter of what it was at the first sampled step, up to the end of the
    file, while the first third still has half of what it had. A closing phrase that was learnt on
    purpose (a boxed answer) looks the same in short responses: information, for the eye. [H]

    Remedy: read the ends of the samples; if they loop, stop at EOS, penalise repetition in the
    reward, or go back to before; if they are a format, nothing is wrong.
    """
    looked = False
    for ladder in ladders(run, limits.fewest):
        pairs = [(batch, _ends(batch, limits)) for batch in ladder]
        known = [(batch, ends) for batch, ends in pairs if ends is not None]
        if len(known) < 2:
            continue
        looked = True
        steps = [batch for batch, _ in known]
        early_start, late_start = known[0][1]
        bad = standing_from(
            [
                late < limits.share * min(early, late_start) and early > limits.sound * early_start
                for _, (early, late) in known
            ]
        )
        if bad is None:
            continue
        early, late = known[-1][1]
        yield Finding(
            "info",
            (
                sample_evidence(
                    steps[bad],
                    steps[-1],
                    "samples.logprobs",
                    late,
                    unit="nats/token",
                    limit_low=limits.share * min(early, late_start),
                ),
            ),
            {
                "source": steps[0].source,
                "early": early,
                "late": late,
                "early_start": early_start,
                "late_start": late_start,
                "began": steps[0].step,
            },
            onset=onset_between(run, steps, bad),
        )
    if not looked:
        yield too_few(limits.fewest, f"of {limits.shortest} scored tokens or more")


def _ends(batch: Batch, limits: Limits) -> tuple[float, float] | None:
    """Return the mean nats a token of the first and the last third of a step's long responses."""
    thirds = [item.thirds for item in batch.items if item.thirds and item.scored >= limits.shortest]
    if len(thirds) < limits.fewest:
        return None
    return fmean(early for early, _ in thirds), fmean(late for _, late in thirds)
