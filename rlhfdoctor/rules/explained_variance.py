"""A value model that predicts worse than a constant."""

from collections.abc import Iterator
from dataclasses import dataclass
from statistics import median

from rlhfdoctor.measures import logged, metric_evidence, track
from rlhfdoctor.model import Finding, Onset, Run, Skip
from rlhfdoctor.rules import rule
from rlhfdoctor.rules._sustained import GENERIC

AVERAGED = ("trl_ppo_old", GENERIC)
"""Dialects whose explained variance is, or may be, a mean over mini-batches: not one of the run."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How bad, and for how long."""

    below_zero: float = 0.5  # how far below 0 every row of the second half lies
    rows: int = 10  # logged rows in the second half


@rule(
    "VAL001",
    signal="value",
    needs=["explained_variance", "rows>=10"],
    limits=Limits,
    text="the value model explains {level:.3g} of the variance of the returns in the median of the "
    "second half of the run, no more than a constant would ({loss})",
    brief="explained variance {level:.2g}",
)
def explained_variance(run: Run, limits: Limits) -> Iterator[Finding | Skip]:
    """The value model predicts the returns worse than their mean does.

    Explained variance is 1 - var(error) / var(return): at or below 0 the critic is no better than a
    constant, and advantages are noise. Far below 0 in the first rows is an untrained head (-4867
    at step 2 of one sound run). No published band for language models was found and sound runs
    stay poor for long, so it is information; a warning only where each row of the second half is
    at or below -0.5 and the value loss does not fall, so that it is not on its way. Means over
    mini-batches divide by the variance of a few responses and are never more than information. [H]

    Remedy: train the value model alone for some steps first; a higher learning rate for it than
    for the policy; check that rewards and values are normalised alike.
    """
    variance = track(run, "explained_variance")
    first = len(variance) // 2
    late = variance.values[first:]
    level = median(late)
    if level > 0.0:
        return
    falls, told = _loss(run, variance.steps[first])
    bad = max(late) <= -limits.below_zero and len(late) >= limits.rows
    yield Finding(
        "warning" if bad and falls is False and run.dialect not in AVERAGED else "info",
        (
            metric_evidence(
                run,
                variance,
                first,
                len(variance) - 1,
                level,
                limit_low=-limits.below_zero if bad else 0.0,
            ),
        ),
        {"level": level, "loss": told},
        onset=Onset(variance.steps[first], variance.steps[0], variance.steps[first]),
    )


def _loss(run: Run, step: int) -> tuple[bool | None, str]:
    """Say whether the value loss is lower from a step on than before, and so in words."""
    if not logged(run, "value_loss"):
        return None, "no value loss is logged"
    loss = track(run, "value_loss")
    pairs = list(zip(loss.steps, loss.values, strict=True))
    early = [value for at, value in pairs if at < step]
    late = [value for at, value in pairs if at >= step]
    if not early or not late:
        return None, "the value loss is logged in one half only"
    if median(late) < median(early):
        return True, "its loss still falls"
    return False, "its loss does not fall"
