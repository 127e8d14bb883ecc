"""Measure reading: CPU time and peak memory against the usual ways, and the same numbers.

    python bench/reading.py                   # every part
    python bench/reading.py events            # one
    python bench/reading.py --repeats 1       # a look

Every figure is the median over repeats, each in a fresh process, the ways taken in turn. CPU
seconds and the peak of resident memory are of the whole process, imports included, since a user
waits for them too; ``read s`` leaves the imports out.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import resource
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

TAGS, STEPS = 30, 6000
"""180,000 scalars: what a GRPO run of 6,000 logged steps writes."""

Numbers = Iterable[tuple[str, int, float]]
"""Tag, step and value of every scalar."""


def main() -> None:
    """Run the parts asked for, or one way of one where asked by the parent process."""
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("parts", nargs="*", default=[], help=", ".join(PARTS))
    arguments.add_argument("--repeats", type=int, default=5)
    arguments.add_argument("--way", help=argparse.SUPPRESS)
    arguments.add_argument("--path", type=Path, help=argparse.SUPPRESS)
    given = arguments.parse_args()
    if given.way:
        print(json.dumps(_measured(*given.way.split(":"), given.path)))
        return
    for part in given.parts or PARTS:
        write, ways = PARTS[part]
        with tempfile.TemporaryDirectory() as folder:
            path = write(Path(folder))
            print(f"{part}: {path.stat().st_size / 1e6:.1f} MB", flush=True)
            found: dict[str, list[dict[str, float | str]]] = {way: [] for way in ways}
            for _ in range(given.repeats):
                for way in ways:
                    found[way].append(_child(f"{part}:{way}", path))
        _print(found)


def _child(way: str, path: Path) -> dict[str, float | str]:
    done = subprocess.run(
        [sys.executable, __file__, "--way", way, "--path", str(path)],
        capture_output=True,
        text=True,
        check=True,
    )
    measured: dict[str, float | str] = json.loads(done.stdout.splitlines()[-1])
    return measured


def _measured(part: str, way: str, path: Path) -> dict[str, float | str]:
    prepared = PARTS[part][1][way]()
    began = time.process_time()
    numbers = prepared(path)
    read = time.process_time() - began
    cpu = time.process_time()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    digest = hashlib.sha256()
    count = 0
    for tag, step, value in sorted(numbers, key=lambda item: item[:2]):
        digest.update(f"{tag} {step} ".encode() + struct.pack("<d", value))
        count += 1
    told = digest.hexdigest()[:16]
    return {"cpu_s": cpu, "read_s": read, "peak_mb": peak, "count": count, "digest": told}


def _print(found: dict[str, list[dict[str, float | str]]]) -> None:
    first, *_ = found
    digests = {run["digest"] for runs in found.values() for run in runs}
    middle = {
        way: {
            name: statistics.median(float(run[name]) for run in runs)
            for name in ("cpu_s", "read_s", "peak_mb", "count")
        }
        for way, runs in found.items()
    }
    for way, values in middle.items():
        spread = [float(run["cpu_s"]) for run in found[way]]
        line = f"{way:<18} CPU {values['cpu_s']:6.2f} s ({min(spread):.2f}-{max(spread):.2f})"
        line += f"  read {values['read_s']:6.2f} s  peak {values['peak_mb']:6.1f} MB"
        line += f"  {values['count']:,.0f} numbers"
        if way != first:
            line += f"  {middle[first]['cpu_s'] / values['cpu_s']:.1f}x less CPU"
            line += f", {middle[first]['peak_mb'] / values['peak_mb']:.1f}x less memory"
        print(line, flush=True)
    print("the same numbers" if len(digests) == 1 else f"NOT the same numbers: {digests}")


def _write_events(folder: Path) -> Path:
    """Write the scalars with TensorBoard's own writer."""
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.summary.writer.event_file_writer import EventFileWriter

    writer = EventFileWriter(str(folder))
    for step in range(1, STEPS + 1):
        for tag in range(TAGS):
            value = math.nan if step % 997 == 0 else math.sin(step * tag) + tag
            scalar = Summary.Value(tag=f"train/metric_{tag}", simple_value=value)
            summary = Summary(value=[scalar])
            writer.add_event(Event(wall_time=1.8e9 + step, step=step, summary=summary))
    writer.close()
    return next(folder.glob("*tfevents*"))


def _accumulator() -> Callable[[Path], Numbers]:
    """TensorBoard's own way, with nothing thinned out."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    def read(path: Path) -> Numbers:
        accumulator = EventAccumulator(str(path), size_guidance={"scalars": 0})
        accumulator.Reload()
        return [
            (tag, item.step, item.value)
            for tag in accumulator.Tags()["scalars"]
            for item in accumulator.Scalars(tag)
        ]

    return read


def _ours() -> Callable[[Path], Numbers]:
    """The reader's rows."""
    from rlhfdoctor.model import Row
    from rlhfdoctor.readers.tensorboard import tensorboard

    def read(path: Path) -> Numbers:
        rows = [item for item in tensorboard.read(path) if isinstance(item, Row)]
        return [(tag, row.step or 0, value) for row in rows for tag, value in row.values.items()]

    return read


LINES, LOST = 500_000, 10_000
"""Lines of the JSON Lines log; a NaN in one of so many, which orjson refuses."""

KEYS = {
    "loss": "loss_total",
    "grad_norm": "grad_norm",
    "learning_rate": "lr",
    "reward": "reward_raw_mean",
    "reward_std": "reward_std",
    "kl": "kl_ref_token",
    "entropy": "entropy",
    "completions/mean_length": "response_length_mean",
    "completions/clipped_ratio": "truncation_rate",
    "frac_reward_zero_std": "frac_reward_zero_std",
    "clip_ratio/region_mean": "clip_frac",
}
"""The keys of a line besides step and epoch, and what they mean in TRL's GRPO."""


def _write_jsonl(folder: Path) -> Path:
    path = folder / "log.jsonl"
    with path.open("w", encoding="utf-8") as file:
        for step in range(1, LINES + 1):
            row = {"step": step, "epoch": step / LINES}
            row |= {key: math.sin(step * place) + 1 for place, key in enumerate(KEYS, start=1)}
            if step % LOST == 0:
                row["kl"] = math.nan
            file.write(json.dumps(row) + "\n")
    return path


def _sample(frame: Any, names: Iterable[tuple[str, str]]) -> Numbers:
    """Every hundredth row of a frame, under the keys of the log."""
    steps = frame["step"].to_list()[99::100]
    for key, name in names:
        yield from (
            (key, step, v) for step, v in zip(steps, frame[name].to_list()[99::100], strict=True)
        )


def _frame() -> Callable[[Path], Numbers]:
    """The usual way: parse each line, json where orjson refuses, a frame of the dictionaries."""
    import orjson
    import polars as pl

    def read(path: Path) -> Numbers:
        records = []
        with path.open("rb") as file:
            for line in file:
                try:
                    records.append(orjson.loads(line))
                except ValueError:  # noqa: PERF203
                    records.append(json.loads(line))
        return _sample(pl.DataFrame(records, infer_schema_length=None), ((k, k) for k in KEYS))

    return read


def _run() -> Callable[[Path], Numbers]:
    """The whole run: rows, record, dialect, canonical columns."""
    from rlhfdoctor.runs import read_runs

    def read(path: Path) -> Numbers:
        (run,) = read_runs(path, dialect="trl_grpo")
        return _sample(run.metrics, KEYS.items())

    return read


PARTS: dict[
    str, tuple[Callable[[Path], Path], dict[str, Callable[[], Callable[[Path], Numbers]]]]
] = {
    "events": (_write_events, {"EventAccumulator": _accumulator, "rlhfdoctor": _ours}),
    "jsonl": (_write_jsonl, {"orjson, DataFrame": _frame, "rlhfdoctor": _run}),
}
"""What is read: who writes the file, and the ways to read it, the usual one first."""


if __name__ == "__main__":
    main()
