"""How far long work is, on standard error: share, rate, time left. Never in a pipe."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Advance = Callable[[str, int, int], None]
"""Called with what is worked on, and how much of how much is done; of how much: 0, not known."""

OFTEN = 0.1
"""Seconds between two drawings: to call more often costs next to nothing."""

_SCALES = {"bytes": (1e6, "MB", 1)}
"""Units that are shown as another: by how much they are divided, its name, its decimals."""


@contextmanager
def progress(unit: str) -> Iterator[Advance]:
    """Give a function that shows progress in ``unit`` where a person is watching."""
    if sys.stderr is None or not sys.stderr.isatty():
        yield lambda what, done, total: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        TaskID,
        TaskProgressColumn,
        TextColumn,
        TimeRemainingColumn,
    )

    from rlhfdoctor.reports._lines import shown

    bar = Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    )
    task: TaskID | None = None
    scale, name, digits = _SCALES.get(unit, (1.0, unit, 0))
    told, before, drawn = "", 0, -math.inf
    with bar:

        def advance(what: str, done: int, total: int) -> None:
            nonlocal task, told, before, drawn
            now = time.monotonic()
            if now - drawn < OFTEN and what == told and done != total and done >= before:
                return
            if task is None:
                task = bar.add_task("", total=total or None, rate="")
            elif done < before:
                bar.reset(task, description=shown(what))
            told, before, drawn = what, done, now
            speed = bar.tasks[0].speed
            so_far = "" if total else f"{done / scale:,.{digits}f} {name}"
            rate = f"{speed / scale:,.{digits}f} {name}/s" if speed else ""
            bar.update(
                task,
                description=shown(what),
                completed=done,
                total=total or None,
                rate=" ".join(filter(None, (so_far, rate))),
                refresh=True,
            )

        yield advance
