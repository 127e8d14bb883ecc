"""What was recomputed: ladders of checkpoints, and which reference the run was held to."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from statistics import median
from typing import Any

import polars as pl

from rlhfdoctor.measures import finite_rows, locate, silent_since, track
from rlhfdoctor.model import Evidence, Location, Onset, Run

POSITIONS = {
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
    "entropy_low": pl.Float64,
    "entropy_high": pl.Float64,
    "perplexity_policy": pl.Float64,
    "perplexity_low": pl.Float64,
    "perplexity_high": pl.Float64,
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
    "perplexity_by_position": pl.List(pl.Struct(POSITIONS)),
}
"""Columns of ``Run.scores``: one row a checkpoint, reference, sample file and part.

role: "policy", or "reference" for the reference's own row. part: "response", or "chosen" and
"rejected" of pairs. kl_*_token: nats a token, token-weighted; interval: 95 %, samples of one prompt
as one; *_low, *_high: likewise of the entropy and of the policy's perplexity. kl_*_response: nats,
summed over a response, mean. k1 and k3 are unbiased only on policy. perplexity_*: of these tokens,
token-weighted. logprob_response_*: nats, summed over a response, mean. reward, margin: nats x beta;
accuracy: share of pairs with a positive margin. logprob_gap: mean distance of the file's own
log-probabilities from these, nats a token. kl_k1_file: k1 by the file's own log-probabilities of
both models, nats a token. below_floor: the KL cannot be told from zero. perplexity_by_position: by
ranges of positions in the response, counted from 1.
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

AROUND = 2
"""Logged rows on each side of one that are looked at to tell a level from a spike."""

_MEASURED = (
    "mean_length",
    "kl_ref_token_exact",
    "kl_ref_response_exact",
    "kl_k1_token",
    "kl_k3_token",
    "kl_k1_response",
    "perplexity_policy",
    "perplexity_reference",
    "noise_floor",
)
"""Columns in which a number that is missing is no better than NaN."""

Score = Mapping[str, Any]
"""One row of ``Run.scores``."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """The trainer's own KL at a checkpoint beside the recomputed one, same estimator, same unit.

    metric: the logged column. limit: by how much they may differ. exact: KL over the whole
    vocabulary, nats a token. scale: tokens of the logged unit, 1 or the mean length.
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
    scale: float

    @property
    def level(self) -> float:
        """The exact KL in the logged unit."""
        return self.exact * self.scale

    @property
    def apart(self) -> float:
        """By how much the logged number leaves what the estimator and the exact KL span.

        On fresh samples the estimator scatters; k3 even lies below the KL until it spikes.
        """
        low, high = sorted((self.recomputed, self.level))
        return max(low - self.logged, self.logged - high, 0.0)

    @property
    def agrees(self) -> bool:
        """Whether the two are the same number."""
        return self.apart <= self.limit

    @property
    def telling(self) -> bool:
        """Whether the numbers are far enough from zero for the comparison to tell anything."""
        return max(abs(self.logged), self.recomputed) > self.limit


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

        Most comparisons count: a sound log scatters, too. Those in which both numbers are next to
        zero tell nothing.
        """
        telling = [item for item in self.comparisons if item.telling]
        return 2 * sum(item.agrees for item in telling) > len(telling) if telling else None


def rows(run: Run, *, role: str = "policy") -> list[Score]:
    """Return the rows of ``run.scores`` of one role, steps ascending."""
    if run.scores is None:
        return []
    found = run.scores.filter((pl.col("role") == role) & pl.col("step").is_not_null())
    found = found.sort("step", maintain_order=True).with_columns(
        pl.col(*_MEASURED).fill_null(math.nan)
    )
    return [*found.to_dicts()]


def measured(ladder: Sequence[Score], name: str) -> list[Score]:
    """Return the rows of a ladder in which a number is finite and of the policy that sampled.

    Weights of NaN score NaN; an adapter on a wrong base, or a wrong temperature, is another policy.
    """
    return [row for row in ladder if math.isfinite(row[name]) and not _is_other(row)]


def unmeasured(ladder: Sequence[Score], name: str) -> tuple[str, ...]:
    """Say, as what a rule misses, what the last checkpoint of a ladder lacks."""
    last = ladder[-1]
    if _is_other(last):
        return (f"the policy that drew the samples: not {last['checkpoint']}, as it was loaded",)
    return () if math.isfinite(last[name]) else (f"a finite {name} of {last['checkpoint']}",)


def _is_other(row: Score) -> bool:
    """Say whether a checkpoint's own samples tell log-probabilities that are not its own."""
    return row["on_policy"] and (row["logprob_gap"] or 0.0) > OTHER_MODEL


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
    """Return the reference's own row on the responses of step 0: where the policy began."""
    for row in rows(run, role="reference"):
        at = (row["reference"], row["samples_file"], row["part"])
        if at == (reference, samples_file, "response") and row["on_policy"]:
            return row
    return None


@lru_cache(maxsize=1)
def held(run: Run) -> tuple[Held, ...]:
    """Return how each reference stands to the run, in the order in which they were given."""
    if run.scores is None:
        return ()
    names = list(dict.fromkeys(run.scores["reference"].to_list()))
    gaps = {name: _gap(run, name) for name in names}
    nearest = min((gap for gap in gaps.values() if gap is not None), default=math.inf)
    return tuple(
        Held(
            name,
            _started(gaps[name], nearest),
            tuple(_comparisons(run, name)),
            _first(run, name),
        )
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
                {**_published(found), "agrees": found.agrees} for found in item.comparisons
            ],
        }
        for item in held(run)
    )


def _published(found: Comparison) -> dict[str, object]:
    return {name: value for name, value in asdict(found).items() if name != "scale"}


def principal(run: Run) -> Held | None:
    """Return the reference to judge by: the one training started from, else matched, else first.

    Of several that training may have started from, the one that the log agrees with.
    """
    known = held(run)
    started = [item for item in known if item.started]
    matching = [item for item in known if item.matches]
    both = [item for item in started if item.matches]
    return next(iter((*both, *started, *matching, *known)), None)


def around(run: Run, item: Comparison) -> float:
    """Return the median of the logged numbers about a comparison: a level, whatever one row says.

    Batches scatter and k3 spikes; a reference that is another one is so in every row.
    """
    logged = run.metrics.select("step", item.metric).filter(pl.col(item.metric).is_finite())
    steps = logged["step"].to_list()
    place = steps.index(item.logged_step)
    return float(median(logged[item.metric].to_list()[max(place - AROUND, 0) : place + AROUND + 1]))


def _gap(run: Run, reference: str) -> float | None:
    """Return how far the log-probabilities of the samples of step 0 are from a reference's."""
    gaps = [
        row["logprob_gap"]
        for row in rows(run, role="reference")
        if row["reference"] == reference and row["on_policy"] and row["logprob_gap"] is not None
    ]
    return min((gap for gap in gaps if math.isfinite(gap)), default=None)


def _started(gap: float | None, nearest: float) -> bool | None:
    """Say whether training started from a model; ``nearest``: the gap of the best of all given."""
    if gap is None:
        return None
    if gap > OTHER_MODEL or (nearest < SAME_MODEL and gap > nearest + SAME_MODEL):
        return False
    return True if gap < SAME_MODEL else None


def _first(run: Run, reference: str) -> float | None:
    found = [row for row in rows(run) if row["reference"] == reference]
    return found[0]["kl_ref_token_exact"] if found else None


def _comparisons(run: Run, reference: str) -> list[Comparison]:
    """Compare each checkpoint with the row that its weights sampled; the nearest file counts.

    The training batch itself gives the logged number back; fresh samples scatter around it. Where
    the log does not say which estimator it is, the one that fits the whole run best is compared.
    """
    best: dict[tuple[str, str], dict[int, Comparison]] = defaultdict(dict)
    for row in rows(run):
        if row["reference"] != reference or row["part"] != "response" or not row["on_policy"]:
            continue
        for found in _compared(run, row):
            steps = best[found.metric, found.estimator]
            known = steps.get(found.step)
            if known is None or _distance(found) < _distance(known):
                steps[found.step] = found
    nearest = min(best.values(), key=_distances, default={})
    return [nearest[step] for step in sorted(nearest)]


def _distances(steps: Mapping[int, Comparison]) -> tuple[int, float]:
    """Order what the log may be an estimate of: one estimator throughout, the nearest."""
    return -len(steps), math.fsum(map(_distance, steps.values()))


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
        if not logged.height or not finite_rows(run, metric) or track(run, metric).placeholder:
            continue
        value = logged[metric][0]
        if value is None or not math.isfinite(value) or silent_since(run, metric) is not None:
            continue
        told = run.columns[metric].estimator
        scale = row["mean_length"] if metric == "kl_ref_response" else 1.0
        for estimator in estimators:
            if told in ("k1", "k3") and told != estimator:
                continue
            kind = "token" if metric == "kl_ref_token" else "response"
            recomputed, exact = row[f"kl_{estimator}_{kind}"], row["kl_ref_token_exact"]
            if not all(math.isfinite(number) for number in (recomputed, exact, scale)):
                continue
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
                    exact=float(exact),
                    limit=float(limit),
                    samples_file=row["samples_file"],
                    checkpoint=row["checkpoint"],
                    scale=float(scale),
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
        return Onset(at, at if run.first_step is None else min(at, run.first_step), at)
    return Onset(at, min(ladder[bad - 1]["step"] + run.log_offset + 1, at), at)
