"""A sample file surveyed: lengths, n-grams, repetition, duplicates, and drift by step."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from statistics import fmean, pstdev
from typing import Any

from rlhfdoctor import text
from rlhfdoctor.measures import Batch, Item, batches
from rlhfdoctor.model import Run

BUCKETS = 10
"""Bars of the length histogram."""

WORST = 5
"""Looping samples that are shown, each text once."""

SHOWN = 60
"""Characters of a looping sample that are shown."""


def survey(run: Run, ngrams: Sequence[int], top: int, *, by_step: bool) -> dict[str, Any]:
    """Return the survey of a run's responses under its published keys.

    ngrams: the n to count. top: n-grams listed for each n, by occurrences, ties in text order.
    """
    found = batches(run)
    items = [item for batch in found for item in batch.items]
    document: dict[str, Any] = {
        "file": run.path,
        "field": "response",
        "samples": len(items),
        "skipped_lines": sum(note.left_out for note in run.notes),
        "length": _lengths(items, found[0].unit) if items else None,
        "ngrams": [gram for n in ngrams for gram in _ngrams(items, n, top)],
        "repetition": _repetition(items),
        "duplicates": _duplicates(run),
        "notes": [{"where": note.where, "text": note.text} for note in run.notes],
    }
    if by_step:
        document["steps"] = [_step(batch) for batch in found]
    return document


def _lengths(items: Sequence[Item], unit: str) -> dict[str, Any]:
    lengths = sorted(len(item.tokens) for item in items)
    mean, spread = fmean(lengths), pstdev(lengths)
    return {
        "unit": unit,
        "min": lengths[0],
        "max": lengths[-1],
        "mean": mean,
        "std": spread,
        "p50": _percentile(lengths, 0.50),
        "p90": _percentile(lengths, 0.90),
        "p99": _percentile(lengths, 0.99),
        "over_3_sigma": sum(length > mean + 3 * spread for length in lengths),
        "histogram": _histogram(lengths),
    }


def _percentile(ordered: Sequence[int], share: float) -> int:
    """Return the smallest value that at least ``share`` of the values do not exceed."""
    return ordered[max(math.ceil(share * len(ordered)) - 1, 0)]


def _histogram(lengths: Sequence[int]) -> list[dict[str, int]]:
    low, high = lengths[0], lengths[-1]
    width = max(math.ceil((high - low + 1) / BUCKETS), 1)
    counts = Counter((length - low) // width for length in lengths)
    return [
        {
            "low": low + index * width,
            "high": min(low + (index + 1) * width - 1, high),
            "count": counts[index],
        }
        for index in range((high - low) // width + 1)
    ]


def _ngrams(items: Sequence[Item], n: int, top: int) -> list[dict[str, Any]]:
    occurrences, documents = text.count_ngrams((item.words for item in items), n)
    ranked = sorted(occurrences.items(), key=lambda entry: (-entry[1], entry[0]))[:top]
    return [
        {
            "n": n,
            "text": " ".join(gram),
            "count": count,
            "samples": documents[gram],
            "share": documents[gram] / len(items),
        }
        for gram, count in ranked
    ]


def _repetition(items: Sequence[Item]) -> dict[str, Any]:
    loops = [(item, *text.loop(item.tokens)) for item in items]
    looping = [(item, period, covered) for item, period, covered in loops if period]
    looping.sort(key=lambda entry: (-entry[2], entry[0].line))
    different = {" ".join(item.words): (item, period, n) for item, period, n in reversed(looping)}
    worst = sorted(different.values(), key=lambda entry: (-entry[2], entry[0].line))[:WORST]
    return {
        **{f"distinct_{n}": _distinct(items, n) for n in (1, 2, 3)},
        "looping": len(looping),
        "looping_share": len(looping) / len(items) if items else 0.0,
        "worst": [
            {
                "line": item.line,
                "period": period,
                "tokens": covered,
                "text": _beginning(" ".join(item.words)),
            }
            for item, period, covered in worst
        ],
    }


def _beginning(text: str) -> str:
    return text if len(text) <= SHOWN else text[:SHOWN] + "..."


def _distinct(items: Sequence[Item], n: int) -> float | None:
    shares = [text.distinct(item.tokens, n) for item in items]
    known = [share for share in shares if share is not None]
    return fmean(known) if known else None


def _duplicates(run: Run) -> dict[str, Any]:
    responses = run.samples.select("response").drop_nulls().collect()["response"]
    counts = [count for count in Counter(responses.to_list()).values() if count > 1]
    return {
        "groups": len(counts),
        "samples": sum(counts),
        "share": sum(counts) / responses.len() if responses.len() else 0.0,
    }


def _step(batch: Batch) -> dict[str, Any]:
    return {
        "source": batch.source,
        "step": batch.step,
        "samples": len(batch.items),
        "mean_length": batch.mean_length,
        "distinct_3": batch.distinct_3,
        "perplexity": batch.perplexity,
        "perplexity_reference": batch.ref_perplexity,
    }
