"""Whose log a file is: the trainers and algorithms that its keys and its own words allow.

Two logs whose voices contradict are of different runs, whatever their steps; a trainer that is
built upon another may write the logs of both.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache

from rlhfdoctor import registry
from rlhfdoctor.dialects import Dialect
from rlhfdoctor.model import Setting


@dataclass(frozen=True, slots=True)
class Voice:
    """What a log says of its trainer. frameworks, algorithms: of which it is one; empty: unsaid."""

    frameworks: frozenset[str] = frozenset()
    algorithms: frozenset[str] = frozenset()
    dialects: tuple[Dialect, ...] = field(default=(), compare=False)

    @property
    def named(self) -> bool:
        """Whether it says which trainer's it is."""
        return bool(self.frameworks)

    def contradicts(self, other: Voice) -> bool:
        """Say whether no run writes both: no common or kindred trainer, or no common algorithm."""
        if not (self.named and other.named):
            return False
        if not any(_kin(one, two) for one in self.frameworks for two in other.frameworks):
            return True
        both = self.algorithms and other.algorithms
        return bool(both) and self.algorithms.isdisjoint(other.algorithms)

    def kindred(self, other: Voice) -> bool:
        """Say whether both name trainers, and only such as are built upon each other."""
        return self.named and other.named and self.frameworks.isdisjoint(other.frameworks)

    def metric(self, key: str) -> str | None:
        """Return the metric that a key means in every dialect that this may be, its unit known."""
        found = {dialect.meaning(key) for dialect in self.dialects or _generic()}
        if len(found) != 1 or (told := found.pop()) is None or told[1].unit:
            return None
        return told[0]


UNSAID = Voice()
"""The voice of a log that names no trainer."""


def voice(dialects: tuple[Dialect, ...], settings: Iterable[Setting]) -> Voice:
    """Return the voice of a log that may speak these dialects, and says this of its program."""
    own = {item.name: item for item in settings}
    frameworks = {dialect.framework for dialect in dialects}
    if "framework" in own:
        frameworks.add(str(own["framework"].value))
    algorithms = {name for dialect in dialects for name in dialect.algorithm.split(" or ")}
    said = str(own["algorithm"].value) if "algorithm" in own else None
    if said is not None and (not dialects or algorithms & {said, "unknown"}):
        algorithms = {said}
    elif "unknown" in algorithms:
        algorithms = set()
    return Voice(frozenset(frameworks), frozenset(algorithms), dialects)


def doubtful(voices: Mapping[str, Voice]) -> set[str]:
    """Return the logs that may belong to several runs: to those of voices that contradict."""
    kinds = {kind for kind in voices.values() if kind.named}
    fitting = {kind: [other for other in kinds if not kind.contradicts(other)] for kind in kinds}
    unsure = {
        kind
        for kind, others in fitting.items()
        if any(one.contradicts(two) for one in others for two in others)
    }
    return {name for name, kind in voices.items() if kind in unsure}


def _kin(one: str, other: str) -> bool:
    upon = _upon()
    return one == other or other in upon.get(one, ()) or one in upon.get(other, ())


@cache
def _upon() -> Mapping[str, set[str]]:
    found: dict[str, set[str]] = defaultdict(set)
    for dialect in registry.members("dialects", Dialect):
        found[dialect.framework] |= dialect.upon
    return found


@cache
def _generic() -> tuple[Dialect, ...]:
    return tuple(item for item in registry.members("dialects", Dialect) if item.name == "generic")
