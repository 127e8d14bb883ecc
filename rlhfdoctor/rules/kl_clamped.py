"""A KL pinned to one value: a clamp, or a number that is no longer computed."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby, pairwise
from statistics import median_low

import polars as pl

from rlhfdoctor.measures import Track, metric_evidence, track
from rlhfdoctor.model import Finding, Onset, Run, Skip
from rlhfdoctor.rules import rule
from rlhfdoctor.rules._kl import KLS, told_unit


@dataclass(frozen=True, slots=True)
class Limits:
    """What no real KL does."""

    hits: int = 5  # logged rows at exactly the largest value, beside rows that never repeat
    constant: int = 10  # consecutive logged rows of one value, where hardly any other is known
    coarse: float = 1.0  # in its unit; one or two digits below it may be a rounded number
    alike: float = 0.9  # share of the other rows that differ from each other; rounded logs repeat
    token: float = 0.1  # nats per token; what lies above a clamp there is far; verl's target
    response: float = 10.0  # nats per response, likewise; TRL's guide calls 0-10 fine


@rule(
    "KL008",
    signal="numbers",
    any_of=KLS,
    needs=["rows>=10"],
    limits=Limits,
    text="KL is exactly {level:.6g} {unit} in {rows} of {count} logged rows: {what}",
    brief="KL pinned at {level:.4g} {unit}",
)
def kl_clamped(run: Run, limits: Limits) -> Iterator[Finding | Skip]:
    """The KL repeats exactly one value, or hits its own maximum exactly again and again.

    A KL is a mean over fresh samples and never the same twice. Where its largest value comes back
    to the last digit, while the rows below it never repeat, a clamp cuts it there and nobody sees
    what lies above; where one value stands in every row, the number is no longer computed. Logs
    that are rounded repeat everywhere and are left alone, and so are rows that repeat as a whole
    (one value written at each of ten steps, an evaluation of one and the same model), zeros, and a
    constant of one or two digits below 1.
    It is a fault of the measurement: information, unless the value is far in a known unit (verl's
    target of 0.1 nats a token, TRL's 10 nats a response), so that the KL is at least as large: then
    a warning. [H]

    Remedy: log the KL before it is clamped; recompute it from the checkpoints.
    """
    kl = _fresh(run, track(run, *KLS))
    found = _pinned(kl, limits)
    if found is None:
        return
    level, rows, what = found
    at = [row for row, value in enumerate(kl.values) if value == level]
    far = {"kl_ref_token": limits.token, "kl_ref_response": limits.response}.get(kl.metric)
    # the clamp hides something at the end only where half of the last rows are at it
    stands = 2 * sum(value == level for value in kl.values[-limits.constant :]) >= limits.constant
    step = kl.steps[at[0]]
    yield Finding(
        "warning" if stands and far is not None and level >= far else "info",
        (metric_evidence(run, kl, at[0], at[-1], level),),
        {
            "level": level,
            "unit": told_unit(kl.column),
            "rows": rows,
            "count": len(kl),
            "what": what,
        },
        onset=Onset(step, step, step),
    )


def _fresh(run: Run, kl: Track) -> Track:
    """Return the rows of a KL that no row before them equals in every other metric as well."""
    others = [name for name in run.columns if name != kl.metric and name in run.metrics.columns]
    rows = run.metrics.filter(pl.col(kl.metric).is_finite())
    changed = pl.any_horizontal(
        pl.lit(value=not others),
        *(pl.col(name).ne_missing(pl.col(name).shift()) for name in others),
    )
    told = rows.select(kl.metric, changed=changed)
    keep = [True, *(a != b for a, b in pairwise(kl.values))]
    fresh = [new or moved for new, moved in zip(told["changed"].to_list(), keep, strict=True)]
    return Track(
        kl.metric,
        kl.column,
        [step for step, new in zip(kl.steps, fresh, strict=True) if new],
        [value for value, new in zip(kl.values, fresh, strict=True) if new],
    )


def _pinned(kl: Track, limits: Limits) -> tuple[float, int, str] | None:
    """Return the value that a KL is pinned to, in how many rows, and what that means."""
    runs = [(value, sum(1 for _ in group)) for value, group in groupby(kl.values)]
    level = max(kl.values, default=0.0)
    rows = kl.values.count(level)
    others = [(value, length) for value, length in runs if value != level]
    if not level:
        return None
    if len(others) >= limits.hits:
        usual = median_low([length for _, length in others])
        differ = len({value for value, _ in others}) >= limits.alike * len(others)
        clamped = differ and rows >= limits.hits * usual
        return (level, rows, "a clamp hides what lies above") if clamped else None
    longest = max(length for value, length in runs if value == level)
    if longest >= limits.constant and (_digits(level) > 2 or abs(level) >= limits.coarse):
        return level, rows, "a clamp cuts it, or it is no longer computed"
    return None


def _digits(value: float) -> int:
    """Return the number of significant digits that a value was written with."""
    return len(f"{abs(value):.15e}".partition("e")[0].replace(".", "").rstrip("0"))
