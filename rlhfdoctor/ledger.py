"""Diagnosed runs kept in one SQLite file, for comparisons over months.

The file is the user's, named by them, and ours alone: what was not made here is refused before it
is opened, so that not even SQLite touches it. A run is known by its log and its name; its row is
replaced only where the log has grown, or the tool or the limits that judged it are others. Writers
wait for each other.
"""

from __future__ import annotations

import json
import os
import sqlite3
import stat
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Literal

from rlhfdoctor.errors import DoctorError

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

_MAGIC = b"SQLite format 3\0"
_HEADER = 100
"""Bytes of SQLite's header; user_version at 60, application_id at 68 (sqlite.org/fileformat)."""

Kept = Literal["stored", "replaced", "unchanged", "kept"]
"""What became of a run: new, in place of an older reading, as it was, or the longer log kept."""


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
        kind = "a link" if stat.S_ISLNK(found.st_mode) else "no plain file"
        raise _refused(path, f"it is {kind}", "name a plain file")
    try:
        with path.open("rb") as file:
            head = file.read(_HEADER)
    except OSError as error:
        raise _refused(path, error.strerror or str(error), "name a file that can be read") from None
    if not head and create:
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


def store(path: Path, key: tuple[str, str], document: Mapping[str, Any]) -> Kept:
    """Keep a run's summary under its key; say what became of it.

    document: what JSON can carry, with ``rows``, ``tool``, ``judged`` and ``diagnosed``.
    """
    check(path, create=True)
    _create(path)
    log, name = (part.encode("utf-8", "backslashreplace").decode() for part in key)
    told = (document["rows"], document["tool"], document["judged"])
    row = (log, name, *told, document["diagnosed"], json.dumps(document))
    with _opened(path, "rw") as database:
        database.execute("BEGIN IMMEDIATE")
        _made(path, database)
        known = database.execute(
            "SELECT logged, tool, judged FROM runs WHERE log = ? AND name = ?", (log, name)
        ).fetchone()
        outcome: Kept = "stored"
        if known is not None:
            outcome = "replaced"
            if known[0] > told[0]:
                outcome = "kept"
            elif known == told:
                outcome = "unchanged"
        if outcome in ("stored", "replaced"):
            database.execute("INSERT OR REPLACE INTO runs VALUES (?, ?, ?, ?, ?, ?, ?)", row)
        database.execute("COMMIT")
    return outcome


def runs(path: Path) -> list[dict[str, Any]]:
    """Return the documents that are kept, by the time of diagnosis and by name."""
    check(path, create=False)
    with _opened(path, "ro") as database:
        _check_table(path, database)
        told = database.execute(
            "SELECT name, substr(summary, 1, ?) FROM runs ORDER BY diagnosed, name, log",
            (LARGEST + 1,),
        )
        return [_document(path, str(name), text) for name, text in told]


def _document(path: Path, name: str, text: object) -> dict[str, Any]:
    try:
        if not isinstance(text, str) or len(text) > LARGEST:
            raise ValueError("too long")
        document = json.loads(text)
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        raise _refused(
            path, f"the run {name[:100]} in it is damaged", "restore the file, or remove it"
        )
    return document


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
