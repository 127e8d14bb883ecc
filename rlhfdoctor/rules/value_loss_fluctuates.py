"""A value loss that leaps or grows."""

from collections.abc import Iterator
from dataclasses import dataclass
from statistics import median

import polars as pl

from rlhfdoctor.measures import logged, metric_evidence, track
from rlhfdoctor.model import Finding, Run, Skip
from rlhfdoctor.rules import rule
from rlhfdoctor.rules._sustained import GENERIC, appeared
from rlhfdoctor.series import end_level, onset, start_level

WINDOW = 21
"""Rows around a row whose median is its usual loss."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What counts as a leap, and what makes growth a fault."""

    times: float = 10.0  # times the loss of the start, or of the rows around a leap
    rows: int = 5  # logged rows of the start, and to the end
    variances: float = 2.0  # times the variance of the returns
    below_zero: float = 0.5  # how far below 0 the explained variance lies over the same rows


@rule(
    "VAL002",
    signal="value",
    needs=["value_loss", "rows>=10"],
    limits=Limits,
    text="the value loss {what} more than {times:g} times its usual {usual:.3g}: {count} of "
    "{total} logged rows, up to {peak:.3g}{beside}",
    brief="value loss {usual:.2g} -> {peak:.3g}",
)
def value_loss_fluctuates(run: Run, limits: Limits) -> Iterator[Finding | Skip]:
    """The loss of the value model leaps, or grows and stays high.

    The loss has the unit of a squared reward, so only the run's own counts. It grows where rewards
    begin to flow, which is no fault; it is one where it stays above ten times its start and the
    returns do not account for it: the loss (half the squared error) exceeds twice their variance,
    or the explained variance over the same rows is at or below -0.5. Leaps of single rows after
    the first are information. After a collapse a stale critic is an effect, not the cause (verl
    1224). [H]

    Remedy: a lower learning rate for the value model, clipped or normalised returns; look first
    whether the policy had collapsed before.
    """
    loss = track(run, "value_loss")
    values, last = loss.values, len(loss) - 1
    start = start_level(values, limits.rows)
    if start <= 0.0:
        return
    first = len(values)
    while first > 0 and values[first - 1] > limits.times * start:
        first -= 1
    count = last - first + 1
    if count >= limits.rows:
        level = end_level(values, limits.rows)
        beside = _beside(run, level, loss.steps[first], limits)
        yield Finding(
            "warning" if beside and run.dialect != GENERIC else "info",
            (metric_evidence(run, loss, first, last, level, limit_high=limits.times * start),),
            {
                "what": "grew and stays",
                "usual": start,
                "count": count,
                "total": len(loss),
                "peak": max(values[first:]),
                "beside": beside,
            },
            onset=onset(loss.steps, values, first, limits.rows),
        )
        return
    around = pl.Series(values).rolling_median(WINDOW, min_samples=1, center=True).to_list()
    leaps = [
        index
        for index, (value, near) in enumerate(zip(values, around, strict=True))
        if index >= limits.rows and value > limits.times * near > 0.0
    ]
    if leaps:
        highest = max(leaps, key=lambda index: values[index])
        bar = limits.times * around[highest]
        after = leaps[-1] + 1
        yield Finding(
            "info",
            (metric_evidence(run, loss, highest, highest, values[highest], limit_high=bar),),
            {
                "what": "leaps to",
                "usual": around[highest],
                "count": len(leaps),
                "total": len(loss),
                "peak": values[highest],
                "beside": "",
            },
            onset=appeared(loss.steps, leaps[0]),
            recovered_at=loss.steps[after] if after <= last else None,
        )


def _beside(run: Run, level: float, step: int, limits: Limits) -> str:
    """Say by what the returns do not account for the loss, or nothing."""
    told = {}
    for metric in ("return_var", "explained_variance"):
        if logged(run, metric):
            found = track(run, metric)
            late = [
                value for at, value in zip(found.steps, found.values, strict=True) if at >= step
            ]
            if len(late) >= limits.rows:
                told[metric] = median(late)
    variance = told.get("return_var")
    if variance is not None and level > limits.variances * variance:
        return f"; the returns' variance is {variance:.3g}"
    explained = told.get("explained_variance")
    if explained is not None and explained <= -limits.below_zero:
        return f"; the explained variance is {explained:.3g}"
    return ""
