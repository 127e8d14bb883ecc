"""Settings of a run, whatever wrote them: flat keys and values in, canonical names out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rlhfdoctor.model import Location, Note, Setting
from rlhfdoctor.readers._json import LARGEST_STEP, clean, number
from rlhfdoctor.vocabulary import ALGORITHMS, SETTINGS


def settings_of(leaves: Mapping[str, object], file: str) -> Iterator[Setting | Note]:
    """Yield the settings that ``vocabulary.SETTINGS`` knows; nested tables are flattened before."""
    for name, aliases in SETTINGS.items():
        for alias in aliases:
            value = _value(name, leaves.get(alias))
            if value is not None:
                yield Setting(name, value, Location(file, key=alias))
                break


def _value(name: str, value: object) -> str | float | bool | None:
    if name == "algorithm":
        word = value.lower().removesuffix("trainer") if isinstance(value, str) else ""
        return next((known for known in ALGORITHMS if known.lower() == word), None)
    planned = name.startswith("planned")
    if isinstance(value, bool):
        return None if planned else value
    as_number = number(value)
    if as_number is None:
        return clean(value) if isinstance(value, str) and not planned else None
    if planned and not as_number > 0:
        return None
    return value if isinstance(value, int) and abs(value) < LARGEST_STEP else as_number
