"""Metrics in one JSON document under any name: told by what it holds."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from rlhfdoctor.readers import Item, reader
from rlhfdoctor.readers._json import kind
from rlhfdoctor.readers._tables import read_tables

_STRUCTURE = re.compile(rb"\[\s*\{|\[\s*-?\d[\d.eE+-]*\s*,|\"\d+\"\s*:\s*[{\d-]|\}\s*\n\s*\{")
_STEPS = re.compile(
    rb'(?i)"(\w+/)?(_?steps?|global_step|iter(ation)?s?|update|epoch)"\s*:|"\d+"\s*:'
)
_METRICS = re.compile(
    rb'(?i)"([\w.-]+[/_.])*(loss|rewards?|kl|kl_?div(ergence)?|entropy|lr|learning_rate|grad_norm'
    rb"|logps|margins|accurac(y|ies)|scores?)([/_.]\w+)*\"\s*:"
)
_COUNTED = re.compile(
    rb'(?i)\A\s*\[\s*\{\s*"(\w+/)?(_?steps?|global_step|iteration)"\s*:\s*\d+\s*,\s*"[^"]+"\s*:\s*-?\d'
)
_NOT_OURS = re.compile(rb'"(log_history|added_tokens|weight_map|architectures|model_type)"\s*:')


def _looks(head: bytes) -> bool:
    return (
        head.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] in (b"{", b"[")
        and kind(head) != "samples"
        and not _NOT_OURS.search(head)
        and (
            bool(_COUNTED.search(head))
            or all(mark.search(head) for mark in (_STRUCTURE, _STEPS, _METRICS))
        )
    )


@reader("?*.json", looks=_looks, role="doubtful")
def json_tables(path: Path) -> Iterator[Item]:
    """Yield the rows of every table in a document, as ``read_tables`` finds them.

    A document is claimed where its beginning has a table's structure, counts steps and names a
    metric, or is an array of records that begin with their step and a number; files that are named
    like something else are another reader's.
    """
    return read_tables(path)
