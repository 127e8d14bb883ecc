"""Settings of a run out of the leaves of any table that a framework prints or saves."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping

from rlhfdoctor.model import Location, Note, Setting
from rlhfdoctor.readers._json import LARGEST_STEP, clean, number
from rlhfdoctor.vocabulary import ALGORITHMS, SETTINGS


def settings_of(leaves: Mapping[str, object], file: str) -> Iterator[Setting | Note]:
    """Yield the settings that ``vocabulary.SETTINGS`` knows among leaves under dotted keys.

    A key that stands in the vocabulary counts; its last part does where all leaves that end so
    agree.
    """
    ends: dict[str, list[object]] = defaultdict(list)
    for key, value in leaves.items():
        ends[key.rpartition(".")[2]].append(value)
    for name, aliases in SETTINGS.items():
        for alias in aliases:
            last = ends.get(alias, [])
            agreed = last[0] if last and all(item == last[0] for item in last) else None
            value = _value(name, leaves.get(alias, agreed))
            if value is not None:
                yield Setting(name, value, Location(file, key=clean(alias)))
                break


def _value(name: str, value: object) -> str | float | bool | None:
    if name == "algorithm":
        word = str(value).lower().removesuffix("trainer")
        return next((item for item in ALGORITHMS if item.lower() == word), None)
    as_number = number(value)
    if name.startswith("planned"):
        return as_number if (as_number or 0) > 0 else None
    if as_number is None:
        return (
            clean(value) if isinstance(value, str) else value if isinstance(value, bool) else None
        )
    return int(as_number) if as_number.is_integer() and abs(as_number) < LARGEST_STEP else as_number
