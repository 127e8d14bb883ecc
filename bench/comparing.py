"""Measure comparing: time and peak memory over the number of runs.

    python bench/comparing.py                # 50, 100 and 200 runs of 2,000 rows
    python bench/comparing.py --profile 20   # where the time goes

Logs of 13 keys as TRL's GRPO writes them (those of bench/judging.py), in JSON Lines: every third
one collapses. Each figure is one process of ``rlhfdoctor compare LOG...`` from start to end, its
output thrown away; the peak is that of resident memory. ``--db``: with a file of runs as well.
"""

from __future__ import annotations

import argparse
import contextlib
import cProfile
import io
import os
import pstats
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from judging import write

NUMBERS = (50, 100, 200)
"""Runs; a comparison that is linear takes twice as long for twice as many."""

ROWS = 2_000
"""Rows of a run."""


def main() -> None:
    """Measure every number of runs, or profile one."""
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--runs", type=int, nargs="*", default=list(NUMBERS))
    arguments.add_argument("--rows", type=int, default=ROWS)
    arguments.add_argument("--db", action="store_true")
    arguments.add_argument("--profile", type=int, metavar="RUNS")
    given = arguments.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        logs = logs_in(folder, given.profile or max(given.runs), given.rows)
        if given.profile:
            profile(logs)
            return
        for count in given.runs:
            kept = ["--db", str(folder / f"{count}.db")] if given.db else []
            print(measured([*map(str, logs[:count]), *kept], count), flush=True)


def logs_in(folder: Path, count: int, rows: int) -> list[Path]:
    """Write so many logs, each with numbers of its own."""
    found = []
    for place in range(count):
        own = folder / f"run_{place:03}"
        own.mkdir()
        # the number of rows is the seed
        found.append(write(own, "healthy" if place % 3 else "sick", rows + place))
    return found


def measured(arguments: list[str], count: int) -> str:
    """Return what one comparison took."""
    command = [sys.executable, "-m", "rlhfdoctor", "compare", *arguments]
    began = time.monotonic()
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise subprocess.CalledProcessError(child.returncode, command)
    seconds, cpu = time.monotonic() - began, usage.ru_utime + usage.ru_stime
    return (
        f"{count:>5} runs {seconds:8.1f} s {cpu:8.1f} CPU s {usage.ru_maxrss / 1e3:8.0f} MB peak"
        f" {cpu / count * 1e3:6.0f} CPU ms a run"
    )


def profile(logs: list[Path]) -> None:
    """Print the functions that comparing spends its time in."""
    from rlhfdoctor.cli import run_cli

    watch = cProfile.Profile()
    with contextlib.redirect_stdout(io.StringIO()):
        watch.runcall(run_cli, ["compare", *map(str, logs)])
    pstats.Stats(watch).sort_stats("cumulative").print_stats(45)


if __name__ == "__main__":
    main()
