"""The report for people who were not there: one page that needs no network, no script, no font.

Everything that a run says reaches the page through ``shown`` and through Jinja2's escaping, and
never becomes an address, a name of an element or a style. Jinja2 is loaded when a page is made.
"""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from rlhfdoctor import __version__
from rlhfdoctor.curves import (
    QUANTITIES,
    SMOOTHED,
    Line,
    Panel,
    interval,
    marks,
    not_finite,
    panels,
)
from rlhfdoctor.excerpts import excerpts
from rlhfdoctor.masking import masked
from rlhfdoctor.model import (
    SEVERITIES,
    Answer,
    Cause,
    Diagnosis,
    Evidence,
    Finding,
    RollbackPlan,
    Rung,
    Skip,
)
from rlhfdoctor.reports import Page, report
from rlhfdoctor.reports._backtest import alarm_parts
from rlhfdoctor.reports._gate import gate_rows
from rlhfdoctor.reports._lines import acceptance, five_lines, rivals, shown, stated
from rlhfdoctor.reports._rollback import FLAT, destination, ladder_table, plan_lines, rung_lines
from rlhfdoctor.reports._svg import Axis, Drawn, figure, ratio_axis
from rlhfdoctor.reports._tables import (
    OFF_POLICY,
    TextTable,
    has_off_policy,
    reference_lines,
    score_tables,
)
from rlhfdoctor.reports._words import counted, number
from rlhfdoctor.reports.json import score_rows
from rlhfdoctor.text import cut_middle

if TYPE_CHECKING:
    from jinja2 import Template

TALL, LOW = 200, 130
"""Heights of the plot of three lines and of the others, in CSS pixels."""

OPEN, MOST_EVIDENCE = 2, 50
"""Pieces of evidence of a finding that are seen without opening the rest, and that are there."""

COLOURS = 6
"""Colours of the palette; the last is that of recomputed points."""

SCORED = {
    ("KL to the reference", "nats/token", "full_vocab"): "kl_ref_token_exact",
    ("KL to the reference", "nats/token", "k1"): "kl_k1_token",
    ("KL to the reference", "nats/token", "k3"): "kl_k3_token",
    ("KL to the reference", "nats/response", "k1"): "kl_k1_response",
    ("KL to the reference", "nats/response", "full_vocab"): "kl_ref_response_exact",
    ("Entropy", "nats/token", "full_vocab"): "entropy_token",
    ("Perplexity", "perplexity", None): "perplexity_policy",
}
"""Quantity, unit and estimator of a panel, and the recomputed number that has the same three."""

MOST_AHEAD = 0.25
"""Share of the logged steps by which a checkpoint may lie behind the last one and still be drawn:
one far behind would squeeze the curves. [H]"""

MOST_TEXT, MOST_ROWS = 2000, 250
"""Characters of one text, and entries of one list, that a page shows; the JSON has all. What is
left out is counted. [H]"""

MOST_NAME = 40
"""Characters of a run's name that stand on one line of the overview, where a page is wide. [H]"""

MOST_WORD = 240
_LONG_WORD = re.compile(f"[!-~]{{{MOST_WORD + 1},}}")
"""Characters of a word that are shown: no name or path of a sound run has more. [H]"""


@report("html")
def html(diagnoses: Sequence[Diagnosis], page: Page) -> str:
    """Lay out runs as one page: an overview where there are several, then a section each."""
    words = [""] * len(diagnoses)
    if page.gate:
        words = [row.word for row in gate_rows(diagnoses, page.gate)]
    runs = [
        _run(diagnosis, f"run-{place}", word)
        for place, (diagnosis, word) in enumerate(zip(diagnoses, words, strict=False), start=1)
    ]
    failed = page.gate.failed if page.gate else ()
    told = {
        "runs": runs,
        "failed": [*zip(words[len(diagnoses) :], failed, strict=True)],
        "fails": SEVERITIES[: SEVERITIES.index(page.gate.fail_on) + 1] if page.gate else (),
        "version": __version__,
    }
    return _template().render(told).rstrip() + "\n"


@cache
def _template() -> Template:
    """Return the page's template; whatever it prints is made visible, then escaped."""
    from jinja2 import Environment, StrictUndefined
    from markupsafe import Markup

    def finalize(value: object) -> object:
        if value is None:
            return ""
        return value if isinstance(value, Markup) else _readable(str(value))

    def sample(text: str) -> Markup:
        return Markup("\n").join(shown(line) for line in text.split("\n"))

    environment = Environment(
        autoescape=True,
        finalize=finalize,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"drawn": Markup, "sample": sample}
    environment.globals["style"] = _beside("html.css")
    return environment.from_string(_beside("html.jinja"))


def _readable(text: str) -> str:
    """Return a text of a run as it may be shown, cut where it would cover the page."""
    cut = _LONG_WORD.sub(lambda word: cut_middle(word[0], MOST_WORD), cut_middle(text, MOST_TEXT))
    return shown(cut)


def _beside(name: str) -> str:
    return files("rlhfdoctor.reports").joinpath(name).read_text(encoding="utf-8")


def _run(diagnosis: Diagnosis, anchor: str, word: str) -> dict[str, Any]:
    """Return what the page tells of a run, by section."""
    samples, rows = excerpts(diagnosis.run, diagnosis.onset), score_rows(diagnosis.run)
    diagnosis = masked(diagnosis)
    figures = list(_figures(diagnosis, rows, anchor))
    run, plan = diagnosis.run, diagnosis.rollback
    first, *lines = five_lines(diagnosis)
    return {
        "anchor": anchor,
        "name": run.name,
        "short": len(run.name) <= MOST_NAME,
        "word": word,
        "verdict": diagnosis.verdict,
        "about": first.partition("  ")[2].partition(" . ")[2],
        "lines": [_arrows(line) for line in lines],
        "figures": figures,
        "marks": marks(diagnosis),
        "findings": [_finding(item) for item in diagnosis.findings],
        "walked": _walked(diagnosis.causes[:1], diagnosis.answers),
        "causes": [_cause(item) for item in diagnosis.causes],
        "asked": _asked(diagnosis),
        "scores": _scores(diagnosis, rows),
        "moments": samples,
        "offset": run.log_offset,
        "saved": bool(run.policies),
        "plan": _plan(plan),
        "backtest": [*_parts(alarm_parts(diagnosis.backtest))] if diagnosis.backtest else [],
        "quiet": diagnosis.clear,
        "skipped": _skipped(diagnosis.skipped, run.path),
        "inspect": f"rlhfdoctor inspect {shlex.quote(run.path)}",
        "unanswered": diagnosis.unanswered,
        "notes": diagnosis.notes,
        "sources": run.sources,
        "most": MOST_ROWS,
        "profile": diagnosis.profile,
        "profile_reason": diagnosis.profile_reason,
        "stated": stated(diagnosis),
    }


def _arrows(line: str) -> str:
    """Return a line in which a change from one value to another is not broken at its arrow."""
    return line.replace(" -> ", " \u2192 ")


# Curves


def _figures(
    diagnosis: Diagnosis, rows: Sequence[Mapping[str, Any]], anchor: str
) -> Iterator[dict[str, Any]]:
    """Yield the curves of a run over one step axis, with what marks it; quantities in order.

    Of a quantity that was not logged, the first unit of ``SCORED`` in which it was recomputed.
    """
    run = diagnosis.run
    drawn = [*panels(run)]
    known = {panel.quantity for panel in drawn}
    drawn += [Panel(*key, (), False, ()) for key in SCORED if key[0] not in known]
    found: list[tuple[Panel, list[Drawn]]] = []
    for panel in sorted(drawn, key=lambda item: [*QUANTITIES].index(item.quantity)):
        lines = [
            Drawn(line, place % (COLOURS - 1), broken=not_finite(run, line.column))
            for place, line in enumerate(panel.lines)
        ]
        lines += _points(diagnosis, panel, rows)
        if lines and not (found and found[-1][0].quantity == panel.quantity and not panel.lines):
            found.append((panel, lines))
    axis = _axis(diagnosis, [item.line for _, lines in found for item in lines])
    for place, (panel, lines) in enumerate(found):
        yield _figure(panel, lines, axis, f"{anchor}-f{place}", first=not place)


def _figure(
    panel: Panel, lines: Sequence[Drawn], axis: Axis, name: str, *, first: bool
) -> dict[str, Any]:
    values = [value for item in lines for value in item.line.values]
    first_value, *_, last_value = (*lines[0].line.values[:1], *lines[0].line.values)
    estimator = {"full_vocab": "over the full vocabulary"}.get(
        panel.estimator or "", (panel.estimator or "").replace("_", " ")
    )
    own = "" if panel.unit.casefold() == panel.quantity.casefold() else panel.unit
    unit = "unit unknown" if panel.unit == "unknown" else own
    told = ", ".join(part for part in (unit, estimator) if part)
    logarithmic = ratio_axis(values)
    lost = sorted({step for item in lines for step in item.broken})
    return {
        "title": panel.quantity,
        "unit": told + (" (logarithmic axis)" if logarithmic else ""),
        "span": f"{number(first_value, 3)} \u2192 {number(last_value, 3)}",
        "logged_as": ", ".join(panel.keys),
        "placeholder": panel.placeholder,
        "lost": f"{counted(len(lost), 'row')} not finite, the first at step {lost[0]}"
        if lost
        else "",
        "legend": [
            {"name": item.line.name, "colour": item.colour, "points": item.points} for item in lines
        ],
        "labelled": first and bool(axis.marks.onset or axis.marks.back),
        "svg": figure(
            lines,
            axis,
            name=name,
            title=", ".join(part for part in (panel.quantity, told, "over logged steps") if part),
            text=_alternative(lines, axis),
            height=TALL if panel.quantity == SMOOTHED else LOW,
            labels=first,
        ),
    }


def _alternative(lines: Sequence[Drawn], axis: Axis) -> str:
    """Return what a figure shows in sentences, for those who do not see it."""
    told = []
    for item in lines:
        line = item.line
        values, steps = line.values, line.steps
        low, high = min(values), max(values)
        told.append(
            f"{line.name}: {number(values[0])} at step {steps[0]}, {number(values[-1])} at step"
            f" {steps[-1]}, lowest {number(low)} at step {steps[values.index(low)]}, highest"
            f" {number(high)} at step {steps[values.index(high)]}."
        )
    if axis.marks.onset:
        told.append(f"Onset at step {interval(axis.marks.onset)}.")
    if axis.marks.back:
        step, name = axis.marks.back
        told.append(f"The checkpoint to go back to is {name}, at step {step}.")
    return " ".join(told)


def _axis(diagnosis: Diagnosis, lines: Sequence[Line]) -> Axis:
    marked = marks(diagnosis)
    steps = [step for line in lines for step in (line.steps[0], line.steps[-1])]
    low, high = min(steps, default=0), max(steps, default=0)
    room = (high - low) * MOST_AHEAD
    saved = tuple(item for item in marked.saved if not steps or item[0] <= high + room)
    high = max((high, *(step for step, _ in saved)))
    return Axis(low, high, replace(marked, saved=saved), diagnosis.run.step_unit)


def _points(
    diagnosis: Diagnosis, panel: Panel, rows: Sequence[Mapping[str, Any]]
) -> Iterator[Drawn]:
    """Yield what was measured at checkpoints in a panel's own unit, by an estimator of its own.

    Recomputed numbers are on policy, against the first reference. Where nothing was recomputed and
    no perplexity logged, that of the samples by the file's own numbers.
    """
    run = diagnosis.run
    wanted = SCORED.get((panel.quantity, panel.unit, panel.estimator))
    found: dict[str, dict[int, float]] = {}
    for row in rows:
        on_policy = row["role"] == "reference" or row["on_policy"]
        same = row["reference"] == rows[0]["reference"] and row["part"] == "response"
        value = row[wanted] if wanted and row["step"] is not None else None
        if same and on_policy and value is not None and math.isfinite(value):
            against = f" against {row['reference']}" if panel.quantity == SMOOTHED else ""
            told = f"recomputed{against}, {row['samples_file']}"
            found.setdefault(told, {})[row["step"] + run.log_offset] = value
    if panel.quantity == "Perplexity" and not rows and not panel.lines:
        for rung in diagnosis.rollback.ladder:
            if reading := rung.readings.get("perplexity"):
                told = f"samples of each checkpoint, by the log-probabilities in {reading.source}"
                at = found.setdefault(told, {})
                if reading.base is not None:
                    at.setdefault(run.first_step or 0, reading.base)
                at[rung.checkpoint.step + run.log_offset] = reading.value
    for place, (name, at) in enumerate(sorted(found.items())):
        steps = tuple(sorted(at))
        line = Line(name, wanted or "", steps, tuple(at[step] for step in steps))
        yield Drawn(line, COLOURS - 1 - place % 2, points=True)


# Findings and the tree


def _finding(item: Finding) -> dict[str, Any]:
    onset = f"since step {interval(item.onset)}" if item.onset else ""
    if item.recovered_at is not None:
        onset += f"{'; ' if onset else ''}over by step {item.recovered_at}"
    told = [_evidence(evidence) for evidence in item.evidence[:MOST_EVIDENCE]]
    return {
        "severity": item.severity,
        "code": item.code,
        "name": item.name.replace("_", " "),
        "message": item.message,
        "when": onset,
        "evidence": told[:OPEN],
        "more": told[OPEN:],
        "left_out": len(item.evidence) - len(told),
        "advice": [line.replace("``", "") for line in item.advice],
        "accepted": acceptance(item.accepted) if item.accepted else "",
    }


def _evidence(item: Evidence) -> dict[str, str]:
    place = item.where.file + (f":{item.where.line}" if item.where.line else "")
    seen = item.observed if isinstance(item.observed, str) else number(item.observed)
    named = (item.unit, (item.estimator or "").replace("_", " "))
    unit = ", ".join(part for part in named if part and part != "unknown")
    limits = [
        f"{word} {number(limit)}"
        for word, limit in (("at least", item.limit_low), ("at most", item.limit_high))
        if limit is not None
    ]
    steps = ""
    if item.first_step is not None:
        same = item.last_step in (None, item.first_step)
        steps = (
            f"step {item.first_step}" if same else f"steps {item.first_step}\u2013{item.last_step}"
        )
    return {
        "where": place,
        "key": item.where.key or item.where.tensor or "",
        "subject": item.subject,
        "seen": f"{seen} {unit}".strip(),
        "limits": " and ".join(limits),
        "steps": steps,
    }


def _walked(causes: Sequence[Cause], answers: Sequence[Answer]) -> list[Answer]:
    """Return the answers on the path of a cause, in the order asked, each question once."""
    on_path = {code for cause in causes for code in cause.answers}
    told: dict[str, Answer] = {}
    for answer in answers:
        if answer.code in on_path:
            told.setdefault(answer.question, answer)
    return list(told.values())


def _asked(diagnosis: Diagnosis) -> list[dict[str, Any]]:
    """Return every question that was asked, and the causes that its answer led to."""
    return [
        {
            "answer": answer,
            "causes": [cause.name for cause in diagnosis.causes if answer.code in cause.answers],
        }
        for answer in diagnosis.answers
    ]


def _cause(cause: Cause) -> dict[str, Any]:
    return {"told": cause, "path": " \u2192 ".join(cause.answers), "rivals": [*rivals(cause)]}


# Tables


def _scores(diagnosis: Diagnosis, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    if not rows:
        return None
    return {
        "references": [*reference_lines(diagnosis.references)],
        "tables": [_table(table) for table in score_tables(rows, diagnosis.references)],
        "remark": OFF_POLICY if has_off_policy(rows) else "",
    }


def _plan(plan: RollbackPlan) -> dict[str, Any]:
    rungs = [_rung(rung, plan) for rung in plan.ladder]
    table = ladder_table(rungs)
    return {
        "needed": plan.needed,
        "destination": destination(plan),
        "reason": plan.reason[:1].upper() + plan.reason[1:],
        "lines": [_arrows(line) for line in plan_lines(plan)] if plan.needed else [],
        "ladder": _table(table) if table else None,
        "rungs": [*rung_lines(rungs)][:MOST_ROWS],
        "resume": plan.resume,
    }


def _rung(rung: Rung, plan: RollbackPlan) -> dict[str, Any]:
    """Return a checkpoint as the tables of the ladder ask for it."""
    why = {item.checkpoint: item.why for item in plan.rejected}
    return {
        **dict.fromkeys(FLAT),
        "checkpoint": rung.checkpoint.name,
        "readings": {name: asdict(reading) for name, reading in rung.readings.items()},
        "outside": rung.outside,
        "chosen": plan.checkpoint == rung.checkpoint,
        "why_not": why.get(rung.checkpoint.name),
    }


def _table(table: TextTable) -> dict[str, Any]:
    left = table.header[:1] if table.left is None else table.left
    return {
        "title": table.title,
        "header": [(name, name in left) for name in table.header],
        "rows": [list(zip(row, table.header, strict=True)) for row in table.rows[:MOST_ROWS]],
        "more": max(len(table.rows) - MOST_ROWS, 0),
        "left": left,
    }


def _parts(parts: Iterator[str | TextTable]) -> Iterator[dict[str, Any]]:
    for part in parts:
        if isinstance(part, str):
            yield {"text": part, "table": None}
        else:
            yield {"text": "", "table": _table(part)}


def _skipped(skips: Sequence[Skip], path: str) -> list[dict[str, Any]]:
    """Return rules that could not look, by the command that would answer them; none last."""
    found: dict[str, list[Skip]] = {}
    for skip in sorted(skips, key=lambda item: item.code):
        found.setdefault(skip.command or "", []).append(skip)
    return [
        {
            "command": f"rlhfdoctor diagnose {shlex.quote(path)} {command}"
            if command.startswith("--")
            else command,
            "skips": [
                {"code": skip.code, "missing": ", ".join(skip.missing)} for skip in found[command]
            ],
        }
        for command in sorted(found, key=lambda item: (not item, item))
    ]
