"""Series and sample files of a wanted shape, and what every piece of evidence must hold."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import fmean, variance
from typing import Any

from rlhfdoctor.model import Evidence, Run, Skip
from tests.builders import batch, judge, run_of

NAN = float("nan")
STEPS = (0, 10, 20, 30)


def halves(
    errors: float, *, rows: int = 10, centre: float = 0.0, spread: float = 1.0
) -> list[float]:
    """Return 2 x ``rows`` values whose halves' means differ by exactly so many standard errors."""
    wobble = [spread if index % 2 else -spread for index in range(rows)]
    rise = errors * math.sqrt(2 * variance(wobble) / rows)
    return [centre + value for value in wobble] + [centre + rise + value for value in wobble]


def correlated(xs: Sequence[float], r: float) -> list[float]:
    """Return values whose Pearson correlation with ``xs`` is exactly ``r``."""
    x = _unit([value - fmean(xs) for value in xs])
    zigzag = [float((index * index) % 7) for index in range(len(xs))]
    z = [value - fmean(zigzag) for value in zigzag]
    along = math.fsum(a * b for a, b in zip(x, z, strict=True))
    z = _unit([b - along * a for a, b in zip(x, z, strict=True)])
    return [r * a + math.sqrt(1 - r * r) * b for a, b in zip(x, z, strict=True)]


def _unit(values: Sequence[float]) -> list[float]:
    norm = math.sqrt(math.fsum(value * value for value in values))
    return [value / norm for value in values]


def responses(count: int = 8, length: int = 12) -> list[list[int]]:
    """Return token ids of responses in which no token comes twice."""
    return [[1000 * index + place for place in range(length)] for index in range(count)]


def files(
    *,
    logprobs: Sequence[float] | None = None,
    ref_logprobs: Sequence[float] | None = None,
    steps: Iterable[int] = STEPS,
    count: int = 8,
    source: str = "samples.jsonl",
) -> list[dict[str, Any]]:
    """Return one sample file: a token log-probability for each step."""
    rows: list[dict[str, Any]] = []
    for index, step in enumerate(steps):
        rows += batch(
            step,
            responses(count),
            logprob=logprobs[index] if logprobs else -3.0,
            ref_logprob=ref_logprobs[index] if ref_logprobs else None,
            source=source,
        )
    return rows


def silent(code: str, run: Run, **limits: float) -> bool:
    """Say whether a rule has no finding, whether it looked or could not."""
    outcome = judge(code, run, **limits)
    return isinstance(outcome, Skip) or not outcome


def logged(evidence: Evidence, key: str, unit: str) -> bool:
    """Say whether evidence points at a line of the log, under this key and in this unit."""
    return (
        evidence.kind == "metric"
        and evidence.subject == key
        and evidence.where.file == "log.jsonl"
        and evidence.where.key == key
        and evidence.where.line is not None
        and evidence.unit == unit
    )


def sampled(evidence: Evidence, file: str, unit: str) -> bool:
    """Say whether evidence points at a line of a sample file, in this unit."""
    return (
        evidence.kind == "samples"
        and evidence.where.file == file
        and evidence.where.line is not None
        and evidence.unit == unit
    )


def log_of(columns: Mapping[str, Any], **rest: Any) -> Run:
    """Return a run whose log holds these columns, where their names are not known beforehand."""
    return run_of(**rest, **columns)


def prose(place: int, words: int = 12) -> str:
    """Return a text of so many words; no word comes twice, in it or in that of another place."""
    return " ".join(f"word{place}x{index}" for index in range(words))


def sharing(
    *counts: int,
    of: int = 20,
    text: Callable[[int], str],
    other: Callable[[int], str] = prose,
    steps: bool = True,
    **fields: Any,
) -> list[dict[str, Any]]:
    """Return responses of steps 0, 10, 20, ... of which so many are ``text``, the others prose.

    Every response has a prompt of its own. steps: False leaves the step out. fields: of each
    response, as they are or as a function of its place among all.
    """
    rows: list[dict[str, Any]] = []
    for index, count in enumerate(counts):
        for number in range(of):
            place = len(rows)
            made = {key: call(place) if callable(call) else call for key, call in fields.items()}
            rows.append(
                {
                    "step": 10 * index if steps else None,
                    "prompt": f"prompt {place}",
                    "response": text(place) if number < count else other(place),
                    **made,
                }
            )
    return rows
