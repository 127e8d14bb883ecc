"""Samples as JSON: lines, an array, or an object around them; one response or pair a record."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from rlhfdoctor.readers import Item, reader
from rlhfdoctor.readers._elements import elements
from rlhfdoctor.readers._json import kind
from rlhfdoctor.readers._open import bare
from rlhfdoctor.readers._samples import samples_of, split_named, step_named


@reader("*.jsonl", "*.ndjson", "?*.json", looks=lambda head: kind(head) == "samples")
def samples(path: Path) -> Iterator[Item]:
    """Yield one sample a record, with every field that it carries."""
    return read_samples(path)


def read_samples(path: Path, field: str | None = None, *, bounded: bool = True) -> Iterator[Item]:
    """Yield samples; ``field`` and ``bounded`` as in ``samples_of``.

    A number in the file's name is the step of records that tell none ("40.jsonl"). One JSON object
    is read as a batch, or as what surrounds the nearest lists of records that hold text.
    """
    stem = Path(bare(path.name)).stem
    return samples_of(
        elements(path),
        path.name,
        field,
        named_step=step_named(stem),
        named_split=split_named(stem),
        bounded=bounded,
    )
