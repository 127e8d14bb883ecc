"""TensorBoard event files, read without TensorBoard."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from rlhfdoctor.model import Note
from rlhfdoctor.readers import Item, reader
from rlhfdoctor.readers._events import Rest, scalars
from rlhfdoctor.readers._open import fault_of, opened
from rlhfdoctor.readers._scalars import rows
from rlhfdoctor.readers._tfrecord import records


@reader("*.tfevents.*", "*.tfevents", role="tracker")
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
        for item in rows(scalars(records(file, path.name), rest, path.name)):
            found = True
            yield item
        fault = fault_of(file)
    yield from rest.settings
    if not found:
        yield Note(path.name, "holds no scalars")
    if rest.counts:
        told = ", ".join(
            f"{count} {kind.removesuffix('s') if count == 1 else kind}"
            for kind, count in sorted(rest.counts.items())
        )
        yield Note(path.name, f"holds besides scalars, unread: {told}")
    if rest.malformed:
        told = f"{rest.malformed} records are no events and were left out"
        yield Note(path.name, told, left_out=rest.malformed)
    yield from rest.notes
    if fault:
        yield Note(path.name, fault, left_out=1, unread=True)
