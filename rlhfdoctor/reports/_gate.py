"""What a gate says of runs, in the words that every report shares."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from rlhfdoctor.masking import masked
from rlhfdoctor.model import (
    Acceptance,
    Diagnosis,
    Location,
    Run,
    Skip,
)
from rlhfdoctor.policy import exit_code, failing
from rlhfdoctor.reports import Gated, Page
from rlhfdoctor.reports._lines import acceptance

ORDER = ("FAIL", "UNKNOWN", "WARN", "PASS")
"""Words, the gravest first."""

WORDS = {0: "PASS", 1: "FAIL", 3: "UNKNOWN"}
"""What an exit code is called; WARN is a run that passes with a warning, or not all looked at."""


def gated(diagnoses: Sequence[Diagnosis], page: Page) -> Gated:
    """Return what the gate said; where none was asked, what one that fails on critical says."""
    if page.gate is not None:
        return page.gate
    return Gated("critical", tuple(exit_code(item, "critical") for item in diagnoses))


def outward(diagnoses: Sequence[Diagnosis], page: Page) -> tuple[list[Diagnosis], Gated]:
    """Return diagnoses and what the gate said, with secrets masked: what leaves the machine."""
    gate = gated(diagnoses, page)
    return [masked(item) for item in diagnoses], masked(gate)


class Row(NamedTuple):
    """What is told of a run: the gate's word, its name, its verdict, what these rest on.

    lines: what stands below: which findings are accepted, or what to do.
    """

    word: str
    name: str
    verdict: str
    why: str
    lines: tuple[str, ...] = ()


def gate_rows(diagnoses: Sequence[Diagnosis], gate: Gated) -> Iterator[Row]:
    """Yield a row for each run that was judged, then for each that could not be."""
    for diagnosis, code in zip(diagnoses, gate.codes, strict=True):
        word, why = WORDS[code], diagnosis.headline
        if code == 0 and (failing(diagnosis, "warning") or diagnosis.unanswered):
            word = "WARN"
        borne = accepted_lines(diagnosis)
        if code == 1 and (borne or diagnosis.verdict in ("healthy", "inconclusive")):
            first = failing(diagnosis, gate.fail_on)[0]
            why = f"{first.code} {first.message}"
        if diagnosis.unanswered and code != 1 and diagnosis.verdict != "inconclusive":
            why += f"; {unseen(diagnosis)}"
        yield Row(word, diagnosis.run.name, diagnosis.verdict, why, (*borne,))
    for item in gate.failed:
        path, why, hint = (str(item[key]) for key in ("path", "error", "hint"))
        yield Row("UNKNOWN", path, "not judged", why, (hint,))


def counted_words(rows: Sequence[Row]) -> str:
    """Return how often each word is said of these rows: "1 FAIL, 2 PASS"."""
    counts = Counter(word for word, *_ in rows)
    return ", ".join(f"{counts[word]} {word}" for word in ORDER if counts[word]) or "no runs"


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
