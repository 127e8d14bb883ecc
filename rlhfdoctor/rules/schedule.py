"""A learning rate that no schedule should give."""

from collections.abc import Iterator
from dataclasses import dataclass

from rlhfdoctor.measures import metric_evidence, track
from rlhfdoctor.model import Finding, Run, Skip
from rlhfdoctor.rules import rule
from rlhfdoctor.rules._sustained import appeared


@dataclass(frozen=True, slots=True)
class Limits:
    """What no schedule means to do."""

    negligible: float = 0.001  # share of the peak; a negative rate below it is rounding
    share: float = 0.2  # share of the rows at learning rate 0, to the end
    rows: int = 10  # logged rows at learning rate 0, to the end
    jump: float = 5.0  # times the rate of the row before, after the rate had begun to fall
    fallen: float = 0.5  # share of the peak at which the rate has begun to fall


@rule(
    "OPT006",
    signal="optimiser",
    needs=["lr"],
    limits=Limits,
    text="the learning rate {what}: {before:.3g} before, {level:.3g} in {rows} of {total} logged "
    "rows",
    brief="learning rate {what}",
)
def schedule(run: Run, limits: Limits) -> Iterator[Finding | Skip]:
    """The learning rate is negative, or 0 long before the end, or leaps up again.

    A linear decay that runs past its last step turns negative, and the optimiser then undoes what
    it should learn. A decay planned for fewer steps than were made leaves 0 to the end: every step
    after it costs and learns nothing. The last row of a sound schedule is 0, and a cosine's last
    few are close to it, so a fifth of the rows and ten of them are asked for. A rate that leaps up
    after it fell is a schedule begun anew, at a resume or by design: information. Consoles round
    small rates to 0; such zeros are not judged. A rate of 0 in every row is UPD001's. [H]

    Remedy: give the scheduler the number of steps that the run really makes, in the scheduler's own
    count (updates, not batches); at a resume, restore its state.
    """
    rate = track(run, "lr")
    values, last = rate.values, len(rate) - 1
    peak = max(abs(value) for value in values)
    negative = [index for index, value in enumerate(values) if value < -limits.negligible * peak]
    if negative:
        first = negative[0]
        lowest = min(values)
        yield Finding(
            "warning",
            (metric_evidence(run, rate, first, negative[-1], lowest, limit_low=0.0),),
            {
                "what": "is negative",
                "before": values[max(first - 1, 0)],
                "level": lowest,
                "rows": len(negative),
                "total": len(rate),
            },
            onset=appeared(rate.steps, first),
        )
    first = len(values)
    while first > 0 and values[first - 1] == 0.0:
        first -= 1
    zeros = len(values) - first
    ended = zeros >= max(limits.rows, limits.share * len(values))
    if ended and first > 0 and not rate.column.printed:
        yield Finding(
            "warning",
            (metric_evidence(run, rate, first, last, 0.0, limit_low=0.0),),
            {
                "what": "is 0 to the end",
                "before": max(values),
                "level": 0.0,
                "rows": zeros,
                "total": len(rate),
            },
            onset=appeared(rate.steps, first),
        )
    top = 0.0
    for index in range(1, len(values)):
        before, value = values[index - 1], values[index]
        top = max(top, before)
        fell = 0.0 < before <= limits.fallen * top
        if fell and value >= limits.jump * before:
            yield Finding(
                "info",
                (metric_evidence(run, rate, index, index, value, limit_high=before),),
                {
                    "what": "leaps up again",
                    "before": before,
                    "level": value,
                    "rows": 1,
                    "total": len(rate),
                },
                onset=appeared(rate.steps, index),
            )
            return
