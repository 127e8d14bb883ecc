"""A run for other tools: OpenMetrics for Prometheus, a Grafana dashboard, CSV and Parquet.

The time of a row is the trainer's clock where every logged step has one and it only goes forward;
otherwise second n after 1970 began is step n, and the text says so.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timezone
from io import BytesIO
from itertools import pairwise
from typing import Any, Literal, NamedTuple, cast

import orjson
import polars as pl

from rlhfdoctor.curves import WINDOW, Line, Panel, marks, panels
from rlhfdoctor.model import Diagnosis, Run
from rlhfdoctor.vocabulary import metric_of

PREFIX = "rlhf_"
"""Of every family of metrics."""

ENDINGS = {"value": "", "mean": f"_ma{WINDOW}", "p90": "_p90"}
"""What stands behind the family of a column, by the kind of the line."""

COLUMNS = "rlhfdoctor.columns"
"""Key of a Parquet file's metadata under which stands, as JSON, what each run's columns are."""

FORMULA = "=+-@\t\r"
"""Characters with which a spreadsheet begins a formula."""

CLOCKLESS = "A log without a clock: second n after 1970 began is step n."
"""What is told wherever a run of an export has no clock."""

SCHEMA_VERSION = 39
"""Of Grafana's classic dashboards (Grafana 11 and later import it)."""


def run_names(runs: Sequence[Run]) -> list[str]:
    """Return what each run of an export is called: its name; where several have it, its path.

    A number follows where that tells no more. Lone surrogates, which no format holds, are escaped.
    """
    counts = Counter(run.name for run in runs)
    found: list[str] = []
    for run in runs:
        own = _storable(run.name if counts[run.name] == 1 else run.path)
        numbered = (f"{own} ({number})" for number in range(2, len(runs) + 2))
        found.append(next(name for name in (own, *numbered) if name not in found))
    return found


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
    """Return the trainer's clock if it covers every step and only goes forward, else the steps.

    Seconds are told to the millisecond, as Prometheus keeps them.
    """
    steps = run.metrics["step"].to_list()
    told = (
        run.observations.filter(pl.col("wall_time").is_finite())
        .group_by("step")
        .agg(pl.col("wall_time").max())
        .collect()
    )
    times = {step: round(time, 3) for step, time in told.iter_rows()}
    ordered = [times.get(step, math.nan) for step in steps]
    forward = all(one < other for one, other in pairwise(ordered))
    if ordered and forward and ordered[0] >= 0 and ordered[-1] < 2**40:
        return Clock(dict(zip(steps, ordered, strict=True)), True)
    return Clock({step: float(step) for step in steps}, False)


# Tables


def table(runs: Sequence[Run]) -> pl.DataFrame:
    """Return one row a run and step: columns under their canonical names, null where not logged."""
    frames = [
        run.metrics.select(pl.lit(name).alias("run"), pl.all().exclude("run"))
        for name, run in zip(run_names(runs), runs, strict=True)
    ]
    return pl.concat(frames, how="diagonal_relaxed")


def record(runs: Sequence[Run]) -> pl.LazyFrame:
    """Return everything that was logged as it was logged: one row a run, step, key and file."""
    frames = [
        run.observations.with_columns(pl.lit(name).alias("run"))
        for name, run in zip(run_names(runs), runs, strict=True)
    ]
    return pl.concat(frames, how="diagonal_relaxed").select("run", pl.all().exclude("run"))


def tables(runs: Sequence[Run], form: Literal["csv", "parquet"], *, long: bool) -> str | bytes:
    """Return runs as a CSV or a Parquet file: ``table``, or ``record`` where long."""
    frame = record(runs) if long else table(runs).lazy()
    if form == "csv":
        return harmless(frame).collect().write_csv()
    buffer = BytesIO()
    frame.collect().write_parquet(buffer, metadata=column_metadata(runs))
    return buffer.getvalue()


def column_metadata(runs: Sequence[Run]) -> dict[str, str]:
    """Return the metadata of a Parquet file: unit, estimator and meaning of each run's columns."""
    found: dict[str, dict[str, Any]] = {}
    for own, run in zip(run_names(runs), runs, strict=True):
        for name, column in run.columns.items():
            metric = metric_of(name)
            found.setdefault(own, {})[name] = {
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
    named: dict[str, str] = {}
    for name in filter(re.compile(start).match, schema.names()):
        named[name] = f"'{name}"
        while named[name] in schema:
            named[name] = f"'{named[name]}"
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

    Runs share a family: what may differ between them, unit and estimator, are labels. Beside the
    columns stand the logged step, the three lines of the KL, and what was concluded:
    ``rlhf_verdict``, ``rlhf_onset``, ``rlhf_rollback``, ``rlhf_checkpoint``.
    ``promtool tsdb create-blocks-from openmetrics`` makes blocks of it.
    """
    families: dict[str, list[tuple[Series, Clock]]] = {}
    names = run_names([item.run for item in diagnoses])
    times = [clock(item.run) for item in diagnoses]
    how = "" if all(time.logged for time in times) else f". {CLOCKLESS}"
    for own, diagnosis, time in zip(names, diagnoses, times, strict=True):
        for series in _series(diagnosis, own, time):
            families.setdefault(series.family, []).append((series, time))
    for name, found in sorted(families.items()):
        yield f"# TYPE {name} gauge\n# HELP {name} {_escaped(found[0][0].help + how)}\n"
        for series, time in found:
            yield "".join(
                f"{name}{{{series.labels}}} {_number(value)} {time.at(step):.3f}\n"
                for step, value in series.values
            )
    yield "# EOF\n"


def _series(diagnosis: Diagnosis, name: str, time: Clock) -> Iterator[Series]:
    """Yield all that is told of a run under this name; no two have the same family and labels."""
    run = diagnosis.run
    own = {"run": name, "framework": run.framework, "algorithm": run.algorithm}
    for key, column in run.columns.items():
        if key not in run.metrics.columns:
            continue
        family, labels = named(key)
        metric = metric_of(key)
        told = metric.meaning if metric else column.metric
        measured = _labels({**own, **labels, **measure(column.unit, column.estimator)})
        rows = run.metrics.select("step", key).drop_nulls()
        yield Series(family, told, measured, rows.iter_rows())
    for panel in panels(run):
        for line in panel.lines:
            if line.kind != "value":
                family, labels = named(line.column)
                told = f"{line.name} logged rows of {family}"
                measured = _labels({**own, **labels, **measure(panel.unit, panel.estimator)})
                pairs = zip(line.steps, line.values, strict=True)
                ending = ENDINGS[line.kind]
                yield Series(f"{family}{ending}", told, measured, pairs)
    if run.last_step is None:
        return
    steps = [(step, float(step)) for step in run.metrics["step"]]
    yield Series(f"{PREFIX}step", "logged step", _labels(own), steps)
    verdict = _labels({**own, "verdict": diagnosis.verdict})
    yield Series(f"{PREFIX}verdict", "what was concluded", verdict, [(run.last_step, 1.0)])
    marked = marks(diagnosis)
    if marked.onset:
        began = marked.onset.step
        yield Series(f"{PREFIX}onset", "where it began", _labels(own), [(began, float(began))])
    for family, told, saved in (
        ("checkpoint", "logged step of a saved policy", marked.saved),
        ("rollback", "logged step of where to go back to", (marked.back,) if marked.back else ()),
    ):
        places: dict[str, dict[float, int]] = {}
        for step, checkpoint in sorted(saved):
            labels_of_it = _labels({**own, "checkpoint": checkpoint})
            places.setdefault(labels_of_it, {}).setdefault(time.at(step), step)
        for labels_of_it, found in places.items():
            dated = [(step, float(step)) for step in found.values()]
            yield Series(f"{PREFIX}{family}", told, labels_of_it, dated)


def named(column: str) -> tuple[str, dict[str, str]]:
    """Return the family of a column and the labels that tell it from every other column.

    A label has the whole name where family, split and part do not spell it.
    """
    base, _, part = column.removeprefix("eval_").partition("[")
    split, start = ("eval", "eval_") if column.startswith("eval_") else ("train", "")
    labels = {"split": split}
    if part:
        labels["part"] = part.removesuffix("]")
    family = re.sub(r"[^a-zA-Z0-9_]", "_", base)
    if column != start + family + (f"[{labels['part']}]" if part else ""):
        labels["column"] = column
    return PREFIX + family, labels


def measure(unit: str, estimator: str | None) -> dict[str, str]:
    """Return the labels that say in what a column is measured, and how where somebody said it."""
    return {"unit": unit, **({"estimator": estimator} if estimator else {})}


def _labels(labels: Mapping[str, str]) -> str:
    return ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items())


def _storable(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()


def _escaped(text: str) -> str:
    return _storable(text).replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def _number(value: float) -> str:
    if math.isfinite(value):
        return repr(float(value))
    return "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"


# Grafana

LATEST = datetime(9999, 12, 31, tzinfo=timezone.utc).timestamp()
"""The last moment that can be written."""

WIDTH, HEIGHT = 12, 8
"""Of a panel, in units of Grafana's grid, 24 units wide."""


def dashboard(diagnoses: Sequence[Diagnosis]) -> str:
    """Return a dashboard for what ``openmetrics`` writes: a panel for each quantity and unit.

    It has every line that one of the runs has. Bands are drawn only where the unit is known, from
    the limits by which the runs were judged, and only where these are the same.
    """
    ids = hashlib.sha256("|".join(item.run.path for item in diagnoses).encode()).hexdigest()
    drawn: dict[tuple[str, str, str | None], list[tuple[Panel, Diagnosis]]] = {}
    for diagnosis in diagnoses:
        for panel in panels(diagnosis.run):
            key = (panel.quantity, panel.unit, panel.estimator)
            if not panel.placeholder:
                drawn.setdefault(key, []).append((panel, diagnosis))
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
        "panels": [_panel(place, found) for place, found in enumerate(drawn.values())],
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


def _panel(place: int, found: Sequence[tuple[Panel, Diagnosis]]) -> dict[str, Any]:
    panel, _ = found[0]
    lines: dict[tuple[str, str], Line] = {}
    for line in (line for one, _ in found for line in one.lines):
        lines.setdefault((line.column, line.kind), line)
    targets = [
        {
            "refId": f"L{index}",
            "datasource": SOURCE,
            "expr": _query(line, panel),
            "legendFormat": f"{{{{run}}}} {line.name}",
        }
        for index, line in enumerate(lines.values())
    ]
    steps, told = bands(found)
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


def _query(line: Line, panel: Panel) -> str:
    """Return what finds a line of a panel; PromQL takes an empty label for one that is not there.

    Without unit and estimator it would find the line of every run, whatever it is measured in.
    """
    family, labels = named(line.column)
    labels |= {"unit": panel.unit, "estimator": panel.estimator or ""}
    given = ", ".join(f'{name}="{_escaped(value)}"' for name, value in labels.items())
    return f'{family}{ENDINGS[line.kind]}{{run=~"$run", {given}}}'


def bands(found: Sequence[tuple[Panel, Diagnosis]]) -> tuple[list[dict[str, Any]], str]:
    """Return the thresholds of a panel of these runs, lowest first, and what they are.

    None where the unit is not known, or where two runs were judged by different limits.
    """
    (first, told), *others = (_bands(panel, diagnosis) for panel, diagnosis in found)
    if any(other != (first, told) for other in others):
        first, told = {}, "the runs were judged by different limits: no band"
    steps = [(None, "transparent"), *sorted(first.items())]
    return [{"value": value, "color": colour} for value, colour in steps], told


def _bands(panel: Panel, diagnosis: Diagnosis) -> tuple[dict[float, str], str]:
    """Return the colour from each threshold of one run on, and in words what they are."""

    def limit(code: str, name: str) -> float:
        return cast("float", diagnosis.limits[code][name])

    columns = {line.column for line in panel.lines}
    if columns == {"kl_ref_response"}:
        low, high = limit("KL001", "low"), limit("KL001", "high")
        ceiling = limit("KL002", "ceiling")
        band = {low: "green", high: "transparent"} if low < high else {}
        below = {value: colour for value, colour in band.items() if value < ceiling}
        told = f"band {low}-{high} (KL001, information), alarm from {ceiling} (KL002)"
        return {**below, ceiling: "red"}, told
    if columns == {"kl_ref_token"}:
        ceiling = limit("KL003", "ceiling")
        return {ceiling: "red"}, f"alarm from {ceiling} (KL003)"
    return {}, "nobody said the unit: no band" if panel.unit == "unknown" else ""


def _clocks(times: Iterable[Clock]) -> str:
    if all(item.logged for item in times):
        return "The time is the trainer's clock."
    return CLOCKLESS


def _iso(time: float) -> str:
    moment = datetime.fromtimestamp(min(time, LATEST), timezone.utc)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
