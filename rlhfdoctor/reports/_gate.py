"""What a gate says of runs, in the words that every report shares."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence

from rlhfdoctor.model import (
    Acceptance,
    Diagnosis,
    Location,
    Run,
    Skip,
)
from rlhfdoctor.policy import exit_code, failing
from rlhfdoctor.reports import Document, Gated, Page
from rlhfdoctor.reports._lines import acceptance

WORDS = {0: "PASS", 1: "FAIL", 3: "UNKNOWN"}
"""What an exit code is called; WARN is a run that passes with a warning, or not all looked at."""


def gated(diagnoses: Sequence[Diagnosis], page: Page) -> Gated:
    """Return what the gate said; where none was asked, what one that fails on critical says."""
    if page.gate is not None:
        return page.gate
    fail_on = page.fail_on or "critical"
    return Gated(fail_on, tuple(exit_code(item, fail_on) for item in diagnoses))


def gate_rows(
    diagnoses: Sequence[Diagnosis], codes: Sequence[int]
) -> Iterator[tuple[str, str, str, str]]:
    """Yield each run's word, name, verdict, and what these rest on. codes: one for each."""
    for diagnosis, code in zip(diagnoses, codes, strict=True):
        word, why = WORDS[code], diagnosis.headline
        if code == 0 and (failing(diagnosis, "warning") or diagnosis.unanswered):
            word = "WARN"
        borne = any(item.accepted for item in diagnosis.findings)
        if code == 1 and (borne or diagnosis.verdict in ("healthy", "inconclusive")):
            why = "; ".join(
                f"{item.code} {item.message}" for item in failing(diagnosis, "info")[:1]
            )
        if diagnosis.unanswered and code != 1 and diagnosis.verdict != "inconclusive":
            why += f"; {unseen(diagnosis)}"
        yield word, diagnosis.run.name, diagnosis.verdict, why


def failed_rows(failed: Sequence[Document]) -> Iterator[tuple[str, str, str, str]]:
    """Yield the like of ``gate_rows`` for the runs that could not be judged."""
    for item in failed:
        yield "UNKNOWN", str(item["path"]), "not judged", str(item["error"])


def counted_words(rows: Sequence[tuple[str, ...]]) -> str:
    """Return how often each word is said of rows whose first cell it is: "1 FAIL, 2 PASS"."""
    counts = Counter(word for word, *_ in rows)
    order = ("FAIL", "UNKNOWN", "WARN", "PASS")
    return ", ".join(f"{counts[word]} {word}" for word in order if counts[word]) or "no runs"


def unseen(diagnosis: Diagnosis) -> str:
    """Return what was required and not looked at."""
    return f"could not look at: {'; '.join(diagnosis.unanswered)}"


def wants(skip: Skip) -> str:
    """Return why a rule could not look, and the command that would let it."""
    command = f"; {skip.command}" if skip.command else ""
    return f"could not look: wants {', '.join(skip.missing)}{command}"


def accepted_lines(diagnosis: Diagnosis) -> list[str]:
    """Return what is accepted: "KL003, LEN002 accepted (ignore, until 2027-01-31): the reason"."""
    codes: dict[Acceptance, list[str]] = {}
    for item in diagnosis.findings:
        if item.accepted and item.code not in codes.setdefault(item.accepted, []):
            codes[item.accepted].append(item.code)
    return [f"{', '.join(found)} {acceptance(why)}" for why, found in codes.items()]


def path_of(run: Run, where: Location) -> str:
    """Return the path of a run's file from the working directory, absolute where it lies outside.

    Separators are slashes.
    """
    folder = run.path if os.path.isdir(run.path) else os.path.dirname(run.path)
    path = os.path.abspath(os.path.join(folder, where.file))
    inside = path.startswith(os.path.join(os.getcwd(), ""))
    return (os.path.relpath(path) if inside else path).replace(os.sep, "/")
