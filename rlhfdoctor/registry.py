"""Find the members of a group: every module of a package, and its entry points.

A newcomer adds one file to ``rules/`` (or ``readers/``, ``dialects/``, ``reports/``); an outside
package adds an entry point named ``rlhfdoctor.rules``. Nothing else has to be touched.
"""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache
from importlib.metadata import entry_points
from types import ModuleType
from typing import TypeVar

T = TypeVar("T")


@cache
def modules(group: str) -> tuple[ModuleType, ...]:
    """Import every module of ``rlhfdoctor.<group>`` and of its entry points, in name order.

    Raises ImportError where a member does not import: a rule that silently vanished would turn
    "could not look" into "healthy".
    """
    package = importlib.import_module(f"rlhfdoctor.{group}")
    names = sorted(
        item.name for item in pkgutil.iter_modules(package.__path__) if item.name[0] != "_"
    )
    own = [importlib.import_module(f"rlhfdoctor.{group}.{name}") for name in names]
    foreign = [
        importlib.import_module(point.module) for point in entry_points(group=f"rlhfdoctor.{group}")
    ]
    return (*own, *foreign)


def members(group: str, kind: type[T]) -> tuple[T, ...]:
    """Return the module-level values of type ``kind`` that the group's modules define."""
    found: dict[int, T] = {}
    for module in modules(group):
        for value in vars(module).values():
            if isinstance(value, kind):
                found[id(value)] = value
    return tuple(found.values())
