"""An update that begins with a policy other than the one that sampled."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from statistics import median

from rlhfdoctor.measures import Track, logged, metric_evidence, track
from rlhfdoctor.model import Finding, Onset, Run, Skip
from rlhfdoctor.rules import rule
from rlhfdoctor.series import start_level


@dataclass(frozen=True, slots=True)
class Limits:
    """How far from 1 and 0 a log may begin, and what counts as staying there."""

    rows: int = 3  # first logged rows; as many at the least on each other side of a comparison
    low: float = 0.8  # importance ratio
    high: float = 1.25  # importance ratio
    same: float = 0.1  # relative distance from the first ratio that is still the same factor
    share: float = 0.9  # of the rows that hold that factor
    kl: float = 0.05  # nats per token, to the policy that sampled
    rate: float = 0.1  # of the highest learning rate; a rate below moves next to nothing
    stays: float = 0.5  # of the KL at high rates; what it is above at low ones, and vice versa


@rule(
    "REF007",
    signal="mismatch",
    any_of=["ratio_mean", "kl_old_token"],
    zeros=True,
    limits=Limits,
    text="{what} is {level:.3g} in the first rows, where {want:g} is due{more}",
    brief="{what} begins at {level:.3g}",
)
def ratio_at_start(run: Run, limits: Limits) -> Iterator[Finding | Skip]:
    """The first updates begin with an importance ratio that is not 1.

    Before its first update the policy is the one that sampled: the ratio is 1 and the KL between
    the two is 0 ("float around 1.0; 2.0, 1000 or 0.1 too drastic", TRL's documentation; the band of
    0.8 to 1.25 is PPO's usual clip range and its inverse). Other numbers mean that the two passes
    compute different log-probabilities: position ids under left padding (trlx 509, OpenRLHF 217),
    a missing attention mask (TRL 2708), padded against unpadded batches (NeMo-Aligner 68), a
    temperature that one of them ignores (TRL 4159: 2.0 at 0.6; a kept mass of 0.896 at top_p 0.8,
    TRL 7269), dropout.

    A logged row averages the inner updates of its step, so a single number proves nothing: several
    epochs on one batch move the ratio (TRL 454: 1.0 to 1.10 in 64 updates), a high learning rate by
    far more. Two shapes are no learning: a ratio that keeps one factor through the whole log, and
    a KL as high at a tenth of the learning rate as at the full one, since what updates move shrinks
    with the rate squared. These are warnings, the rest is information. The width of "same", the
    KL of 0.05 (half the 0.1 at which TRL once stopped an epoch) and the shares are rules of thumb.
    [H]

    Remedy: compute one logged batch again with batch size 1 and right padding: if the ratio is then
    1, it is padding or position ids; else compare temperature, attention mask and dropout of the
    two passes. Restart after the fix: every update so far was weighted wrongly.
    """
    found = [track(run, name) for name in ("ratio_mean", "kl_old_token") if logged(run, name)]
    found = [item for item in found if item.metric != "ratio_mean" or not item.placeholder]
    begun = [item for item in found if item.steps[0] <= max(run.log_offset, 1)]
    if not begun or run.step_unit == "row":
        yield Skip("", ("a log that begins at the first update",))
        return
    for item in begun:
        is_ratio = item.metric == "ratio_mean"
        level = start_level(item.values, limits.rows)
        low, high = (limits.low, limits.high) if is_ratio else (-limits.kl, limits.kl)
        if low <= level <= high:
            continue
        proof = _factor(item, level, limits) if is_ratio else _idle(run, item, limits)
        yield Finding(
            "warning" if proof else "info",
            (
                metric_evidence(
                    run,
                    item,
                    0,
                    min(limits.rows, len(item)) - 1,
                    level,
                    limit_low=low,
                    limit_high=high,
                ),
            ),
            {
                "what": "the importance ratio" if is_ratio else "the KL to the sampling policy",
                "level": level,
                "want": 1.0 if is_ratio else 0.0,
                "more": proof or ", or the mean over the inner updates of a step",
            },
            onset=Onset(item.steps[0], item.steps[0], item.steps[0]),
        )


def _factor(ratio: Track, level: float, limits: Limits) -> str:
    """Say that the ratio keeps its first factor to the end of the log; "" where it does not.

    Ratios of whole responses are products of hundreds: their mean is not 1 for want of samples.
    """
    if len(ratio) < 2 * limits.rows or "whole responses" in (ratio.column.reduction or ""):
        return ""
    held = [abs(value - level) <= limits.same * level for value in ratio.values]
    if sum(held) < limits.share * len(held) or not all(held[-limits.rows :]):
        return ""
    return f"; it stays off by the same factor in {sum(held)} of {len(held)} rows: no learning"


def _idle(run: Run, kl: Track, limits: Limits) -> str:
    """Say that the KL is the same where the learning rate moves next to nothing; "" where not."""
    if not logged(run, "lr"):
        return ""
    lr = track(run, "lr")
    rates = dict(zip(lr.steps, lr.values, strict=True))
    highest = max(lr.values)
    known = [
        (rates[step], abs(value))
        for step, value in zip(kl.steps, kl.values, strict=True)
        if step in rates
    ]
    slow = [value for rate, value in known if rate <= limits.rate * highest]
    fast = [value for rate, value in known if rate >= 0.5 * highest]
    if highest <= 0.0 or min(len(slow), len(fast)) < limits.rows:
        return ""
    still, moving = median(slow), median(fast)
    if not limits.stays <= still / max(moving, math.ulp(0.0)) <= 1 / limits.stays:
        return ""
    return f"; it is {still:.3g} where the learning rate is next to 0, {moving:.3g} where it is not"
