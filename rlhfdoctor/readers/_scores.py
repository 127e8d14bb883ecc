"""A recomputation from its file: the JSON that ``recompute`` prints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from rlhfdoctor.errors import DoctorError
from rlhfdoctor.measures import SCANS
from rlhfdoctor.model import Note
from rlhfdoctor.readers._json import loads
from rlhfdoctor.scores import POSITIONS, SCORES

HINT = "rlhfdoctor recompute RUN --reference MODEL --output json=scores.json writes such a file"

_IDENTITY = ("reference", "checkpoint", "step", "role", "samples_file", "part")
"""Columns without which nobody knows what a row is about."""

_ALLOWED = {"role": ("policy", "reference"), "part": ("response", "chosen", "rejected")}

_REFERENCE: dict[str, type] = {
    "name": str,
    "path": str,
    "stored": str,
    "dtype": str,
    "device": str,
    "vocabulary": int,
    "temperature": float,
    "noise_floor": float,
}
"""What is taken over of a reference; the rest is worked out anew against the log."""

_NUMBERS = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}


@dataclass(frozen=True, slots=True)
class Recomputed:
    """What one file tells of one run.

    name, path: the run's, as it was called then. log: fingerprint of its log, None for none.
    """

    file: Path
    name: str
    path: str
    log: str | None
    scores: pl.DataFrame
    scans: pl.DataFrame
    references: tuple[Mapping[str, object], ...]
    notes: tuple[Note, ...]


def read_scores(path: Path) -> list[Recomputed]:
    """Read a file of one recomputation or several. Raises DoctorError where it is none."""
    try:
        document = loads(path.read_bytes())
    except OSError as error:
        raise DoctorError(f"--scores {path}: {error.strerror}", HINT) from error
    except ValueError as error:
        raise DoctorError(f"--scores {path}: is no JSON", HINT) from error
    found = document.get("runs", [document]) if isinstance(document, dict) else None
    if not isinstance(found, list) or not found:
        raise DoctorError(f"--scores {path}: holds no recomputation", HINT)
    return [_recomputed(item, path) for item in found]


def _recomputed(document: object, path: Path) -> Recomputed:
    try:
        if not isinstance(document, dict):
            raise TypeError
        key = "scores" if "findings" in document else "rows"
        rows = [_row(_table(row)) for row in _list(document[key])]
        scans = [_scan(_table(row)) for row in _list(document.get("scans", []))]
        references = [_reference(_table(row)) for row in _list(document.get("references", []))]
        told = [_table(item) for item in _list(document.get("notes", []))]
        run = _table(document["run"])
        return Recomputed(
            file=path,
            name=str(run["id"]),
            path=str(run.get("path", "")),
            log=log if isinstance(log := run.get("log"), str) else None,
            scores=_frame(rows, SCORES),
            scans=_frame(scans, SCANS),
            references=tuple(references),
            notes=tuple(Note(str(item["where"]), str(item["text"])) for item in told),
        )
    except (KeyError, TypeError, ValueError, OverflowError, pl.exceptions.PolarsError) as error:
        why = f"{type(error).__name__}: {error}".splitlines()[0][:120]
        raise DoctorError(f"--scores {path}: holds no recomputation ({why})", HINT) from error


def _list(value: object) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError(f"expected a list, found {type(value).__name__}")
    return value


def _table(value: object) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise TypeError(f"expected a table, found {type(value).__name__}")
    return value


def _row(published: Mapping[str, Any]) -> dict[str, Any]:
    interval = published.get("interval")
    low, high = (None, None) if interval is None else _list(interval)
    for name in _IDENTITY:
        if published.get(name) is None:
            raise KeyError(name)
    for name, allowed in _ALLOWED.items():
        if published[name] not in allowed:
            raise ValueError(f"{name} is none of {', '.join(allowed)}")
    ranges = [_table(item) for item in _list(published.get("perplexity_by_position") or [])]
    return {
        **published,
        "interval_low": low,
        "interval_high": high,
        "on_policy": published.get("on_policy") or False,
        "below_floor": published.get("below_floor") or False,
        "perplexity_by_position": [
            {name: _value(item.get(name), kind, name) for name, kind in POSITIONS.items()}
            for item in ranges
        ],
    }


def _scan(published: Mapping[str, Any]) -> dict[str, Any]:
    for name in ("checkpoint", "step"):
        if published.get(name) is None:
            raise KeyError(name)
    missing = [str(item) for item in _list(published.get("missing") or [])]
    return {**published, "missing": missing}


def _reference(published: Mapping[str, Any]) -> dict[str, object]:
    known: dict[str, object] = {}
    for name, kind in _REFERENCE.items():
        value = _NUMBERS.get(str(published.get(name)), published.get(name))
        if isinstance(value, int) and not isinstance(value, bool) and kind is float:
            value = float(value)
        if isinstance(value, kind) and not isinstance(value, bool):
            known[name] = value
    if "name" not in known:
        raise KeyError("name")
    return known


def _value(value: object, kind: object, name: str) -> object:
    """Return a value of a column; raises TypeError for one of another kind."""
    if kind == pl.Float64 and isinstance(value, str):
        value = _NUMBERS.get(value, value)
    for known, allowed in _KINDS.items():
        if kind == known and value is not None:
            if not isinstance(value, allowed) or (known != pl.Boolean and isinstance(value, bool)):
                raise TypeError(f"{name} is no {known}")
            if known == pl.Float64:
                return float(value)  # type: ignore[arg-type]
    return value


_KINDS: dict[Any, tuple[type, ...]] = {
    pl.Float64: (int, float),
    pl.Int64: (int,),
    pl.String: (str,),
    pl.Boolean: (bool,),
}


def _frame(rows: Sequence[Mapping[str, Any]], schema: Mapping[str, Any]) -> pl.DataFrame:
    known = [
        {name: _value(row.get(name), kind, name) for name, kind in schema.items()} for row in rows
    ]
    return pl.DataFrame(known, schema=dict(schema), strict=True)
