"""The wire format of Protocol Buffers, as far as event files use it.

https://protobuf.dev/programming-guides/encoding: a message is a sequence of keys (field number
times 8 plus wire type) and values. Groups (wire types 3 and 4) are not written by any tracker.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

Value = int | bytes
"""A varint as an unsigned number; everything else as its bytes: 8, 4, or as many as it says."""

_FIXED = {1: 8, 5: 4}


def fields(message: bytes) -> Iterator[tuple[int, int, Value]]:
    """Yield (field number, wire type, value) for each field of a message, in file order.

    Raises ValueError where the bytes are no message: damage is never passed on as a value.
    """
    place, end = 0, len(message)
    while place < end:
        key, place = varint(message, place)
        number, kind = key >> 3, key & 7
        if kind == 0:
            value, place = varint(message, place)
            yield number, kind, value
            continue
        if kind == 2:
            size, place = varint(message, place)
        elif kind in _FIXED:
            size = _FIXED[kind]
        else:
            raise ValueError(f"wire type {kind}")
        if not number or place + size > end:
            raise ValueError("a field runs out of its message")
        yield number, kind, message[place : place + size]
        place += size


def varint(data: bytes, place: int) -> tuple[int, int]:
    """Return the number at a place, seven bits a byte, and the place behind it.

    Raises ValueError where it does not end within ten bytes.
    """
    value = shift = 0
    for byte in data[place : place + 10]:
        place += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, place
        shift += 7
    raise ValueError("a number does not end")


def written(value: int) -> bytes:
    """Return a number, zero or positive, as it is written: seven bits a byte."""
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def signed(value: int) -> int:
    """Return a varint as the signed 64-bit number that it stands for."""
    value &= 2**64 - 1
    return value - 2**64 if value >= 2**63 else value


def text(value: Value) -> str:
    """Return a text field; bytes that are no UTF-8 become U+FFFD."""
    if isinstance(value, int):
        raise ValueError("a number in place of a text")
    return value.decode("utf-8", "replace")


def inner(value: Value) -> bytes:
    """Return the bytes of a nested message. Raises ValueError where the field is a number."""
    if isinstance(value, int):
        raise ValueError("a number in place of a message")
    return value


def real(value: Value) -> float:
    """Return a float or double field as a number. Raises ValueError for any other."""
    if isinstance(value, int) or len(value) not in (4, 8):
        raise ValueError("no number of 4 or 8 bytes")
    unpacked: float = struct.unpack("<f" if len(value) == 4 else "<d", value)[0]
    return unpacked
