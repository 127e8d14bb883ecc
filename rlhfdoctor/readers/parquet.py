"""Tables as parquet: TRL's completions, and metrics that a tracker exported."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from rlhfdoctor.model import Note
from rlhfdoctor.readers import Item, reader
from rlhfdoctor.readers._json import STEP_KEYS, refusals, row
from rlhfdoctor.readers._open import opened
from rlhfdoctor.readers._samples import MOST, holds_text, samples_of, split_named, step_named

LARGEST = 2**31
"""Bytes of a file that is read."""

BLOCK = 4096
"""Rows that are Python objects at one time."""


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
    writes one each). At most ``MOST`` rows are read: a small file may claim to hold any number.
    """
    try:
        frame, height = _frame(path)
    except _faults() as error:
        told = str(error).splitlines()[0][:200] if str(error) else type(error).__name__
        yield Note(path.name, f"is no parquet file that can be read ({told})", unread=True)
        return
    if frame is None:
        yield Note(path.name, f"is longer than {LARGEST} bytes; not read", unread=True)
        return
    if holds_text(frame.columns):
        yield from samples_of(
            enumerate(_records(frame), start=1),
            path.name,
            named_step=step_named(path.stem),
            named_split=split_named(path.stem),
        )
    elif set(STEP_KEYS) & set(frame.columns):
        refused: Counter[str] = Counter()
        for line, record in enumerate(_records(frame), start=1):
            yield row(record, line, refused)
        yield from refusals(path.name, refused)
    else:
        yield Note(path.name, "holds neither responses nor steps; not read", unread=True)
        return
    if height > frame.height:
        rest = height - frame.height
        text = f"{rest} rows behind the first {frame.height} were left out"
        yield Note(path.name, text, left_out=rest)


def _frame(path: Path) -> tuple[Any, int]:
    """Return the first rows of a file, and how many it has; None for a file that is too long."""
    import polars as pl

    with opened(path) as file:
        content = file.read(LARGEST + 1)
    if len(content) > LARGEST:
        return None, 0
    lazy = pl.scan_parquet(content)
    return lazy.head(MOST).collect(), int(lazy.select(pl.len()).collect().item())


def _faults() -> tuple[type[BaseException], ...]:
    """Return what polars raises for a damaged file; its panics are no ordinary exceptions."""
    import polars as pl

    return (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError, ValueError)


def _records(frame: Any) -> Iterator[Mapping[str, object]]:
    for block in frame.iter_slices(BLOCK):
        yield from block.iter_rows(named=True)
