"""A run for other tools: OpenMetrics for Prometheus, a Grafana dashboard, CSV and Parquet.

The time of a row is the trainer's clock where every logged step has one and it only goes forward;
otherwise second n after 1970 began is step n, and the text says so.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timezone
from io import BytesIO
from itertools import pairwise
from typing import Any, Literal, NamedTuple

import orjson
import polars as pl

from rlhfdoctor.curves import Panel, panels
from rlhfdoctor.model import Diagnosis, Run
from rlhfdoctor.vocabulary import metric_of

PREFIX = "rlhf_"
"""Of every family of metrics."""

DERIVED = {"moving average": "ma10", "90th percentile": "p90"}
"""Families of what ``curves`` derives, behind the column, by how its lines are called."""

COLUMNS = "rlhfdoctor.columns"
"""Key of a Parquet file's metadata under which stands, as JSON, what each column is."""

FORMULA = "=+-@\t\r"
"""Characters with which a spreadsheet begins a formula."""

SCHEMA_VERSION = 39
"""Of Grafana's classic dashboards (Grafana 11 and later import it)."""


class Clock(NamedTuple):
    """The time of logged steps, in seconds since 1970; logged: the trainer's own."""

    times: Mapping[int, float]
    logged: bool

    def at(self, step: int) -> float:
        """Return the time of a step, or of the last logged one before it; else of the first."""
        known = self.times.get(step)
        if known is None:
            before = [time for other, time in self.times.items() if other <= step]
            known = max(before, default=min(self.times.values(), default=float(step)))
        return known


def clock(run: Run) -> Clock:
    """Return the trainer's clock if it covers every step and only goes forward, else the steps."""
    steps = run.metrics["step"].to_list()
    told = (
        run.observations.filter(pl.col("wall_time").is_finite())
        .group_by("step")
        .agg(pl.col("wall_time").max())
        .collect()
    )
    times = dict(told.iter_rows())
    ordered = [times.get(step, math.nan) for step in steps]
    forward = all(one < other for one, other in pairwise(ordered))
    if ordered and forward and ordered[0] >= 0 and ordered[-1] < 2**40:
        return Clock(dict(zip(steps, ordered, strict=True)), True)
    return Clock({step: float(step) for step in steps}, False)


# Tables


def table(runs: Sequence[Run]) -> pl.DataFrame:
    """Return one row a run and step: columns under their canonical names, null where not logged."""
    frames = [
        run.metrics.select(pl.lit(run.name).alias("run"), pl.all().exclude("run")) for run in runs
    ]
    return pl.concat(frames, how="diagonal_relaxed")


def record(runs: Sequence[Run]) -> pl.LazyFrame:
    """Return everything that was logged as it was logged: one row a run, step, key and file."""
    frames = [run.observations.with_columns(pl.lit(run.name).alias("run")) for run in runs]
    return pl.concat(frames, how="diagonal_relaxed").select("run", pl.all().exclude("run"))


def tables(runs: Sequence[Run], form: Literal["csv", "parquet"], *, long: bool) -> str | bytes:
    """Return runs as a CSV or a Parquet file: ``table``, or ``record`` where long."""
    frame = record(runs) if long else table(runs).lazy()
    if form == "csv":
        return harmless(frame).collect().write_csv()
    buffer = BytesIO()
    frame.collect().write_parquet(buffer, metadata=columns(runs))
    return buffer.getvalue()


def columns(runs: Sequence[Run]) -> dict[str, str]:
    """Return the metadata of a Parquet file: unit, estimator and meaning of each column."""
    found: dict[str, Any] = {}
    for run in runs:
        for name, column in run.columns.items():
            metric = metric_of(name)
            found[name] = {
                "unit": column.unit,
                "estimator": column.estimator,
                "derived": column.derived,
                "meaning": metric.meaning if metric else None,
            }
    return {COLUMNS: orjson.dumps(found).decode()}


def harmless(frame: pl.LazyFrame) -> pl.LazyFrame:
    """Return a table whose texts no spreadsheet takes for a formula: a quote stands before them."""
    start = f"^[{re.escape(FORMULA)}]"
    schema = frame.collect_schema()
    texts = [
        pl.col(name).cast(pl.String)
        for name, kind in schema.items()
        if kind in (pl.String, pl.Categorical)
    ]
    quoted = [
        pl.when(text.str.contains(start)).then(pl.concat_str(pl.lit("'"), text)).otherwise(text)
        for text in texts
    ]
    named = {name: f"'{name}" for name in schema.names() if re.match(start, name)}
    return frame.with_columns(
        one.alias(text.meta.output_name()) for one, text in zip(quoted, texts, strict=True)
    ).rename(named)


# OpenMetrics


class Series(NamedTuple):
    """One labelled series: its family, the help of that, its labels, and (step, value) in order."""

    family: str
    help: str
    labels: str
    values: Iterable[tuple[int, float]]


def openmetrics(diagnoses: Sequence[Diagnosis]) -> Iterator[str]:
    """Yield runs as OpenMetrics text 1.0: a gauge for each column, by run, split and part.

    ``promtool tsdb create-blocks-from openmetrics`` makes blocks of it. Beside the columns stand
    the logged step, the three lines of the KL, and what was concluded: ``rlhf_verdict``,
    ``rlhf_onset``, ``rlhf_rollback``, ``rlhf_checkpoint``.
    """
    families: dict[str, list[tuple[Series, Clock]]] = {}
    for diagnosis in diagnoses:
        time = clock(diagnosis.run)
        for series in _series(diagnosis, time):
            families.setdefault(series.family, []).append((series, time))
    for name, found in sorted(families.items()):
        yield f"# TYPE {name} gauge\n# HELP {name} {_escaped(found[0][0].help)}\n"
        for series, time in found:
            yield "".join(
                f"{name}{{{series.labels}}} {_number(value)} {time.at(step):.3f}\n"
                for step, value in series.values
            )
    yield "# EOF\n"


def _series(diagnosis: Diagnosis, time: Clock) -> Iterator[Series]:
    """Yield all that is told of a run."""
    run = diagnosis.run
    how = "" if time.logged else "; the log has no clock: second n is step n"
    own = {"run": run.name, "framework": run.framework, "algorithm": run.algorithm}
    for name, column in run.columns.items():
        if name not in run.metrics.columns:
            continue
        family, labels = named(name)
        metric = metric_of(name)
        unit = ", ".join(part for part in (column.unit, column.estimator) if part)
        told = f"{metric.meaning if metric else column.metric} ({unit}){how}"
        rows = run.metrics.select("step", name).drop_nulls()
        yield Series(family, told, _labels({**own, **labels}), rows.iter_rows())
    for panel in panels(run):
        for line in panel.lines:
            ending = _derived(line.name)
            if ending:
                family, labels = named(line.column)
                told = f"{line.name} logged rows of {family} ({panel.unit}){how}"
                pairs = zip(line.steps, line.values, strict=True)
                yield Series(f"{family}_{ending}", told, _labels({**own, **labels}), pairs)
    if run.last_step is None:
        return
    steps = [(step, float(step)) for step in run.metrics["step"]]
    yield Series(f"{PREFIX}step", f"logged step{how}", _labels(own), steps)
    verdict = _labels({**own, "verdict": diagnosis.verdict})
    yield Series(f"{PREFIX}verdict", "what was concluded", verdict, [(run.last_step, 1.0)])
    if diagnosis.onset:
        began = diagnosis.onset.step
        yield Series(f"{PREFIX}onset", "where it began", _labels(own), [(began, float(began))])
    back = diagnosis.rollback.checkpoint if diagnosis.rollback.needed else None
    for family, told, saved in (
        ("checkpoint", "a saved policy", run.policies),
        ("rollback", "where to go back to", (back,) if back else ()),
    ):
        for item in saved:
            labels_of_it = _labels({**own, "checkpoint": item.name})
            place = [(item.step, float(item.step))]
            yield Series(f"{PREFIX}{family}", told, labels_of_it, place)


def named(column: str) -> tuple[str, dict[str, str]]:
    """Return the family of a column and the labels that tell it from others of that family."""
    base, _, part = column.removeprefix("eval_").partition("[")
    labels = {"split": "eval" if column.startswith("eval_") else "train"}
    if part:
        labels["part"] = part.removesuffix("]")
    return PREFIX + re.sub(r"[^a-zA-Z0-9_]", "_", base), labels


def _derived(line: str) -> str | None:
    return next((end for start, end in DERIVED.items() if line.startswith(start)), None)


def _labels(labels: Mapping[str, str]) -> str:
    return ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items())


def _escaped(text: str) -> str:
    told = text.encode("utf-8", "backslashreplace").decode()
    return told.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def _number(value: float) -> str:
    if math.isfinite(value):
        return repr(float(value))
    return "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"


# Grafana

WIDTH, HEIGHT = 12, 8
"""Of a panel, in units of Grafana's grid, 24 units wide."""


def dashboard(diagnoses: Sequence[Diagnosis]) -> str:
    """Return a dashboard for what ``openmetrics`` writes: a panel for each quantity and unit.

    Bands are drawn only where the unit is known, from the limits by which the runs were judged.
    """
    ids = hashlib.sha256("|".join(item.run.path for item in diagnoses).encode()).hexdigest()
    drawn: dict[tuple[str, str, str | None], tuple[Panel, Diagnosis]] = {}
    for diagnosis in diagnoses:
        for panel in panels(diagnosis.run):
            key = (panel.quantity, panel.unit, panel.estimator)
            if not panel.placeholder:
                drawn.setdefault(key, (panel, diagnosis))
    times = [clock(item.run) for item in diagnoses]
    ends = [time for one in times for time in one.times.values()]
    document = {
        "__inputs": [
            {
                "name": "DS_PROMETHEUS",
                "label": "Prometheus",
                "description": "holds what rlhfdoctor export --to openmetrics wrote",
                "type": "datasource",
                "pluginId": "prometheus",
                "pluginName": "Prometheus",
            }
        ],
        "__requires": [
            {"type": "grafana", "id": "grafana", "name": "Grafana", "version": "11.0.0"},
            {"type": "datasource", "id": "prometheus", "name": "Prometheus", "version": "1.0.0"},
            {"type": "panel", "id": "timeseries", "name": "Time series", "version": ""},
        ],
        "id": None,
        "uid": f"rlhf-{ids[:12]}",
        "title": "RLHF runs",
        "description": _clocks(times),
        "tags": ["rlhf"],
        "timezone": "utc",
        "editable": True,
        "graphTooltip": 1,
        "schemaVersion": SCHEMA_VERSION,
        "version": 1,
        "refresh": "",
        "time": {"from": _iso(min(ends, default=0.0)), "to": _iso(max(ends, default=0.0) + 1)},
        "timepicker": {},
        "templating": {"list": [_runs_variable()]},
        "annotations": {"list": [_annotation(*item) for item in ANNOTATIONS]},
        "links": [],
        "panels": [
            _panel(place, panel, diagnosis)
            for place, (panel, diagnosis) in enumerate(drawn.values())
        ],
    }
    return orjson.dumps(document, option=orjson.OPT_INDENT_2).decode() + "\n"


SOURCE = {"type": "prometheus", "uid": "${DS_PROMETHEUS}"}

ANNOTATIONS = (
    ("Onset", "onset", "red", "it began at step {{__value__}}"),
    ("Checkpoints", "checkpoint", "blue", "{{checkpoint}}"),
    ("Go back to", "rollback", "green", "{{checkpoint}}"),
)
"""Name, family, colour and text of what is marked in every panel."""


def _annotation(name: str, family: str, colour: str, text: str) -> dict[str, Any]:
    return {
        "name": name,
        "datasource": SOURCE,
        "enable": True,
        "iconColor": colour,
        "expr": f'{PREFIX}{family}{{run=~"$run"}}',
        "step": "1s",
        "titleFormat": f"{name} {{{{run}}}}",
        "textFormat": text,
    }


def _runs_variable() -> dict[str, Any]:
    query = f"label_values({PREFIX}step, run)"
    return {
        "name": "run",
        "label": "Run",
        "type": "query",
        "datasource": SOURCE,
        "query": {"query": query, "refId": "runs"},
        "definition": query,
        "refresh": 2,
        "sort": 1,
        "multi": True,
        "includeAll": True,
        "current": {"text": "All", "value": "$__all"},
    }


def _panel(place: int, panel: Panel, diagnosis: Diagnosis) -> dict[str, Any]:
    targets = [
        {
            "refId": f"L{index}",
            "datasource": SOURCE,
            "expr": _query(line.column, _derived(line.name)),
            "legendFormat": f"{{{{run}}}} {line.name}",
        }
        for index, line in enumerate(panel.lines)
    ]
    steps, told = bands(panel, diagnosis)
    unit = f"{panel.unit}, {panel.estimator}" if panel.estimator else panel.unit
    return {
        "id": place + 1,
        "type": "timeseries",
        "title": f"{panel.quantity} ({unit})",
        "description": told,
        "datasource": SOURCE,
        "gridPos": {
            "x": place % 2 * WIDTH,
            "y": place // 2 * HEIGHT,
            "w": WIDTH,
            "h": HEIGHT,
        },
        "targets": targets,
        "fieldConfig": {
            "defaults": {
                "custom": {
                    "drawStyle": "line",
                    "spanNulls": True,
                    "axisLabel": panel.unit,
                    "thresholdsStyle": {"mode": "line+area" if len(steps) > 1 else "off"},
                },
                "thresholds": {"mode": "absolute", "steps": steps},
            },
            "overrides": [],
        },
        "options": {
            "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True},
            "tooltip": {"mode": "multi", "sort": "none"},
        },
    }


def _query(column: str, ending: str | None) -> str:
    family, labels = named(column)
    given = ", ".join(f'{name}="{_escaped(value)}"' for name, value in labels.items())
    name = f"{family}_{ending}" if ending else family
    return f'{name}{{run=~"$run", {given}}}'


def bands(panel: Panel, diagnosis: Diagnosis) -> tuple[list[dict[str, Any]], str]:
    """Return the thresholds of a panel and what they are; none where the unit is not known."""
    limits = diagnosis.limits
    steps: list[tuple[float | None, str]] = [(None, "transparent")]
    told = ""
    columns = {line.column for line in panel.lines}
    if columns == {"kl_ref_response"}:
        low, high = limits["KL001"]["low"], limits["KL001"]["high"]
        ceiling = limits["KL002"]["ceiling"]
        steps += [(float(f"{low}"), "green"), (float(f"{high}"), "transparent")]
        steps += [(float(f"{ceiling}"), "red")] if ceiling > high else []  # type: ignore[operator]
        told = f"band {low}-{high} (KL001, information), alarm from {ceiling} (KL002)"
    elif columns == {"kl_ref_token"}:
        ceiling = limits["KL003"]["ceiling"]
        steps.append((float(f"{ceiling}"), "red"))
        told = f"alarm from {ceiling} (KL003)"
    elif panel.unit == "unknown":
        told = "nobody said the unit: no band"
    return [{"value": value, "color": colour} for value, colour in steps], told


def _clocks(times: Iterable[Clock]) -> str:
    if all(item.logged for item in times):
        return "The time is the trainer's clock."
    return "A log without a clock: second n after 1970 began is step n."


def _iso(time: float) -> str:
    moment = datetime.fromtimestamp(time, timezone.utc)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
