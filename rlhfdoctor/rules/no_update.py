"""Weights that never moved."""

from collections.abc import Iterator
from dataclasses import dataclass

from rlhfdoctor.measures import (
    SIGNS,
    TRENDS,
    Track,
    finite_rows,
    logged,
    metric_evidence,
    track,
)
from rlhfdoctor.model import Finding, Onset, Run, Skip
from rlhfdoctor.rules import rule
from rlhfdoctor.series import halves_differ


@dataclass(frozen=True, slots=True)
class Limits:
    """What counts as moving."""

    rows: int = 2  # logged rows of gradient norm 0 that prove it
    still: int = 10  # rows that prove a learning rate of 0, or a norm beside rewards all equal
    share: float = 0.99  # share of groups without reward spread that leaves nothing to learn
    float_noise: float = 1e-5  # reward units; a spread below is rounding
    standard_errors: float = 4.0  # between the halves of a metric: a trend needs an update


@rule(
    "UPD001",
    signal="update",
    needs=["rows>=1"],
    zeros=True,
    limits=Limits,
    text="the {what} is exactly 0 in {where}: {meaning}",
    brief="{what} 0 in every row",
)
def no_update(run: Run, limits: Limits) -> Iterator[Finding | Skip]:
    """No weight was ever updated.

    A learning rate of exactly 0 in every row updates nothing; warm-ups begin with a row or two of
    it, and a console that prints three decimals (verl's older ones) prints 1e-6 as 0: there it
    counts only where the configuration says 0 as well. A gradient norm of exactly 0 in every row
    has one of few causes: an adapter loaded without ``is_trainable`` (TRL 6700), frozen parameters,
    all labels masked, or no reward spread in any group (GRP001): where the log shows that there was
    none, a few rows prove nothing. Two rows beside a spread prove it (swift 5890). One row beside
    a spread (swift 5571) is information: its advantages were not zero, but a single step may have
    been skipped. Where no gradient norm is logged, a KL, a margin or a clip fraction that left zero
    shows updates, and so does a trend: halves that differ by more than four standard errors.

    Remedy: count the parameters that require a gradient; compare a checkpoint with the initial
    weights; there is nothing to go back to, restart after the fix.
    """
    if logged(run, "lr") and finite_rows(run, "lr") >= max(limits.rows, run.logged_steps // 2 + 1):
        rate = track(run, "lr")
        rounded = rate.column.printed and run.number("learning_rate") != 0
        if rate.placeholder and len(rate) >= limits.still and not rounded:
            yield _never(run, rate, "learning rate")
            return
    if logged(run, "grad_norm"):
        norm = track(run, "grad_norm")
        if run.logged_steps < limits.rows:
            yield from _one_row(run, norm, limits)
            return
        throughout = len(norm) >= limits.rows and 2 * len(norm) >= run.logged_steps
        if throughout and norm.placeholder:
            if len(norm) < limits.still and _spread(run, norm, limits) is False:
                yield Skip("", (f"{limits.still} rows, or two with a spread of the rewards",))
                return
            yield _never(run, norm, "gradient norm")
        if throughout or not norm.placeholder:
            return
    present = [track(run, name) for name in (*SIGNS, *TRENDS) if logged(run, name)]
    if not any(_moved(found, limits) for found in present):
        yield Skip("", ("grad_norm", "a KL, margin or trend that shows an update"))


def _one_row(run: Run, norm: Track, limits: Limits) -> Iterator[Finding | Skip]:
    """Tell of a log that is one gradient norm of 0 while the rewards beside it differ."""
    if norm.placeholder and _spread(run, norm, limits):
        yield Finding(
            "info",
            (metric_evidence(run, norm, 0, 0, 0.0, limit_low=0.0),),
            {
                "what": "gradient norm",
                "where": f"the one logged row, step {norm.steps[0]}",
                "meaning": "rewards differ within the groups, so something was to be learnt there; "
                "one row does not prove that nothing is",
            },
            onset=Onset(norm.steps[0], norm.steps[0], norm.steps[0]),
        )
    else:
        yield Skip("", (f"rows>={limits.rows}",))


def _spread(run: Run, norm: Track, limits: Limits) -> bool | None:
    """Say whether rewards differed within groups in some of these rows; None where unlogged."""
    rows = set(norm.steps)
    differs: list[bool] = []
    if logged(run, "frac_reward_zero_std"):
        groups = track(run, "frac_reward_zero_std")
        pairs = zip(groups.steps, groups.values, strict=True)
        differs = [value < limits.share for step, value in pairs if step in rows]
    elif logged(run, "reward_group_std"):
        groups = track(run, "reward_group_std")
        pairs = zip(groups.steps, groups.values, strict=True)
        differs = [value >= limits.float_noise for step, value in pairs if step in rows]
    return any(differs) if differs else None


def _never(run: Run, found: Track, what: str) -> Finding:
    return Finding(
        "critical",
        (metric_evidence(run, found, 0, len(found) - 1, 0.0, limit_low=0.0),),
        {
            "what": what,
            "where": f"all {len(found)} logged rows",
            "meaning": "no weight was updated",
        },
        onset=Onset(found.steps[0], found.steps[0], found.steps[0]),
        alone=True,
    )


def _moved(found: Track, limits: Limits) -> bool:
    if found.metric in SIGNS and not found.placeholder:
        return True
    return abs(halves_differ(found.values)) > limits.standard_errors
