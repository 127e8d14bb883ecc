"""The file in which diagnosed runs are kept."""

import json
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from rlhfdoctor import ledger
from rlhfdoctor.errors import DoctorError
from tests.builders import FIXTURES
from tests.test_cli import assert_error_lines, cli, document

KEY = ("log", "run")


def told(rows: int = 10, tool: str = "1", judged: str = "default", **more: Any) -> dict[str, Any]:
    when = "2026-01-01T00:00:00+00:00"
    return {"rows": rows, "tool": tool, "judged": judged, "diagnosed": when, **more}


@pytest.mark.parametrize(
    ("again", "outcome", "rows"),
    [
        pytest.param(told(), "unchanged", 10, id="the same"),
        pytest.param(told(rows=11), "replaced", 11, id="a log that has grown"),
        pytest.param(told(rows=9), "kept", 10, id="a shorter log"),
        pytest.param(told(tool="2"), "replaced", 10, id="another release"),
        pytest.param(told(judged="dpo"), "replaced", 10, id="other limits"),
        pytest.param(told(rows=9, tool="2"), "kept", 10, id="a shorter log, another release"),
    ],
)
def test_a_run_that_is_diagnosed_again(
    again: dict[str, Any], outcome: str, rows: int, tmp_path: Path
) -> None:
    file = tmp_path / "runs.db"
    assert ledger.store(file, KEY, told()) == "stored"
    assert ledger.store(file, KEY, again) == outcome
    assert [item["rows"] for item in ledger.runs(file)] == [rows]


def test_logs_and_names_are_told_apart(tmp_path: Path) -> None:
    file = tmp_path / "runs.db"
    for key in (("a", "x"), ("a", "y"), ("b", "x")):
        assert ledger.store(file, key, told()) == "stored"
    assert len(ledger.runs(file)) == 3


def test_names_are_data(tmp_path: Path) -> None:
    file = tmp_path / "runs.db"
    for name in ("x'); DROP TABLE runs; --", "\udcff", "\x00", 'say "run"'):
        assert ledger.store(file, ("log", name), told(name=name)) == "stored"
    assert {item["name"] for item in ledger.runs(file)} == {
        *("x'); DROP TABLE runs; --", "\udcff", "\x00", 'say "run"')
    }


@pytest.mark.parametrize("name", [":memory:", "file:x?mode=memory", "a b#c.db", "%41.db"])
def test_a_path_is_a_path(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    ledger.store(Path(name), KEY, told())
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert len(ledger.runs(Path(name))) == 1


def database(path: Path, *statements: str) -> Path:
    with closing(sqlite3.connect(path)) as opened:
        for statement in statements:
            opened.execute(statement)
        opened.commit()
    return path


def ours(path: Path, *statements: str) -> Path:
    ledger.store(path, KEY, told())
    return database(path, *statements)


def foreign(folder: Path, kind: str) -> Path:
    path = folder / "file.db"
    if kind == "a text":
        path.write_text("step,loss\n1,2\n", encoding="utf-8")
    elif kind == "half a header":
        path.write_bytes(b"SQLite format 3\0")
    elif kind == "somebody else's":
        database(path, "CREATE TABLE runs (log, name)", "INSERT INTO runs VALUES (1, 2)")
    elif kind == "a newer schema":
        ours(path, f"PRAGMA user_version = {ledger.SCHEMA + 1}")
    elif kind == "a trigger in it":
        ours(
            path,
            "CREATE TRIGGER t AFTER INSERT ON runs BEGIN DELETE FROM runs; END",
        )
    elif kind == "a view for the table":
        ours(path, "DROP TABLE runs", "CREATE VIEW runs AS SELECT 1")
    elif kind == "a folder":
        path.mkdir()
    elif kind == "a link where its journal goes":
        ours(path)
        (folder / "file.db-journal").symlink_to(folder / "victim")
    elif kind == "a link to a ledger":
        path.symlink_to(ours(folder / "real.db"))
    else:
        path.symlink_to(folder / "not there.db")
    return path


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        ("a text", "no SQLite database"),
        ("half a header", "no SQLite database"),
        ("somebody else's", "not rlhfdoctor's"),
        ("a newer schema", f"its schema is {ledger.SCHEMA + 1}, this release knows"),
        ("a trigger in it", "tables are not"),
        ("a view for the table", "tables are not"),
        ("a folder", "no plain file"),
        ("a link to a ledger", "a link"),
        ("a link to nothing", "a link"),
        ("a link where its journal goes", "journal is a link"),
    ],
)
def test_a_file_that_is_not_ours_is_refused_untouched(kind: str, why: str, tmp_path: Path) -> None:
    path = foreign(tmp_path, kind)
    there = {item: item.read_bytes() for item in tmp_path.iterdir() if item.is_file()}
    with pytest.raises(DoctorError, match=why):
        ledger.store(path, KEY, told())
    with pytest.raises(DoctorError, match=why):
        ledger.runs(path)
    assert {item: item.read_bytes() for item in tmp_path.iterdir() if item.is_file()} == there


def test_an_empty_file_becomes_a_ledger(tmp_path: Path) -> None:
    file = tmp_path / "runs.db"
    file.touch()
    assert ledger.store(file, KEY, told()) == "stored"


@pytest.mark.parametrize("summary", ["no JSON", "[1]", "[" * 10_000])
def test_a_damaged_run_is_said(summary: str, tmp_path: Path) -> None:
    file = ours(tmp_path / "runs.db", f"UPDATE runs SET summary = '{summary}'")
    with pytest.raises(DoctorError, match="damaged"):
        ledger.runs(file)


def test_a_database_that_was_cut_is_said(tmp_path: Path) -> None:
    file = tmp_path / "runs.db"
    for name in map(str, range(50)):
        ledger.store(file, (name, name), told(curve=[1.5] * 500))
    file.write_bytes(file.read_bytes()[:9000])
    with pytest.raises(DoctorError):
        ledger.runs(file)


def test_one_that_another_holds_too_long_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger, "WAIT", 0.05)
    file = tmp_path / "runs.db"
    ledger.store(file, KEY, told())
    with closing(sqlite3.connect(file, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(DoctorError, match="locked"):
            ledger.store(file, ("b", "b"), told())
    assert ledger.store(file, ("b", "b"), told()) == "stored"


def test_writers_wait_for_each_other_and_lose_nothing(tmp_path: Path) -> None:
    file = tmp_path / "runs.db"
    script = (
        "import sys\n"
        "from pathlib import Path\n"
        "from rlhfdoctor import ledger\n"
        "for place in range(20):\n"
        "    told = dict(rows=1, tool='', judged='', diagnosed='', curve=[0.5] * 500)\n"
        "    ledger.store(Path(sys.argv[1]), (sys.argv[2], str(place)), told)\n"
    )
    writers = [
        subprocess.Popen([sys.executable, "-c", script, str(file), str(writer)])
        for writer in range(4)
    ]
    assert [writer.wait() for writer in writers] == [0] * 4
    assert len(ledger.runs(file)) == 80
    with closing(sqlite3.connect(file)) as opened:
        assert opened.execute("PRAGMA integrity_check").fetchone() == ("ok",)


# the command


def test_runs_are_kept_and_compared_with_those_of_another_day(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "runs.db"
    first = document(capsys, "compare", FIXTURES / "ppo_late", "--db", file)
    assert first["db"] == {"path": str(file), "runs": 1, "outcomes": {"stored": 1}}
    second = document(
        capsys, "compare", FIXTURES / "ppo_healthy", FIXTURES / "ppo_late", "--db", file
    )
    assert second["db"]["outcomes"] == {"stored": 1, "unchanged": 1}
    alone = document(capsys, "compare", "--db", file)
    assert {run["run"] for run in alone["runs"]} == {"ppo_healthy", "ppo_late"}
    assert alone["db"] == {"path": str(file), "runs": 2, "outcomes": {}}
    by_name = {run["run"]: run for run in alone["runs"]}
    for run in second["runs"]:
        same = by_name[run["run"]]
        assert {**run, "diagnosed": "", "values": []} == {**same, "diagnosed": "", "values": []}


def test_a_ledger_in_a_run_folder_is_no_log_of_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "trainer_state.json"
    log.write_bytes((FIXTURES / "ppo_late" / "trainer_state.json").read_bytes())
    file = tmp_path / "runs.db"
    assert document(capsys, "compare", tmp_path, "--db", file)["db"]["runs"] == 1
    again = document(capsys, "compare", tmp_path, "--db", file)
    assert again["db"]["outcomes"] == {"unchanged": 1}
    assert [source["file"] for source in document(capsys, "inspect", tmp_path)["sources"]] == [
        log.name
    ]


@pytest.mark.parametrize("runs", [[], [FIXTURES / "ppo_late"]], ids=["alone", "with a run"])
def test_a_file_that_is_none_is_refused_before_any_work(
    runs: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "runs.db"
    file.write_text("mine", encoding="utf-8")
    code, out, err = cli(capsys, "compare", *runs, "--db", file)
    assert (code, out) == (2, "")
    assert_error_lines(err)
    assert file.read_text(encoding="utf-8") == "mine"


def test_a_stored_run_that_is_no_summary_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "runs.db"
    ledger.store(file, KEY, told())
    code, _, err = cli(capsys, "compare", "--db", file)
    assert code == 2
    assert_error_lines(err)


def test_what_is_kept_is_plain_json(tmp_path: Path) -> None:
    file = tmp_path / "runs.db"
    ledger.store(file, KEY, told(curve=[0.1, 0.2]))
    with closing(sqlite3.connect(file)) as opened:
        (text,) = opened.execute("SELECT summary FROM runs").fetchone()
    assert json.loads(text)["curve"] == [0.1, 0.2]
