"""What rules measure on a run: tracks of a logged metric, batches of samples, and their evidence.

Tracks hold finite values only; whether a metric was ever not finite is a rule of its own.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass
from functools import lru_cache
from statistics import fmean

import polars as pl

from rlhfdoctor import text
from rlhfdoctor.model import Column, Evidence, Location, Run


@dataclass(frozen=True, slots=True)
class Track:
    """One logged metric over the steps at which it is finite."""

    metric: str
    column: Column
    steps: list[int]
    values: list[float]

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.values)

    @property
    def placeholder(self) -> bool:
        """Exact zeros throughout: a column that was never computed, not a measurement."""
        return not any(self.values)


def logged(run: Run, metric: str) -> bool:
    """Say whether a column of ``run.metrics`` exists and holds a finite value."""
    return metric in run.columns and bool(run.metrics[metric].is_finite().any())


def track(run: Run, *metrics: str) -> Track:
    """Return the finite values of the first of these columns that has any.

    A rule asks for what it declared to need; ValueError otherwise.
    """
    metric = next((name for name in metrics if logged(run, name)), None)
    if metric is None:
        raise ValueError(f"none of {', '.join(metrics)} is logged")
    found = run.metrics.select("step", metric).filter(pl.col(metric).is_finite())
    return Track(metric, run.columns[metric], found["step"].to_list(), found[metric].to_list())


def common(one: Track, other: Track) -> tuple[list[float], list[float]]:
    """Return the values of two tracks at the steps that both have."""
    there = dict(zip(other.steps, other.values, strict=True))
    pairs = [
        (value, there[step])
        for step, value in zip(one.steps, one.values, strict=True)
        if step in there
    ]
    return [a for a, _ in pairs], [b for _, b in pairs]


def metric_evidence(
    run: Run,
    found: Track,
    first: int,
    last: int,
    observed: float,
    *,
    limit_low: float | None = None,
    limit_high: float | None = None,
) -> Evidence:
    """Make evidence of the rows ``first`` to ``last`` (indices) of a track."""
    return Evidence(
        kind="metric",
        subject=found.metric,
        observed=observed,
        where=locate(run, found.metric, found.steps[first]),
        limit_low=limit_low,
        limit_high=limit_high,
        unit=found.column.unit,
        estimator=found.column.estimator,
        first_step=found.steps[first],
        last_step=found.steps[last],
    )


def locate(run: Run, metric: str, step: int) -> Location:
    """Return the file, key and line that hold a metric's value at a step."""
    split = "eval" if metric.startswith("eval_") else "train"
    rows = run.observations.filter(
        (pl.col("step") == step)
        & (pl.col("metric") == metric.removeprefix("eval_"))
        & (pl.col("split") == split)
    )
    if rows.height:
        _, file, key, line = rows.select("step", "source", "key", "line").row(-1)
        return Location(file, key=key, line=line)
    return run.columns[metric].sources[-1]


@dataclass(frozen=True, slots=True)
class Item:
    """One response: its tokens (the run's own ids where present, else words) and likelihoods."""

    line: int
    words: list[str]
    tokens: list[int] | list[str]
    reward: float | None
    nll: float | None
    ref_nll: float | None
    scored: int


@dataclass(frozen=True, slots=True)
class Batch:
    """The responses of one sample file at one step. ``unit`` is what lengths are counted in."""

    source: str
    step: int | None
    unit: str
    items: tuple[Item, ...]

    @property
    def perplexity(self) -> float | None:
        """Token-weighted perplexity under the policy, from the file's own ``logprobs``."""
        return _perplexity([(item.nll, item.scored) for item in self.items])

    @property
    def ref_perplexity(self) -> float | None:
        """Token-weighted perplexity under the reference, from the file's ``ref_logprobs``."""
        return _perplexity([(item.ref_nll, item.scored) for item in self.items])

    @property
    def k1(self) -> float | None:
        """k1 estimate of KL(policy || reference), nats a token, from the file's numbers."""
        if self.perplexity is None or self.ref_perplexity is None:
            return None
        return math.log(self.ref_perplexity) - math.log(self.perplexity)

    @property
    def mean_length(self) -> float:
        """Mean length in ``unit``."""
        return fmean(len(item.tokens) for item in self.items)

    @property
    def distinct_3(self) -> float | None:
        """Mean share of different 3-grams within a response; None where all are too short."""
        shares = [text.distinct(item.tokens, 3) for item in self.items]
        known = [share for share in shares if share is not None]
        return fmean(known) if known else None

    def share_of_length(self, length: int) -> float:
        """Return the share of responses of exactly that length."""
        return fmean(len(item.tokens) == length for item in self.items)


@lru_cache(maxsize=1)
def batches(run: Run) -> tuple[Batch, ...]:
    """Return the run's responses by source and step, sources in order, steps ascending."""
    columns = ("source", "step", "line", "response", "reward", "token_ids", "logprobs")
    frame = run.samples.select(*columns, "ref_logprobs").drop_nulls("response").collect()
    ids = not frame["token_ids"].null_count()
    groups: dict[tuple[str, int | None], list[Item]] = defaultdict(list)
    for source, step, line, response, reward, tokens, logprobs, reference in frame.iter_rows():
        words = text.words(response)
        both = logprobs and (reference is None or len(reference) == len(logprobs))
        groups[source, step].append(
            Item(
                line=line,
                words=words,
                tokens=tokens if ids else words,
                reward=reward if reward is not None and math.isfinite(reward) else None,
                nll=-math.fsum(logprobs) if both else None,
                ref_nll=-math.fsum(reference) if both and reference else None,
                scored=len(logprobs) if both else 0,
            )
        )
    unit = "tokens" if ids else "words"
    return tuple(
        Batch(source, step, unit, tuple(items))
        for (source, step), items in sorted(
            groups.items(),
            key=lambda entry: (entry[0][0], entry[0][1] is not None, entry[0][1] or 0),
        )
    )


def ladders(run: Run, fewest: int) -> list[list[Batch]]:
    """Return, for each sample file, its batches of known step with at least ``fewest`` responses.

    Files with fewer than two such steps are left out: nothing can be compared there.
    """
    files: dict[str, list[Batch]] = defaultdict(list)
    for batch in batches(run):
        if batch.step is not None and len(batch.items) >= fewest:
            files[batch.source].append(batch)
    return [ladder for ladder in files.values() if len(ladder) > 1]


def sample_evidence(
    first: Batch,
    last: Batch,
    subject: str,
    observed: float,
    *,
    unit: str,
    estimator: str | None = None,
    limit_low: float | None = None,
    limit_high: float | None = None,
) -> Evidence:
    """Make evidence of the batches from ``first`` to ``last`` of one sample file."""
    return Evidence(
        kind="samples",
        subject=subject,
        observed=observed,
        where=Location(first.source, line=first.items[0].line),
        limit_low=limit_low,
        limit_high=limit_high,
        unit=unit,
        estimator=estimator,
        first_step=first.step,
        last_step=last.step,
    )


def sample_fields(run: Run) -> frozenset[str]:
    """Return the names of the sample fields that hold anything at all."""
    counts = run.samples.select(pl.all().count()).collect().row(0, named=True)
    return frozenset(name for name, count in counts.items() if count)


def _perplexity(parts: list[tuple[float | None, int]]) -> float | None:
    known = [(nll, count) for nll, count in parts if nll is not None and math.isfinite(nll)]
    tokens = sum(count for _, count in known)
    if not tokens:
        return None
    try:
        return math.exp(math.fsum(nll for nll, _ in known) / tokens)
    except OverflowError:
        return None
