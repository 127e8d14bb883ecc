"""What wandb logs besides numbers: its own keys, and media."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from rlhfdoctor.model import Note, Row
from rlhfdoctor.readers._json import DEEPEST, STEP_KEYS, number, row

COUNTER = "_step"
"""wandb's own step: calls of ``log``, unless the trainer gave it."""


def axis(records: Sequence[Mapping[str, object]]) -> str | None:
    """Return the key under which most records with numbers carry the trainer's own step, or None.

    Hugging Face's callback logs ``train/global_step`` and lets wandb count its calls, so that
    ``_step`` is another thing. One that only few records carry belongs to those alone.
    """
    keys = [key for key in STEP_KEYS if key != COUNTER]
    numeric = [record for record in records if any(_metrics(record))]
    held = {key: sum(number(record.get(key)) is not None for record in numeric) for key in keys}
    return next((key for key in keys if 2 * held[key] > len(numeric)), None)


def _metrics(record: Mapping[str, object]) -> Iterator[bool]:
    """Say of each value that is not wandb's own whether it is a number, or a table that may be."""
    for key, value in record.items():
        if not key.startswith("_"):
            yield bool(value) if isinstance(value, dict) else number(value) is not None


def logged(record: Mapping[str, object], step: object, refused: Counter[str]) -> Row:
    """Make a row of one record without media; ``step``: the trainer's own, where there is one.

    wandb's own keys become its time (seconds since 1970), and its step where it is the only one.
    """
    own = {key: value for key, value in record.items() if not key.startswith("_")}
    if not any(number(own.get(key)) is not None for key in STEP_KEYS):
        own["step"] = record.get(COUNTER) if step is None else step
    return replace(row(own, None, refused), wall_time=number(record.get("_timestamp")))


def without_media(
    record: Mapping[str, object], media: Counter[str], depth: int = 0
) -> dict[str, object]:
    """Leave out, and count, the tables that have a ``_type``: histogram, image-file."""
    kept: dict[str, object] = {}
    for key, value in record.items():
        if isinstance(value, dict) and "_type" in value:
            media[str(value["_type"])[:40]] += 1
        elif isinstance(value, dict) and depth < DEEPEST:
            kept[key] = without_media(value, media, depth + 1)
        else:
            kept[key] = value
    return kept


def told(name: str, media: Counter[str]) -> Iterator[Note]:
    """Yield one note of what was left out."""
    if media:
        kinds = ", ".join(f"{count} {kind}" for kind, count in media.most_common(10))
        more = f" and {len(media) - 10} more kinds" if len(media) > 10 else ""
        yield Note(name, f"holds besides numbers, unread: {kinds}{more}")
