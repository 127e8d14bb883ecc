"""Write the log format of LevelDB, as wandb and swanlab do."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable

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
