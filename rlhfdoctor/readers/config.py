"""The run's configuration: run_config.json, args.json."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from rlhfdoctor.model import Location, Note, Setting
from rlhfdoctor.readers import Item, reader
from rlhfdoctor.readers._json import flatten, loads
from rlhfdoctor.vocabulary import ALGORITHMS, SETTINGS


@reader("run_config.json", "args.json", looks=None)
def config(path: Path) -> Iterator[Item]:
    """Yield the settings that ``vocabulary.SETTINGS`` knows.

    The algorithm is also taken from any value that is nothing but an algorithm's name.
    """
    try:
        record = loads(path.read_bytes())
    except ValueError as error:
        yield Note(path.name, f"no valid JSON ({error}); nothing was read")
        return
    if not isinstance(record, dict):
        yield Note(path.name, "is no table; nothing was read")
        return
    leaves = {key: value for key, value in flatten(record) if isinstance(value, str | int | float)}
    for name, aliases in SETTINGS.items():
        for alias in aliases:
            value = leaves.get(alias)
            if value is None or (name.startswith("planned") and not _positive(value)):
                continue
            if name == "algorithm" and _algorithm(value) is None:
                continue
            yield Setting(name, _algorithm(value) or value, Location(path.name, key=alias))
            break
        else:
            if name == "algorithm":
                for key, value in leaves.items():
                    found = _algorithm(value)
                    if found:
                        yield Setting(name, found, Location(path.name, key=key))
                        break


def _algorithm(value: object) -> str | None:
    if not isinstance(value, str):
        return None
    word = value.lower().removesuffix("trainer")
    return next((name for name in ALGORITHMS if name.lower() == word), None)


def _positive(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value > 0
