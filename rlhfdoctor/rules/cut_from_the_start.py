"""Responses cut at the length limit from the first rows on."""

from collections.abc import Iterator
from dataclasses import dataclass

from rlhfdoctor.measures import metric_evidence, track
from rlhfdoctor.model import Finding, Onset, Run, Skip
from rlhfdoctor.rules import rule
from rlhfdoctor.rules._alarm import alarms
from rlhfdoctor.rules._reward import reward_of, rises, rounded
from rlhfdoctor.series import end_level, start_level


@dataclass(frozen=True, slots=True)
class Limits:
    """Which share of cut responses is a fault."""

    share: float = 0.5  # share of responses cut at the limit
    start: float = 0.25  # share at the start from which the limit was too low all along
    patience: int = 5  # consecutive logged rows
    nearly_all: float = 0.95  # share cut in every row of a log shorter than the patience


@rule(
    "LEN009",
    signal="length",
    needs=["truncation_rate", "rows>=2"],
    zeros=True,
    limits=Limits,
    text="{level:.0%} of the responses are cut at the length limit, {start:.0%} in the first rows: "
    "above {share:.0%} for {rows} logged rows ({steps} steps)",
    brief="{level:.0%} of responses cut at the length limit",
)
def cut_from_the_start(run: Run, limits: Limits) -> Iterator[Finding | Skip]:
    """The length limit is too low: most responses are cut, and many were from the first rows on.

    It costs the signal, for a cut answer earns nothing, but it is no collapse: a warning, and mere
    information where the reward rises all the same (texts that are meant to fill the limit). A log
    of two to four rows proves it too, where at least 95 % are cut in each of them and each earns
    the same that is no reward: 97-99 % cut at a limit of 256 with nothing earned were 14 % at 1024
    (TRL 5697). Runs that began with few cut responses are LEN003's. [H]

    Remedy: raise the limit, or ask for shorter answers; score some answers that were not cut.
    """
    rate = track(run, "truncation_rate")
    if len(rate) < limits.patience:
        yield from _short(run, limits)
    elif start_level(rate.values) >= limits.start:
        reward = reward_of(run)
        earns = reward is not None and rises(reward.values)
        yield from alarms(
            run,
            rate,
            above=limits.share,
            patience=limits.patience,
            severity=lambda level: "info" if earns else "warning",
        )


def _short(run: Run, limits: Limits) -> Iterator[Finding | Skip]:
    """Judge a log that is shorter than the patience: by what holds in every row of it."""
    rate, reward = track(run, "truncation_rate"), reward_of(run)
    earning = reward is None or len(reward) < len(rate) or _earns(reward.values)
    if earning or min(rate.values) < limits.nearly_all:
        yield Skip("", (f"rows>={limits.patience}",))
        return
    last, level = len(rate) - 1, end_level(rate.values)
    yield Finding(
        "warning",
        (metric_evidence(run, rate, 0, last, level, limit_high=limits.nearly_all),),
        {
            "start": rate.values[0],
            "level": level,
            "share": limits.nearly_all,
            "rows": len(rate),
            "steps": rate.steps[-1] - rate.steps[0] + 1,
        },
        onset=Onset(rate.steps[0], rate.steps[0], rate.steps[0]),
    )


def _earns(values: list[float]) -> bool:
    """Say whether any reward is positive or differs from the others."""
    return max(values) > 0.0 or len(set(rounded(values))) > 1
