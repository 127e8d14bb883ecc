"""JSON as trainers write it: bare NaN and Infinity, nested tables, numbers inside strings."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Literal

import orjson

from rlhfdoctor.model import Note, Row

STEP_KEYS = (
    "step",
    "global_step",
    "_step",
    "steps",
    "iteration",
    "update",
    "current_steps",
    "training/global_step",
    "train/global_step",
    "train/step",
)
"""Keys that count a run's steps, the most explicit first."""

EPOCH_KEYS = ("epoch", "train/epoch", "training/epoch")

TEXT_KEYS = (
    "response",
    "completion",
    "output",
    "generation",
    "generated_text",
    "generated",
    "answer",
    "text",
    "chosen",
)
"""Keys under which sample files hold a response, the most explicit first."""

_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?")
_NOT_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
_TEXT_FIELD = re.compile(rb'"(%s)"\s*:\s*["\[]' % "|".join(TEXT_KEYS).encode())
_NUMBER_FIELD = re.compile(rb'"[^"]+"\s*:\s*(-?\d|NaN|-?Infinity|null|"NaN")')


def loads(text: bytes) -> object:
    """Parse JSON; bare NaN and Infinity, which orjson refuses, stay what they are.

    Raises ValueError for anything that is no JSON, and for nesting too deep to follow.
    """
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        pass
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def number(value: object) -> float | None:
    """Return a JSON value as a number, or None where it is none. Booleans are not numbers."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        try:
            return float(value)
        except OverflowError:
            return math.inf if value > 0 else -math.inf
    if isinstance(value, str):
        if value in _NOT_FINITE:
            return _NOT_FINITE[value]
        if _NUMBER.fullmatch(value):
            return float(value)
    return None


def flatten(record: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, object]]:
    """Yield the leaves of nested tables under keys joined by "/"."""
    for key, value in record.items():
        if isinstance(value, dict):
            yield from flatten(value, f"{prefix}{key}/")
        else:
            yield f"{prefix}{key}", value


def row(record: Mapping[str, object], line: int | None) -> tuple[Row, list[str]]:
    """Make a row of one logged record; also return the keys whose values are no numbers.

    A row is an evaluation row where every metric carries the ``eval_`` or ``eval/`` prefix, which
    is taken off. A step that is no whole number is treated as absent.
    """
    values: dict[str, float] = {}
    refused: list[str] = []
    for key, value in flatten(record):
        as_number = number(value)
        if as_number is not None:
            values[key] = as_number
        elif value is not None and not isinstance(value, str | bool):
            refused.append(key)
    step = _first(values, STEP_KEYS)
    if step is not None and not step.is_integer():
        step = None
    epoch = _first(values, EPOCH_KEYS)
    metrics = {
        key: value
        for key, value in values.items()
        if key not in STEP_KEYS and key not in EPOCH_KEYS
    }
    evaluation = {
        key: value for key, value in metrics.items() if key.startswith(("eval_", "eval/"))
    }
    split: Literal["train", "eval"] = "train"
    if evaluation and len(evaluation) == len(metrics):
        split, metrics = "eval", {key[5:]: value for key, value in evaluation.items()}
    return (
        Row(
            values=metrics,
            step=None if step is None else int(step),
            epoch=epoch,
            split=split,
            line=line,
        ),
        refused,
    )


def kind(head: bytes) -> Literal["metrics", "samples"] | None:
    """Tell metrics from samples by a file's beginning: samples hold a response as text."""
    if _TEXT_FIELD.search(head):
        return "samples"
    return "metrics" if _NUMBER_FIELD.search(head) else None


def records(path: Path) -> Iterator[tuple[int, object] | Note]:
    """Yield (line, value) for each line of a JSON Lines file, or each element of a JSON array.

    A line that is no JSON becomes a note with its number; the last line of a file that was cut
    while it was written is named as such.
    """
    with path.open("rb") as file:
        if file.read(64).lstrip()[:1] == b"[":
            file.seek(0)
            yield from _array(path, file.read())
            return
        file.seek(0)
        bad: list[int] = []
        ended = True
        number_of_line = 0
        for number_of_line, line in enumerate(file, start=1):
            ended = line.endswith(b"\n")
            if not line.strip():
                continue
            try:
                yield number_of_line, loads(line)
            except ValueError:
                bad.append(number_of_line)
    if bad and bad[-1] == number_of_line and not ended:
        yield Note(
            f"{path.name}:{bad.pop()}",
            "last line is cut; the file ends inside a record",
            left_out=1,
        )
    if bad:
        shown = ", ".join(map(str, bad[:10])) + (", ..." if len(bad) > 10 else "")
        text = f"{len(bad)} lines are no JSON and were left out: {shown}"
        yield Note(path.name, text, left_out=len(bad))


def _array(path: Path, text: bytes) -> Iterator[tuple[int, object] | Note]:
    try:
        value = loads(text)
    except ValueError as error:
        yield Note(path.name, f"no valid JSON ({error}); nothing was read")
        return
    yield from enumerate(value if isinstance(value, list) else [value], start=1)


def _first(values: Mapping[str, float], keys: tuple[str, ...]) -> float | None:
    return next((values[key] for key in keys if key in values), None)
