"""Write the frames of binary logs: TFRecord, and LevelDB's as wandb and SwanLab use it."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable

from rlhfdoctor.readers._tfrecord import masked_crc

BLOCK = 32768


def log(header: bytes, records: Iterable[bytes]) -> bytes:
    """Return a file of records, cut into pieces at the ends of blocks."""
    data = bytearray(header)
    for record in records:
        first = True
        while first or record:
            room = BLOCK - len(data) % BLOCK
            if room < 7:
                data += b"\0" * room
                continue
            piece, record = record[: room - 7], record[room - 7 :]
            kind = (1 if first else 4) if not record else (2 if first else 3)
            checksum = zlib.crc32(bytes([kind]) + piece)
            data += struct.pack("<IHB", checksum, len(piece), kind) + piece
            first = False
    return bytes(data)


def framed(data: bytes) -> bytes:
    """Return a TFRecord."""
    length = len(data).to_bytes(8, "little")
    checks = [masked_crc(part).to_bytes(4, "little") for part in (length, data)]
    return b"".join((length, checks[0], data, checks[1]))
