"""Where to go back to: the step/epoch table as a literal, the vetting, the choice, what to change.

The table is a practitioners' rule of thumb and always shown. The evidence vets it: a checkpoint
must be complete, lie before the onset (``step + log_offset`` below the low end of its interval),
stay within the ladder's bounds, and hold finite numbers. The cause can overrule it, in words.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from statistics import median

import polars as pl

from rlhfdoctor import ladder as ladders
from rlhfdoctor import tree
from rlhfdoctor.finite import Health
from rlhfdoctor.ladder import Bounds, Rung
from rlhfdoctor.measures import logged, prefers, scans, track
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
    TableRow,
    Verdict,
)
from rlhfdoctor.replay import TARGET, Constants, exponential
from rlhfdoctor.resume import resume
from rlhfdoctor.series import MAD_TO_SIGMA, stretches

INITIAL = "initial model"

LOWER_RATE = "lower the learning rate"
RAISE_PENALTY = "raise the KL penalty"
RENEW_REWARD = "renew the reward model"

TABLE: tuple[TableRow, ...] = (
    TableRow("< 1000", 999, "initial", LOWER_RATE),
    TableRow("1000-5000", 5000, "last epoch", RAISE_PENALTY),
    TableRow("> 5000", None, "last stable point", RENEW_REWARD),
)
"""The practitioners' table by crash step. Of 16 public collapses with a stated onset, 11 lie in the
first row, 4 in the second, 1 in the third."""

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
    bounds: Bounds | None = None,
    vet: Vet | None = None,
) -> RollbackPlan:
    """Suggest a checkpoint: what the table says, what the evidence says, and why they differ.

    ``crash_step`` (the user's) chooses the row; a checkpoint must precede it and the onset that
    the evidence dates. Without either there is nothing to go back from. ``vet`` reads the numbers
    of those that pass everything else, the latest first, until one is sound.
    """
    stated = crash_step is not None
    if crash_step is not None:
        dated = crash_step if onset is None else min(crash_step, onset.low)
        onset = Onset(crash_step, dated, crash_step)
    undone = verdict not in ("collapsed", "degraded") or (
        causes and causes[0].name in tree.MEASUREMENT
    )
    if onset is None or (undone and not stated):
        return _nothing_to_undo(run, causes, vet)
    row = table_row(onset.step, table)
    cause = None if undone or not causes else causes[0]
    way = _way(run, cause, onset)
    rejected: list[Rejection] = []
    passed: list[Rung] = []
    judge = _Judge(run, way, _began(cause, findings), _broken(run))
    within = True
    for rung in ladders.rungs(run, onset, bounds, kl=_kl_counts(cause)):
        why = judge.rejection(rung.checkpoint)
        within = within and (why is not None or not rung.outside)
        why = why or "; ".join(rung.outside)
        if why:
            rejected.append(Rejection(rung.checkpoint.name, why))
        else:
            passed.append(rung)
    best, health, unsound = _soundest(run, passed, way, vet)
    passed = [rung for rung in passed if rung.checkpoint.name not in unsound]
    rejected += [Rejection(name, why) for name, why in unsound.items()]
    by_table = _by_table(row, run, onset.low, [rung.checkpoint for rung in passed])
    answer = TableAnswer(f"{row.name}: {row.checkpoint}", by_table or INITIAL, row.change)
    chosen = best.checkpoint if best else None
    overruled = (chosen.name if chosen else INITIAL) != answer.checkpoint
    nothing = _no_checkpoint(run, within and not unsound)
    perplexity = best.readings.get("perplexity") if best else None
    changes = tuple(_changes(run, row, cause, verdict, onset))
    return RollbackPlan(
        checkpoint=chosen,
        table=answer,
        overruled=overruled,
        reason="; ".join(
            _reasons(run, row, answer, best, overruled, by_table, way, passed, nothing)
        ),
        changes=changes,
        rejected=tuple(_in_order(run, rejected)),
        perplexity=perplexity.value if perplexity else None,
        unchecked=_unchecked(best, health),
        resume=resume(run, chosen, changes),
    )


def by_table_alone(run: Run, step: int | None, table: Sequence[TableRow] = TABLE) -> RollbackPlan:
    """Return what the table says of a crash step: no evidence is asked, nothing vetted."""
    if step is None:
        return RollbackPlan(
            None, None, False, "no crash step: state one with --crash-step", needed=False
        )
    row = table_row(step, table)
    before = [item for item in run.policies if item.step + run.log_offset < step]
    name = _by_table(row, run, step, before)
    chosen = next((item for item in before if item.name == name), None)
    answer = TableAnswer(f"{row.name}: {row.checkpoint}", name or INITIAL, row.change)
    reason = f'the table\'s row "{answer.row}" for step {step}, and no evidence'
    if name is None and row.checkpoint != "initial":
        reason += f"; there is no {row.checkpoint} before it"
    kinds = [kind for kind, words in _ROWS.items() if words == row.change]
    changes = tuple(
        replace(found, why="as the table says")
        for kind in kinds
        if (found := KINDS[kind](run, "collapsed", step))
    )
    return RollbackPlan(
        checkpoint=chosen,
        table=answer,
        overruled=False,
        reason=reason,
        changes=changes,
        unchecked=("everything",),
        resume=resume(run, chosen, changes),
    )


@dataclass(frozen=True, slots=True)
class Way:
    """How a cause is undone.

    limit: logged step before which a checkpoint must lie. said: what the cause says to that, where
    it overrules the table. none: no checkpoint is one to go back to. best: the key by which the
    best checkpoint is the largest, where it is not the last one.
    """

    limit: int
    said: str = ""
    none: bool = False
    best: Callable[[float], float] | None = None


def _way(run: Run, cause: Cause | None, onset: Onset) -> Way:
    """Return how a cause is undone; the last sound checkpoint before the onset by default."""
    name = cause.name if cause else ""
    first = (run.first_step or 0) + run.log_offset
    sure = cause is not None and cause.confidence == "confirmed"
    if sure and name in tree.NOTHING_LEARNT and onset.low <= first:
        said = "nothing was learnt, so nothing is lost: restart after the fix"
        return Way(onset.low, said, none=True)
    if name in FROM_THE_START or (name in OF_THE_SETUP and onset.low <= first):
        said = "the fault was there from the first step, so that every checkpoint has it: "
        return Way(onset.low, f"{said}restart from the initial model with it mended", none=True)
    if name == RECAPTURED:
        return _before_resume(run, onset)
    if name == NON_FINITE:
        return _before_anomaly(run, onset)
    if name == ENTROPY_COLLAPSE:
        return _before_half(run, onset)
    if name in (tree.OVER_OPTIMISATION, OVERFITTING):
        found = ladders.best_held_out(run)
        if found is not None:
            key = found.column.sources[-1].key or found.metric
            said = f"{name} is undone at the best {key}, never at the highest training reward"
            return Way(onset.low, said, best=ladders.better(found))
    return Way(onset.low)


def _kl_counts(cause: Cause | None) -> bool:
    return cause is None or cause.name not in REFERENCE


RECAPTURED = "the reference was captured anew"
NON_FINITE = "non-finite values"
ENTROPY_COLLAPSE = "entropy collapse"
OVERFITTING = "overfitting to the pairs"

FROM_THE_START = (tree.WRONG_REFERENCE, "log-probabilities that disagree")
"""Causes that were there before the first update: they taint every checkpoint."""

REFERENCE = (RECAPTURED, "the reference moved", tree.WRONG_REFERENCE)
"""Causes under which the logged KL is the distance to another model than it says."""

OF_THE_SETUP = (*tree.NOTHING_LEARNT, tree.CUT_OFF, "configuration")
"""Causes that taint every checkpoint where they are there from the first logged row."""


def _before_resume(run: Run, onset: Onset) -> Way:
    """Return the way out of a fault that came with a resume: weights saved before are sound."""
    seams = [seam.step for seam in run.seams if seam.step <= onset.high]
    if not seams:
        return Way(onset.low)
    step = max(seams)
    said = f"the fault came with the resume at step {step}: the last checkpoint before it"
    return Way(step + run.log_offset, said)


def _before_anomaly(run: Run, onset: Onset) -> Way:
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
        return Way(onset.low, "the last finite checkpoint before the first number that is not")
    said = f"the last finite checkpoint before the first anomaly ({of_what} at step {first})"
    return Way(first, said)


def _stands_out(before: Sequence[float], value: float) -> bool:
    """Say whether a value lies far above the rows before it, ``LASTING`` of them at least."""
    if len(before) < LASTING:
        return False
    level = median(before)
    scale = MAD_TO_SIGMA * median(abs(other - level) for other in before)
    return value - level > ANOMALY * max(scale, abs(level) * FLAT)


def _before_half(run: Run, onset: Onset) -> Way:
    """Return the way out of an entropy collapse: what comes after half of it cannot explore."""
    if not logged(run, "entropy"):
        return Way(onset.low)
    found = track(run, "entropy")
    first = found.steps[0]
    half = median(found.between(first, first + EARLY_STEPS)) / 2
    fallen = stretches(found.values, lambda value: value < half, LASTING)
    if not fallen:
        return Way(onset.low)
    step = found.steps[fallen[0][0]]
    said = f"before the entropy halved at step {step}: later checkpoints cannot explore"
    return Way(min(onset.low, step), said)


@dataclass(frozen=True, slots=True)
class _Judge:
    """What a checkpoint is rejected for before its ladder is asked."""

    run: Run
    way: Way
    began: Mapping[int, str]
    broken: Mapping[str, str | None]

    def rejection(self, checkpoint: Checkpoint) -> str | None:
        """Return why a checkpoint is none to go back to."""
        if not checkpoint.complete:
            return "incomplete: " + ", ".join(checkpoint.missing)
        if checkpoint.name in self.broken:
            return f"weights are not finite: {self.broken[checkpoint.name]}"
        row = checkpoint.step + self.run.log_offset
        if self.way.none:
            return "has the fault that was there from the start"
        if row >= self.way.limit:
            return f"not before the onset, {self.way.limit} at the earliest (its log row: {row})"
        earlier = [(low, code) for low, code in self.began.items() if row >= low]
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


def _broken(run: Run) -> dict[str, str | None]:
    return {item.checkpoint: item.first_non_finite for item in scans(run) if not item.finite}


def _soundest(
    run: Run, passed: Sequence[Rung], way: Way, vet: Vet | None
) -> tuple[Rung | None, Health | None, dict[str, str]]:
    """Return the best rung whose numbers are finite, and those above it whose are not."""
    unsound: dict[str, str] = {}
    for rung in sorted(passed, key=lambda rung: _rank(rung, way), reverse=True):
        health = None if vet is None else vet(run, rung.checkpoint)
        if health is None or False not in (health.weights, health.optimizer):
            return rung, health, unsound
        what = "weights" if health.weights is False else "optimizer state"
        unsound[rung.checkpoint.name] = f"{what} not finite: {health.where}"
    return None, None, unsound


def _rank(rung: Rung, way: Way) -> tuple[float, int]:
    score = rung.readings.get("held_out")
    if way.best is None:
        return 0.0, rung.checkpoint.step
    return (-math.inf if score is None else way.best(score.value)), rung.checkpoint.step


def _unchecked(best: Rung | None, health: Health | None) -> tuple[str, ...]:
    """Return what nobody looked at of the checkpoint that was chosen."""
    if best is None:
        return ()
    if health is None:
        return (*best.unknown, "weights: not read")
    told = list(best.unknown)
    if health.weights is None:
        told.append("weights: " + (health.unread[0] if health.unread else "none found"))
    if health.optimizer is None:
        there = [item for item in health.unread if "optim" in item.lower()]
        told.append(f"optimizer state: {there[0] if there else 'none, weights only'}")
    return tuple(told)


def _in_order(run: Run, rejected: Sequence[Rejection]) -> list[Rejection]:
    order = {item.name: place for place, item in enumerate(run.policies)}
    return sorted(rejected, key=lambda item: order[item.checkpoint])


def _nothing_to_undo(run: Run, causes: Sequence[Cause], vet: Vet | None) -> RollbackPlan:
    if any(cause.name == tree.INTERRUPTED for cause in causes):
        complete = [rung for rung in ladders.rungs(run, None) if rung.checkpoint.complete]
        broken = _broken(run)
        sound = [rung for rung in complete if rung.checkpoint.name not in broken]
        best, health, unsound = _soundest(run, sound, Way(0), vet)
        rejected = [Rejection(name, why) for name, why in unsound.items()]
        if best is not None:
            return RollbackPlan(
                checkpoint=best.checkpoint,
                table=None,
                overruled=False,
                reason="the log was cut short and shows no fault: the last complete checkpoint",
                rejected=tuple(rejected),
                needed=False,
                unchecked=_unchecked(best, health),
                resume=resume(run, best.checkpoint, ()),
            )
    reason = "no fault with an onset was found"
    if causes and causes[0].name in tree.MEASUREMENT:
        reason = "the fault is in what was logged; the weights may be sound"
    return RollbackPlan(None, None, False, reason, needed=False)


def _by_table(row: TableRow, run: Run, step: int, passed: Sequence[Checkpoint]) -> str | None:
    """Return the checkpoint that a row means, or None: the initial model, or no such checkpoint."""
    if row.checkpoint == "last stable point":
        return passed[-1].name if passed else None
    if row.checkpoint == "last epoch":
        ended = math.floor(_epoch_at(run, step) or 0.0)
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


def _reasons(
    run: Run,
    row: TableRow,
    answer: TableAnswer,
    best: Rung | None,
    overruled: bool,
    by_table: str | None,
    way: Way,
    passed: Sequence[Rung],
    nothing: str,
) -> Iterator[str]:
    """Yield why the plan is what it is, in the order in which it was settled."""
    if row.checkpoint == "last epoch" and by_table is None:
        yield "no epoch ended with a complete checkpoint before the onset"
    if best is None:
        if way.none:
            yield way.said
            return
        yield nothing
        yield "the initial model is what is left"
        return
    named = f'the table\'s row "{answer.row}"'
    if not overruled:
        yield f"as {named} says"
    elif way.best is not None and passed and best is not passed[-1]:
        yield f"{named} is overruled by the cause"
    elif row.checkpoint == "initial" or by_table is None or _later(run, best, by_table):
        yield f"{named} is overruled: a later sound checkpoint exists"
    else:
        yield f"{named} is overruled: its checkpoint is not sound"
    if way.said:
        yield way.said


def _no_checkpoint(run: Run, early: bool) -> str:
    """Return why there is none to go back to; early: none was rejected for what it is like."""
    if not run.policies:
        return "no checkpoint was found"
    if early:
        return "no complete checkpoint precedes the onset"
    return "no checkpoint that precedes the onset is sound and within the bounds of the start"


def _later(run: Run, best: Rung, name: str) -> bool:
    step = best.checkpoint.step
    return any(item.name == name and item.step <= step for item in run.policies)


# What to change before the next attempt


@dataclass(frozen=True, slots=True)
class Kinds:
    """Changes that fit a cause: those it asks for, and those it allows the table to ask for."""

    asked: tuple[str, ...]
    allowed: tuple[str, ...] = ()


CHANGES: Mapping[str, Kinds] = {
    tree.OVER_OPTIMISATION: Kinds(("reward", "penalty", "rate")),
    "policy drift": Kinds(("rate",), ("penalty", "reward")),
    "repetition collapse": Kinds(("penalty", "rate"), ("reward",)),
    "policy collapse": Kinds(("rate",), ("penalty", "reward")),
    "unstable updates": Kinds(("rate", "clip"), ("penalty",)),
    "a collapse that the log ends in": Kinds(("rate",), ("penalty", "reward")),
    "training makes the policy worse": Kinds(("rate",), ("reward",)),
    ENTROPY_COLLAPSE: Kinds(("clip_wider",)),
    "entropy explosion": Kinds(("entropy_bonus", "clip_usual"), ("penalty",)),
    NON_FINITE: Kinds(("precision", "rate")),
    tree.CUT_OFF: Kinds(("limit",)),
    "likelihood displacement": Kinds(("rate",), ("penalty",)),
    "preference training diverged": Kinds(("rate",), ("penalty",)),
    OVERFITTING: Kinds(("rate",), ("penalty",)),
}
"""Changes by cause. A cause that is not here is mended otherwise, as its remedy says: no number of
the table helps against a wrong reference, an engine that disagrees, or weights that never moved."""

_ROWS = {"rate": LOWER_RATE, "penalty": RAISE_PENALTY, "reward": RENEW_REWARD}
"""Kinds of change that a row of the table asks for, by its words."""


def _changes(
    run: Run, row: TableRow, cause: Cause | None, verdict: Verdict, onset: Onset
) -> Iterator[Change]:
    """Yield what to change: the row's own change first, where the cause has nothing against it."""
    by_row = [kind for kind, words in _ROWS.items() if words == row.change]
    fitting = Kinds(("rate",), tuple(_ROWS)) if cause is None else CHANGES.get(cause.name)
    if fitting is None:
        return
    wanted = [kind for kind in by_row if kind in (*fitting.asked, *fitting.allowed)]
    for kind in dict.fromkeys((*wanted, *fitting.asked)):
        found = KINDS[kind](run, verdict, onset.step)
        if found is not None:
            yield found


def _rate(run: Run, verdict: Verdict, step: int) -> Change:
    current = _setting(run, "learning_rate", "lr")
    part, why = 2, "half: degraded, and not collapsed"
    if verdict == "collapsed":
        part, why = 10, "a tenth: the practitioners' emergency step"
    if current is None:
        why = f"{why.partition(':')[0]} of the present one, which is not in the log"
        return Change("learning_rate", None, None, why)
    return Change("learning_rate", current, _rounded(current / part), why)


CONTROLLER = Constants()
"""The practitioners' exponential controller, as ``backtest`` replays it."""


def _penalty(run: Run, verdict: Verdict, step: int) -> Change:
    """Return one update of the exponential controller, at the KL of the onset.

    The KL is taken in nats a response, for the target is. The exponent is held as in a replay, and
    beta to the bounds that the adaptive controller has.
    """
    beta = _setting(run, "kl_coef", "kl_coef")
    if beta is None:
        return Change("kl_coef", None, None, "raise it; the present one is not in the log")
    start, eta, most = CONTROLLER.start, CONTROLLER.eta, CONTROLLER.beta_high
    if beta <= 0.0:
        return Change("kl_coef", beta, start, f"{start:g} is the usual start")
    distance, told = _response_kl(run, step)
    if distance is None or prefers(run):
        return Change("kl_coef", beta, _rounded(2 * beta), "twice; no KL a response was logged")
    asked = exponential([max(distance, TARGET)], TARGET, replace(CONTROLLER, start=beta)).beta[0]
    why = f"beta x exp({eta:g} x (KL - {TARGET:g})), KL {distance:.3g} nats/response{told}"
    return Change("kl_coef", beta, _rounded(max(min(asked, most), beta)), why)


def _response_kl(run: Run, step: int) -> tuple[float | None, str]:
    """Return the KL at a step in nats a response, and how it was come by."""
    at = {
        name: ladders.level_at(run, name, step)
        for name in ("kl_ref_response", "kl_ref_token", "response_length_mean")
    }
    if at["kl_ref_response"] is not None:
        return at["kl_ref_response"], ""
    token, length = at["kl_ref_token"], at["response_length_mean"]
    if token is None or length is None:
        return None, ""
    return token * length, " (a token x the mean length)"


def _clip(run: Run, verdict: Verdict, step: int) -> Change:
    current = run.number("clip_range")
    if current is None:
        return Change("clip_range", None, USUAL_CLIP, "the usual range")
    if current > USUAL_CLIP:
        return Change("clip_range", current, USUAL_CLIP, "the usual range")
    return Change("clip_range", current, _rounded(current / 2), "half of the present one")


USUAL_CLIP, HIGHER_CLIP = 0.2, 0.28
"""Clip range of PPO (Schulman et al. 1707.06347), and DAPO's upper one (2503.14476)."""


def _clip_wider(run: Run, verdict: Verdict, step: int) -> Change | None:
    current = _upper_clip(run)
    if current is not None and current >= HIGHER_CLIP:
        return None
    return Change("clip_range_high", current, HIGHER_CLIP, "DAPO's: room for unlikely tokens")


def _clip_usual(run: Run, verdict: Verdict, step: int) -> Change | None:
    current = _upper_clip(run)
    if current is None or current <= USUAL_CLIP:
        return None
    return Change("clip_range_high", current, USUAL_CLIP, "no wider than the usual range")


def _upper_clip(run: Run) -> float | None:
    upper = run.number("clip_range_high")
    return run.number("clip_range") if upper is None else upper


def _entropy_bonus(run: Run, verdict: Verdict, step: int) -> Change | None:
    current = run.number("entropy_coef")
    if current is None or current <= 0.0:
        return None
    return Change("entropy_coef", current, 0.0, "a bonus feeds what exploded")


def _precision(run: Run, verdict: Verdict, step: int) -> Change | None:
    found = run.config.get("dtype")
    current = str(found.value) if found else None
    if current is None or "16" not in current or "bf16" in current or "bfloat16" in current:
        return None
    return Change("dtype", current, "bfloat16", "the range of float32: no loss scale to overflow")


def _limit(run: Run, verdict: Verdict, step: int) -> Change | None:
    current = run.number("max_response_length")
    if current is None:
        return None
    return Change("max_response_length", current, 2 * current, "twice: cut answers teach nothing")


def _reward(run: Run, verdict: Verdict, step: int) -> Change:
    found = run.config.get("reward_model")
    current = str(found.value)[:80] if found else None
    return Change("reward_model", current, "renewed", "it pays for what it should not")


Kind = Callable[[Run, Verdict, int], Change | None]

KINDS: Mapping[str, Kind] = {
    "rate": _rate,
    "penalty": _penalty,
    "clip": _clip,
    "clip_wider": _clip_wider,
    "clip_usual": _clip_usual,
    "entropy_bonus": _entropy_bonus,
    "precision": _precision,
    "limit": _limit,
    "reward": _reward,
}
"""Changes by kind: of a run, its verdict, and the step of its onset."""


def _setting(run: Run, name: str, column: str) -> float | None:
    """Return a setting of the configuration, else the largest that was logged."""
    value = run.number(name)
    if value is None and logged(run, column):
        value = max(track(run, column).values)
    return value


def _rounded(value: float) -> float:
    return float(f"{value:.3g}")


SHOWN = (
    "kl_ref_token",
    "kl_ref_response",
    "entropy",
    "response_length_mean",
    "reward_raw_mean",
)
"""Logged numbers that the ladder shows as they are."""


def ladder(
    run: Run, plan: RollbackPlan, onset: Onset | None, causes: Sequence[Cause] = ()
) -> list[dict[str, object]]:
    """Return one row a checkpoint: what it is like, and why it was not chosen.

    Plain numbers are those of the row ``log_offset`` after the checkpoint's step, the one that its
    weights sampled. readings: levels with their intervals, beside what they are held against.
    """
    reasons = {item.checkpoint: item.why for item in plan.rejected}
    rows: list[dict[str, object]] = []
    for rung in ladders.rungs(run, onset, kl=_kl_counts(causes[0] if causes else None)):
        checkpoint = rung.checkpoint
        row = ladders.recomputed_row(run, checkpoint) or {}
        rows.append(
            {
                "checkpoint": checkpoint.name,
                "step": checkpoint.step,
                "epoch": checkpoint.epoch,
                "complete": checkpoint.complete,
                **_as_logged(run, checkpoint),
                "perplexity_samples": ladders.sampled_perplexity(run, checkpoint),
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
