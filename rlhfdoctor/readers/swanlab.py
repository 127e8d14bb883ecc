"""run-*.swanlab: the record that SwanLab keeps of a run, read without SwanLab."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from rlhfdoctor.model import Location, Note, Setting
from rlhfdoctor.readers import Item, reader
from rlhfdoctor.readers._leveldb import records
from rlhfdoctor.readers._open import fault_of, opened
from rlhfdoctor.readers._protobuf import fields, inner, real, signed, text
from rlhfdoctor.readers._scalars import Scalar, rows

_SCALAR, _MEDIA, _FINISH = 13, 14, 11
"""Fields of swanlab.record.v1.Record, SwanLab 0.10."""

_STATES = {0: "runs on", 2: "crashed", 3: "was aborted"}
"""swanlab.run.v1.RunState, but for 1: it finished."""

_VERSION = 2  # of the format, the last byte of the header


@dataclass(slots=True)
class _Rest:
    notes: list[Note] = field(default_factory=list)
    media: int = 0
    state: int | None = None
    error: str = ""
    malformed: int = 0


@reader("*.swanlab", looks=lambda head: head.startswith(b":SWL\xd6\xe1"), role="tracker")
def swanlab(path: Path) -> Iterator[Item]:
    """Yield one row for all scalars of one step and split; wall times are seconds since 1970.

    The file says how the run ended, with the error where one ended it.
    """
    rest = _Rest()
    with opened(path) as file:
        version = file.peek(7)[6:7]
        yield from rows(_scalars(records(file, path.name), rest))
        fault = fault_of(file)
    if version != bytes([_VERSION]):
        yield Note(path.name, f"is of another version than {_VERSION}, and was read as that")
    if rest.error:
        yield Setting("ended_with", rest.error, Location(path.name, key="finish.error"))
    if rest.state is None:
        yield Note(path.name, "records no end: the run was killed, or still ran")
    elif rest.state in _STATES:
        yield Note(path.name, f"says that the run {_STATES[rest.state]}")
    if rest.media:
        yield Note(path.name, f"holds besides numbers, unread: {rest.media} media")
    if rest.malformed:
        told = f"{rest.malformed} records are none of SwanLab's and were left out"
        yield Note(path.name, told, left_out=rest.malformed)
    yield from rest.notes
    if fault:
        yield Note(path.name, fault, left_out=1, unread=True)


def _scalars(items: Iterable[bytes | Note], rest: _Rest) -> Iterator[Scalar]:
    for item in items:
        if isinstance(item, Note):
            rest.notes.append(item)
            continue
        try:
            for number, _, value in fields(item):
                if number == _SCALAR:
                    yield _scalar(inner(value))
                elif number == _MEDIA:
                    rest.media += 1
                elif number == _FINISH:
                    told = {key: part for key, _, part in fields(inner(value))}
                    state = told.get(1, 0)
                    rest.state = state if isinstance(state, int) else None
                    lines = text(told.get(2, b"")).split("\n")
                    rest.error = next((line for line in reversed(lines) if line.strip()), "")
        except ValueError:
            rest.malformed += 1


def _scalar(message: bytes) -> Scalar:
    """Return a ScalarRecord; what is 0 was not written. Raises ValueError where it is none."""
    step, wall_time, key = 0, 0.0, ""
    number: float | None = None
    for field_number, _, value in fields(message):
        if field_number == 1:
            key = text(value)
        elif field_number == 2 and isinstance(value, int):
            step = signed(value)
        elif field_number == 4:
            parts = {part: count for part, _, count in fields(inner(value))}
            seconds, nanos = parts.get(1, 0), parts.get(2, 0)
            if isinstance(seconds, int) and isinstance(nanos, int):
                wall_time = signed(seconds) + signed(nanos) / 1e9
        elif field_number == 5:
            numbers = [real(part) for place, _, part in fields(inner(value)) if place == 1]
            number = numbers[-1] if numbers else 0.0
    if number is None:
        raise ValueError("a scalar without a value")
    return Scalar(step, wall_time, key, number)
