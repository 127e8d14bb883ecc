"""What the responses of a sample file show: at its first step, to its end, and since when."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from operator import countOf
from statistics import fmean, median

from rlhfdoctor.measures import Batch, Item, batches, ladders
from rlhfdoctor.model import Evidence, Finding, Location, Run, Severity
from rlhfdoctor.rules._ladder import onset_between, standing_from
from rlhfdoctor.series import LIKELY, SURE, correlation, mean_error
from rlhfdoctor.text import distinct, ngrams

LONGER = 1.25
"""Growth of the mean length from which fewer different n-grams may be the length's doing."""

WINDOWS = (10, 50)
"""Least and most words of a window in which n-grams are counted."""

ROUNDING = 1e-9
"""Share of a variance that is rounding: the third quantity explains the whole of it."""

Values = Sequence[tuple[Item, float]]
"""Responses with what was measured of each: a number, or 1 and 0 for yes and no."""

Marks = Callable[[Sequence[Batch]], Sequence[Sequence[float | None]]]
"""Measure every response of a file, step by step; None where it cannot be told."""


@dataclass(frozen=True, slots=True)
class File:
    """The steps of one sample file at which something could be measured.

    A file of which no two steps can be compared is one step. since: index of the first step that
    stands above the first one, and so do all after it; None where nothing rose.
    """

    steps: Sequence[Batch]
    values: Sequence[Values]
    since: int | None

    @property
    def source(self) -> str:
        """Name of the file; of the first one where each step has its own."""
        return self.steps[0].source

    @property
    def start(self) -> float:
        """Mean at the first step."""
        return mean(self.values[0])

    @property
    def level(self) -> float:
        """Mean at the last step where it rose, of the whole file otherwise."""
        return mean(self.values[-1] if self.since else list(chain.from_iterable(self.values)))

    @property
    def before(self) -> str:
        """Say what there is to compare with, in words for a template."""
        if len(self.steps) < 2:
            return "no earlier samples to compare with"
        return f"{self.start:.0%} at step {self.steps[0].step}"

    def showing(self) -> list[tuple[Batch, Item]]:
        """Return the responses that show it, since it rose where it did; never none."""
        rows = list(zip(self.steps, self.values, strict=True))[self.since :]
        found = [(batch, item) for batch, values in rows for item, value in values if value]
        return found or [(self.steps[0], self.values[0][0][0])]

    def evidence(
        self, limit: float, subject: str = "samples.response", unit: str = "share of responses"
    ) -> Evidence:
        """Make evidence of the first response that shows it."""
        batch, item = self.showing()[0]
        return Evidence(
            kind="samples",
            subject=subject,
            observed=self.level,
            where=Location(batch.source, line=item.line),
            limit_high=limit,
            unit=unit,
            first_step=self.steps[self.since or 0].step,
            last_step=self.steps[-1].step,
        )


def each(says: Callable[[Item], float | None]) -> Marks:
    """Measure every response by itself."""
    return lambda steps: [[says(item) for item in batch.items] for batch in steps]


def graded(
    few: float, some: float = math.inf, most: float = math.inf
) -> Callable[[File], Severity | None]:
    """Grade a file by its level, where it rose: above ``few`` information, then worse."""

    def grade(file: File) -> Severity | None:
        if file.since is None or file.level <= few:
            return None
        if file.level > most:
            return "critical"
        return "warning" if file.level > some else "info"

    return grade


def mean(values: Values) -> float:
    """Return the mean of what was measured."""
    return mean_error([value for _, value in values])[0]


def above(before: Values, after: Values) -> float:
    """Return how many standard errors the mean of ``after`` lies above that of ``before``.

    Answers to one prompt are alike, so the error of a mean is the greater of two: that over the
    responses, and that over the means of the prompts. Of a single prompt it is infinite: nothing
    tells how another one would be answered.
    """
    size = max(abs(value) for _, value in (*before, *after)) or 1.0
    start, level = ([(item, value / size) for item, value in part] for part in (before, after))
    gain, error = mean(level) - mean(start), math.hypot(_error(start), _error(level))
    if error > 0.0:
        return gain / error
    return math.copysign(math.inf, gain) if gain else 0.0


def _error(values: Values) -> float:
    prompts: dict[object, list[float]] = defaultdict(list)
    for item, value in values:
        prompts[item.prompt or item.group or id(item)].append(value)
    groups = [[value for _, value in values], [fmean(group) for group in prompts.values()]]
    return max(mean_error(group)[1] for group in groups)


def rises(steps: Sequence[Values]) -> int | None:
    """Return the first index from which every step stands above the first one; None without one.

    All these steps together must be ``SURE`` to lie above it.
    """
    since = standing_from([above(steps[0], later) > LIKELY for later in steps])
    if since is None or above(steps[0], list(chain.from_iterable(steps[since:]))) <= SURE:
        return None
    return since


def files(run: Run, fewest: int, marks: Marks, alone: int | None = None) -> list[File]:
    """Return what every sample file shows.

    fewest: responses of a step that is compared. alone: responses of a file without steps to
    compare, which is one step then; None leaves such files out.
    """
    rows = ladders(run, fewest)
    compared = {batch.source for ladder in rows for batch in ladder}
    single: dict[tuple[str, str], list[Batch]] = defaultdict(list)
    for batch in batches(run):
        if batch.source not in compared and alone is not None:
            single[batch.source, batch.unit].append(batch)
    found = [_file(ladder, marks, fewest) for ladder in rows]
    for parts in single.values():
        items = tuple(chain.from_iterable(batch.items for batch in parts))
        found.append(_file([replace(parts[0], step=None, items=items)], marks, alone or 1))
    return [file for file in found if file and (len(file.steps) > 1 or alone is not None)]


def _file(steps: Sequence[Batch], marks: Marks, fewest: int) -> File | None:
    kept: list[Batch] = []
    values: list[Values] = []
    for batch, said in zip(steps, marks(steps), strict=True):
        pairs = zip(batch.items, said, strict=True)
        known = [(item, float(value)) for item, value in pairs if value is not None]
        if len(known) >= max(fewest, 1):
            kept.append(batch)
            values.append(known)
    return File(kept, values, rises(values)) if kept else None


def told(
    run: Run,
    found: Sequence[File],
    grade: Callable[[File], Severity | None],
    limit: float,
    args: Callable[[File], Mapping[str, object]] = lambda file: {},
    subject: str = "samples.response",
) -> Iterator[Finding]:
    """Yield a finding for each file that has a grade, dated where it rose.

    The template's arguments are source, level, start, before (the start in words), began and step
    (the first step, and the first that stands above it), and ``args``.
    """
    for file in found:
        severity = grade(file)
        if severity is None:
            continue
        yield Finding(
            severity,
            (file.evidence(limit, subject),),
            {
                "source": file.source,
                "level": file.level,
                "start": file.start,
                "before": file.before,
                "began": file.steps[0].step,
                "step": file.steps[file.since or 0].step,
                **args(file),
            },
            onset=None if file.since is None else onset_between(run, file.steps, file.since),
        )


def cut(item: Item) -> bool | None:
    """Say whether a response was cut: by its own field, else by the end token that it lacks."""
    if item.truncated is not None:
        return item.truncated
    return None if item.ended is None else not item.ended


def occurrences(words: Sequence[str], phrase: tuple[str, ...]) -> int:
    """Return how often a phrase stands in a text."""
    return countOf(ngrams(words, len(phrase)), phrase)


def density(words: Sequence[str], phrase: tuple[str, ...]) -> float:
    """Return the share of a phrase among all phrases of its length; 0 in a text without any."""
    return occurrences(words, phrase) / max(len(words) - len(phrase) + 1, 1)


def partial(xs: Sequence[float], ys: Sequence[float], zs: Sequence[float]) -> float | None:
    """Return the correlation of ``xs`` and ``ys`` with ``zs`` held equal.

    None where either side is constant, and where ``zs`` explains the whole of either.
    """
    r, with_x, with_y = correlation(xs, ys), correlation(xs, zs), correlation(ys, zs)
    if r is None or with_x is None or with_y is None:
        return r
    left = (1.0 - with_x**2) * (1.0 - with_y**2)
    return (r - with_x * with_y) / math.sqrt(left) if left > ROUNDING else None


def repeats(steps: Sequence[Batch], fall: float) -> bool:
    """Say whether the last step's fewer different 3-grams are more than length explains.

    The longer a text, the more of its 3-grams came before. Where responses grew, they are compared
    in windows of as many words as the first ones have: their share must have fallen below ``fall``
    of the first step's there too.
    """
    first, last = steps[0], steps[-1]
    if last.mean_length < LONGER * first.mean_length:
        return True
    least, most = WINDOWS
    size = round(min(most, max(least, median(len(item.words) for item in first.items))))
    before, after = _windowed(first, size), _windowed(last, size)
    return before is None or after is None or after < fall * before


def _windowed(batch: Batch, size: int) -> float | None:
    """Return the mean share of different 3-grams in windows of so many words; None without any."""
    found = []
    for item in batch.items:
        words = item.words
        parts = [distinct(words[at : at + size], 3) for at in range(0, len(words), size)]
        known = [part for part in parts if part is not None]
        found += [fmean(known)] if known else []
    return fmean(found) if found else None
