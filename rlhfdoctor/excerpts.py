"""A handful of a run's samples, cut to be read: secrets masked, the loop at their end apart.

A sample of step s is that of log row s + ``log_offset``. Nothing here judges.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl

from rlhfdoctor.masking import masked
from rlhfdoctor.measures import LOOP
from rlhfdoctor.model import Onset, Run
from rlhfdoctor.responses import spoken
from rlhfdoctor.text import loop

EACH = 3
"""Samples of each moment that are shown: a page of them is read, a batch is not. [H]"""

MOST_PROMPT, MOST_RESPONSE, MOST_LOOP = 240, 700, 280
"""Characters of a prompt, of a response before its loop, and of the loop that are shown. [H]"""

LOOKED = 100_000
"""Characters of a text that are masked and looked at; the rest is counted, not shown."""


@dataclass(frozen=True, slots=True)
class Excerpt:
    """One response, cut: what comes before the loop at its end, the loop, and what follows it.

    Each ends in an ellipsis where it is cut.

    loop: empty where the response does not end in one, by ``measures.LOOP``. period, covered: its
    characters, repeated and in all. left_out: characters of the response that are not shown.
    """

    source: str
    line: int
    step: int | None
    prompt: str
    reward: float | None
    said: str
    loop: str
    ending: str
    period: int
    covered: int
    left_out: int


@dataclass(frozen=True, slots=True)
class Moment:
    """Samples of one time of the run, and in words which they are."""

    which: str
    excerpts: tuple[Excerpt, ...]


def excerpts(run: Run, onset: Onset | None, each: int = EACH) -> tuple[Moment, ...]:
    """Return the last samples before the onset, the first after it, and the last of the run.

    Without an onset, or without steps in the samples, the last alone. Moments without a sample are
    left out.
    """
    places = (
        run.samples.with_row_index("place")
        .filter(pl.col("response").is_not_null())
        .select("step", "source", "line", "place")
        .collect()
        .sort("step", "source", "line", "place", nulls_last=False)
    )
    if onset is None or not places["step"].count():
        return _moments(run, {"The last samples": places.tail(each)})
    dated = places.drop_nulls("step").with_columns(row=pl.col("step") + run.log_offset)
    before = dated.filter(pl.col("row") < onset.low).tail(each)
    after = dated.filter(pl.col("row") >= onset.high).head(each)
    told = pl.concat([before, after])
    last = dated.tail(each).join(told, on="place", how="anti", maintain_order="left")
    return _moments(
        run,
        {"Before the onset": before, "From the onset on": after, "At the end": last},
    )


def taken(run: Run, places: pl.DataFrame) -> pl.DataFrame:
    """Return the samples at these places (``place``) of the frame, in this order."""
    order = places.select("place").with_row_index("order").lazy()
    found = run.samples.with_row_index("place").join(order, on="place")
    return found.sort("order").drop("place", "order").collect()


def _moments(run: Run, chosen: Mapping[str, pl.DataFrame]) -> tuple[Moment, ...]:
    return tuple(
        Moment(which, tuple(_excerpt(row) for row in taken(run, found).iter_rows(named=True)))
        for which, found in chosen.items()
        if found.height
    )


def _excerpt(row: Mapping[str, Any]) -> Excerpt:
    whole = row["response"]
    response = masked(whole[-LOOKED:])
    told = spoken(response)
    period, covered = loop(told)
    if covered < LOOP:
        period = covered = 0
    before, looped, ending = told[: len(told) - covered], told[len(told) - covered :], ""
    if len(whole) > LOOKED:
        before = masked(whole[:LOOKED])
    if covered <= MOST_LOOP:
        ending = response[len(told) :]
    shown = min(len(before), MOST_RESPONSE) + min(covered, MOST_LOOP) + min(len(ending), MOST_LOOP)
    return Excerpt(
        source=row["source"],
        line=row["line"],
        step=row["step"],
        prompt=_end(masked((row["prompt"] or "")[:LOOKED]), MOST_PROMPT),
        reward=row["reward"],
        said=_start(before, MOST_RESPONSE),
        loop=_start(looped, MOST_LOOP),
        ending=_start(ending, MOST_LOOP),
        period=period,
        covered=covered,
        left_out=max(len(response) - shown, 0) + max(len(whole) - LOOKED, 0),
    )


def _start(said: str, most: int) -> str:
    """Return the first ``most`` characters of a text, and an ellipsis where there are more."""
    return said if len(said) <= most else f"{said[:most]}\u2026"


def _end(said: str, most: int) -> str:
    """Return the last ``most`` characters likewise: the end of a prompt holds the question."""
    return said if len(said) <= most else f"\u2026{said[-most:]}"
