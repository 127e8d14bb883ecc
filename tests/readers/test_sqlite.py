"""Databases with the tables that trackio and MLflow make."""

import json
import math
import sqlite3
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

import pytest

from rlhfdoctor.readers.sqlite import sqlite
from tests.readers.helpers import read, write

TRACKIO = (
    "CREATE TABLE metrics (id INTEGER PRIMARY KEY, run_id TEXT, timestamp TEXT, run_name TEXT,"
    " step INTEGER, metrics TEXT)",
    "CREATE TABLE configs (id INTEGER PRIMARY KEY, run_name TEXT, config TEXT)",
)
MLFLOW = (
    "CREATE TABLE metrics (key VARCHAR(250), value FLOAT, timestamp BIGINT, run_uuid VARCHAR(32),"
    " step BIGINT, is_nan BOOLEAN)",
    "CREATE TABLE params (key VARCHAR(250), value VARCHAR(8000), run_uuid VARCHAR(32))",
)
LARGEST = 1.7976931348623157e308


def database(
    path: Path, tables: Iterable[str], *rows: tuple[str, tuple[object, ...]], wal: bool = False
) -> Path:
    """Make a database; ``rows``: (table with its columns, values). wal: as a crash leaves it."""
    with closing(sqlite3.connect(path)) as made:
        if wal:
            made.execute("PRAGMA journal_mode = WAL")
            made.execute("PRAGMA wal_autocheckpoint = 0")
        for table in tables:
            made.execute(table)
        for table, values in rows:
            marks = ", ".join("?" * len(values))
            made.execute(f"INSERT INTO {table} VALUES ({marks})", values)
        made.commit()
        if wal:
            left = {item.name: item.read_bytes() for item in path.parent.iterdir()}
    if wal:
        for name, data in left.items():
            path.with_name(name).write_bytes(data)
    return path


def call(step: object, record: object, run: str = "one") -> tuple[str, tuple[object, ...]]:
    text = record if isinstance(record, str | bytes) else json.dumps(record)
    values = (run, step, "2026-11-30T10:00:00+00:00", text)
    return "metrics (run_name, step, timestamp, metrics)", values


def number(
    key: str, step: object, value: object, nan: int = 0, run: str = "one"
) -> tuple[str, tuple[object, ...]]:
    values = (key, value, 1_800_000_000_000, run, step, nan)
    return "metrics (key, value, timestamp, run_uuid, step, is_nan)", values


def test_trackio(tmp_path: Path) -> None:
    path = database(
        tmp_path / "project.db",
        TRACKIO,
        call(0, {"train/loss": 0.5, "train/global_step": 10}),
        call(1, b'{"train/loss": "NaN", "train/global_step": 20}'),
        call(2, {"eval/loss": 0.25, "train/global_step": 20, "table": {"_type": "trackio.table"}}),
        ("configs (run_name, config)", ("one", json.dumps({"beta": 0.25}))),
        ("configs (run_name, config)", ("another", json.dumps({"beta": 0.5}))),
    )
    found = read(sqlite, path)
    assert [(row.step, row.split, row.wall_time) for row in found.rows] == [
        (10, "train", 1796032800.0),
        (20, "train", 1796032800.0),
        (20, "eval", 1796032800.0),
    ]
    assert found.rows[0].values == {"train/loss": 0.5}
    assert math.isnan(found.rows[1].values["train/loss"])
    assert [(item.name, item.value) for item in found.settings] == [("kl_coef", 0.25)]
    assert found.told == "project.db: holds besides numbers, unread: 1 trackio.table"


def test_mlflow(tmp_path: Path) -> None:
    path = database(
        tmp_path / "mlflow.db",
        MLFLOW,
        number("loss", 1, 0.5),
        number("kl", 1, 0, nan=1),
        number("loss", 2, LARGEST),
        number("eval_loss", 2, -LARGEST),
        ("params (key, value, run_uuid)", ("beta", "0.25", "one")),
        ("params (key, value, run_uuid)", ("beta", "0.5", "another")),
    )
    found = read(sqlite, path)
    assert [(row.step, row.split, row.wall_time) for row in found.rows] == [
        (1, "train", 1.8e9),
        (2, "train", 1.8e9),
        (2, "eval", 1.8e9),
    ]
    assert found.rows[0].values == pytest.approx({"loss": 0.5, "kl": math.nan}, nan_ok=True)
    assert [row.values for row in found.rows[1:]] == [{"loss": math.inf}, {"eval_loss": -math.inf}]
    assert [(item.name, item.value) for item in found.settings] == [("kl_coef", 0.25)]
    assert found.notes == []


def test_several_runs_follow_each_other(tmp_path: Path) -> None:
    rows = [number("kl", step, step, run=run) for step in (1, 2) for run in ("one", "two")]
    found = read(sqlite, database(tmp_path / "mlflow.db", MLFLOW, *rows))
    assert [row.step for row in found.rows] == [1, 2, 1, 2]
    assert found.told == "mlflow.db: holds 2 runs: one, two"


def test_what_a_crash_left_in_the_write_ahead_log_is_read(tmp_path: Path) -> None:
    path = database(tmp_path / "project.db", TRACKIO, call(3, {"kl": 1}), wal=True)
    before = {item.name: item.read_bytes() for item in tmp_path.iterdir()}
    assert "project.db-wal" in before
    assert [row.step for row in read(sqlite, path).rows] == [3]
    assert {item.name: item.read_bytes() for item in tmp_path.iterdir()} == before


def test_a_write_ahead_log_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    path = database(tmp_path / "project.db", TRACKIO, call(3, {"kl": 1}))
    path.with_name("project.db-wal").symlink_to("/dev/zero")
    assert [row.step for row in read(sqlite, path).rows] == [3]


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        pytest.param([call(2, "{")], "1 rows are no tables", id="no JSON"),
        pytest.param([call(2, "[1]")], "1 rows are no tables", id="an array"),
        pytest.param([call(2, "x" * (2**24 + 1))], "1 rows are no tables", id="a row too long"),
        pytest.param([call(2, b"\xff\xfe")], "1 rows are no tables", id="no text"),
        pytest.param([call(2, {"kl": "x"})], "no numbers, so no metrics: kl", id="a word"),
    ],
)
def test_rows_that_cannot_be_used_are_told(
    tmp_path: Path, rows: list[tuple[str, tuple[object, ...]]], told: str
) -> None:
    good = [call(1, {"kl": 1}), call(3, {"kl": 3})]
    path = database(tmp_path / "project.db", TRACKIO, good[0], *rows, good[1])
    found = read(sqlite, path)
    assert [row.step for row in found.rows] == [1, 3]
    assert told in found.told


@pytest.mark.parametrize(("key", "step", "value"), [(None, 1, 1), ("kl", "x", 1), ("kl", 1, "x")])
def test_numbers_that_are_none_are_counted(
    tmp_path: Path, key: str, step: object, value: object
) -> None:
    rows = [number("kl", 1, 1), number(key, step, value)]
    found = read(sqlite, database(tmp_path / "mlflow.db", MLFLOW, *rows))
    assert len(found.rows) == 1
    assert found.told.endswith("1 rows are no numbers and were left out")


@pytest.mark.parametrize(
    "tables",
    [
        pytest.param(
            [
                "CREATE VIEW metrics AS WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1"
                " FROM n) SELECT x AS step, x AS run_name, x AS timestamp, x AS metrics FROM n"
            ],
            id="a view without an end",
        ),
        pytest.param(
            [
                "CREATE TABLE metrics (run_name TEXT, step INTEGER, timestamp TEXT, metrics TEXT"
                " GENERATED ALWAYS AS (zeroblob(1000000000)))"
            ],
            id="a column that is worked out",
        ),
        pytest.param(["CREATE TABLE metrics (name TEXT, value REAL)"], id="another table"),
        pytest.param(["CREATE TABLE other (metrics TEXT)"], id="no such table"),
    ],
)
def test_other_tables_are_never_asked(tmp_path: Path, tables: list[str]) -> None:
    found = read(sqlite, database(tmp_path / "x.db", tables))
    assert found.rows == []
    assert found.told == "x.db: holds no table of metrics that any tracker writes"


@pytest.mark.parametrize("place", range(100, 12_288, 1111))
def test_a_damaged_database_is_a_note(tmp_path: Path, place: int) -> None:
    rows = [call(step, {"kl": step}) for step in range(100)]
    whole = database(tmp_path / "x.db", TRACKIO, *rows).read_bytes()
    path = write(tmp_path / "cut.db", whole[:place])
    found = read(sqlite, path)
    assert found.notes
    assert all(row.values == {"kl": row.step} for row in found.rows)


@pytest.mark.parametrize(
    ("name", "head", "claimed"),
    [
        pytest.param("mlflow.db", b"SQLite format 3\0...metrics", True, id="a tracker's"),
        pytest.param("mlflow.db", b"SQLite format 3\0...other", False, id="any other"),
        pytest.param("mlflow.db", b"metrics", False, id="no database"),
    ],
)
def test_claims(name: str, head: bytes, claimed: bool) -> None:
    assert sqlite.claims(name, head) is claimed
