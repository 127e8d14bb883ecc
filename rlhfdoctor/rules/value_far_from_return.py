"""Value predictions that lie beside the returns."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from statistics import median

from rlhfdoctor.measures import logged, metric_evidence, track
from rlhfdoctor.model import Finding, Onset, Run, Skip
from rlhfdoctor.rules import rule

RANGE = 4.0
"""Standard deviations that the range of a batch's returns is taken for; it is rather more."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How far beside."""

    deviations: float = 1.0  # standard deviations of the returns
    rows: int = 5  # logged rows in the second half of the run


@rule(
    "VAL004",
    signal="value",
    needs=["value_mean", "return_mean", "rows>=10"],
    zeros=True,
    limits=Limits,
    text="the value model predicts {value:.3g} where the returns are {back:.3g} (medians of the "
    "second half of the run): {level:.3g} standard deviations of the returns apart",
    brief="values {value:.3g}, returns {back:.3g}",
)
def value_far_from_return(run: Run, limits: Limits) -> Iterator[Finding | Skip]:
    """The value model is wrong about the returns by more than they vary.

    A mean error is what a constant could mend, so late in a run it says that the value model no
    longer follows. The scale of returns is the run's own, so the distance is counted in their
    standard deviations, from the logged variance or else a quarter of the logged range. Policies
    that collapsed leave such a critic behind (verl 1224: 0.516 against 0.104): an effect, and
    information. [H]

    Remedy: look for the collapse that came before; else train the value model longer or faster.
    """
    value, back = track(run, "value_mean"), track(run, "return_mean")
    spread = _deviations(run)
    if not spread:
        yield Skip("", ("return_var or the range of the returns",))
        return
    there = dict(zip(back.steps, back.values, strict=True))
    rows = [
        (index, number, there[step], spread[step])
        for index, (step, number) in enumerate(zip(value.steps, value.values, strict=True))
        if step in there and spread.get(step, 0.0) > 0.0
    ]
    late = rows[len(rows) // 2 :]
    if len(late) < limits.rows:
        yield Skip("", (f"{limits.rows} rows with a spread of returns in the second half",))
        return
    apart = median(abs(number - back_) / deviation for _, number, back_, deviation in late)
    if apart <= limits.deviations:
        return
    first, last = late[0][0], late[-1][0]
    told = median(number for _, number, _, _ in late)
    returned = median(number for _, _, number, _ in late)
    yield Finding(
        "info",
        (metric_evidence(run, value, first, last, told),),
        {"value": told, "back": returned, "level": apart},
        onset=Onset(value.steps[first], value.steps[0], value.steps[first]),
    )


def _deviations(run: Run) -> dict[int, float]:
    """Return the standard deviation of the returns at each step that tells it."""
    if logged(run, "return_var"):
        found = track(run, "return_var")
        pairs = zip(found.steps, found.values, strict=True)
        return {step: math.sqrt(number) for step, number in pairs if number >= 0.0}
    if logged(run, "return_max") and logged(run, "return_min"):
        high, low = track(run, "return_max"), track(run, "return_min")
        lows = dict(zip(low.steps, low.values, strict=True))
        return {
            step: number / RANGE - lows[step] / RANGE
            for step, number in zip(high.steps, high.values, strict=True)
            if step in lows
        }
    return {}
