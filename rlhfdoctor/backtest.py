"""What each alarm and controller would have done on a run, forward in time, without looking ahead.

An alarm at a row rests on the rows, samples and checkpoints that were there by then, so that no row
appended later changes it. What the log was read as is that of the whole log: the trainer's name,
the units of its columns, whether a sample file counts tokens or words, and, where a run was
resumed, the rows that were written last.

Two sentences go with the KL alarm in field articles: that 83 % of the runs whose KL stands above 5
for 10 steps collapse fully within 50 steps, and that stopping there saves 37 % of the compute on
average. Both are claimed, and no source for them was found: neither is verified here. What is told
is what stopping would have saved on this run.
"""

from __future__ import annotations

import math
import re
import shlex
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import groupby
from typing import NamedTuple

import polars as pl

from rlhfdoctor import replay
from rlhfdoctor.cost import gpu_hours
from rlhfdoctor.measures import all_zeros, batches, blocks, finite_rows, last_drawn, prefers
from rlhfdoctor.model import Finding, Run
from rlhfdoctor.replay import CEILING, CONTROLLERS, START_ROWS, TARGET, Constants, Seen
from rlhfdoctor.responses import MEASURES, measure
from rlhfdoctor.rules.perplexity_collapse import Limits
from rlhfdoctor.series import LARGEST

Judge = Callable[[Run], tuple[Sequence[Finding], Sequence[str]]]
"""What judges the beginning of a run: the doctor, by the limits that the user named. It gives the
findings, and in words the required signals that it could not look at."""

FEWEST = Limits().fewest
"""Responses of a sampled step below which its perplexity says little: PPL001's."""

LOSSES = ("SFT", "RM", "reward model")
"""Algorithms beside the preference family whose loss is what they minimise."""

SHORT, GROWTH = 20, 1.05
"""Rows up to which every beginning of a run is judged, and by what each one after that is longer.

A grid that knows nothing of the run's length: 77 beginnings of 200 rows, 143 of 5,000."""

FUTURE = ("planned_steps", "ended_with", "updates_done")
"""Settings that only a finished log tells, or that compare it with its end."""

LOG = "LOG"
"""Family of the rules about the log itself: that it ends is no alarm."""


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of an alarm: the steps at which it rang, and was last true, and was over.

    over_step: None where it held to the end of the log.
    """

    from_step: int
    to_step: int
    over_step: int | None


@dataclass(frozen=True, slots=True)
class Alarm:
    """What one alarm would have done.

    condition: in words, with its numbers and its unit. subject: the metric or the sample file that
    it first rang on, else that it watched. unknown: why it could not look; empty where it looked.
    caveat: what to mind. counts: whether stopping on it would have been meant; a loss that is
    cosmetic does not. fired_row: counted from 1 in the log's table. observed: what it saw there.
    times: how often it began to ring. saved_fraction: of the last step. gpu_hours_saved: None
    without a clock or a number of GPUs. spans: each stretch; those that are over recovered, for the
    run went on.
    """

    alarm: str
    condition: str
    subject: str | None = None
    unknown: str = ""
    caveat: str = ""
    counts: bool = True
    fired_step: int | None = None
    fired_row: int | None = None
    observed: float | None = None
    times: int = 0
    saved_steps: int | None = None
    saved_fraction: float | None = None
    gpu_hours_saved: float | None = None
    spans: tuple[Span, ...] = ()


class _Watch(NamedTuple):
    """One series that an alarm watched: steps, what it saw at each, and whose value that was."""

    subjects: Sequence[str]
    steps: Sequence[int]
    seen: Seen


class _Series(NamedTuple):
    """Finite values of one logged column, and their steps."""

    metric: str
    unit: str
    estimator: str | None
    steps: list[int]
    values: list[float]


def _watched(series: _Series, seen: Seen) -> _Watch:
    return _Watch([series.metric] * len(seen), series.steps, seen)


def alarms(run: Run, constants: Constants | None = None) -> tuple[Alarm, ...]:
    """Replay the alarms that need nothing but rows and samples; milliseconds for 5,000 rows."""
    stated = constants or Constants()
    return tuple(
        _told(run, alarm, watches)
        for alarm, watches in (
            _kl_alarm(run, stated),
            _length_alarm(run, stated),
            _perplexity_alarm(run, stated),
            _entropy_alarm(run, stated),
            _loss_alarm(run, stated),
        )
    )


def backtest(run: Run, constants: Constants, judge: Judge | None = None) -> Mapping[str, object]:
    """Return what alarms, rules, controllers, normaliser and plan would have done on a run.

    judge: what replays our own rules on the beginnings of the run; None: they are left out.
    """
    found = alarms(run, constants)
    rules: Mapping[str, object] | None = None
    if judge is not None:
        own, rules = _rules(run, judge)
        found = (*found, own)
    return {
        "run": {"id": run.name, "path": run.path},
        "rows": run.metrics.height,
        "first_step": run.first_step,
        "last_step": run.last_step,
        "logged_steps": run.logged_steps,
        "constants": asdict(constants),
        "alarms": [asdict(alarm) for alarm in found],
        "rules": rules,
        "controllers": controllers(run, constants),
        "normaliser": [*_normalisers(run, constants)],
        "plan": plan(run, found, constants),
        "notes": [*_notes(run)],
    }


# Alarms


def _kl_alarm(run: Run, stated: Constants) -> tuple[Alarm, list[_Watch]]:
    kl, unknown = _kl(run, stated.kl_ceiling, "--kl-ceiling")
    ceiling = stated.kl_ceiling or CEILING
    unit = kl.unit if kl else "nats/response"
    alarm = Alarm("kl", f"KL > {ceiling:g} {unit}, {stated.kl_rows} rows", unknown=unknown)
    if kl is None:
        return alarm, []
    if unit == "unknown":
        alarm = replace(
            alarm,
            condition=f"KL > {ceiling:g} (unit unknown), {stated.kl_rows} rows",
            caveat="the unit of this KL is unknown; the ceiling is yours",
        )
    if few := _few(kl, stated.kl_rows - 1, "a KL"):
        return replace(alarm, subject=kl.metric, unknown=few), []
    return alarm, [_watched(kl, replay.above_for(kl.values, ceiling, stated.kl_rows))]


def _length_alarm(run: Run, stated: Constants) -> tuple[Alarm, list[_Watch]]:
    length = _series(run, "response_length_mean")
    alarm = Alarm("length", f"length > mean + {stated.sigmas:g} sd")
    if length is None:
        return replace(alarm, unknown="no mean length of the responses is logged"), []
    if few := _few(length, stated.warmup, "a length"):
        return replace(alarm, subject=length.metric, unknown=few), []
    seen = replay.above_spread(length.values, stated.sigmas, stated.warmup)
    return alarm, [_watched(length, seen)]


def _perplexity_alarm(run: Run, stated: Constants) -> tuple[Alarm, list[_Watch]]:
    """Watch the logged perplexity and that of each sample file, each held against its own start.

    The start is the median of ``START_ROWS`` logged rows, and in samples their first step. One row
    or sampled step below the share rings: the articles give no patience.
    """
    share = stated.perplexity_share
    alarm = Alarm("perplexity", f"perplexity < {share:.3g} of its start")
    found = []
    logged = _series(run, "ppl_policy")
    if logged and any(logged.values) and not _few(logged, START_ROWS, "a perplexity"):
        seen = replay.below_start(logged.values, lambda start: share * start, START_ROWS)
        found.append(_watched(logged, seen))
    for sources, steps, values in _sampled(run):
        if len(steps) > 1:
            seen = replay.below_start(values, lambda start: share * start, 1)
            found.append(_Watch(sources, steps, seen))
    told = f"no two sampled steps have log-probabilities, nor {START_ROWS + 1} rows a perplexity"
    return replace(alarm, unknown="" if found else told), found


def _entropy_alarm(run: Run, stated: Constants) -> tuple[Alarm, list[_Watch]]:
    """Watch exp(entropy): on the policy's own samples ln(perplexity) has entropy as its mean.

    So the perplexity's limit serves, and nearly every log has an entropy. A median of
    ``START_ROWS`` is its start. Only a full-vocabulary entropy in nats a token is one.
    """
    share = stated.perplexity_share
    alarm = Alarm("entropy", f"exp(entropy) < {share:.3g} of its start")
    entropy = _series(run, "entropy")
    if entropy is None or not any(entropy.values) or entropy.unit != "nats/token":
        return replace(alarm, unknown="no entropy in nats/token is logged"), []
    if few := _few(entropy, START_ROWS, "an entropy"):
        return replace(alarm, subject=entropy.metric, unknown=few), []
    fall = math.log(share)
    seen = replay.below_start(entropy.values, lambda start: start + fall, START_ROWS)
    return alarm, [_watched(entropy, seen)]


def _loss_alarm(run: Run, stated: Constants) -> tuple[Alarm, list[_Watch]]:
    alarm = Alarm(
        "loss_variance", f"loss variance > {stated.loss_variance:g} over {stated.window} rows"
    )
    if not (prefers(run) or run.algorithm in ("unknown", *LOSSES)):
        told = f"the loss of {run.algorithm} is cosmetic: look at gradient norm and ratio instead"
        alarm = replace(alarm, caveat=told, counts=False)
    loss = _series(run, "loss_total")
    if loss is None:
        return replace(alarm, unknown="no loss is logged"), []
    if few := _few(loss, stated.window - 1, "a loss"):
        return replace(alarm, subject=loss.metric, unknown=few), []
    seen = replay.spread_over(loss.values, stated.loss_variance, stated.window)
    return alarm, [_watched(loss, seen)]


def _few(series: _Series, rows: int, what: str) -> str:
    """Say that no more rows are there than an alarm waits for; nothing where there are."""
    count = len(series.values)
    return f"rows with {what}: {count}, it looks after {rows}" if count <= rows else ""


def _told(run: Run, alarm: Alarm, watches: Sequence[_Watch]) -> Alarm:
    """Return an alarm with what it saw; of several series it rings while any of them does."""
    rung = [watch for watch in watches if any(seen is not None for seen in watch.seen)]
    if not rung:
        return replace(alarm, subject=watches[0].subjects[0] if watches else alarm.subject)
    first, subject, observed = min(
        (step, subject, seen)
        for watch in rung
        for step, subject, seen in zip(watch.steps, watch.subjects, watch.seen, strict=True)
        if seen is not None
    )
    spans = tuple(_spans(rung))
    alarm = replace(alarm, subject=subject, observed=observed, times=len(spans), spans=spans)
    return _saving(run, alarm, first)


def _spans(watches: Sequence[_Watch]) -> Iterator[Span]:
    """Yield each stretch of rows at which any of the series rang."""
    rows = [
        (step, place, seen is not None)
        for place, watch in enumerate(watches)
        for step, seen in zip(watch.steps, watch.seen, strict=True)
    ]
    ringing: set[int] = set()
    begun: int | None = None
    last = 0
    for step, group in groupby(sorted(rows), key=lambda row: row[0]):
        for _, place, rings in group:
            (ringing.add if rings else ringing.discard)(place)
        if ringing:
            begun, last = step if begun is None else begun, step
        elif begun is not None:
            yield Span(begun, last, step)
            begun = None
    if begun is not None:
        yield Span(begun, last, None)


def _saving(run: Run, alarm: Alarm, step: int) -> Alarm:
    """Return an alarm with the step it rang at, and what stopping there would have saved."""
    last = run.last_step
    if last is None:
        return replace(alarm, fired_step=step)
    saved = max(last - step, 0)
    return replace(
        alarm,
        fired_step=step,
        fired_row=_row(run, step),
        saved_steps=saved,
        saved_fraction=saved / max(last, 1),
        gpu_hours_saved=gpu_hours(run, step, last),
    )


def _row(run: Run, step: int) -> int:
    """Return the row of the log's table, from 1, at which something of a step is first there."""
    return bisect_left(run.metrics["step"], step) + 1


_KLS = ("kl_ref_response", "kl_ref_token", "kl_unknown")


def _kl(run: Run, stated: float | None, option: str) -> tuple[_Series | None, str]:
    """Return the KL to the reference, or why it cannot be held against a number.

    Without a number stated in the run's own unit (``option``) only a sum over the response can be,
    and nothing derived. Of several columns the one that was the first to be measured is taken: the
    choice that nothing later changes. Exact zeros were never measured.
    """
    found = [
        (next(step for step, value in zip(kl.steps, kl.values, strict=True) if value), place, kl)
        for place, name in enumerate(_KLS if stated is not None else _KLS[:1])
        if (kl := _series(run, name)) is not None
        and any(kl.values)
        and not run.columns[name].derived
        and (stated is not None or kl.unit == "nats/response")
    ]
    if found:
        return min(found)[2], ""
    there = [name for name in _KLS if finite_rows(run, name)]
    if not there:
        return None, "no KL to the reference is logged"
    if all(all_zeros(run, name) for name in there):
        return None, f"{there[0]}: exact zeros throughout, not measured"
    if "kl_ref_token" in there:
        return None, f"the KL is logged per token; {option} states a number in nats/token"
    column = run.columns[there[-1]]
    told = column.sources[0].key if column.sources else None
    key = None if told is None else shlex.quote(told)
    mapped = f"--map {key}=kl_ref_response or {key}=kl_ref_token states it, or " if key else ""
    return None, f"the unit of the KL is unknown; {mapped}{option} a number in the run's own unit"


def _series(run: Run, metric: str) -> _Series | None:
    """Return the values of a column that arithmetic can bear, None where there is none."""
    if not finite_rows(run, metric):
        return None
    rows = run.metrics.select("step", metric).filter(pl.col(metric).abs() < LARGEST)
    if not rows.height:
        return None
    column = run.columns[metric]
    return _Series(
        metric, column.unit, column.estimator, rows["step"].to_list(), rows[metric].to_list()
    )


_NUMBERS = re.compile(r"\d+")


def _sampled(run: Run) -> Iterator[tuple[list[str], list[int], list[float]]]:
    """Yield each sample file's perplexities at the log's rows: sources, steps, values.

    Files that differ by numbers in their names alone, one a step, are one, as in
    ``measures.ladders``. Unlike there, they are not split by the unit of their lengths, nor left
    out where one step has two: what came later would decide both. A sample of step s belongs to
    row s + ``log_offset``.
    """
    files: dict[str, list[tuple[int, str, float]]] = defaultdict(list)
    for batch in batches(run):
        scored = sum(item.nll is not None for item in batch.items)
        if batch.step is not None and batch.perplexity is not None and scored >= FEWEST:
            found = (batch.step + run.log_offset, batch.source, batch.perplexity)
            files[_NUMBERS.sub("#", batch.source)].append(found)
    for rows in files.values():
        rows.sort()
        steps, sources, values = zip(*rows, strict=True)
        yield [*sources], [*steps], [*values]


# Our own rules


def grid(rows: int) -> Iterator[int]:
    """Yield the numbers of rows at which a run is judged, up to ``rows``."""
    count = 1
    while count <= rows:
        yield count
        count = count + 1 if count < SHORT else max(count + 1, int(count * GROWTH))


class Beginnings:
    """The beginnings of one run: what of it was there when each row was logged."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.steps: list[int] = run.metrics["step"].to_list()
        self.observations = run.observations.sort("step", maintain_order=True).collect()
        self.samples = _measured(run.samples.drop_nulls("step").collect())
        train = [pl.col(name).is_not_null() for name in run.columns if name[:5] != "eval_"]
        known = pl.any_horizontal(train) if train else pl.lit(False)
        self.logged: list[int] = run.metrics.with_columns(known=known)["known"].cum_sum().to_list()

    def of(self, rows: int) -> Run:
        """Return the first ``rows`` rows as a run, with the samples and checkpoints of that time.

        Checkpoints count as they are now; a file deleted since is not there. Notes, conflicts and
        references are of the whole log and left out, and so is what ``FUTURE`` names.
        """
        run, step = self.run, self.steps[rows - 1]
        drawn = step - run.log_offset
        metrics = run.metrics.head(rows)
        known = {name for name in run.columns if metrics[name].null_count() < rows}
        metrics = metrics.select(
            name for name in metrics.columns if name in known or name not in run.columns
        )
        samples = self.samples.filter(pl.col("step") <= drawn)
        observed = bisect_right(self.observations["step"], step)
        return replace(
            run,
            observations=self.observations.head(observed).lazy(),
            metrics=metrics,
            columns={name: column for name, column in run.columns.items() if name in known},
            samples=samples.lazy(),
            sample_count=samples.height,
            logged_steps=self.logged[rows - 1],
            checkpoints=tuple(item for item in run.checkpoints if item.step <= drawn),
            config={name: item for name, item in run.config.items() if name not in FUTURE},
            scores=_until(run.scores, drawn),
            references=(),
            scans=_until(run.scans, drawn),
            conflicts=(),
            seams=tuple(seam for seam in run.seams if seam.step <= step),
            notes=(),
        )


def _until(frame: pl.DataFrame | None, step: int) -> pl.DataFrame | None:
    return None if frame is None else frame.filter(pl.col("step") <= step)


def _measured(samples: pl.DataFrame) -> pl.DataFrame:
    """Return samples with their responses measured once, so that no beginning does it again."""
    if not samples.height or "digest" in samples.columns:
        return samples
    told = samples.with_columns(pl.col("response").fill_null(""))
    measured = [
        measure(block["response"].to_list(), block["token_ids"].to_list()) for block in blocks(told)
    ]
    return samples.hstack(pl.concat(measured).select(*MEASURES))


def _rules(run: Run, judge: Judge) -> tuple[Alarm, Mapping[str, object]]:
    """Replay our own rules: when a critical finding first stood, and when each rule first said so.

    Beginnings are judged on ``grid``; within the step of the grid at whose end the run is first
    called collapsed, by bisection. Each is judged alone. The whole run is judged too, for what the
    grid did not look at; that is told and is no alarm, since the next row might date it otherwise.
    """
    alarm = Alarm("rules", "our own rules: collapsed")
    if not run.metrics.height:
        return replace(alarm, unknown="no row is logged"), _rules_told({}, (), (), ())
    beginnings = Beginnings(run)
    judged: dict[int, tuple[str, ...]] = {}
    unanswered: dict[int, Sequence[str]] = {}

    def critical(rows: int) -> tuple[str, ...]:
        if rows not in judged:
            findings, unanswered[rows] = judge(beginnings.of(rows))
            codes = {item.code for item in findings if item.severity == "critical"}
            judged[rows] = tuple(sorted(code for code in codes if not code.startswith(LOG)))
        return judged[rows]

    looked = [*grid(run.metrics.height)]
    first = next((place for place, rows in enumerate(looked) if critical(rows)), None)
    for rows in looked:
        critical(rows)
    if first is not None:
        clear, rung = looked[first - 1] if first else 0, looked[first]
        while rung - clear > 1:
            middle = (clear + rung) // 2
            clear, rung = (clear, middle) if critical(middle) else (middle, rung)
    order = sorted(judged)
    steps = [beginnings.steps[rows - 1] for rows in order]
    at_end, lacking = critical(run.metrics.height), unanswered[run.metrics.height]
    watch = _Watch(["rules"] * len(steps), steps, [1.0 if judged[rows] else None for rows in order])
    told = replace(_told(run, alarm, [watch]), subject=None, observed=None)
    if told.fired_step is None and not at_end and lacking:
        told = replace(told, unknown=f"not in what was read: {'; '.join(lacking)}")
    return told, _rules_told({rows: judged[rows] for rows in order}, steps, at_end, lacking)


def _rules_told(
    judged: Mapping[int, tuple[str, ...]],
    steps: Sequence[int],
    at_end: Sequence[str],
    lacking: Sequence[str],
) -> Mapping[str, object]:
    """Return how the rules were replayed, and for each code where its finding first stood.

    not_at_row: the longest shorter beginning that was judged; the finding begins after it. at_end,
    unanswered: what is critical in the whole run, and what it gave nothing to look at.
    """
    rows = [*judged]
    codes = dict.fromkeys(code for found in judged.values() for code in found)
    entries = []
    for code in codes:
        place = next(place for place, found in enumerate(judged.values()) if code in found)
        gone = [row for row in rows[place:] if code not in judged[row]]
        entries.append(
            {
                "code": code,
                "fired_step": steps[place],
                "fired_row": rows[place],
                "not_at_row": rows[place - 1] if place else None,
                "gone_at_row": gone[0] if gone else None,
            }
        )
    return {
        "judged": len(judged),
        "last_row": rows[-1] if rows else None,
        "codes": sorted(entries, key=lambda item: (item["fired_row"], item["code"])),
        "at_end": [*at_end],
        "unanswered": [*lacking],
    }


# Controllers, normaliser, plan


def controllers(run: Run, constants: Constants) -> Mapping[str, object]:
    """Return what each controller would have made of beta on the run's own KL, open loop.

    The KL is that of the run as it was: under another beta it would have been another one. One
    update a logged row. n of Ziegler's: as stated, else the batch size of the configuration, which
    frameworks count differently (responses, prompts, or sequences a device), up to the horizon,
    else 1.
    """
    kl, unknown = _kl(run, constants.target, "--target")
    target = constants.target or TARGET
    if kl is None:
        return {
            **dict.fromkeys(("metric", "unit", "estimator", "responses", "responses_from")),
            "time_in_band": None,
            "unknown": unknown,
            "target": target,
            "steps": [],
            "kl": [],
            "replayed": [],
        }
    batch = int(min(run.number("batch_size") or 0, constants.horizon))
    responses = constants.responses or max(batch, 1)
    stated = "option" if constants.responses else "configuration" if batch > 0 else "default"
    constants = replace(constants, responses=responses)
    replayed = []
    for name, controller in CONTROLLERS.items():
        curve = controller(kl.values, target, constants)
        period = replay.oscillation(curve.beta)
        replayed.append(
            {
                "controller": name,
                "start": constants.start,
                "first": curve.beta[0],
                "last": curve.beta[-1],
                "min": min(curve.beta),
                "max": max(curve.beta),
                "held_to": [*curve.bounds],
                "saturated": curve.saturated / len(curve.beta),
                "period_rows": period[0] if period else None,
                "regularity": period[1] if period else None,
                "beta": curve.beta,
            }
        )
    return {
        "metric": kl.metric,
        "unit": kl.unit,
        "estimator": kl.estimator,
        "responses": responses,
        "responses_from": stated,
        "time_in_band": replay.in_band(kl.values, target, constants),
        "unknown": "",
        "target": target,
        "steps": kl.steps,
        "kl": kl.values,
        "replayed": replayed,
    }


def _normalisers(run: Run, constants: Constants) -> Iterator[Mapping[str, object]]:
    """Yield what a running normaliser would have clipped: of batch means, and of each sample.

    A trainer normalises every reward; a log holds batch means, whose spread is smaller, and sample
    files a part of the rewards. outside: the share of raw values beyond the clip, as where a clip
    is all there is: a healthy reference log of DeepSpeed-Chat has a batch mean of 5.11, so that
    clip [-5, 5] alone would saturate. clipped: the share beyond it after normalisation.
    """
    logged = _series(run, "reward_raw_mean")
    found = [("batch means", logged.metric, logged.values)] if logged else []
    rows = (
        run.samples.select("step", "source", "line", "reward")
        .filter(pl.col("reward").abs() < LARGEST)
        .drop_nulls("step")
        .sort("step", "source", "line")
        .collect()
    )
    for (source,), part in rows.group_by("source", maintain_order=True):
        found.append(("samples", str(source), part["reward"].to_list()))
    for of, subject, values in found:
        made = replay.normalised(values)
        yield {
            "of": of,
            "subject": subject,
            "count": len(values),
            "outside": _beyond(values, constants.clip),
            "clipped": _beyond(made, constants.clip),
            "largest": max(values, key=abs),
        }


def _beyond(values: Sequence[float], clip: float) -> float:
    return sum(abs(value) > clip for value in values) / len(values)


def plan(run: Run, found: Sequence[Alarm], constants: Constants) -> Mapping[str, object] | None:
    """Return the emergency plan as it would have been issued at the first alarm that counts.

    The learning rate is that of the alarm's row, else the configuration's. The samples are the last
    ones drawn by then. The checkpoint is the last complete one by then, of those that are still
    there; an alarm rings late, so that it may be a sick one already: ``rollback`` vets it. None
    where nothing rang.
    """
    rung = [alarm for alarm in found if alarm.counts and alarm.fired_step is not None]
    first = min(rung, key=lambda alarm: alarm.fired_step or 0, default=None)
    if first is None or first.fired_step is None:
        return None
    step = first.fired_step
    drawn = step - run.log_offset
    rate, origin = _rate(run, step)
    kept = last_drawn(run, constants.keep, step)
    places = sorted(kept.select("source", "line").iter_rows())
    saved = [item for item in run.policies if item.complete and item.step <= drawn]
    return {
        "alarm": first.alarm,
        "fired_step": step,
        "fired_row": first.fired_row,
        "learning_rate": rate,
        "learning_rate_from": origin,
        "suggested": None if rate is None else replay.rounded(rate * constants.lr_share),
        "samples": len(places),
        "places": [*_ranges(places)],
        "checkpoint": saved[-1].name if saved else None,
        "step": saved[-1].step if saved else None,
    }


def _rate(run: Run, step: int) -> tuple[float | None, str | None]:
    """Return the learning rate in force at a step, and where that is told."""
    logged = _series(run, "lr")
    place = bisect_right(logged.steps, step) - 1 if logged else -1
    if logged and place >= 0:
        return logged.values[place], "log"
    stated = run.number("learning_rate")
    return stated, None if stated is None else "configuration"


def _ranges(places: Sequence[tuple[str, int]]) -> Iterator[Mapping[str, object]]:
    """Yield lines that follow each other in a file as one range."""
    numbered = enumerate(places)
    for _, group in groupby(numbered, key=lambda item: (item[1][0], item[1][1] - item[0])):
        lines = [place for _, place in group]
        yield {"file": lines[0][0], "first_line": lines[0][1], "last_line": lines[-1][1]}


def _notes(run: Run) -> Iterator[str]:
    """Yield what the replay rests on that is not of the time it tells of."""
    if run.seams:
        yield "the run was resumed: rows that were written twice are replayed as written last"
    undated = run.samples.select(pl.col("step").is_null().sum()).collect().item()
    if undated:
        told = "sample carries" if undated == 1 else "samples carry"
        yield f"{undated} {told} no step: left out"
