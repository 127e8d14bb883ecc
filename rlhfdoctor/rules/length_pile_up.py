"""Sampled responses that all have the same, greatest length."""

from collections.abc import Iterator
from dataclasses import dataclass
from statistics import fmean

from rlhfdoctor.measures import ladders, sample_evidence
from rlhfdoctor.model import Finding, Run, Skip
from rlhfdoctor.rules import rule
from rlhfdoctor.rules._ladder import longest, onset_between, standing_from, too_few


@dataclass(frozen=True, slots=True)
class Limits:
    """Which pile is a fault."""

    share: float = 0.5  # share of responses of exactly the greatest length
    start: float = 0.25  # largest share at the start that still counts as a change
    least: int = 8  # tokens; shorter limits belong to short-answer tasks
    fewest: int = 8  # responses a sampled step


@rule(
    "LEN005",
    signal="length",
    needs=["samples.token_ids", "samples.steps"],
    limits=Limits,
    text="{level:.0%} of the responses in {source} have the greatest length, {cap} tokens "
    "({start:.0%} at the start)",
    brief="length at its cap of {cap}",
)
def length_pile_up(run: Run, limits: Limits) -> Iterator[Finding | Skip]:
    """Sampled responses pile up at one greatest length: the limit that cuts them.

    The limit itself is often in no log; a pile of responses of exactly the same, greatest number of
    tokens shows where it is. Judged in tokens only. Answers that end with the end token were not
    cut, however alike their lengths are (a grid of fixed size). [H]

    Remedy: as for LEN003.
    """
    files = [ladder for ladder in ladders(run, limits.fewest) if ladder[0].unit == "tokens"]
    if not files:
        yield too_few(limits.fewest, "and token ids")
    for ladder in files:
        cap = longest(ladder)
        shares = [
            fmean(item.length == cap and item.ended is not True for item in batch.items)
            for batch in ladder
        ]
        if cap < limits.least or shares[0] >= limits.start:
            continue
        bad = standing_from([share > limits.share for share in shares])
        if bad is None:
            continue
        yield Finding(
            "critical",
            (
                sample_evidence(
                    ladder[bad],
                    ladder[-1],
                    "samples.token_ids",
                    shares[-1],
                    unit="share of responses",
                    limit_high=limits.share,
                ),
            ),
            {"level": shares[-1], "start": shares[0], "cap": cap, "source": ladder[0].source},
            onset=onset_between(run, ladder, bad),
        )
