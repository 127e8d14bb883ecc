"""A KL that jumps for a few rows and comes back."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from statistics import median

import polars as pl

from rlhfdoctor.measures import Track, metric_evidence, track
from rlhfdoctor.model import Finding, Onset, Run, Skip
from rlhfdoctor.rules import rule
from rlhfdoctor.rules._kl import KLS, told_unit
from rlhfdoctor.series import MAD_TO_SIGMA


@dataclass(frozen=True, slots=True)
class Limits:
    """What counts as a spike."""

    times: float = 10.0  # times the level of the rows around
    sigmas: float = 20.0  # robust standard deviations of the rows around that level
    token: float = 0.5  # nats per token above that level
    response: float = 10.0  # nats per response above that level; TRL's guide calls 0-10 fine
    longest: int = 4  # consecutive logged rows; five of them are no spike (KL003)
    around: int = 10  # logged rows on either side that make the level


@rule(
    "KL011",
    signal="kl",
    any_of=KLS,
    needs=["rows>=10"],
    limits=Limits,
    text="KL jumps to {peak:.3g} {unit} at step {step} between rows of {level:.3g} and comes back "
    "(logged rows: {rows}; such spikes: {count})",
    brief="KL spike of {peak:.3g} {unit}",
)
def kl_spike(run: Run, limits: Limits) -> Iterator[Finding | Skip]:
    """The KL jumps far above its neighbours for a row or a few, and comes back.

    One response with a token that the reference finds impossible is enough: k3 grows exponentially
    with its log-ratio, and a single row of 51.5 was seen between rows of 6. A spike that recovers
    is information; it says why a mean is no measure, and which batch to read. A row counts where it
    is ten times the median of the ten rows on either side, twenty robust standard deviations above
    it, and far in its unit: half a nat a token, or ten nats a response. Where the unit is unknown
    the first two decide. [H]

    Remedy: none by itself; read the responses of that step, and look for masks and padding where
    spikes come again and again.
    """
    kl = track(run, *KLS)
    spikes = list(_spikes(kl, limits))
    if not spikes:
        return
    first, last = max(spikes, key=lambda spike: max(kl.values[spike[0] : spike[1] + 1]))
    peak = max(kl.values[first : last + 1])
    beside = kl.values[max(0, first - limits.around) : first]
    beside += kl.values[last + 1 : last + 1 + limits.around]
    step = kl.steps[first]
    yield Finding(
        "info",
        (metric_evidence(run, kl, first, last, peak),),
        {
            "peak": peak,
            "unit": told_unit(kl.column),
            "step": step,
            "level": median(beside),
            "rows": last - first + 1,
            "count": len(spikes),
        },
        onset=Onset(step, step, step),
        recovered_at=kl.steps[last + 1],
    )


def _spikes(kl: Track, limits: Limits) -> Iterator[tuple[int, int]]:
    """Yield [first, last] index pairs of the spikes that came back."""
    values = pl.Series(kl.values)
    window = 2 * limits.around + 1
    level = values.rolling_median(window, center=True, min_samples=1)
    spread = (values - level).abs().rolling_median(window, center=True, min_samples=1)
    far = {"kl_ref_token": limits.token, "kl_ref_response": limits.response}.get(kl.metric, 0.0)
    above = values - level
    high = (
        (values > limits.times * level.abs())
        & (above > limits.sigmas * MAD_TO_SIGMA * spread)
        & (above > far)
    )
    indices = [index for index, spiked in enumerate(high.to_list()) if spiked]
    for _, group in groupby(enumerate(indices), lambda at: at[1] - at[0]):
        rows = [index for _, index in group]
        if rows[-1] < len(kl) - 1 and len(rows) <= limits.longest:
            yield rows[0], rows[-1]
