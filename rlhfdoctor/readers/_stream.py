"""Samples of any number of files, of any length and format, one at a time."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from rlhfdoctor.model import Note, Sample
from rlhfdoctor.readers import HEAD_BYTES, Item, csv, parquet, samples
from rlhfdoctor.readers._open import bare, opened
from rlhfdoctor.readers._samples import holds_text


def stream(paths: Sequence[Path], field: str | None = None) -> Iterator[tuple[str, Sample] | Note]:
    """Yield the samples of files in the order of the paths, each with the name of its file.

    Little more than one record is held at a time, whatever the number and the length of the files;
    nothing is left out for being too much. The format of a file is told by its beginning. Names,
    and those in notes, are paths within the folder that all files have in common.

    field: the key of the response, as in ``samples_of``. What cannot be read is a note.
    """
    root = os.path.commonpath([os.path.abspath(path.parent) for path in paths]) if paths else ""
    for path in paths:
        relative = Path(os.path.relpath(path, root)).as_posix()
        name = os.fsencode(relative).decode("utf-8", "backslashreplace")
        try:
            for item in _format(path, field)(path, field):
                if isinstance(item, Sample):
                    yield name, item
                elif isinstance(item, Note):
                    yield replace(item, where=name + item.where[len(path.name) :])
        except OSError as error:
            yield Note(name, f"cannot be read ({error.strerror})", unread=True)


def in_order(paths: Sequence[Path]) -> list[Path]:
    """Sort paths so that numbers in them count: 2.jsonl before 10.jsonl."""
    return sorted(paths, key=lambda path: _numbered(path.as_posix()))


def _numbered(name: str) -> list[tuple[int, str]]:
    parts = re.split(r"([0-9]+)", name)
    return [(int(part[-300:]), part) if part.isdecimal() else (-1, part) for part in parts]


def _format(path: Path, field: str | None) -> Callable[[Path, str | None], Iterator[Item]]:
    """Return what reads a file: as parquet, as a table of texts, else as JSON."""
    with opened(path) as file:
        head = file.read(HEAD_BYTES)
    if not head:
        return _empty
    if head.startswith(b"PAR1"):
        return parquet.read_samples
    names = [] if head.lstrip()[:1] in (b"{", b"[") else csv.columns(head)
    table = bare(path.name).lower().endswith((".csv", ".tsv"))
    if table or (len(names) > 1 and holds_text(names, field)):
        return csv.read_samples
    return _json


def _json(path: Path, field: str | None) -> Iterator[Item]:
    return samples.read_samples(path, field, bounded=False)


def _empty(path: Path, _: str | None) -> Iterator[Item]:
    yield Note(path.name, "is empty; nothing was read", unread=True)
