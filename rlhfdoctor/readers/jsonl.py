"""Metrics as JSON Lines, or as a JSON document that is named like a log."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterator, Mapping, Sequence
from pathlib import Path

from rlhfdoctor.model import Note
from rlhfdoctor.readers import Item, reader
from rlhfdoctor.readers._json import STEP_KEYS, blocks, flatten, kind, refusals, rows
from rlhfdoctor.readers._open import bare
from rlhfdoctor.readers._settings import settings_of
from rlhfdoctor.readers._tables import read_tables

CONFIGURED = ("config", "args", "hparams", "hyperparameters")
"""Keys under which a home-made log holds its configuration, before the first step."""

FIRST = 4
"""Records of a block that are looked at for it."""


@reader(
    "*.jsonl",
    "*.ndjson",
    "*log*.json",
    "*metrics*.json",
    "*trajectory*.json",
    "*history*.json",
    looks=lambda head: kind(head) == "metrics" and b'"log_history"' not in head[:4096],
    role="log",
)
def jsonl(path: Path) -> Iterator[Item]:
    """Yield a row a record; keys of any depth, and keys that first appear late, are kept."""
    if bare(path.name).endswith(".json"):
        yield from read_tables(path)
        return
    refused: Counter[str] = Counter()
    strangers = 0
    for block in blocks(path):
        if isinstance(block, Note):
            yield block
            continue
        lines, values = block
        if set(map(type, values)) != {dict}:
            tables = [item for item in zip(*block, strict=True) if isinstance(item[1], dict)]
            strangers += len(values) - len(tables)
            lines, values = [line for line, _ in tables], [value for _, value in tables]
        if any(map(_arguments, values[:FIRST])):
            lines, values = yield from _configured(path.name, lines, values)
        if values:
            yield rows(lines, values, refused)
    if strangers:
        text = f"{strangers} records are no tables and were left out"
        yield Note(path.name, text, left_out=strangers)
    yield from refusals(path.name, refused)


def _arguments(record: Mapping[str, object]) -> Mapping[str, object] | None:
    """Return the arguments that a record of the configuration holds, None for any other."""
    told = next((record[key] for key in CONFIGURED if isinstance(record.get(key), dict)), None)
    counted = any(key in record for key in STEP_KEYS)
    return told if isinstance(told, dict) and not counted else None


def _configured(
    name: str, lines: Sequence[int], values: Sequence[Mapping[str, object]]
) -> Generator[Item, None, tuple[list[int], list[Mapping[str, object]]]]:
    """Yield the settings of records that hold the configuration; return the other records."""
    kept: tuple[list[int], list[Mapping[str, object]]] = ([], [])
    for line, record in zip(lines, values, strict=True):
        told = _arguments(record)
        if told is None:
            kept[0].append(line)
            kept[1].append(record)
        else:
            yield from settings_of(dict(flatten(told)), name)
    return kept
