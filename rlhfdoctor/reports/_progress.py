"""How far long work is, on standard error: share, rate, time left. Never in a pipe."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Advance = Callable[[str, int, int], None]
"""Called with what is worked on, and how much of how much is done."""


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
    with bar:

        def advance(what: str, done: int, total: int) -> None:
            nonlocal task
            if task is None:
                task = bar.add_task(shown(what), total=total, rate="")
            speed = bar.tasks[0].speed
            rate = f"{speed:,.0f} {unit}/s" if speed else ""
            bar.update(
                task, description=shown(what), completed=done, total=total, rate=rate, refresh=True
            )

        yield advance
