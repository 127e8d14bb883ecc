"""Which n-grams a corpus is full of: how often, in how many responses, since when, at what pay."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import polars as pl

from rlhfdoctor import text
from rlhfdoctor.corpus import Corpus, Open, again
from rlhfdoctor.model import Onset
from rlhfdoctor.ngrams import words_of
from rlhfdoctor.series import grown

SHOWN = 400
"""Characters of a phrase that are shown."""

_ORDER = 2**40
"""More than any block has n-grams: the block in the upper bits, the place in it below."""


@dataclass(frozen=True, slots=True)
class Phrase:
    """One n-gram. It first stands in response ``row`` of the stream.

    count, samples: occurrences, and responses that hold it. early, late: share of the responses of
    the first and of the last steps; None without steps to compare. since: the step from which its
    share stands above the start's. r: Pearson's correlation of its count and the reward, within
    steps, None where one of them never varies. paid, unpaid: mean reward with it and without.
    """

    n: int
    key: int
    row: int
    count: int
    samples: int
    early: float | None
    late: float | None
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
    """The responses of each step: how many, how many with a finite reward, their sums.

    steps: ascending; None stands for responses without a step. early, late: those of the first and
    of the last quarter, empty without two steps.
    """

    samples: dict[int | None, int]
    rewarded: dict[int | None, int]
    rewards: dict[int | None, float]
    squares: dict[int | None, float]
    early: tuple[int, ...]
    late: tuple[int, ...]


def follow(corpus: Corpus, n: int, most: int, steps: Steps) -> list[Phrase]:
    """Return the most frequent n-grams, and of equally frequent ones those that come first."""
    keys = corpus.grams[n].commonest(most)["key"]
    parts = list(_held(corpus, n, keys))
    if not parts:
        return []
    found = pl.concat(parts)
    ranked = (
        found.group_by("key")
        .agg(pl.col("count", "samples", "rewarded", "paid").sum(), pl.col("row", "first").min())
        .sort("count", "first", descending=[True, False])
        .head(most)
    )
    by_step = (
        found.filter(pl.col("key").is_in(ranked["key"].implode()))
        .group_by("key", "step")
        .agg(pl.col("samples", "times", "squares", "pay").sum())
    )
    grouped = {key: part for (key,), part in by_step.group_by("key")}
    return [_phrase(n, row, grouped[row["key"]], steps) for row in ranked.iter_rows(named=True)]


def _held(corpus: Corpus, n: int, keys: pl.Series) -> Iterator[pl.DataFrame]:
    """Yield by block, key and step what sums are needed of."""
    offset = 0
    paid = pl.col("reward").is_finite()
    times, reward = pl.col("count").cast(pl.Float64), pl.col("reward")
    for block, (held, rows) in enumerate(
        zip(corpus.grams[n].where(keys), corpus.rows, strict=True)
    ):
        told = rows.select("step", "reward").with_row_index("place")
        yield (
            held.join(told, on="place")
            .group_by("key", "step")
            .agg(
                count=pl.col("count").sum(),
                samples=pl.len(),
                row=pl.col("place").cast(pl.Int64).min() + offset,
                first=pl.col("first").cast(pl.Int64).min() + block * _ORDER,
                rewarded=paid.sum(),
                paid=reward.filter(paid).sum(),
                times=times.filter(paid).sum(),
                squares=(times * times).filter(paid).sum(),
                pay=(times * reward).filter(paid).sum(),
            )
        )
        offset += rows.height


def steps_of(corpus: Corpus) -> Steps:
    """Sum up the responses of each step."""
    paid = pl.col("reward").is_finite()
    reward = pl.col("reward")
    found = (
        corpus.rows.scan()
        .group_by("step")
        .agg(
            samples=pl.len(),
            rewarded=paid.sum(),
            rewards=reward.filter(paid).sum(),
            squares=(reward * reward).filter(paid).sum(),
        )
        .sort("step")
        .collect(engine="streaming")
    )
    known = found["step"].drop_nulls().to_list()
    quarter = math.ceil(len(known) / 4) if len(known) > 1 else 0
    return Steps(
        samples=dict(zip(found["step"], found["samples"], strict=True)),
        rewarded=dict(zip(found["step"], found["rewarded"], strict=True)),
        rewards=dict(zip(found["step"], found["rewards"], strict=True)),
        squares=dict(zip(found["step"], found["squares"], strict=True)),
        early=tuple(known[:quarter]),
        late=tuple(known[len(known) - quarter :]),
    )


def _phrase(n: int, row: dict[str, int], by_step: pl.DataFrame, steps: Steps) -> Phrase:
    hits: dict[int | None, int] = dict(zip(by_step["step"], by_step["samples"], strict=True))
    known = [step for step in steps.samples if step is not None]
    dated = grown([hits.get(step, 0) for step in known], [steps.samples[step] for step in known])
    held, every = row["rewarded"], sum(steps.rewarded.values())
    total = math.fsum(steps.rewards.values())
    return Phrase(
        n=n,
        key=row["key"],
        row=row["row"],
        count=row["count"],
        samples=row["samples"],
        early=_share(hits, steps, steps.early),
        late=_share(hits, steps, steps.late),
        since=None if dated is None else Onset(*(known[place] for place in dated)),
        r=_correlation(by_step, steps),
        paid=row["paid"] / held if held else None,
        unpaid=(total - row["paid"]) / (every - held) if every > held else None,
    )


def _share(hits: dict[int | None, int], steps: Steps, which: Sequence[int]) -> float | None:
    there = sum(steps.samples[step] for step in which)
    return sum(hits.get(step, 0) for step in which) / there if there else None


def _correlation(by_step: pl.DataFrame, steps: Steps) -> float | None:
    """Return the correlation of count and reward within steps, pooled over them."""
    both = own = 0.0
    for row in by_step.iter_rows(named=True):
        there = steps.rewarded[row["step"]]
        if there:
            both += row["pay"] - row["times"] * steps.rewards[row["step"]] / there
            own += row["squares"] - row["times"] ** 2 / there
    reward = math.fsum(
        steps.squares[step] - steps.rewards[step] ** 2 / there
        for step, there in steps.rewarded.items()
        if there
    )
    scale = own * reward
    return both / math.sqrt(scale) if math.isfinite(scale) and scale > 0.0 else None


def texts_of(stream: Open, phrases: Iterable[Phrase]) -> dict[Phrase, str]:
    """Find the words of n-grams, in the response that each stands in first."""
    wanted: dict[int, list[Phrase]] = defaultdict(list)
    for phrase in phrases:
        wanted[phrase.row].append(phrase)
    found = {}
    for row, _, sample in again(stream(), wanted):
        response = sample.response or ""
        words = text.words(response)
        for n in {phrase.n for phrase in wanted[row]}:
            keys = words_of([response]).ngrams(n).to_list()
            places = {key: place for place, key in reversed(list(enumerate(keys)))}
            for phrase in wanted[row]:
                if phrase.n == n and phrase.key in places:
                    place = places[phrase.key]
                    found[phrase] = text.cut(text.joined(words[place : place + n]), SHOWN)
    return found
