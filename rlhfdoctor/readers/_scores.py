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
from rlhfdoctor.scores import SCORES

HINT = "rlhfdoctor recompute RUN --reference MODEL --output json=scores.json writes such a file"

_NUMBERS = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}


@dataclass(frozen=True, slots=True)
class Recomputed:
    """What one file tells of one run. ``name``: the run's, as it was called then."""

    file: Path
    name: str
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
        rows = [_row(row) for row in _list(document["rows"])]
        scans = _frame([dict(row) for row in _list(document.get("scans", []))], SCANS)
        references = tuple(dict(item) for item in _list(document.get("references", [])))
        name = str(document["run"]["id"])
        notes = tuple(
            Note(str(item["where"]), str(item["text"])) for item in _list(document.get("notes", []))
        )
        return Recomputed(path, name, _frame(rows, SCORES), scans, references, notes)
    except (KeyError, TypeError, ValueError, pl.exceptions.PolarsError) as error:
        told = f"{type(error).__name__}: {error}".splitlines()[0][:120]
        raise DoctorError(f"--scores {path}: holds no recomputation ({told})", HINT) from error


def _list(value: object) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError(f"expected a list, found {type(value).__name__}")
    return value


def _row(published: Mapping[str, Any]) -> dict[str, Any]:
    interval = published.get("interval") or (None, None)
    low, high = interval
    row = {**published, "interval_low": low, "interval_high": high}
    missing = sorted({"reference", "checkpoint", "step", "role", "part", "samples_file"} - {*row})
    if missing:
        raise KeyError(missing[0])
    return {name: _number(row.get(name)) for name in SCORES}


def _number(value: Any) -> Any:
    if isinstance(value, str):
        return _NUMBERS.get(value, value)
    if isinstance(value, list):
        return [_number(item) for item in value]
    if isinstance(value, dict):
        return {key: _number(item) for key, item in value.items()}
    return value


def _frame(rows: Sequence[Mapping[str, Any]], schema: Mapping[str, Any]) -> pl.DataFrame:
    known = [{name: _number(row.get(name)) for name in schema} for row in rows]
    return pl.DataFrame(known, schema=dict(schema), strict=True)
