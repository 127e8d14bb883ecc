"""Tables as parquet: TRL's completions, and metrics that a tracker exported."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from rlhfdoctor.model import Note
from rlhfdoctor.readers import Item, reader
from rlhfdoctor.readers._json import STEP_KEYS, refusals, row
from rlhfdoctor.readers._open import MOST_TIMES, bare, unpacked
from rlhfdoctor.readers._samples import (
    MOST,
    MOST_TEXT,
    holds_text,
    samples_of,
    split_named,
    step_named,
    textless,
)

if TYPE_CHECKING:
    import polars as pl

MOST_ROWS = 10_000_000
"""Rows that are read of a file that is shorter in bytes: a small one may claim any number."""

SLICE = 2**26
"""Bytes of text, about, that are unpacked at one time; what a row group packs is held beside."""

UNPACKED = 4
"""How often as long as in the file a text is, for that estimate."""

FEWEST, MOST_AT_ONCE = 1024, 2**18
"""Rows of a slice: below the first number the file is read anew too often."""

BLOCK, BLOCK_TEXT = 512, 2**23
"""Rows, and bytes of their texts, that are Python objects at one time."""

Record = Mapping[str, object]


@reader(
    "completions*.parquet",
    "*samples*.parquet",
    "*generations*.parquet",
    "*rollout*.parquet",
    "*metrics*.parquet",
    "*history*.parquet",
    "*log*.parquet",
    looks=lambda head: head.startswith(b"PAR1"),
    role="table",
)
def parquet(path: Path) -> Iterator[Item]:
    """Yield samples where a column holds responses, and rows of metrics where one counts steps.

    Beside a response and its advantage every other column of numbers is a reward function's (TRL
    writes one each). At most ``MOST`` rows are read: a run is held in memory.
    """
    return _read(path, None, MOST)


def read_samples(path: Path, field: str | None = None) -> Iterator[Item]:
    """Yield the samples of a table of any length; ``field``: the column of the response."""
    return _read(path, field, None)


def _read(path: Path, field: str | None, most: int | None) -> Iterator[Item]:
    """Yield what a table holds; most: the rows of it that are read, None for samples of any number.

    A packed file is unpacked to a temporary one: polars reads a row group at a time, from a disk.
    """
    try:
        with unpacked(path) as place:
            lazy, height = _scanned(place)
            columns = lazy.collect_schema().names()
            size = place.stat().st_size
            records = _records(lazy, path.name, height, size, most)
            if holds_text(columns, field):
                stem = Path(bare(path.name)).stem
                yield from samples_of(
                    records,
                    path.name,
                    field,
                    named_step=step_named(stem),
                    named_split=split_named(stem),
                    bounded=most is not None,
                )
            elif most is None:
                yield textless(path.name, columns)
            elif set(STEP_KEYS) & set(columns):
                yield from _metrics(records, path.name)
            else:
                yield Note(path.name, "holds neither responses nor steps; not read", unread=True)
    except _faults() as error:
        told = f"is no parquet file that can be read ({_said(error)})"
        yield Note(path.name, told, unread=True)


def _metrics(records: Iterator[tuple[int, Record] | Note], name: str) -> Iterator[Item]:
    refused: Counter[str] = Counter()
    for item in records:
        if isinstance(item, Note):
            yield item
        else:
            yield row(item[1], item[0], refused)
    yield from refusals(name, refused)


def _scanned(place: Path) -> tuple[pl.LazyFrame, int]:
    """Return a file's table, unread, and how many rows it says it has."""
    import polars as pl

    lazy = pl.scan_parquet(os.path.abspath(place), glob=False, hive_partitioning=False)
    return lazy, int(lazy.select(pl.len()).collect().item())


def _records(
    lazy: pl.LazyFrame, name: str, height: int, size: int, most: int | None
) -> Iterator[tuple[int, Record] | Note]:
    """Yield numbered rows, some slices of the table at a time; and what was left out.

    size: bytes of the file, by which the slices are measured.
    """
    limit = min(height, max(MOST_ROWS, size) if most is None else most)
    rows = SLICE * max(height, 1) // (UNPACKED * size)
    rows = min(max(rows, FEWEST), MOST_AT_ONCE)
    line = text = 0
    try:
        while line < limit and text <= max(MOST_TEXT, MOST_TIMES * size):
            frame = lazy.slice(line, min(rows, limit - line)).collect()
            if not frame.height:
                break
            for piece, length in _pieces(frame):
                text += length
                for record in piece.rows(named=True):
                    line += 1
                    yield line, record
    except _faults() as error:
        yield Note(name, f"cannot be read behind row {line} ({_said(error)})", unread=True)
    if line < height:
        rest = height - line
        told = f"{rest} rows behind the first {line} were left out"
        yield Note(name, told, left_out=rest)


def _pieces(frame: pl.DataFrame) -> Iterator[tuple[pl.DataFrame, int]]:
    """Yield a table in pieces that may be Python objects, each with the bytes of its texts.

    A text that is packed once may stand in any number of rows.
    """
    import polars as pl

    texts = pl.col(pl.String).str.len_bytes().fill_null(0)
    known = pl.String in frame.dtypes
    lengths = frame.select(pl.sum_horizontal(texts)).to_series() if known else [0] * frame.height
    start = size = 0
    for end, length in enumerate(lengths):
        if end - start == BLOCK or (end > start and size + length > BLOCK_TEXT):
            yield frame[start:end], size
            start, size = end, 0
        size += length
    yield frame[start:], size


def _said(error: BaseException) -> str:
    return str(error).splitlines()[0][:200] if str(error) else type(error).__name__


def _faults() -> tuple[type[BaseException], ...]:
    """Return what polars raises for a damaged file; its panics are no ordinary exceptions."""
    import polars as pl

    return (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError, ValueError)
