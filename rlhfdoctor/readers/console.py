"""What a training printed: console logs, batch system output, notes with pasted lines."""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from pathlib import Path

from rlhfdoctor.model import Note
from rlhfdoctor.readers import Item, reader
from rlhfdoctor.readers._console import read_text
from rlhfdoctor.readers._open import fault_of, opened
from rlhfdoctor.readers._text import segments

_LARGEST = 2**30
"""Bytes of a file that is read; no console log of a training is so long."""


def _text(head: bytes) -> bool:
    """Say whether a file begins as text; a log may hold a stretch of NUL bytes after a crash."""
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return True
    return b"\x00" not in head[:4096]


@reader(
    "*.log",
    "*.out",
    "*.err",
    "*.stdout",
    "*.stderr",
    "*.txt",
    "*.md",
    "nohup.out",
    "slurm-*.out",
    looks=_text,
)
def console(path: Path) -> Iterator[Item]:
    """Yield what the lines hold that follow a known grammar (``_grammars``); the rest is no metric.

    Records cut in two are told of and left out; so is the last number of a file that ends without
    a line end, for it may be half a number.
    """
    if path.stat().st_size > _LARGEST:
        yield Note(path.name, "is larger than 1 GiB; not read", unread=True)
        return
    with opened(path) as file:
        yield from read_text(segments(file), path.name)
        if fault := fault_of(file):
            yield Note(path.name, fault, left_out=1)
