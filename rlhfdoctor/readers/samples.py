"""Samples as JSON: lines, an array, or an object around them; one response or pair a record."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from rlhfdoctor.model import Note
from rlhfdoctor.readers import Item, reader
from rlhfdoctor.readers._json import kind, loads, records
from rlhfdoctor.readers._open import bare, fault_of, opened
from rlhfdoctor.readers._samples import holds_text, samples_of, split_named, step_named

LARGEST = 2**30
"""Bytes of a JSON object that is parsed as a whole."""

DEEPEST = 4
"""Levels of an object under which a list of samples is looked for."""


@reader("*.jsonl", "*.ndjson", "?*.json", looks=lambda head: kind(head) == "samples")
def samples(path: Path) -> Iterator[Item]:
    """Yield one sample a record, with every field that it carries."""
    return read_samples(path)


def read_samples(path: Path, field: str | None = None) -> Iterator[Item]:
    """Yield samples; ``field`` names the key of the response where the usual ones do not fit.

    A number in the file's name is the step of records that tell none ("40.jsonl"). One JSON object
    is read as a batch, or as what surrounds the first list of records that hold text.
    """
    stem = Path(bare(path.name)).stem
    yield from samples_of(
        _records(path, field),
        path.name,
        field,
        named_step=step_named(stem),
        named_split=split_named(stem),
    )


def _records(path: Path, field: str | None) -> Iterator[tuple[int, object] | Note]:
    whole = None
    if bare(path.name).lower().endswith(".json"):
        with opened(path) as file:
            if file.peek(64)[:64].lstrip(b"\xef\xbb\xbf \t\r\n")[:1] == b"{":
                text = file.read(LARGEST + 1)
                if len(text) > LARGEST:
                    told = f"is one object of more than {LARGEST} bytes; not read"
                    yield Note(path.name, told, unread=True)
                    return
                whole = None if fault_of(file) else _object(text)
    if whole is None:
        yield from records(path)
        return
    found = _listed(whole, field)
    yield from enumerate([whole] if found is None else found, start=1)


def _object(text: bytes) -> dict[str, object] | None:
    """Return the object that a text is, or None where it is lines, or no JSON."""
    try:
        value = loads(text)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def _listed(value: dict[str, object], field: str | None, depth: int = 0) -> list[object] | None:
    """Return the first list of records that hold text, or None where the object is the record."""
    wanted = (lambda keys: field in keys) if field else holds_text
    if wanted(value):
        return None
    for inner in value.values():
        if isinstance(inner, list) and inner and isinstance(inner[0], dict) and wanted(inner[0]):
            return inner
        if isinstance(inner, dict) and depth < DEEPEST:
            found: list[object] | None = (
                [inner] if wanted(inner) else _listed(inner, field, depth + 1)
            )
            if found is not None:
                return found
    return None
