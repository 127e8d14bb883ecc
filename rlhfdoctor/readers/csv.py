"""Tables as CSV or TSV: metrics, one row a step, or samples, one row a response."""

from __future__ import annotations

import csv as library
import io
import math
import re
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from rlhfdoctor.model import Note, Row
from rlhfdoctor.readers import Item, reader
from rlhfdoctor.readers._json import (
    EPOCH_KEYS,
    STEP_KEYS,
    TEXT_KEYS,
    loads,
    number,
    refusals,
    row,
    split_of,
    whole,
)
from rlhfdoctor.readers._open import bare, fault_of, opened
from rlhfdoctor.readers._python import value_at
from rlhfdoctor.readers._samples import (
    PROMPT_KEYS,
    holds_text,
    is_chat,
    samples_of,
    split_named,
    step_named,
    textless,
)

MOST_ROWS = 2_000_000
"""Rows of one file that are read."""

LONGEST_FIELD = 2**24
"""Characters of one field; an unclosed quote ends there."""

LONGEST_LINE = 2**26
"""Characters of one line; the table ends there."""

_DELIMITERS = (",", ";", "\t", "|")
_NO_NAMES = re.compile(r"(unnamed: ?\d+)?", re.IGNORECASE)
_DECIMAL_COMMA = re.compile(r"[-+]?\d+,\d+([eE][-+]?\d+)?")
_THOUSANDS = re.compile(r"[-+]?[1-9]\d{0,2}(,\d{3})+(\.\d*)?")
_STEP_NAMES = re.compile(
    r"(global|train(ing)?|optimi[sz]er|current)?[ _/.-]?(steps?|iter(ation)?s?|updates?)"
)
_TIDY = ("metric", "tag", "key", "name", "variable")
_TENSORBOARD = ("wall time", "step", "value")
_TAGGED = re.compile(r"(?:run-)?(.*?)-?tag-(.+)")
_TAG_GROUPS = re.compile(
    r"(train|objective|policy|loss|val|actor|critic|rewards?|completions|logps|logits|rollout"
    r"|env|time|perf|training)_(?=[^_])"
)
_WANDB = re.compile(r"(.+?) - (.+?)(__MIN|__MAX)?", re.DOTALL)
_LOGGED = re.compile(
    r"(?i)^(step|steps|global_?step|iter(ation)?|update|epoch|wall time|train[/_](global_)?step"
    r"|current_steps|training step|_step)$"
)


def _looks(head: bytes) -> bool:
    """Say whether the first line names responses, or a step and other columns."""
    names, first = _first_lines(head)
    return len(names) > 1 and (_are_samples(names, first) or any(map(_LOGGED.match, names)))


def columns(head: bytes) -> list[str]:
    """Return the names of the columns by the beginning of a table; none where it is no table."""
    return _first_lines(head)[0]


def _first_lines(head: bytes) -> tuple[list[str], list[str]]:
    if b"\x00" in head:
        return [], []
    text = head.decode("utf-8-sig", "replace")
    try:
        parsed = library.reader(io.StringIO(text, newline=""), delimiter=_delimiter(text))
        names, first = next(parsed, []), next(parsed, [])
    except library.Error:
        return [], []
    return [name.strip() for name in names], first


def _are_samples(names: Sequence[str], first: Sequence[str]) -> bool:
    """Say whether a table holds samples: some text, and nothing that only a trainer logs."""
    logged = {"loss", "train/loss", "train_loss", "grad_norm", "learning_rate", "lr"}
    numeric = bool(first) and all(number(field) is not None for field in first)
    return holds_text(names) and not numeric and not logged & set(names)


@reader("?*.csv", "?*.tsv", looks=_looks, role="table")
def csv(path: Path) -> Iterator[Item]:
    """Yield samples where a column holds responses, and a row of metrics a line otherwise.

    The delimiter is the one that the first line has most of; quoted fields may hold line breaks; a
    decimal comma is understood where the delimiter is another. Understood are exports of
    TensorBoard (``Wall time,Step,Value``; the tag stands in the file's name, where "/" became "_")
    and wandb ("run - metric" columns), tables of (step, metric, value), and pandas' index column.
    """
    with _table(path) as (names, rest, english, fault):
        first = next(rest, None)
        lines = rest if first is None else chain((first,), rest)
        if _are_samples(names, first[1] if first else ()):
            yield from _samples(path, names, lines)
        else:
            yield from _metrics(path, names, lines, english)
        if text := fault():
            yield Note(path.name, text, left_out=1, unread=True)


def read_samples(path: Path, field: str | None = None) -> Iterator[Item]:
    """Yield the samples of a table of any length; ``field``: the column of the response."""
    with _table(path, math.inf) as (names, lines, _, fault):
        if holds_text(names, field):
            yield from _samples(path, names, lines, field, bounded=False)
        else:
            yield textless(path.name, names)
        if text := fault():
            yield Note(path.name, text, left_out=1, unread=True)


def _samples(
    path: Path,
    names: Sequence[str],
    lines: Lines,
    field: str | None = None,
    *,
    bounded: bool = True,
) -> Iterator[Item]:
    stem = Path(bare(path.name)).stem
    columns = [_column(name, field) for name in names]
    return samples_of(
        ((line, _record(columns, fields)) for line, fields in lines),
        path.name,
        field,
        named_step=step_named(stem),
        named_split=split_named(stem),
        bounded=bounded,
    )


Lines = Iterator[tuple[int, list[str]]]


@contextmanager
def _table(
    path: Path, most: float | None = None
) -> Iterator[tuple[list[str], Lines, bool, Callable[[], str | None]]]:
    """Open a table: its column names, its numbered lines, and what is wrong with its end.

    most: rows that are read, ``MOST_ROWS`` unless said.

    Where commas part the fields, a comma in a number parts thousands.

    The last field of a line that does not end may be the beginning of a longer number.
    """
    faults: list[str] = []
    limit = MOST_ROWS if most is None else most
    last = ""

    def unpacked(text: io.TextIOWrapper) -> Iterator[str]:
        nonlocal last
        while last := text.readline(LONGEST_LINE):
            if len(last) == LONGEST_LINE and last[-1] != "\n":
                raise library.Error(f"a line is longer than {LONGEST_LINE} characters")
            yield last.replace("\x00", "")

    def numbered(rows: Iterator[list[str]], count: Callable[[], int]) -> Lines:
        try:
            for place, fields in enumerate(rows):
                if place == limit:
                    faults.append(f"has more than {limit} rows; the rest was not read")
                    return
                if place and not last.endswith(("\n", "\r")):
                    faults.append("the last line does not end; its last field was left out")
                    fields = fields[:-1]
                if any(fields):
                    yield count(), fields
        except (library.Error, OverflowError) as error:
            faults.append(f"is cut or damaged at line {count()} ({error})")

    library.field_size_limit(LONGEST_FIELD)
    with opened(path) as file:
        delimiter = _delimiter(file.peek(65536)[:65536].decode("utf-8-sig", "replace"))
        text = io.TextIOWrapper(file, encoding="utf-8-sig", errors="replace", newline="")
        parsed = library.reader(unpacked(text), delimiter=delimiter)
        lines = numbered(parsed, lambda: parsed.line_num)
        _, names = next(lines, (0, []))
        yield (
            [name.strip() for name in names],
            lines,
            delimiter == ",",
            lambda: (faults[0] if faults else None) or fault_of(file),
        )
        text.detach()


def _delimiter(text: str) -> str:
    first = re.sub(r'"[^"]*"', "", text.lstrip("\r\n").partition("\n")[0])
    return max(_DELIMITERS, key=first.count)


class _Column(NamedTuple):
    """A column: whether it holds responses, of which one may be empty, or any text as it is."""

    name: str
    response: bool
    literal: bool


def _column(name: str, field: str | None) -> _Column:
    literal = name in (*TEXT_KEYS, *PROMPT_KEYS, "chosen", "rejected") or name == field
    return _Column(name, holds_text((name,), field), literal)


def _record(columns: Sequence[_Column], fields: Sequence[str]) -> dict[str, object]:
    """Return a line as a sample's record: lists are parsed, an empty field is absent."""
    found: dict[str, object] = {}
    for (name, response, literal), field in zip(columns, fields, strict=False):
        if not field and not response:
            continue
        found[name] = field
        if field[:1] in ("[", "{") and field[-1:] in ("]", "}"):
            value = _parsed(field)
            if not literal or is_chat(value):
                found[name] = value
        elif not literal and field.lower() in ("true", "false"):
            found[name] = field.lower() == "true"
    return found


def _parsed(field: str) -> object:
    """Return what a field means as JSON, or as pandas prints a list of Python's."""
    try:
        return loads(field.encode("utf-8", "replace"))
    except ValueError:
        pass
    try:
        value, end = value_at(field)
    except (ValueError, EOFError):
        return None
    return value if end == len(field) else None


def _metrics(path: Path, names: Sequence[str], lines: Lines, english: bool) -> Iterator[Item]:
    lowered = [name.lower() for name in names]
    if len(names) < 2:
        yield Note(path.name, "has no columns; nothing was read", unread=True)
        return
    if sorted(lowered) == sorted(_TENSORBOARD):
        yield from _tensorboard(path, lowered, lines, english)
        return
    tidy = next((word for word in _TIDY if word in lowered), None)
    if tidy and "value" in lowered and _is_step(lowered):
        names = [_canonical(name, lowered) for name in names]
        place = names[lowered.index(tidy)], lowered.index("value")
        yield from _tidy(path, names, *place, lines, english)
        return
    keys = yield from _columns(path.name, names)
    refused: Counter[str] = Counter()
    ragged = 0
    for line, fields in lines:
        ragged += len(fields) != len(names)
        record = {
            key: _number_text(field, english)
            for key, field in zip(keys, fields, strict=False)
            if key and field.strip()
        }
        if record:
            yield row(record, line, refused)
    if ragged:
        yield Note(path.name, f"{ragged} rows have more or fewer fields than the header")
    yield from refusals(path.name, refused)


def _is_step(lowered: Sequence[str]) -> bool:
    return any(name in STEP_KEYS or _STEP_NAMES.fullmatch(name) for name in lowered)


def _canonical(name: str, lowered: Sequence[str]) -> str:
    """Return a column's key; of the columns that count steps the most explicit is "step"."""
    low = name.lower()
    if low in STEP_KEYS or low in EPOCH_KEYS:
        return low
    alone = not any(key in STEP_KEYS for key in lowered)
    first = next((item for item in lowered if _STEP_NAMES.fullmatch(item)), None)
    return "step" if alone and low == first else name


def _columns(file: str, names: Sequence[str]) -> Generator[Note, None, list[str | None]]:
    """Return the key of each column, and None for those that are no metrics; wandb's are undone."""
    lowered = [name.lower() for name in names]
    exported = [_WANDB.fullmatch(name) for name in names]
    runs = {match[1] for match in exported if match}
    keys: list[str | None] = []
    for name, match in zip(names, exported, strict=True):
        if match and match[3]:
            keys.append(None)
        elif match:
            keys.append(match[2] if len(runs) == 1 else f"{match[1]}/{match[2]}")
        elif _NO_NAMES.fullmatch(name):
            keys.append(None)
        else:
            keys.append(_canonical(name, lowered))
    if any(exported) and "step" in lowered:
        yield Note(file, "wandb's Step counts its log calls, which need not be the trainer's steps")
    if any(match and match[3] for match in exported):
        yield Note(file, "wandb's __MIN and __MAX columns are those of its buckets; left out")
    if len(runs) > 1:
        yield Note(file, f"holds the columns of {len(runs)} runs; the keys carry their names")
    return keys


def _tensorboard(path: Path, lowered: Sequence[str], lines: Lines, english: bool) -> Iterator[Item]:
    match = _TAGGED.fullmatch(Path(bare(path.name)).stem)
    tag = match[2] if match else Path(bare(path.name)).stem
    tag = tag if tag.startswith("eval_") else _TAG_GROUPS.sub(r"\1/", tag, count=1)
    wall, step, value = (lowered.index(name) for name in _TENSORBOARD)
    bad = 0
    for line, fields in lines:
        found = [number(_number_text(field, english)) for field in fields]
        if len(found) != 3 or found[value] is None:
            bad += 1
            continue
        yield Row(
            values={tag: found[value] or 0.0},
            step=whole(found[step]),
            split=split_of(tag),
            line=line,
            wall_time=found[wall],
        )
    yield Note(path.name, f"the tag, {tag}, was read off the file's name, which writes / as _")
    if bad:
        yield Note(path.name, f"{bad} rows hold no value and were left out", left_out=bad)


def _tidy(
    path: Path, names: Sequence[str], tag: str, value: int, lines: Lines, english: bool
) -> Iterator[Item]:
    """Yield a row a line of a table that has one column for metrics' names and one for values."""
    refused: Counter[str] = Counter()
    for line, fields in lines:
        texts = [_number_text(field, english) for field in fields]
        record: dict[str, object] = dict(zip(names, texts, strict=False))
        told = str(record.pop(tag, ""))
        counted = {key: record[key] for key in (*STEP_KEYS, *EPOCH_KEYS) if key in record}
        if told and value < len(fields):
            yield row({told: texts[value], **counted}, line, refused)
    yield from refusals(path.name, refused)


def _number_text(field: str, english: bool) -> str:
    text = field.strip()
    if english and _THOUSANDS.fullmatch(text):
        return text.replace(",", "")
    return text.replace(",", ".") if _DECIMAL_COMMA.fullmatch(text) else text
