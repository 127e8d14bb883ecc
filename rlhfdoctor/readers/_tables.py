"""Metrics in a JSON document: arrays of rows, tables by step, columns, at any depth."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rlhfdoctor.model import Note, Row
from rlhfdoctor.readers import Item
from rlhfdoctor.readers._json import (
    EPOCH_KEYS,
    STEP_KEYS,
    clean,
    cut,
    flatten,
    loads,
    number,
    records,
    refusals,
    row,
    salvage,
)
from rlhfdoctor.readers._open import fault_of, opened

LARGEST = 2**29
"""Bytes of a document that are read; it is parsed as a whole."""

DEEPEST = 6
"""Levels of an object under which tables are looked for."""

_EVALUATIONS = frozenset(("eval", "val", "valid", "validation", "evaluation", "test"))


@dataclass(frozen=True, slots=True)
class _Table:
    """Records found at one place of a document; ``strangers``: elements that are none."""

    path: tuple[str, ...]
    records: Sequence[Mapping[str, object]]
    strangers: int = 0

    @property
    def name(self) -> str:
        return "/".join(self.path)

    @property
    def keys(self) -> frozenset[str]:
        """The metrics of its first records."""
        counted = {*STEP_KEYS, *EPOCH_KEYS}
        found = {key for record in self.records[:50] for key, _ in flatten(record)}
        return frozenset(found - counted)


def read_tables(path: Path) -> Iterator[Item]:
    """Yield the rows of every table in a document.

    A table is an array of records, an object whose keys are steps, or an object of columns (lists
    of numbers of one length). Tables that share no metric are parts of one run, by step; tables
    that share one are runs of their own. A table called "eval" or the like
    holds evaluations. Numbers beside tables are summaries, which are told of and left out. Lines
    under the name of a document are read as lines.
    """
    with opened(path) as file:
        text = file.read(LARGEST + 1)
        fault = fault_of(file)
    if len(text) > LARGEST:
        yield Note(path.name, f"is longer than {LARGEST} bytes; not read", unread=True)
        return
    if fault:
        yield Note(path.name, fault, left_out=1, unread=True)
    beside = 0
    try:
        document = loads(text)
    except ValueError as error:
        found, told = _pieces(path, text, error)
        yield from told
        tables = [_Table((), found)] if found else []
    else:
        tables, beside = list(_tables(document, (), 0)), _summaries(document, 0)
        if not tables and isinstance(document, dict) and set(STEP_KEYS) & document.keys():
            tables, beside = [_Table((), [document])], 0
    yield from _rows(path.name, tables)
    strangers = sum(table.strangers for table in tables)
    if strangers:
        told_of = f"{strangers} records are no tables and were left out"
        yield Note(path.name, told_of, left_out=strangers)
    if beside:
        yield Note(path.name, f"{beside} values beside the tables are no rows; left out")
    if not tables:
        yield Note(path.name, "holds no table of metrics; nothing was read", unread=True)


def _pieces(
    path: Path, text: bytes, error: ValueError
) -> tuple[list[dict[str, object]], list[Note]]:
    """Return the records of what is no document: lines, or the beginning of a cut array."""
    first = text.lstrip(b"\xef\xbb\xbf \t\r\n").partition(b"\n")[0]
    try:
        lines = isinstance(loads(first), dict)
    except ValueError:
        lines = False
    if lines:
        items = list(records(path))
        found = [item[1] for item in items if not isinstance(item, Note)]
        notes = [item for item in items if isinstance(item, Note)]
        return [item for item in found if isinstance(item, dict)], notes
    saved = [item for item in salvage(text) if isinstance(item, dict)]
    return saved, [cut(path.name, error, len(saved))]


def _tables(value: object, path: tuple[str, ...], depth: int) -> Iterator[_Table]:
    if isinstance(value, list):
        found = [item for item in value if isinstance(item, dict)]
        if found:
            yield _Table(path, found, len(value) - len(found))
        return
    if not isinstance(value, dict) or depth > DEEPEST:
        return
    table = _by_step(value, path) or _columns(value, path)
    if table is not None:
        yield table
        return
    for key, inner in value.items():
        yield from _tables(inner, (*path, clean(key)), depth + 1)


def _by_step(value: Mapping[str, object], path: tuple[str, ...]) -> _Table | None:
    """Return ``{"1": {"kl": 0.1}, "2": ...}``, or ``{"1": 0.1, ...}`` under a metric's name."""
    if not value or not all(key.isascii() and key.isdigit() for key in value):
        return None
    if all(isinstance(item, dict) for item in value.values()):
        rows = [
            {**item, **({} if set(STEP_KEYS) & item.keys() else {"step": key})}
            for key, item in value.items()
            if isinstance(item, dict)
        ]
        return _Table(path, rows)
    if path and all(number(item) is not None or item is None for item in value.values()):
        return _Table(path, [{path[-1]: item, "step": key} for key, item in value.items()])
    return None


def _columns(value: Mapping[str, object], path: tuple[str, ...]) -> _Table | None:
    """Return ``{"step": [1, 2], "loss": [0.5, 0.4]}`` as records; columns of another length go."""
    lists = {
        key: item for key, item in value.items() if isinstance(item, list) and _is_column(item)
    }
    if not lists:
        return None
    step = next((key for key in (*STEP_KEYS, *EPOCH_KEYS) if key in lists), None)
    lengths = Counter(len(item) for item in lists.values())
    length = len(lists[step]) if step else lengths.most_common(1)[0][0]
    same = {key: item for key, item in lists.items() if len(item) == length}
    if length < 2 or (step is None and len(same) < 2) or not set(same) - {step}:
        return None
    rows = zip(*same.values(), strict=True)
    return _Table(path, [dict(zip(same, items, strict=True)) for items in rows])


def _is_column(value: Sequence[object]) -> bool:
    return len(value) > 1 and all(item is None or number(item) is not None for item in value)


def _summaries(value: object, depth: int) -> int:
    """Count the numbers of an object that stand beside its tables."""
    if not isinstance(value, dict) or depth > DEEPEST:
        return 0
    if _by_step(value, ("",)) or _columns(value, ()):
        return 0
    return sum(
        number(item) is not None if not isinstance(item, dict) else _summaries(item, depth + 1)
        for item in value.values()
    )


def _rows(name: str, tables: Sequence[_Table]) -> Iterator[Item]:
    refused: Counter[str] = Counter()
    read = [(table, _translated(table, refused)) for table in tables]
    shared = Counter(key for table in tables for key in _named(table))
    if len(tables) < 2 or max(shared.values(), default=0) < 2:
        parts = [item for _, rows in read for item in rows]
        if len(tables) > 1 and all(item.step is not None for item in parts):
            parts.sort(key=lambda item: (item.step or 0, item.split != "train"))
        yield from parts
    else:
        for table, rows in read:
            yield from (replace(item, run=table.name) for item in rows)
        told = ", ".join(table.name for table in tables[:5])
        more = f" and {len(tables) - 5} more" if len(tables) > 5 else ""
        text = f"holds {len(tables)} tables of the same metrics, each a run: "
        yield Note(name, f"{text}{told}{more}")
    yield from refusals(name, refused)


def _named(table: _Table) -> frozenset[str]:
    return frozenset(f"eval_{key}" for key in table.keys) if _evaluates(table) else table.keys


def _evaluates(table: _Table) -> bool:
    return any(part.lower() in _EVALUATIONS for part in table.path)


def _translated(table: _Table, refused: Counter[str]) -> list[Row]:
    """Return the rows of a table, its keys behind ``eval_`` where it holds evaluations."""
    found = []
    for line, record in enumerate(table.records, start=1):
        if _evaluates(table):
            record = {
                key
                if key in (*STEP_KEYS, *EPOCH_KEYS) or key.startswith("eval")
                else f"eval_{key}": value
                for key, value in record.items()
            }
        found.append(row(record, line, refused))
    return found
