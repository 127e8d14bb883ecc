"""NaN and infinity in the log."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from typing import NamedTuple

import polars as pl

from rlhfdoctor.measures import locate
from rlhfdoctor.model import Evidence, Finding, Onset, Run, Severity, Skip
from rlhfdoctor.rules import rule
from rlhfdoctor.vocabulary import metric_of


@dataclass(frozen=True, slots=True)
class Limits:
    """When values that are not finite last, and what a loss does before it diverges."""

    patience: int = 5  # last logged rows of the metric; fewer where the log is shorter
    few: int = 3  # rows not finite that last where they are most of the log and its end
    agreed: int = 2  # last logged rows in which the loss and another core metric broke for good
    jump: float = 10.0  # |loss| of the row before, over its median until then: divergence
    large: float = 10.0  # |loss| of the row before that is a divergence (DSE 444: 30.9, then inf)


@rule(
    "NUM001",
    signal="numbers",
    needs=["rows>=1"],
    zeros=True,
    limits=Limits,
    text="{metric} is {value} at step {step}, first of {names}; not finite in {rows} rows; "
    "suspect: {suspect}",
    brief="{metric} is {value} from step {step}",
)
def non_finite(run: Run, limits: Limits) -> Iterator[Finding | Skip]:
    """A logged number became NaN or infinite.

    Which metric fails first tells where to look: the gradient norm first means optimiser or
    precision, log-probabilities or loss first the data, the KL alone its estimator (exp overflow,
    inf x 0 on padding), logits beside finite log-probabilities the metric (TRL 2994), a supervised
    loss alone labels that are all masked (swift 3276), a spread that is NaN from the start a group
    of one (R1-V 69). A loss ten times its normal in the row before is a divergence (DSE 444).

    A run that breaks is stopped at once, so that its log may end with a row or a few of it. A loss
    that is not finite in its last rows, together with the gradient norm or another metric of the
    core, and that was never finite in between, is the end of the run from ``agreed`` rows on; one
    such row is a warning, and so are as many of a loss that breaks alone.

    Loss, gradient norm, reward, entropy, margins and log-probabilities that are not finite to the
    end are the end of the run. Where the gradient norm beside them stays finite and above 0 they
    are a warning: weights that are not finite have no such gradient, so what broke is a batch or a
    mean over nothing. A loss or a reward that stays so is believed all the same, for nobody can say
    any longer what is learnt; only KTO's, a mean over batches of one label, and that of a log too
    short to tell are warnings. The KL or an evaluation alone is a fault of the measurement and a
    warning too. Information is what was never finite beside such a gradient or in evaluations alone
    (it was never computed: TRL's eval/entropy), other metrics, values that came back (one overflow
    of a loss scaler is benign), and KTO's metrics of one class, NaN for every batch without it.
    Trainers with ``logging_nan_inf_filter`` hide a NaN loss behind the running average.

    Remedy: go back to the last checkpoint whose weights and optimizer state are finite, before the
    first anomaly; change precision or learning rate first; never resume with the same settings.
    """
    found = sorted(one for name in run.columns if (one := _broken(run, name, limits)))
    broken = _agreed(run, found, limits)
    if not broken:
        return
    graded = [(_severity(run, item), item) for item in broken]
    severity: Severity = min((grade for grade, _ in graded), key=_ORDER.index)
    speaking = [item for grade, item in graded if grade == severity]
    others = [item for grade, item in graded if grade != severity]
    first = speaking[0]
    yield Finding(
        severity,
        tuple(
            Evidence(
                kind="metric",
                subject=item.name,
                observed=item.value,
                where=locate(run, item.name, item.step),
                unit=run.columns[item.name].unit,
                first_step=item.step,
                last_step=item.back or run.last_step,
            )
            for item in (*speaking, *others)[:10]
        ),
        {
            "metric": first.name,
            "value": f"{first.value}",
            "step": first.step,
            "rows": first.rows,
            "names": ", ".join(item.name for item in speaking[:5]),
            "suspect": _suspect(run, broken, limits),
        },
        onset=Onset(first.step, first.step, first.step),
        recovered_at=first.back,
        alone=severity == "critical",
    )


_ORDER: tuple[Severity, ...] = ("critical", "warning", "info")

_CLASSES = ("dpo_reward_", "dpo_margin", "logp_", "logit_")
"""Metrics that a KTO batch without one of its two labels cannot have."""


class _Broken(NamedTuple):
    """A metric that was not finite: since when, in how many rows, and when it came back.

    alive: the gradient norm beside it is finite and above 0. ever: it was finite in some row.
    short: no more than ``few`` and the half of a short log, or what broke with it, say that it
    lasts. last: the last step where it was not finite. ends: it was never finite after the first.
    at_most: the gravest that it may be.
    """

    step: int
    name: str
    value: float
    rows: int
    lasts: bool
    back: int | None
    alive: bool
    ever: bool
    short: bool
    last: int
    ends: bool
    at_most: Severity = "critical"


def _broken(run: Run, name: str, limits: Limits) -> _Broken | None:
    """Look for values that are not finite.

    They last where the last ``patience`` values are not finite, or at least half of those since
    the first and no fewer than ``patience``: a finite row now and then is no recovery. In a short
    log ``few`` are enough that are more than half of it and hold its end.
    """
    values = run.metrics.select("step", name).drop_nulls(name)
    bad = values.filter(~pl.col(name).is_finite())
    if not bad.height:
        return None
    step, value = bad.row(0)
    since = values.filter(pl.col("step") >= step)
    tail = bool((~values.tail(limits.patience)[name].is_finite()).all())
    most = bad.height >= limits.patience and 2 * bad.height >= since.height
    ends = bad["step"][-1] == values["step"][-1]
    short = ends and bad.height >= limits.few and 2 * bad.height > values.height
    lasts = tail or most or short
    after = values.filter(pl.col("step") > bad["step"][-1])
    back = int(after["step"][0]) if after.height and not lasts else None
    ever = bad.height < values.height
    alive = _alive(run, bad["step"])
    return _Broken(
        step,
        name,
        value,
        bad.height,
        lasts,
        back,
        alive,
        ever,
        short and not (tail or most),
        int(bad["step"][-1]),
        bad.height == since.height,
    )


def _agreed(run: Run, broken: Sequence[_Broken], limits: Limits) -> list[_Broken]:
    """Let what broke together with the loss at the end of the log last, however few its rows."""
    core = [item for item in broken if item.ends and _ends_a_run(run, item)]
    losses = [item for item in core if item.name in _LOSSES]
    others = [item for item in core if item.name not in _LOSSES]
    believed: dict[str, Severity] = {}
    for item in core:
        rows = max(
            (
                min(item.rows, other.rows)
                for other in (others if item in losses else losses)
                if other.step <= item.last and item.step <= other.last
            ),
            default=0,
        )
        if rows >= limits.agreed:
            believed[item.name] = "critical"
        elif (rows and not item.alive) or (item in losses and item.rows >= limits.agreed):
            believed[item.name] = "warning"
    return [
        item._replace(lasts=True, short=True, at_most=believed[item.name])
        if item.name in believed and not item.lasts
        else item
        for item in broken
    ]


_LOSSES = ("loss_total", "policy_loss")
"""What is minimised; a trainer logs one of them or both."""


def _ends_a_run(run: Run, item: _Broken) -> bool:
    """Say whether it can end a run that it is not finite: no measurement, no batch of one label."""
    metric = metric_of(item.name)
    return (
        (item.name in _LOSSES or (metric is not None and metric.core))
        and not item.name.startswith(("eval_", "kl_"))
        and not _of_one_class(run, item.name)
        and not (item.alive and _unpaired(run))
    )


def _alive(run: Run, steps: pl.Series) -> bool:
    """Say whether the gradient norm is logged at some of these steps, finite and above 0 there."""
    if "grad_norm" not in run.columns:
        return False
    norms = run.metrics.filter(pl.col("step").is_in(steps.to_list()))["grad_norm"].drop_nulls()
    return norms.len() > 0 and bool((norms.is_finite() & (norms > 0.0)).all())


def _severity(run: Run, item: _Broken) -> Severity:
    return max(_grade(run, item), item.at_most, key=_ORDER.index)


def _grade(run: Run, item: _Broken) -> Severity:
    metric = metric_of(item.name)
    if not item.lasts or metric is None or not metric.core or _of_one_class(run, item.name):
        return "info"
    if item.name.startswith("eval_"):
        return "warning" if item.ever else "info"
    if item.alive and not item.ever and not item.name.startswith(("loss_", "reward_")):
        return "info"
    aimed_at = item.name.startswith(("loss_", "reward_")) and not item.short and not _unpaired(run)
    excused = item.alive and not aimed_at
    return "warning" if excused or item.name.startswith("kl_") else "critical"


def _unpaired(run: Run) -> bool:
    return run.algorithm == "KTO" or "kto_kl_baseline" in run.columns


def _of_one_class(run: Run, name: str) -> bool:
    return _unpaired(run) and name.removeprefix("eval_").startswith(_CLASSES)


def _suspect(run: Run, every: Sequence[_Broken], limits: Limits) -> str:
    """Say in words what is behind it, from what broke first among what lasts (where any does)."""
    broken = [item for item in every if item.lasts] or every
    names = [item.name for item in broken]
    first = [item.name for item in broken if item.step == broken[0].step]
    ratio = _jump(run, broken[0].step, limits)
    if ratio is not None:
        return f"a divergence, the loss was {ratio:.3g} times its normal in the row before"
    if all(name.startswith("eval_") for name in names):
        return "the evaluation or its logging"
    if all(_of_one_class(run, name) for name in names):
        return "batches without one of the two labels, by design"
    if all(item.alive for item in broken) and any(_of_one_class(run, item.name) for item in every):
        return "a mean over batches without one of the two labels; the gradient is finite"
    for prefix, words in _ALONE:
        if all(name.startswith(prefix) for name in names):
            return words
    if all(item.back is not None for item in broken):
        return "an overflow that passed"
    if all(item.alive for item in broken):
        return "a batch or a mean over nothing; the gradient is finite"
    if not any(item.ever for item in broken):
        return "precision, weights or data; the log begins with it"
    if "grad_norm" in first:
        return "optimiser or precision" if first == ["grad_norm"] else "precision or a bad batch"
    if all(name.startswith("kl_") for name in first):
        return "the KL, which overflowed before the loss that holds it"
    if "grad_norm" in run.columns and any(name.startswith(_FORWARD) for name in first):
        return "data or labels, before the gradient"
    return "the log does not tell data from precision"


_FORWARD = ("loss_total", "policy_loss", "logp_")
"""Metrics of the forward pass: where they break before the gradient norm, the weights were fine."""

_ALONE: tuple[tuple[str | tuple[str, ...], str], ...] = (
    ("kl_", "the KL estimator (exp overflow, inf x 0 on padding), not the weights"),
    ("logit_", "the metric, nothing else broke"),
    ("sft_loss", "labels that are all masked (-100)"),
    (("reward_std", "reward_group_std"), "groups of one response, whose spread is not defined"),
)
"""What it means that nothing else broke, by the beginning of the names."""


def _jump(run: Run, step: int, limits: Limits) -> float | None:
    """Return how many times its normal the loss was in the row before ``step``, where it jumped."""
    if "loss_total" not in run.columns:
        return None
    rows = run.metrics.filter(pl.col("step") < step)["loss_total"].drop_nulls().tail(100)
    before = [abs(value) for value in rows.to_list()]
    if len(before) <= limits.few or not before[-1] >= limits.large:
        return None
    normal = median(before[:-1])
    return before[-1] / normal if normal > 0.0 and before[-1] > limits.jump * normal else None
