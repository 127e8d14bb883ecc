"""The ladder of checkpoints: what each is like beside the start, and within which bounds.

A rung is rejected only where the whole 95 % interval of an estimate lies outside a bound. What
nobody measured is told, and never counts as passed.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from statistics import median
from typing import Literal

from rlhfdoctor import scores
from rlhfdoctor.measures import Batch, Track, batches, best, ladders, of_run, track
from rlhfdoctor.model import Checkpoint, Onset, Reading, Run, Rung
from rlhfdoctor.rules._heldout import held_out, name_of, rewarding
from rlhfdoctor.rules._kl import KLS
from rlhfdoctor.series import (
    LIKELY,
    MEDIAN_ERROR,
    NORMAL_95,
    noise,
    ratio_interval,
    start_level,
)

AROUND = 2
"""Logged rows on each side of a checkpoint's own whose median is its level."""


Distance = Literal["held", "shown", "mistrusted"]
"""What the KL is taken for: held against that of the onset, where it is the KL that left its level;
shown alone; or believed by nobody, where the reference is the fault."""


def rungs(run: Run, onset: Onset | None, distance: Distance = "shown") -> tuple[Rung, ...]:
    """Return one rung a checkpoint of the policy, steps ascending.

    onset: the rows from its low end on belong to the collapse; they are no part of the level of a
    checkpoint before it.
    """
    return tuple(_rung(run, checkpoint, onset, distance) for checkpoint in run.policies)


def _rung(run: Run, checkpoint: Checkpoint, onset: Onset | None, distance: Distance) -> Rung:
    readings: dict[str, Reading] = {}
    unknown: list[str] = []
    outside: dict[str, str] = {}
    until = None if onset is None else onset.low
    for name, (read, least, most) in QUANTITIES.items():
        found = read(run, checkpoint, until)
        if found is None:
            unknown.append(f"{name}: not measured")
            continue
        readings[name] = found
        if found.lacks:
            unknown.append(f"{name}: {found.value:.4g}, {found.lacks}")
        elif found.outside(least, most):
            outside[name] = f"{name} {found.value:.4g} is {found.share:.0%} of the start's"
    if "finished" not in outside:
        outside.pop("length", None)
    apart = _distance(run, checkpoint, onset)
    if apart is None:
        unknown.append("KL: not measured")
    else:
        readings["kl"] = apart
        told = f"KL {apart.value:.4g} {apart.unit}"
        if distance == "mistrusted":
            unknown.append(
                "KL: the reference is the fault, so that no logged KL tells the distance"
            )
        elif distance == "held" and apart.lacks:
            unknown.append(f"{told}: {apart.lacks}")
        elif distance == "held" and apart.outside(0.0, 1.0):
            outside["kl"] = f"{told} is above the onset's {apart.base:.4g}"
    score = _held_out(run, checkpoint)
    if score is not None:
        readings["held_out"] = score
    return Rung(checkpoint, readings, tuple(outside.values()), tuple(unknown))


# How each quantity is read: recomputed first, then from samples, then from the log


def _perplexity(run: Run, checkpoint: Checkpoint, until: int | None) -> Reading | None:
    found = _recomputed(run, checkpoint, "perplexity_policy", "perplexity", "perplexity")
    if found is not None and not found.lacks:
        return found
    return _sampled(run, checkpoint, _batch_perplexity, "perplexity") or found


def _entropy(run: Run, checkpoint: Checkpoint, until: int | None) -> Reading | None:
    unit = "nats/token"
    found = _recomputed(run, checkpoint, "entropy_token", "entropy", unit)
    if found is not None and not found.lacks:
        return found
    return _logged(run, checkpoint, until, ("entropy",)) or found


def _length(run: Run, checkpoint: Checkpoint, until: int | None) -> Reading | None:
    return _logged(run, checkpoint, until, ("response_length_mean",)) or _sampled(
        run, checkpoint, _batch_length, ""
    )


def _finished(run: Run, checkpoint: Checkpoint, until: int | None) -> Reading | None:
    found = _logged(run, checkpoint, until, ("eos_rate", "num_terminated", "num_eos_tokens"))
    if found is not None:
        return found
    cut = _logged(run, checkpoint, until, ("truncation_rate",))
    if cut is None or cut.base is None:
        return _sampled(run, checkpoint, _batch_finished, "fraction")
    low, high = cut.low, cut.high
    return Reading(
        1 - cut.value,
        None if high is None else 1 - high,
        None if low is None else 1 - low,
        1 - cut.base,
        "fraction",
        cut.source,
    )


Read = Callable[[Run, Checkpoint, "int | None"], "Reading | None"]

QUANTITIES: Mapping[str, tuple[Read, float, float]] = {
    "perplexity": (_perplexity, 0.6, 1.6),
    "entropy": (_entropy, 0.75, 1.25),
    "length": (_length, 0.5, 2.0),
    "finished": (_finished, 0.5, math.inf),
}
"""How each quantity is read, and which shares of its start it may have.

Those of perplexity and entropy are practitioners': on runs that collapsed the checkpoints before
and after the onset lie far on both sides of them. A sound run may learn to answer five times as
long, or in a third of the words: a length out of its bounds counts only where fewer answers end by
themselves as well. [H]
"""


def _recomputed(
    run: Run, checkpoint: Checkpoint, name: str, stem: str, unit: str
) -> Reading | None:
    """Return a recomputed quantity beside the reference's own on the responses of step 0."""
    row = recomputed_row(run, checkpoint)
    if row is None or not math.isfinite(row[name]):
        return None
    start = scores.starts(run, row["reference"], row["samples_file"])
    base = None if start is None or not row["on_policy"] else float(start[name])
    low, high = row[f"{stem}_low"], row[f"{stem}_high"]
    return Reading(float(row[name]), low, high, base, unit, f"recomputed on {row['samples_file']}")


def recomputed_row(run: Run, checkpoint: Checkpoint) -> scores.Score | None:
    """Return what was recomputed of a checkpoint, on its own responses where there are some."""
    return _recomputed_rows(run).get(checkpoint.name)


@of_run
def _recomputed_rows(run: Run) -> Mapping[str, scores.Score]:
    """Return the row that counts of each checkpoint, against the reference that counts."""
    reference = scores.principal(run)
    found = [
        row
        for row in scores.rows(run)
        if row["part"] == "response"
        and reference is not None
        and row["reference"] == reference.name
    ]
    found.sort(key=lambda row: (row["on_policy"], row["samples"] or 0))
    return {row["checkpoint"]: row for row in found}


def sampled_perplexity(run: Run, checkpoint: Checkpoint) -> float | None:
    """Return the perplexity of the samples of a checkpoint's step, by their own numbers."""
    found = _sampled(run, checkpoint, _batch_perplexity, "perplexity")
    return found.value if found else None


def level_at(run: Run, metric: str, step: int) -> float | None:
    """Return the level of a logged metric about a step; None where none was measured."""
    found = _measured(run, (metric,))
    at = None if found is None else _level(run, found, step, None)
    return at[0] if at else None


Estimate = tuple[float, tuple[float, float] | None]
"""A value and its interval."""


def _sampled(
    run: Run,
    checkpoint: Checkpoint,
    estimate: Callable[[Batch], Estimate | None],
    unit: str,
) -> Reading | None:
    """Return a quantity of the samples of a checkpoint's step, beside the first of their file.

    Of several files the one with the most responses at that step, those with a first step before
    any that have none.
    """
    for first, batch in _sampled_at(run).get(checkpoint.step, ()):
        found = estimate(batch)
        if found is not None:
            start = estimate(first) if first is not None else None
            low, high = found[1] or (None, None)
            base = None if start is None else start[0]
            return Reading(found[0], low, high, base, unit or batch.unit, batch.source)
    return None


@of_run
def _sampled_at(run: Run) -> Mapping[int, Sequence[tuple[Batch | None, Batch]]]:
    """Return the samples of each step, those with a first step of their file before the others."""
    found: dict[int, list[tuple[Batch | None, Batch]]] = defaultdict(list)
    for batch in batches(run):
        if batch.step is not None:
            found[batch.step].append((None, batch))
    for ladder in ladders(run, 1):
        for batch in ladder[1:]:
            found[batch.step or 0].append((ladder[0], batch))
    for there in found.values():
        there.sort(key=lambda pair: (pair[0] is None, -len(pair[1].items)))
    return found


def _batch_perplexity(batch: Batch) -> Estimate | None:
    value = batch.perplexity
    if value is None:
        return None
    known = [(item.nll, item.scored, _cluster(item.prompt, item.line)) for item in batch.items]
    told = [(nll, count, cluster) for nll, count, cluster in known if nll is not None]
    interval = ratio_interval(
        [nll for nll, _, _ in told],
        [count for _, count, _ in told],
        [cluster for _, _, cluster in told],
    )
    return value, None if interval is None else (_exp(interval[0]), _exp(interval[1]))


def _batch_length(batch: Batch) -> Estimate | None:
    return _mean(batch, [float(item.length) for item in batch.items])


def _batch_finished(batch: Batch) -> Estimate | None:
    told = [
        item.ended
        if item.ended is not None
        else None
        if item.truncated is None
        else not item.truncated
        for item in batch.items
    ]
    known = [float(value) for value in told if value is not None]
    return _mean(batch, known) if len(known) == len(batch.items) else None


def _mean(batch: Batch, values: Sequence[float]) -> Estimate:
    clusters = [_cluster(item.prompt, item.line) for item in batch.items]
    interval = ratio_interval(values, [1.0] * len(values), clusters)
    return math.fsum(values) / len(values), interval


def _cluster(prompt: str | None, line: int) -> object:
    """Return what responses of one prompt have in common; without prompts each is alone."""
    return line if prompt is None else prompt


def _exp(value: float) -> float:
    try:
        return math.exp(value)
    except OverflowError:
        return math.inf


def _logged(
    run: Run, checkpoint: Checkpoint, until: int | None, metrics: tuple[str, ...]
) -> Reading | None:
    """Return the level of a logged quantity about a checkpoint's row, beside the first rows'."""
    found = _measured(run, metrics)
    at = None if found is None else _level(run, found, checkpoint.step + run.log_offset, until)
    if found is None or at is None:
        return None
    value, half = at
    low, high = (None, None) if half is None else (value - half, value + half)
    base = start_level(found.values)
    return Reading(value, low, high, base, found.column.unit, _source(found))


@of_run
def _measured(run: Run, metrics: tuple[str, ...]) -> Track | None:
    """Return the best measured of some columns; None where none was."""
    name = best(run, metrics)
    found = None if name is None else track(run, name)
    return None if found is None or found.placeholder else found


def _source(found: Track) -> str:
    where = found.column.sources[-1]
    return f"{where.file} {where.key}" if where.key else where.file


def _level(run: Run, found: Track, at: int, until: int | None) -> tuple[float, float | None] | None:
    """Return the median of the rows about a step, and half of its 95 % interval.

    Rows from ``until`` on are left out, unless the step itself lies there.
    """
    count = len(found)
    if until is not None and at < until:
        count = bisect_right(found.steps, until - 1)
    place = bisect_right(found.steps, at, hi=count) - 1
    if place < 0:
        return None
    window = found.values[max(place - AROUND, 0) : min(place + AROUND + 1, count)]
    if count < 3:
        return median(window), None
    error = MEDIAN_ERROR * _scatter(run, found.metric, count) / math.sqrt(len(window))
    return median(window), NORMAL_95 * error


@of_run
def _scatter(run: Run, metric: str, rows: int) -> float:
    """Return the row-to-row noise of the first rows of a metric."""
    return noise(track(run, metric).values[:rows])


def _distance(run: Run, checkpoint: Checkpoint, onset: Onset | None) -> Reading | None:
    """Return the KL at a checkpoint beside that at the onset, of one column and one unit.

    A logged KL may be of any unit, for it is compared with itself alone. Without one the
    recomputed KL is shown; what it was at the onset nobody knows.
    """
    found = _measured(run, KLS)
    logged = _logged(run, checkpoint, None if onset is None else onset.low, KLS)
    if found is not None and logged is not None:
        then = None if onset is None else _level(run, found, onset.step, None)
        return replace(logged, base=None if then is None else then[0])
    row = recomputed_row(run, checkpoint)
    if row is None or not math.isfinite(row["kl_ref_token_exact"]):
        return None
    source = f"recomputed on {row['samples_file']}"
    low, high = row["interval_low"], row["interval_high"]
    return Reading(float(row["kl_ref_token_exact"]), low, high, None, "nats/token", source)


def _held_out(run: Run, checkpoint: Checkpoint) -> Reading | None:
    """Return the last held-out score up to a checkpoint.

    An evaluation at step s is of the weights after s updates, whatever ``log_offset`` is.
    """
    found = best_held_out(run)
    if found is None:
        return None
    place = bisect_right(found.steps, checkpoint.step) - 1
    if place < 0:
        return None
    value = found.values[place]
    return Reading(value, None, None, found.values[0], found.column.unit, _source(found))


@of_run
def best_held_out(run: Run) -> Track | None:
    """Return the held-out score that was logged most often, or the loss on held-out pairs."""
    tracks = held_out(run)
    scored = [found for found in rewarding(tracks) if not found.placeholder]
    losses = [found for found in tracks if name_of(found.metric) == "loss_total"]
    return max(scored or losses, key=len, default=None)


def best_evaluation(run: Run) -> tuple[Track, int, float] | None:
    """Return the held-out quantity that counts, the step of its best value, and the least good one.

    Values within the noise of the best are as good: ``LIKELY`` standard deviations, from second
    differences, which no trend widens, where there are ``EVALUATIONS`` of them.
    """
    found = best_held_out(run)
    if found is None:
        return None
    scores = [merit(found, value) for value in found.values]
    best = max(scores)
    steps = [after - before for before, after in pairwise(scores)]
    slack = LIKELY * noise(steps) / math.sqrt(3) if len(scores) >= EVALUATIONS else 0.0
    last = max(
        step for step, score in zip(found.steps, scores, strict=True) if score >= best - slack
    )
    return found, last, best - slack


EVALUATIONS = 10
"""Evaluations from which their noise can be told from their trend. [H]"""


def merit(found: Track, value: float) -> float:
    """Return a held-out value so that more is better."""
    return -value if name_of(found.metric) == "loss_total" else value
