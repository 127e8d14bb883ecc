"""Every log that the tests hold, cut at every 64th byte and with flipped bytes.

A file that was cut while it was written holds a beginning: what is read of it must stand in the
whole file as well, number by number. A flipped byte may change a number of a text, which has no
checksum; it must never be more than a note.
"""

from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from rlhfdoctor.claims import claim
from rlhfdoctor.model import Note, Row, Rows, Sample
from rlhfdoctor.readers import Item
from tests.builders import FIXTURES
from tests.readers.helpers import single

HELD = 8192
"""Bytes of a long file that are cut: what is behind them is more of the same."""

LOGS = Path(__file__).parent.parent / "dialects" / "logs"
FILES = [
    pytest.param(path, id=path.relative_to(root).as_posix())
    for root in (LOGS, FIXTURES)
    for path in sorted(root.rglob("*"))
    if path.is_file()
    and not any(part.startswith("checkpoint") for part in path.parts)
    and path.suffix not in (".safetensors", ".gguf")
    and claim(path) is not None
]


def read(path: Path) -> tuple[list[Item], list[Note]]:
    claimed = claim(path)
    if claimed is None or claimed.reader is None:
        return [], []
    items = list(claimed.reader.read(path))
    return items, [item for item in items if isinstance(item, Note)]


def numbers(items: list[Item]) -> Iterator[tuple[str, float]]:
    for item in items:
        if isinstance(item, Rows | Row):
            for row in single(item) if isinstance(item, Rows) else [item]:
                yield from ((key, value) for key, value in row.values.items() if value == value)
        elif isinstance(item, Sample) and item.reward is not None:
            yield "reward of a sample", item.reward


@cache
def whole(path: Path) -> frozenset[tuple[str, float]]:
    return frozenset(numbers(read(path)[0]))


@pytest.mark.parametrize("path", FILES)
def test_of_a_cut_file_nothing_is_read_that_was_not_there(path: Path, tmp_path: Path) -> None:
    text = path.read_bytes()
    cut = tmp_path / path.name
    for size in range(64, min(len(text), HELD), 64):
        cut.write_bytes(text[:size])
        items, _ = read(cut)
        assert set(numbers(items)) <= whole(path), size


@pytest.mark.parametrize("path", FILES)
def test_a_flipped_byte_is_borne(path: Path, tmp_path: Path) -> None:
    text = path.read_bytes()[:HELD]
    flipped = tmp_path / path.name
    for place in range(7, len(text), 331):
        changed = bytearray(text)
        changed[place] ^= 0xFF if place % 2 else 0x04
        flipped.write_bytes(changed)
        items, notes = read(flipped)
        assert all(note.text for note in notes)
        assert len(items) >= len(notes)
