"""A preference loss that is above that of an untrained policy from the first row on."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from statistics import median

import polars as pl

from rlhfdoctor.measures import Track, logged, metric_evidence, track
from rlhfdoctor.model import Finding, Onset, Run, Skip
from rlhfdoctor.rules import rule
from rlhfdoctor.rules._preference import rewards_and_margins
from rlhfdoctor.series import mean_error


@dataclass(frozen=True, slots=True)
class Limits:
    """How far above ln 2, how near to chance, and which other losses begin there."""

    above: float = 0.2  # loss above ln 2 in every row: margins spread by 1.3 nats*beta or more
    chance: float = 0.06  # accuracy above one half that is still chance
    rows: int = 4  # logged rows
    epochs: float = 0.5  # epochs after which chance is no slow start
    agree: float = 0.02  # nats*beta; a first margin below means that the loss has other terms
    same: float = 0.02  # share of a known loss (hinge, IPO, a sum) within which it is that loss


@rule(
    "DPO005",
    signal="accuracy",
    needs=["dpo_accuracy"],
    any_of=["policy_loss", "loss_total"],
    zeros=True,
    limits=Limits,
    text="the loss is at least {lowest:.3g} in all {count} logged rows, above the 0.693 where a "
    "sigmoid loss begins, and the accuracy is {accuracy:.2f}: policy and reference disagree from "
    "the first row on",
    brief="loss above ln 2 in every row, accuracy {accuracy:.2f}",
)
def loss_above_chance(run: Run, limits: Limits) -> Iterator[Finding | Skip]:
    """Policy and reference disagreed before training, and nothing was learnt of the preferences.

    A sigmoid preference loss is ln 2 = 0.693 while both models agree. It is above only where
    margins are negative or wide: with margins that scatter by s around 0 it is near
    ln 2 + s^2 / 8. Such a loss in every row, the first included, beside an accuracy of chance says
    that the log-ratios are wide noise: the reference is another model or lacks an adapter, or the
    labels are not the answers'. Before half an epoch it is information. [H]

    Other losses begin above ln 2 and are no fault: ORPO, SimPO, CPO, KTO, IPO (1 / (4 beta^2)),
    hinge (1), and a supervised term. They are left alone where the algorithm, a column, beta, or
    margins of 0 in the first row tell of them, and so is a loss at a multiple of ln 2, summed over
    gradient accumulation (transformers 4.46). What no log tells is the kind of a loss that stands
    alone: there the accuracy at chance is what makes it a fault.

    Remedy: recompute the first batch: policy and reference must agree before the first update; give
    the reference the adapter that the policy starts from; then check the template and the labels.
    """
    loss, accuracy = track(run, "policy_loss", "loss_total"), track(run, "dpo_accuracy")
    if min(len(loss), len(accuracy)) < limits.rows:
        yield Skip("", (f"rows>={limits.rows}",))
        return
    lowest, share = min(loss.values), mean_error(accuracy.values)[0]
    late = mean_error(accuracy.values[len(accuracy) // 2 :])[0]
    chance = 0.5 + limits.chance
    if lowest <= math.log(2) + limits.above or max(share, late) > chance:
        return
    other = _other_kind(run, loss, limits)
    if other:
        yield Skip("", (f"a plain sigmoid loss, {other}",))
        return
    last = run.metrics.filter(pl.col("step") == loss.steps[-1])["epoch"][0]
    yield Finding(
        "warning" if last is not None and last >= limits.epochs else "info",
        (
            metric_evidence(run, loss, 0, len(loss) - 1, lowest, limit_high=math.log(2)),
            metric_evidence(run, accuracy, 0, len(accuracy) - 1, share, limit_low=chance),
        ),
        {"lowest": lowest, "count": len(loss), "accuracy": share},
        onset=Onset(loss.steps[0], loss.steps[0], loss.steps[0]),
    )


def _other_kind(run: Run, loss: Track, limits: Limits) -> str | None:
    """Say why this loss need not begin at ln 2; None where nothing tells."""
    if run.algorithm != "DPO":
        return f"the algorithm is {run.algorithm}"
    if loss.metric == "loss_total" and logged(run, "sft_loss"):
        return "this one holds a supervised term"
    pairs = rewards_and_margins(run, "")
    if pairs and abs(pairs[1][0]) < limits.agree:
        return "this one is above ln 2 although the first margin is 0"
    beta = run.number("kl_coef")
    starts = {"hinge": 1.0, **({"IPO": 0.25 / beta**2} if beta else {})}
    for name, value in starts.items():
        if abs(loss.values[0] - value) < limits.same * value:
            return f"this one begins where {name} does"
    times = round(min(median(loss.values) / math.log(2), 1e6))
    sums = times * math.log(2)
    if all(abs(value - sums) < limits.same * sums for value in loss.values):
        return f"this one is {times} x ln 2 in every row, a sum over batches"
    return None
