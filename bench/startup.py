"""Measure commands from start to end, imports included: CPU time and peak memory of processes.

    python bench/startup.py                    # --help, and a gate beside rldoctor 0.2.0
    python bench/startup.py --rival-env DIR    # with an environment that has the other tool
    python bench/startup.py --no-rival

The commands are taken in turn, every figure is the median over repeats: user and system time and
the peak of resident memory of the process and its children, as the kernel counts them. Each is run
once before, so that bytecode is compiled and files are cached. The log is that of a healthy run:
trainer_state.json, 5,000 rows of 13 keys.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
from pathlib import Path

from judging import _environment, write

ROWS = 5_000

HELP, GATE = 3.0, 1 / 3
"""The most that --help may cost of importing typer and rich, and a gate of the other tool."""


def main() -> None:
    """Print the figures of both comparisons, and whether the promises hold."""
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--repeats", type=int, default=9)
    arguments.add_argument("--rival-env", type=Path, help="environment of the other tool")
    arguments.add_argument("--no-rival", action="store_true")
    given = arguments.parse_args()
    ours = [sys.executable, "-m", "rlhfdoctor"]
    found = measure(
        {
            "python -c pass": [sys.executable, "-c", "pass"],
            "import typer, rich": [sys.executable, "-c", "import typer, rich"],
            "rlhfdoctor --version": [*ours, "--version"],
            "rlhfdoctor --help": [*ours, "--help"],
        },
        given.repeats,
    )
    told(found["rlhfdoctor --help"], found["import typer, rich"], (HELP, None))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        log = state(folder)
        ways = {"rlhfdoctor gate": [*ours, "gate", str(log)]}
        if not given.no_rival:
            python = _environment(given.rival_env or folder / "environment")
            ways["rl-doctor diagnose"] = [str(python.parent / "rl-doctor"), "diagnose", str(log)]
        found = measure(ways, given.repeats)
        if not given.no_rival:
            told(found["rlhfdoctor gate"], found["rl-doctor diagnose"], (GATE, GATE))


def state(folder: Path) -> Path:
    """Write the log as TRL leaves it; another tool reads nothing but the file."""
    rows = [json.loads(line) for line in write(folder, "healthy", ROWS).read_text().splitlines()]
    path = folder / "trainer_state.json"
    document = {"global_step": ROWS, "max_steps": ROWS, "epoch": 1.0, "log_history": rows}
    path.write_text(json.dumps(document), encoding="utf-8")
    return path


def measure(ways: dict[str, list[str]], repeats: int) -> dict[str, tuple[float, float]]:
    """Return CPU seconds and peak MB of each command, medians of so many runs taken in turn."""
    runs: dict[str, list[tuple[float, float]]] = {way: [] for way in ways}
    for turn in range(repeats + 1):
        for way, command in ways.items():
            figures = child(command)
            if turn:
                runs[way].append(figures)
    found = {}
    for way, figures in runs.items():
        seconds, peaks = zip(*figures, strict=True)
        found[way] = (statistics.median(seconds), statistics.median(peaks))
        span = f"({min(seconds):.3f}-{max(seconds):.3f})"
        print(f"{way:<22}{found[way][0]:8.3f} CPU s {span:<15}{found[way][1]:8.1f} MB", flush=True)
    return found


def child(command: list[str]) -> tuple[float, float]:
    """Return CPU seconds and peak MB of one process and those that it waited for."""
    process = os.fork()
    if not process:
        quiet = os.open(os.devnull, os.O_WRONLY)
        os.dup2(quiet, 1)
        os.dup2(quiet, 2)
        environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": ""}
        os.execvpe(command[0], command, environment)
    _, _, used = os.wait4(process, 0)
    return used.ru_utime + used.ru_stime, used.ru_maxrss / 1e3


def told(
    ours: tuple[float, float], theirs: tuple[float, float], most: tuple[float, float | None]
) -> None:
    """Print both ratios, and whether they are below what was promised."""
    for name, one, other, limit in zip(("CPU time", "memory"), ours, theirs, most, strict=True):
        if limit is not None:
            word = "below" if one <= limit * other else "NOT BELOW"
            print(f"  {name}: {one / other:.2f}x, {word} {limit:.2f}x", flush=True)


if __name__ == "__main__":
    main()
