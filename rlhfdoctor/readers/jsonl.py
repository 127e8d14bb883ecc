"""Metrics as JSON Lines, or as a JSON document that is named like a log."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from rlhfdoctor.model import Note
from rlhfdoctor.readers import Item, reader
from rlhfdoctor.readers._json import blocks, kind, refusals, rows
from rlhfdoctor.readers._open import bare
from rlhfdoctor.readers._tables import read_tables


@reader(
    "*.jsonl",
    "*.ndjson",
    "*log*.json",
    "*metrics*.json",
    "*trajectory*.json",
    "*history*.json",
    looks=lambda head: kind(head) == "metrics" and b'"log_history"' not in head[:4096],
    log=True,
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
        if values:
            yield rows(lines, values, refused)
    if strangers:
        text = f"{strangers} records are no tables and were left out"
        yield Note(path.name, text, left_out=strangers)
    yield from refusals(path.name, refused)
