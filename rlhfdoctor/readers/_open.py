"""Open a file for reading, unpacked where it is gzip or zstd: by its magic, not by its name."""

from __future__ import annotations

import gzip
import io
import shutil
import sys
import tempfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Protocol

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

MOST_UNPACKED = 8 * 2**30
"""Bytes after which a packed file is no longer unpacked: no log is so long, and a bomb may be."""

MOST_TIMES, FREE = 400, 2**26
"""How often as long as its packed form a file may be, and the bytes from which on that counts.

Logs pack to a tenth or a twentieth; deflate reaches 1,032.
"""

PACKED = (".gz", ".gzip", ".zst", ".zstd")
"""Suffixes that packing adds to a name."""


class _Packed(Protocol):
    def read1(self, size: int = ..., /) -> bytes: ...


class _Unpacked(io.RawIOBase):
    """What is inside a packed file, up to where it is damaged: ``fault`` says what is wrong."""

    def __init__(self, packed: _Packed, size: int) -> None:
        self._packed = packed
        self._most = min(MOST_UNPACKED, max(FREE, MOST_TIMES * size))
        self._count = 0
        self.fault: str | None = None

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        if self.fault:
            return 0
        try:
            found = self._packed.read1(len(buffer))
        except (EOFError, OSError, zlib.error, zstd.ZstdError) as error:
            self.fault = f"is packed and damaged or cut ({error})"
            return 0
        self._count += len(found)
        if self._count > self._most:
            self.fault = f"unpacks to more than {self._most / 2**20:.0f} MiB; the rest is unread"
            return 0
        buffer[: len(found)] = found
        return len(found)


_SEEN: ContextVar[Callable[[int], None] | None] = ContextVar("seen", default=None)


@contextmanager
def watched(seen: Callable[[int], None]) -> Iterator[None]:
    """Tell ``seen`` how many bytes, packed where they are, are read from every file opened here."""
    token = _SEEN.set(seen)
    try:
        yield
    finally:
        _SEEN.reset(token)


class _Watched(io.RawIOBase):
    """A file that tells how many bytes are read from it."""

    def __init__(self, file: io.BufferedReader, seen: Callable[[int], None]) -> None:
        self._file = file
        self._seen = seen

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        count = self._file.readinto(buffer)
        self._seen(count)
        return count


@contextmanager
def opened(path: Path) -> Iterator[io.BufferedReader]:
    """Open a file to read its bytes, unpacked. Raises OSError where it cannot be opened.

    A packed file that is damaged ends where the damage is; ``fault_of`` then says what is wrong.
    """
    with path.open("rb") as plain:
        seen = _SEEN.get()
        file: io.BufferedReader = plain
        if seen is not None:
            file = io.BufferedReader(_Watched(plain, seen), 2**16)
        magic, size = file.peek(4)[:4], path.stat().st_size
        if magic[:2] == b"\x1f\x8b":
            yield io.BufferedReader(_Unpacked(gzip.GzipFile(fileobj=file), size))
        elif magic == b"\x28\xb5\x2f\xfd":
            yield io.BufferedReader(_Unpacked(zstd.ZstdFile(file), size))
        else:
            yield file


def fault_of(file: io.BufferedReader) -> str | None:
    """Say why a packed file could not be read to its end; None where it was, or is not packed."""
    return file.raw.fault if isinstance(file.raw, _Unpacked) else None


@contextmanager
def unpacked(path: Path) -> Iterator[Path]:
    """Give a path where a file lies unpacked: itself, or a temporary copy where it is packed.

    For what cannot read a stream. Raises OSError where it cannot be opened, or copied.
    """
    with opened(path) as file:
        if not isinstance(file.raw, _Unpacked):
            yield path
            return
        with tempfile.NamedTemporaryFile() as copy:
            shutil.copyfileobj(file, copy)
            copy.flush()
            yield Path(copy.name)


def contents(path: Path) -> bytes:
    """Return a file's bytes, unpacked; of a damaged packed file those before the damage."""
    with opened(path) as file:
        return file.read()


def bare(name: str) -> str:
    """Return a file's name without the suffix that packing added."""
    suffix = next((item for item in PACKED if name.lower().endswith(item)), "")
    return name[: len(name) - len(suffix)]
