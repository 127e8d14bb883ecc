"""Text as programs leave it: in any encoding, with lines of any length and prefixes of any kind.

A progress bar redraws itself behind a carriage return, so a record and a hundred bars may share one
line. What stands between two separators, a newline or a carriage return, is a segment; segments are
what the grammars read. The number of a segment is that of its line.
"""

from __future__ import annotations

import codecs
import io
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

LONGEST = 1 << 20
"""Characters of a segment that are looked at; no trainer writes a longer record on one line."""

_CHUNK = 1 << 18
_MOST_PREFIXES = 8

_ANSI = re.compile(
    "\x1b(?:\\[[0-?]{0,32}[ -/]{0,4}[@-~]|\\][^\x07\x1b]{0,500}(?:\x07|\x1b\\\\)?|[@-_])"
    r"|\[\d{1,3}(?:;\d{1,3}){0,5}m"
)
"""Terminal codes; colours also without their escape character, which issue trackers swallow."""

_REPEATED = re.compile(r"\s*\[repeated \d+x across cluster\](?: \(Ray dedup.{0,300})?\s*$")

_PREFIX = re.compile(
    r"""
    \((?P<task>(?:[\w.:<>-]{1,80}[ ])?pid=\d{1,10}(?:,[ ]ip=[\w.:-]{1,64})?)\)
        (?:[ ]?\[repeated[ ]\d+x[ ]across[ ]cluster\])?[ ]?         # Ray
  | \[(?:default|rank|RANK|Rank)[ ]?(?P<rank>\d{1,6})\]:?[ ]?       # torchrun, DeepSpeed
  | (?P<stamp>
      \[(?:INFO|WARNING|ERROR|DEBUG)\|[\w./:-]{1,120}\]
        (?:[ ]\d{4}-\d\d-\d\d[ ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?)?[ ]>>[ ]?     # transformers
    | (?:INFO|WARNING|ERROR|DEBUG)[ ]\d\d-\d\d[ ]\d\d:\d\d:\d\d[ ]\[?[\w./]{1,120}:\d{1,6}\][ ]?
    | [IWEFD]\d{4}[ ]\d\d:\d\d:\d\d\.\d{1,9}[ ]+\d{1,10}[ ]\S{1,200}:\d{1,6}\][ ]?     # glog
    | \[?\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?\]?
        (?:\s*[-|:](?=\s))?\s*
    | \[?\d\d/\d\d(?:/\d\d(?:\d\d)?)?[ ]\d\d:\d\d:\d\d\]?\s+                              # rich
    | \[?\d\d:\d\d:\d\d(?:[.,]\d{1,9})?\]?(?:\s*[-|:](?=\s))?\s+
    | \[?\b(?:INFO|WARNING|WARN|ERROR|DEBUG|CRITICAL|TRACE)\b(?::\w{1,30})?\s*\]?
        \s*(?:[:|-]+(?=\s))?\s*
    )
  | \[[\w./<>-]{1,120}:\d{1,7}(?::[\w<>.]{1,60})?\]\s*                # where it was logged
  | (?P<label>\d{1,4}):[ ](?=[\[({A-Za-z])                           # srun --label
    """,
    re.VERBOSE,
)

_INDENTED = re.compile(r" {1,4}\[?\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:")
"""A time that Megatron indents."""

_LOGGER = re.compile(
    r"(?!(?i:(?:global_|train_)?(?:step|iter|iteration|epoch|update|episode)\b))"
    r"(?!(?i:(?:eval|evaluation|val|valid|validation|test|best|final|overall)\b))"
    r"(?:\[?[A-Za-z_][\w.]{0,80}(?::[\w<>]{1,60}){0,3}\]?\s+--?\s+"
    r"|[A-Za-z_]\w{0,40}(?:\.\w{1,40}){1,8}(?::\w{1,40}){0,2}:?\s+"
    r"|[A-Za-z_]\w{0,40}:\s+(?=[A-Za-z{\[=*]))"
)
"""The name of a logger behind a timestamp or a level; never a word that counts steps, or that
says what is counted."""


@dataclass(frozen=True, slots=True)
class Segment:
    """A stretch of text between two separators, freed of what surrounds a message.

    tag: the process that wrote it, where Ray or a launcher says so. rank: its number. label:
    the number that a launcher may have put before it; only the whole log tells. stamped: whether a
    time or a level stood before it. closed: whether a separator follows: the last
    segment of a file may be cut anywhere. whole: it is not, where it was too long to look at.
    """

    text: str
    line: int | None
    tag: str = ""
    rank: int | None = None
    label: int | None = None
    stamped: bool = False
    closed: bool = True
    whole: bool = True


def segments(file: io.BufferedReader) -> Iterator[Segment]:
    """Yield the segments of a file; memory is bounded whatever the file holds.

    UTF-16 is known by its byte order mark; everything else is read as UTF-8, with U+FFFD for what
    is none.
    """
    magic = file.peek(2)[:2]
    name = "utf-16" if magic in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE) else "utf-8-sig"
    decoder = codecs.getincrementaldecoder(name)("replace")
    line, rest, skipping = 1, "", False
    while True:
        data = file.read(_CHUNK)
        parts = re.split("([\r\n])", rest + decoder.decode(data, final=not data))
        for text, separator in zip(parts[:-1:2], parts[1::2], strict=True):
            if not skipping and text:
                yield cleaned(text, line)
            skipping = False
            line += separator == "\n"
        rest = parts[-1]
        if len(rest) > LONGEST:
            if not skipping:
                yield Segment("", line, whole=False)
            rest, skipping = "", True
        if not data:
            break
    if rest and not skipping:
        yield cleaned(rest, line, closed=False)


def segments_of(texts: Iterable[str]) -> Iterator[Segment]:
    """Yield the segments of texts that have no lines of their own, each of them complete."""
    for text in texts:
        for part in re.split("[\r\n]", text):
            if len(part) > LONGEST:
                yield Segment("", None, whole=False)
            elif part:
                yield cleaned(part, None)


def cleaned(text: str, line: int | None, closed: bool = True) -> Segment:
    """Return what a program meant to say: without terminal codes, prefixes and NUL bytes.

    The indentation behind a prefix is kept, for it tells a record from its continuation.
    """
    if "\x00" in text:
        text = text.replace("\x00", "")
    if "\x1b" in text or "m" in text:
        text = _ANSI.sub("", text)
    tag, rank, label, stamped, place = "", None, None, False, 0
    if text[:1] == " " and _INDENTED.match(text):
        text = text.lstrip()
    for _ in range(_MOST_PREFIXES):
        found = _PREFIX.match(text, place)
        if not found or found.end() == place:
            break
        place = found.end()
        tag = found["task"] or tag
        label = int(found["label"]) if found["label"] else label
        if found["rank"]:
            rank, tag = int(found["rank"]), tag or f"rank {found['rank']}"
        stamped = stamped or found["stamp"] is not None
    if stamped:
        logger = _LOGGER.match(text, place)
        place = logger.end() if logger else place
    text = text[place:].rstrip()
    if tag and text.endswith(("]", ")")):
        text = _REPEATED.sub("", text)
    return Segment(text, line, tag, rank, label, stamped, closed)
