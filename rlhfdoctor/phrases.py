"""Which n-grams a corpus is full of: how often, in how many responses, since when, at what pay."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from rlhfdoctor import text
from rlhfdoctor.corpus import Corpus
from rlhfdoctor.model import Onset, Sample
from rlhfdoctor.ngrams import words_of
from rlhfdoctor.series import grown, pooled, share_above

MOST_STEPS = 1000
"""Steps that are told apart; of more, neighbours are taken together."""

SHOWN = 400
"""Characters of a phrase that are shown."""

_ORDER = 2**40
"""More than any block has n-grams: the block in the upper bits, the place in it below."""


@dataclass(frozen=True, slots=True)
class Phrase:
    """One n-gram. It first stands in response ``row`` of the stream.

    count, samples: occurrences, and responses that hold it. early, late: share of the responses of
    the first and of the last steps; None without steps to compare. grew: standard errors by which
    the late share lies above the early one. since: the step from which its share stands above the
    start's, where that can be told. r: Pearson's correlation of its count and the reward, within
    the steps of a file, None where one of them never varies. paid, unpaid: mean reward with it and
    without.
    """

    n: int
    key: int
    row: int
    count: int
    samples: int
    early: float | None
    late: float | None
    grew: float
    since: Onset | None
    r: float | None
    paid: float | None
    unpaid: float | None

    def dated(self) -> dict[str, int | None]:
        """Return ``since`` under its published keys."""
        since = self.since
        return {
            "from_step": since.step if since else None,
            "from_low": since.low if since else None,
            "from_high": since.high if since else None,
        }


@dataclass(frozen=True, slots=True)
class Steps:
    """The responses of each step.

    known: how many different steps there are. places: each step, and the one whose responses it is
    counted with: itself, unless there are more than ``MOST_STEPS``. samples: responses of each of
    these, ascending. early, late: those of the first and of the last quarter, empty without two.
    cells: file, step, and the number, sum and sum of squares of its finite rewards.
    """

    known: int
    places: pl.DataFrame
    samples: dict[int, int]
    early: tuple[int, ...]
    late: tuple[int, ...]
    cells: pl.DataFrame

    @property
    def rewarded(self) -> int:
        """Responses with a finite reward."""
        return int(self.cells["rewarded"].sum())


def steps_of(corpus: Corpus) -> Steps:
    """Sum up the responses of each step."""
    reward = pl.col("reward")
    rows = corpus.rows.scan()
    known = rows.select(pl.col("step").drop_nulls().unique().sort()).collect()["step"]
    width = -(-known.len() // MOST_STEPS) or 1
    places = known.to_frame().with_columns(
        place=pl.col("step").gather(pl.int_range(pl.len()) // width * width)
    )
    cells = (
        rows.join(places.lazy(), on="step", how="left")
        .group_by("file", pl.col("place").alias("step"))
        .agg(
            samples=pl.len(),
            rewarded=reward.count(),
            rewards=reward.sum(),
            squares=(reward * reward).sum(),
        )
        .collect(engine="streaming")
    )
    counted = cells.drop_nulls("step").group_by("step").agg(pl.col("samples").sum()).sort("step")
    each = counted["step"].to_list()
    quarter = math.ceil(len(each) / 4) if len(each) > 1 else 0
    return Steps(
        known=known.len(),
        places=places,
        samples=dict(counted.iter_rows()),
        early=tuple(each[:quarter]),
        late=tuple(each[len(each) - quarter :]),
        cells=cells,
    )


def follow(corpus: Corpus, n: int, most: int, steps: Steps) -> list[Phrase]:
    """Return the most frequent n-grams, and of equally frequent ones those that come first."""
    grams = corpus.grams[n]
    counted = grams.commonest(most)
    if not counted.height:
        return []
    certain = counted.filter(pl.col("count") > counted["count"].min())["key"]
    equal = counted.filter(~pl.col("key").is_in(certain.implode()))["key"]
    if counted.height > most:
        equal = grams.first(equal, most - certain.len())
    found = pl.concat(_held(corpus, n, pl.concat([certain, equal]), steps))
    ranked = (
        found.group_by("key")
        .agg(pl.col("count", "samples", "rewarded", "paid").sum(), pl.col("row", "first").min())
        .sort("count", "first", descending=[True, False])
        .head(most)
    )
    found = found.filter(pl.col("key").is_in(ranked["key"].implode()))
    hits: dict[int, dict[int, int]] = defaultdict(dict)
    by_step = found.drop_nulls("step").group_by("key", "step").agg(pl.col("samples").sum())
    for key, step, samples in by_step.iter_rows():
        hits[key][step] = samples
    follows = _correlations(found, steps)
    total = float(steps.cells["rewards"].sum())
    return [
        _phrase(n, row, hits[row["key"]], follows.get(row["key"]), total, steps)
        for row in ranked.iter_rows(named=True)
    ]


def _held(corpus: Corpus, n: int, keys: pl.Series, steps: Steps) -> Iterator[pl.DataFrame]:
    """Yield by block, key, file and step what sums are needed of."""
    offset = 0
    reward, times = pl.col("reward"), pl.col("count").cast(pl.Float64)
    paid = reward.is_not_null()
    for block, (held, rows) in enumerate(
        zip(corpus.grams[n].where(keys), corpus.rows, strict=True)
    ):
        told = rows.select("file", "step", "reward").with_row_index("place")
        told = told.join(steps.places.rename({"place": "bin"}), on="step", how="left")
        told = told.select("place", "file", "reward", step="bin")
        yield (
            held.join(told, on="place")
            .group_by("key", "file", "step")
            .agg(
                count=pl.col("count").sum(),
                samples=pl.len(),
                row=pl.col("place").cast(pl.Int64).min() + offset,
                first=pl.col("first").cast(pl.Int64).min() + block * _ORDER,
                rewarded=paid.sum(),
                paid=reward.sum(),
                times=times.filter(paid).sum(),
                squares=(times * times).filter(paid).sum(),
                pay=(times * reward).sum(),
            )
        )
        offset += rows.height


def _correlations(found: pl.DataFrame, steps: Steps) -> Mapping[int, float | None]:
    """Return of each n-gram the correlation of count and reward in the steps of each file."""
    cells = steps.cells.filter(pl.col("rewarded") > 0)
    mean = pl.col("rewards") / pl.col("rewarded")
    spread = float(cells.select((pl.col("squares") - mean * pl.col("rewards")).sum()).item() or 0)
    sums = pl.col("times", "squares", "pay").sum()
    per = (
        found.group_by("key", "file", "step")
        .agg(sums)
        .join(cells.drop("squares"), on=["file", "step"], nulls_equal=True)
        .group_by("key")
        .agg(
            both=(pl.col("pay") - pl.col("times") * mean).sum(),
            own=(pl.col("squares") - pl.col("times") ** 2 / pl.col("rewarded")).sum(),
        )
    )
    return {key: pooled(both, own, spread) for key, both, own in per.iter_rows()}


def _phrase(
    n: int,
    row: Mapping[str, int],
    hits: Mapping[int, int],
    r: float | None,
    total: float,
    steps: Steps,
) -> Phrase:
    known = list(steps.samples)
    dated = grown([hits.get(step, 0) for step in known], list(steps.samples.values()))
    early, late = _hits(hits, steps, steps.early), _hits(hits, steps, steps.late)
    held, every = row["rewarded"], steps.rewarded
    return Phrase(
        n=n,
        key=row["key"],
        row=row["row"],
        count=row["count"],
        samples=row["samples"],
        early=early[0] / early[1] if early[1] else None,
        late=late[0] / late[1] if late[1] else None,
        grew=share_above(*early, *late),
        since=None if dated is None else Onset(*(known[place] for place in dated)),
        r=r,
        paid=row["paid"] / held if held else None,
        unpaid=(total - row["paid"]) / (every - held) if every > held else None,
    )


def _hits(hits: Mapping[int, int], steps: Steps, which: Sequence[int]) -> tuple[int, int]:
    return sum(hits.get(step, 0) for step in which), sum(steps.samples[step] for step in which)


def said_in(sample: Sample, phrases: Iterable[Phrase]) -> dict[Phrase, str]:
    """Find the words of n-grams in the response that they stand in."""
    response = sample.response or ""
    tokens = words_of([response])
    keys = {phrase.n: tokens.ngrams(phrase.n) for phrase in phrases}
    found = {}
    for phrase in phrases:
        place = keys[phrase.n].index_of(phrase.key)
        if place is not None:
            said = text.words_from(response, place, phrase.n)
            found[phrase] = text.cut(text.joined(said), SHOWN)
    return found
