"""SQLite databases of trackers: trackio's, and MLflow's mlflow.db."""

from __future__ import annotations

import math
import sqlite3
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from rlhfdoctor.model import Note
from rlhfdoctor.readers import Item, reader
from rlhfdoctor.readers._json import clean, flatten, loads, number, refusals, whole
from rlhfdoctor.readers._open import fault_of, opened
from rlhfdoctor.readers._scalars import Scalar, rows
from rlhfdoctor.readers._settings import settings_of
from rlhfdoctor.readers._wandb import axis, logged, told, without_media

LARGEST = 2 * 2**30
"""Bytes of a database that is copied to be read; one row of metrics takes some 500."""

LARGEST_RECORD = 16 * 2**20
"""Characters of one row of metrics that are still read."""

SECONDS = 60
"""After which a query is ended: a table may be made to take for ever."""

_TRACKIO = {"run_name", "step", "timestamp", "metrics"}
_MLFLOW = {"run_uuid", "key", "value", "step", "timestamp", "is_nan"}
"""Columns of the table ``metrics``: trackio/sqlite_storage.py, mlflow/store/tracking/dbmodels."""

_INFINITE = 1.7976931348623157e308  # MLflow writes the largest number in place of infinity


@reader(
    "*.db",
    "*.sqlite",
    "*.sqlite3",
    looks=lambda head: head.startswith(b"SQLite format 3\0") and b"metrics" in head,
)
def sqlite(path: Path) -> Iterator[Item]:
    """Yield the rows of every run of a database, one run after the other.

    A copy is opened, since opening a database may write beside it; what is in a write-ahead log
    (``-wal``) is taken along. Only plain tables of the two trackers are asked. The configuration
    becomes settings where the database holds one run. Wall times are seconds since 1970.
    """
    with tempfile.TemporaryDirectory(prefix="rlhfdoctor-") as folder:
        copy = Path(folder) / "copy.db"
        if fault := _copied(path, copy):
            yield Note(path.name, fault, left_out=1)
            return
        refused: Counter[str] = Counter()
        try:
            with _connected(copy) as database:
                columns = _columns(database, "metrics")
                if columns >= _TRACKIO:
                    yield from _trackio(database, path.name, refused)
                elif columns >= _MLFLOW:
                    yield from _mlflow(database, path.name)
                else:
                    yield Note(path.name, "holds no table of metrics that any tracker writes")
        except (sqlite3.Error, OverflowError) as error:
            yield Note(path.name, f"is damaged ({error}); the rest is unread", left_out=1)
        yield from refusals(path.name, refused)


def _copied(path: Path, copy: Path) -> str | None:
    """Copy a database, and the write-ahead log beside it; say why where that is not possible."""
    beside = path.with_name(f"{path.name}-wal")
    for source, target in ((path, copy), (beside, copy.with_name(f"{copy.name}-wal"))):
        if source == beside and (beside.is_symlink() or not beside.is_file()):
            continue
        count = 0
        with opened(source) as file, target.open("wb") as written:
            while part := file.read(2**20):
                count += len(part)
                if count > LARGEST:
                    return f"is larger than {LARGEST / 2**30:.0f} GiB; not read"
                written.write(part)
            if fault := fault_of(file):
                return fault
    return None


@contextmanager
def _connected(path: Path) -> Iterator[sqlite3.Connection]:
    """Open a database that nobody vouches for: views, triggers and functions of it do nothing."""
    with closing(sqlite3.connect(path)) as database:
        database.text_factory = lambda text: text.decode("utf-8", "replace")
        database.execute("PRAGMA trusted_schema = OFF")
        database.execute("PRAGMA query_only = ON")
        end = time.monotonic() + SECONDS
        database.set_progress_handler(lambda: time.monotonic() > end, 1_000_000)
        yield database


def _columns(database: sqlite3.Connection, table: str) -> set[str]:
    """Return the columns of a plain table; none where it is a view, virtual, or not there."""
    asked = "SELECT sql FROM sqlite_master WHERE type = 'table' AND name = ?"
    made = database.execute(asked, (table,)).fetchone()
    if made is None or not str(made[0]).upper().startswith("CREATE TABLE"):
        return set()
    return {str(column[1]) for column in database.execute(f"PRAGMA table_info({table})")}


def _trackio(database: sqlite3.Connection, name: str, refused: Counter[str]) -> Iterator[Item]:
    """Yield the rows of trackio: one JSON table a call of ``log``, with a step of trackio's own."""
    runs: dict[str, list[dict[str, object]]] = {}
    media: Counter[str] = Counter()
    bad = 0
    asked = (
        "SELECT run_name, step, timestamp, CASE WHEN length(metrics) <= ? THEN metrics END"
        " FROM metrics ORDER BY rowid"
    )
    for run, step, timestamp, text in database.execute(asked, (LARGEST_RECORD,)):
        try:
            record = loads(text if isinstance(text, bytes) else str(text).encode())
        except ValueError:
            record = None
        if not isinstance(record, dict):
            bad += 1
            continue
        own = {"_step": step, "_timestamp": _seconds(timestamp)}
        runs.setdefault(str(run), []).append({**without_media(record, media), **own})
    for run, records in runs.items():
        key = axis(records)
        last: object = None
        for record in records:
            last = record.get(key, last) if key else None
            made = logged(record, last, refused)
            if made.values:
                yield replace(made, run=clean(run))
    yield from _which(list(runs), name)
    if len(runs) == 1 and _columns(database, "configs") >= {"run_name", "config"}:
        for run, text in database.execute("SELECT run_name, config FROM configs"):
            try:
                config = loads(text if isinstance(text, bytes) else str(text).encode())
            except ValueError:
                continue
            if str(run) in runs and isinstance(config, dict):
                yield from settings_of(dict(flatten(config)), name)
    yield from told(name, media)
    if bad:
        yield Note(name, f"{bad} rows are no tables and were left out", left_out=bad)


def _mlflow(database: sqlite3.Connection, name: str) -> Iterator[Item]:
    """Yield the rows of MLflow: one number a database row, the time in milliseconds."""
    runs: dict[str, list[Scalar]] = {}
    bad = 0
    asked = "SELECT run_uuid, key, value, step, timestamp, is_nan FROM metrics ORDER BY rowid"
    for run, key, value, step, timestamp, is_nan in database.execute(asked):
        counted, held = whole(number(step)), number(value)
        if counted is None or held is None or not isinstance(key, str):
            bad += 1
            continue
        held = math.nan if is_nan else held
        if abs(held) >= _INFINITE:
            held = math.copysign(math.inf, held)
        seconds = (number(timestamp) or 0.0) / 1000
        runs.setdefault(str(run), []).append(Scalar(counted, seconds, key, held))
    for run, scalars in runs.items():
        yield from (replace(item, run=clean(run)) for item in rows(scalars))
    yield from _which(list(runs), name)
    if len(runs) == 1 and _columns(database, "params") >= {"run_uuid", "key", "value"}:
        asked = "SELECT key, value FROM params WHERE run_uuid = ?"
        params = database.execute(asked, tuple(runs))
        yield from settings_of({str(key): value for key, value in params}, name)
    if bad:
        yield Note(name, f"{bad} rows are no numbers and were left out", left_out=bad)


def _which(runs: list[str], name: str) -> Iterator[Note]:
    if not runs:
        yield Note(name, "holds no metrics")
    if len(runs) > 1:
        shown = ", ".join(clean(run) for run in runs[:10]) + (", ..." if len(runs) > 10 else "")
        yield Note(name, f"holds {len(runs)} runs: {shown}")


def _seconds(written: object) -> float | None:
    """Return an ISO time as seconds since 1970; None where it says no time zone."""
    try:
        told = datetime.fromisoformat(str(written).replace("Z", "+00:00"))
    except ValueError:
        return None
    return told.timestamp() if told.tzinfo else None
