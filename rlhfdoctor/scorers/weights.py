"""Weights on disk, tensor by tensor: safetensors (whole, sharded), torch files, PEFT adapters.

Nothing is executed: torch files are read with ``weights_only``, and one that holds other classes is
refused with their names. Links that lead out of the folder that is trusted are not opened.
"""

from __future__ import annotations

import json
import os
import pickle
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlhfdoctor.errors import DoctorError, first_line

if TYPE_CHECKING:
    from torch import Tensor

PATTERNS = (
    ("safetensors", ("model*.safetensors",)),
    ("bin", ("pytorch_model*.bin",)),
    ("pt", ("pytorch_model*.pt", "model*.pt")),
)
"""Formats of full weights, the first that is there wins."""

ADAPTERS = ("adapter_model.safetensors", "adapter_model.bin")

_WRAPPERS = ("state_dict", "model_state_dict", "model", "module")
"""Keys under which a training script puts the weights in a dictionary of other things."""

LARGEST_INDEX = 100_000_000
"""Bytes of an index of shards; a line a tensor makes it some megabytes at most."""

_DEEPEST = 4
"""Dictionaries within each other that are looked into: a pickle may hold itself."""

_PREFIXES = ("module.", "_orig_mod.")
"""What data-parallel wrappers and torch.compile put before every name."""


class UnreadableWeights(DoctorError):
    """Weights that cannot be read, or must not be."""

    def __init__(self, message: str, hint: str = "") -> None:
        """Most of them are skipped with a note, which has no room for a hint."""
        super().__init__(message, hint or "give a folder with model.safetensors and config.json")


def is_adapter(folder: Path) -> bool:
    """Say whether a folder holds a PEFT adapter and no full weights."""
    there = any((folder / name).is_file() for name in ADAPTERS)
    return there and not any(any(folder.glob(glob)) for _, globs in PATTERNS for glob in globs)


def weight_files(folder: Path, trusted: Path | None = None) -> tuple[str, tuple[Path, ...]]:
    """Return the format and the files of a folder's weights, shards in order.

    trusted: a folder that no file may lie outside of once its links are followed; None where the
    user named the folder. Raises UnreadableWeights for none, a missing shard, or such a link.
    """
    form, names = _named(folder, trusted)
    files = []
    for name in names:
        file = folder / name
        if not file.is_file():
            raise UnreadableWeights(f"{folder.name}: no {name}, which the index names")
        refuse_link(file, trusted)
        files.append(file)
    return form, tuple(files)


def refuse_link(file: Path, trusted: Path | None) -> None:
    """Raise UnreadableWeights for a file that lies outside of the trusted folder."""
    if trusted is None:
        return
    inside = os.path.realpath(trusted)
    if os.path.commonpath([inside, os.path.realpath(file)]) != inside:
        raise UnreadableWeights(
            f"{file.parent.name}: {file.name} is a link to outside the run folder"
        )


def _named(folder: Path, trusted: Path | None) -> tuple[str, list[str]]:
    if is_adapter(folder):
        return "peft", [next(name for name in ADAPTERS if (folder / name).is_file())]
    for form, globs in PATTERNS:
        found = sorted(
            {file.name for glob in globs for file in folder.glob(glob) if file.suffix != ".json"}
        )
        if found:
            index = next(iter(sorted(folder.glob(f"*.{form}.index.json"))), None)
            if index is None:
                return form, found
            refuse_link(index, trusted)
            return form, _shards(index)
    raise UnreadableWeights(f"{folder.name}: no weights")


def _shards(index: Path) -> list[str]:
    if not index.is_file() or index.stat().st_size > LARGEST_INDEX:
        raise UnreadableWeights(f"{index.parent.name}: {index.name} is no index of shards")
    try:
        named = json.loads(index.read_bytes())["weight_map"].values()
    except (OSError, ValueError, KeyError, AttributeError, TypeError, RecursionError) as error:
        raise UnreadableWeights(f"{index.parent.name}: {index.name} is damaged") from error
    shards = sorted({str(name) for name in named})
    for name in shards:
        if Path(name).name != name or not name.isprintable():
            raise UnreadableWeights(f"{index.parent.name}: {index.name} names {name[:80]!r}")
    return shards


@contextmanager
def alone(file: Path) -> Iterator[str]:
    """Give a folder that holds a link to one file: whoever reads it cannot see its neighbours."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / file.name).symlink_to(file.resolve())
        yield folder


def tensors(folder: Path, trusted: Path | None = None) -> Iterator[tuple[str, Tensor]]:
    """Yield each tensor with its name; at most one file is open, tensors are mapped where possible.

    Raises UnreadableWeights for a damaged file or one that holds more than tensors.
    """
    for file in weight_files(folder, trusted)[1]:
        if file.suffix == ".safetensors":
            yield from _safetensors(file)
        else:
            yield from _torch(file)


def _safetensors(file: Path) -> Iterator[tuple[str, Tensor]]:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(file, framework="pt") as opened:
            for name in sorted(opened.keys()):
                yield name, opened.get_tensor(name)
    except (SafetensorError, OSError, ValueError) as error:
        told = first_line(error)
        raise UnreadableWeights(f"{file.parent.name}: {file.name} is damaged ({told})") from error


def _torch(file: Path) -> Iterator[tuple[str, Tensor]]:
    import torch

    try:
        with warnings.catch_warnings():  # of other pickle protocols: refused or read all the same
            warnings.simplefilter("ignore")
            loaded = torch.load(file, map_location="cpu", weights_only=True, mmap=_is_zip(file))
    except pickle.UnpicklingError as error:
        foreign = ", ".join(_foreign(file)) or "classes that are no tensors"
        raise UnreadableWeights(
            f"{file.parent.name}: {file.name} holds more than tensors ({foreign}); not executed"
        ) from error
    except Exception as error:  # a damaged pickle makes torch raise nearly anything
        told = first_line(error)
        raise UnreadableWeights(f"{file.parent.name}: {file.name} is damaged ({told})") from error
    found = _weights(loaded)
    if not found:
        raise UnreadableWeights(f"{file.parent.name}: {file.name} holds no tensors by name")
    for name in sorted(found):
        yield name, found[name]


def _is_zip(file: Path) -> bool:
    with file.open("rb") as opened:
        return opened.read(2) == b"PK"


def _foreign(file: Path) -> list[str]:
    """Return the classes that a torch file would have run, read without running them."""
    import torch

    try:
        return sorted(torch.serialization.get_unsafe_globals_in_checkpoint(file))[:10]
    except Exception:  # any damage: the names are a courtesy, the refusal stands without them
        return []


def _weights(loaded: Any, depth: int = 0) -> dict[str, Tensor]:
    """Return the tensors of a state dict, whatever a training script wrapped around it."""
    import torch

    if not isinstance(loaded, Mapping):
        return {}
    found = {
        _bare(name): value
        for name, value in loaded.items()
        if isinstance(name, str) and isinstance(value, torch.Tensor)
    }
    for key in _WRAPPERS:
        if not found and depth < _DEEPEST and isinstance(loaded.get(key), Mapping):
            found = _weights(loaded[key], depth + 1)
    return found


def _bare(name: str) -> str:
    for prefix in _PREFIXES:
        name = name.removeprefix(prefix)
    return name
