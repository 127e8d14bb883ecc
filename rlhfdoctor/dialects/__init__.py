"""Dialects give the keys of one trainer their canonical names, units and estimators.

A dialect is data. It is recognised by its marks: sets of keys that no other trainer writes
together. Adding one means adding a file that defines a ``Dialect``; nothing else is touched.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from rlhfdoctor.dialects._spelling import plain, shares
from rlhfdoctor.errors import DoctorError, did_you_mean
from rlhfdoctor.vocabulary import METRICS

Arithmetic = Callable[..., Any]
"""Arithmetic that works on numbers and on columns alike: + - * / **, and methods of a column."""


@dataclass(frozen=True, slots=True)
class Correction:
    """What must be done to every logged value before it is what its name says, and why."""

    text: str
    apply: Arithmetic


PERCENT = Correction("logged in percent; divided by 100", lambda percent: percent / 100)
"""Makes a fraction of a percentage."""

ROUNDING = 1e-6
"""How far above 1 a mean of float32 numbers that are at most 1 may come out."""


@dataclass(frozen=True, slots=True)
class Key:
    """What one logged key means. ``unit`` overrides the vocabulary's, for unknown units only."""

    metric: str
    estimator: str | None = None
    reduction: str | None = None
    unit: str | None = None
    correction: Correction | None = None

    def __post_init__(self) -> None:
        """Refuse a name that the vocabulary does not know."""
        if self.metric not in METRICS:
            raise ValueError(
                f"{self.metric} is not in the vocabulary{did_you_mean(self.metric, METRICS)}"
            )

    @property
    def fraction(self) -> bool:
        """Whether values, once corrected, are shares between 0 and 1."""
        return (self.unit or METRICS[self.metric].unit) == "fraction"


@dataclass(frozen=True, slots=True)
class Derived:
    """A metric that no key holds, worked out of the keys of one row and of settings.

    of: the logged keys, then settings: names of ``vocabulary.SETTINGS`` with a numeric value;
    ``compute`` gets the keys as columns and the settings as numbers, in that order. Without one of
    them nothing is worked out. estimate: an approximation, shown and never judged by a band.
    """

    meaning: Key
    of: tuple[str, ...]
    compute: Arithmetic
    text: str
    settings: tuple[str, ...] = ()
    estimate: bool = False


@dataclass(frozen=True, slots=True)
class Change:
    """A version since which keys mean something else.

    Where the version is not told, a key that only one side writes tells it: ``newer`` and
    ``older``. Where nothing tells, the dialect's own ``keys`` hold, which must fit both.
    """

    since: str
    before: Mapping[str, Key]
    after: Mapping[str, Key]
    newer: frozenset[str] = frozenset()
    older: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Dialect:
    """The keys of one trainer.

    upon: frameworks that this one is built upon: a run may write its keys and theirs.
    marks: alternative sets of keys; one set present in full recognises the trainer.
    told: the marks are another trainer's too; it is this one only where the run says so (a banner,
    a configuration).
    strangers: keys whose presence says that another trainer wrote the log.
    rivals: algorithms that write the same marks with other meanings; a configuration that names
    one rules the dialect out.
    keys: by exact key; where two keys of a row mean the same metric the first listed wins.
    patterns: keys with one free part, written ``{}``, which becomes ``metric[part]``.
    never_negative: keys whose estimator cannot be negative; one negative value rules the dialect
    out. shows_negative: keys of which one must have a negative value, or it is not this dialect.
    named: algorithms; where there are any, it is this dialect only where a configuration names one
    of them. normalised: ``keys`` are spelt as ``plain`` spells them, and so are the log's.
    log_offset: logged step minus updates done.
    """

    name: str
    framework: str
    algorithm: str
    keys: Mapping[str, Key]
    marks: tuple[frozenset[str], ...] = ()
    strangers: frozenset[str] = frozenset()
    rivals: frozenset[str] = frozenset()
    patterns: Mapping[str, Key] = field(default_factory=dict)
    never_negative: frozenset[str] = frozenset()
    shows_negative: frozenset[str] = frozenset()
    named: frozenset[str] = frozenset()
    normalised: bool = False
    derived: tuple[Derived, ...] = ()
    changes: tuple[Change, ...] = ()
    told: bool = False
    log_offset: int = 0
    upon: frozenset[str] = frozenset()

    def at(self, version: str | None, keys: frozenset[str]) -> Dialect:
        """Return the dialect as a version speaks it; ``keys``: what the log holds."""
        spoken = dict(self.keys)
        for change in self.changes:
            newer: bool | None = None
            if version is not None:
                newer = _numbers(version) >= _numbers(change.since)
            elif bool(keys & change.newer) != bool(keys & change.older):
                newer = bool(keys & change.newer)
            if newer is not None:
                spoken.update(change.after if newer else change.before)
        return replace(self, keys=spoken)

    def meaning(self, key: str) -> tuple[str, Key] | None:
        """Return the column name and meaning of a logged key, or None where it is not known."""
        spelt = self.spelling(key)
        if spelt in self.keys:
            return self.keys[spelt].metric, self.keys[spelt]
        for name in shares(spelt) if self.normalised else ():
            if name in self.keys and self.keys[name].fraction:
                return self.keys[name].metric, replace(self.keys[name], correction=PERCENT)
        for pattern, meaning in self.patterns.items():
            before, after = pattern.split("{}")
            match = re.fullmatch(f"{re.escape(before)}(.+){re.escape(after)}", key, re.DOTALL)
            if match:
                return f"{meaning.metric}[{match.group(1)}]", meaning
        return None

    def doubt(self, meaning: Key, smallest: float, largest: float) -> str | None:
        """Return why a key's values, as logged, cannot be what its name says; None if they can.

        Only home-made names are doubted, and only where they name a share: ``accuracy: 35.0`` is
        none, and an ``accuracy_pct`` that never leaves 0 to 1 may be in percent or not. smallest,
        largest: of the key's finite values.
        """
        if not (self.normalised and meaning.fraction):
            return None
        most = 100 if meaning.correction is PERCENT else 1
        if smallest < 0 or largest > most * (1 + ROUNDING):
            return f"a share lies between 0 and {most}; here are {smallest:g} to {largest:g}"
        if most == 100 and 0 < largest <= 1:
            return f"named a percentage, but no value is above {largest:g}: it may be a fraction"
        return None

    def spelling(self, key: str) -> str:
        """Return a logged key as ``keys`` spells it."""
        return plain(key) if self.normalised else key

    def matched(self, keys: frozenset[str]) -> frozenset[str]:
        """Return the marks found among a log's keys; empty where the dialect is not it."""
        if keys & self.strangers:
            return frozenset()
        return frozenset().union(*(marks for marks in self.marks if marks <= keys))


def choose(
    dialects: Iterable[Dialect],
    keys: frozenset[str],
    negative: frozenset[str],
    algorithm: str | None,
    fallback: Dialect,
    framework: str | None = None,
) -> Dialect:
    """Choose the dialect of a log by its keys; never "first match wins".

    ``negative``: keys with a negative value. ``algorithm`` and ``framework``: what the
    configuration, or a program's own words in a log, name.
    Of several candidates the one whose marks include the others' is taken. Equal marks are the
    same log written by several trainers: a value that one of them cannot write rules it out, a
    configuration that names one of them decides, and otherwise the shared meaning is taken. Raises
    DoctorError where the marks contradict.
    """
    found = {dialect.name: dialect.matched(keys) for dialect in dialects}
    candidates = [
        dialect
        for dialect in dialects
        if found[dialect.name]
        and algorithm not in dialect.rivals
        and (not dialect.told or dialect.framework == framework)
        and (not dialect.named or algorithm in dialect.named)
        and (not dialect.shows_negative or dialect.shows_negative & negative)
    ]
    if not candidates:
        return fallback
    widest = [
        dialect
        for dialect in candidates
        if not any(found[dialect.name] < found[other.name] for other in candidates)
    ]
    widest = [item for item in widest if item.framework == framework] or widest
    marks = {found[dialect.name] for dialect in widest}
    if len(marks) > 1:
        names = ", ".join(sorted(dialect.name for dialect in widest))
        raise DoctorError(
            f"the log carries the marks of several trainers: {names}",
            f"say which one with --dialect, for example --dialect {widest[0].name}",
        )
    possible = [dialect for dialect in widest if not dialect.never_negative & negative] or widest
    named = [dialect for dialect in possible if dialect.algorithm == algorithm]
    return shared(named or possible)


def shared(dialects: list[Dialect]) -> Dialect:
    """Merge dialects that write the same keys: what they agree on stays, the rest is named as open.

    An estimator that differs becomes "k1 or k3", a unit that differs unknown; a metric or a
    correction that differs is dropped, so that the key stays visible as unmapped.
    """
    first, *others = dialects
    for other in others:
        keys = {
            key: replace(
                meaning,
                estimator=_either(meaning.estimator, other.keys[key].estimator),
                unit=meaning.unit if meaning.unit == other.keys[key].unit else "unknown",
            )
            for key, meaning in first.keys.items()
            if key in other.keys
            and other.keys[key].metric == meaning.metric
            and other.keys[key].correction == meaning.correction
        }
        first = replace(
            first,
            name=f"{first.name}|{other.name}",
            algorithm=f"{first.algorithm} or {other.algorithm}",
            keys=keys,
            patterns=_agreed(first.patterns, other.patterns),
            derived=tuple(item for item in first.derived if item in other.derived),
            changes=tuple(item for item in first.changes if item in other.changes),
            log_offset=first.log_offset if first.log_offset == other.log_offset else 0,
        )
    return first


def _agreed(one: Mapping[str, Key], other: Mapping[str, Key]) -> dict[str, Key]:
    return {key: meaning for key, meaning in one.items() if other.get(key) == meaning}


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version)[:3])


def _either(one: str | None, other: str | None) -> str | None:
    return one if one == other else " or ".join(sorted({one or "unknown", other or "unknown"}))
