"""The log format of LevelDB, in which wandb and swanlab write their records.

https://github.com/google/leveldb/blob/main/doc/log_format.md, with a header of 7 bytes before it
and the CRC-32 of zlib (IEEE) in place of CRC-32C. The file is cut into blocks of 32,768 bytes; a
record is one or several pieces of checksum (4 bytes, of kind and data), length (2) and kind (1).
"""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Iterator

from rlhfdoctor.model import Note

LARGEST_RECORD = 64 * 2**20
"""Bytes to which the pieces of one record are put together; a row of metrics takes thousands."""

_BLOCK, _MAGIC, _HEAD = 32768, 7, 7
_FULL, _FIRST, _MIDDLE, _LAST = 1, 2, 3, 4


def records(file: io.BufferedReader, name: str) -> Iterator[bytes | Note]:
    """Yield each record whose checksums are right; damage becomes notes.

    A piece with a wrong checksum is passed over by its length, and the record that it was part of
    is left out. If the length was wrong too, no checksum of the block is right any more and reading
    goes on with the next block.
    """
    damaged = 0
    cut = False
    pieces: list[bytes] | None = None
    held = 0
    place = _MAGIC
    while block := file.read(_BLOCK):
        while len(block) - place >= _HEAD:
            checksum, length, kind = struct.unpack_from("<IHB", block, place)
            end = place + _HEAD + length
            if not kind and not length and not checksum:
                break
            if end > len(block):
                cut = len(block) < _BLOCK
                damaged += not cut
                pieces = None
                break
            piece = block[place + _HEAD : end]
            right = zlib.crc32(block[place + 6 : end]) == checksum and _FULL <= kind <= _LAST
            place = end
            held = held + length if kind in (_MIDDLE, _LAST) else length
            if not right or held > LARGEST_RECORD or (kind in (_MIDDLE, _LAST) and pieces is None):
                damaged += not right or held > LARGEST_RECORD
                pieces = None
            elif kind == _FULL:
                damaged += pieces is not None
                pieces = None
                yield piece
            elif kind == _FIRST:
                damaged += pieces is not None
                pieces = [piece]
            elif pieces is not None:
                pieces.append(piece)
                if kind == _LAST:
                    yield b"".join(pieces)
                    pieces = None
        else:
            cut = len(block) < _BLOCK and place < len(block)
        place = 0
    if damaged:
        text = f"{damaged} records are damaged (wrong checksum) and were left out"
        yield Note(name, text, left_out=damaged)
    if cut or pieces is not None:
        yield Note(name, "ends inside a record; it was cut", left_out=1)
