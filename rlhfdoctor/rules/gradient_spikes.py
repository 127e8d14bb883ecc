"""Gradient norms far above the run's own."""

from collections.abc import Iterator
from dataclasses import dataclass
from statistics import median, quantiles

import polars as pl

from rlhfdoctor.measures import logged, metric_evidence, track
from rlhfdoctor.model import Finding, Run, Skip
from rlhfdoctor.rules import rule
from rlhfdoctor.rules._reward import rises
from rlhfdoctor.rules._sustained import appeared, without_zeros
from rlhfdoctor.series import end_level, onset, start_level

WINDOW = 21
"""Rows around a row whose median is its usual norm."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What counts as a spike, and when spikes are more than accidents."""

    times: float = 10.0  # times the usual norm
    size: float = 1.0  # L2 norm; a smaller one is below the usual clipping bound
    share: float = 0.1  # share of the rows with a gradient from which spikes are no accident
    token: float = 1.0  # nats of KL per token, or of unknown unit, below which a run goes well
    response: float = 10.0  # nats of KL per response, likewise
    low: float = 0.2  # of the start, of entropy, above which a run goes well
    high: float = 2.0  # times the start, of entropy, below which a run goes well
    rows: int = 5  # logged rows of the start and of a rise that lasts; fewest repeated spikes


@rule(
    "OPT001",
    signal="optimiser",
    needs=["grad_norm", "rows>=10"],
    limits=Limits,
    text="the gradient norm {what} more than {times:g} times its usual {usual:.3g}: "
    "{count} of {total} logged rows, up to {peak:.3g}",
    brief="gradient norm {usual:.2g} -> {peak:.3g}",
)
def gradient_spikes(run: Run, limits: Limits) -> Iterator[Finding | Skip]:
    """The gradient norm leaps far above what is usual for this very run.

    Levels differ between models and losses (0.1-1 in verl, 24 in a DPO run, 42 in a KTO run), so
    only the run's own counts, and only norms above 1.0, where TRL, verl, OpenRLHF and NeMo-RL clip:
    below it a leap changes no step. The logged norm is the one before clipping (ms-swift 3713: 1200
    with a maximum of 0.5 is no broken clip). Rows of exactly 0 are batches without any signal and
    do not enter what is usual. Single spikes are met in sound runs and are information. Spikes in
    a tenth of the rows, and a rise that stands at the end (above the start and above the median of
    the first half), are not; but spikes that clipping takes care of are information too, which
    shows where the run goes well meanwhile: the reward (of preferences the accuracy or the margin)
    rises, and KL and entropy, where logged, end within reach of their start. [H]

    Remedy: read the batches of the spikes; lower the learning rate, lengthen the warm-up, clip the
    gradient harder; go back to a checkpoint before the rise.
    """
    norm = without_zeros(track(run, "grad_norm"))
    values, last = norm.values, len(norm) - 1
    if len(norm) < 2 * limits.rows:
        yield Skip("", (f"{2 * limits.rows} rows with a gradient norm above 0",))
        return
    early = max(start_level(values, limits.rows), median(values[: len(values) // 2]))
    bar = max(limits.times * early, limits.size)
    first = len(values)
    while first > 0 and values[first - 1] > bar:
        first -= 1
    if last - first + 1 >= limits.rows:
        level = end_level(values, limits.rows)
        yield Finding(
            "warning",
            (metric_evidence(run, norm, first, last, level, limit_high=bar),),
            {
                "what": "rose and stays",
                "usual": early,
                "count": last - first + 1,
                "total": len(norm),
                "peak": max(values[first:]),
            },
            onset=onset(norm.steps, values, first, limits.rows),
        )
        return
    # the third quartile: up to a quarter of the rows may spike without becoming what is usual
    usual = max(early, quantiles(values, n=4)[2])
    bar = max(limits.times * usual, limits.size)
    high = [index for index, value in enumerate(values) if value > bar]
    if len(high) >= max(limits.rows, limits.share * len(values)):
        peak = max(values)
        yield Finding(
            "info" if _goes_well(run, limits) else "warning",
            (metric_evidence(run, norm, high[0], high[-1], peak, limit_high=bar),),
            {
                "what": "keeps leaping to",
                "usual": usual,
                "count": len(high),
                "total": len(norm),
                "peak": peak,
            },
            onset=appeared(norm.steps, high[0]),
        )
        return
    around = pl.Series(values).rolling_median(WINDOW, min_samples=1, center=True).to_list()
    spikes = [
        index
        for index, (value, near) in enumerate(zip(values, around, strict=True))
        if value > max(limits.times * near, limits.size)
    ]
    if spikes:
        highest = max(spikes, key=lambda index: values[index])
        after = spikes[-1] + 1
        yield Finding(
            "info",
            (
                metric_evidence(
                    run,
                    norm,
                    highest,
                    highest,
                    values[highest],
                    limit_high=max(limits.times * around[highest], limits.size),
                ),
            ),
            {
                "what": "leaps to",
                "usual": around[highest],
                "count": len(spikes),
                "total": len(norm),
                "peak": values[highest],
            },
            onset=appeared(norm.steps, spikes[0]),
            recovered_at=norm.steps[after] if after <= last else None,
        )


def _goes_well(run: Run, limits: Limits) -> bool:
    """Say whether the run earns more and more while neither its KL nor its entropy is far."""
    gains = [
        track(run, name).values
        for name in ("reward_raw_mean", "dpo_accuracy", "dpo_margin")
        if logged(run, name)
    ]
    if not any(map(rises, gains)):
        return False
    far = {
        "kl_ref_token": limits.token,
        "kl_unknown": limits.token,
        "kl_ref_response": limits.response,
    }
    near = all(end_level(track(run, name).values) <= far[name] for name in far if logged(run, name))
    calm = all(
        limits.low * start_level(values) <= end_level(values) <= limits.high * start_level(values)
        for name in ("entropy", "entropy_unknown")
        if logged(run, name)
        for values in (track(run, name).values,)
    )
    return near and calm
