"""Where to go back to: the step/epoch table as a literal, the vetting, and the choice.

The table is a practitioners' rule of thumb and always shown; the evidence can overrule it, in
words. A checkpoint precedes the onset when ``step + log_offset`` lies below the low end of the
onset's interval.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from rlhfdoctor import scores
from rlhfdoctor.measures import batches, scans
from rlhfdoctor.model import (
    Cause,
    Change,
    Checkpoint,
    Finding,
    Onset,
    Rejection,
    RollbackPlan,
    Run,
    TableAnswer,
    Verdict,
)
from rlhfdoctor.tree import INTERRUPTED, MEASUREMENT, NOTHING_LEARNT

INITIAL = "initial model"


@dataclass(frozen=True, slots=True)
class TableRow:
    """One row: crash steps up to ``last`` (None: without end), where to go, what to change."""

    name: str
    last: int | None
    checkpoint: str
    change: str


TABLE: tuple[TableRow, ...] = (
    TableRow("< 1000", 999, "initial", "lower the learning rate"),
    TableRow("1000-5000", 5000, "last epoch", "raise the KL penalty"),
    TableRow("> 5000", None, "last stable point", "renew the reward model"),
)
"""The practitioners' table by crash step. Of 16 public collapses with a stated onset, 11 lie in the
first row, 4 in the second, 1 in the third."""


def table_row(crash_step: int) -> TableRow:
    """Return the row of a crash step; 1000 and 5000 belong to the middle row."""
    return next(row for row in TABLE if row.last is None or crash_step <= row.last)


def suggest(
    run: Run,
    verdict: Verdict,
    causes: Sequence[Cause],
    findings: Sequence[Finding],
    onset: Onset | None,
    crash_step: int | None = None,
) -> RollbackPlan:
    """Suggest a checkpoint: what the table says, what the evidence says, and why they differ.

    ``crash_step`` (the user's) chooses the row; a checkpoint must precede it and the onset that
    the evidence dates. Without either there is nothing to go back from.
    """
    stated = crash_step is not None
    if crash_step is not None:
        dated = crash_step if onset is None else min(crash_step, onset.low)
        onset = Onset(crash_step, dated, crash_step)
    undone = verdict not in ("collapsed", "degraded") or (causes and causes[0].name in MEASUREMENT)
    if onset is None or (undone and not stated):
        return _nothing_to_undo(run, causes)
    row = table_row(onset.step)
    limit = onset.low
    began: dict[int, str] = {}
    if causes:
        for finding in findings:
            measured = all(item.kind == "metric" for item in finding.evidence)
            grave = finding.severity == "critical" and finding.code in causes[0].path
            if measured and grave and finding.onset:
                began.setdefault(finding.onset.low, finding.code)
    broken = {item.checkpoint: item.first_non_finite for item in scans(run) if not item.finite}
    passed: list[Checkpoint] = []
    rejected: list[Rejection] = []
    for checkpoint in run.policies:
        why = _rejection(checkpoint, run.log_offset, limit, began, broken)
        if why:
            rejected.append(Rejection(checkpoint.name, why))
        else:
            passed.append(checkpoint)
    best = passed[-1] if passed else None
    by_table = _by_table(row, run, onset, passed)
    answer = TableAnswer(f"{row.name}: {row.checkpoint}", by_table or INITIAL, row.change)
    cause = causes[0] if causes else None
    overruled = (best.name if best else INITIAL) != answer.checkpoint
    return RollbackPlan(
        checkpoint=best,
        table=answer,
        overruled=overruled,
        reason=_reason(run, row, answer, best, overruled, by_table, cause),
        changes=_changes(run, row, cause),
        rejected=tuple(rejected),
        perplexity=sampled_perplexity(run, best.step) if best else None,
    )


def ladder(run: Run, plan: RollbackPlan) -> list[dict[str, object]]:
    """Return one row a checkpoint: where it stands in the log and why it was not chosen.

    Logged values are those of the row ``log_offset`` after the checkpoint's step, the one that its
    weights sampled; perplexity comes from the samples of the checkpoint's step; what was recomputed
    stands beside them.
    """
    reasons = {item.checkpoint: item.why for item in plan.rejected}
    rows = []
    for checkpoint in run.policies:
        logged = run.metrics.filter(pl.col("step") == checkpoint.step + run.log_offset)
        if not logged.height:
            logged = run.metrics.filter(pl.col("step") == checkpoint.step)
        values = logged.row(0, named=True) if logged.height else {}
        rows.append(
            {
                "checkpoint": checkpoint.name,
                "step": checkpoint.step,
                "epoch": checkpoint.epoch,
                "complete": checkpoint.complete,
                "kl_ref_token": values.get("kl_ref_token"),
                "kl_ref_response": values.get("kl_ref_response"),
                "entropy": values.get("entropy"),
                "response_length_mean": values.get("response_length_mean"),
                "reward_raw_mean": values.get("reward_raw_mean"),
                "perplexity_samples": sampled_perplexity(run, checkpoint.step),
                "kl_recomputed": _recomputed(run, checkpoint, "kl_ref_token_exact"),
                "perplexity_recomputed": _recomputed(run, checkpoint, "perplexity_policy"),
                "chosen": plan.checkpoint == checkpoint,
                "why_not": reasons.get(checkpoint.name),
            }
        )
    return rows


def _recomputed(run: Run, checkpoint: Checkpoint, name: str) -> float | None:
    """Return a recomputed number of a checkpoint, on its own responses where there are some."""
    reference = scores.principal(run)
    found = [
        row
        for row in scores.rows(run)
        if row["checkpoint"] == checkpoint.name
        and row["part"] == "response"
        and reference is not None
        and row["reference"] == reference.name
    ]
    largest = max(found, key=lambda row: (row["on_policy"], row["samples"] or 0), default=None)
    return None if largest is None else float(largest[name])


def sampled_perplexity(run: Run, step: int) -> float | None:
    """Return the perplexity of the samples of a step, from the file with the most of them."""
    found = [batch for batch in batches(run) if batch.step == step and batch.perplexity]
    largest = max(found, key=lambda batch: len(batch.items), default=None)
    return largest.perplexity if largest else None


def _nothing_to_undo(run: Run, causes: Sequence[Cause]) -> RollbackPlan:
    complete = [item for item in run.policies if item.complete]
    if any(cause.name == INTERRUPTED for cause in causes) and complete:
        return RollbackPlan(
            checkpoint=complete[-1],
            table=None,
            overruled=False,
            reason="the log was cut short and shows no fault: the last complete checkpoint",
            needed=False,
        )
    reason = "no fault with an onset was found"
    if causes and causes[0].name in MEASUREMENT:
        reason = "the fault is in what was logged; the weights may be sound"
    return RollbackPlan(None, None, False, reason, needed=False)


def _rejection(
    checkpoint: Checkpoint,
    offset: int,
    limit: int,
    began: Mapping[int, str],
    broken: Mapping[str, str | None],
) -> str | None:
    """Return why a checkpoint is none to go back to; ``broken``: those that are not finite."""
    if not checkpoint.complete:
        return "incomplete: " + ", ".join(checkpoint.missing)
    if checkpoint.name in broken:
        return f"weights are not finite: {broken[checkpoint.name]}"
    logged = checkpoint.step + offset
    if logged >= limit:
        return f"not before the onset at {limit} (log row {logged})"
    earlier = [(low, code) for low, code in began.items() if logged >= low]
    if earlier:
        low, code = min(earlier)
        return f"{code} begins at step {low} (log row {logged})"
    return None


def _by_table(row: TableRow, run: Run, onset: Onset, passed: Sequence[Checkpoint]) -> str | None:
    """Return the checkpoint that a row means, or None: the initial model, or no such checkpoint."""
    if row.checkpoint == "last stable point":
        return passed[-1].name if passed else None
    if row.checkpoint == "last epoch":
        ended = math.floor(_epoch_at(run, onset.low) or 0.0)
        within = [
            item
            for item in run.policies
            if item.complete and item.epoch is not None and ended and item.epoch <= ended
        ]
        return within[-1].name if within else None
    return None


def _epoch_at(run: Run, step: int) -> float | None:
    found = run.metrics.filter(pl.col("step") <= step)["epoch"].drop_nulls()
    return float(found[-1]) if found.len() else None


def _reason(
    run: Run,
    row: TableRow,
    answer: TableAnswer,
    best: Checkpoint | None,
    overruled: bool,
    by_table: str | None,
    cause: Cause | None,
) -> str:
    parts = []
    if row.checkpoint == "last epoch" and by_table is None:
        parts.append("no epoch ended with a complete checkpoint before the onset")
    if best is None:
        if not run.policies:
            parts.append("no checkpoint was found")
        else:
            parts.append("no complete checkpoint precedes the onset")
        parts.append("the initial model is what is left")
    elif overruled:
        parts.append(
            f'the table\'s row "{answer.row}" is overruled: a later sound checkpoint exists'
            if row.checkpoint == "initial" or by_table is None or _later(run, best, by_table)
            else f'the table\'s row "{answer.row}" is overruled: its checkpoint is not sound'
        )
    else:
        parts.append(f'as the table\'s row "{answer.row}" says')
    if cause and cause.name in NOTHING_LEARNT and cause.confidence == "confirmed":
        parts.append("nothing was learnt, so nothing is lost: restart after the fix")
    return "; ".join(parts)


def _later(run: Run, best: Checkpoint, name: str) -> bool:
    return any(item.name == name and item.step <= best.step for item in run.policies)


def _changes(run: Run, row: TableRow, cause: Cause | None) -> tuple[Change, ...]:
    """Return what to change: nothing that the cause's remedy does not speak of."""
    if cause and "learning rate" not in cause.remedy:
        return ()
    rate = run.number("learning_rate")
    if rate is None and "lr" in run.metrics.columns:
        logged = run.metrics["lr"].drop_nulls().drop_nans()
        peak = logged.max() if logged.len() else None
        rate = float(peak) if isinstance(peak, int | float) else None
    lower = Change(
        "learning_rate",
        rate,
        None if rate is None else float(f"{rate / 10:.3g}"),
        "a tenth: the practitioners' emergency step"
        if rate is not None
        else "a tenth of the present one, which is not in the log",
    )
    if row.change == "raise the KL penalty":
        beta = run.number("kl_coef")
        raised = None if beta is None else beta * 2 if beta > 0 else 0.01
        return (
            Change("kl_coef", beta, raised, "the table's second row; 0.01 is the usual start"),
            lower,
        )
    if row.change == "renew the reward model":
        return (
            Change("reward_model", None, "renewed", "the table's third row"),
            lower,
        )
    return (lower,)
