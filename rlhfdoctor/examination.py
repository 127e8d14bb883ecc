"""Responses looked at closely: what repeats, what was copied, what is paid, how it changed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from statistics import fmean, pstdev
from typing import Any

import polars as pl

from rlhfdoctor import text
from rlhfdoctor.corpus import Corpus
from rlhfdoctor.measures import LOOP, ROUNDING, Item, batches
from rlhfdoctor.model import Run, Sample
from rlhfdoctor.ngrams import Counter
from rlhfdoctor.phrases import Phrase, Steps
from rlhfdoctor.responses import spoken
from rlhfdoctor.series import LARGEST, correlation, pooled

WORST = 5
"""Samples that repeat themselves that are shown, each text once."""

RUN = 50
"""Characters of one kind that make a run: NaN logits decode to "!!!!" to the end (vLLM 22881)."""

COPIED = 3
"""Texts that are listed as the most copied."""

PARTS = 50
"""Named parts of the reward that are listed, those of most responses first."""

STEPS = 200
"""Steps that are listed, evenly spread."""

SHOWN = 400
"""Characters of a text that the document carries."""

SCORED = 20
"""Scored tokens from which a response has deciles."""


def repetition(rows: pl.LazyFrame, steps: Steps, worst: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return how responses repeat themselves: all, the early and the late ones; the ``worst``."""
    looping, runs = pl.col("covered") >= LOOP, pl.col("run") >= RUN
    early, late = (pl.col("step").is_in(list(which)) for which in (steps.early, steps.late))
    marks = pl.col("marks_only")
    found = (
        rows.select(
            *(pl.col(f"distinct_{n}").mean() for n in (1, 2, 3)),
            looping=looping.sum(),
            empty=((pl.col("words") == 0) & ~marks).sum(),
            marks_only=marks.sum(),
            runs=runs.sum(),
            run_of=pl.col("run_of").filter(runs).mode().sort().first(),
            samples=pl.len(),
            ratio=pl.col("ratio").median(),
            ratio_early=pl.col("ratio").filter(early).median(),
            ratio_late=pl.col("ratio").filter(late).median(),
            switching_early=(pl.col("switches") > 0).filter(early).mean(),
            switching_late=(pl.col("switches") > 0).filter(late).mean(),
            gopher=(pl.col("gopher") != "").sum(),
        )
        .collect()
        .row(0, named=True)
    )
    samples = found["samples"]
    return {
        **{f"distinct_{n}": found[f"distinct_{n}"] for n in (1, 2, 3)},
        "rep_3": None if found["distinct_3"] is None else 1 - found["distinct_3"],
        **_with_shares(found, ("looping", "empty", "marks_only", "runs"), samples),
        "run_of": found["run_of"],
        "compression": None
        if found["ratio"] is None
        else {
            "median": found["ratio"],
            "early": found["ratio_early"],
            "late": found["ratio_late"],
        },
        "gopher": {
            "flagged": found["gopher"],
            "share": found["gopher"] / samples,
            "by": _by_share(
                rows.select(name=pl.col("gopher").str.split(",")).explode("name"), samples
            ),
        },
        "scripts": _by_share(rows.select(name="script"), samples),
        "script_changes": None
        if found["switching_early"] is None
        else {"share_early": found["switching_early"], "share_late": found["switching_late"]},
        "worst": worst,
    }


def _with_shares(found: Mapping[str, int], names: Iterable[str], samples: int) -> dict[str, Any]:
    told: dict[str, Any] = {}
    for name in names:
        told |= {name: found[name], f"{name}_share": found[name] / samples}
    return told


def _by_share(names: pl.LazyFrame, samples: int) -> list[dict[str, Any]]:
    counted = (
        names.filter(pl.col("name").is_not_null() & (pl.col("name") != ""))
        .group_by("name")
        .len()
        .sort("len", "name", descending=[True, False])
        .collect()
    )
    return [{"name": name, "share": count / samples} for name, count in counted.iter_rows()]


def worst(rows: pl.LazyFrame) -> dict[int, dict[str, Any]]:
    """Return the longest loops, then the longest runs, then what else repeats too much, by place.

    Each text once, ``WORST`` at most; ``example`` makes a published entry of one.
    """
    columns = ("row", "length", "period", "covered", "run", "run_of", "digest", "distinct_3")
    numbered = rows.with_row_index("row")
    looping = (pl.col("covered") >= LOOP) & (pl.col("covered") > pl.col("run"))
    kinds = (
        ("loop", looping, pl.col("covered")),
        ("run", pl.col("run") >= RUN, pl.col("run")),
        ("gopher", pl.col("gopher") != "", -pl.col("distinct_3")),
    )
    picked: dict[int, dict[str, Any]] = {}
    for kind, shows, size in kinds:
        part = (
            numbered.filter(shows)
            .select(*columns, by=size.cast(pl.Float64))
            .sort("by", "row", descending=[True, False])
            .unique("digest", keep="first", maintain_order=True)
            .head(WORST - len(picked))
        )
        for row in part.collect().iter_rows(named=True):
            picked.setdefault(row["row"], {"kind": kind, **row})
    return picked


def example(row: Mapping[str, Any], name: str, sample: Sample) -> dict[str, Any]:
    """Return a response of ``worst`` under its published keys."""
    said = sample.response or ""
    start, period = len(said), 0
    if row["kind"] == "loop":
        start, period = len(spoken(said)) - row["covered"], row["period"]
    elif row["kind"] == "run":
        start, period = said.find(row["run_of"] * row["run"]), 1
    return {
        "source": name,
        "line": sample.line,
        "step": sample.step,
        "kind": row["kind"],
        "prompt": None if sample.prompt is None else text.cut(sample.prompt, SHOWN),
        "length": row["length"],
        "period": period,
        "covered": row["covered"] if row["kind"] == "loop" else row["run"] if period else 0,
        "start": start,
        "text": text.cut_middle(said[:start], SHOWN),
        "loop": text.cut_middle(said[start : start + period], SHOWN),
        "reward": sample.reward,
    }


# Duplicates


def duplicates(found: Corpus, largest: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return how many responses are copies of each other, exact or nearly; and the ``largest``."""
    exact, near = _groups(found.digests), _groups(found.nears)
    return {
        "groups": exact[0],
        "samples": exact[1],
        "share": exact[1] / found.count,
        "largest": largest,
        "near_groups": near[0],
        "near_samples": near[1],
        "near_share": near[1] / found.count,
    }


def _groups(counter: Counter) -> tuple[int, int]:
    sizes = [(part.height, int(part["count"].sum())) for part in counter.parts(least=2)]
    return sum(groups for groups, _ in sizes), sum(samples for _, samples in sizes)


def copied(found: Corpus, rows: pl.LazyFrame) -> list[dict[str, Any]]:
    """Return the ``COPIED`` texts that occur most often: count, prompts, and row of the first."""
    keys = found.digests.commonest(COPIED).filter(pl.col("count") > 1)["key"].head(COPIED)
    return (
        rows.with_row_index("row")
        .filter(pl.col("digest").is_in(keys.implode()))
        .group_by("digest")
        .agg(
            count=pl.len(),
            prompts=pl.col("prompt").drop_nulls().n_unique(),
            row=pl.col("row").min(),
        )
        .sort("count", "row", descending=[True, False])
        .drop("digest")
        .collect()
        .to_dicts()
    )


# Rewards


def rewards(
    finite: pl.LazyFrame,
    steps: Steps,
    run: Run,
    by_length: float | None,
    paid: Sequence[Phrase],
    texts: Mapping[Phrase, str],
) -> dict[str, Any] | None:
    """Return what rewards are like and what they follow; None where no response has a finite one.

    finite: the rows that have one. by_length: their correlation with length. paid: phrases that
    they follow, with the ``texts`` of these.
    """
    reward = pl.col("reward")
    known = (
        finite.select(
            known=pl.len(),
            mean=reward.mean(),
            std=reward.std(ddof=0),
            min=reward.min(),
            max=reward.max(),
        )
        .collect()
        .row(0, named=True)
    )
    if not known["known"]:
        return None
    return {
        **known,
        "constant": known["min"] == known["max"],
        "within_steps": steps.known > 1,
        "length_r": by_length,
        "repetition_r": within(finite, 1 - pl.col("distinct_3")),
        "phrases": [
            {
                "n": phrase.n,
                "text": texts[phrase],
                "r": phrase.r,
                "with_mean": phrase.paid,
                "without_mean": phrase.unpaid,
                "samples": phrase.samples,
                "early_share": phrase.early,
                "late_share": phrase.late,
                **phrase.dated(),
            }
            for phrase in paid
        ],
        "components": _components(run),
    }


def within(rows: pl.LazyFrame, x: pl.Expr) -> float | None:
    """Return Pearson's r of something and the reward within the steps of each file, pooled."""
    sums = (
        rows.select("file", "step", x=x, y="reward")
        .drop_nulls(["x", "y"])
        .group_by("file", "step")
        .agg(
            n=pl.len(),
            xy=pl.cov("x", "y", ddof=0),
            xx=pl.col("x").var(ddof=0),
            yy=pl.col("y").var(ddof=0),
        )
        .select(*((pl.col("n") * pl.col(name)).sum().alias(name) for name in ("xy", "xx", "yy")))
        .collect()
        .row(0)
    )
    return pooled(*sums)


def _components(run: Run) -> list[dict[str, Any]]:
    """Return what each named part of the reward pays, over the samples that were kept."""
    having: dict[str, list[tuple[float, Item]]] = defaultdict(list)
    for batch in batches(run):
        for item in batch.items:
            for name, value in (item.components or {}).items():
                if abs(value) < LARGEST:
                    having[name].append((value, item))
    told = []
    for name, pairs in sorted(having.items(), key=lambda entry: (-len(entry[1]), entry[0]))[:PARTS]:
        values = [value for value, _ in pairs]
        total = [(value, item.reward) for value, item in pairs if item.reward is not None]
        told.append(
            {
                "name": name,
                "known": len(values),
                "mean": fmean(values),
                "std": pstdev(values),
                "length_r": correlation(values, [float(item.length) for _, item in pairs]),
                "total_r": correlation([value for value, _ in total], [pay for _, pay in total]),
            }
        )
    return told


# Positions and steps


def positions(run: Run, steps: Steps) -> dict[str, Any] | None:
    """Return minus the mean log-probability over each tenth of the responses that were kept."""
    frame = run.samples.select("step", "logprobs").drop_nulls("logprobs").collect()
    rows = [
        (step, deciles)
        for step, values in frame.iter_rows()
        if (deciles := _deciles(values)) is not None
    ]
    if not rows:
        return None
    every = [deciles for _, deciles in rows]
    early = [deciles for step, deciles in rows if step in steps.early]
    late = [deciles for step, deciles in rows if step in steps.late]
    return {
        "samples": len(rows),
        "deciles": _mean_each(every),
        "early": _mean_each(early) if early and late else None,
        "late": _mean_each(late) if early and late else None,
    }


def _deciles(values: Sequence[float]) -> list[float] | None:
    count = len(values)
    if count < SCORED or not all(-LARGEST < value <= ROUNDING for value in values):
        return None
    cuts = [count * place // 10 for place in range(11)]
    return [-fmean(values[low:high]) for low, high in pairwise(cuts)]


def _mean_each(rows: Sequence[Sequence[float]]) -> list[float]:
    return [fmean(column) for column in zip(*rows, strict=True)]


def steps(found: Corpus, rows: pl.LazyFrame, run: Run) -> list[dict[str, Any]]:
    """Return what the responses of each step of each file are like, of at most ``STEPS`` of them.

    Perplexities are those of the samples that were kept.
    """
    names = list(found.files)
    judged = {(batch.source, batch.step): batch for batch in batches(run)}
    told = (
        rows.group_by("file", "step")
        .agg(
            samples=pl.len(),
            mean_length=pl.col("length").mean(),
            truncated_share=pl.col("truncated").mean(),
            distinct_3=pl.col("distinct_3").mean(),
            looping_share=(pl.col("covered") >= LOOP).mean(),
            duplicate_share=1 - pl.col("digest").n_unique() / pl.len(),
            reward=pl.col("reward").mean(),
        )
        .sort("step", "file")
        .collect()
    )
    each = told["step"].unique(maintain_order=True)
    thin = each.gather_every(-(-each.len() // STEPS) or 1).append(each.tail(1)).unique()
    listed = []
    for row in told.filter(pl.col("step").is_in(thin.implode(), nulls_equal=True)).to_dicts():
        source = names[row.pop("file")]
        batch = judged.get((source, row["step"]))
        perplexity = (batch.perplexity, batch.ref_perplexity) if batch else (None, None)
        scored = dict(zip(("perplexity", "perplexity_reference"), perplexity, strict=True))
        listed.append({"source": source, **row, **scored})
    return listed
