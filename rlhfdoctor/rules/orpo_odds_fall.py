"""ORPO's log-odds of the chosen answers, falling."""

from collections.abc import Iterator
from dataclasses import dataclass

from rlhfdoctor.measures import metric_evidence, track
from rlhfdoctor.model import Finding, Onset, Run, Skip
from rlhfdoctor.rules import rule
from rlhfdoctor.series import end_level, halves_differ, mean_error, start_level


@dataclass(frozen=True, slots=True)
class Limits:
    """What is a fall."""

    standard_errors: float = 4.0  # between the means of the two halves
    fall: float = 0.1  # nats that the second half's mean must lie below the first's
    rows: int = 10  # logged rows in each half


@rule(
    "DPO012",
    signal="accuracy",
    needs=["orpo_log_odds"],
    limits=Limits,
    text="the log-odds of chosen against rejected answers fall from {start:.3g} to {level:.3g}: "
    "the policy comes to prefer the rejected ones",
    brief="log-odds {start:.2g} -> {level:.2g}",
)
def orpo_odds_fall(run: Run, limits: Limits) -> Iterator[Finding | Skip]:
    """The odds of the chosen answers fall, although their growth is what ORPO trains for.

    The log-odds compare the mean token log-probabilities of both answers, without a reference. An
    untrained policy may begin below 0, where the rejected answers are its own; training must raise
    them. A warning asks for a second half whose mean lies below 0 and below that of the first half,
    by more than the rows' noise. The loss itself holds a supervised term and is never held against
    ln 2. [H]

    Remedy: swap check of chosen and rejected; then a larger weight of the odds (beta, lambda) or a
    lower learning rate.
    """
    odds = track(run, "orpo_log_odds")
    middle = len(odds) // 2
    if middle < limits.rows:
        yield Skip("", (f"{limits.rows} rows in each half of the run",))
        return
    early, late = odds.values[:middle], odds.values[middle:]
    before, after = mean_error(early)[0], mean_error(late)[0]
    steady = halves_differ([*early, *late[len(late) - middle :]]) < -limits.standard_errors
    if steady and after < min(before - limits.fall, 0.0):
        yield Finding(
            "warning",
            (metric_evidence(run, odds, middle, len(odds) - 1, after, limit_low=min(before, 0.0)),),
            {"start": start_level(odds.values), "level": end_level(odds.values)},
            onset=Onset(odds.steps[middle], odds.steps[0], odds.steps[middle]),
        )
