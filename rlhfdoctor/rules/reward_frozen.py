"""Reward that stands still although the policy is updated."""

from collections.abc import Iterator
from dataclasses import dataclass

from rlhfdoctor.measures import finite_rows, metric_evidence, track
from rlhfdoctor.model import Finding, Onset, Run, Skip
from rlhfdoctor.rules import rule
from rlhfdoctor.series import noise


@dataclass(frozen=True, slots=True)
class Limits:
    """How still, for how long, and against which noise."""

    spread: float = 0.0025  # reward; highest minus lowest of the rows that stand still
    rows: int = 21  # logged rows in a row
    noise: float = 10.0  # times the spread: the row-to-row noise before
    moving: float = 0.5  # share of different losses or gradient norms meanwhile


@rule(
    "RWD006",
    signal="reward",
    needs=["reward_raw_mean", "rows>=20"],
    limits=Limits,
    text="the reward stays within {low:.4g}..{high:.4g} for {rows} logged rows while the {moves} "
    "moves; before, it varied by {noise:.2g} from row to row",
    brief="reward frozen at {high:.3g}",
)
def reward_frozen(run: Run, limits: Limits) -> Iterator[Finding | Skip]:
    """The reward freezes in mid-run, below what the run had reached, while updates go on.

    One run stood at .2051-.2073 from step 259 to 285 while its loss moved (DSE 586): the policy
    gives one constant output. The spread is that of this case; as rewards have no unit, the noise
    from row to row before must be ten times as large, so a smooth reward on its plateau is none.
    Rows at the start, at the highest level of the run (solved), or with losses that are repeated
    too (one logged value written many times) do not count. The longest stretch and the last one
    are told. [H]

    Remedy: read the samples of those steps: count the different answers; go back to before.
    """
    reward = track(run, "reward_raw_mean")
    values = reward.values
    if not any(finite_rows(run, name) for name in ("loss_total", "grad_norm")):
        yield Skip("", ("loss_total or grad_norm",))
        return
    moving = track(run, "loss_total", "grad_norm")
    still = _still(values, limits)
    longest = max(still, key=lambda found: found[1] - found[0], default=None)
    for first, last in sorted({longest, still[-1]} if longest else set()):
        low, high = min(values[first : last + 1]), max(values[first : last + 1])
        before = noise(values[:first])
        if high >= max(values[:first]) or before <= limits.noise * limits.spread:
            continue
        start, end = reward.steps[first], reward.steps[last]
        beside = [
            value
            for step, value in zip(moving.steps, moving.values, strict=True)
            if start <= step <= end
        ]
        if len(set(beside)) <= limits.moving * (last - first + 1):
            continue
        stands = last == len(values) - 1
        yield Finding(
            "critical" if stands else "info",
            (metric_evidence(run, reward, first, last, high, limit_low=low, limit_high=high),),
            {
                "low": low,
                "high": high,
                "rows": last - first + 1,
                "moves": "loss" if moving.metric == "loss_total" else "gradient norm",
                "noise": before,
            },
            onset=Onset(start, reward.steps[first - 1], start),
            recovered_at=None if stands else reward.steps[last + 1],
        )


def _still(values: list[float], limits: Limits) -> list[tuple[int, int]]:
    """Return stretches of enough rows within the spread, those that begin the run left out."""
    found: list[tuple[int, int]] = []
    first, low, high = 0, values[0], values[0]
    for index, value in enumerate([*values, float("inf")]):
        low, high = min(low, value), max(high, value)
        if high - low > limits.spread:
            if first > 0 and index - first >= limits.rows:
                found.append((first, index - 1))
            first, low, high = index, value, value
    return found
