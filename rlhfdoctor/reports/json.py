"""The published JSON: keys are a promise, described by schema.json beside this file.

Every number is finite: NaN and infinity are the strings "NaN", "Infinity", "-Infinity". (orjson
alone would silently write null, which means "not logged".)
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict

import orjson

from rlhfdoctor import __version__
from rlhfdoctor.masking import masked
from rlhfdoctor.model import Diagnosis, Evidence, Finding, RollbackPlan, Run
from rlhfdoctor.reports import Document, Page, report

SCHEMA = 1
"""Counts breaking changes of the published keys."""


@report("json")
def json(diagnoses: Sequence[Diagnosis], page: Page) -> str:
    """Print one diagnosis as one object, several under ``runs``.

    A gate's always stand under ``runs``, each with its own exit code, beside those that failed.
    """
    diagnoses = [masked(item) for item in diagnoses]
    if page.gate is not None and page.brief:
        pairs = zip(diagnoses, page.gate.codes, strict=True)
        runs = [published(diagnosis, code) for diagnosis, code in pairs]
        return dumps(
            envelope(page.exit_code, {"runs": runs, "failed": [*masked(page.gate.failed)]})
        )
    documents = [published(diagnosis, page.exit_code) for diagnosis in diagnoses]
    return one_or_runs(page.exit_code, documents)


def one_or_runs(exit_code: int, documents: Sequence[Document]) -> str:
    """Serialise one document as it is, several under ``runs``."""
    alone = documents[0] if len(documents) == 1 else {"runs": documents}
    return dumps(envelope(exit_code, alone))


def envelope(exit_code: int, document: Document) -> Document:
    """Put the keys that every document has in front of it."""
    return {"schema": SCHEMA, "exit_code": exit_code, **document}


def failure(exit_code: int, error: str, hint: str) -> str:
    """Return the document of a command that could not do its work."""
    return dumps(envelope(exit_code, {"error": error, "hint": hint}))


_COMMANDS = re.compile("[\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufffe\uffff]")
"""Control characters beyond those that JSON escapes anyway, and invisible and bidirectional marks;
outside strings there are none."""


def dumps(document: object) -> str:
    """Serialise a document, with every number that is not finite as a string.

    Characters that command a terminal or turn text around are escapes.
    """
    return _escaped(orjson.dumps(_finite(document), option=orjson.OPT_INDENT_2)) + "\n"


def dumps_line(document: object) -> str:
    """Serialise a document on one line, a record of JSON Lines, as ``dumps`` does."""
    return _escaped(orjson.dumps(_finite(document))) + "\n"


def _escaped(text: bytes) -> str:
    return _COMMANDS.sub(lambda match: f"\\u{ord(match[0]):04x}", text.decode())


def published(diagnosis: Diagnosis, exit_code: int) -> Document:
    """Return a diagnosis under its published keys."""
    run, onset, cost = diagnosis.run, diagnosis.onset, diagnosis.cost
    planned = run.number("planned_steps")
    return envelope(
        exit_code,
        {
            "tool": {"name": "rlhfdoctor", "version": __version__},
            "run": {
                "id": run.name,
                "path": run.path,
                "framework": run.framework,
                "algorithm": run.algorithm,
                "step_unit": run.step_unit,
                "first_step": run.first_step,
                "last_step": run.last_step,
                "logged_steps": run.logged_steps,
                "planned_steps": None if planned is None else int(planned),
                "checkpoints": [item.name for item in run.checkpoints],
                "samples": run.sample_count,
                "log_offset": run.log_offset,
                "sources": [asdict(source) for source in run.sources],
            },
            "profile": diagnosis.profile,
            "stated_limits": [asdict(item) for item in diagnosis.stated],
            "profile_reason": diagnosis.profile_reason,
            "limits": {code: dict(values) for code, values in diagnosis.limits.items()},
            "verdict": diagnosis.verdict,
            "headline": diagnosis.headline,
            "next": diagnosis.next_step,
            "onset_step": onset.step if onset else None,
            "onset_interval": [onset.low, onset.high] if onset else None,
            "answers": [
                {
                    "code": answer.code,
                    "question": answer.question,
                    "reply": answer.reply,
                    "why": answer.why,
                    "findings": list(answer.findings),
                }
                for answer in diagnosis.answers
            ],
            "causes": [
                {
                    "name": cause.name,
                    "confidence": cause.confidence,
                    "caveat": cause.caveat,
                    "onset_step": cause.onset.step if cause.onset else None,
                    "remedy": cause.remedy,
                    "path": list(cause.path),
                    "answers": list(cause.answers),
                    "rivals": [asdict(rival) for rival in cause.rivals],
                }
                for cause in diagnosis.causes
            ],
            "findings": [finding(item) for item in diagnosis.findings],
            "clear": list(diagnosis.clear),
            "skipped": [
                {"code": skip.code, "missing": list(skip.missing), "command": skip.command}
                for skip in diagnosis.skipped
            ],
            "unanswered": list(diagnosis.unanswered),
            "references": list(diagnosis.references),
            "scores": score_rows(run),
            "scans": scan_rows(run),
            "rollback": rollback(diagnosis.rollback),
            "backtest": {"alarms": [dict(alarm) for alarm in diagnosis.backtest]},
            "cost": None if cost is None else asdict(cost),
            "notes": [{"where": note.where, "text": note.text} for note in diagnosis.notes],
        },
    )


def recomputed(run: Run, references: Sequence[Document], log: str | None = None) -> Document:
    """Return a recomputation under its published keys: what ``--scores`` reads.

    log: fingerprint of the run's log, by which it is known again.
    """
    return {
        "tool": {"name": "rlhfdoctor", "version": __version__},
        "run": {"id": run.name, "path": run.path, "log": log},
        "references": list(references),
        "rows": score_rows(run),
        "scans": scan_rows(run),
        "notes": [{"where": note.where, "text": note.text} for note in run.notes],
    }


def score_rows(run: Run) -> list[Document]:
    """Return the rows of ``Run.scores``, the interval as one pair."""
    published: list[Document] = []
    for row in [] if run.scores is None else run.scores.to_dicts():
        low, high = row.pop("interval_low"), row.pop("interval_high")
        published.append({**row, "interval": None if low is None else [low, high]})
    return published


def scan_rows(run: Run) -> list[Document]:
    """Return the rows of ``Run.scans``."""
    return [] if run.scans is None else [*run.scans.to_dicts()]


def finding(item: Finding) -> Document:
    """Return a finding under its published keys."""
    return {
        "code": item.code,
        "name": item.name,
        "severity": item.severity,
        "signal": item.signal,
        "message": item.message,
        "args": dict(item.args),
        "onset_step": item.onset_step,
        "onset_interval": [item.onset.low, item.onset.high] if item.onset else None,
        "recovered_at": item.recovered_at,
        "fingerprint": item.fingerprint,
        "advice": list(item.advice),
        "accepted": asdict(item.accepted) if item.accepted else None,
        "evidence": [_evidence(evidence) for evidence in item.evidence],
    }


def rollback(plan: RollbackPlan) -> Document:
    """Return a rollback plan under its published keys."""
    chosen = plan.checkpoint
    return {
        "checkpoint": chosen.name if chosen else None,
        "step": chosen.step if chosen else None,
        "epoch": chosen.epoch if chosen else None,
        "perplexity": plan.perplexity,
        "needed": plan.needed,
        "table": asdict(plan.table) if plan.table else None,
        "overruled": plan.overruled,
        "reason": plan.reason,
        "cause": plan.cause,
        "changes": [asdict(item) for item in plan.changes],
        "rejected": [asdict(item) for item in plan.rejected],
        "unchecked": list(plan.unchecked),
        "resume": asdict(plan.resume) if plan.resume else None,
    }


def rollback_document(diagnosis: Diagnosis, rungs: Sequence[Document]) -> Document:
    """Return what ``rollback`` publishes of a run: the plan, and the ladder of checkpoints."""
    named = {"id": diagnosis.run.name, "path": diagnosis.run.path}
    return {"run": named, "rollback": rollback(diagnosis.rollback), "ladder": list(rungs)}


def _evidence(item: Evidence) -> Document:
    return {**asdict(item), "where": asdict(item.where)}


def _finite(value: object) -> object:
    """Return a value that JSON can carry: finite numbers of 64 bits, and encodable text."""
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, int) and abs(value) >= 2**63:
        return float(value) if abs(value) < 2**1023 else str(value)
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, Mapping):
        return {_finite(str(key)): _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value
