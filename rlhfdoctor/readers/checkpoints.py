"""Checkpoint folders: name, step, and whether the save was finished."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import orjson

from rlhfdoctor.model import Checkpoint, Note
from rlhfdoctor.readers import Item, reader
from rlhfdoctor.readers._json import clean, loads

_STEP = re.compile(r"(?:checkpoint[-_]|global_step_?|Steps_|step_|iter_)0*(\d{1,15})")
_WEIGHTS = {
    "safetensors": ("model*.safetensors",),
    "peft": ("adapter_model.safetensors", "adapter_model.bin"),
    "bin": ("pytorch_model*.bin",),
    "pt": ("pytorch_model*.pt", "model*.pt"),
}
_LARGEST_HEADER = 100_000_000  # bytes; the limit of the safetensors format itself


@reader("checkpoint-*", "checkpoint_*", "global_step*", "Steps_*", "step_*", "iter_*", folder=True)
def checkpoints(path: Path) -> Iterator[Item]:
    """Yield the folder as a checkpoint; no tensor is loaded.

    Loadable means: weights that are whole (every shard that an index names, each as long as its
    own header says). Complete means: loadable, a trainer_state.json, and no file of zero bytes.
    Missing optimizer state does not make it incomplete: the weights can be gone back to. Links
    count as present and are not opened.
    """
    match = _STEP.fullmatch(path.name)
    if match is None:
        return
    files = {clean(file.name): file for file in path.iterdir() if file.is_file()}
    empty = {name for name, file in files.items() if not file.stat().st_size}
    missing = [f"{name} is empty" for name in sorted(empty) if _is_weights(name)]
    form = next(
        (form for form, globs in _WEIGHTS.items() if any(any(path.glob(glob)) for glob in globs)),
        "unknown",
    )
    weights = [file for name, file in sorted(files.items()) if _is_weights(name)]
    if not weights:
        missing.append("no weights")
    for file in weights:
        if file.suffix == ".safetensors" and file.stat().st_size and not file.is_symlink():
            fault = _safetensors_fault(file)
            if fault:
                missing.append(f"{file.name} {fault}")
    for name, file in sorted(files.items()):
        if name.endswith(".index.json") and not file.is_symlink():
            shards = _shards(file)
            if shards is None:
                missing.append(f"{name} is damaged")
            else:
                missing.extend(f"no {shard}" for shard in sorted(shards - set(files)))
    loadable = bool(weights) and not missing
    missing.extend(f"{name} is empty" for name in sorted(empty) if not _is_weights(name))
    if "trainer_state.json" not in files:
        missing.append("no trainer_state.json")
    yield Checkpoint(
        step=int(match.group(1)),
        path=str(path),
        name=path.name,
        format=form,
        complete=not missing,
        loadable=loadable,
        missing=tuple(missing),
    )
    if missing:
        yield Note(path.name, f"incomplete checkpoint: {', '.join(missing)}")


def _is_weights(name: str) -> bool:
    return name.endswith((".safetensors", ".bin", ".pt")) and name.startswith(
        ("model", "adapter_model", "pytorch_model")
    )


def _safetensors_fault(file: Path) -> str | None:
    """Compare a file's size with its header: 8 bytes of length, JSON, then the tensors."""
    size = file.stat().st_size
    with file.open("rb") as opened:
        length = int.from_bytes(opened.read(8), "little")
        if size < 8 or length > min(_LARGEST_HEADER, size - 8):
            return "is cut or no safetensors file"
        try:
            header = orjson.loads(opened.read(length))
            ends = [
                entry["data_offsets"][1] for key, entry in header.items() if key != "__metadata__"
            ]
        except (orjson.JSONDecodeError, AttributeError, KeyError, IndexError, TypeError):
            return "has a damaged header"
    if not all(isinstance(end, int) for end in ends):
        return "has a damaged header"
    expected = 8 + length + max(ends, default=0)
    return None if size >= expected else f"is cut: {size} of {expected} bytes"


def _shards(index: Path) -> set[str] | None:
    try:
        record = loads(index.read_bytes())
        weight_map = record["weight_map"] if isinstance(record, dict) else None
    except (ValueError, KeyError):
        return None
    return (
        {clean(str(name)) for name in weight_map.values()} if isinstance(weight_map, dict) else None
    )
