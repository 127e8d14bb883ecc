"""Metrics as JSON Lines, or as one JSON array of records."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

from rlhfdoctor.model import Note
from rlhfdoctor.readers import Item, reader
from rlhfdoctor.readers._json import BLOCK_ROWS, kind, records, refusals, rows


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
    refused: Counter[str] = Counter()
    strangers = 0
    block: list[tuple[int | None, Mapping[str, object]]] = []
    for item in records(path):
        if isinstance(item, Note):
            yield item
        elif isinstance(item[1], dict):
            block.append((item[0], item[1]))
            if len(block) == BLOCK_ROWS:
                yield rows(block, refused)
                block = []
        else:
            strangers += 1
    if block:
        yield rows(block, refused)
    if strangers:
        text = f"{strangers} records are no tables and were left out"
        yield Note(path.name, text, left_out=strangers)
    yield from refusals(path.name, refused)
