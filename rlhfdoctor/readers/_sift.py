"""What only the whole of a text tells of its records: whose they are, and what their commas mean.

A line alone does not say whether ``1: `` before it is a rank, whether 1,234 is a thousand, or
whether a model, and no trainer, wrote it; the other lines do.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from rlhfdoctor.model import Note
from rlhfdoctor.readers._harvest import A_FEW, Found
from rlhfdoctor.readers._json import EPOCH_KEYS, STEP_KEYS, number

# which process wrote what


def ranks(found: list[Found]) -> list[tuple[Found, int]]:
    """Return the records whose rank the whole log tells, each with it.

    Two signs may be ranks: the number that ``srun --label`` puts before a line, and the process of
    Ray, by the order in which those of one name appear. They are, where the processes take turns
    and tell of the same steps under the same keys; a restarted process does not take turns.
    """
    unranked = [item for item in found if item.rank is None]
    labelled = [(item, item.label) for item in unranked if item.label is not None]
    if labelled:
        numbers = {label for _, label in labelled}
        return labelled if numbers == set(range(len(numbers))) and _in_turns(labelled) else []
    families: dict[str, list[tuple[Found, int]]] = defaultdict(list)
    seen: dict[str, dict[str, int]] = defaultdict(dict)
    for item in unranked:
        family, at, _ = item.tag.partition("pid=")
        if at:
            places = seen[family]
            families[family].append((item, places.setdefault(item.tag, len(places))))
    return [pair for pairs in families.values() if _in_turns(pairs) for pair in pairs]


def _in_turns(pairs: list[tuple[Found, int]]) -> bool:
    """Say whether several processes take turns and tell of the same steps under the same keys."""
    if sum(former[1] > later[1] for former, later in pairwise(pairs)) < 2:
        return False
    tellers: dict[tuple[float, frozenset[str]], set[int]] = defaultdict(set)
    for item, rank in pairs:
        place = _count_of(item, "epoch") if item.place is None else item.place
        if place is not None:
            tellers[place, frozenset(item.record)].add(rank)
    shared = sum(len(several) > 1 for several in tellers.values())
    return shared >= 2 and 2 * shared >= len(tellers)


# numbers with a comma


_COMMA = re.compile(r"[+-]?(\d{1,15})((?:,\d{1,15})+)([eE][+-]?\d+)?")
_GROUPS = re.compile(r"[+-]?[1-9]\d{0,2}(?:,\d{3})+")
_DOTS = re.compile(r"[+-]?[1-9]\d{0,2}(?:\.\d{3})+")


def commas(found: list[Found], broken: list[int | None], name: str) -> list[Note]:
    """Read the numbers with a comma as the whole log tells; drop those of which it does not.

    0,693 and 1,5 hold a decimal comma, 1,234,567 is grouped, and 1,234 may be either: a log with
    decimal points elsewhere groups, one with sure decimal commas does not. There a point may group
    too: 1.234 is dropped then, and where others, as 0.5, cannot be grouped, so are the commas.
    """
    doubtful = [entry for entry in _texts(found, ",") if _COMMA.fullmatch(entry[2])]
    if not doubtful:
        return []
    decimal = any(not _GROUPS.fullmatch(value) for _, _, value in doubtful)
    pointed = [entry for entry in _texts(found, ".") if number(entry[2]) is not None]
    dotted = [entry for entry in pointed if _DOTS.fullmatch(entry[2])]
    points = len(pointed) > len(dotted) if decimal else bool(pointed)
    grouped = any(value.count(",") > 1 for _, _, value in doubtful)
    doubts = dotted if decimal and not (points or grouped) else []
    for item, key, value in doubtful:
        groups = _GROUPS.fullmatch(value) is not None
        if groups and (key in _WHOLE or (not decimal and (points or grouped))):
            item.record[key] = value.replace(",", "")
        elif decimal and not (points or grouped):
            item.record[key] = value.replace(",", ".")
        else:
            doubts.append((item, key, value))
    for item, key, _ in doubts:
        del item.record[key]
        broken.append(item.line)
    notes = []
    if decimal and not (points or grouped):
        notes.append(Note(name, "its numbers were read with decimal commas"))
    if doubts:
        _, key, value = doubts[0]
        text = f"{len(doubts)} numbers, such as {key} {value}, may mean two things; left out"
        notes.append(Note(name, text))
    return notes


def _texts(found: list[Found], mark: str) -> Iterator[tuple[Found, str, str]]:
    for item in found:
        for key, value in item.record.items():
            if isinstance(value, str) and mark in value:
                yield item, key, value


_WHOLE = frozenset((*STEP_KEYS, "max_steps"))


# records that only resemble the others


_HARDLY = 0.25
"""Share of the keys of most records up to which another has hardly any of them; of a Hugging Face
trainer, all of whose records carry the learning rate, twice as much where that is missing."""

_RATE = "learning_rate"


def strangers(found: list[Found]) -> list[Found]:
    """Return the records that another text than the trainer's made, as a generation may.

    Most records carry the same keys. A kind of record that has hardly any of them is another
    metric's, where its steps or epochs keep up with the others'; where they do not, or where it
    lacks the learning rate of a Hugging Face trainer and has a loss of its own, it is a stranger.
    """
    trains = [item for item in found if not (_validates(item) or item.grammar == "rollout")]
    kinds: dict[frozenset[str], list[Found]] = defaultdict(list)
    for item in trains:
        kinds[frozenset(item.record).difference(_WHOLE, EPOCH_KEYS)].append(item)
    if len(kinds) < 2:
        return []
    main = max(kinds, key=lambda kind: (len(kind) * len(kinds[kind]), len(kind)))
    if len(kinds[main]) < A_FEW or len(main) < 2 * A_FEW:
        return []
    paces = {name: _Pace.of(trains, main, name) for name in ("step", "epoch")}
    strange: list[Found] = []
    for kind, items in kinds.items():
        shared = len(kind & main)
        unrated = _RATE in main and _RATE not in kind
        if kind == main or shared > len(main) * _HARDLY * (1 + unrated):
            continue
        if (unrated and shared) or not _keeps_up(items, paces):
            strange.extend(items)
    return sorted(strange, key=lambda item: item.clock)


def _validates(item: Found) -> bool:
    names = [key for key in item.record if key not in _WHOLE and key not in EPOCH_KEYS]
    return all(key.lower().startswith(("eval", "val", "test")) for key in names)


@dataclass(frozen=True, slots=True)
class _Pace:
    """Where most records stand: their clocks, their counts, and the usual distance of two."""

    clocks: list[int]
    counts: list[float]
    usual: float

    @classmethod
    def of(cls, found: list[Found], main: frozenset[str], name: str) -> _Pace:
        """Return the pace of the records that share most of the main keys."""
        like = [item for item in found if 2 * len(main & item.record.keys()) > len(main)]
        told = [(item.clock, _count_of(item, name)) for item in like]
        clocks = [clock for clock, count in told if count is not None]
        counts = [count for _, count in told if count is not None]
        gaps = sorted(later - former for former, later in pairwise(counts) if later > former)
        return cls(clocks, counts, gaps[len(gaps) // 2] if gaps else 1.0)

    def fits(self, clock: int, count: float) -> bool:
        """Say whether a count lies between those of the records around it, or close to them."""
        at = bisect_right(self.clocks, clock)
        around = self.counts[max(at - 1, 0) : at + 1]
        return min(around) - 2 * self.usual <= count <= max(around) + 2 * self.usual


def _keeps_up(items: list[Found], paces: dict[str, _Pace]) -> bool:
    for name, pace in paces.items():
        counts = [(item.clock, _count_of(item, name)) for item in items]
        known = [(clock, count) for clock, count in counts if count is not None]
        if not known or not pace.counts:
            continue
        fitting = sum(pace.fits(clock, count) for clock, count in known)
        return 2 * fitting > len(known)
    return True


def _count_of(item: Found, name: str) -> float | None:
    found = item.place if name == "step" else number(item.record.get("epoch"))
    return found if found is not None and math.isfinite(found) else None
