"""run-*.wandb: the record that wandb keeps of a run, read without wandb."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from rlhfdoctor.model import Note
from rlhfdoctor.readers import Item, reader
from rlhfdoctor.readers._json import flatten, loads, refusals
from rlhfdoctor.readers._leveldb import records
from rlhfdoctor.readers._open import fault_of, opened
from rlhfdoctor.readers._protobuf import Value, fields, inner, real, signed, text
from rlhfdoctor.readers._settings import settings_of
from rlhfdoctor.readers._wandb import COUNTER, axis, logged, told, without_media

_HISTORY, _SUMMARY, _CONFIG, _RUN, _EXIT = 2, 3, 5, 17, 18
"""Fields of Record: wandb/proto/wandb_internal.proto."""

_DEEPEST_KEY = 32
"""Parts of a nested key that are followed, as for nested tables."""


def _whole(value: Value) -> int:
    """Return a number that was written as sint64: zigzag."""
    if not isinstance(value, int):
        raise ValueError("a text in place of a number")
    return value >> 1 ^ -(value & 1)


_TYPED: dict[int, Callable[[Value], object]] = {
    4: bool,
    5: _whole,
    6: real,
    7: text,
    8: lambda value: loads(inner(value)),
    16: lambda value: loads(inner(value)),
}
"""Fields of HistoryItem that hold a value, and how."""


@dataclass(slots=True)
class _Found:
    history: list[dict[str, object]] = field(default_factory=list)
    summary: dict[str, object] = field(default_factory=dict)
    config: dict[str, object] = field(default_factory=dict)
    media: Counter[str] = field(default_factory=Counter)
    exit_code: int | None = None
    malformed: int = 0


@reader("*.wandb", looks=lambda head: head.startswith(b":W&B\xe1\xbe"), role="tracker")
def wandb(path: Path) -> Iterator[Item]:
    """Yield one row for each call of ``log``, and the run's configuration as settings.

    The step is the trainer's own where most calls log one, otherwise wandb's. A call without it
    was made after the one before: it takes that one's step, as wandb's own charts do. A run without
    history yields the last values of its summary as one row.
    """
    found = _Found()
    notes = []
    with opened(path) as file:
        for record in records(file, path.name):
            if isinstance(record, Note):
                notes.append(record)
                continue
            try:
                _take(record, found)
            except ValueError:
                found.malformed += 1
        if fault := fault_of(file):
            notes.append(Note(path.name, fault, left_out=1, unread=True))
    refused: Counter[str] = Counter()
    key = axis(found.history)
    step: object = None
    rows = 0
    for call in found.history:
        step = call.get(key, step) if key else None
        made = logged(call, step, refused)
        if made.values:
            rows += 1
            yield made
    if not rows:
        last = logged(without_media(found.summary, found.media), None, refused)
        if last.values:
            yield last
        text = "only the last value of each key" if last.values else "no numbers"
        yield Note(path.name, f"holds {text}, no history")
    found.config.pop("_wandb", None)
    yield from settings_of(dict(flatten(found.config)), path.name)
    if found.exit_code is None:
        yield Note(path.name, "records no end: the run was killed, or still ran")
    elif found.exit_code:
        yield Note(path.name, f"the run ended with exit code {found.exit_code}")
    yield from told(path.name, found.media)
    yield from refusals(path.name, refused)
    if found.malformed:
        text = f"{found.malformed} records are none of wandb's and were left out"
        yield Note(path.name, text, left_out=found.malformed)
    yield from notes


def _take(record: bytes, found: _Found) -> None:
    """Take what a record holds. Raises ValueError where it is none."""
    for number, _, value in fields(record):
        if number == _HISTORY:
            call: dict[str, object] = {}
            _update(call, inner(value))
            call.setdefault(COUNTER, _counted(inner(value)))
            found.history.append(without_media(call, found.media))
        elif number == _SUMMARY:
            _update(found.summary, inner(value))
        elif number == _CONFIG:
            _update(found.config, inner(value))
        elif number == _RUN:
            for key, _, part in fields(inner(value)):
                if key == 4:
                    _update(found.config, inner(part))
        elif number == _EXIT:
            codes = [code for key, _, code in fields(inner(value)) if key == 1]
            found.exit_code = signed(codes[-1]) if codes and isinstance(codes[-1], int) else 0


def _update(table: dict[str, object], message: bytes) -> None:
    """Put the items of a history, summary or config record into a table, nested keys as tables."""
    for number, _, value in fields(message):
        if number != 1:
            continue
        parts: list[str] = []
        name, content = "", None
        for key, _, part in fields(inner(value)):
            if key == 1:
                name = text(part)
            elif key == 2:
                parts.append(text(part))
            elif key in _TYPED:
                content = _TYPED[key](part)
        *above, last = parts[:_DEEPEST_KEY] or [name]
        place = table
        for word in above:
            below = place.get(word)
            if not isinstance(below, dict):
                below = place[word] = {}
            place = below
        place[last] = content


def _counted(history: bytes) -> int | None:
    """Return HistoryRecord.step, wandb's own count."""
    for number, _, value in fields(history):
        if number == 2:
            counts = [num for key, _, num in fields(inner(value)) if key == 1]
            return counts[-1] if counts and isinstance(counts[-1], int) else 0
    return None
