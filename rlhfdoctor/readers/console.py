"""What a training printed: console logs, batch system output, notes with pasted lines."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from pathlib import Path

from rlhfdoctor.model import Note
from rlhfdoctor.readers import Item, reader
from rlhfdoctor.readers._console import read_text
from rlhfdoctor.readers._open import fault_of, opened
from rlhfdoctor.readers._text import segments

_LARGEST = 2**30
"""Bytes of a file that is read; no console log of a training is so long."""


_SPEAKS = re.compile(
    rb"loss|reward|step|epoch|entropy|\bkl\b|accura|train|it/s|s/it|%\||traceback|error|pid=|info|warn"
    rb"|namespace|killed",
    re.IGNORECASE,
)
"""Words of which a training's first 64 KiB hold at least one, banner or not."""

_LISTS = re.compile(
    rb"\s*(?:#version:|\[PAD\]|\[UNK\]|<\w+>\s|(?:#[^\n]*\s+)*[\w.\[\]-]+\s*(?:==|>=|~=)\d)"
)
"""How tokenizers' word lists and lists of packages begin."""


def _looks(head: bytes) -> bool:
    """Say whether a file begins as text of a program or on a training.

    A log may hold a stretch of NUL bytes where a machine went down, but none at its beginning.
    """
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        head = head.decode("utf-16", "replace").encode()
    if b"\x00" in head[:4096] or _LISTS.match(head[:4096]):
        return False
    return _SPEAKS.search(head) is not None


@reader(
    "*.log",
    "*.out",
    "*.err",
    "*.stdout",
    "*.stderr",
    "*[!A-Z][.]txt",
    "*[!A-Z][.]md",
    looks=_looks,
    role="text",
)
def console(path: Path) -> Iterator[Item]:
    """Yield what the lines hold that follow a known grammar (``_grammars``); the rest is no metric.

    Texts and notes whose names end in capitals (README.md, LICENSE.txt) are about a project, not a
    run; and since most others are none either, their suffix promises no log: ``[.]``, not ``.``.

    Records cut in two are told of and left out; so is the last number of a file that ends without
    a line end, for it may be half a number.
    """
    if path.stat().st_size > _LARGEST:
        yield Note(path.name, "is larger than 1 GiB; not read", unread=True)
        return
    with opened(path) as file:
        yield from read_text(segments(file), path.name)
        if fault := fault_of(file):
            yield Note(path.name, fault, left_out=1, unread=True)
