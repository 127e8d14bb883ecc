"""Which logs tell of the same run: by their names, and by the numbers that they share.

A folder may hold several records of one run (a console, event files, the trainer's state), the
logs of its processes, those of its evaluations, and other runs. Only the numbers tell.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import PurePosixPath
from statistics import median

import polars as pl

from rlhfdoctor.readers._json import split_of
from rlhfdoctor.sheets import Sheet, bare
from rlhfdoctor.voices import UNSAID, Voice, doubtful

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

FEWEST_DIGITS = 3
"""Digits of a number that two logs seldom share by chance."""

COARSEST = 0.0005001
"""Half a unit of the last decimal of numbers that may tie one log to another."""

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


def families(
    sheets: Mapping[str, Sheet],
    printed: Collection[str],
    voices: Mapping[str, Voice] | None = None,
) -> list[list[str]]:
    """Sort files by the run that they tell of; ``sheets``: the one to be believed first comes last.

    Files that begin at the same step and agree almost nowhere tell of different runs. One that
    begins where another was under way is what a resumed run logged. A file that nothing
    contradicts belongs to the files that are called most like it.

    voices: what the files say of their trainers. Files whose voices contradict tell of different
    runs unless they tell the same numbers at the same steps. One that names no trainer, or may be
    of several, belongs to the only run it can, or to the one whose numbers or steps it tells.
    """
    heard = voices or {}
    known = any(heard[name].named for name in sheets if name in heard)
    logs = _Logs(sheets, printed, heard if known else {})
    unsure = doubtful(logs.voices)
    order = list(reversed(list(sheets)))
    named = [name for name in order if logs.voice(name).named]
    sure = [name for name in named if name not in unsure] or order
    found: list[list[str]] = []
    for name in sure:
        fitting = [group for group in found if logs.fits(name, group)]
        _join(name, fitting, found)
    runs = len(found)
    for name in (*named, *order):
        if any(name in group for group in found):
            continue
        fitting = [group for group in found[:runs] if logs.fits(name, group)]
        if len(fitting) > 1:
            fitting = [group for group in fitting if logs.tied(name, group)] or [
                group for group in fitting if logs.in_step(name, group)
            ]
            fitting = fitting if len(fitting) == 1 else []
        if not fitting:
            fitting = [
                group
                for group in found[runs:]
                if logs.fits(name, group) and logs.written_alike(name, group)
            ]
        _join(name, fitting, found)
    return found


def _join(name: str, fitting: Sequence[list[str]], found: list[list[str]]) -> None:
    """Put a file to those of the fitting that are called most like it; alone where none fits."""
    if fitting:
        best = max(fitting, key=lambda group: max(_likeness(name, other) for other in group))
        best.append(name)
    else:
        found.append([name])


class _Logs:
    """The logs of a place, compared pair by pair."""

    def __init__(
        self,
        sheets: Mapping[str, Sheet],
        printed: Collection[str],
        voices: Mapping[str, Voice],
    ) -> None:
        self.sheets = sheets
        self.printed = frozenset(printed)
        self.voices = voices
        self.ties: dict[tuple[str, str], bool] = {}
        self.meant: dict[str, _Curves] = {}
        self.curves = {name: _curves(sheet) for name, sheet in sheets.items()}
        self.resumed = {
            name
            for name in sheets
            if _resumes(self.curves[name], [self.curves[other] for other in self._akin(name)])
        }

    def voice(self, name: str) -> Voice:
        """Return what a log says of its trainer."""
        return self.voices.get(name, UNSAID)

    def fits(self, name: str, group: Sequence[str]) -> bool:
        """Say whether a log may tell of the run of a group."""
        voice = self.voice(name)
        if any(voice.contradicts(self.voice(other)) for other in group):
            return self.tied(name, group)
        if not all(
            self._kindred(name, other)
            for other in group[:MOST_ASKED]
            if voice.kindred(self.voice(other))
        ):
            return False
        if any(voice.named is not self.voice(other).named for other in group):
            if self.tied(name, group):
                return True
            if all(self._strange(name, other) for other in group[:MOST_ASKED]):
                return False
            if not voice.named and self._whole(name):
                return any(self._copied(name, other) for other in group[:MOST_ASKED])
        return name in self.resumed or not any(
            self._apart(name, other) for other in group[:MOST_ASKED]
        )

    def tied(self, name: str, group: Sequence[str]) -> bool:
        """Say whether a log tells the same numbers at the same steps as one of a group."""
        return any(self._tied(*sorted((name, other))) for other in group[:MOST_ASKED])

    def _tied(self, name: str, other: str) -> bool:
        pair = name, other
        if pair not in self.ties:
            early, late = sorted(pair, key=lambda item: self.curves[item].begins or 0)
            there = self._beside(self.curves[late], early)
            digits = not self.printed.isdisjoint(pair)
            self.ties[pair] = _same_numbers(self.curves[late].values, there, digits)
        return self.ties[pair]

    def _beside(self, late: _Curves, early: str) -> Mapping[str, Mapping[int, float]]:
        """Return the values of a log at the steps with which a later one begins."""
        begun, sheet = self.curves[early], self.sheets[early]
        if late.begins is None or begun.begins is None or late.begins > begun.ends:
            return {}
        looked = {step for values in late.values.values() for step in values}
        here = {step for values in begun.values.values() for step in values}
        if len(looked & here) >= FEWEST_MATCHES:
            return begun.values
        steps = sheet.index["step"].is_in(list(looked)) & ~sheet.index["evaluation"]
        return _curves(sheet.take(steps.fill_null(False).to_list())).values

    def _kindred(self, name: str, other: str) -> bool:
        """Say whether a log may be another record of the run of a kindred trainer's."""
        if self._tied(*sorted((name, other))):
            return True
        if self.in_step(name, [other]):
            return not self._apart(name, other)
        few, many = sorted((name, other), key=lambda item: len(self.sheets[item]))
        if len(self.sheets[few].training) >= FEWEST_MATCHES:
            return self.curves[few].begins is None or self.curves[many].begins is None
        digits = not self.printed.isdisjoint((name, other))
        mine, theirs = self.curves[few].values, self.curves[many].values
        return all(
            any(same(value, known, digits) for known in theirs[key].values())
            for key in mine.keys() & theirs.keys()
            for value in mine[key].values()
        )

    def in_step(self, name: str, group: Sequence[str]) -> bool:
        """Say whether a log has the very steps of one of a group."""
        mine = self.sheets[name].training["step"].unique().sort()
        return mine.len() >= FEWEST_MATCHES and any(
            mine.equals(self.sheets[other].training["step"].unique().sort())
            for other in group[:MOST_ASKED]
        )

    def written_alike(self, name: str, group: Sequence[str]) -> bool:
        """Say whether a log has most keys in common with one of a group, or its processes."""
        return any(
            self.curves[name].ranked is self.curves[other].ranked
            and 2 * len(self._keys(name) & self._keys(other))
            >= len(self._keys(name) | self._keys(other))
            for other in group
        )

    def _keys(self, name: str) -> set[str]:
        return set(map(bare, self.sheets[name].series))

    def _akin(self, name: str) -> list[str]:
        """Return the logs that a resumed run may have begun with."""
        if not self.voices:
            return list(self.sheets)
        voice, keys = self.voice(name), self.curves[name].values.keys()
        return [
            other
            for other in self.sheets
            if not voice.contradicts(self.voice(other)) and keys & self.curves[other].values.keys()
        ]

    def _apart(self, name: str, other: str) -> bool:
        digits = name in self.printed or other in self.printed
        mine, theirs = self.curves[name], self.curves[other]
        voice, there = self.voice(name), self.voice(other)
        return _apart(mine, theirs, digits) or (
            (voice.named is not there.named or voice.kindred(there))
            and _apart(self._meant(name), self._meant(other), digits)
        )

    def _meant(self, name: str) -> _Curves:
        """Return the curves of a log by the metrics that its keys mean."""
        if name not in self.meant:
            curves, voice = self.curves[name], self.voice(name)
            values: dict[str, Mapping[int, float]] = {}
            for key, told in curves.values.items():
                if (metric := voice.metric(key)) is not None:
                    values.setdefault(metric, told)
            self.meant[name] = replace(curves, values=values)
        return self.meant[name]

    def _whole(self, name: str) -> bool:
        """Say whether a log is a training's own: it tells both a loss and a learning rate."""
        voice, sheet = self.voice(name), self.sheets[name]
        told = {voice.metric(bare(key)) for key in sheet.series if split_of(key) == "train"}
        return {"loss_total", "lr"} <= told and len(sheet.training) >= FEWEST_MATCHES

    def _copied(self, name: str, other: str) -> bool:
        """Say whether a log repeats numbers of another, at whatever steps."""
        mine, theirs = self.curves[name].values, self.curves[other].values
        return any(
            len(_digits(mine[key]) & _digits(theirs[key])) >= FEWEST_MATCHES
            for key in mine.keys() & theirs.keys()
        )

    def _strange(self, name: str, other: str) -> bool:
        """Say whether two logs have neither keys nor any stretch of steps in common."""
        mine, theirs = self.curves[name], self.curves[other]
        if mine.begins is None or theirs.begins is None or self._keys(name) & self._keys(other):
            return False
        gap = max(mine.gap, theirs.gap)
        return mine.begins > theirs.ends + gap or theirs.begins > mine.ends + gap


def _digits(values: Mapping[int, float]) -> set[str]:
    """Return the different numbers that are not whole and have at least three digits."""
    spelt = {f"{value:.5g}" for value in values.values() if math.isfinite(value) and value % 1}
    return {item for item in spelt if len(re.sub(r"^[-0.]+|\.|e.*$", "", item)) >= FEWEST_DIGITS}


def _same_numbers(
    late: Mapping[str, Mapping[int, float]],
    early: Mapping[str, Mapping[int, float]],
    digits: bool,
) -> bool:
    """Say whether two logs tell the same numbers at the same steps, under whatever keys.

    At least ``FEWEST_MATCHES`` different numbers that are more than round, and nine in ten of those
    that stand at a common step.
    """
    known: dict[tuple[int, str], set[str]] = defaultdict(set)
    for key, values in early.items():
        for step, value in values.items():
            known[step, f"{value:.5g}"].add(key)
    for key, values in late.items():
        matched: dict[str, set[float]] = defaultdict(set)
        counted: Counter[str] = Counter()
        own = early.get(key, {})
        coarse = min(max(coarseness([*values.values()]), coarseness([*own.values()])), COARSEST)
        for step, value in values.items():
            alike = {*known.get((step, f"{value:.5g}"), ())}
            there = own.get(step)
            if there is not None and (abs(value - there) <= coarse or same(value, there, digits)):
                alike.add(key)
            for spelt in alike:
                matched[spelt].add(value)
                counted[spelt] += 1
        for spelt, told in matched.items():
            common = len(values.keys() & early[spelt].keys())
            distinct = len(_digits(dict(enumerate(told))))
            if distinct >= FEWEST_MATCHES and counted[spelt] >= 0.9 * common:
                return True
    return False


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
    """Say whether a log begins where another was under way, and not with its own first interval."""
    begins = log.begins
    return (
        begins is not None
        and begins > log.pace
        and any(
            other.begins is not None and other.begins + other.gap < begins <= other.ends + other.gap
            for other in others
        )
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
    """The beginning of a log: first and last step, largest and first gap, values by key and step.

    ranked: one process of several wrote it.
    """

    begins: int | None
    ends: int
    gap: int
    pace: int
    ranked: bool
    values: Mapping[str, Mapping[int, float]]


def _curves(sheet: Sheet) -> _Curves:
    trained = sheet.training["step"]
    if not trained.len():
        return _Curves(None, 0, 0, 0, False, {})
    steps = trained.unique().sort().head(MOST_STEPS)
    last = int(steps[-1])
    gaps = steps.diff().drop_nulls().to_list()
    ranked = not sheet.index["rank"].null_count()
    values: dict[str, dict[int, float]] = {}
    for key in sorted(sheet.series):
        if split_of(key) == "train" and not _SCHEDULED.search(bare(key)):
            frame = by_step(sheet, key).filter(pl.col("step") <= last)
            values[bare(key)] = dict(frame.iter_rows())
    ends, gap, pace = max(trained.to_list()), max(gaps, default=1), (gaps or [0])[0]
    return _Curves(int(steps[0]), ends, gap, pace, ranked, values)


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
