"""Where to go back to: the step/epoch table as a literal, the vetting, and the choice.

The table is a practitioners' rule of thumb and always shown. The evidence vets it: a checkpoint
must be complete, lie before the onset (``step + log_offset`` below the low end of its interval),
stay within the ladder's bounds, and hold finite numbers. The cause can overrule it, in words.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import median

import polars as pl

from rlhfdoctor import tree
from rlhfdoctor.changes import (
    ENTROPY_COLLAPSE,
    LOWER_RATE,
    NON_FINITE,
    OVERFITTING,
    RAISE_PENALTY,
    RENEW_REWARD,
    by_row,
    changes,
)
from rlhfdoctor.finite import Health
from rlhfdoctor.ladder import (
    Distance,
    best_evaluation,
    merit,
    recomputed_row,
    rungs,
    sampled_perplexity,
)
from rlhfdoctor.measures import Track, logged, scans, track
from rlhfdoctor.model import (
    Cause,
    Checkpoint,
    Finding,
    Onset,
    Rejection,
    RollbackPlan,
    Run,
    Rung,
    TableAnswer,
    TableRow,
    Verdict,
)
from rlhfdoctor.resume import resume
from rlhfdoctor.series import MAD_TO_SIGMA, stretches

INITIAL = "initial model"

TABLE: tuple[TableRow, ...] = (
    TableRow("< 1000", 999, "initial", LOWER_RATE),
    TableRow("1000-5000", 5000, "last epoch", RAISE_PENALTY),
    TableRow("> 5000", None, "last stable point", RENEW_REWARD),
)
"""The practitioners' table by crash step. Of 16 public collapses with a stated onset, 11 lie in the
first row, 4 in the second, 1 in the third."""

RECAPTURED = "the reference was captured anew"

FROM_THE_START = (tree.WRONG_REFERENCE, "log-probabilities that disagree")
"""Causes that were there before the first update: they taint every checkpoint."""

OF_THE_SETUP = (*tree.NOTHING_LEARNT, tree.CUT_OFF, "configuration")
"""Causes that taint every checkpoint where they are there from the first logged row."""

REFERENCE = (RECAPTURED, "the reference moved", tree.WRONG_REFERENCE)
"""Causes under which the logged KL is the distance to another model than it says."""

KL_RULES = ("KL", "PPL002")
"""Beginnings of the codes that find the distance itself too large."""

ANOMALY = 6.0
"""Robust standard deviations by which a gradient norm or a loss stands out. [H]"""

FLAT = 0.01
"""Share of its level below which the scatter of a series is taken to be this. [H]"""

CALM = 10
"""Logged rows without an anomaly that part an earlier one from what came of the later ones. [H]"""

EARLY_STEPS = 50
"""Steps whose median entropy is the one that must not halve, and rows that an anomaly is held
against. [H]"""

LASTING = 5
"""Logged rows for which the entropy must stay below half to have halved, and the fewest that an
anomaly is held against."""

Vet = Callable[[Run, Checkpoint], Health]
"""Reads the numbers of a checkpoint."""


def table_row(crash_step: int, table: Sequence[TableRow] = TABLE) -> TableRow:
    """Return the row of a crash step; 1000 and 5000 belong to the middle row."""
    return next(row for row in table if row.last is None or crash_step <= row.last)


def suggest(
    run: Run,
    verdict: Verdict,
    causes: Sequence[Cause],
    findings: Sequence[Finding],
    onset: Onset | None,
    crash_step: int | None = None,
    *,
    table: Sequence[TableRow] = TABLE,
    vet: Vet | None = None,
) -> RollbackPlan:
    """Suggest a checkpoint: what the table says, what the evidence says, and why they differ.

    ``crash_step`` (the user's) chooses the row; a checkpoint must precede it and the onset that
    the evidence dates. Without either there is nothing to go back from. ``vet`` reads the numbers
    of those that pass everything else, the best first, until one is sound.
    """
    if crash_step is not None:
        dated = crash_step if onset is None else min(crash_step, onset.low)
        onset = Onset(
            crash_step if onset is None else min(crash_step, onset.step), dated, crash_step
        )
    sick = verdict in ("collapsed", "degraded")
    undone = not sick or (causes and causes[0].name in tree.MEASUREMENT)
    if onset is None or (undone and crash_step is None):
        return _nothing_to_undo(run, causes, vet)
    named = [item for item in causes if item.name != tree.INTERRUPTED] or [*causes]
    cause = None if undone or not named else named[0]
    undoing = _undoing(run, cause, onset, stated=crash_step is not None)
    ladder = rungs(run, onset, _believed(cause, undoing))
    began = {} if undoing.overrules else _began(cause, findings)
    barred: dict[str, str] = {}
    unfit: dict[str, str] = {}
    passed: list[Rung] = []
    for rung in ladder:
        name = rung.checkpoint.name
        if told := _barred(run, rung.checkpoint, undoing, began):
            barred[name] = told
        elif rung.outside:
            unfit[name] = "; ".join(rung.outside)
        else:
            passed.append(rung)
    best, health, unsound = _soundest(run, passed, undoing, vet)
    passed = [rung for rung in passed if rung.checkpoint.name not in unsound]
    row = table_row(onset.step if crash_step is None else crash_step, table)
    before = [rung.checkpoint for rung in ladder if rung.checkpoint.name not in barred]
    by_table = _by_table(row, run, onset.low, before, [rung.checkpoint for rung in passed])
    answer = TableAnswer(f"{row.name}: {row.checkpoint}", by_table or INITIAL, row.change)
    chosen = best.checkpoint if best else None
    overruled = (chosen.name if chosen else INITIAL) != answer.checkpoint
    perplexity = best.readings.get("perplexity") if best else None
    changed = changes(run, row, cause, verdict, onset.step)
    why = {**barred, **unfit, **unsound}
    return RollbackPlan(
        checkpoint=chosen,
        table=answer,
        overruled=overruled,
        reason="; ".join(
            (
                *_row_reasons(row, answer, best, overruled, undoing, health),
                *_other_reasons(run, best, undoing, {**unfit, **unsound}),
            )
        ),
        changes=changed,
        rejected=tuple(
            Rejection(item.name, why[item.name]) for item in run.policies if item.name in why
        ),
        cause=f"{cause.name}: {cause.remedy}" if cause else "",
        perplexity=perplexity.value if perplexity else None,
        unchecked=_unchecked(best, health),
        resume=resume(run, chosen, changed),
        ladder=ladder,
    )


def by_table_alone(run: Run, step: int | None, table: Sequence[TableRow] = TABLE) -> RollbackPlan:
    """Return what the table says of a crash step: no evidence is asked, nothing vetted."""
    if step is None:
        told = "no crash step: state one with --crash-step"
        return RollbackPlan(None, None, False, told, needed=False)
    row = table_row(step, table)
    before = [item for item in run.policies if item.step + run.log_offset < step]
    name = _by_table(row, run, step, before, before)
    chosen = next((item for item in before if item.name == name), None)
    answer = TableAnswer(f"{row.name}: {row.checkpoint}", name or INITIAL, row.change)
    reason = f'the table\'s row "{answer.row}" for step {step}, and no evidence'
    if name is None and row.checkpoint != "initial":
        reason += f"; there is no {row.checkpoint} before it"
    changed = by_row(run, row, step)
    return RollbackPlan(
        checkpoint=chosen,
        table=answer,
        overruled=False,
        reason=reason,
        changes=changed,
        unchecked=("everything",),
        resume=resume(run, chosen, changed),
    )


@dataclass(frozen=True, slots=True)
class Undoing:
    """How a cause is undone.

    limit: logged step before which a checkpoint must lie, called ``what``. overrules: it may lie
    after the onset, because the cause says more of it. said: what the cause says, in words. none:
    no checkpoint is one to go back to. evaluated: the held-out quantity by which the best
    checkpoint is chosen, and what is as good as its best, where it is not the last that is.
    """

    limit: int
    what: str = "the onset"
    overrules: bool = False
    said: str = ""
    none: bool = False
    evaluated: tuple[Track, float] | None = None


def _undoing(run: Run, cause: Cause | None, onset: Onset, *, stated: bool) -> Undoing:
    """Return how a cause is undone; by default the last sound checkpoint before the onset.

    stated: the user says where the crash was; no cause may go beyond that.
    """
    name = cause.name if cause else ""
    first = (run.first_step or 0) + run.log_offset
    sure = cause is not None and cause.confidence == "confirmed"
    if sure and name in tree.NOTHING_LEARNT and onset.low <= first:
        said = "nothing was learnt, so nothing is lost: restart after the fix"
        return Undoing(onset.low, said=said, none=True)
    if name in FROM_THE_START or (name in OF_THE_SETUP and onset.low <= first):
        said = "the fault was there from the first step, so that every checkpoint has it: "
        said += "restart from the initial model with it mended"
        return Undoing(onset.low, said=said, none=True)
    found = None
    if name == RECAPTURED:
        found = _before_resume(run, onset)
    elif name == NON_FINITE:
        found = _before_anomaly(run, onset)
    elif name == ENTROPY_COLLAPSE:
        found = _before_half(run)
    elif name in (tree.OVER_OPTIMISATION, OVERFITTING):
        found = _best_evaluated(run, name, onset)
    if found is None or (stated and found.limit > onset.low):
        return Undoing(onset.low)
    return found


def _before_resume(run: Run, onset: Onset) -> Undoing | None:
    """Return the way out of a fault that came with a resume: weights saved before are sound."""
    seams = [seam.step for seam in run.seams if seam.step <= onset.high]
    if not seams:
        return None
    step = max(seams)
    said = f"the fault came with the resume at step {step}: the last checkpoint before it"
    return Undoing(step + run.log_offset, f"the resume at step {step}", True, said)


def _before_anomaly(run: Run, onset: Onset) -> Undoing:
    """Return the way out of non-finite values: before the first anomaly that led to them.

    An anomaly is a row more than ``ANOMALY`` robust standard deviations above the median of the
    rows before it. One that was followed by ``CALM`` rows without another had passed.
    """
    first, of_what = onset.low, ""
    for name in ("grad_norm", "loss_total"):
        if not logged(run, name):
            continue
        found = track(run, name)
        start, calm = onset.low, 0
        for place in range(len(found) - 1, 0, -1):
            if found.steps[place] >= onset.low:
                continue
            before = found.values[max(place - EARLY_STEPS, 0) : place]
            if _stands_out(before, found.values[place]):
                start, calm = found.steps[place], 0
            else:
                calm += 1
            if calm >= CALM:
                break
        if start < first:
            first, of_what = start, found.column.sources[-1].key or name
    if not of_what:
        said = "the last finite checkpoint before the first number that is not"
        return Undoing(onset.low, said=said)
    said = f"the last finite checkpoint before the first anomaly ({of_what} at step {first})"
    return Undoing(first, "the first anomaly", said=said)


def _stands_out(before: Sequence[float], value: float) -> bool:
    """Say whether a value lies far above the rows before it, ``LASTING`` of them at least."""
    if len(before) < LASTING:
        return False
    level = median(before)
    scale = MAD_TO_SIGMA * median(abs(other - level) for other in before)
    return value - level > ANOMALY * max(scale, abs(level) * FLAT)


def _before_half(run: Run) -> Undoing | None:
    """Return the way out of an entropy collapse: what comes after half of it cannot explore.

    A slow fall has its onset at the start of the run; what it did before half is no harm yet.
    """
    if not logged(run, "entropy"):
        return None
    found = track(run, "entropy")
    first = found.steps[0]
    half = median(found.between(first, first + EARLY_STEPS)) / 2
    fallen = stretches(found.values, lambda value: value < half, LASTING)
    if not fallen:
        return None
    step = found.steps[fallen[0][0]]
    said = f"before the entropy halved at step {step}: later checkpoints cannot explore"
    return Undoing(step, "the step at which the entropy halved", True, said)


def _best_evaluated(run: Run, name: str, onset: Onset) -> Undoing | None:
    """Return the way out of a reward or of pairs that were learnt too well: the best evaluation.

    Its checkpoint counts also where the fitted onset lies before it.
    """
    found = best_evaluation(run)
    if found is None:
        return None
    scored, step, good = found
    key = scored.column.sources[-1].key or scored.metric
    said = f"{name} is undone at the best {key}, never at the highest training reward"
    limit = max(onset.low, step + run.log_offset + 1)
    overrules = limit > onset.low
    what = "the best evaluation" if overrules else "the onset"
    return Undoing(limit, what, overrules, said, evaluated=(scored, good))


def _believed(cause: Cause | None, undoing: Undoing) -> Distance:
    """Return what the logged KL is taken for."""
    if cause is not None and cause.name in REFERENCE:
        return "mistrusted"
    grew = cause is not None and any(code.startswith(KL_RULES) for code in cause.path)
    return "held" if grew and not undoing.overrules else "shown"


def _barred(
    run: Run, checkpoint: Checkpoint, undoing: Undoing, began: Mapping[int, str]
) -> str | None:
    """Return why a checkpoint is none to go back to, whatever it is like."""
    if not checkpoint.complete:
        return "incomplete: " + ", ".join(checkpoint.missing)
    if undoing.none:
        return "has the fault that was there from the start"
    row = checkpoint.step + run.log_offset
    if row >= undoing.limit:
        at = f", {undoing.limit} at the earliest" if undoing.what == "the onset" else ""
        return f"not before {undoing.what}{at} (its log row: {row})"
    earlier = [(low, code) for low, code in began.items() if row >= low]
    if earlier:
        low, code = min(earlier)
        return f"{code} begins at step {low} (its log row: {row})"
    return None


def _began(cause: Cause | None, findings: Sequence[Finding]) -> dict[int, str]:
    """Return where the grave findings behind a cause begin, as far as the log tells."""
    began: dict[int, str] = {}
    for finding in findings:
        measured = all(item.kind == "metric" for item in finding.evidence)
        grave = finding.severity == "critical" and cause and finding.code in cause.path
        if measured and grave and finding.onset:
            began.setdefault(finding.onset.low, finding.code)
    return began


def _soundest(
    run: Run, passed: Sequence[Rung], undoing: Undoing, vet: Vet | None
) -> tuple[Rung | None, Health | None, dict[str, str]]:
    """Return the best rung whose numbers are finite, and why those before it are not.

    What a scan found counts as read.
    """
    scanned = {item.checkpoint: item for item in scans(run)}
    unsound: dict[str, str] = {}
    for rung in sorted(passed, key=lambda rung: _rank(rung, undoing), reverse=True):
        name = rung.checkpoint.name
        seen = scanned.get(name)
        if seen is not None and not seen.finite:
            unsound[name] = f"weights not finite: {seen.first_non_finite}"
            continue
        health = None if vet is None else vet(run, rung.checkpoint)
        if health is not None and False in (health.weights, health.optimizer):
            what = "weights" if health.weights is False else "optimizer state"
            unsound[name] = f"{what} not finite: {health.where}"
            continue
        if health is None and seen is not None:
            health = Health(weights=True, optimizer=None, unread={"optimizer state": "not read"})
        return rung, health, unsound
    return None, None, unsound


def _rank(rung: Rung, undoing: Undoing) -> tuple[float, int]:
    score = rung.readings.get("held_out")
    if undoing.evaluated is None:
        return 0.0, rung.checkpoint.step
    found, good = undoing.evaluated
    value = -math.inf if score is None else merit(found, score.value)
    return min(value, good), rung.checkpoint.step


def _unchecked(best: Rung | None, health: Health | None) -> tuple[str, ...]:
    """Return what nobody looked at of the checkpoint that was chosen."""
    if best is None:
        return ()
    if health is None:
        return (*best.unknown, "weights and optimizer state: not read")
    told = list(best.unknown)
    if health.weights is None:
        told.append(f"weights: {health.unread.get('weights', 'none found')}")
    if health.optimizer is None:
        told.append(
            f"optimizer state: {health.unread.get('optimizer state', 'none, weights only')}"
        )
    return tuple(told)


def _nothing_to_undo(run: Run, causes: Sequence[Cause], vet: Vet | None) -> RollbackPlan:
    ladder = rungs(run, None)
    if any(cause.name == tree.INTERRUPTED for cause in causes):
        complete = [rung for rung in ladder if rung.checkpoint.complete]
        best, health, unsound = _soundest(run, complete, Undoing(0), vet)
        if best is not None:
            return RollbackPlan(
                checkpoint=best.checkpoint,
                table=None,
                overruled=False,
                reason="the log was cut short and shows no fault: the last complete checkpoint",
                rejected=tuple(Rejection(name, why) for name, why in unsound.items()),
                needed=False,
                unchecked=_unchecked(best, health),
                resume=resume(run, best.checkpoint, ()),
                ladder=ladder,
            )
    reason = "no fault with an onset was found"
    if causes and causes[0].name in tree.MEASUREMENT:
        reason = "the fault is in what was logged; the weights may be sound"
    return RollbackPlan(None, None, False, reason, needed=False, ladder=ladder)


def _by_table(
    row: TableRow,
    run: Run,
    step: int,
    before: Sequence[Checkpoint],
    stable: Sequence[Checkpoint],
) -> str | None:
    """Return the checkpoint that a row means, or None: the initial model, or no such checkpoint.

    before: those that precede the step. stable: those of them that are sound, as far as was asked.
    """
    if row.checkpoint == "last stable point":
        return stable[-1].name if stable else None
    if row.checkpoint == "last epoch":
        ended = math.floor((_epoch_at(run, step) or 0.0) + WHOLE_EPOCH)
        within = [
            item
            for item in before
            if item.epoch is not None and ended and item.epoch <= ended + WHOLE_EPOCH
        ]
        return within[-1].name if within else None
    return None


WHOLE_EPOCH = 1e-4
"""Epochs by which a logged or interpolated epoch may miss a whole one."""


def _epoch_at(run: Run, step: int) -> float | None:
    found = run.metrics.filter(pl.col("step") <= step)["epoch"].drop_nulls()
    return float(found[-1]) if found.len() else None


def _row_reasons(
    row: TableRow,
    answer: TableAnswer,
    best: Rung | None,
    overruled: bool,
    undoing: Undoing,
    health: Health | None,
) -> Iterator[str]:
    """Yield what became of the table's row."""
    epochs = row.checkpoint == "last epoch" and answer.checkpoint == INITIAL
    if epochs and not undoing.none:
        yield "no epoch ended with a complete checkpoint before the onset"
    if best is None:
        return
    named = f'the table\'s row "{answer.row}"'
    read = health is not None and health.weights is True
    if not overruled:
        yield f"as {named} says"
    elif undoing.evaluated is not None or undoing.overrules:
        yield f"{named} is overruled by the cause"
    elif row.checkpoint == "initial" or epochs or not read:
        sound = "sound checkpoint exists" if read else "checkpoint exists, its weights unread"
        yield f"{named} is overruled: a later {sound}"
    else:
        yield f"{named} is overruled: its checkpoint is not the last sound one"


def _other_reasons(
    run: Run, best: Rung | None, undoing: Undoing, unfit: Mapping[str, str]
) -> Iterator[str]:
    """Yield why there is none, what the cause says, and which checkpoint would have been later."""
    if best is None and not undoing.none:
        if not run.policies:
            yield "no checkpoint was found"
        elif unfit:
            yield "no checkpoint before the onset is sound and within the bounds of the start"
        else:
            yield "no complete checkpoint precedes the onset"
        yield "the initial model is what is left"
        return
    if undoing.said:
        yield undoing.said
    later = [item.name for item in run.policies if item.name in unfit]
    if best is not None and undoing.evaluated is None and later:
        last = later[-1]
        if any(item.name == last and item.step > best.checkpoint.step for item in run.policies):
            yield f"{last} is later and was rejected for what it is like ({unfit[last]})"


SHOWN = (
    "kl_ref_token",
    "kl_ref_response",
    "entropy",
    "response_length_mean",
    "reward_raw_mean",
)
"""Logged numbers that the ladder shows as they are."""


def ladder(run: Run, plan: RollbackPlan) -> list[dict[str, object]]:
    """Return one row a checkpoint of a plan: what it is like, and why it was not chosen.

    Plain numbers are those of the row ``log_offset`` after the checkpoint's step, the one that its
    weights sampled. readings: levels with their intervals, beside what they are held against.
    """
    reasons = {item.checkpoint: item.why for item in plan.rejected}
    rows: list[dict[str, object]] = []
    for rung in plan.ladder:
        checkpoint = rung.checkpoint
        row = recomputed_row(run, checkpoint) or {}
        rows.append(
            {
                "checkpoint": checkpoint.name,
                "step": checkpoint.step,
                "epoch": checkpoint.epoch,
                "complete": checkpoint.complete,
                **_as_logged(run, checkpoint),
                "perplexity_samples": sampled_perplexity(run, checkpoint),
                "kl_recomputed": row.get("kl_ref_token_exact"),
                "perplexity_recomputed": row.get("perplexity_policy"),
                "readings": {name: asdict(found) for name, found in rung.readings.items()},
                "outside": list(rung.outside),
                "unknown": list(rung.unknown),
                "chosen": plan.checkpoint == checkpoint,
                "why_not": reasons.get(checkpoint.name),
            }
        )
    return rows


def _as_logged(run: Run, checkpoint: Checkpoint) -> dict[str, object]:
    """Return the logged numbers of the row that a checkpoint's weights sampled, else of its own."""
    for step in (checkpoint.step + run.log_offset, checkpoint.step):
        found = run.metrics.filter(pl.col("step") == step)
        if found.height:
            values = found.row(0, named=True)
            return {name: values.get(name) for name in SHOWN}
    return dict.fromkeys(SHOWN)
