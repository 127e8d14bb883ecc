"""Whether the numbers of a checkpoint are finite, read from the raw bytes of its files.

Nothing is loaded and no pickle is executed: a safetensors header names types and places; a file of
torch is a zip whose storages lie in it as they are, and the types of those are read from the
opcodes of its pickle. Bytes are tested ``CHUNK`` at a time as one large integer, which needs no
package and is several times cheaper than to load them with torch (bench/vetting.py).
"""

from __future__ import annotations

import os
import pickletools
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import IO, Literal

import orjson

from rlhfdoctor.model import Checkpoint, Run
from rlhfdoctor.paths import inside

CHUNK = 1 << 14
"""Bytes tested at once; more than the processor's cache holds is slower."""

LARGEST_HEADER = 100_000_000
"""Bytes of a safetensors header: the format's own limit."""

LARGEST_PICKLE = 1 << 24
"""Bytes of the pickle beside the storages of a file of torch: some hundred a tensor."""

DEEPEST = 3
"""Folders below a checkpoint that are looked into: ``global_step_40/actor/huggingface``."""

FORMATS: dict[str, tuple[int, int]] = {
    "F64": (8, 0x7FF0_0000_0000_0000),
    "F32": (4, 0x7F80_0000),
    "F16": (2, 0x7C00),
    "BF16": (2, 0x7F80),
    "F8_E5M2": (1, 0x7C),
    "F8_E4M3": (1, 0x7F),
}
"""Bytes of a number, and the bits that are all set where it is NaN or infinite (IEEE 754; E4M3 has
one NaN and no infinity)."""

WHOLE = frozenset({"BOOL", "U8", "I8", "U16", "I16", "U32", "I32", "U64", "I64"})
"""Types that hold nothing but finite numbers. A type that is in neither list is not looked at."""

STORAGES = {
    "DoubleStorage": "F64",
    "FloatStorage": "F32",
    "HalfStorage": "F16",
    "BFloat16Storage": "BF16",
    "Float8_e5m2Storage": "F8_E5M2",
    "Float8_e4m3fnStorage": "F8_E4M3",
    "BoolStorage": "BOOL",
    "ByteStorage": "U8",
    "CharStorage": "I8",
    "ShortStorage": "I16",
    "IntStorage": "I32",
    "LongStorage": "I64",
}
"""Classes of typed storages, as torch.save names them."""

ENDINGS = (".safetensors", ".bin", ".pt", ".pth")

OTHERS = ("training_args", "rng_state", "scheduler", "scaler", "extra_state")
"""Beginnings of the names of files that hold neither weights nor optimizer state."""

LONGEST_NAME = 200
"""Characters of a tensor's name that are told."""

Told = Callable[[str, int, int], None]
"""Told the file, the bytes of the checkpoint read so far, and all of them."""

Part = Literal["weights", "optimizer state"]


@dataclass(frozen=True, slots=True)
class Health:
    """What the bytes of a checkpoint say.

    weights, optimizer: True where every number is finite, False where one is not, None where there
    are none or not all could be read. where: file and tensor of the first that is not finite.
    unread: why a part could not be read, of its first such file.
    """

    weights: bool | None
    optimizer: bool | None
    where: str = ""
    unread: Mapping[Part, str] = field(default_factory=dict)


class _Unread(Exception):
    """A file that cannot be read, and why."""


def health(run: Run, checkpoint: Checkpoint, told: Told = lambda what, done, total: None) -> Health:
    """Read every file of weights and optimizer state of a checkpoint.

    No link is followed; what cannot be read is told, never raised. Reading stops at the first
    number that is not finite.
    """
    root = Path(run.path)
    root = root if root.is_dir() else root.parent
    folder = root / checkpoint.path
    if not inside(folder, root):
        why = "the folder lies outside the run's"
        return Health(None, None, unread={"weights": why, "optimizer state": why})
    files = [*_files(folder)]
    total, before = sum(size for _, size in files), 0
    found: dict[Part, bool] = {}
    unread: dict[Part, str] = {}
    for file, size in files:
        name = file.relative_to(folder).as_posix()
        part: Part = "optimizer state" if "optim" in name.lower() else "weights"
        try:
            for tensor, done in _numbers(file):
                told(name, before + min(done, size), total)
                if tensor is not None:
                    where = f"{name} {tensor[:LONGEST_NAME]}"
                    return _health({**found, part: False}, unread, where)
                found.setdefault(part, True)
        except _Unread as error:
            unread.setdefault(part, f"{name}: {error}")
        except OSError as error:
            unread.setdefault(part, f"{name}: {error.strerror or error}")
        except Exception:  # damaged archives, pickles and headers raise nearly anything
            unread.setdefault(part, f"{name}: damaged")
        before += size
    return _health(found, unread)


def _health(found: Mapping[Part, bool], unread: Mapping[Part, str], where: str = "") -> Health:
    """Gather; a part of which a file could not be read is not known to be finite."""
    known = {part: finite for part, finite in found.items() if not finite or part not in unread}
    return Health(known.get("weights"), known.get("optimizer state"), where, unread)


def _files(folder: Path, depth: int = 0) -> Iterator[tuple[Path, int]]:
    """Yield what may hold weights or optimizer state, by name, weights first; and its bytes."""
    try:
        with os.scandir(folder) as entries:
            there = sorted(entries, key=lambda entry: ("optim" in entry.name, entry.name))
    except OSError:
        return
    for entry in there:
        if entry.is_dir(follow_symlinks=False):
            if depth < DEEPEST:
                yield from _files(Path(entry.path), depth + 1)
        elif entry.name.endswith(ENDINGS) and not entry.name.startswith(OTHERS):
            try:
                yield Path(entry.path), entry.stat(follow_symlinks=False).st_size
            except OSError:
                yield Path(entry.path), 0


def _numbers(file: Path) -> Iterator[tuple[str | None, int]]:
    """Yield after each tensor its name where it is not finite, else None, and the bytes read."""
    if not file.is_file() or file.is_symlink():
        raise _Unread("a link, not followed" if file.is_symlink() else "no regular file")
    handle = os.open(file, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0))
    with open(handle, "rb") as opened:
        if not os.fstat(handle).st_size:
            raise _Unread("empty")
        if file.suffix == ".safetensors":
            yield from _safetensors(opened, os.fstat(handle).st_size)
        elif opened.read(2) == b"PK":
            yield from _torch(opened)
        else:
            raise _Unread("not in torch's zip format")


def _safetensors(opened: IO[bytes], size: int) -> Iterator[tuple[str | None, int]]:
    """Read a file whose tensors lie end to end, as the format demands."""
    length = int.from_bytes(opened.read(8), "little")
    if not 0 < length <= min(LARGEST_HEADER, size - 8):
        raise _Unread("damaged")
    header = orjson.loads(opened.read(length))
    header.pop("__metadata__", None)
    places = sorted(
        (*map(int, about["data_offsets"]), name, str(about["dtype"]))
        for name, about in header.items()
    )
    if not places:
        raise _Unread("holds no tensor")
    end = 0
    for first, last, name, dtype in places:
        if first != end or last < first:
            raise _Unread("damaged")
        if 8 + length + last > size:
            raise _Unread("cut short")
        end = last
        opened.seek(8 + length + first)
        yield (None if _finite(opened, last - first, dtype) else name), 8 + length + last
    if 8 + length + end != size:
        raise _Unread("damaged")


def _torch(opened: IO[bytes]) -> Iterator[tuple[str | None, int]]:
    with zipfile.ZipFile(opened) as packed:
        index = next((name for name in packed.namelist() if name.endswith("data.pkl")), None)
        if index is None or packed.getinfo(index).file_size > LARGEST_PICKLE:
            raise _Unread("not in torch's zip format")
        root, done, seen = index.removesuffix("data.pkl"), 0, set[int]()
        found = _storages(packed.read(index))
        if not found:
            raise _Unread("holds no tensor")
        for key, kind in found.items():
            try:
                place = packed.getinfo(f"{root}data/{key}")
            except KeyError:
                raise _Unread("cut short") from None
            if place.compress_type != zipfile.ZIP_STORED or place.header_offset in seen:
                raise _Unread("damaged")
            seen.add(place.header_offset)
            with packed.open(place) as storage:
                finite = _finite(storage, place.file_size, STORAGES.get(kind, kind))
            done += place.file_size
            yield (None if finite else f"storage {key}"), done


def _storages(pickled: bytes) -> dict[str, str]:
    """Return key and class of each storage that a pickle of torch names; nothing is executed.

    A storage is a persistent id: a tuple of "storage", its class, its key, a device, a count.
    """
    found: dict[str, str] = {}
    memo: dict[object, object] = {}
    pushed: list[object] = []
    group: list[object] = []
    for op, argument, _ in pickletools.genops(pickled):
        match op.name:
            case "MARK":
                pushed = []
            case "GLOBAL":
                pushed.append(str(argument).rpartition(" ")[2])
            case "STACK_GLOBAL":
                name = pushed[-1] if pushed else None
                del pushed[-2:]
                pushed.append(name)
            case "BINPUT" | "LONG_BINPUT" | "PUT":
                memo[argument] = pushed[-1] if pushed else None
            case "MEMOIZE":
                memo[len(memo)] = pushed[-1] if pushed else None
            case "BINGET" | "LONG_BINGET" | "GET":
                pushed.append(memo.get(argument))
            case "TUPLE":
                group, pushed = pushed, [None]
            case "BINPERSID":
                if len(group) == 5 and group[0] == "storage":
                    found[str(group[2])] = str(group[1])
            case _:
                pushed.append(argument)
    return found


def _finite(opened: IO[bytes], length: int, dtype: str) -> bool:
    """Say whether the next ``length`` bytes are finite numbers of a type."""
    if dtype in WHOLE:
        return True
    if dtype not in FORMATS:
        raise _Unread(f"holds {dtype[:40]}, which is not looked at")
    exponent, lowest, carry = _lanes(dtype)
    while length > 0:
        read = opened.read(min(CHUNK, length))
        if not read:
            raise _Unread("cut short")
        length -= len(read)
        # bits of the exponent that are all set are the only ones to which its lowest bit carries
        if ((int.from_bytes(read, "little") & exponent) + lowest) & carry:
            return False
    return True


@cache
def _lanes(dtype: str) -> tuple[int, int, int]:
    """Return, for every number of a chunk: the bits of its exponent, their lowest, the sign bit."""
    size, exponent = FORMATS[dtype]
    values = (exponent, exponent & -exponent, 1 << (8 * size - 1))
    exponents, lowest, carry = (
        int.from_bytes(value.to_bytes(size, "little") * (CHUNK // size), "little")
        for value in values
    )
    return exponents, lowest, carry
