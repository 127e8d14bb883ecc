"""Measure judging: CPU time of reading and of judging long logs, and peak memory.

    python bench/judging.py                          # ours and rldoctor 0.2.0
    python bench/judging.py --no-rival --repeats 1   # a look
    python bench/judging.py --profile 50000          # where the time of judging goes

Logs of 13 keys as TRL's GRPO writes them, a NaN in one of 10,000 rows: a healthy run, and one that
collapses. Every figure is the median over repeats, each in a process of its own, the tools taken in
turn; CPU seconds without the imports; the peak of resident memory is the whole process's.
"""

from __future__ import annotations

import argparse
import cProfile
import json
import math
import pstats
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path

SIZES = (50_000, 500_000)
"""Rows; a judge that is linear takes ten times as long for ten times as many."""

RATIO, MEMORY = 12.0, 1e3
"""The most that ten times the rows may cost, and MB that a process may hold."""

RIVAL = "rldoctor[tensorboard]==0.2.0"

SECONDS, BYTES = 600, 8 << 30
"""What a process may take before it is given up: seconds, and bytes of address space."""

LOST = 10_000
"""A NaN in one of so many rows."""

THEIRS = """
import json, resource, sys, time
from rl_doctor.diagnosis import diagnose
from rl_doctor.ingest import load_run
began = time.process_time()
run = load_run(sys.argv[1])
read = time.process_time()
found = diagnose(run)
judged = time.process_time()
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
print(json.dumps({"read_s": read - began, "judge_s": judged - read, "peak_mb": peak,
                  "verdict": found.worst.name}))
"""
"""The same measurement of the other tool, with its own functions, in its own environment."""

Measured = dict[str, float | str]


def main() -> None:
    """Measure every size and variant, or one of them where asked by the parent process."""
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--rows", type=int, nargs="*", default=list(SIZES))
    arguments.add_argument("--repeats", type=int, default=3)
    arguments.add_argument("--rival-env", type=Path, help="environment of the other tool")
    arguments.add_argument("--no-rival", action="store_true")
    arguments.add_argument("--profile", type=int, metavar="ROWS")
    arguments.add_argument("--path", type=Path, help=argparse.SUPPRESS)
    given = arguments.parse_args()
    if given.path:
        print(json.dumps(_ours(given.path)))
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if given.profile:
            _profile(folder, given.profile)
            return
        ways = {"rlhfdoctor": [sys.executable, __file__, "--path"]}
        if not given.no_rival:
            python = _environment(given.rival_env or folder / "environment")
            ways["rldoctor"] = [str(python), "-c", THEIRS]
        gave_up: dict[str, int] = {}
        for variant in ("healthy", "sick"):
            middle: dict[str, list[Measured]] = {way: [] for way in ways}
            for rows in given.rows:
                path = write(folder, variant, rows)
                print(f"{variant}: {rows:,} rows, {path.stat().st_size / 1e6:.0f} MB", flush=True)
                able = {way: ways[way] for way in ways if rows < gave_up.get(way, rows + 1)}
                for way, found in _turns(able, path, given.repeats).items():
                    middle[way].append(_print(way, found))
                    if "failed" in middle[way][-1]:
                        gave_up[way] = rows
                path.unlink()
            for way, sizes in middle.items():
                _print_ratio(way, given.rows, sizes)


def _turns(ways: dict[str, list[str]], path: Path, repeats: int) -> dict[str, list[Measured]]:
    """Measure the tools in turn; one that gave up is not asked for so many rows again."""
    found: dict[str, list[Measured]] = {way: [] for way in ways}
    for _ in range(repeats):
        for way, command in ways.items():
            if not any("failed" in run for run in found[way]):
                found[way].append(_child([*command, str(path)]))
    return found


def _child(command: list[str]) -> Measured:
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (BYTES, BYTES)),
        )
    except subprocess.TimeoutExpired:
        return {"failed": f"not done after {SECONDS} s"}
    if done.returncode:
        return {"failed": (done.stderr.splitlines() or [f"exit {done.returncode}"])[-1][:80]}
    measured: Measured = json.loads(done.stdout.splitlines()[-1])
    return measured


def _print(way: str, found: list[Measured]) -> Measured:
    failed = next((run["failed"] for run in found if "failed" in run), None)
    if failed is not None:
        print(f"  {way:<12}{failed}", flush=True)
        return {"failed": failed}
    middle: Measured = {
        name: statistics.median(float(run[name]) for run in found)
        for name in ("read_s", "judge_s", "peak_mb")
    }
    spread = [float(run["judge_s"]) for run in found]
    print(
        f"  {way:<12}read {middle['read_s']:7.2f} s  judge {middle['judge_s']:7.2f} s"
        f" ({min(spread):.2f}-{max(spread):.2f})  peak {middle['peak_mb']:8.1f} MB"
        f"  {found[0]['verdict']}",
        flush=True,
    )
    return middle


def _print_ratio(way: str, rows: list[int], sizes: list[Measured]) -> None:
    if len(sizes) < max(len(rows), 2) or any("failed" in size for size in sizes):
        return
    small, large = sizes[0], sizes[-1]
    times = rows[-1] / rows[0]
    ratio = {
        name: float(large[name]) / float(small[name]) if float(small[name]) else math.inf
        for name in ("read_s", "judge_s")
    }
    line = f"  {way:<12}{times:g}x the rows: reading {ratio['read_s']:.1f}x, "
    line += f"judging {ratio['judge_s']:.1f}x"
    if way == "rlhfdoctor":
        linear = max(ratio.values()) <= RATIO * times / 10
        small_enough = float(large["peak_mb"]) < MEMORY
        line += f"  {'linear' if linear else 'NOT LINEAR'}"
        line += f", {'below' if small_enough else 'NOT BELOW'} {MEMORY:,.0f} MB"
    print(line, flush=True)


def _ours(path: Path) -> Measured:
    from rlhfdoctor.doctor import diagnose
    from rlhfdoctor.profile import rules
    from rlhfdoctor.runs import read_runs

    rules()
    began = time.process_time()
    (run,) = read_runs(path)
    read = time.process_time()
    found = diagnose(run)
    judged = time.process_time()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    return {
        "read_s": read - began,
        "judge_s": judged - read,
        "peak_mb": peak,
        "verdict": found.verdict,
    }


def _profile(folder: Path, rows: int) -> None:
    """Print the functions that judging spends its time in."""
    from rlhfdoctor.doctor import diagnose
    from rlhfdoctor.runs import read_runs

    for variant in ("healthy", "sick"):
        (run,) = read_runs(write(folder, variant, rows))
        profile = cProfile.Profile()
        profile.runcall(diagnose, run)
        print(variant)
        pstats.Stats(profile).sort_stats("cumulative").print_stats(40)


def _environment(folder: Path) -> Path:
    python = folder / "bin" / "python"
    if not python.exists():
        venv.create(folder, with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", RIVAL], check=True)
    return python


def write(folder: Path, variant: str, rows: int) -> Path:
    """Write a log: a run that learns, or one that runs away at three fifths of its way."""
    path = folder / f"{variant}_{rows}.jsonl"
    noise = random.Random(rows)
    with path.open("w", encoding="utf-8") as file:
        for step in range(1, rows + 1):
            done = step / rows
            gone = max(0.0, min((done - 0.6) * 10, 1.0)) if variant == "sick" else 0.0
            row = {"step": step, "epoch": done}
            row |= {
                key: (level + (bad - level) * gone) * (1 + noise.uniform(-0.1, 0.1))
                for key, level, bad in _levels(done)
            }
            if step % LOST == 0:
                row["grad_norm"] = math.nan
            file.write(json.dumps(row) + "\n")
    return path


def _levels(done: float) -> tuple[tuple[str, float, float], ...]:
    """Return (key, level of the healthy run, level of the collapsed one)."""
    return (
        ("loss", 0.05, 0.3),
        ("grad_norm", 0.4, 40.0),
        ("learning_rate", 1e-6, 1e-6),
        ("reward", 0.3 + 0.4 * done, 0.95),
        ("reward_std", 0.3, 0.05),
        ("kl", 0.01 + 0.1 * done, 4.0),
        ("entropy", 1.2 - 0.3 * done, 0.05),
        ("completions/mean_length", 220 + 40 * done, 500.0),
        ("completions/clipped_ratio", 0.05, 0.9),
        ("frac_reward_zero_std", 0.15, 0.8),
        ("clip_ratio/region_mean", 0.02, 0.3),
    )


if __name__ == "__main__":
    main()
