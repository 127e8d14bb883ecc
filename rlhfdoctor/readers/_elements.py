"""JSON values one by one, out of a file of any length: lines, an array, or documents."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import orjson

from rlhfdoctor.model import Note
from rlhfdoctor.readers._json import unparsed
from rlhfdoctor.readers._open import bare, fault_of, opened

READ = 2**20
"""Bytes that are read at once."""

LONGEST = 2**24
"""Bytes of one record of many; a longer one is left out."""

SHOWN = 10
"""Bad records whose places are told."""

LARGEST = 2**30
"""Bytes of an object that is all its file holds, which is parsed as a whole."""

_BOM = b"\xef\xbb\xbf"
_LISTS = re.compile(rb"\][ \t\r]*\n[ \t\r\n]*\[")
"""What stands between lines that are lists, and nowhere within one array."""

_SPREAD = re.compile(rb"\{[ \t\r]*\n")
"""How an object begins that is spread over several lines."""

_MARK = re.compile(rb'[",\[\]{}]')
_NO_BRACKET = re.compile(rb'(?:[^"\[\]{}]*"[^"\\]*"){0,32}[^"\[\]{}]*')
"""What may stand before the next bracket: up to so many texts without an escape."""

_QUOTE, _COMMA, _BACKSLASH = b'",\\'
_OPENING = b"{["
_TOO_LONG = b"a line that is too long"
"""What stands for one: this very object."""

_NOTHING = object()
"""What a text means that is no JSON."""

_NO_JSON, _LONG = "no JSON", f"longer than {LONGEST} bytes"
_OPEN_LINE = "the last line does not end"

Element = tuple[int, object]
"""Line, or place in an array (0: of an object that is all its file holds), and value."""

_Read = Callable[[int], bytes]


def elements(path: Path) -> Iterator[Element | Note]:
    """Yield the values of a file, holding little more than one at a time.

    They stand one a line, in an array, or spread over lines one behind another. What is no JSON is
    counted, located and left out. NaN, lone surrogates and control characters inside a text stay
    what they are; bytes that are no UTF-8 become U+FFFD, which is noted.
    """
    with opened(path) as file:
        first = file.read(READ).removeprefix(_BOM)
        pieces = [first]

        def read(size: int) -> bytes:
            return pieces.pop() if pieces else file.read(size)

        start = first.lstrip()
        whole = start[:1] == b"{" and bare(path.name).lower().endswith(".json")
        faults: list[str] = []
        if start[:1] == b"[" and not _LISTS.search(first):
            yield from _values(_array(read, faults), path.name, faults)
        elif _SPREAD.match(start):
            yield from _alone(_values(_objects(read, faults), path.name, faults))
        elif whole:
            yield from _alone(_values(_lines(read, faults, LARGEST), path.name, faults))
        else:
            lines = _lines(read, faults, LONGEST)
            yield from _values(lines, path.name, faults, texts_too=start[:1] == b'"')
        fault = fault_of(file)
    if fault:
        yield Note(path.name, fault, left_out=1, unread=True)


def _alone(found: Iterator[Element | Note]) -> Iterator[Element | Note]:
    """Number the value 0 that is the only one."""
    first, second = next(found, None), next(found, None)
    if isinstance(first, tuple) and not isinstance(second, tuple):
        first = (0, first[1])
    yield from (item for item in (first, second) if item is not None)
    yield from found


def _values(
    texts: Iterator[bytes], name: str, faults: list[str], *, texts_too: bool = True
) -> Iterator[Element | Note]:
    """Yield the value of each text, and notes about those that have none.

    faults: what is wrong with the end of the file, known once the texts are used up. texts_too:
    whether a value may be a text; a line of a log that is quoted is none.
    """
    first: dict[str, list[int]] = {_NO_JSON: [], _LONG: []}
    lost: Counter[str] = Counter()
    why, number, last, read, mended = "", 0, 0, 0, 0
    for number, text in enumerate(texts, start=1):
        if not text:
            continue
        try:
            value = orjson.loads(text)
        except orjson.JSONDecodeError:
            if text.isspace():
                continue
            value, broken = _parsed(text)
            mended += broken
        if value is _NOTHING or (type(value) is str and not texts_too):
            why, last = _LONG if text is _TOO_LONG else _NO_JSON, number
            lost[why] += 1
            if lost[why] <= SHOWN:
                first[why].append(number)
            continue
        read += 1
        yield number, value
    if faults == [_OPEN_LINE]:
        if last == number and why == _NO_JSON:
            where = f"{name}:{last}"
            yield Note(where, "last line is cut; the file ends inside a record", left_out=1)
            lost[_NO_JSON] -= 1
            first[_NO_JSON] = [place for place in first[_NO_JSON] if place != last]
    elif faults:
        told = f"{faults[0]}; {read or 'no'} records before that were read"
        yield Note(name, told, left_out=1, unread=not read)
    for what, places in first.items():
        if lost[what]:
            yield unparsed(name, lost[what], places, what)
    if mended:
        told = f"{mended} records hold bytes that are no UTF-8; they became U+FFFD"
        yield Note(name, told)


def _parsed(text: bytes) -> tuple[object, bool]:
    """Parse what orjson refuses and trainers write, and say whether bytes had to be replaced."""
    if text.removeprefix(_BOM).lstrip()[:1] not in (b"{", b"[", b'"'):
        return _NOTHING, False
    try:
        decoded, broken = text.decode("utf-8-sig"), False
    except UnicodeDecodeError:
        decoded, broken = text.decode("utf-8-sig", "replace"), True
    try:
        return json.loads(decoded, strict=False), broken
    except (ValueError, RecursionError):
        return _NOTHING, False


def _lines(read: _Read, faults: list[str], longest: int) -> Iterator[bytes]:
    """Yield the lines of a file; ``_TOO_LONG`` for each that is."""
    pieces: list[bytes] = []
    size = 0
    while chunk := read(READ):
        lines = chunk.split(b"\n")
        size += len(lines[0])
        pieces = [_TOO_LONG] if size > longest else [*pieces, lines[0]]
        if len(lines) > 1:
            lines[0] = b"".join(pieces) if len(pieces) > 1 else pieces[0]
            pieces = [lines.pop()]
            size = len(pieces[0])
            yield from lines
    last = b"".join(pieces) if len(pieces) > 1 else next(iter(pieces), b"")
    if last:
        faults.append(_OPEN_LINE)
        yield last


def _array(read: _Read, faults: list[str]) -> Iterator[bytes]:
    """Yield the elements of an array as they are written."""
    return _between(read, faults, b"[", LONGEST)


def _objects(read: _Read, faults: list[str]) -> Iterator[bytes]:
    """Yield objects that stand one behind another, each over several lines."""
    return _between(read, faults, b"", LARGEST)


def _between(read: _Read, faults: list[str], opening: bytes, longest: int) -> Iterator[bytes]:
    """Yield what stands between the commas of an array or, without ``opening``, each object.

    The time is linear in the length of the file: of an unfinished element what is held is doubled.
    """
    data = read(READ)
    start = data.index(opening) + len(opening)
    closed = False
    while not closed:
        end = _end(data, start, alone=not opening)
        if end < 0:
            held = len(data) - start
            more = read(max(READ, held)) if held <= longest else b""
            if not more:
                break
            data, start = data[start:] + more, 0
            continue
        yield data[start:end]
        closed = bool(opening) and data[end] != _COMMA
        start = end + len(opening)
    rest = data[start:]
    if closed:
        if rest.strip() or read(READ).strip():
            faults.append("holds something behind its array, which was not read")
    elif len(rest) > longest:
        faults.append(f"holds a record of more than {longest} bytes; the rest was not read")
    elif opening or rest.strip():
        faults.append("is cut or damaged")
        if opening and _end(rest + b"]", 0, alone=False) == len(rest):
            yield rest


def _end(data: bytes, at: int, *, alone: bool) -> int:
    """Return where the value that begins at a place ends, -1 where the data end before.

    That is its comma, or the bracket that closes what is around it; ``alone``: behind the bracket
    that closes the value itself. Brackets inside texts do not count.
    """
    depth = 0
    while True:
        if depth:
            at = _NO_BRACKET.match(data, at).end()  # type: ignore[union-attr]
        else:
            found = _MARK.search(data, at)
            at = found.start() if found else len(data)
        if at == len(data):
            return -1
        mark = data[at]
        at += 1
        if mark == _QUOTE:
            at = _closing(data, at)
            if at < 0:
                return -1
        elif mark in _OPENING:
            depth += 1
        elif mark != _COMMA:
            depth -= 1
            if depth < 0 or (alone and not depth):
                return at - (not alone)
        elif not alone:
            return at - 1


def _closing(data: bytes, at: int) -> int:
    """Return what is behind the quote that closes a text begun before a place, -1 without one."""
    while True:
        at = data.find(_QUOTE, at)
        if at < 0:
            return -1
        before = at - 1
        while data[before] == _BACKSLASH:
            before -= 1
        at += 1
        if (at - before) % 2 == 0:
            return at
