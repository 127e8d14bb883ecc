"""Single numbers, as trackers log them, put together to rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import NamedTuple

from rlhfdoctor.model import Row
from rlhfdoctor.readers._json import EPOCH_KEYS, STEP_KEYS, row, split_of

_CONTEXT = frozenset((*STEP_KEYS, *EPOCH_KEYS))
"""Tags that say when a row was logged; they belong to the row that was written before them."""


class Scalar(NamedTuple):
    """One logged number. ``wall_time``: seconds since 1970."""

    step: int
    wall_time: float
    tag: str
    value: float


def rows(logged: Iterable[Scalar]) -> Iterator[Row]:
    """Group scalars to rows, in the order of their steps.

    Writers may log one step after the other or one tag after the other. A tag whose step goes back
    begins a new part of the log (the trainer was resumed, or counts each epoch anew), behind which
    all rows come later.
    """
    groups: dict[tuple[int, int, int, bool], tuple[dict[str, float], list[float]]] = {}
    last: dict[str, int] = {}
    repeats: Counter[tuple[int, str, int]] = Counter()
    evaluation: dict[str, bool] = {}
    part = 0
    current: tuple[int, int, int, bool] | None = None
    for step, wall_time, tag, value in logged:
        beside = groups[current][0] if tag in _CONTEXT and current and current[1] == step else None
        if beside is not None and beside.setdefault(tag, value) == value:
            last[tag] = step
            continue
        nth = 0
        before = last.get(tag)
        if before is not None and step <= before:
            if step < before:
                part += 1
                last.clear()
            else:
                repeats[part, tag, step] += 1
                nth = repeats[part, tag, step]
        last[tag] = step
        of_eval = evaluation.get(tag)
        if of_eval is None:
            of_eval = evaluation[tag] = split_of(tag) == "eval"
        current = part, step, nth, of_eval
        group = groups.get(current)
        if group is None:
            groups[current] = {tag: value}, [wall_time]
        else:
            group[0][tag] = value
            group[1][0] = wall_time
    counted = any(step for _, step, _, _ in groups) or not repeats
    refused: Counter[str] = Counter()
    for key in sorted(groups, key=lambda key: key[:3]):
        values, (wall_time,) = groups[key]
        made = row({**values, "step": key[1]} if counted else values, None, refused)
        yield replace(made, wall_time=wall_time)
