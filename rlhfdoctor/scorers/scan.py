"""What the weights of every checkpoint say without running a model: finite, hash, norm, zero rows.

Weights are streamed: at most one tensor is held, beside a working copy of ``CHUNK`` values.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from rlhfdoctor.errors import DoctorError, need
from rlhfdoctor.measures import SCANS
from rlhfdoctor.model import Checkpoint, Note, Run
from rlhfdoctor.scorers import weights
from rlhfdoctor.scorers.weights import UnreadableWeights

if TYPE_CHECKING:
    from torch import Tensor

Progress = Callable[[str, int, int], None]
"""Told the checkpoint, the bytes of weights read so far, and those of all checkpoints."""

CHUNK = 1 << 22
"""Values that are made wider at once: 16 MiB as float32."""

LORA = "lora_"
"""In the name of every LoRA matrix, and of no other tensor that PEFT writes."""

ZERO_AT_START = ("lora_B", "lora_embedding_A", "lora_E")
"""Matrices that PEFT initialises with zeros; the other one of the pair is random."""


def scan(run: Run, progress: Progress = lambda what, done, total: None) -> Run:
    """Return the run with ``scans`` filled in, one row a checkpoint (``measures.SCANS``).

    A checkpoint that cannot be read has a row with an error and a note; the others are read all the
    same. Raises DoctorError where torch or safetensors is missing.
    """
    root = Path(run.path)
    root = root if root.is_dir() else root.parent
    if run.policies:
        for package in ("torch", "safetensors"):
            need(package, extra="recompute", purpose="scanning checkpoints")
    folders = [(checkpoint, root / checkpoint.path) for checkpoint in run.policies]
    sizes = [_size(folder, root) for _, folder in folders]
    rows: list[dict[str, object]] = []
    notes: list[Note] = []
    for place, (checkpoint, folder) in enumerate(folders):
        known = _known(checkpoint)
        try:
            read = _Read()
            for name, tensor in weights.tensors(folder, trusted=root):
                read.add(name, tensor)
                done = sum(sizes[:place]) + min(read.done, sizes[place])
                progress(checkpoint.name, done, sum(sizes))
            rows.append(known | read.row(folder, root))
        except Exception as error:  # a damaged pickle may raise anything: the next is still read
            why = _why(folder, error)
            rows.append(known | {"error": why})
            notes.append(Note(checkpoint.path, f"weights not scanned: {why}", unread=True))
        progress(checkpoint.name, sum(sizes[: place + 1]), sum(sizes))
    return replace(run, scans=pl.DataFrame(rows, schema=SCANS), notes=(*run.notes, *notes))


def _known(checkpoint: Checkpoint) -> dict[str, object]:
    missing = list(checkpoint.missing)
    return {"checkpoint": checkpoint.name, "step": checkpoint.step, "missing": missing}


def _size(folder: Path, root: Path) -> int:
    try:
        return sum(file.stat().st_size for file in weights.weight_files(folder, root)[1])
    except (DoctorError, OSError):
        return 0


def _why(folder: Path, error: Exception) -> str:
    if isinstance(error, DoctorError):
        return error.message.removeprefix(f"{folder.name}: ")
    told = (str(error).splitlines() or [""])[0][:200]
    return f"{type(error).__name__}: {told}"


@dataclass(slots=True)
class _Read:
    """What was seen of one checkpoint so far."""

    done: int = 0
    digests: list[tuple[str, bytes]] = field(default_factory=list)
    parameters: Counter[str] = field(default_factory=Counter)
    squares: float = 0.0
    non_finite: int = 0
    first_non_finite: str | None = None
    zero_rows: int = 0
    first_zero_row: str | None = None
    lora: int = 0
    other: int = 0
    started: int = 0
    moved: bool = False

    def add(self, name: str, tensor: Tensor) -> None:
        """Take one tensor of any shape and dtype into account."""
        import torch

        if tensor.layout != torch.strided or tensor.is_quantized or tensor.device.type != "cpu":
            raise UnreadableWeights(f"{name[:200]} is no dense tensor")
        if tensor.nbytes > tensor.untyped_storage().nbytes():
            raise UnreadableWeights(f"{name[:200]} claims more values than are stored")
        name = name.encode(errors="backslashreplace").decode()
        dtype = str(tensor.dtype).removeprefix("torch.")
        shape = list(tensor.shape)
        starts_at_zero = any(part in name for part in ZERO_AT_START)
        self.lora += LORA in name
        self.other += LORA not in name
        self.started += starts_at_zero
        self.parameters[dtype] += tensor.numel()
        digest = hashlib.sha256(json.dumps([name, dtype, shape]).encode())
        for row, part in _parts(tensor):
            digest.update(part.view(torch.uint8).numpy().data)
            # a float4 holds two values and torch has no conversion for it
            if not part.is_floating_point() or dtype.startswith("float4"):
                continue
            wide = part if part.dtype == torch.float64 else part.float()
            self._values(name, wide)
            if starts_at_zero:
                self.moved = self.moved or bool(wide.any())
            elif len(shape) == 2 and wide.shape[1] == shape[1]:
                self._rows(name, wide, row)
        self.digests.append((name, digest.digest()))
        self.done += tensor.nbytes

    def _values(self, name: str, wide: Tensor) -> None:
        import torch

        norm = float(torch.linalg.vector_norm(wide, dtype=torch.float64))
        self.squares += norm * norm
        if not math.isfinite(norm):
            bad = wide.numel() - int(torch.isfinite(wide).sum())
            self.non_finite += bad
            if bad and self.first_non_finite is None:
                self.first_non_finite = name

    def _rows(self, name: str, wide: Tensor, first: int) -> None:
        empty = ~wide.any(dim=1)
        count = int(empty.sum())
        self.zero_rows += count
        if count and self.first_zero_row is None:
            self.first_zero_row = f"{name}[{first + int(empty.nonzero()[0])}]"

    def row(self, folder: Path, root: Path) -> dict[str, object]:
        """Return the columns of ``SCANS`` that the weights fill."""
        if not self.digests:
            raise UnreadableWeights("the files hold no tensor")
        adapter = weights.is_adapter(folder)
        whole = hashlib.sha256()
        for _, digest in sorted(self.digests):
            whole.update(digest)
        zero = bool(self.started) and not self.moved and not self.other
        return {
            "format": weights.weight_files(folder, root)[0],
            "dtype": max(self.parameters, key=self.parameters.__getitem__, default=None),
            "tensors": len(self.digests),
            "parameters": self.parameters.total(),
            "finite": not self.non_finite,
            "non_finite": self.non_finite,
            "first_non_finite": self.first_non_finite,
            "zero_rows": self.zero_rows,
            "first_zero_row": self.first_zero_row,
            "hash": whole.hexdigest(),
            "norm": math.sqrt(self.squares) if math.isfinite(self.squares) else None,
            "adapter": adapter,
            "adapter_zero": zero if adapter and self.lora else None,
        }


def _parts(tensor: Tensor) -> Iterator[tuple[int, Tensor]]:
    """Yield a tensor in contiguous parts of about ``CHUNK`` values, each with its first row.

    A matrix is cut between rows, shape (rows, columns); everything else is one column.
    """
    tensor = tensor.detach()
    if not tensor.numel():
        return
    matrix = tensor.dim() == 2 and tensor.shape[1] <= CHUNK
    rows = tensor if matrix else tensor.reshape(-1, 1)
    height = max(1, CHUNK // rows.shape[1])
    for first in range(0, rows.shape[0], height):
        yield first, rows[first : first + height].contiguous()
