"""Whether the numbers of a checkpoint are finite: raw bytes beside torch.

Each way runs in a process of its own over one bfloat16 file in a temporary folder: imports
included, CPU seconds and the peak of resident memory.
"""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

MEGABYTES = 512
"""Size of the file."""

REPEATS = 5

OURS = """
from pathlib import Path
from rlhfdoctor.finite import _numbers
assert all(name is None for name, _ in _numbers(Path({path!r})))
"""

TORCH = """
import torch
from safetensors import safe_open
with safe_open({path!r}, framework="pt") as opened:
    for name in opened.keys():
        assert torch.isfinite(opened.get_tensor(name)).all()
"""

WAYS = {"raw bytes": OURS, "torch.isfinite": TORCH}


def write(path: Path) -> None:
    """Write a safetensors file of four bfloat16 tensors, all finite, without torch."""
    size = MEGABYTES * 2**20 // 4
    header = {
        f"layer.{place}": {
            "dtype": "BF16",
            "shape": [size // 2],
            "data_offsets": [place * size, (place + 1) * size],
        }
        for place in range(4)
    }
    told = json.dumps(header).encode()
    block = bytearray(os.urandom(2**20))
    block[1::2] = bytes(byte & 0xBF for byte in block[1::2])
    with path.open("wb") as file:
        file.write(len(told).to_bytes(8, "little") + told)
        for _ in range(MEGABYTES):
            file.write(block)


def measure(code: str) -> tuple[float, float]:
    """Run code in a process; return its CPU seconds and its peak in MB."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    told = "import resource; print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\n{told}"], check=True, capture_output=True, text=True
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return spent, int(done.stdout.split()[-1]) / 1024


def main() -> None:
    """Print a table."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.safetensors"
        write(path)
        found: dict[str, list[tuple[float, float]]] = {name: [] for name in WAYS}
        for _ in range(REPEATS):
            for name, code in WAYS.items():
                found[name].append(measure(code.format(path=str(path))))
    print(f"| {MEGABYTES} MB of bfloat16, {REPEATS} processes each | CPU s | range | peak MB |")
    print("|---|---|---|---|")
    for name, rows in found.items():
        seconds = sorted(row[0] for row in rows)
        peak = statistics.median(row[1] for row in rows)
        middle = statistics.median(seconds)
        print(f"| {name} | {middle:.2f} | {seconds[0]:.2f}-{seconds[-1]:.2f} | {peak:,.0f} |")


if __name__ == "__main__":
    main()
