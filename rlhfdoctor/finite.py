"""Whether the numbers of a checkpoint are finite, read from the raw bytes of its files.

Nothing is loaded and no pickle is executed: a safetensors header names types and places; a file of
torch is a zip whose storages lie in it as they are, and the types of those are read from the
opcodes of its pickle. Bytes are tested ``CHUNK`` at a time as one large integer, which needs no
package and is several times cheaper than to load them with torch (bench/vetting.py).
"""

from __future__ import annotations

import os
import pickletools
import stat
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import IO

import orjson

from rlhfdoctor.model import Checkpoint, Run

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
one NaN and no infinity). Types that are not here, integers for one, are always finite."""

STORAGES = {
    "DoubleStorage": "F64",
    "FloatStorage": "F32",
    "HalfStorage": "F16",
    "BFloat16Storage": "BF16",
    "Float8_e5m2Storage": "F8_E5M2",
    "Float8_e4m3fnStorage": "F8_E4M3",
}
"""Classes of typed storages, as torch.save names them."""

UNTYPED = "UntypedStorage"
"""A storage whose type only the tensors on it tell."""

OTHERS = ("training_args", "rng_state", "scheduler", "scaler", "extra_state")
"""Beginnings of the names of files that hold neither weights nor optimizer state."""

Told = Callable[[str, int, int], None]
"""Told the file, the bytes of the checkpoint read so far, and all of them."""


@dataclass(frozen=True, slots=True)
class Health:
    """What the bytes of a checkpoint say.

    weights, optimizer: True where every number is finite, False where one is not, None where there
    are none or they could not be read. where: file and tensor of the first that is not finite.
    unread: files that could not be read, each with its reason.
    """

    weights: bool | None
    optimizer: bool | None
    where: str = ""
    unread: tuple[str, ...] = ()


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
    if not Path(os.path.realpath(folder)).is_relative_to(os.path.realpath(root)):
        return Health(None, None, unread=(f"{checkpoint.name}: lies outside the run folder",))
    files = list(_files(folder))
    total = sum(file.stat(follow_symlinks=False).st_size for file in files)
    found: dict[bool, bool] = {}
    unread: list[str] = []
    before = 0
    for file in files:
        name = file.relative_to(folder).as_posix()
        optimizer = "optim" in name.lower()
        try:
            for tensor, done in _numbers(file):
                told(name, before + done, total)
                if tensor is not None:
                    found[optimizer] = False
                    return _health(found, f"{name} {tensor}", unread)
            found.setdefault(optimizer, True)
        except _Unread as error:
            unread.append(f"{name}: {error}")
        except OSError as error:
            unread.append(f"{name}: {error.strerror or error}")
        except (
            Exception
        ):  # zipfile, pickletools and the headers' own nonsense raise nearly anything
            unread.append(f"{name}: damaged")
        before += file.stat(follow_symlinks=False).st_size
    return _health(found, "", unread)


def _health(found: dict[bool, bool], where: str, unread: list[str]) -> Health:
    """Gather; a kind of which a file could not be read is not known to be finite."""
    for optimizer in (False, True):
        if any(("optim" in item.lower()) is optimizer for item in unread):
            found = {key: value for key, value in found.items() if key != optimizer or not value}
    return Health(found.get(False), found.get(True), where, tuple(unread))


def _files(folder: Path, depth: int = 0) -> Iterator[Path]:
    """Yield the files of weights and optimizer state, by name, weights of a folder first."""
    try:
        with os.scandir(folder) as entries:
            there = sorted(entries, key=lambda entry: ("optim" in entry.name, entry.name))
    except OSError:
        return
    for entry in there:
        if entry.is_dir(follow_symlinks=False):
            if depth < DEEPEST:
                yield from _files(Path(entry.path), depth + 1)
        elif (
            entry.is_file(follow_symlinks=False)
            and entry.name.endswith((".safetensors", ".bin", ".pt", ".pth"))
            and not entry.name.startswith(OTHERS)
        ):
            yield Path(entry.path)


def _numbers(file: Path) -> Iterator[tuple[str | None, int]]:
    """Yield after each tensor its name where it is not finite, else None, and the bytes read."""
    handle = os.open(file, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0))
    with open(handle, "rb") as opened:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise _Unread("no file")
        if not os.fstat(handle).st_size:
            raise _Unread("empty")
        if file.suffix == ".safetensors":
            yield from _safetensors(opened, os.fstat(handle).st_size)
        elif opened.read(2) == b"PK":
            yield from _torch(opened)
        else:
            raise _Unread("not in torch's zip format")


def _safetensors(opened: IO[bytes], size: int) -> Iterator[tuple[str | None, int]]:
    length = int.from_bytes(opened.read(8), "little")
    if not 0 < length <= min(LARGEST_HEADER, size - 8):
        raise _Unread("damaged")
    header = orjson.loads(opened.read(length))
    header.pop("__metadata__", None)
    places = [
        (*map(int, about["data_offsets"]), name, str(about["dtype"]))
        for name, about in header.items()
    ]
    for first, last, name, dtype in sorted(places):
        if not 0 <= first <= last <= size - 8 - length:
            raise _Unread("cut short")
        opened.seek(8 + length + first)
        finite = dtype not in FORMATS or _finite(opened, last - first, dtype)
        yield (None if finite else name), 8 + length + last


def _torch(opened: IO[bytes]) -> Iterator[tuple[str | None, int]]:
    with zipfile.ZipFile(opened) as packed:
        index = next((name for name in packed.namelist() if name.endswith("data.pkl")), None)
        if index is None or packed.getinfo(index).file_size > LARGEST_PICKLE:
            raise _Unread("not in torch's zip format")
        root, done = index.removesuffix("data.pkl"), 0
        for key, kind in _storages(packed.read(index)).items():
            if kind == UNTYPED:
                raise _Unread("storages without a type")
            if kind not in STORAGES:
                continue
            place = packed.getinfo(f"{root}data/{key}") if _has(packed, root, key) else None
            if place is None:
                raise _Unread("cut short")
            if place.compress_type != zipfile.ZIP_STORED:
                raise _Unread("compressed")
            with packed.open(place) as storage:
                finite = _finite(storage, place.file_size, STORAGES[kind])
            done += place.file_size
            yield (None if finite else f"storage {key}"), done


def _has(packed: zipfile.ZipFile, root: str, key: str) -> bool:
    return f"{root}data/{key}" in packed.NameToInfo


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
                pushed = [*pushed[:-2], pushed[-1] if pushed else None]
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
    """Say whether the next ``length`` bytes are finite numbers of a type of ``FORMATS``."""
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
