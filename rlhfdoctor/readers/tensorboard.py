"""TensorBoard event files, read without TensorBoard."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from rlhfdoctor.model import Note, Row
from rlhfdoctor.readers import Item, reader
from rlhfdoctor.readers._events import Rest, Scalar, scalars
from rlhfdoctor.readers._json import EPOCH_KEYS, STEP_KEYS, row
from rlhfdoctor.readers._open import fault_of, opened
from rlhfdoctor.readers._tfrecord import records

_CONTEXT = frozenset((*STEP_KEYS, *EPOCH_KEYS))
"""Tags that say when a row was logged; they belong to the row that was written before them."""


@reader("*.tfevents.*", "*.tfevents")
def tensorboard(path: Path) -> Iterator[Item]:
    """Yield one row for all scalars of one step and split, and the trainer's arguments.

    Scalars are summaries with a ``simple_value`` or a tensor of one number. Every logged value is
    kept, however many a tag has; where a tag is logged again at its step, or its step goes back, a
    new row begins. The wall time (seconds since 1970) is that of a row's last scalar. Where every
    step is 0 none was given, and the rows carry none. Histograms, pictures and texts are counted.
    Nothing of a record with a wrong checksum is used.
    """
    rest = Rest()
    with opened(path) as file:
        found = False
        for item in _rows(scalars(records(file, path.name), rest, path.name)):
            found = True
            yield item
        fault = fault_of(file)
    yield from rest.settings
    if not found:
        yield Note(path.name, "holds no scalars")
    if rest.counts:
        told = ", ".join(f"{count} {kind}" for kind, count in sorted(rest.counts.items()))
        yield Note(path.name, f"holds besides scalars, unread: {told}")
    if rest.malformed:
        told = f"{rest.malformed} records are no events and were left out"
        yield Note(path.name, told, left_out=rest.malformed)
    yield from rest.notes
    if fault:
        yield Note(path.name, fault, left_out=1)


def _rows(logged: Iterable[Scalar]) -> Iterator[Row]:
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
            of_eval = evaluation[tag] = tag.startswith(("eval/", "eval_"))
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
