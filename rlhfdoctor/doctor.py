"""diagnose(): judge every rule, settle what stands, walk the tree, advise a rollback."""

from __future__ import annotations

import os.path
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, NamedTuple

from rlhfdoctor import scores, tree
from rlhfdoctor.backtest import alarms
from rlhfdoctor.claims import is_log
from rlhfdoctor.cost import cost
from rlhfdoctor.measures import batches, ladders, logged, prefers, track
from rlhfdoctor.model import (
    SEVERITIES,
    Cause,
    Diagnosis,
    Finding,
    Onset,
    Run,
    Severity,
    Skip,
    Verdict,
)
from rlhfdoctor.profile import Profile, choose, limits_of, rules, stated
from rlhfdoctor.rollback import TABLE, Vet, by_table_alone, suggest
from rlhfdoctor.rules import RECOMPUTE
from rlhfdoctor.rules._kl import KLS
from rlhfdoctor.series import end_level, start_level

CORROBORATING = ("kl", "entropy", "length", "text", "logp", "accuracy", "reward")
"""Classes of evidence that confirm each other: KL and reference perplexity; entropy and policy
perplexity; length and end-of-sequence; the text of the samples; DPO log-probabilities; DPO
accuracy; reward."""

FEWEST_ROWS = 10
"""Logged rows below which no run can be called healthy."""

DISTANCE_RULES = ("KL002", "KL003", "KL005", "KL006", "ENT001", "PPL001", "PPL003")
UPDATE_RULES = ("UPD001", "UPD002", "CKP003", "REF006")
"""Rules that tell whether weights were updated. An adapter that is zero (CKP006) was not; one that
is not may have been trained before this run."""
PREFERENCE_RULES = ("DPO001", "DPO002", "DPO003", "DPO004", "DPO005", "UPD002")


def diagnose(
    run: Run,
    profile: Profile | None = None,
    *,
    require: Sequence[str] = (),
    crash_step: int | None = None,
    gpu_hour_cost: float | None = None,
    table_only: bool = False,
    vet: Vet | None = None,
) -> Diagnosis:
    """Judge one run, by the built-in profile that fits it where none is named.

    require: codes of rules that must have looked beside the profile's list. crash_step: chooses
    the row of the rollback table in the onset's place. gpu_hour_cost: the price of one GPU-hour.
    table_only: ask the rollback table and no evidence. vet: reads the numbers of a checkpoint
    before it is suggested.
    """
    profile = choose(run, profile or Profile())
    limits, settled, clear, skipped, unanswered = judge(run, profile, require)
    answers, causes = tree.walk(settled, clear, skipped)
    verdict = _verdict(settled, unanswered)
    causes = tuple(_told(run, _qualified(run, verdict, cause)) for cause in causes)
    onset = _onset(verdict, causes, settled)
    lost = onset if verdict == "collapsed" and _had_learnt(causes) else None
    table = profile.table or TABLE
    if table_only:
        crashed = onset.step if onset and crash_step is None else crash_step
        plan = by_table_alone(run, crashed, table)
    else:
        plan = suggest(run, verdict, causes, settled, onset, crash_step, table=table, vet=vet)
    findings = _ordered(settled, causes)
    return Diagnosis(
        run=run,
        profile=profile.name,
        limits={code: asdict(values) for code, values in limits.items()},
        verdict=verdict,
        headline=_headline(verdict, run, findings, causes, onset, unanswered, clear),
        next_step=_next_step(run, verdict, findings, skipped),
        onset=onset,
        findings=findings,
        clear=clear,
        skipped=skipped,
        unanswered=unanswered,
        answers=answers,
        causes=causes,
        rollback=plan,
        cost=cost(run, lost, gpu_hour_cost),
        references=scores.references(run),
        backtest=tuple(asdict(alarm) for alarm in alarms(run)),
        notes=run.notes,
        profile_reason=profile.reason,
        stated=tuple(stated(profile)),
    )


class Judged(NamedTuple):
    """What all rules said of a run: their limits by code, and what came of each.

    findings: settled, unordered. clear: codes that looked and found nothing. unanswered: required
    signals that nobody looked at, in words.
    """

    limits: Mapping[str, Any]
    findings: tuple[Finding, ...]
    clear: tuple[str, ...]
    skipped: tuple[Skip, ...]
    unanswered: tuple[str, ...]


def judge(run: Run, profile: Profile, require: Sequence[str] = ()) -> Judged:
    """Ask every rule by the limits of a chosen profile; no cause is sought, nothing is advised."""
    limits = {rule.code: limits_of(rule, profile.overrides.get(rule.code, {})) for rule in rules()}
    raw: list[Finding] = []
    clear: list[str] = []
    skipped: list[Skip] = []
    for rule in rules():
        outcome = rule.outcome(run, limits[rule.code])
        if isinstance(outcome, Skip):
            skipped.append(outcome)
        elif outcome:
            raw.extend(outcome)
        else:
            clear.append(rule.code)
    settled = settle(gather(raw))
    unanswered = _unanswered(run, profile, (*require,), clear, settled)
    return Judged(limits, (*settled,), (*clear,), (*skipped,), unanswered)


MOST_EVIDENCE = 20
"""Observations that one finding rests on; the earliest are kept."""


def gather(findings: Iterable[Finding]) -> list[Finding]:
    """Join findings of one rule and severity that stand: the earliest speaks, all testify."""
    gathered: dict[tuple[str, Severity, bool], Finding] = {}
    for finding in findings:
        key = (finding.code, finding.severity, finding.recovered_at is None)
        known = gathered.get(key)
        if known is None:
            gathered[key] = finding
            continue
        first, second = sorted((known, finding), key=_date)
        evidence = (*first.evidence, *second.evidence)[:MOST_EVIDENCE]
        gathered[key] = replace(first, evidence=evidence)
    return list(gathered.values())


def settle(findings: Sequence[Finding]) -> list[Finding]:
    """Lower critical findings that nothing of another class agrees with to what they are worth."""

    def agrees(finding: Finding, other: Finding) -> bool:
        return (
            other.signal in CORROBORATING
            and other.signal != finding.signal
            and other.severity != "info"
            and other.recovered_at is None
        )

    return [
        replace(finding, severity=finding.weak)
        if finding.severity == "critical"
        and not finding.alone
        and not any(agrees(finding, other) for other in findings)
        else finding
        for finding in findings
    ]


def _date(finding: Finding) -> tuple[int, int]:
    return (finding.onset.step, finding.onset.low) if finding.onset else (0, 0)


def _qualified(run: Run, verdict: Verdict, cause: Cause) -> Cause:
    """Say what would make a cause surer, and take back advice that the verdict forbids."""
    if cause.name == tree.OVER_OPTIMISATION and not any(map(_held_out, run.columns)):
        return replace(cause, caveat="no held-out reward was logged")
    if cause.name == tree.INTERRUPTED:
        if "ended_with" in run.config:
            ended = str(run.config["ended_with"].value)
            cause = replace(
                cause,
                confidence="confirmed",
                caveat=ended if len(ended) <= 120 else f"{ended[:60]} ... {ended[-55:]}",
                remedy="mend what the exception names; resume from the last complete checkpoint",
            )
        if verdict == "collapsed":
            cause = replace(cause, remedy="do not resume a collapsed policy")
    return cause


def _held_out(column: str) -> bool:
    return column.startswith(("eval_reward", "heldout_"))


def _told(run: Run, cause: Cause) -> Cause:
    """Put the run and its samples into the commands that would run the tests."""
    files = [batch.source for batch in batches(run)]
    if os.path.isdir(run.path):
        files = [os.path.join(run.path, file) for file in files]
    names = {"run": _quoted(run.path), "samples": _quoted(files[0]) if files else "FILE"}
    return replace(
        cause,
        rivals=tuple(
            replace(rival, command=rival.command.format(**names)) for rival in cause.rivals
        ),
    )


def _unanswered(
    run: Run,
    profile: Profile,
    require: tuple[str, ...],
    clear: Sequence[str],
    findings: Sequence[Finding],
) -> tuple[str, ...]:
    """Return the required signals that nobody looked at, in words."""
    looked = {*clear, *(finding.code for finding in findings)}
    missing = []
    if run.logged_steps < FEWEST_ROWS:
        read = sum(source.rows for source in run.sources if source.dialect)
        found = f"{run.logged_steps} found"
        if read > run.logged_steps == 0:
            found = f"{read} rows read, no key with a known meaning: see inspect and --map"
        missing.append(f"{FEWEST_ROWS} logged rows ({found})")
    missing.extend(_lost(run))
    if profile.require is None:
        if "NUM001" not in looked:
            missing.append("non-finite values (NUM001)")
        if not looked & {*UPDATE_RULES} and not _found("CKP006", findings):
            missing.append("weight updates (UPD001)")
        if prefers(run):
            if "loss_total" not in run.columns or not looked & set(PREFERENCE_RULES):
                missing.append("loss and chosen log-probability, margins or accuracy (DPO001)")
        elif not looked & set(DISTANCE_RULES):
            missing.append(f"KL, entropy or perplexity ({', '.join(DISTANCE_RULES)})")
    required = (*(profile.require or ()), *require)
    missing.extend(f"{code} (required)" for code in required if code not in looked)
    return tuple(missing)


def _lost(run: Run) -> list[str]:
    """Return what of the log could not be read, where it is more than the end of a line.

    The copy of a log in a checkpoint that the log read goes beyond tells nothing more.
    """
    logs = {source.file for source in run.sources if source.dialect}
    last = run.last_step or 0
    saved = {one.path for one in run.checkpoints if one.step is not None and one.step <= last}
    logs |= {
        note.where
        for note in run.notes
        if is_log(note.where) and os.path.dirname(note.where) not in saved
    }
    lost = sum(
        note.left_out
        for note in run.notes
        if any(note.where == file or note.where.startswith(f"{file}:") for file in logs)
    )
    told = []
    if lost > max(1, MOST_LOST * run.logged_steps):
        told.append(f"{lost} records of the log, which were left out (see the notes)")
    cut = sorted({note.where for note in run.notes if note.unread and note.where in logs})
    if cut:
        more = f" and {len(cut) - 1} more" if len(cut) > 1 else ""
        told.append(f"the rest of {cut[0]}{more}, which could not be read")
    return told


def _found(code: str, findings: Sequence[Finding]) -> bool:
    return any(finding.code == code for finding in findings)


MOST_LOST = 0.02
"""Share of a log's rows that may be lost without a healthy verdict being lost with them."""


def _verdict(findings: Sequence[Finding], unanswered: Sequence[str]) -> Verdict:
    severities = {finding.severity for finding in findings}
    if "critical" in severities:
        return "collapsed"
    if "warning" in severities:
        return "degraded"
    return "inconclusive" if unanswered else "healthy"


def _onset(verdict: Verdict, causes: Sequence[Cause], findings: Sequence[Finding]) -> Onset | None:
    if verdict not in ("collapsed", "degraded"):
        return None
    if causes and causes[0].onset and causes[0].name != tree.INTERRUPTED:
        return causes[0].onset
    onsets = [item.onset for item in findings if item.severity != "info" and item.onset]
    return min(onsets, key=lambda onset: (onset.step, onset.low), default=None)


def _ordered(findings: Sequence[Finding], causes: Sequence[Cause]) -> tuple[Finding, ...]:
    """Order findings: those on the first cause's path, then severity, then onset."""
    path = causes[0].path if causes else ()

    def key(finding: Finding) -> tuple[int, int, int, str]:
        standing = finding.severity != "info" or not finding.recovered_at
        place = path.index(finding.code) if finding.code in path and standing else len(path)
        return (place, SEVERITIES.index(finding.severity), _date(finding)[0], finding.code)

    return tuple(sorted(findings, key=key))


def _headline(
    verdict: Verdict,
    run: Run,
    findings: Sequence[Finding],
    causes: Sequence[Cause],
    onset: Onset | None,
    unanswered: Sequence[str],
    clear: Sequence[str],
) -> str:
    if verdict == "inconclusive":
        unread = [f"{note.where} {note.text}" for note in run.notes if note.left_out]
        return "Could not look at: " + "; ".join((*unanswered, *unread[:2]))
    if verdict == "healthy":
        told = [item.summary for item in findings if item.code in ("LOG001", "NUM001", "RWD003")]
        unread = [note.where for note in run.notes if note.unread]
        told += _no_rise(run, findings)
        told += [f"not read: {', '.join(unread[:3])}"] if unread else []
        return "; ".join(
            (f"No alarm in {run.logged_steps} logged rows", *told, *_vitals(run, clear))
        )
    path = causes[0].path if causes else ()
    faults = [item for item in findings if item.severity != "info"]
    telling = [item for item in faults if item.recovered_at is None] or faults
    on_path = [item for item in telling if item.code in path]
    said: dict[str, str] = {}
    for finding in on_path or telling:
        if finding.code == "KL006" and len(on_path or telling) > 1:
            continue
        said.setdefault(finding.signal, finding.summary)
    order = {signal: rank for rank, signal in enumerate(CORROBORATING)}
    parts = [said[signal] for signal in sorted(said, key=lambda s: order.get(s, -1))]
    since = f"Since step {onset.step}{_since(run, onset)}: " if onset else ""
    again = [item.summary for item in telling if item.code == "KL006"]
    confirmed = f"; confirmed by recomputation: {again[0]}" if again else ""
    return since + ", ".join(parts[:5]) + confirmed


def _no_rise(run: Run, findings: Sequence[Finding]) -> list[str]:
    """Say where the reward went in a run that shows no fault and no rise either."""
    if _found("RWD003", findings) or not _measured(run, "reward_raw_mean"):
        return []
    reward = track(run, "reward_raw_mean").values
    return [f"reward {start_level(reward):.3g} -> {end_level(reward):.3g}, no significant rise"]


def _vitals(run: Run, clear: Sequence[str]) -> Iterator[str]:
    """Yield where a healthy run stands, and what of it was not measured."""
    for name, words in VITALS:
        if logged(run, name):
            found = track(run, name)
            if not found.placeholder:
                known = found.column.unit != "unknown"
                near = name == "kl_unknown" and "KL003" in clear
                told = "near in every unit" if near else "not judged"
                unit = f" {found.column.unit}" if known else f" (unit unknown, {told})"
                yield f"{words} {end_level(found.values):.3g}{unit.replace(' fraction', '')}"
    exact, reference = _exact(run), scores.principal(run)
    if reference is not None and reference.started is False and not reference.matches:
        yield f"{reference.name} is not the model that training started from"
    elif exact is not None:
        yield f"recomputed KL {exact:.3g} nats/token"
    elif not any(_measured(run, name) for name in KLS):
        sampled = [batch.k1 for ladder in ladders(run, 1) for batch in ladder[-1:]]
        known_k1 = [k1 for k1 in sampled if k1 is not None]
        yield f"KL of samples {known_k1[-1]:.3g} nats/token" if known_k1 else "KL not measured"


def _exact(run: Run) -> float | None:
    """Return the recomputed KL of the last checkpoint, nats a token."""
    reference = scores.principal(run)
    found = scores.ladders(run, reference.name) if reference else []
    last = [scores.measured(ladder, "kl_ref_token_exact") for ladder in found]
    return next((float(ladder[-1]["kl_ref_token_exact"]) for ladder in last if ladder), None)


VITALS = (
    ("kl_ref_token", "KL"),
    ("kl_ref_response", "KL"),
    ("kl_unknown", "KL"),
    ("entropy", "entropy"),
    ("dpo_accuracy", "accuracy"),
)
"""What the headline of a healthy run tells."""


def _measured(run: Run, name: str) -> bool:
    return logged(run, name) and not track(run, name).placeholder


def _next_step(
    run: Run, verdict: Verdict, findings: Sequence[Finding], skipped: Sequence[Skip]
) -> str:
    """Return the one command that tells the most about what is still open."""
    where = _quoted(run.path)
    commands = [skip.command for skip in skipped if skip.command]
    units = [command for command in commands if command != RECOMPUTE]
    if units and verdict in ("inconclusive", "healthy"):
        also = f" (or {units[-1]})" if units[-1] != units[0] else ""
        return f"rlhfdoctor diagnose {where} {units[0]}{also}"
    if commands and verdict == "inconclusive":
        return f"rlhfdoctor diagnose {where} {commands[0]}"
    if verdict not in ("collapsed", "degraded"):
        return f"rlhfdoctor inspect {where}"
    cited = [
        item.where.file
        for finding in findings
        for item in finding.evidence
        if item.kind == "samples"
    ]
    files = cited or [batch.source for batch in batches(run)]
    if files and os.path.isdir(run.path):
        return f"rlhfdoctor samples {_quoted(os.path.join(run.path, files[0]))} --ngrams 3"
    if run.path == "-":
        return f"rlhfdoctor explain {findings[0].code}"
    return f"rlhfdoctor rollback {where} --suggest"


def _quoted(path: str) -> str:
    """Quote a path for a shell; one that looks like an option is told from them."""
    return shlex.quote(f"./{path}" if path.startswith("-") and path != "-" else path)


def _since(run: Run, onset: Onset) -> str:
    """Return how sure a date is: its interval, or that the log begins with it."""
    begins = run.first_step is not None and onset.step == run.first_step > max(1, run.log_offset)
    if begins and "logging_steps" not in run.config and run.logged_steps < FEWEST_ROWS:
        return " or before"
    return f" ({onset.low}-{onset.high})" if onset.low != onset.high else ""


def _had_learnt(causes: Sequence[Cause]) -> bool:
    first = causes[0] if causes else None
    return not (first and first.name in tree.NOTHING_LEARNT and first.confidence == "confirmed")
