"""Measure verdicts on labelled logs, beside the best constant answer and another tool.

    python bench/validate.py LOGS --labels LABELS > docs/validation.md
    python bench/validate.py LOGS --labels LABELS --rival-env DIR    # keep the other tool there
    python bench/validate.py LOGS --labels LABELS --no-rival         # ours alone

Prints a document that names no log: a number, the framework, and what was concluded. The same
logs and the same code print the same document.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import textwrap
import venv
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from rlhfdoctor.dialects import Dialect
from rlhfdoctor.doctor import diagnose
from rlhfdoctor.errors import DoctorError
from rlhfdoctor.measures import finite_rows, track
from rlhfdoctor.model import Run
from rlhfdoctor.profile import rules
from rlhfdoctor.registry import members
from rlhfdoctor.runs import read_runs

RIVAL = "rldoctor[tensorboard]==0.2.0"

VERDICTS = ("collapsed", "degraded", "healthy", "inconclusive")
ACCUSATIONS = ("collapsed", "degraded")

WIDER_SHARE, WIDER_ROWS = 0.02, 2
"""How far outside a reader's interval an onset may lie: share of the run, or logged rows."""

FIRST = 3
"""Findings that a user is sure to read."""

CEILING, PATIENCE, WITHIN, FEWEST = 5.0, 10, 50, 10
"""The claim: above 5 nats a response for 10 rows, collapse within 50 steps; from 10 alarms on it
can be measured at all."""

PROMISED, SAVED = 0.83, 0.37

DETECTORS = {
    "advantage_collapse": "GRP",
    "clip_saturation": "OPT",
    "entropy_collapse": "ENT",
    "gradient_pathology": "OPT",
    "kl_drift": "KL",
    "length_pathology": "LEN",
    "plateau": "RWD",
    "reward_composition": "RWD",
    "reward_hacking": "RWD",
}
"""The other tool's detectors and the family of codes that each belongs to."""

LEVELS = {"CRITICAL": "collapsed", "WARNING": "degraded", "INFO": "healthy", "OK": "healthy"}
"""Its worst severity as a verdict; SKIPPED (no detector could look) is inconclusive."""

TIMEOUT = 600
"""Seconds that the other tool may take for one log."""


@dataclass(frozen=True, slots=True)
class Label:
    """What two readers accept. interval: the onset's; None where none was given or has no end."""

    id: str
    framework: str
    verdicts: tuple[str, ...]
    families: tuple[str, ...]
    interval: tuple[float | None, float | None] | None
    collapsed_at: float | None

    @property
    def unhealthy(self) -> bool:
        """Whether no reader accepts a healthy verdict."""
        return "healthy" not in self.verdicts

    @property
    def spotless(self) -> bool:
        """Whether no reader accepts an accusation."""
        return not {*self.verdicts} & {*ACCUSATIONS}


@dataclass(frozen=True, slots=True)
class Claim:
    """A log with a KL per response: its last step, and the step of the alarm where it rang."""

    last: int
    alarm: int | None


@dataclass(frozen=True, slots=True)
class Told:
    """What a tool says about a log's last run. gap: the usual distance of two logged rows.

    findings: (name, family, severity) in the tool's order. looked: names of rules that judged.
    """

    verdict: str
    read: bool = True
    runs: int = 1
    rows: int = 0
    findings: tuple[tuple[str, str, str], ...] = ()
    looked: frozenset[str] = frozenset()
    onset: int | None = None
    length: int = 0
    gap: float = 1.0
    claim: Claim | None = None

    @property
    def alarms(self) -> list[tuple[str, str, str]]:
        """The findings above information."""
        return [item for item in self.findings if item[2] != "info"]


Case = tuple[Label, Told]


def main() -> None:
    """Judge every log with both tools and print the document."""
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("logs", type=Path)
    arguments.add_argument("--labels", type=Path, help="default: labels.json among the logs")
    arguments.add_argument("--rival-env", type=Path, help="environment of the other tool")
    arguments.add_argument("--no-rival", action="store_true")
    given = arguments.parse_args()
    labels = json.loads((given.labels or given.logs / "labels.json").read_text(encoding="utf-8"))
    files = sorted(given.logs / name for name in labels)
    logs = [file for file in files if labels[file.name]["expect"]["kind"] == "log"]
    known = [
        label_of(_id(file, place), labels[file.name]) for place, file in enumerate(logs, start=1)
    ]
    ours = [_shown(f"{place}/{len(logs)}", judged, log) for place, log in enumerate(logs, start=1)]
    texts = [judged(file) for file in files if file not in logs]
    theirs: list[Told] = []
    if not given.no_rival:
        with tempfile.TemporaryDirectory() as folder:
            tool = _rival(given.rival_env or Path(folder) / "environment")
            theirs = [_shown("rldoctor", lambda log: rival(tool, log), log) for log in logs]
    print("\n".join(document(known, ours, theirs, texts)))


def _shown(what: str, judge: Callable[[Path], Told], log: Path) -> Told:
    print(f"{what} {log.name[:20]}", file=sys.stderr, flush=True)
    return judge(log)


def _id(file: Path, place: int) -> str:
    number, _, rest = file.name.partition("__")
    return number if rest and number.isdigit() else f"{place:03d}"


def label_of(name: str, label: Mapping[str, Any]) -> Label:
    """Return what the readers of a log accept."""
    second = label.get("second_reading") or {}
    interval = second.get("onset_interval")
    onset = second.get("onset")
    first = interval[0] if interval else None
    return Label(
        id=name,
        framework=framework(label.get("framework") or ""),
        verdicts=tuple(label["expect"]["verdicts"]),
        families=tuple(label["expect"]["families"]),
        interval=(interval[0], interval[1]) if interval else None,
        collapsed_at=(
            (onset if isinstance(onset, int | float) else first)
            if second.get("verdict") == "collapsed"
            else None
        ),
    )


def framework(told: str) -> str:
    """Return the framework that a label names where a dialect is written for it, else "other"."""
    name = told.partition("(")[0].partition(",")[0].strip().casefold()
    dialects = members("dialects", Dialect)
    return {item.framework.casefold(): item.framework for item in dialects}.get(name, "other")


# What the tools say


def judged(log: Path) -> Told:
    """Judge a log with this package; a file that it refuses is inconclusive."""
    try:
        runs = read_runs(log)
    except DoctorError:
        return Told("inconclusive", read=False)
    run = runs[-1]
    found = diagnose(run)
    skipped = {skip.code for skip in found.skipped}
    steps = run.metrics["step"].to_list()
    return Told(
        found.verdict,
        runs=len(runs),
        rows=run.logged_steps,
        findings=tuple((item.code, item.family, item.severity) for item in found.findings),
        looked=frozenset(rule.code for rule in rules() if rule.code not in skipped),
        onset=found.onset.step if found.onset else None,
        length=steps[-1] - steps[0] if steps else 0,
        gap=statistics.median(b - a for a, b in pairwise(steps)) if len(steps) > 1 else 1.0,
        claim=_claim(run),
    )


def _claim(run: Run) -> Claim | None:
    if not finite_rows(run, "kl_ref_response"):
        return None
    kl = track(run, "kl_ref_response")
    return Claim(run.last_step or 0, alarm(kl.steps, kl.values))


def alarm(steps: Sequence[int], values: Sequence[float]) -> int | None:
    """Return the step at which ``PATIENCE`` rows in a row were above ``CEILING``, or None."""
    rows = 0
    for step, value in zip(steps, values, strict=True):
        rows = rows + 1 if value > CEILING else 0
        if rows == PATIENCE:
            return step
    return None


def _rival(environment: Path) -> Path:
    tool = environment / "bin" / "rl-doctor"
    if not tool.exists():
        venv.create(environment, with_pip=True)
        subprocess.run(
            [environment / "bin" / "python", "-m", "pip", "install", "--quiet", RIVAL],
            check=True,
            stdout=sys.stderr,
        )
    return tool


def rival(tool: Path, log: Path) -> Told:
    """Judge a log with the other tool; an event file is given as the folder that it asks for."""
    with tempfile.TemporaryDirectory() as folder:
        place = log
        if "events.out.tfevents" in log.name:
            place = Path(folder)
            shutil.copy(log, place / log.name[log.name.index("events.out.tfevents") :])
        try:
            done = subprocess.run(
                [tool, "diagnose", place, "--format", "json"],
                capture_output=True,
                text=True,
                timeout=TIMEOUT,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return Told("inconclusive", read=False)
    if done.returncode:
        return Told("inconclusive", read=False)
    report = json.loads(done.stdout)
    ranks = ("CRITICAL", "WARNING", "INFO")
    fired = [item for item in report["findings"] if item["severity"] in ranks]
    return Told(
        LEVELS.get(report["worst_severity"], "inconclusive"),
        rows=report["run"]["n_steps"],
        findings=tuple(
            (item["detector"], DETECTORS.get(item["detector"], ""), item["severity"].lower())
            for item in sorted(fired, key=lambda item: ranks.index(item["severity"]))
        ),
    )


# The arithmetic


def constant(labels: Sequence[Label]) -> dict[str, int]:
    """Return how many logs each verdict would be acceptable for, the best first."""
    counts = {verdict: sum(verdict in label.verdicts for label in labels) for verdict in VERDICTS}
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def mistake(label: Label, verdict: str) -> str | None:
    """Name what is wrong with a verdict that no reader accepts; None where one does."""
    if verdict in label.verdicts:
        return None
    if verdict in ACCUSATIONS:
        return "false alarm" if label.spotless else "wrong degree"
    return "false healthy" if verdict == "healthy" else "could not say"


def named(label: Label, told: Told) -> bool:
    """Say whether one of the first findings is of a family that a reader accepts."""
    return any(family in label.families for _, family, _ in told.findings[:FIRST])


def error(label: Label, told: Told) -> float | None:
    """Return how many steps an onset lies outside the readers' interval; None without either."""
    if label.interval is None or told.onset is None:
        return None
    low, high = label.interval
    if low is not None and told.onset < low:
        return told.onset - low
    if high is not None and told.onset > high:
        return told.onset - high
    return 0.0


def dated(label: Label, told: Told) -> bool:
    """Say whether an onset lies inside the widened interval."""
    off = error(label, told)
    return off is not None and abs(off) <= max(WIDER_SHARE * told.length, WIDER_ROWS * told.gap)


def accusing(cases: Iterable[Case]) -> list[Case]:
    """Return the logs that were called degraded or collapsed."""
    return [case for case in cases if case[1].verdict in ACCUSATIONS]


# The document


def document(
    labels: Sequence[Label], ours: Sequence[Told], theirs: Sequence[Told], texts: Sequence[Told]
) -> Iterator[str]:
    """Yield the lines of docs/validation.md."""
    cases = list(zip(labels, ours, strict=True))
    others = list(zip(labels, theirs, strict=True)) if theirs else []
    yield from _preface(cases, texts)
    yield from _summary(cases, others)
    yield from _mistakes(cases, others)
    yield from _logs(cases, others)
    yield from _families(cases)
    yield from _rules(cases)
    yield from _promise(cases)
    yield from _other_tool(others)


def _preface(cases: Sequence[Case], texts: Sequence[Told]) -> Iterator[str]:
    logs, accused = len(cases), sum(told.verdict in ACCUSATIONS for told in texts)
    yield f"""\
# Validation

Generated by `make validate LOGS=dir LABELS=file`; do not edit. {logs} public logs of RLHF and
preference-tuning runs, read by two independent readers, who wrote down which verdicts, which
families of codes and which onset they accept. **These are development data**: the rules were
written by people who could look at these logs, so nothing here is a held-out figure.

The logs are not ours to publish. They appear under a number, with nothing of their contents.

- A verdict is acceptable where a reader accepts it. The readers left many logs open, therefore the
  best constant answer stands beside every share: what a tool would reach that always says the same.
- Of a log that holds several runs, the verdict on the last one counts.
- A file that a tool refuses counts as inconclusive; how many those are is said.
- {len(texts)} more files hold samples without a log. No verdict is expected of them;
  {accused} of them were called degraded or collapsed.
"""


def _share(part: int, whole: int) -> str:
    return f"{part}/{whole} ({part / whole:.0%})" if whole else "0/0"


def _table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield f"|{'---|' * len(head)}"
    for row in rows:
        yield f"| {' | '.join(str(cell) for cell in row)} |"
    yield ""


def _figures(cases: Sequence[Case], both: frozenset[str]) -> dict[str, str]:
    """Return the summary's figures of one tool; ``both``: logs that the other tool read too."""
    wrong = Counter(mistake(label, told.verdict) for label, told in cases)
    blamed = accusing(cases)
    families = [(label, told) for label, told in blamed if label.families]
    ill = [case for case in cases if case[0].unhealthy]
    found = [case for case in accusing(ill) if not case[0].spotless]
    hits = sum(dated(*case) for case in found)
    undated = not any(told.onset is not None for _, told in cases)
    same = [(label, told) for label, told in cases if label.id in both]
    return {
        "read": _share(sum(told.read for _, told in cases), len(cases)),
        "acceptable verdicts": _share(wrong[None], len(cases)),
        "acceptable verdicts on the logs that both tools read": _share(
            sum(mistake(label, told.verdict) is None for label, told in same), len(same)
        ),
        "false alarms, of the logs that may not be accused": _share(
            wrong["false alarm"], sum(label.spotless for label, _ in cases)
        ),
        "false healthy, of the logs that may not be called healthy": _share(
            wrong["false healthy"], len(ill)
        ),
        "accused, of the ill logs": _share(len(found), sum(not label.spotless for label, _ in ill)),
        "could not say, where a verdict was due": str(wrong["could not say"]),
        "wrong degree": str(wrong["wrong degree"]),
        f"accepted family among the first {FIRST} findings": _share(
            sum(named(*case) for case in families), len(families)
        ),
        "onset inside, of the ill logs that were accused": (
            "no onset told" if undated else _share(hits, len(found))
        ),
        "onset inside, of all that may not be called healthy": (
            "no onset told" if undated else _share(hits, len(ill))
        ),
    }


def _summary(cases: Sequence[Case], others: Sequence[Case]) -> Iterator[str]:
    labels = [label for label, _ in cases]
    read = frozenset(label.id for label, told in others or cases if told.read)
    both = frozenset(label.id for label, told in cases if told.read) & read
    (best, _), *rest = constant(labels).items()
    columns = {"rlhfdoctor": _figures(cases, both)}
    if others:
        columns["rldoctor 0.2.0"] = _figures(others, both)
    columns[f'always "{best}"'] = _figures([(label, Told(best)) for label in labels], both)
    yield "## Summary\n"
    rows = [
        [name, *(column[name] for column in columns.values())] for name in columns["rlhfdoctor"]
    ]
    yield from _table(("", *columns), rows)
    also = ", ".join(f'"{name}" {_share(number, len(labels))}' for name, number in rest)
    spotless = sum(label.spotless for label in labels)
    unhealthy = [label for label in labels if label.unhealthy]
    ill = sum(not label.spotless for label in unhealthy)
    yield f"""\
The last column is the best constant answer. The others: {also}.

- False alarm: called degraded or collapsed, where no reader accepts either ({spotless} logs). False
  healthy: called healthy, where no reader accepts that ({len(unhealthy)} logs: {ill} ill ones, of
  which a reader accepts an accusation, and {len(unhealthy) - ill} that may only be called
  inconclusive). Wrong degree: collapsed for degraded or the reverse.
- Family: of the logs called degraded or collapsed for which a reader lists families, those with one
  of them among the first {FIRST} findings as printed, information included.
- Onset inside: in the second reader's interval, widened at both ends by {WIDER_SHARE:.0%} of the
  run or {WIDER_ROWS} logged rows, whichever is more; an end that the reader left open is open. No
  onset, or no interval, is outside.
"""


def _mistakes(cases: Sequence[Case], others: Sequence[Case]) -> Iterator[str]:
    yield "## Every verdict that no reader accepts\n"
    rows: list[tuple[str, ...]] = []
    for tool, judged_ in (("rlhfdoctor", cases), ("rldoctor", others)):
        rows.extend(
            (tool, wrong, label.id, told.verdict if told.read else "not read", _either(label))
            for label, told in judged_
            if (wrong := mistake(label, told.verdict))
        )
    rows.sort(key=_rank)
    yield from _table(("tool", "mistake", "log", "said", "accepted"), rows)


def _rank(row: tuple[str, ...]) -> tuple[bool, int, str]:
    order = ("false alarm", "false healthy", "wrong degree", "could not say")
    return row[0] != "rlhfdoctor", order.index(row[1]), row[2]


def _either(label: Label) -> str:
    return " or ".join(label.verdicts)


def _logs(cases: Sequence[Case], others: Sequence[Case]) -> Iterator[str]:
    yield "## Log by log\n"
    yield (
        "Rows and runs as read; the first codes, those in brackets being information; the onset\n"
        "and how many steps it lies outside the unwidened interval.\n"
    )
    head = ["log", "framework", "rows", "verdict", "accepted?", "first codes", "onset", "off by"]
    rows = []
    for place, (label, told) in enumerate(cases):
        runs = f" (last of {told.runs} runs)" if told.runs > 1 else ""
        off = error(label, told) if label.unhealthy else None
        row = [
            label.id,
            label.framework,
            f"{told.rows}{runs}" if told.read else "",
            told.verdict if told.read else "not read",
            "no" if mistake(label, told.verdict) else "yes",
            ", ".join(_code(item) for item in told.findings[:FIRST]),
            "" if told.onset is None else told.onset,
            "" if off is None else f"{off:+g}" if off else "0",
        ]
        if others:
            other = others[place][1]
            said = other.verdict if other.read else "not read"
            row += [said, "no" if mistake(label, other.verdict) else "yes"]
        rows.append(row)
    yield from _table([*head, *(["rldoctor", "accepted?"] if others else [])], rows)


def _code(finding: tuple[str, str, str]) -> str:
    return f"({finding[0]})" if finding[2] == "info" else finding[0]


def _families(cases: Sequence[Case]) -> Iterator[str]:
    yield """\
## Family by family

A reader lists every family of codes that would explain a log, so several families of one list are
alternatives, not all due. Named: logs whose list has the family. Hit: a rule of the family found
something above information there. Missed: none did. Of those, by another: a rule of another family
of the same list did. Due and unexplained: no reader accepts "healthy", and no family of the list
found anything above information.
"""
    rows = []
    for family in sorted({family for label, _ in cases for family in label.families}):
        there = [(label, told) for label, told in cases if family in label.families]
        missed = [(label, told) for label, told in there if family not in _accused_by(told)]
        explained = [case for case in missed if _accused_by(case[1]) & {*case[0].families}]
        due = [case for case in missed if case[0].unhealthy and case not in explained]
        rows.append(
            (family, len(there), len(there) - len(missed), len(missed), len(explained), len(due))
        )
    yield from _table(
        ("family", "named", "hit", "missed", "of those, by another", "due and unexplained"), rows
    )


def _accused_by(told: Told) -> set[str]:
    return {family for _, family, _ in told.alarms}


def _rules(cases: Sequence[Case]) -> Iterator[str]:
    yield """\
## Rule by rule

Looked: logs where the rule had what it needs. Hit: it found something above information, on a log
whose list has the rule's family. Elsewhere: likewise, on a log that a reader accepts as degraded or
collapsed without naming the family. False alarm: likewise, on a log for which no reader accepts
that. Information: logs where it found nothing graver.
"""
    rows = []
    for rule in rules():
        family = rule.code.rstrip("0123456789")
        looked = [(label, told) for label, told in cases if rule.code in told.looked]
        loud = [
            label for label, told in looked if rule.code in {code for code, _, _ in told.alarms}
        ]
        said = [
            label for label, told in looked if rule.code in {code for code, _, _ in told.findings}
        ]
        false = [label for label in loud if label.spotless]
        hits = [label for label in loud if not label.spotless and family in label.families]
        rows.append(
            (
                rule.code,
                rule.name,
                len(looked),
                len(hits),
                len(loud) - len(hits) - len(false),
                len(false),
                len(said) - len(loud),
            )
        )
    yield from _table(
        ("rule", "name", "looked", "hit", "elsewhere", "false alarm", "information"), rows
    )


def _promise(cases: Sequence[Case]) -> Iterator[str]:
    yield "## A KL above 5 for 10 steps: 83 % collapse within 50, stopping saves 37 %\n"
    seen = [(label, told, told.claim) for label, told in cases if told.claim]
    rang = [(label, told, claim) for label, told, claim in seen if claim.alarm is not None]
    by_us = [
        (told.onset or 0, claim)
        for _, told, claim in rang
        if told.verdict == "collapsed" and told.onset is not None
    ]
    by_label = [
        (label.collapsed_at, claim) for label, _, claim in rang if label.collapsed_at is not None
    ]
    yield f"""\
The alarm: {PATIENCE} logged rows in a row above {CEILING:g} nats a response; a KL in any other
unit, or in none, is never counted. Collapse: (a) the verdict here is collapsed, its onset before
the alarm or at most {WITHIN} steps after it; (b) the second reader says collapsed, likewise. Saved:
the share of the run that lies after the alarm, over the runs that collapsed so.

{len(seen)} of {len(cases)} logs hold a KL per response; the alarm rings in {len(rang)} of them;
collapse follows in {_soon(by_us)} of these by (a) and {_soon(by_label)} by (b).
"""
    if len(rang) < FEWEST:
        yield (
            f"**Not measurable** on {len(rang)} alarms: below {FEWEST} no share is worth telling.\n"
            "The claim is neither confirmed nor refuted here.\n"
        )
        return
    rows = []
    for how, fallen in (("(a) our verdict", by_us), ("(b) the reader's", by_label)):
        soon = [claim for at, claim in fallen if at <= (claim.alarm or 0) + WITHIN]
        saved = [1 - (claim.alarm or 0) / claim.last for claim in soon if claim.last]
        rows.append(
            (
                how,
                _share(len(soon), len(rang)),
                f"{PROMISED:.0%}",
                f"{statistics.fmean(saved):.0%}" if saved else "",
                f"{SAVED:.0%}",
            )
        )
    yield from _table(("collapse", "collapse within 50", "claimed", "saved", "claimed"), rows)


def _soon(fallen: Iterable[tuple[float, Claim]]) -> int:
    return sum(at <= (claim.alarm or 0) + WITHIN for at, claim in fallen)


def _other_tool(others: Sequence[Case]) -> Iterator[str]:
    if not others:
        return
    families = ", ".join(f"{name} {family}" for name, family in DETECTORS.items())
    read = sum(told.read for _, told in others)
    told = f"""\
rldoctor 0.2.0 (`rl-doctor diagnose FILE --format json`), installed from PyPI with its TensorBoard
extra into an environment of its own, on the same files in the same run. It reads JSON, JSON Lines,
CSV and TensorBoard folders (an event file was put into a folder of its own) and read {read} of
{len(others)} logs; it is made for GRPO and RLVR and does not promise the rest. Its worst severity
is taken as a verdict: CRITICAL collapsed, WARNING degraded, INFO and OK healthy; where every
detector was skipped, inconclusive. Its findings above OK are ordered by severity; their families:
{families}. It dates no onset."""
    yield f"""\
## The other tool

{textwrap.fill(told, 100)}

## Repeat it

`make validate LOGS=dir LABELS=file` with a folder of logs and a JSON file that holds for each file
name `framework`, `expect` (`kind`: log or samples, `verdicts`, `families`) and `second_reading`
(`verdict`, `onset`, `onset_interval`). The document has neither date nor path: the same logs and
the same code print the same bytes.
"""


if __name__ == "__main__":
    main()
