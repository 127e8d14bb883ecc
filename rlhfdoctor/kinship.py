"""Which logs tell of the same run: by their names, and by the numbers that they share.

A folder may hold several records of one run (a console, event files, the trainer's state), the
logs of its processes, those of its evaluations, and other runs. Only the numbers tell.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import PurePosixPath
from statistics import median

import polars as pl

from rlhfdoctor.readers._json import split_of
from rlhfdoctor.sheets import Sheet, bare

SAME = 1e-6
"""Relative difference up to which two records of one number are the same (float32 rounding)."""

MOST_COMPARED = 8
"""Keys by which the rows of two files are compared."""

MOST_STEPS = 50
"""Steps of two files that are compared to tell whether they are of one run."""

FEWEST_MATCHES = 3
"""Different rows that must agree before one file lends its steps to another."""

MOST_DECIMALS = 6
"""Decimals up to which a log is taken for rounded."""

MOST_ASKED = 3
"""Logs of a run that a further log is compared with: those to be believed first."""

APART = 0.1
"""Share of common steps at which two logs of one run agree at least."""

_RANK = re.compile(r"(?<![a-z])(?:local_?)?rank[_-]?(\d{1,5})(?!\d)", re.IGNORECASE)
_ATTEMPT = re.compile(r"(?:^|/)attempt_\d+/(\d{1,5})/std(?:out|err)\.log$")
_EVALUATES = frozenset(("eval", "val", "valid", "validation", "evaluation", "evaluations"))
_TESTS = frozenset(("test", "dev", "heldout", "holdout", "benchmark"))
_PLAIN = frozenset(
    ("metrics", "log", "logs", "results", "history", "scores", "set", "held", "out", "")
)
_SCHEDULED = re.compile(
    r"(^|[/_ .-])(lr|learning_rate|epochs?|steps?|time|timestamp|tokens|seen|coef|beta|mem|memory"
    r"|speed|seconds?|throughput|percentage|temperature|seed|progress|episodes?|samples|flos)"
    r"($|[/_ .-])",
    re.IGNORECASE,
)
"""Names of what any two runs of one configuration have in common."""


# By their names


def ranks(files: Iterable[str]) -> dict[str, int]:
    """Return the process that wrote each file, where files differ by the number of one alone.

    The numbers must count from 0: ``lora_rank8`` and ``lora_rank16`` are no processes.
    """
    found: dict[str, dict[int, str]] = defaultdict(dict)
    for file in files:
        match = _RANK.search(file) or _ATTEMPT.search(file)
        if match and not file[: match.start()].lower().endswith(("lora", "lora_", "lora-")):
            found[file[: match.start(1)] + "*" + file[match.end(1) :]][int(match[1])] = file
    return {
        file: rank
        for members in found.values()
        if len(members) > 1 and sorted(members) == list(range(len(members)))
        for rank, file in members.items()
    }


def evaluations(files: Iterable[str]) -> set[str]:
    """Return the files that are called logs of evaluations, where others are not."""
    found = {file for file in files if _is_evaluation(file)}
    return found if len(found) < len(set(files)) else set()


def _is_evaluation(file: str) -> bool:
    path = PurePosixPath(file)
    own = set(_words(path.stem))
    words = own.union(*map(_words, path.parts[:-1]))
    tests = bool(own & _TESTS) and own <= _TESTS | _PLAIN
    return (tests or not words.isdisjoint(_EVALUATES)) and not own & {"train", "training"}


def _words(name: str) -> list[str]:
    return re.split(r"[^a-z]+", name.lower())


# By their numbers


def families(sheets: Mapping[str, Sheet], printed: Collection[str]) -> list[list[str]]:
    """Sort files by the run that they tell of; ``sheets``: the one to be believed first comes last.

    Files that begin at the same step and agree almost nowhere tell of different runs. One that
    begins where another was under way is what a resumed run logged. A file that nothing
    contradicts belongs to the files that are called most like it.
    """
    curves = {name: _curves(sheet) for name, sheet in sheets.items()}
    resumed = {name for name in curves if _resumes(curves[name], curves.values())}
    found: list[list[str]] = []
    for name in reversed(list(sheets)):
        fitting = [
            group
            for group in found
            if name in resumed
            or not any(
                _apart(curves[name], curves[other], name in printed or other in printed)
                for other in group[:MOST_ASKED]
            )
        ]
        if fitting:
            max(fitting, key=lambda group: max(_likeness(name, other) for other in group)).append(
                name
            )
        else:
            found.append([name])
    return found


def nearest(file: str, groups: Sequence[Sequence[str]]) -> list[int]:
    """Return the groups whose files lie nearest to a file: the longest way in common."""
    depth = [max(_way(file, other) for other in group) for group in groups]
    return [place for place, deep in enumerate(depth) if deep == max(depth)]


def _way(file: str, other: str) -> int:
    mine, theirs = PurePosixPath(file).parts, PurePosixPath(other).parts[:-1]
    return _likeness(mine, theirs)


def _likeness(one: Sequence[str], other: Sequence[str]) -> int:
    """Return how many elements two sequences have in common from the beginning."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((place for place, (a, b) in pairs if a != b), min(len(one), len(other)))


def _resumes(log: _Curves, others: Iterable[_Curves]) -> bool:
    """Say whether a log begins where another was under way."""
    begins = log.begins
    return begins is not None and any(
        other.begins is not None and other.begins + other.gap < begins <= other.ends + other.gap
        for other in others
    )


def _apart(mine: _Curves, theirs: _Curves, digits: bool) -> bool:
    """Say whether two logs are of different runs. digits: one of them may lack some."""
    if mine.begins is None or theirs.begins is None or mine.ranked or theirs.ranked:
        return False
    if abs(mine.begins - theirs.begins) > max(mine.gap, theirs.gap):
        return False
    alike: Counter[int] = Counter()
    compared: Counter[int] = Counter()
    keys = [key for key in mine.values if key in theirs.values]
    told = 0
    for key in keys[:MOST_COMPARED]:
        both = [
            (step, value, theirs.values[key][step])
            for step, value in mine.values[key].items()
            if step in theirs.values[key]
        ]
        if len({value for _, *pair in both for value in pair}) < 2:
            continue
        told += 1
        coarse = max(
            coarseness([value for _, value, _ in both]), coarseness([value for *_, value in both])
        )
        for step, value, there in both:
            compared[step] += 1
            alike[step] += abs(value - there) <= coarse or same(value, there, digits)
    if told < 2 or len(compared) < FEWEST_MATCHES:
        return False
    agreeing = sum(2 * alike[step] >= count for step, count in compared.items())
    return agreeing < APART * len(compared)


@dataclass(frozen=True, slots=True)
class _Curves:
    """The beginning of a log: its first and last step, its largest gap, values by key and step.

    ranked: one process of several wrote it.
    """

    begins: int | None
    ends: int
    gap: int
    ranked: bool
    values: Mapping[str, Mapping[int, float]]


def _curves(sheet: Sheet) -> _Curves:
    trained = sheet.training["step"]
    if not trained.len():
        return _Curves(None, 0, 0, False, {})
    steps = trained.unique().sort().head(MOST_STEPS)
    last = int(steps[-1])
    gaps = steps.diff().drop_nulls().to_list()
    ranked = not sheet.index["rank"].null_count()
    values: dict[str, dict[int, float]] = {}
    for key in sorted(sheet.series):
        if split_of(key) == "train" and not _SCHEDULED.search(bare(key)):
            frame = by_step(sheet, key).filter(pl.col("step") <= last)
            values[bare(key)] = dict(frame.iter_rows())
    return _Curves(int(steps[0]), max(trained.to_list()), max(gaps, default=1), ranked, values)


def by_step(sheet: Sheet, key: str) -> pl.DataFrame:
    """Return the last value of a key at each step: step, value."""
    places, values = sheet.series[key]
    frame = pl.DataFrame({"step": sheet.index["step"].gather(places), "value": values})
    return frame.drop_nulls("step").unique("step", keep="last", maintain_order=True)


def same(one: float, other: float, printed: bool = False) -> bool:
    """Say whether two records may be of one number: equal, or rounded to float32.

    printed: one of them was printed, so that the coarser may lack digits: 0.0123 is 0.012345.
    """
    if math.isnan(one) or math.isnan(other):
        return math.isnan(one) and math.isnan(other)
    if one == other:
        return True
    if math.isinf(one) or math.isinf(other):
        return False
    apart = abs(one - other)
    if apart <= SAME * max(abs(one), abs(other)):
        return True
    return printed and apart <= max(_rounding(one), _rounding(other))


def coarseness(values: Sequence[float]) -> float:
    """Return half a unit of the last decimal that any of the values has; 0 where that is fine.

    A log whose numbers all end after a few decimals was rounded when it was written.
    """
    decimals = 0
    for value in values[:MOST_STEPS]:
        mantissa, _, exponent = repr(value).partition("e")
        decimals = max(decimals, len(mantissa.partition(".")[2]) - int(exponent or 0))
        if decimals > MOST_DECIMALS:
            return 0.0
    return 0.50001 * 10.0**-decimals if len(set(values)) >= FEWEST_MATCHES else 0.0


def _rounding(value: float) -> float:
    """Return half a unit of the last printed digit: three decimals at least (verl prints three)."""
    mantissa, _, exponent = repr(value).partition("e")
    decimals = len(mantissa.partition(".")[2])
    return 0.50001 * 10.0 ** (int(exponent) - decimals if exponent else -max(decimals, 3))


# Steps that one log lends another


def lent_steps(
    sheet: Sheet, lenders: Mapping[str, Sheet], printed: bool
) -> tuple[Sheet, str] | None:
    """Give the rows of a log without steps those of a log that tells the same numbers.

    A console prints no steps: where the values of its rows, at least ``FEWEST_MATCHES`` different
    ones and nine in ten that can be compared, are those of another file's rows in the same order,
    the rows have that file's steps, and rows beyond its end go on at its pace. A log with steps of
    its own keeps them, unless it tells number for number what another tells one step further on.
    printed: the log may lack digits. Returns the sheet and the lender; None where nothing fits.
    """
    counted = sheet.index["step"].null_count() < len(sheet)
    for file, lender in lenders.items():
        keys = [
            key
            for key in sorted(sheet.series.keys() & lender.series.keys())
            if split_of(key) == "train"
            and not _SCHEDULED.search(bare(key))
            and sheet.series[key][1].n_unique() > 1
        ][:MOST_COMPARED]
        if not keys:
            continue
        if counted:
            if _lags(sheet, lender, keys):
                return sheet.with_index(step=[s if s is None else s + 1 for s in sheet.steps]), file
            continue
        mine, theirs = _rows_of(sheet, keys), _rows_of(lender, keys)
        axis = lender.steps
        known = [step for place, _ in theirs if (step := axis[place]) is not None]
        offset = _offset([row for _, row in mine], [row for _, row in theirs], printed)
        if offset is None or len(known) < len(theirs):
            continue
        pace = round(median(b - a for a, b in pairwise(known))) if len(known) > 1 else 1
        steps: list[int | None] = [None] * len(sheet)
        for number, (place, _) in enumerate(mine, start=offset):
            beyond = max(number - len(known) + 1, 0) + min(number, 0)
            steps[place] = known[min(max(number, 0), len(known) - 1)] + pace * beyond
        return sheet.with_index(step=_filled(steps)), file
    return None


def _lags(sheet: Sheet, lender: Sheet, keys: Sequence[str]) -> bool:
    """Say whether a log counts each step one lower than the lender: equal there, and only there."""
    begins, there = _begins(sheet), _begins(lender)
    if begins is None or there is None or begins + 1 != there:
        return False
    shifted, level, told = 0, 0, 0
    for key in keys:
        mine = dict(by_step(sheet, key).head(MOST_STEPS).iter_rows())
        theirs = dict(by_step(lender, key).iter_rows())
        distinct = {value for step, value in mine.items() if theirs.get(step + 1) == value}
        if len(distinct) < FEWEST_MATCHES:
            continue
        told += 1
        shifted += all(same(v, theirs[s + 1]) for s, v in mine.items() if s + 1 in theirs)
        level += any(same(v, theirs[s]) for s, v in mine.items() if s in theirs)
    return told > 0 and shifted == told and not level


def _begins(sheet: Sheet) -> int | None:
    steps = sheet.training["step"]
    return int(steps[0]) if steps.len() else None


def _filled(steps: Sequence[int | None]) -> list[int | None]:
    """Give rows between (evaluations) the step of the row before them."""
    filled: list[int | None] = []
    last = next((step for step in steps if step is not None), None)
    for step in steps:
        last = step if step is not None else last
        filled.append(last)
    return filled


def _rows_of(sheet: Sheet, keys: Sequence[str]) -> list[tuple[int, tuple[float | None, ...]]]:
    """Return the training rows that hold one of these keys, with their values."""
    table = zip(*(sheet.column(key).to_list() for key in keys), strict=True)
    return [
        (place, row)
        for place, (row, trained) in enumerate(zip(table, sheet.trained, strict=True))
        if trained and any(value is not None for value in row)
    ]


def _offset(
    mine: Sequence[tuple[float | None, ...]],
    theirs: Sequence[tuple[float | None, ...]],
    printed: bool,
) -> int | None:
    """Return how many rows of the other file lie before the first of this one.

    Only offsets that bring one of the first rows onto an equal row are tried.
    """
    starts = Counter(
        there - here
        for here, row in enumerate(mine[:FEWEST_MATCHES])
        for there, other in enumerate(theirs)
        if _alike(row, other, printed)
    )
    for offset, _ in starts.most_common(16):
        pairs = [
            (row, theirs[place + offset])
            for place, row in enumerate(mine)
            if 0 <= place + offset < len(theirs)
        ]
        equal = [row for row, other in pairs if _alike(row, other, printed)]
        if len(set(equal)) >= FEWEST_MATCHES and len(equal) >= 0.9 * len(pairs):
            return offset
    return None


def _alike(row: Sequence[float | None], other: Sequence[float | None], printed: bool) -> bool:
    pairs = [(a, b) for a, b in zip(row, other, strict=True) if a is not None and b is not None]
    return bool(pairs) and all(same(a, b, printed) for a, b in pairs)
