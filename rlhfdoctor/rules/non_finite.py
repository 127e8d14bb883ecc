"""NaN and infinity in the log."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import polars as pl

from rlhfdoctor.measures import locate
from rlhfdoctor.model import Evidence, Finding, Onset, Run, Skip
from rlhfdoctor.rules import rule
from rlhfdoctor.vocabulary import metric_of


@dataclass(frozen=True, slots=True)
class Limits:
    """When values that are not finite are the end of the run."""

    patience: int = 5  # last logged rows of the metric; fewer where the log is shorter


@rule(
    "NUM001",
    signal="numbers",
    needs=["rows>=1"],
    zeros=True,
    limits=Limits,
    text="{metric} is {value} at step {step}, first of {names}; not finite in {rows} rows",
    brief="{metric} is {value} from step {step}",
)
def non_finite(run: Run, limits: Limits) -> Iterator[Finding | Skip]:
    """A logged number became NaN or infinite.

    Which metric fails first tells where to look: the gradient norm first means optimiser or
    precision, log-probabilities first the data, the KL alone its estimator (exp overflow, inf x 0
    on padding). Loss, gradient norm, reward, entropy, margins and log-probabilities that are not
    finite to the end are the end of the run; the KL or an evaluation alone is a fault of the
    measurement and a warning; other metrics, and values that came back, are information (one
    overflow of a loss scaler is benign, the spread of a group of one is NaN by definition).
    Trainers with ``logging_nan_inf_filter`` hide a NaN loss behind the running average.

    Remedy: go back to the last checkpoint whose weights and optimizer state are finite, before the
    first anomaly; change precision or learning rate first; never resume with the same settings.
    """
    broken = sorted(found for name in run.columns if (found := _broken(run, name, limits.patience)))
    if not broken:
        return
    fatal = [item for item in broken if item.lasts and _fatal(item.name)]
    lasting = [item for item in broken if item.lasts and _core(item.name)]
    speaking = fatal or lasting or broken
    first = speaking[0]
    others = [item for item in broken if item not in speaking]
    yield Finding(
        "critical" if fatal else "warning" if lasting else "info",
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
        },
        onset=Onset(first.step, first.step, first.step),
        recovered_at=first.back,
        alone=bool(fatal),
    )


class _Broken(NamedTuple):
    """A metric that was not finite: since when, in how many rows, and when it came back."""

    step: int
    name: str
    value: float
    rows: int
    lasts: bool
    back: int | None


def _broken(run: Run, name: str, patience: int) -> _Broken | None:
    """Look for values that are not finite.

    They last where the last ``patience`` values are not finite, or at least half of those since
    the first and no fewer than ``patience``: a finite row now and then is no recovery.
    """
    values = run.metrics.select("step", name).drop_nulls(name)
    bad = values.filter(~pl.col(name).is_finite())
    if not bad.height:
        return None
    step, value = bad.row(0)
    since = values.filter(pl.col("step") >= step)
    tail = bool((~values.tail(patience)[name].is_finite()).all())
    lasts = tail or (bad.height >= patience and 2 * bad.height >= since.height)
    after = values.filter(pl.col("step") > bad["step"][-1])
    back = int(after["step"][0]) if after.height and not lasts else None
    return _Broken(step, name, value, bad.height, lasts, back)


def _core(column: str) -> bool:
    metric = metric_of(column)
    return metric is not None and metric.core


def _fatal(column: str) -> bool:
    return _core(column) and not column.startswith(("kl_", "eval_"))
