"""TFRecord framing: length, masked CRC-32C of it, data, masked CRC-32C of that.

Layout: tensorflow/core/lib/io/record_writer.h. The length is 8 bytes, the checksums are 4 each,
all little-endian. A checksum is rotated by 15 bits and added to a constant before it is stored.
"""

from __future__ import annotations

import io
import struct
from array import array
from collections.abc import Iterator
from functools import cache

from rlhfdoctor.model import Note

LARGEST_RECORD = 2**20
"""Bytes of a record that is still read; scalars take tens of bytes, a configuration thousands."""

MOST_SEARCHED = 4 * 2**20
"""Bytes of a file in which the next record is looked for after damage."""

_HEAD, _TAIL, _CHUNK = 12, 4, 2**20
_MOST_LENGTHS = 4096  # lengths whose checksums are remembered


@cache
def _tables() -> tuple[array[int], array[int]]:
    """Return CRC-32C (Castagnoli, reflected 0x82F63B78) of every pair of bytes: lower, upper half.

    Two numbers of 16 bits are faster than one of 32, to which Python gives a second digit, and
    tables of 128 KiB stay in the processor's cache.
    """
    single = []
    for value in range(256):
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
        single.append(value)
    halves = (single[pair & 0xFF] ^ pair >> 8 for pair in range(65536))
    pairs = [single[half & 0xFF] ^ half >> 8 for half in halves]
    return array("H", [crc & 0xFFFF for crc in pairs]), array("H", [crc >> 16 for crc in pairs])


def masked_crc(data: bytes) -> int:
    """Return the checksum of some bytes as it is stored."""
    lows, highs = _tables()
    low = high = 0xFFFF
    for pair in struct.unpack_from(f"<{len(data) >> 1}H", data):
        pair ^= low
        low = high ^ lows[pair]
        high = highs[pair]
    crc = high << 16 | low
    if len(data) & 1:
        # one byte more: a pair whose lower byte is nothing moves the state by one byte
        pair = (crc ^ data[-1]) << 8 & 0xFF00
        crc = (highs[pair] << 16 | lows[pair]) ^ crc >> 8
    crc ^= 0xFFFFFFFF
    return (crc >> 15 | crc << 17) + 0xA282EAD8 & 0xFFFFFFFF


def records(file: io.BufferedReader, name: str) -> Iterator[bytes | Note]:
    """Yield the data of each record whose checksums are right; damage becomes notes.

    A record with a wrong checksum is passed over by its length, which has a checksum of its own.
    Where that is wrong too, the next record is searched: one with both checksums right. Records
    longer than ``LARGEST_RECORD`` are passed over unread.
    """
    buffer, place = b"", 0
    lengths: dict[bytes, int] = {}
    corrupt = large = 0
    budget = MOST_SEARCHED
    told = ""
    while True:
        if len(buffer) - place < _HEAD:
            buffer, place = buffer[place:] + file.read(_CHUNK), 0
            if len(buffer) < _HEAD:
                told = "ends inside a record; it was cut" if buffer else ""
                break
        head = buffer[place : place + _HEAD]
        length = lengths.get(head)
        if length is None:
            length = int.from_bytes(head[:8], "little")
            if masked_crc(head[:8]) != int.from_bytes(head[8:], "little"):
                buffer, place, budget = _next(buffer[place:], file, budget)
                if place < 0:
                    told = "is damaged; no record was found behind the damage"
                    break
                corrupt += 1
                continue
            if len(lengths) < _MOST_LENGTHS:
                lengths[head] = length
        end = place + _HEAD + length + _TAIL
        if length > LARGEST_RECORD:
            large += 1
            missing = end - len(buffer)
            buffer, place = buffer[end:], 0
            if missing > 0 and not _passed(file, missing):
                told = "ends inside a record; it was cut"
                break
            continue
        if end > len(buffer):
            buffer, end, place = buffer[place:] + file.read(2 * _CHUNK), end - place, 0
            if end > len(buffer):
                told = "ends inside a record; it was cut"
                break
        data = buffer[place + _HEAD : end - _TAIL]
        place = end
        if masked_crc(data) == int.from_bytes(buffer[end - _TAIL : end], "little"):
            yield data
        else:
            corrupt += 1
    if corrupt:
        text = f"{corrupt} records are damaged (wrong checksum) and were left out"
        yield Note(name, text, left_out=corrupt)
    if large:
        yield Note(name, f"{large} records of more than 1 MiB were passed over unread")
    if told:
        yield Note(name, told, left_out=1)


def _passed(file: io.BufferedReader, count: int) -> bool:
    """Read on over as many bytes; False where the file ends before."""
    while count > 0:
        read = len(file.read(min(count, _CHUNK)))
        if not read:
            return False
        count -= read
    return True


def _next(buffer: bytes, file: io.BufferedReader, budget: int) -> tuple[bytes, int, int]:
    """Find the next whole record: return bytes, its place in them, and what is left to search.

    The place is -1 where there is none within the budget.
    """
    place = 1
    more = True
    while True:
        if more and len(buffer) - place < LARGEST_RECORD + _HEAD + _TAIL:
            read = file.read(2 * _CHUNK)
            buffer, place, more = buffer[place:] + read, 0, bool(read)
        # lengths are below 2^32, so that their upper half is zero
        found = buffer.find(b"\0\0\0\0", place + 4) - 4
        if found < 0 or found - place > budget:
            return b"", -1, 0
        budget -= found - place + 1
        place = found
        length = int.from_bytes(buffer[place : place + 8], "little")
        end = place + _HEAD + length + _TAIL
        if 0 < length <= min(LARGEST_RECORD, budget) and end <= len(buffer):
            head = buffer[place : place + _HEAD]
            if masked_crc(head[:8]) == int.from_bytes(head[8:], "little"):
                budget -= length
                data = buffer[place + _HEAD : end - _TAIL]
                if masked_crc(data) == int.from_bytes(buffer[end - _TAIL : end], "little"):
                    return buffer, place, budget
        place += 1
