"""Diagnosed runs kept in one SQLite file, for comparisons over months.

The file is the user's, named by them, and ours alone: what was not made here is refused before it
is opened, so that not even SQLite touches it. A run is known by its log and its name; its row is
replaced only where the log has grown, the tool or the limits that judged it are others, or the row
is damaged. Writers wait for each other.
"""

from __future__ import annotations

import json
import os
import sqlite3
import stat
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal

from rlhfdoctor.errors import DoctorError
from rlhfdoctor.paths import inside
from rlhfdoctor.summaries import Summary, restored

SCHEMA = 1
"""Counts changes of the table that an older release cannot read."""

MARK = 0x52444F43
"""``application_id`` of our files: "RDOC" in ASCII."""

WAIT = 30.0
"""Seconds that a writer waits for another; one row takes milliseconds."""

LARGEST = 8 * 2**20
"""Characters of one stored run that are still read; a run takes some 100,000."""

_TABLE = (
    "CREATE TABLE runs (log TEXT NOT NULL, name TEXT NOT NULL, logged INTEGER NOT NULL, "
    "tool TEXT NOT NULL, judged TEXT NOT NULL, diagnosed TEXT NOT NULL, summary TEXT NOT NULL, "
    "PRIMARY KEY (log, name))"
)
"""log, name: the key of a run. logged: its rows. diagnosed: UTC. summary: JSON."""

_TEXT = f"CAST(substr(summary, 1, {LARGEST + 1}) AS BLOB)"
"""A stored run, at most one character more than is read; bytes, as a damaged one is no text."""

_MAGIC = b"SQLite format 3\0"
_HEADER = 100
"""Bytes of SQLite's header; user_version at 60, application_id at 68 (sqlite.org/fileformat)."""

Outcome = Literal["stored", "replaced", "unchanged", "kept"]
"""What became of a run: new, in place of an older reading, as it was, or the longer log kept."""


@dataclass(frozen=True, slots=True)
class Kept:
    """Runs that were given, and what a file made of them and holds now.

    outcomes: how many runs came to what. notes: rows that cannot be read, each with its run's name
    as the place.
    """

    given: list[Summary]
    runs: list[Summary] = field(default_factory=list)
    outcomes: Mapping[Outcome, int] = field(default_factory=dict)
    notes: list[dict[str, str]] = field(default_factory=list)


def keep(path: Path, given: Iterable[Summary]) -> Kept:
    """Store each run as it comes, then read all that is there; a damaged row is left out and said.

    Raises DoctorError for a file that is no ledger.
    """
    stored, outcomes = [], Counter[Outcome]()
    for item in given:
        outcomes[store(path, item)] += 1
        stored.append(item)
    runs, notes = read(path)
    return Kept(stored, runs, outcomes, notes)


def check_outside(path: Path, folders: Iterable[Path]) -> None:
    """Refuse a file in a folder that is only read, where it would be read as part of the run."""
    for folder in folders:
        if inside(path, folder) and os.path.isdir(folder):
            told = f"it lies in {str(folder)[:200]}, which is only read"
            raise _refused(path, told, "name a file outside the run")


def check(path: Path, *, create: bool) -> None:
    """Refuse a file that is no ledger, before anything opens it.

    create: one that is not there, or is empty, may become one. Raises DoctorError.
    """
    for beside in ("-journal", "-wal", "-shm"):
        if os.path.islink(f"{path}{beside}"):
            raise _refused(path, f"{path.name}{beside} is a link", "remove it, or name another")
    try:
        found = path.lstat()
    except FileNotFoundError:
        if not create:
            raise _refused(
                path, "there is no such file", "compare RUN --db FILE makes one"
            ) from None
        if not path.parent.is_dir():
            raise _refused(path, "no such folder", "name a file in a folder") from None
        return
    except (OSError, ValueError) as error:
        raise _refused(path, str(error), "name another file") from None
    if not stat.S_ISREG(found.st_mode):
        kinds = {stat.S_IFLNK: "a link", stat.S_IFDIR: "a folder"}
        kind = kinds.get(stat.S_IFMT(found.st_mode), "no plain file")
        raise _refused(path, f"it is {kind}", "name a plain file, such as runs.db")
    try:
        with path.open("rb") as file:
            head = file.read(_HEADER)
    except OSError as error:
        raise _refused(path, error.strerror or str(error), "name a file that can be read") from None
    if not head:
        if not create:
            raise _refused(path, "it is empty", "compare RUN --db FILE keeps runs in it")
        return
    if not head.startswith(_MAGIC) or len(head) < _HEADER:
        raise _refused(path, "it is no SQLite database", "name another file; it was not touched")
    _check_marks(
        path, int.from_bytes(head[68:72], "big"), int.from_bytes(head[60:64], "big"), create=create
    )


def _check_marks(path: Path, mark: int, version: int, *, create: bool) -> None:
    if mark != MARK:
        raise _refused(path, "it is not rlhfdoctor's", "name another file; it was not touched")
    if version != SCHEMA:
        raise _refused(
            path,
            f"its schema is {version}, this release knows {SCHEMA}",
            "use the release that wrote it, or name another file",
        )


def store(path: Path, run: Summary) -> Outcome:
    """Keep a run under its log and name; say what became of it."""
    check(path, create=True)
    _create(path)
    log, name = (part.encode("utf-8", "backslashreplace").decode() for part in run.key)
    row = (log, name, run.rows, run.tool, run.judged, run.diagnosed, json.dumps(asdict(run)))
    with _opened(path, "rw") as database:
        database.execute("BEGIN IMMEDIATE")
        _made(path, database)
        known = database.execute(
            f"SELECT {_TEXT} FROM runs WHERE log = ? AND name = ?", (log, name)
        ).fetchone()
        outcome = "stored" if known is None else _outcome(_summary(known[0]), run)
        if outcome in ("stored", "replaced"):
            database.execute("INSERT OR REPLACE INTO runs VALUES (?, ?, ?, ?, ?, ?, ?)", row)
        database.execute("COMMIT")
    return outcome


def _outcome(known: Summary | str, run: Summary) -> Outcome:
    if isinstance(known, str):
        return "replaced"
    if known.rows > run.rows:
        return "kept"
    same = (known.rows, known.tool, known.judged) == (run.rows, run.tool, run.judged)
    return "unchanged" if same else "replaced"


def read(path: Path) -> tuple[list[Summary], list[dict[str, str]]]:
    """Return the runs that are kept, by the time of diagnosis and by name, and which are damaged.

    A file that is not there, or is empty, holds none.
    """
    check(path, create=True)
    if not path.exists() or not path.stat().st_size:
        return [], []
    runs: list[Summary] = []
    notes: list[dict[str, str]] = []
    with _opened(path, "ro") as database:
        _check_table(path, database)
        rows = database.execute(
            f"SELECT CAST(name AS BLOB), {_TEXT} FROM runs ORDER BY diagnosed, name, log"
        )
        for name, text in rows:
            found = _summary(text)
            if isinstance(found, Summary):
                runs.append(found)
            else:
                where = (name or b"").decode("utf-8", "backslashreplace")[:100]
                told = f"its row in {str(path)[:200]} is damaged, {found}: left out"
                notes.append({"where": where, "text": f"{told}; give the run again"})
    return runs, notes


def _summary(text: bytes | None) -> Summary | str:
    """Return the run of a row, else what is wrong with it."""
    if text is None or len(text) > LARGEST:
        return "it is empty or too long"
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return "it is no JSON"
    try:
        return restored(document)
    except ValueError as error:
        return str(error)
    except RecursionError:
        return "it is nested too deep"


def _create(path: Path) -> None:
    """Make an empty file where there is none, through no link."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o666))
    except FileExistsError:
        return
    except OSError as error:
        raise _refused(
            path, error.strerror or str(error), "name a file that can be written"
        ) from None


def _made(path: Path, database: sqlite3.Connection) -> None:
    """Make the table in an empty file, within the transaction that holds it."""
    (tables,) = database.execute("SELECT count(*) FROM sqlite_master").fetchone()
    (mark,) = database.execute("PRAGMA application_id").fetchone()
    if not tables and not mark:
        database.execute(_TABLE)
        database.execute(f"PRAGMA application_id = {MARK:d}")
        database.execute(f"PRAGMA user_version = {SCHEMA:d}")
    _check_table(path, database)


def _check_table(path: Path, database: sqlite3.Connection) -> None:
    """Refuse a file with another table, a view or a trigger: it would not do what we ask."""
    (mark,) = database.execute("PRAGMA application_id").fetchone()
    (version,) = database.execute("PRAGMA user_version").fetchone()
    _check_marks(path, mark, version, create=False)
    made = database.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL").fetchall()
    if made != [(_TABLE,)]:
        raise _refused(path, "its tables are not rlhfdoctor's", "name another file")


@contextmanager
def _opened(path: Path, mode: Literal["ro", "rw"]) -> Iterator[sqlite3.Connection]:
    """Open a file that is there; whatever SQLite says becomes an error of one line."""
    place = f"{Path(os.path.abspath(path)).as_uri()}?mode={mode}"
    try:
        with closing(
            sqlite3.connect(place, uri=True, timeout=WAIT, isolation_level=None)
        ) as database:
            database.execute("PRAGMA trusted_schema = OFF")
            yield database
    except sqlite3.Error as error:
        busy = "locked" in str(error)
        hint = "another writer holds it: try again" if busy else "name another file"
        raise _refused(path, str(error), hint) from error


def _refused(path: Path, why: str, hint: str) -> DoctorError:
    return DoctorError(f"--db {str(path)[:200]}: {why}", hint)
