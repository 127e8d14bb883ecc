"""What a gate bears: findings that somebody looked at, for a reason and until a day.

Two ways to say so. An ``[[ignore]]`` of the configuration names a rule, why, and until when; it is
written by hand. A baseline is written by the gate and keeps the findings that runs had on a day by
their fingerprints, so that only new or graver ones fail. Neither changes a verdict.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import date, datetime
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from rlhfdoctor.errors import BadProfile, DoctorError, did_you_mean
from rlhfdoctor.model import SEVERITIES, Acceptance, Diagnosis, Finding, Note, Run, Severity

_IGNORE = '[[ignore]] with code = "LEN002", reason = "...", until = 2027-01-31'

LONGEST_REASON = 500
"""Characters of a reason."""

BASELINE = 1
"""Counts breaking changes of the baseline file."""


@dataclass(frozen=True, slots=True)
class Ignore:
    """A rule whose findings fail no gate up to and including the day ``until``.

    run: a pattern of names of runs ("*": of all), as a shell matches them. fingerprint: of the one
    finding that is meant; empty: of all that the rule finds.
    """

    code: str
    reason: str
    until: date
    run: str = "*"
    fingerprint: str = ""

    def covers(self, run: str, finding: Finding) -> bool:
        """Say whether it speaks of this finding of this run, whatever the day."""
        return (
            finding.code == self.code
            and fnmatchcase(run, self.run)
            and self.fingerprint in ("", finding.fingerprint)
        )


@dataclass(frozen=True, slots=True)
class Known:
    """A finding of a baseline: accepted in this run, as grave as it was or milder.

    run: the run's name. path: where it lies, seen from the folder of the baseline, with slashes;
    many runs are called "final", and a name alone would accept a stranger's findings.
    """

    run: str
    path: str
    code: str
    fingerprint: str
    severity: Severity
    message: str = ""

    def covers(self, finding: Finding) -> bool:
        """Say whether it is this finding of its run, no graver than it was."""
        same = (self.code, self.fingerprint) == (finding.code, finding.fingerprint)
        return same and SEVERITIES.index(finding.severity) >= SEVERITIES.index(self.severity)


@dataclass(frozen=True, slots=True)
class Baseline:
    """The findings that are known, and the folder that their paths are seen from."""

    folder: str = "."
    known: tuple[Known, ...] = ()

    def place(self, run: Run) -> str:
        """Return where a run lies; standard input is called "-"."""
        if run.path == "-":
            return "-"
        path, folder = os.path.realpath(run.path), os.path.realpath(self.folder)
        try:
            return os.path.relpath(path, folder).replace(os.sep, "/")
        except ValueError:  # another drive
            return path.replace(os.sep, "/")

    def of(self, run: Run) -> list[Known]:
        """Return what is known of a run."""
        asked = (run.name, self.place(run)) if self.known else ()
        return [item for item in self.known if (item.run, item.path) == asked]

    def renewed(self, diagnoses: Sequence[Diagnosis]) -> Baseline:
        """Return the baseline that knows what these runs show and no ignore covers.

        Of runs that were not judged now, what was known stays.
        """
        judged = {(item.run.name, self.place(item.run)) for item in diagnoses}
        known = [item for item in self.known if (item.run, item.path) not in judged]
        for diagnosis in diagnoses:
            run, place = diagnosis.run, self.place(diagnosis.run)
            known += [
                Known(
                    run.name,
                    place,
                    item.code,
                    item.fingerprint,
                    item.severity,
                    item.message,
                )
                for item in diagnosis.findings
                if item.accepted is None or item.accepted.by == "baseline"
            ]
        return replace(self, known=(*known,))

    def text(self) -> str:
        """Return the baseline as its file holds it."""
        document = {"baseline": BASELINE, "accepted": [asdict(item) for item in self.known]}
        return json.dumps(document, indent=2) + "\n"


NOTHING = Baseline()
"""The baseline of those who have none."""


@dataclass(frozen=True, slots=True)
class Policy:
    """How a gate judges. None, and empty: nothing was said, the defaults hold.

    baseline: the path of the file, as seen from the working directory.
    """

    fail_on: Severity | None = None
    allow_inconclusive: bool | None = None
    baseline: str = ""
    ignores: tuple[Ignore, ...] = ()

    def over(self, other: Policy) -> Policy:
        """Return this policy laid over another, which holds where this one says nothing."""
        allowed = self.allow_inconclusive
        return Policy(
            self.fail_on or other.fail_on,
            other.allow_inconclusive if allowed is None else allowed,
            self.baseline or other.baseline,
            (*self.ignores, *other.ignores),
        )


UNSTATED = Policy()

KEYS = ("fail-on", "allow-inconclusive", "baseline", "ignore")
"""The entries of a configuration that are a policy."""


def policy_of(table: Mapping[str, Any], folder: Path, code_of: Callable[[str], str]) -> Policy:
    """Return the policy of a configuration.

    folder: what its paths are relative to. code_of: returns the code of a rule as its rule writes
    it, and raises BadProfile where no rule has it. Raises BadProfile for a wrong type, a severity
    that is none, an ignore without reason or end.
    """
    fail_on = table.get("fail-on")
    if fail_on is not None and fail_on not in SEVERITIES:
        close = did_you_mean(str(fail_on), SEVERITIES)
        raise BadProfile(f"fail-on is no severity: {fail_on!r:.40}{close}", ", ".join(SEVERITIES))
    allowed = table.get("allow-inconclusive")
    if not isinstance(allowed, bool | None):
        raise BadProfile("allow-inconclusive must be true or false", "allow-inconclusive = true")
    baseline = table.get("baseline", "")
    if not isinstance(baseline, str) or "\0" in baseline:
        raise BadProfile("baseline must be the path of a file", 'baseline = "baseline.json"')
    ignores = table.get("ignore", [])
    if not isinstance(ignores, list):
        raise BadProfile("ignore must be tables, one a rule", _IGNORE)
    return Policy(
        fail_on,
        allowed,
        str(folder / baseline) if baseline else "",
        tuple(_ignore(item, place, code_of) for place, item in enumerate(ignores, start=1)),
    )


def _ignore(item: object, place: int, code_of: Callable[[str], str]) -> Ignore:
    if not isinstance(item, dict):
        raise BadProfile(f"ignore {place} is no table", _IGNORE)
    known = Ignore.__dataclass_fields__
    for key in item:
        if key not in known:
            raise BadProfile(
                f"ignore {place} has an unknown entry {key}{did_you_mean(key, known)}",
                f"known: {', '.join(known)}; what is of the whole file stands above it",
            )
    code, reason, until = item.get("code"), item.get("reason"), item.get("until")
    run, fingerprint = item.get("run", "*"), item.get("fingerprint", "")
    if isinstance(code, list):
        raise BadProfile(
            f"ignore {place}: code takes one rule; write one [[ignore]] for each", _IGNORE
        )
    if not isinstance(code, str):
        raise BadProfile(f"ignore {place} names no rule", _IGNORE)
    code = code_of(code)
    if not isinstance(reason, str) or not 0 < len(reason.strip()) <= LONGEST_REASON:
        raise BadProfile(f"the ignore of {code} needs a reason, in a sentence", _IGNORE)
    if until is None:
        raise BadProfile(f"the ignore of {code} needs the day on which it ends", _IGNORE)
    if not isinstance(until, date) or isinstance(until, datetime):
        kind = " without quotes" if isinstance(until, str) else ", a day"
        raise BadProfile(f"until of {code} must be a TOML date{kind}: until = 2027-01-01", _IGNORE)
    if not isinstance(run, str) or not isinstance(fingerprint, str):
        raise BadProfile(f"run and fingerprint in the ignore of {code} are texts", _IGNORE)
    return Ignore(code, reason.strip(), until, run, fingerprint)


def accept(
    diagnosis: Diagnosis, ignores: Sequence[Ignore], baseline: Baseline, today: date
) -> Diagnosis:
    """Return a diagnosis whose findings say who accepts them; an ignore that ended is noted.

    What was accepted before stays so.
    """
    name = diagnosis.run.name
    known = baseline.of(diagnosis.run)
    notes: dict[Ignore, Note] = {}
    findings = []
    for finding in diagnosis.findings:
        accepted = finding.accepted
        if any(item.covers(finding) for item in known):
            accepted = Acceptance("baseline", "known from the baseline")
        for item in ignores:
            if not item.covers(name, finding):
                continue
            if item.until >= today:
                accepted = Acceptance("ignore", item.reason, item.until.isoformat())
                break
            told = f"it ended on {item.until} and accepts nothing any more ({item.reason})"
            notes[item] = Note(f"ignore of {item.code}", told)
        findings.append(replace(finding, accepted=accepted))
    return replace(diagnosis, findings=(*findings,), notes=(*diagnosis.notes, *notes.values()))


def failing(diagnosis: Diagnosis, fail_on: Severity) -> list[Finding]:
    """Return the findings from that severity up that nobody accepts, the gravest first."""
    grave = SEVERITIES[: SEVERITIES.index(fail_on) + 1]
    found = [item for item in diagnosis.findings if item.severity in grave and not item.accepted]
    return sorted(found, key=lambda item: SEVERITIES.index(item.severity))


def exit_code(
    diagnosis: Diagnosis,
    fail_on: Severity,
    *,
    allow_inconclusive: bool = False,
    require: Sequence[str] = (),
) -> int:
    """Return 1 for a finding from a severity up that nobody accepts, 3 for one who did not look.

    require: codes of rules that must have looked even where an inconclusive run may pass.
    """
    if failing(diagnosis, fail_on):
        return 1
    looked = {*diagnosis.clear, *(item.code for item in diagnosis.findings)}
    blind = any(code not in looked for code in require)
    return 3 if blind or (diagnosis.unanswered and not allow_inconclusive) else 0


def read_baseline(path: Path) -> Baseline:
    """Read a baseline. Raises DoctorError where it is none."""
    hint = "rlhfdoctor gate RUN... --write-baseline FILE writes one"
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise DoctorError(f"cannot read the baseline {path}: {error.strerror}", hint) from error
    except (ValueError, RecursionError) as error:
        raise DoctorError(f"{path} is no JSON", hint) from error
    if not isinstance(document, dict) or document.get("baseline") != BASELINE:
        raise DoctorError(f"{path} is no baseline of this version", hint)
    found = document.get("accepted")
    if not isinstance(found, list):
        raise DoctorError(f"{path} accepts nothing", hint)
    return Baseline(str(path.parent), tuple(_known(item, path, hint) for item in found))


def _known(item: object, path: Path, hint: str) -> Known:
    told = item if isinstance(item, dict) else {}
    for name in ("run", "path", "code", "fingerprint", "severity"):
        if not isinstance(told.get(name), str):
            raise DoctorError(f"{path}: an entry has no {name}", hint)
    severity = next((one for one in SEVERITIES if one == told["severity"]), None)
    if severity is None:
        raise DoctorError(f"{path}: {told['severity']!r:.40} is no severity", hint)
    message = str(told.get("message", ""))
    run, place, code, fingerprint = (told[name] for name in ("run", "path", "code", "fingerprint"))
    return Known(run, place, code, fingerprint, severity, message)


CODES = (4, 2, 1, 3, 0)
"""Exit codes, the one that outranks the others first."""


def worst(codes: Iterable[int]) -> int:
    """Return the exit code of several: the first of ``CODES`` that occurs."""
    found = {*codes}
    return next((code for code in CODES if code in found), 0)
