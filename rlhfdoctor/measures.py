"""What rules measure on a run: tracks of a metric, batches of samples, scans of weights; evidence.

Tracks hold finite values only; whether a metric was ever not finite is a rule of its own.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import lru_cache, wraps
from statistics import fmean
from typing import Any, Concatenate, ParamSpec, TypeVar

import polars as pl

from rlhfdoctor import text
from rlhfdoctor.model import Column, Evidence, Location, Onset, Run
from rlhfdoctor.ngrams import MOST_TEXTS
from rlhfdoctor.responses import MEASURES, measure
from rlhfdoctor.series import LARGEST, halves_differ

P = ParamSpec("P")
T = TypeVar("T")

ROUNDING = 0.01
"""Log-probabilities above 0 by more than this are none; half precision rounds some just above."""

FIRST_STEPS = 5
"""Steps of a log that tell it from any other: no two runs log the same losses."""

LARGEST_EXPONENT = 700.0
"""Largest x whose exp(x) a float holds."""

SIGNS = (
    "kl_ref_token",
    "kl_ref_response",
    "kl_unknown",
    "kl_old_token",
    "clip_frac",
    "dpo_margin",
    "dpo_reward_chosen",
)
"""Metrics that cannot leave zero without an update."""

BLOCK = 2**23
"""Bytes of responses that are measured together: tokens of a block are in memory at once."""

LOOP = 30
"""Characters from which a repeating end is a loop: "...", "ha ha ha" and rules of tables end texts
that are sound."""

FEWEST_ENDS, END_SHARE, END_LENGTHS = 8, 0.05, 3
"""Responses, their share, and their different lengths, that must end with a token for it to be the
end token."""

_NUMBERS = re.compile(r"\d+")

PREFERENCE = ("DPO", "IPO", "KTO", "ORPO", "CPO", "SimPO", "BCO")
"""Algorithms that learn from preferences, without samples of their own."""

TRENDS = ("loss_total", "reward_raw_mean", "entropy", "entropy_unknown", "response_length_mean")
"""Metrics whose trend shows updates where nothing else does."""

SCANS: dict[str, pl.DataType | type[pl.DataType]] = {
    "checkpoint": pl.String,
    "step": pl.Int64,
    "format": pl.String,
    "dtype": pl.String,
    "tensors": pl.Int64,
    "parameters": pl.Int64,
    "finite": pl.Boolean,
    "non_finite": pl.Int64,
    "first_non_finite": pl.String,
    "zero_rows": pl.Int64,
    "first_zero_row": pl.String,
    "hash": pl.String,
    "norm": pl.Float64,
    "adapter": pl.Boolean,
    "adapter_zero": pl.Boolean,
    "missing": pl.List(pl.String),
    "error": pl.String,
}
"""Columns of ``Run.scans``, one row a checkpoint; all but the name, the step and what is missing
are null where ``error`` says why its weights could not be read.

checkpoint: its name in the run. format: as ``scorers.weights`` names it. dtype: of most parameters
("bfloat16"). parameters: values stored, of every dtype. non_finite: how many values are NaN or
infinite, first_non_finite: the tensor of the first. zero_rows: rows of nothing but zeros in
floating matrices, those that LoRA starts at zero left out; first_zero_row: "tensor[row]". hash:
SHA-256 over names, dtypes, shapes and bytes, whatever the file format and the sharding. norm: L2
norm of all floating values, null where it is not finite. adapter: PEFT weights alone.
adapter_zero: a LoRA adapter that adds exactly nothing to its base; null for full weights and for
adapters without LoRA matrices. missing: as ``Checkpoint.missing``.
"""


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

    def between(self, first: int, last: int) -> list[float]:
        """Return the values from one step to another, both included."""
        pairs = zip(self.steps, self.values, strict=True)
        return [value for step, value in pairs if first <= step <= last]


def of_run(function: Callable[Concatenate[Run, P], T]) -> Callable[Concatenate[Run, P], T]:
    """Remember what a function says of the run that was asked about last, and of no other.

    A run that is no longer asked about is not kept alive. Arguments are hashable.
    """

    @lru_cache(maxsize=1)
    def known(run: Run) -> dict[object, T]:
        return {}

    @wraps(function)
    def asked(run: Run, /, *rest: P.args, **named: P.kwargs) -> T:
        found, of = known(run), (rest, *sorted(named.items()))
        if of not in found:
            found[of] = function(run, *rest, **named)
        return found[of]

    return asked


def log_fingerprint(run: Run) -> str | None:
    """Return what tells a run's log from any other's: a hash of its first steps; None without one.

    A log that goes on keeps it, and so does a copy.
    """
    rows = run.observations.filter(pl.col("split") == "train")
    first = rows.select(pl.col("step").unique().sort().head(FIRST_STEPS)).collect()["step"]
    told = (
        rows.filter(pl.col("step").is_in(first.to_list())).select("step", "key", "value").collect()
    )
    lines = sorted({f"{step} {key} {value:.5g}" for step, key, value in told.iter_rows()})
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16] if lines else None


def prefers(run: Run) -> bool:
    """Say whether a run learns from preference pairs, without samples of its own."""
    return run.algorithm in PREFERENCE or (
        run.algorithm == "unknown" and "dpo_margin" in run.columns
    )


@of_run
def _filled(run: Run) -> dict[str, tuple[int, bool]]:
    """Return of every column how many values are finite, and whether any value is not 0."""
    names = [name for name in run.columns if name in run.metrics.columns]
    counts = run.metrics.select(pl.col(names).is_finite().sum()).row(0) if names else ()
    others = run.metrics.select((pl.col(names) != 0.0).any()).row(0) if names else ()
    return {
        name: (count, bool(other)) for name, count, other in zip(names, counts, others, strict=True)
    }


def finite_rows(run: Run, metric: str) -> int:
    """Return how many finite values a column of ``run.metrics`` holds; 0 where there is none."""
    return _filled(run).get(metric, (0, False))[0]


def all_zeros(run: Run, metric: str) -> bool:
    """Say whether a column holds no value but exact zeros: it was never computed."""
    return not _filled(run)[metric][1]


def logged(run: Run, metric: str) -> bool:
    """Say whether a column of ``run.metrics`` exists and holds a finite value."""
    return finite_rows(run, metric) > 0


@of_run
def silent_since(run: Run, metric: str) -> int | None:
    """Return the step after which a metric was no longer logged although the log went on.

    None where it was logged to the end: the rows after its last value are no more than four of its
    usual gaps, or five.
    """
    rows = run.metrics.select(
        "step", there=pl.col(metric).is_not_null(), index=pl.int_range(pl.len())
    ).filter("there")
    if not rows.height:
        return None
    gap = rows["index"].diff().median()
    usual = float(gap) if isinstance(gap, int | float) else 1.0
    after = run.metrics.height - 1 - int(rows["index"][-1])
    return int(rows["step"][-1]) if after > max(5.0, 4 * usual) else None


def track(run: Run, *metrics: str) -> Track:
    """Return the finite values of the best measured of these columns.

    A rule asks for what it declared to need; ValueError otherwise.
    """
    metric = best(run, metrics)
    if metric is None:
        raise ValueError(f"none of {', '.join(metrics)} is logged")
    return _track(run, metric)


@of_run
def _track(run: Run, metric: str) -> Track:
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
    rows = _observed(run, metric)
    place = bisect_right(rows["step"], step) - 1
    if place >= 0 and rows["step"][place] == step:
        _, file, key, line = rows.row(place)
        return Location(file, key=key, line=line)
    return run.columns[metric].sources[-1]


@lru_cache(maxsize=1)
def _observed(run: Run, metric: str) -> pl.DataFrame:
    """Return step, source, key and line of everything logged of a metric, by step."""
    split = "eval" if metric.startswith("eval_") else "train"
    return (
        run.observations.filter(
            (pl.col("metric") == metric.removeprefix("eval_"))
            & (pl.col("split") == split)
            & pl.col("step").is_not_null()
        )
        .select("step", "source", "key", "line")
        .sort("step", maintain_order=True)
        .collect()
    )


def best(run: Run, metrics: Sequence[str]) -> str | None:
    """Return the first column that was measured to the end, else measured, else logged at all.

    A column of zeros was not measured, whatever it is called.
    """
    there = [name for name in metrics if logged(run, name)]
    measured = [name for name in there if not all_zeros(run, name)]
    lasting = [name for name in measured if silent_since(run, name) is None]
    return next(iter((*lasting, *measured, *there)), None)


@dataclass(frozen=True, slots=True)
class Item:
    """One response, measured (``responses.MEASURES`` says how).

    length: in the ``unit`` of its batch. distinct: shares of different 1-, 2- and 3-grams of its
    tokens. period, covered: characters of the loop at its end. run, run_of: its longest run of one
    character. ratio: compressed over plain size. gopher: repetition thresholds that it exceeds.
    ended: whether it ends with the end token, None where the file shows none. nll, ref_nll: minus
    the log-probability of the ``scored`` tokens under policy and reference, None where the file has
    none that is possible. thirds: the same per token over the first and over the last third of
    them; None with ``nll`` and below three tokens.
    """

    line: int
    prompt: str | None
    text: str
    group: str | None
    reward: float | None
    components: Mapping[str, float] | None
    truncated: bool | None
    length: int
    distinct: tuple[float | None, float | None, float | None]
    period: int
    covered: int
    run: int
    run_of: str
    ratio: float | None
    gopher: tuple[str, ...]
    script: str | None
    switches: int
    marks_only: bool
    ended: bool | None
    nll: float | None
    ref_nll: float | None
    scored: int
    thirds: tuple[float, float] | None = None

    @property
    def words(self) -> list[str]:
        """The words of the response."""
        return text.words(self.text)

    @property
    def empty(self) -> bool:
        """Whether it holds nothing, or nothing but marks of special tokens."""
        return self.marks_only or not self.text.strip()

    @property
    def looping(self) -> bool:
        """Whether it ends in a loop: three periods or more, ``LOOP`` characters or more."""
        return self.covered >= LOOP


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
        """Perplexity under the reference of the responses that the policy scored, likewise."""
        return _perplexity([(item.ref_nll, item.scored) for item in self.items])

    @property
    def k1(self) -> float | None:
        """k1 estimate of KL(policy || reference), nats a token, from the file's numbers.

        Over the responses that carry the log-probabilities of both models.
        """
        return _mean_nll(
            [
                (item.ref_nll - item.nll, item.scored)
                for item in self.items
                if item.nll is not None and item.ref_nll is not None
            ]
        )

    @property
    def mean_length(self) -> float:
        """Mean length in ``unit``."""
        return fmean(item.length for item in self.items)

    @property
    def distinct_3(self) -> float | None:
        """Mean share of different 3-grams within a response; None where all are too short."""
        known = [item.distinct[2] for item in self.items if item.distinct[2] is not None]
        return fmean(known) if known else None

    @property
    def looping(self) -> float:
        """Share of responses that end in a loop."""
        return fmean(item.looping for item in self.items)

    def share_of_length(self, length: int) -> float:
        """Return the share of responses of exactly that length."""
        return fmean(item.length == length for item in self.items)


@lru_cache(maxsize=1)
def batches(run: Run) -> tuple[Batch, ...]:
    """Return the run's responses by source and step, sources in order, steps ascending.

    Lengths are tokens where at least half of a file's responses carry token ids or tell how many
    tokens they have, and responses that do not are then left out; words otherwise.
    """
    there = run.samples.collect_schema().names()
    known = [name for name in MEASURES if name in there]
    frame = run.samples.select(*_SAMPLED, *known).drop_nulls("response").collect()
    tokens = pl.coalesce(pl.col("token_ids").list.len().cast(pl.Int64), "tokens")
    frame = frame.with_columns(tokens=tokens)
    share = frame.group_by("source").agg(pl.col("tokens").is_not_null().mean())
    in_tokens = {source for source, told in share.iter_rows() if told >= 0.5}
    ends = {source: end_token(part) for (source,), part in frame.group_by("source")}
    groups: dict[tuple[str, int | None], list[Item]] = defaultdict(list)
    for block in blocks(frame):
        measured = _measured(block)
        for row, found in zip(
            block.iter_rows(named=True), measured.iter_rows(named=True), strict=True
        ):
            source = row["source"]
            length = row["tokens"] if source in in_tokens else found["words"]
            if length is not None:
                groups[source, row["step"]].append(_item(row, found, ends[source], length))
    return tuple(
        Batch(source, step, "tokens" if source in in_tokens else "words", tuple(items))
        for (source, step), items in sorted(groups.items(), key=_place)
    )


_SAMPLED = (
    *("source", "step", "line", "prompt", "response", "group", "reward", "reward_components"),
    *("truncated", "tokens", "token_ids", "logprobs", "ref_logprobs"),
)


def _measured(block: pl.DataFrame) -> pl.DataFrame:
    """Measure responses, unless that was done when they were read."""
    if "digest" in block.columns:
        return block.select(*MEASURES)
    return measure(block["response"].to_list(), block["token_ids"].to_list())


def blocks(frame: pl.DataFrame) -> Iterator[pl.DataFrame]:
    """Cut samples into blocks whose responses can be measured together."""
    sizes = frame.select(pl.col("response").str.len_bytes().cum_sum() // BLOCK)
    starts = [0]
    for place, block in enumerate(sizes["response"]):
        if block != sizes["response"][starts[-1]] or place - starts[-1] == MOST_TEXTS:
            starts.append(place)
    for start, stop in zip(starts, [*starts[1:], frame.height], strict=True):
        if stop > start:
            yield frame.slice(start, stop - start)


def end_token(frame: pl.DataFrame) -> int | None:
    """Return the token id that ends responses: the commonest last one that stands nowhere else.

    frame: responses with their ``token_ids``. None where none ends a twentieth of them, eight or
    more, of ``END_LENGTHS`` different lengths: what stands last by chance, or because a limit cut
    all answers there, is no end token.
    """
    ids = frame.lazy().select(id=pl.col("token_ids").list.drop_nulls()).drop_nulls()
    length = pl.col("id").list.len()
    before = pl.col("id").list.head(length.cast(pl.Int64).clip(1) - 1)
    inside = set(ids.select(before.explode().unique()).collect()["id"])
    counted = (
        ids.select(last=pl.col("id").list.last(), length=length)
        .drop_nulls()
        .group_by("last")
        .agg(count=pl.len(), lengths=pl.col("length").n_unique())
        .sort("count", "last", descending=[True, False])
        .collect()
    )
    least = max(FEWEST_ENDS, float(counted["count"].sum()) * END_SHARE)
    for token, count, lengths in counted.head(10).iter_rows():
        if token not in inside and count >= least and lengths >= END_LENGTHS:
            return int(token)
    return None


def _item(row: Mapping[str, Any], found: Mapping[str, Any], end: int | None, length: int) -> Item:
    nll, count = _nll(row["logprobs"]), len(row["logprobs"] or ())
    reward, last = row["reward"], found["last_id"]
    components = row["reward_components"]
    return Item(
        line=row["line"],
        prompt=row["prompt"],
        text=row["response"],
        group=row["group"],
        reward=reward if reward is not None and math.isfinite(reward) else None,
        components=json.loads(components) if components else None,
        truncated=row["truncated"],
        length=length,
        distinct=(found["distinct_1"], found["distinct_2"], found["distinct_3"]),
        period=found["period"],
        covered=found["covered"],
        run=found["run"],
        run_of=found["run_of"] or "",
        ratio=found["ratio"],
        gopher=tuple(found["gopher"].split(",")) if found["gopher"] else (),
        script=found["script"],
        switches=found["switches"],
        marks_only=found["marks_only"],
        ended=None if end is None or last is None else last == end,
        nll=nll,
        ref_nll=None if nll is None else _nll(row["ref_logprobs"], count),
        scored=0 if nll is None else count,
        thirds=None if nll is None else _thirds(row["logprobs"]),
    )


def _place(entry: tuple[tuple[str, int | None], list[Item]]) -> tuple[str, bool, int]:
    (source, step), _ = entry
    return source, step is not None, step or 0


def _nll(logprobs: list[float] | None, count: int | None = None) -> float | None:
    """Sum minus the log-probabilities; None where one is impossible or there are not ``count``."""
    if not logprobs or len(logprobs) != (count or len(logprobs)):
        return None
    if not all(-LARGEST < value <= ROUNDING for value in logprobs):
        return None
    return -math.fsum(logprobs)


def _thirds(logprobs: list[float]) -> tuple[float, float] | None:
    """Return minus the mean log-probability of the first and of the last third of the tokens."""
    third = len(logprobs) // 3
    return (-fmean(logprobs[:third]), -fmean(logprobs[-third:])) if third else None


def ladders(run: Run, fewest: int) -> list[list[Batch]]:
    """Return, for each sample file, its batches of known step with at least ``fewest`` responses.

    Files that differ by the numbers in their names alone, one a step, are one: completions_00005.
    Files with fewer than two such steps are left out: nothing can be compared there.
    """
    files: dict[tuple[str, str], list[Batch]] = defaultdict(list)
    for batch in batches(run):
        if batch.step is not None and len(batch.items) >= fewest:
            files[_NUMBERS.sub("#", batch.source), batch.unit].append(batch)
    return [
        sorted(ladder, key=lambda batch: batch.step or 0)
        for ladder in files.values()
        if len({batch.step for batch in ladder}) == len(ladder) > 1
    ]


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


@lru_cache(maxsize=1)
def sample_fields(run: Run) -> frozenset[str]:
    """Return the names of the sample fields that hold anything at all."""
    counts = run.samples.select(pl.all().count()).collect().row(0, named=True)
    return frozenset(name for name, count in counts.items() if count)


@dataclass(frozen=True, slots=True)
class Scan:
    """The weights of one checkpoint: a row of ``Run.scans`` without an error (see ``SCANS``)."""

    checkpoint: str
    path: str
    step: int
    parameters: int
    finite: bool
    non_finite: int
    first_non_finite: str | None
    zero_rows: int
    first_zero_row: str | None
    hash: str
    norm: float | None
    adapter: bool
    adapter_zero: bool | None

    def comparable(self, other: Scan) -> bool:
        """Say whether both hold as many weights of the same kind, so that sizes can be compared."""
        return self.adapter == other.adapter and self.parameters == other.parameters


_FROM_SCANS = [item.name for item in fields(Scan) if item.name != "path"]


def scans(run: Run) -> list[Scan]:
    """Return the checkpoints whose weights were read, by step; none where nobody scanned."""
    if run.scans is None:
        return []
    paths = {item.name: item.path for item in run.checkpoints}
    rows = run.scans.filter(pl.col("error").is_null()).sort("step", maintain_order=True)
    return [
        Scan(path=paths.get(row["checkpoint"], row["checkpoint"]), **row)
        for row in rows.select(_FROM_SCANS).iter_rows(named=True)
    ]


def neighbours(found: Sequence[Scan]) -> list[tuple[Scan, Scan]]:
    """Return each scan with the last comparable one of an earlier step."""
    pairs = []
    for place, scan in enumerate(found):
        before = [item for item in found[:place] if item.step < scan.step and item.comparable(scan)]
        if before:
            pairs.append((before[-1], scan))
    return pairs


def scan_onset(run: Run, found: Scan, before: Scan | None) -> Onset:
    """Date what a checkpoint shows and the one before it did not: in rows of the log."""
    step = found.step + run.log_offset
    first = (before.step if before else 0) + run.log_offset + 1
    return Onset(step, min(first, step), step)


def scan_evidence(
    found: Scan,
    observed: float | str,
    *,
    before: Scan | None = None,
    unit: str | None = None,
    limit_low: float | None = None,
    limit_high: float | None = None,
    tensor: str | None = None,
) -> Evidence:
    """Make evidence of a checkpoint's weights, compared with those ``before`` where given."""
    return Evidence(
        kind="checkpoint",
        subject=found.checkpoint,
        observed=observed,
        where=Location(found.path, tensor=tensor),
        limit_low=limit_low,
        limit_high=limit_high,
        unit=unit,
        first_step=before.step if before else found.step,
        last_step=found.step,
    )


def drifted(run: Run, standard_errors: float) -> str | None:
    """Return the first metric whose halves differ by more standard errors: the policy moved."""
    for name in (*SIGNS, *TRENDS):
        if logged(run, name) and abs(halves_differ(track(run, name).values)) > standard_errors:
            return name
    return None


def last_drawn(run: Run, keep: int, row: int | None = None) -> pl.DataFrame:
    """Return where the last samples stand: ``place`` in the frame, ``step``, ``source``, ``line``.

    In the order of steps, files and lines. row: the log's row up to which they were drawn; a sample
    of step s is that of row s + ``log_offset``. Samples without a step are last of none, unless no
    row is given and no sample has one.
    """
    where = ["step", "source", "line", "place"]
    places = run.samples.with_row_index("place").select(where).collect()
    told = places.drop_nulls("step")
    if row is not None:
        told = told.filter(pl.col("step") + run.log_offset <= row)
    elif not told.height:
        told = places
    return told.sort(where).tail(keep)


def _mean_nll(parts: list[tuple[float | None, int]]) -> float | None:
    known = [(nll, count) for nll, count in parts if nll is not None]
    tokens = sum(count for _, count in known)
    return math.fsum(nll for nll, _ in known) / tokens if tokens else None


def _perplexity(parts: list[tuple[float | None, int]]) -> float | None:
    mean = _mean_nll(parts)
    return math.exp(mean) if mean is not None and mean < LARGEST_EXPONENT else None
