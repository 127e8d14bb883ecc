"""The run's configuration: run_config.json, args.json."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from rlhfdoctor.model import Location, Note, Setting
from rlhfdoctor.readers import Item, reader
from rlhfdoctor.readers._json import LARGEST_STEP, clean, flatten, loads, number
from rlhfdoctor.readers._open import contents
from rlhfdoctor.vocabulary import ALGORITHMS, SETTINGS


@reader("run_config.json", "args.json")
def config(path: Path) -> Iterator[Item]:
    """Yield the settings that ``vocabulary.SETTINGS`` knows.

    The algorithm is also taken from any value that is nothing but an algorithm's name.
    """
    try:
        record = loads(contents(path))
    except ValueError as error:
        yield Note(path.name, f"no valid JSON ({error}); nothing was read")
        return
    if not isinstance(record, dict):
        yield Note(path.name, "is no table; nothing was read")
        return
    leaves = {
        key: clean(value) if isinstance(value, str) else value
        for key, value in flatten(record)
        if isinstance(value, str | int | float)
    }
    for name, aliases in SETTINGS.items():
        for alias in aliases:
            value = _value(name, leaves.get(alias))
            if value is not None:
                yield Setting(name, value, Location(path.name, key=alias))
                break
        else:
            if name == "algorithm":
                yield from _any_algorithm(path.name, leaves)


def _any_algorithm(file: str, leaves: Mapping[str, object]) -> Iterator[Setting]:
    for key, leaf in leaves.items():
        found = _algorithm(leaf)
        if found:
            yield Setting("algorithm", found, Location(file, key=clean(key)))
            return


def _value(name: str, value: str | int | float | None) -> str | float | bool | None:
    if name == "algorithm":
        return _algorithm(value)
    if value is None or isinstance(value, str | bool):
        return None if name.startswith("planned") else value
    as_number = number(value)
    if name.startswith("planned") and not (as_number or 0) > 0:
        return None
    return value if isinstance(value, int) and abs(value) < LARGEST_STEP else as_number


def _algorithm(value: object) -> str | None:
    if not isinstance(value, str):
        return None
    word = value.lower().removesuffix("trainer")
    return next((name for name in ALGORITHMS if name.lower() == word), None)
