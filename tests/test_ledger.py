"""The file in which diagnosed runs are kept."""

import json
import sqlite3
import subprocess
import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rlhfdoctor import ledger
from rlhfdoctor.errors import DoctorError
from rlhfdoctor.summaries import Summary, restored
from tests.builders import FIXTURES
from tests.test_cli import assert_error_lines, cli, document
from tests.test_compare import of

RUN = of("run", loss_total=[1.0, 2.0])


def told(rows: int = 10, tool: str = "1", judged: str = "default", **more: Any) -> Summary:
    return replace(RUN, **{"log": "log", "rows": rows, "tool": tool, "judged": judged, **more})


def kept(path: Path) -> list[Summary]:
    runs, notes = ledger.read(path)
    assert notes == []
    return runs


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
    again: Summary, outcome: str, rows: int, tmp_path: Path
) -> None:
    file = tmp_path / "runs.db"
    assert ledger.store(file, told()) == "stored"
    assert ledger.store(file, again) == outcome
    assert [item.rows for item in kept(file)] == [rows]


def test_logs_and_names_are_told_apart(tmp_path: Path) -> None:
    file = tmp_path / "runs.db"
    for log, name in (("a", "x"), ("a", "y"), ("b", "x")):
        assert ledger.store(file, told(log=log, name=name)) == "stored"
    assert len(kept(file)) == 3


def test_names_are_data(tmp_path: Path) -> None:
    file = tmp_path / "runs.db"
    for name in ("x'); DROP TABLE runs; --", "\udcff", "\x00", 'say "run"'):
        assert ledger.store(file, told(name=name)) == "stored"
    assert {item.name for item in kept(file)} == {
        *("x'); DROP TABLE runs; --", "\udcff", "\x00", 'say "run"')
    }


@pytest.mark.parametrize("name", [":memory:", "file:x?mode=memory", "a b#c.db", "%41.db"])
def test_a_path_is_a_path(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    ledger.store(Path(name), told())
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert len(kept(Path(name))) == 1


def database(path: Path, *statements: str) -> Path:
    with closing(sqlite3.connect(path)) as opened:
        for statement in statements:
            opened.execute(statement)
        opened.commit()
    return path


def ours(path: Path, *statements: str) -> Path:
    ledger.store(path, told())
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
        ("a folder", "a folder"),
        ("a link to a ledger", "a link"),
        ("a link to nothing", "a link"),
        ("a link where its journal goes", "journal is a link"),
    ],
)
def test_a_file_that_is_not_ours_is_refused_untouched(kind: str, why: str, tmp_path: Path) -> None:
    path = foreign(tmp_path, kind)
    there = {item: item.read_bytes() for item in tmp_path.iterdir() if item.is_file()}
    with pytest.raises(DoctorError, match=why):
        ledger.store(path, told())
    with pytest.raises(DoctorError, match=why):
        ledger.read(path)
    assert {item: item.read_bytes() for item in tmp_path.iterdir() if item.is_file()} == there


def test_an_empty_file_holds_no_run_and_becomes_a_ledger(tmp_path: Path) -> None:
    file = tmp_path / "runs.db"
    assert ledger.read(file) == ([], [])
    file.touch()
    assert ledger.read(file) == ([], [])
    assert ledger.store(file, told()) == "stored"


def test_an_empty_file_alone_is_said_to_be_empty(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "runs.db"
    file.touch()
    code, out, err = cli(capsys, "compare", "--db", file)
    assert (code, out) == (2, "")
    assert "it is empty" in err
    assert document(capsys, "compare", FIXTURES / "ppo_late", "--db", file)["db"]["runs"] == 1


def test_a_name_that_is_none_is_refused_as_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("", "."):
        code, _, err = cli(capsys, "compare", FIXTURES / "ppo_late", "--db", name)
        assert code == 2
        assert "it is a folder" in err
        assert "such as runs.db" in err


DAMAGED = {
    "no JSON": "'no JSON'",
    "no mapping": "'[1]'",
    "nested too deep": "'" + "[" * 10_000 + "'",
    "nested deep in a field": """json_set(summary, '$.epochs', json('{}'))""".format(
        "[" * 900 + "]" * 900
    ),
    "no text": "x'ff00ff'",
    "bytes that are no text": "CAST(x'ff00ff' AS TEXT)",
    "a number": "7",
    "a field of another type": "json_set(summary, '$.onset', 'soon')",
    "a field that is missing": "json_remove(summary, '$.verdict')",
}


@pytest.mark.parametrize("how", DAMAGED)
def test_a_damaged_row_is_named_and_hides_no_other(how: str, tmp_path: Path) -> None:
    file = tmp_path / "runs.db"
    ledger.store(file, told(name="sound"))
    ledger.store(file, told(name="broken"))
    database(file, f"UPDATE runs SET summary = {DAMAGED[how]} WHERE name = 'broken'")
    runs, notes = ledger.read(file)
    assert [run.name for run in runs] == ["sound"]
    (note,) = notes
    assert note["where"] == "broken"
    assert "is damaged" in note["text"]
    assert not {"class", "NoneType", "Traceback"} & {*note["text"].split()}
    assert ledger.store(file, told(name="broken")) == "replaced"
    assert len(kept(file)) == 2


def test_a_table_of_other_types_is_read_as_what_its_runs_say(tmp_path: Path) -> None:
    file = ours(tmp_path / "runs.db", "UPDATE runs SET logged = 'many', tool = x'ff'")
    assert ledger.store(file, told()) == "unchanged"


def test_a_database_that_was_cut_is_said(tmp_path: Path) -> None:
    file = tmp_path / "runs.db"
    for name in map(str, range(50)):
        ledger.store(file, told(name=name, epochs=((1, 1.5),) * 500))
    file.write_bytes(file.read_bytes()[:9000])
    with pytest.raises(DoctorError):
        ledger.read(file)


def test_one_that_another_holds_too_long_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger, "WAIT", 0.05)
    file = tmp_path / "runs.db"
    ledger.store(file, told())
    with closing(sqlite3.connect(file, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(DoctorError, match="locked"):
            ledger.store(file, told(log="b", name="b"))
    assert ledger.store(file, told(log="b", name="b")) == "stored"


def test_writers_wait_for_each_other_and_lose_nothing(tmp_path: Path) -> None:
    file = tmp_path / "runs.db"
    script = (
        "import sys\n"
        "from pathlib import Path\n"
        "from dataclasses import replace\n"
        "from rlhfdoctor import ledger\n"
        "from tests.test_ledger import told\n"
        "for place in range(20):\n"
        "    run = told(log=sys.argv[2], name=str(place), epochs=((1, 0.5),) * 500)\n"
        "    ledger.store(Path(sys.argv[1]), run)\n"
    )
    writers = [
        subprocess.Popen([sys.executable, "-c", script, str(file), str(writer)])
        for writer in range(4)
    ]
    assert [writer.wait() for writer in writers] == [0] * 4
    assert len(kept(file)) == 80
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
    assert {run["run"]["id"] for run in alone["runs"]} == {"ppo_healthy", "ppo_late"}
    assert alone["db"] == {"path": str(file), "runs": 2, "outcomes": {}}
    by_name = {run["run"]["id"]: run for run in alone["runs"]}
    for run in second["runs"]:
        same = by_name[run["run"]["id"]]
        assert {**run, "diagnosed": "", "values": []} == {**same, "diagnosed": "", "values": []}


@pytest.mark.parametrize("given", ["run", "."], ids=["the run's", "one around it"])
def test_a_file_in_a_folder_that_is_read_is_refused(
    given: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    log = tmp_path / "run" / "trainer_state.json"
    log.parent.mkdir()
    log.write_bytes((FIXTURES / "ppo_late" / "trainer_state.json").read_bytes())
    code, out, err = cli(capsys, "compare", given, "--db", "run/keep.db")
    assert (code, out) == (2, "")
    assert_error_lines(err)
    assert "only read" in err
    assert [path.name for path in log.parent.iterdir()] == [log.name]
    assert document(capsys, "compare", "run", "--db", "keep.db")["db"]["runs"] == 1


def test_a_run_that_cannot_be_read_hides_none_of_those_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = ours(tmp_path / "runs.db")
    found = document(capsys, "compare", tmp_path / "none", "--db", file)
    assert [run["run"]["id"] for run in found["runs"]] == ["run"]
    assert len(found["failed"]) == 1


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


def test_a_damaged_row_is_told_beside_the_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = ours(tmp_path / "runs.db")
    ledger.store(file, told(name="broken"))
    database(file, "UPDATE runs SET summary = '{}' WHERE name = 'broken'")
    found = document(capsys, "compare", "--db", file)
    assert [run["run"]["id"] for run in found["runs"]] == ["run"]
    code, out, _ = cli(capsys, "compare", "--db", file)
    assert code == 0
    assert "broken: its row in" in out
    database(file, "UPDATE runs SET summary = '{}'")
    _, out, _ = cli(capsys, "compare", "--db", file)
    assert out.startswith("0 runs to compare")
    assert "broken, run: its row in" in out


def test_what_is_kept_is_plain_json(tmp_path: Path) -> None:
    file = tmp_path / "runs.db"
    ledger.store(file, told())
    with closing(sqlite3.connect(file)) as opened:
        (text,) = opened.execute("SELECT summary FROM runs").fetchone()
    assert restored(json.loads(text)) == told()
