"""JSON as trainers write it: bare NaN and Infinity, nested tables, numbers inside strings."""

from __future__ import annotations

import json
import math
import re
from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, islice
from operator import methodcaller
from pathlib import Path
from typing import Any, Literal

import orjson

from rlhfdoctor.model import Note, Row, Rows, Split
from rlhfdoctor.readers._open import fault_of, opened

STEP_KEYS = (
    "step",
    "global_step",
    "steps",
    "iteration",
    "iter",
    "update",
    "train_step",
    "training_step",
    "current_steps",
    "training/global_step",
    "train/global_step",
    "train/step",
    "_step",
)
"""Keys that count a run's steps, the most explicit first; wandb's own counts its log calls."""

PROGRESS_KEYS = ("global_step/max_steps", "iteration", "current_steps")
"""Keys that may hold the step and the last one as text: "5/100" (ms-swift, Megatron)."""

SPLIT_KEYS = ("split", "phase", "mode", "stage", "subset", "partition")
"""Keys whose text says whether a row was trained or evaluated."""

EVALUATIONS = frozenset(
    {
        *("eval", "evaluate", "evaluation", "val", "valid", "validation", "validate"),
        *("test", "dev", "heldout", "holdout", "ood", "unseen", "benchmark"),
    }
)
"""Words by which an evaluation is called."""

RUN_KEYS = ("run", "run_name", "run_id", "exp", "exp_name", "experiment", "experiment_name", "seed")
"""Keys that say which of several runs logged a row; the run is called ``key=value``."""

RANK_KEYS = ("rank", "local_rank", "process_index")
"""Keys that say which process of several logged a row."""

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
    "generated_response",
    "raw_output",
    "raw_response",
    "output_text",
    "response_text",
    "completion_text",
    "prediction",
    "predict",
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

BLOCK_ROWS = 256
"""Records that are made into rows at once: few enough to stay in a processor's cache."""

_COUNTERS = frozenset((*STEP_KEYS, *EPOCH_KEYS, *RANK_KEYS))
_COUNTED = frozenset((*STEP_KEYS, *RANK_KEYS))
"""Counters that are whole numbers, kept exactly; an epoch is a float like any other number."""
_SAID = frozenset((*SPLIT_KEYS, *RUN_KEYS))
_NUMBERS: set[type] = {int, float}
_WHOLE: set[type] = {int}
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
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return _SURROGATE.sub("\ufffd", text)
    return text


def number(value: object) -> float | None:
    """Return a JSON value as a number, or None where it is none. Booleans are not numbers."""
    if type(value) is float:
        return value
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
    if type(value) is int:
        return value if -LARGEST_STEP < value < LARGEST_STEP else None
    if value is None or not value.is_integer() or abs(value) >= LARGEST_STEP:
        return None
    return int(value)


def split_of(key: str) -> Split:
    """Return "eval" for a key of an evaluation, "train" for any other."""
    return "eval" if key.startswith(("eval_", "eval/")) else "train"


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
    made = rows([line], [record], refused)
    return Row(
        values={key: column[0] for _, table in made.tables for key, column in table.items()},
        step=made.steps[0],
        epoch=made.epochs[0],
        split="eval" if any(made.evals) else "train",
        rank=made.ranks[0] if made.ranks else None,
        line=line,
        others=tuple(sorted(made.others)),
        run=made.runs[0] if made.runs else None,
    )


def rows(
    lines: Sequence[int | None], records: Sequence[Mapping[str, object]], refused: Counter[str]
) -> Rows:
    """Make rows of many logged records, each with its line, as ``row`` does of one."""
    return _rows(lines, records, refused, asked=False)


def _rows(
    lines: Sequence[int | None],
    records: Sequence[Mapping[str, object]],
    refused: Counter[str],
    *,
    asked: bool,
) -> Rows:
    """Make rows; ``asked``: whether it is known what the records say of their split and run."""
    block = _Block(len(records), refused)
    shapes: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for place, record in enumerate(records):
        shapes[tuple(record)].append(place)
    if not asked and any(not _SAID.isdisjoint(shape) for shape in shapes):
        return _said(lines, records, refused)
    for shape, places in shapes.items():
        held = records if len(shapes) == 1 else [records[place] for place in places]
        columns = list(zip(*map(_values, held), strict=True))
        kinds = [set(map(type, column)) for column in columns]
        if not any(dict in kind for kind in kinds):
            block.add(shape, places, columns, kinds)
            continue
        nested: dict[tuple[str, ...], list[tuple[int, dict[str, object]]]] = defaultdict(list)
        for place in places:
            leaves = _leaves(records[place])
            nested[tuple(leaves)].append((place, leaves))
        for keys, found in nested.items():
            columns = list(zip(*(leaves.values() for _, leaves in found), strict=True))
            kinds = [set(map(type, column)) for column in columns]
            block.add(keys, [place for place, _ in found], columns, kinds)
    return Rows(
        steps=_whole_steps(block.first(STEP_KEYS)),
        epochs=block.first(EPOCH_KEYS),
        ranks=_whole_steps(block.first(RANK_KEYS)) if block.ranked else (),
        lines=lines,
        evals=block.evaluations(),
        tables=block.tables,
        others=frozenset(block.others),
    )


_values = methodcaller("values")


def _whole_steps(steps: Sequence[float | None]) -> Sequence[int | None]:
    if set(map(type, steps)) == _WHOLE and max(map(abs, steps)) < LARGEST_STEP:  # type: ignore[arg-type]
        return steps  # type: ignore[return-value]
    return list(map(whole, steps))


def _said(
    lines: Sequence[int | None], records: Sequence[Mapping[str, object]], refused: Counter[str]
) -> Rows:
    """Make rows of records that say of what split or of which run they are.

    The metrics of an evaluation get its prefix: in one table with those of training they would
    take their places.
    """
    plain: list[Mapping[str, object]] = []
    runs: list[str | None] = []
    said: set[str] = set()
    for record in records:
        told = [key for key in _SAID if key in record and _says(key, record[key])]
        run = next((f"{key}={record[key]}" for key in RUN_KEYS if key in told), None)
        evaluates = any(
            not EVALUATIONS.isdisjoint(re.split(r"[^a-z]+", str(record[key]).lower()))
            for key in SPLIT_KEYS
            if key in told
        )
        said.update(told)
        runs.append(None if run is None else clean(run))
        plain.append(
            {
                f"eval_{key}" if evaluates and _measures(key) else key: value
                for key, value in record.items()
                if key not in told
            }
        )
    made = _rows(lines, plain, refused, asked=True)
    return replace(made, runs=runs, others=made.others | said)


def _says(key: str, value: object) -> bool:
    return isinstance(value, str) or (key in RUN_KEYS and type(value) is int)


def _measures(key: str) -> bool:
    return key not in _COUNTERS and split_of(key) == "train"


def _leaves(record: Mapping[str, object]) -> dict[str, object]:
    """Return the leaves of a record; verl's file logger wraps them: {"step": 1, "data": {...}}."""
    data = record.get("data") if record.keys() == {"step", "data"} else None
    if isinstance(data, dict):
        return {"step": record["step"], **dict(flatten(data))}
    return dict(flatten(record))


class _Block:
    """The columns of many records while they are gathered, shape by shape."""

    def __init__(self, count: int, refused: Counter[str]) -> None:
        self.refused = refused
        self.count = count
        self.counters: dict[str, list[tuple[Sequence[int], Sequence[float]]]] = defaultdict(list)
        self.tables: list[tuple[Sequence[int], dict[str, Sequence[float]]]] = []
        self.others: set[str] = set()

    def add(
        self,
        shape: Sequence[str],
        places: list[int],
        columns: Sequence[Sequence[object]],
        kinds: Sequence[set[type]],
    ) -> None:
        """Take the columns of the records at ``places``, which all have the keys of ``shape``."""
        full: dict[str, Sequence[float]] = {}
        for key, column, kind in zip(shape, columns, kinds, strict=True):
            name = key if key.isascii() else clean(key)
            at, values = self._numbers(name, places, column, kind)
            if name in _COUNTERS:
                if values:
                    self.others.add(name)
                    self.counters[name].append((at, values))
            elif at is places:
                full[name] = values
            elif values:
                self.tables.append((at, {name: values}))
        if full:
            self.tables.append((places, full))

    @property
    def ranked(self) -> bool:
        """Whether a record says which process wrote it."""
        return any(name in self.counters for name in RANK_KEYS)

    def first(self, names: Sequence[str]) -> list[float | None]:
        """Return for each record the number under the first of these keys that has one."""
        found: list[float | None] = [None] * self.count
        for name in reversed(names):
            for at, values in self.counters.get(name, ()):
                if len(at) == self.count:
                    found = list(values)
                else:
                    for place, value in zip(at, values, strict=True):
                        found[place] = value
        return found

    def evaluations(self) -> list[bool]:
        """Say of each record whether all its metrics are of an evaluation; empty where none is."""
        found = [False] * self.count
        train: list[Sequence[int]] = []
        for at, table in self.tables:
            if any(split_of(key) == "train" for key in table):
                train.append(at)
                continue
            for place in at:
                found[place] = True
        for place in chain.from_iterable(train) if any(found) else ():
            found[place] = False
        return found if any(found) else []

    def _numbers(
        self, name: str, places: list[int], column: Sequence[object], kind: set[type]
    ) -> tuple[list[int], Sequence[float]]:
        """Return the numbers of a column and their places; ``places`` itself where all are."""
        if kind == _WHOLE and name in _COUNTED:
            return places, column  # type: ignore[return-value]
        if kind <= _NUMBERS:
            try:
                return places, array("d", column)  # type: ignore[arg-type]
            except OverflowError:
                pass
        at: list[int] = []
        values: list[float] = []
        for place, value in zip(places, column, strict=True):
            as_number = number(value)
            if as_number is not None:
                at.append(place)
                values.append(as_number)
            elif value is not None:
                self._text(name, place, value)
        return (places if len(at) == len(places) else at), values

    def _text(self, name: str, place: int, value: object) -> None:
        self.others.add(name)
        counted = name in PROGRESS_KEYS and isinstance(value, str)
        progress = _PROGRESS.fullmatch(str(value)) if counted else None
        if progress:
            self.counters["step"].append(([place], [float(progress[1])]))
            self.tables.append(([place], {"max_steps": [float(progress[2])]}))
        else:
            self.refused[name] += 1


def refusals(name: str, refused: Counter[str]) -> Iterator[Note]:
    """Yield one note that names the keys whose values were no numbers."""
    if refused:
        told = [f"{key} ({count} rows)" for key, count in sorted(refused.items())[:20]]
        more = f" and {len(refused) - 20} more keys" if len(refused) > 20 else ""
        yield Note(name, f"no numbers, so no metrics: {', '.join(told)}{more}")


def kind(head: bytes) -> Literal["metrics", "samples"] | None:
    """Tell metrics from samples by a file's beginning.

    Samples hold a response as text, a conversation or token ids, and no loss, gradient norm or
    learning rate. A file that begins with zero bytes is neither, whatever it holds.
    """
    if b"\x00" in head[:8]:
        return None
    text = _TEXT_FIELD.search(head) or _WHOLE_FIELD.search(head)
    if text and not _METRIC_FIELD.search(head):
        return "samples"
    return "metrics" if _NUMBER_FIELD.search(head) else None


def records(path: Path) -> Iterator[tuple[int, object] | Note]:
    """Yield (line, value) for each line of a JSON Lines file, or each element of a JSON array.

    A line that is no JSON becomes a note with its number; the last line of a file that was cut
    while it was written is named as such.
    """
    for block in blocks(path):
        if isinstance(block, Note):
            yield block
        else:
            yield from zip(*block, strict=True)


Block = tuple[list[int], list[Any]]
"""Lines, and the value of each."""


def blocks(path: Path) -> Iterator[Block | Note]:
    """Yield what ``records`` does, ``BLOCK_ROWS`` records at once."""
    with opened(path) as file:
        if file.peek(64)[:64].lstrip()[:1] == b"[":
            yield from _array(path, file.read())
            if fault := fault_of(file):
                yield Note(path.name, fault, left_out=1, unread=True)
            return
        bad: list[int] = []
        last, line = 0, b"\n"
        while chunk := list(islice(file, BLOCK_ROWS)):
            lines: list[int] = []
            values: list[Any] = []
            try:
                values = list(map(orjson.loads, chunk))
                lines = list(range(last + 1, last + len(chunk) + 1))
            except orjson.JSONDecodeError:
                blank = not any(map(bytes.strip, chunk))
                for number, line in enumerate(() if blank else chunk, start=last + 1):
                    if line.strip():
                        try:
                            values.append(loads(line))
                            lines.append(number)
                        except ValueError:
                            bad.append(number)
            last, line = last + len(chunk), chunk[-1]
            yield lines, values
        ended = line.endswith(b"\n")
        fault = fault_of(file)
    if fault:
        yield Note(path.name, fault, left_out=1, unread=True)
    if bad and bad[-1] == last and not ended:
        where = f"{path.name}:{bad.pop()}"
        yield Note(where, "last line is cut; the file ends inside a record", left_out=1)
    if bad:
        yield unparsed(path.name, len(bad), bad)


def unparsed(name: str, count: int, first: Sequence[int], what: str = "no JSON") -> Note:
    """Return the note of lines that are ``what``; ``first``: the numbers of the first of them."""
    shown = ", ".join(map(str, first[:10])) + (", ..." if count > 10 else "")
    return Note(name, f"{count} lines are {what} and were left out: {shown}", left_out=count)


def _array(path: Path, text: bytes) -> Iterator[Block | Note]:
    try:
        value = loads(text)
    except ValueError as error:
        found = list(salvage(text))
        yield list(range(1, len(found) + 1)), found
        yield cut(path.name, error, len(found))
        return
    found = value if isinstance(value, list) else [value]
    yield list(range(1, len(found) + 1)), found


def cut(name: str, error: ValueError, count: int) -> Note:
    """Return the note of a JSON file that could not be parsed to its end."""
    if count:
        told = f"is cut or damaged; {count} records before that were read"
        return Note(name, told, left_out=1, unread=True)
    return Note(name, f"no valid JSON ({error}); nothing was read", left_out=1, unread=True)
