"""The report for people: five lines first, then what they rest on."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from rlhfdoctor.masking import masked
from rlhfdoctor.model import Diagnosis, RollbackPlan
from rlhfdoctor.reports import Gated, Page, report
from rlhfdoctor.reports._backtest import alarm_line, backtest_sections
from rlhfdoctor.reports._cells import ascii_only
from rlhfdoctor.reports._curves import curve_lines
from rlhfdoctor.reports._gate import gate_rows
from rlhfdoctor.reports._lines import five_lines, limits_told, rivals, shown, told, where
from rlhfdoctor.reports._rollback import destination, ladder_table, plan_lines, rung_lines
from rlhfdoctor.reports._tables import (
    OFF_POLICY,
    Sections,
    TextTable,
    has_off_policy,
    reference_lines,
    scan_lines,
    score_tables,
)
from rlhfdoctor.reports.json import score_rows

STYLES = {
    "collapsed": "bold red",
    "degraded": "bold yellow",
    "healthy": "bold green",
    "inconclusive": "bold magenta",
    "critical": "red",
    "warning": "yellow",
    "info": "cyan",
}

Line = tuple[int, Text]
"""Indent and text. A tab in the text is where it goes on when it is wider than the page."""


@report("terminal")
def terminal(diagnoses: Sequence[Diagnosis], page: Page) -> str:
    """Print each diagnosis: five lines, curves, findings, tree, rollback, what was not looked at.

    A gate's: one line a run.
    """
    diagnoses = [masked(item) for item in diagnoses]
    if page.gate is not None and page.brief:
        return write(gate_lines(diagnoses, masked(page.gate)), page)
    lines: list[Line] = []
    for index, diagnosis in enumerate(diagnoses):
        if index:
            lines.append((0, Text("")))
        lines.extend(_diagnosis(diagnosis, page.width))
    return write(lines, page)


def write(lines: Iterable[Line], page: Page) -> str:
    """Lay out indented lines in the page's width, with colour where the page has it."""
    buffer = io.StringIO()
    console = _console(buffer, page)
    for indent, text in lines:
        if not page.width:
            plain = Text(" " * indent).append_text(text)
            plain.expand_tabs(1)
            console.print(plain, soft_wrap=True)
            continue
        grid = Table.grid(padding=0, pad_edge=False)
        cells = list(text.split("\t"))
        if indent:
            grid.add_column(width=indent)
        for _ in cells:
            grid.add_column(overflow="fold")
        grid.columns[-1].ratio = 1
        grid.add_row(*([Text()] if indent else []), *cells)
        console.print(grid)
    return _printed(buffer, page)


def _printed(buffer: io.StringIO, page: Page) -> str:
    text = "\n".join(line.rstrip() for line in buffer.getvalue().splitlines()) + "\n"
    return ascii_only(text) if page.ascii else text


def _console(buffer: io.StringIO, page: Page) -> Console:
    return Console(
        file=buffer,
        width=page.width or 10_000,
        force_terminal=page.colour,
        no_color=not page.colour,
        color_system="standard" if page.colour else None,
        highlight=False,
        markup=False,
        emoji=False,
    )


def gate_lines(diagnoses: Sequence[Diagnosis], gate: Gated) -> Iterator[Line]:
    """Yield one line a run: the gate's word, the name, the verdict, and what it rests on.

    What is accepted, or what to do, stands below it.
    """
    styles = {"PASS": "green", "WARN": "yellow", "FAIL": "red", "UNKNOWN": "magenta"}
    for row in gate_rows(diagnoses, gate):
        line = Text()
        line.append(f"{row.word:<8}", style=f"bold {styles[row.word]}")
        line.append("\t")
        line.append(shown("  ".join((row.name, row.verdict, row.why))))
        yield 0, line
        for text in row.lines:
            yield 0, Text(f"{'':<8}\t").append(shown(text), style="dim")


def rollback_lines(
    plan: RollbackPlan,
    rungs: Sequence[Mapping[str, Any]],
    *,
    suggest: bool,
    name: str | None = None,
    width: int = 0,
) -> Iterator[Line]:
    """Yield the suggestion, then its reasons or the ladder of checkpoints, under a run's name."""
    if name is not None:
        yield 0, Text(shown(name), "bold underline")
    yield 0, Text(shown(destination(plan)), "bold")
    yield 0, Text(shown(plan.reason))
    if suggest:
        yield from _plan(plan)
        yield from _resume(plan)
        return
    yield 0, Text("")
    table = ladder_table(rungs)
    if table is None:
        yield 0, Text("no checkpoints were found")
        return
    yield from table_lines(table, width)
    yield 0, Text("")
    for line in rung_lines(rungs):
        yield 2, Text(shown(line), style="dim")


def backtest_lines(document: Mapping[str, Any], width: int) -> Iterator[Line]:
    """Yield what alarms, rules, controllers, normaliser and plan would have done on a run."""
    return section_lines(backtest_sections(document, width), width)


def section_lines(sections: Sections, width: int) -> Iterator[Line]:
    """Yield a page section by section, an empty line before each and between two tables."""
    for place, (title, parts) in enumerate(sections):
        if place:
            yield 0, Text("")
        yield 0, Text(shown(title), style="bold")
        for index, part in enumerate(parts):
            if isinstance(part, str):
                yield 2, Text(shown(part))
                continue
            if index and isinstance(parts[index - 1], TextTable):
                yield 0, Text("")
            yield from table_lines(part, width)


def explain_lines(document: Mapping[str, Any]) -> Iterator[Line]:
    """Yield a rule's documentation, what it needs, and its limits with their units."""
    either = " or ".join(document["any_of"])
    needs = (*document["needs"], *((either,) if either else ()))
    yield 0, Text(f"{document['code']} {document['name']}", style="bold")
    for line in document["doc"].splitlines():
        yield 0, Text(line)
    yield 0, Text("")
    yield 0, Text(f"Needs: {', '.join(needs)}")
    yield 0, Text("[H] marks a heuristic without a published source.")
    if document["limits"]:
        yield 0, Text("")
        yield 0, Text("Limits", style="bold")
        for item in document["limits"]:
            stated = f"{document['code']}.{item['limit']} = {item['default']}"
            yield 2, Text(f"{stated}  ({item['meaning']})")


def list_lines(documents: Sequence[Mapping[str, Any]]) -> Iterator[Line]:
    """Yield one line a rule: its code and its first sentence."""
    for document in documents:
        yield 0, Text(f"{document['code']}  \t{document['doc'].splitlines()[0]}")


def tree_text(roots: Sequence[Mapping[str, Any]], page: Page) -> str:
    """Draw the decision tree: questions with their rules, causes with what to do."""
    buffer = io.StringIO()
    console = _console(buffer, page)
    for root in roots:
        drawn = Tree(_node(root), guide_style="dim")
        _grow(drawn, root)
        console.print(drawn)
    return _printed(buffer, page)


def _grow(drawn: Tree, node: Mapping[str, Any]) -> None:
    """Add the branches of a question below it; replies that lead to the same place are one."""
    branches = [(reply, node[reply]) for reply in ("yes", "no", "unknown") if node.get(reply)]
    while branches:
        reply, branch = branches.pop(0)
        same = [other for other, found in branches if found == branch]
        branches = [(other, found) for other, found in branches if found != branch]
        label = Text(f"{', '.join((reply, *same))}: ", style="bold")
        _grow(drawn.add(label.append_text(_node(branch))), branch)


def _node(node: Mapping[str, Any]) -> Text:
    """Return a question with its rules, or a cause with what to do, and with its rivals."""
    told = Text(style="not bold")
    if "question" in node:
        also = ("information too",) if node["information"] else ()
        told.append(f"{node['code']} ", style="bold").append(f"{node['question']} ")
        return told.append(f"({', '.join((*node['rules'], *also))})", style="dim")
    told.append(f"{node['cause']} ", style="bold yellow")
    told.append(f"({node['confidence']})\n{node['remedy']}")
    for rival in node["rivals"]:
        rules = (*rival["rules"], *(f"against: {code}" for code in rival["against"]))
        by = f" ({', '.join(rules)})" if rules else ""
        told.append(f"\nor {rival['cause']}? {rival['test']}{by}", style="dim")
    return told


def recompute_lines(document: Mapping[str, Any], width: int = 0) -> Iterator[Line]:
    """Yield a recomputation: its references, its tables, its scans, its notes."""
    told = document["run"]
    first, *rest = scan_lines(document["scans"])
    yield 0, Text(shown(f"{told['id']}: {first}"))
    for line in rest:
        yield 2, Text(shown(line), style="red")
    yield from _recomputed(document["rows"], document["references"], width)
    if document["notes"]:
        yield 0, Text("")
    yield from note_lines(document["notes"])


def _recomputed(
    rows: Sequence[Mapping[str, Any]], references: Sequence[Mapping[str, Any]], width: int
) -> Iterator[Line]:
    if not rows:
        return
    yield 0, Text("")
    yield 0, Text("Recomputed", style="bold")
    for sentence in reference_lines(references):
        yield 2, Text(shown(sentence))
    for table in score_tables(rows, references):
        yield 0, Text("")
        yield from table_lines(table, width)
    if has_off_policy(rows):
        yield 2, Text(OFF_POLICY, style="dim")


def table_lines(table: TextTable, width: int) -> Iterator[Line]:
    """Yield a table, indented by 2, without the columns that a page of ``width`` cannot hold."""
    room = width - 2 if width else 0
    fitting = table.within(room)
    without = [name for name in table.header if name not in fitting.header]
    if table.title:
        yield 2, Text(shown(table.title), style="bold")
    if without:
        yield 2, Text(shown(f"(no room for {', '.join(without)})"), style="dim")
    header, *rows = fitting.lines(room)
    yield 2, Text(header, style="dim")
    for row in rows:
        yield 2, Text(row)


def note_lines(notes: Sequence[Mapping[str, Any]]) -> Iterator[Line]:
    """Yield what a reader could not use, and where."""
    if notes:
        yield 0, Text("Notes", style="bold")
        for note in notes:
            yield 2, Text(shown(f"{note['where']}: {note['text']}"))


def _diagnosis(diagnosis: Diagnosis, width: int) -> Iterator[Line]:
    first, *rest = five_lines(diagnosis)
    verdict, _, about = first.partition("  ")
    line = Text()
    line.append(verdict, style=STYLES[diagnosis.verdict])
    line.append(f"  {about}", style="bold")
    yield 0, line
    for text in rest:
        yield 0, Text(text)
    drawn = [*curve_lines(diagnosis, width)]
    if drawn:
        yield 0, Text("")
        yield from drawn
    if diagnosis.findings:
        yield 0, Text("")
        yield 0, Text("Findings", style="bold")
        for finding in diagnosis.findings:
            yield 2, finding_line(finding.severity, finding.code, told(finding))
            for item in finding.evidence[:2]:
                yield 17, Text(shown(where(item)), style="dim")
    if diagnosis.causes:
        yield 0, Text("")
        yield 0, Text("Questions", style="bold")
        asked = {code for cause in diagnosis.causes for code in cause.answers}
        questions: set[str] = set()
        for answer in diagnosis.answers:
            if answer.code in asked and answer.question not in questions:
                questions.add(answer.question)
                reply = Text(f"{answer.code:<4}{answer.question} ")
                reply.append(answer.reply, style="bold")
                if answer.findings:
                    reply.append(f" ({', '.join(answer.findings)})", style="dim")
                yield 2, reply
        for cause in diagnosis.causes:
            path = " > ".join(cause.path)
            yield 2, Text(f"=> \t{cause.name} ({cause.confidence}): {cause.remedy}")
            yield 5, Text(path, style="dim")
            for rival in rivals(cause):
                yield 5, Text(shown(rival))
    yield from _recomputed(score_rows(diagnosis.run), diagnosis.references, width)
    if diagnosis.rollback.needed:
        yield 0, Text("")
        yield 0, Text("Rollback", style="bold")
        for indent, line in _plan(diagnosis.rollback):
            yield indent + 2, line
    if diagnosis.verdict in ("collapsed", "degraded") and diagnosis.backtest:
        yield 0, Text("")
        yield 0, Text("Backtest", style="bold")
        for alarm in diagnosis.backtest:
            yield 2, Text(shown(alarm_line(alarm)))
    yield from _not_looked(diagnosis)
    limits = limits_told(diagnosis)
    if limits:
        yield 0, Text("")
        yield 0, Text(shown(f"Limits: {limits}"), style="dim")
    notes = [{"where": note.where, "text": note.text} for note in diagnosis.notes]
    if notes:
        yield 0, Text("")
    yield from note_lines(notes)


def finding_line(severity: str, code: str, message: str) -> Text:
    """Return a finding on one line, its severity in its colour."""
    line = Text()
    line.append(f"{severity:<9}", style=STYLES[severity])
    line.append(f"{code} ", style="bold")
    line.append("\t")
    line.append(shown(message))
    return line


def _plan(plan: RollbackPlan) -> Iterator[Line]:
    for line in plan_lines(plan):
        yield 0, Text(shown(line))


def _resume(plan: RollbackPlan) -> Iterator[Line]:
    if plan.resume is None:
        return
    yield 0, Text("")
    yield 0, Text(f"To go on ({plan.resume.kind}; nothing was run)", style="bold")
    for line in plan.resume.text.splitlines():
        yield 2, Text(shown(line))
    for caveat in plan.resume.caveats:
        yield 0, Text("- \t", style="dim").append(shown(caveat))


def _not_looked(diagnosis: Diagnosis) -> Iterator[Line]:
    if not diagnosis.skipped:
        return
    yield 0, Text("")
    yield 0, Text("Not looked at", style="bold")
    answers: dict[str, list[str]] = {}
    for skip in diagnosis.skipped:
        answers.setdefault(skip.command or "", []).append(skip.code)
    for command in sorted(answers, reverse=True):
        what = f"{command} answers" if command else "not in what was read (inspect says what):"
        yield 2, Text(shown(f"{what} {_ranges(answers[command])}"), style="dim")


def _ranges(codes: Sequence[str]) -> str:
    """Return codes with those that follow each other joined: KL001-KL003, LOG004."""
    parts: list[list[str]] = []
    for code in sorted(codes):
        family, number = code[:-3], int(code[-3:])
        if parts and parts[-1][-1] == f"{family}{number - 1:03}":
            parts[-1].append(code)
        else:
            parts.append([code])
    return ", ".join(part[0] if len(part) == 1 else f"{part[0]}-{part[-1]}" for part in parts)
