"""NaN and infinity in the log."""

from collections.abc import Iterator
from dataclasses import dataclass

import polars as pl

from rlhfdoctor.measures import locate
from rlhfdoctor.model import Evidence, Finding, Onset, Run, Skip
from rlhfdoctor.rules import rule
from rlhfdoctor.vocabulary import metric_of


@dataclass(frozen=True, slots=True)
class Limits:
    """When values that are not finite are the end of the run."""

    rows: int = 5  # last logged rows of the metric; fewer where the log is shorter


@rule(
    "NUM001",
    signal="numbers",
    needs=["rows>=1"],
    limits=Limits,
    text="{metric} is not finite ({value}) from step {step} on, first of {names}; {count} rows",
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
    broken: list[tuple[int, str, float, bool, int]] = []
    for name in run.columns:
        values = run.metrics.select("step", name).drop_nulls(name)
        bad = values.filter(~pl.col(name).is_finite())
        if bad.height:
            step, value = bad.row(0)
            tail = values.tail(limits.rows)
            to_the_end = bool(tail.select((~pl.col(name).is_finite()).all()).item())
            broken.append((step, name, value, to_the_end, bad.height))
    if not broken:
        return
    broken.sort()
    lasting = [item for item in broken if item[3] and _fatal(item[1])]
    measured = [item for item in broken if item[3] and _core(item[1])]
    step, name, value, _, count = (lasting or measured or broken)[0]
    yield Finding(
        "critical" if lasting else "warning" if measured else "info",
        tuple(
            Evidence(
                kind="metric",
                subject=other,
                observed=bad,
                where=locate(run, other, first),
                unit=run.columns[other].unit,
                first_step=first,
                last_step=run.last_step,
            )
            for first, other, bad, _, _ in broken[:10]
        ),
        {
            "metric": name,
            "value": f"{value}",
            "step": step,
            "count": count,
            "names": ", ".join(item[1] for item in broken[:5]),
        },
        onset=Onset(step, step, step),
        recovered_at=None if measured else run.last_step,
        alone=bool(lasting),
    )


def _core(column: str) -> bool:
    metric = metric_of(column)
    return metric is not None and metric.core


def _fatal(column: str) -> bool:
    return _core(column) and not column.startswith(("kl_", "eval_"))
