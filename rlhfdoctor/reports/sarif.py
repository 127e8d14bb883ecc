"""SARIF 2.1.0 (OASIS), as code scanning and editors read it: one result a finding.

What nobody looked at is no result, and not silence either: it stands among the notifications.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from urllib.parse import quote

from rlhfdoctor import __version__
from rlhfdoctor.model import Diagnosis, Evidence, Finding, Run
from rlhfdoctor.reports import Document, Gated, Page, report
from rlhfdoctor.reports._gate import outward, path_of, unseen, wants
from rlhfdoctor.reports._lines import acceptance, shown
from rlhfdoctor.reports.json import dumps
from rlhfdoctor.reports.json import finding as published

LEVELS = {"critical": "error", "warning": "warning", "info": "note"}

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"

UNSEEN = {"id": "could-not-look", "shortDescription": {"text": "Could not look"}}
FAILED = {"id": "could-not-judge", "shortDescription": {"text": "Could not judge a run"}}

_MARKS = str.maketrans({"\\": "\\\\", "[": "\\[", "]": "\\]", "{": "{{", "}": "}}"})
"""What makes a link or a placeholder of a message's text (SARIF 2.1.0, 3.11.5 and 3.11.6)."""


@report("sarif")
def sarif(diagnoses: Sequence[Diagnosis], page: Page) -> str:
    """Print the findings of all runs as one analysis."""
    diagnoses, gate = outward(diagnoses, page)
    found = [(item.run, finding) for item in diagnoses for finding in item.findings]
    rules = {item.code: item for _, item in sorted(found, key=lambda pair: pair[1].code)}
    places = {code: place for place, code in enumerate(rules)}
    analysis = {
        "tool": {
            "driver": {
                "name": "rlhfdoctor",
                "version": __version__,
                "rules": [_rule(item) for item in rules.values()],
                "notifications": [UNSEEN, FAILED],
            }
        },
        "invocations": [
            {
                "executionSuccessful": not gate.failed and 3 not in gate.codes,
                "exitCode": page.exit_code,
                "toolExecutionNotifications": [*_notifications(diagnoses, gate)],
            }
        ],
        "results": [_result(run, item, places[item.code]) for run, item in found],
        "columnKind": "unicodeCodePoints",
    }
    return dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [analysis]})


def _message(text: str) -> Document:
    return {"text": shown(text).translate(_MARKS)}


def _rule(finding: Finding) -> Document:
    """Return what belongs to every finding of a rule."""
    explain = f"rlhfdoctor explain {finding.code}"
    remedy = " ".join(item[:1].upper() + item[1:] for item in finding.advice)
    return {
        "id": finding.code,
        "name": finding.name,
        "shortDescription": {"text": finding.name.replace("_", " ").capitalize()},
        "fullDescription": {"text": f"Evidence of the class {finding.signal}; see {explain}."},
        "help": {"text": f"{remedy} Limits and sources: {explain}."},
    }


def _result(run: Run, finding: Finding, place: int) -> Document:
    document = published(finding)
    kept = ("onset_step", "onset_interval", "recovered_at", "evidence")
    result = {
        "ruleId": finding.code,
        "ruleIndex": place,
        "level": LEVELS[finding.severity],
        "message": _message(f"{run.name}: {finding.message}"),
        "locations": [_location(run, item) for item in finding.evidence],
        "partialFingerprints": {"rlhfdoctor/v1": finding.fingerprint},
        "properties": {"run": run.name, **{key: document[key] for key in kept}},
    }
    if finding.accepted:
        why = shown(acceptance(finding.accepted))
        told = {"kind": "external", "status": "accepted", "justification": why}
        result["suppressions"] = [told]
    return result


def _location(run: Run, item: Evidence) -> Document:
    """Return the file, and the line or else the key in it."""
    physical: dict[str, object] = {"artifactLocation": {"uri": uri_of(path_of(run, item.where))}}
    if item.where.line:
        physical["region"] = {"startLine": item.where.line}
    location: dict[str, object] = {"physicalLocation": physical}
    key = item.where.key or item.where.tensor
    if key:
        location["logicalLocations"] = [{"fullyQualifiedName": shown(key)}]
    return location


def uri_of(path: str) -> str:
    """Return a path as a URI reference: relative where it is, else with its scheme."""
    encoded = quote(path, errors="surrogatepass")
    return f"file://{encoded}" if os.path.isabs(path) else encoded


def _notifications(diagnoses: Sequence[Diagnosis], gate: Gated) -> Iterator[Document]:
    for diagnosis, code in zip(diagnoses, gate.codes, strict=True):
        name = diagnosis.run.name
        if diagnosis.unanswered:
            yield _notification(0, "error" if code == 3 else "warning", name, unseen(diagnosis))
        skips: dict[str, list[str]] = {}
        for skip in diagnosis.skipped:
            skips.setdefault(wants(skip), []).append(skip.code)
        for text, codes in skips.items():
            yield _notification(0, "note", name, f"{', '.join(codes)} {text}")
    for item in gate.failed:
        yield _notification(1, "error", str(item["path"]), f"{item['error']}; {item['hint']}")


def _notification(place: int, level: str, name: str, text: str) -> Document:
    """Return a notification of one of the driver's kinds, UNSEEN and FAILED."""
    kind = (UNSEEN, FAILED)[place]
    return {
        "descriptor": {"id": kind["id"], "index": place},
        "level": level,
        "message": _message(f"{name}: {text}"),
    }
