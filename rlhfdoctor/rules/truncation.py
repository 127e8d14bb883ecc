"""Responses cut at the length limit."""

from collections.abc import Iterator
from dataclasses import dataclass

from rlhfdoctor.measures import track
from rlhfdoctor.model import Finding, Run, Skip
from rlhfdoctor.rules import rule
from rlhfdoctor.rules._alarm import alarms
from rlhfdoctor.series import start_level


@dataclass(frozen=True, slots=True)
class Limits:
    """Which share of cut responses is a fault."""

    share: float = 0.5  # share of responses cut at the limit
    start: float = 0.25  # largest share at the start that still counts as a change
    patience: int = 5  # consecutive logged rows


@rule(
    "LEN003",
    signal="length",
    needs=["truncation_rate", "rows>=5"],
    zeros=True,
    limits=Limits,
    text="{level:.0%} of the responses are cut at the length limit ({start:.0%} at the start), "
    "above {share:.0%} for {rows} logged rows ({steps} steps)",
    brief="{level:.0%} of responses cut at the length limit",
)
def truncation(run: Run, limits: Limits) -> Iterator[Finding | Skip]:
    """Most responses no longer end before the length limit.

    verl's guide calls more than 0.1 "often truncating too much". A run that began with few cut
    responses and ends with most of them cut has exploded in length. Where many were cut in the
    first rows already the limit is too low, which LEN009 judges. [H]

    Remedy: if the reward follows the length, penalise overlong answers or use a token-level loss.
    """
    rate = track(run, "truncation_rate")
    if start_level(rate.values) < limits.start:
        yield from alarms(run, rate, above=limits.share, patience=limits.patience)
