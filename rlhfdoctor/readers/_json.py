"""JSON as trainers write it: bare NaN and Infinity, nested tables, numbers inside strings."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Literal

import orjson

from rlhfdoctor.model import Note, Row
from rlhfdoctor.readers._open import fault_of, opened

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

PROGRESS_KEYS = ("global_step/max_steps", "iteration", "current_steps")
"""Keys that may hold the step and the last one as text: "5/100" (ms-swift, Megatron)."""

EPOCH_KEYS = ("epoch", "train/epoch", "training/epoch")

TEXT_KEYS = (
    "response",
    "completion",
    "output",
    "generation",
    "generated_text",
    "generated",
    "raw_generation",
    "model_output",
    "model_response",
    "prediction",
    "responses",
    "completions",
    "outputs",
    "generations",
    "predictions",
    "answer",
    "text",
)
"""Keys under which sample files hold a response, the most explicit first."""

DEEPEST = 32
"""Levels of nested tables that are followed; no trainer nests metrics so deep."""

LARGEST_STEP = 2**53
"""Steps from here on are no steps; a float cannot count them."""

_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?")
_NOT_FINITE = re.compile(r"(?P<nan>[+-]?nan)|(?P<sign>[+-]?)inf(inity)?", re.IGNORECASE)
_PROGRESS = re.compile(r"(\d+)\s*/\s*(\d+)")
_SURROGATE = re.compile("[\ud800-\udfff]")
_TEXT_FIELD = re.compile(
    rb'"(%s)"\s*:\s*["\[]' % "|".join((*TEXT_KEYS, "chosen")).encode(), re.ASCII
)
_WHOLE_FIELD = re.compile(
    rb'"(messages|conversations|response_tensor)"\s*:\s*\[|\A\s*\[?\s*\{\s*"content"\s*:'
)
_NUMBER_FIELD = re.compile(
    rb'"[^"]+"\s*:\s*"?([-+]?\d|[-+]?nan|[-+]?inf|null)', re.ASCII | re.IGNORECASE
)
_METRIC_FIELD = re.compile(rb'"(train/)?(loss|grad_norm|learning_rate|lr)"\s*:')


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


def salvage(text: bytes, key: str | None = None) -> Iterator[object]:
    """Yield the whole elements of a JSON array that was cut; ``key``: the array's name.

    A trainer that was killed while it saved leaves the beginning of its state.
    """
    decoder = json.JSONDecoder()
    decoded = text.decode("utf-8", "replace")
    start = decoded.find(f'"{key}"') if key else 0
    place = decoded.find("[", start) + 1 if start >= 0 else 0
    while place:
        beginning = re.compile(r"[\s,]*").match(decoded, place)
        place = beginning.end() if beginning else place
        try:
            value, place = decoder.raw_decode(decoded, place)
        except (ValueError, RecursionError):
            return
        yield value


def numbers_before(text: bytes, key: str, names: Iterable[str]) -> dict[str, float]:
    """Return the top-level numbers of these names that stand before a key in a damaged object."""
    head = text.decode("utf-8", "replace").partition(f'"{key}"')[0]
    found = {name: re.search(rf'"{name}"\s*:\s*(-?[\d.eE+-]+)', head) for name in names}
    told = {name: number(match[1]) for name, match in found.items() if match}
    return {name: value for name, value in told.items() if value is not None}


def clean(text: str) -> str:
    """Replace lone surrogates, which no encoding can carry, by U+FFFD."""
    return _SURROGATE.sub("\ufffd", text)


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
        if _NUMBER.fullmatch(value):
            return float(value)
        found = _NOT_FINITE.fullmatch(value)
        if found:
            return math.nan if found["nan"] else math.copysign(math.inf, float(f"{found['sign']}1"))
    return None


def whole(value: float | None) -> int | None:
    """Return a step as a whole number, or None where it is none."""
    if value is None or not value.is_integer() or abs(value) >= LARGEST_STEP:
        return None
    return int(value)


def flatten(
    record: Mapping[str, object], prefix: str = "", depth: int = 0
) -> Iterator[tuple[str, object]]:
    """Yield the leaves of nested tables under keys joined by "/"; a table too deep is a leaf."""
    for key, value in record.items():
        if isinstance(value, dict) and depth < DEEPEST:
            yield from flatten(value, f"{prefix}{key}/", depth + 1)
        else:
            yield f"{prefix}{key}", value


def row(record: Mapping[str, object], line: int | None, refused: Counter[str]) -> Row:
    """Make a row of one logged record; count the keys whose values are no numbers in ``refused``.

    It is an evaluation row where every metric carries the ``eval_`` or ``eval/`` prefix. A step
    that is no whole number is treated as absent; "5/100" is step 5 of ``max_steps`` 100.
    """
    values: dict[str, float] = {}
    others: list[str] = []
    for key, value in flatten(record):
        if value is None:
            continue
        as_number = number(value)
        name = key if key.isascii() else clean(key)
        if as_number is not None:
            values[name] = as_number
            continue
        others.append(name)
        progress = _PROGRESS.fullmatch(value) if isinstance(value, str) else None
        if progress and key in PROGRESS_KEYS:
            values["step"], values["max_steps"] = float(progress[1]), float(progress[2])
        else:
            refused[name] += 1
    step = _first(values, STEP_KEYS)
    epoch = _first(values, EPOCH_KEYS)
    counted = [key for key in (*STEP_KEYS, *EPOCH_KEYS) if values.pop(key, None) is not None]
    evaluation = bool(values) and all(key.startswith(("eval_", "eval/")) for key in values)
    return Row(
        values=values,
        step=whole(step),
        epoch=epoch,
        split="eval" if evaluation else "train",
        line=line,
        others=(*others, *counted),
    )


def refusals(name: str, refused: Counter[str]) -> Iterator[Note]:
    """Yield one note that names the keys whose values were no numbers."""
    if refused:
        told = [f"{key} ({count} rows)" for key, count in sorted(refused.items())[:20]]
        more = f" and {len(refused) - 20} more keys" if len(refused) > 20 else ""
        yield Note(name, f"no numbers, so no metrics: {', '.join(told)}{more}")


def kind(head: bytes) -> Literal["metrics", "samples"] | None:
    """Tell metrics from samples by a file's beginning.

    Samples hold a response as text, a conversation or token ids, and no loss, gradient norm or
    learning rate.
    """
    text = _TEXT_FIELD.search(head) or _WHOLE_FIELD.search(head)
    if text and not _METRIC_FIELD.search(head):
        return "samples"
    return "metrics" if _NUMBER_FIELD.search(head) else None


def records(path: Path) -> Iterator[tuple[int, object] | Note]:
    """Yield (line, value) for each line of a JSON Lines file, or each element of a JSON array.

    A line that is no JSON becomes a note with its number; the last line of a file that was cut
    while it was written is named as such.
    """
    with opened(path) as file:
        if file.peek(64)[:64].lstrip()[:1] == b"[":
            yield from _array(path, file.read())
            if fault := fault_of(file):
                yield Note(path.name, fault, left_out=1)
            return
        bad: list[int] = []
        ended = True
        last = 0
        for last, line in enumerate(file, start=1):
            ended = line.endswith(b"\n")
            if not line.strip():
                continue
            try:
                yield last, loads(line)
            except ValueError:
                bad.append(last)
        fault = fault_of(file)
    if fault:
        yield Note(path.name, fault, left_out=1)
    if bad and bad[-1] == last and not ended:
        where = f"{path.name}:{bad.pop()}"
        yield Note(where, "last line is cut; the file ends inside a record", left_out=1)
    if bad:
        shown = ", ".join(map(str, bad[:10])) + (", ..." if len(bad) > 10 else "")
        text = f"{len(bad)} lines are no JSON and were left out: {shown}"
        yield Note(path.name, text, left_out=len(bad))


def _array(path: Path, text: bytes) -> Iterator[tuple[int, object] | Note]:
    try:
        value = loads(text)
    except ValueError as error:
        count = 0
        for count, item in enumerate(salvage(text), start=1):
            yield count, item
        yield cut(path.name, error, count)
        return
    yield from enumerate(value if isinstance(value, list) else [value], start=1)


def cut(name: str, error: ValueError, count: int) -> Note:
    """Return the note of a JSON file that could not be parsed to its end."""
    if count:
        return Note(name, f"is cut or damaged; {count} records before that were read", left_out=1)
    return Note(name, f"no valid JSON ({error}); nothing was read", left_out=1)


def _first(values: Mapping[str, float], keys: tuple[str, ...]) -> float | None:
    return next((values[key] for key in keys if key in values), None)
