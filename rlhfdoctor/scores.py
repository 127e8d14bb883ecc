"""What was recomputed: ladders of checkpoints, and which reference the run was held to."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any

import polars as pl

from rlhfdoctor.measures import locate, silent_since
from rlhfdoctor.model import Evidence, Location, Onset, Run

_POSITIONS = {
    "first": pl.Int64,
    "last": pl.Int64,
    "tokens": pl.Int64,
    "policy": pl.Float64,
    "reference": pl.Float64,
    "kl": pl.Float64,
}

SCORES: dict[str, pl.DataType | type[pl.DataType]] = {
    "reference": pl.String,
    "checkpoint": pl.String,
    "step": pl.Int64,
    "role": pl.String,
    "samples_file": pl.String,
    "part": pl.String,
    "samples": pl.Int64,
    "on_policy": pl.Boolean,
    "tokens": pl.Int64,
    "mean_length": pl.Float64,
    "kl_ref_token_exact": pl.Float64,
    "interval_low": pl.Float64,
    "interval_high": pl.Float64,
    "kl_ref_response_exact": pl.Float64,
    "kl_k1_token": pl.Float64,
    "kl_k3_token": pl.Float64,
    "kl_k1_response": pl.Float64,
    "entropy_token": pl.Float64,
    "perplexity_policy": pl.Float64,
    "perplexity_reference": pl.Float64,
    "logprob_response_policy": pl.Float64,
    "logprob_response_reference": pl.Float64,
    "reward": pl.Float64,
    "margin": pl.Float64,
    "margin_nats": pl.Float64,
    "accuracy": pl.Float64,
    "logprob_gap": pl.Float64,
    "kl_k1_file": pl.Float64,
    "noise_floor": pl.Float64,
    "below_floor": pl.Boolean,
    "dtype": pl.String,
    "stored": pl.String,
    "seconds": pl.Float64,
    "perplexity_by_position": pl.List(pl.Struct(_POSITIONS)),
}
"""Columns of ``Run.scores``: one row a checkpoint, reference, sample file and part.

role: "policy", or "reference" for the reference's own row. part: "response", or "chosen" and
"rejected" of pairs. kl_*_token: nats a token, token-weighted; interval: 95 %, samples of one prompt
as one. kl_*_response: nats, summed over a response, mean. k1 and k3 are unbiased only on policy.
perplexity_*: of these tokens, token-weighted. logprob_response_*: nats, summed over a response,
mean. reward, margin: nats x beta; accuracy: share of pairs with a positive margin. logprob_gap:
mean distance of the file's own log-probabilities from these, nats a token. kl_k1_file: k1 by the
file's own log-probabilities of both models, nats a token. below_floor: the KL cannot be told from
zero. perplexity_by_position: by ranges of positions in the response, counted from 1.
"""

SAME_MODEL = 0.1
"""Nats a token. A sample file's own log-probabilities of step 0 are nearer than this to those of
the model that training started from; engines and half precision differ by 0.03 at most. [H]"""

OTHER_MODEL = 0.3
"""Nats a token from which on they are another model's. [H]"""

NEAR = 0.25
"""Share by which a logged KL may differ from a recomputed one and still be the same: 32 responses
scatter as much. [H]"""

NEAR_TOKEN = 0.02
"""Nats a token by which they may differ in any case. [H]"""

Score = Mapping[str, Any]
"""One row of ``Run.scores``."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """The trainer's own KL at a checkpoint beside the recomputed one, same estimator, same unit.

    metric: the logged column. limit: by how much they may differ. exact: KL over the whole
    vocabulary, nats a token.
    """

    step: int
    logged_step: int
    metric: str
    estimator: str
    unit: str
    logged: float
    recomputed: float
    exact: float
    limit: float
    samples_file: str
    checkpoint: str

    @property
    def agrees(self) -> bool:
        """Whether the two are the same number."""
        return abs(self.logged - self.recomputed) <= self.limit


@dataclass(frozen=True, slots=True)
class Held:
    """How a reference stands to the run.

    started: training started from it; None where no sample of step 0 tells. comparisons: one a
    checkpoint, steps ascending. first: exact KL of the first checkpoint to it, nats a token.
    """

    name: str
    started: bool | None
    comparisons: tuple[Comparison, ...]
    first: float | None

    @property
    def matches(self) -> bool | None:
        """Whether the trainer's KL was measured against it; None where nothing could be compared.

        Comparisons in which both numbers are next to zero tell nothing.
        """
        telling = [
            item for item in self.comparisons if max(abs(item.logged), item.recomputed) > item.limit
        ]
        return all(item.agrees for item in telling) if telling else None


def rows(run: Run, *, role: str = "policy") -> list[Score]:
    """Return the rows of ``run.scores`` of one role, steps ascending."""
    if run.scores is None:
        return []
    found = run.scores.filter(pl.col("role") == role).sort("step", maintain_order=True)
    return [*found.to_dicts()]


def ladders(run: Run, reference: str, part: str = "response") -> list[list[Score]]:
    """Return, for each sample file, its rows against one reference, steps ascending.

    Files that reach further come first.
    """
    files: dict[str, list[Score]] = defaultdict(list)
    for row in rows(run):
        if row["reference"] == reference and row["part"] == part:
            files[row["samples_file"]].append(row)
    return sorted(files.values(), key=lambda ladder: -ladder[-1]["step"])


def starts(run: Run, reference: str, samples_file: str) -> Score | None:
    """Return the reference's own row on a file: where the policy began."""
    for row in rows(run, role="reference"):
        if row["reference"] == reference and row["samples_file"] == samples_file:
            return row
    return None


@lru_cache(maxsize=1)
def held(run: Run) -> tuple[Held, ...]:
    """Return how each reference stands to the run, in the order in which they were given."""
    if run.scores is None:
        return ()
    names = list(dict.fromkeys(run.scores["reference"].to_list()))
    return tuple(
        Held(name, _started(run, name), tuple(_comparisons(run, name)), _first(run, name))
        for name in names
    )


def references(run: Run) -> tuple[Mapping[str, object], ...]:
    """Return what is known of each reference, for reports."""
    told = {str(item["name"]): item for item in run.references}
    return tuple(
        {
            **told.get(item.name, {"name": item.name}),
            "training_started_from_it": item.started,
            "matches_logged_kl": item.matches,
            "kl_first_checkpoint": item.first,
            "comparisons": [
                {**asdict(found), "agrees": found.agrees} for found in item.comparisons
            ],
        }
        for item in held(run)
    )


def principal(run: Run) -> Held | None:
    """Return the reference to judge by: the one training started from, else matched, else first."""
    known = held(run)
    started = [item for item in known if item.started]
    matching = [item for item in known if item.matches]
    return next(iter((*started, *matching, *known)), None)


def _started(run: Run, reference: str) -> bool | None:
    gaps = [
        row["logprob_gap"]
        for row in rows(run, role="reference")
        if row["reference"] == reference and row["on_policy"] and row["logprob_gap"] is not None
    ]
    if not gaps:
        return None
    nearest = min(gaps)
    return True if nearest < SAME_MODEL else False if nearest > OTHER_MODEL else None


def _first(run: Run, reference: str) -> float | None:
    found = [row for row in rows(run) if row["reference"] == reference]
    return found[0]["kl_ref_token_exact"] if found else None


def _comparisons(run: Run, reference: str) -> list[Comparison]:
    """Compare each checkpoint with the row that its weights sampled; the nearest file counts.

    The training batch itself gives the logged number back; fresh samples scatter around it.
    """
    best: dict[int, Comparison] = {}
    for row in rows(run):
        if row["reference"] != reference or row["part"] != "response" or not row["on_policy"]:
            continue
        for found in _compared(run, row):
            known = best.get(found.step)
            if known is None or _distance(found) < _distance(known):
                best[found.step] = found
    return [best[step] for step in sorted(best)]


def _distance(item: Comparison) -> float:
    return abs(item.logged - item.recomputed) / item.limit


def _compared(run: Run, row: Score) -> list[Comparison]:
    at = row["step"] + run.log_offset
    logged = run.metrics.filter(pl.col("step") == at)
    found = []
    for metric, estimators in (
        ("kl_ref_token", ("k1", "k3")),
        ("kl_ref_response", ("k1",)),
    ):
        if not logged.height or metric not in run.columns or not (run.metrics[metric] != 0.0).any():
            continue
        value = logged[metric][0]
        if value is None or value != value or silent_since(run, metric) is not None:
            continue
        told = run.columns[metric].estimator
        scale = row["mean_length"] if metric == "kl_ref_response" else 1.0
        for estimator in estimators:
            if told in ("k1", "k3") and told != estimator:
                continue
            recomputed = row[f"kl_{estimator}_{'token' if scale == 1.0 else 'response'}"]
            limit = max(NEAR_TOKEN * scale, NEAR * max(abs(value), abs(recomputed)))
            found.append(
                Comparison(
                    step=row["step"],
                    logged_step=at,
                    metric=metric,
                    estimator=estimator,
                    unit=run.columns[metric].unit,
                    logged=float(value),
                    recomputed=float(recomputed),
                    exact=float(row["kl_ref_token_exact"]),
                    limit=float(limit),
                    samples_file=row["samples_file"],
                    checkpoint=row["checkpoint"],
                )
            )
    return found


def score_evidence(
    row: Score,
    name: str,
    *,
    unit: str,
    estimator: str | None = None,
    last: Score | None = None,
    limit_low: float | None = None,
    limit_high: float | None = None,
) -> Evidence:
    """Make evidence of a recomputed number; ``last``: the row up to which it holds."""
    until = last or row
    return Evidence(
        kind="checkpoint",
        subject=f"scores.{name}",
        observed=float(until[name]),
        where=Location(until["checkpoint"], key=f"{name} on {row['samples_file']}"),
        limit_low=limit_low,
        limit_high=limit_high,
        unit=unit,
        estimator=estimator,
        first_step=row["step"],
        last_step=until["step"],
    )


def compared_evidence(run: Run, item: Comparison) -> tuple[Evidence, Evidence]:
    """Make evidence of the trainer's own number in a comparison, and of the recomputed one."""
    kind = "token" if item.metric == "kl_ref_token" else "response"
    name = f"kl_{item.estimator}_{kind}"
    logged = Evidence(
        kind="metric",
        subject=item.metric,
        observed=item.logged,
        where=locate(run, item.metric, item.logged_step),
        unit=item.unit,
        estimator=item.estimator,
        first_step=item.logged_step,
        last_step=item.logged_step,
    )
    recomputed = Evidence(
        kind="checkpoint",
        subject=f"scores.{name}",
        observed=item.recomputed,
        where=Location(item.checkpoint, key=f"{name} on {item.samples_file}"),
        unit=item.unit,
        estimator=item.estimator,
        first_step=item.step,
        last_step=item.step,
    )
    return logged, recomputed


def between(run: Run, ladder: Sequence[Score], bad: int) -> Onset:
    """Return the onset between the last good checkpoint and the first bad one, in logged steps."""
    at = ladder[bad]["step"] + run.log_offset
    if bad == 0:
        return Onset(at, min(at, run.first_step or at), at)
    return Onset(at, min(ladder[bad - 1]["step"] + run.log_offset + 1, at), at)
