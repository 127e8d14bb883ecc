"""The survey of samples as a page of a terminal and as markdown.

What a sample says is shown and never obeyed: in a terminal as ``shown`` makes it, in markdown
inside fenced blocks, where nothing is a mark, a link, a tag or a mention.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.text import Text

from rlhfdoctor.reports._cells import padded, reads_left
from rlhfdoctor.reports._lines import shown
from rlhfdoctor.reports._survey import (
    Part,
    broken,
    headline,
    judged,
    not_looked,
    sections,
    summary,
)
from rlhfdoctor.reports._tables import TextTable
from rlhfdoctor.reports.markdown import fenced, plain, table_markdown
from rlhfdoctor.reports.terminal import STYLES, Line, finding_line, note_lines, table_lines

BESIDE = 44
"""Cells that a table needs to stand beside another."""

FENCED = 100
"""Cells of a line in a fenced block."""

NOTES = 10
"""Notes that are printed; the JSON has all."""


def samples_lines(document: Mapping[str, Any], *, by_step: bool, width: int) -> Iterator[Line]:
    """Yield the survey of samples: what was read, the sum of it, findings, then section by section.

    by_step: with a table of all steps. width: characters of a line; 0: no limit.
    """
    yield 0, Text(shown(headline(document)), style="bold")
    yield 0, Text(shown(summary(document)), style=_style(document))
    if told := judged(document):
        yield 0, Text(told, style="yellow")
    if document["findings"]:
        yield 0, Text("")
    for finding in document["findings"]:
        yield 2, finding_line(finding["severity"], finding["code"], finding["message"])
        yield from ((17, Text(shown(_where(item)), "dim")) for item in finding["evidence"][:1])
    for title, parts in sections(document, by_step=by_step, room=max(width - 2, 0)):
        yield 0, Text("")
        yield 0, Text(title, style="bold")
        for place, part in enumerate(parts):
            if place and _titled(part):
                yield 0, Text("")
            yield from _part(part, width)
    if reasons := not_looked(document):
        yield 0, Text("")
        yield 0, Text("Not looked at", style="bold")
    for reason in reasons:
        yield 2, Text(shown(reason), style="dim")
    notes = document["notes"]
    if notes:
        yield 0, Text("")
    yield from note_lines(notes[:NOTES])
    if len(notes) > NOTES:
        yield 2, Text(_more(notes), style="dim")


def samples_markdown(document: Mapping[str, Any], *, by_step: bool) -> str:
    """Print the survey of samples: as the terminal does, with fences around what samples say."""
    lines = [f"# {plain(headline(document))}", "", f"**{plain(summary(document))}**", ""]
    if told := judged(document):
        lines += [plain(told), ""]
    if document["findings"]:
        rows = tuple(
            (
                *(finding[key] for key in ("code", "severity", "message")),
                "; ".join(map(_where, finding["evidence"][:1])),
            )
            for finding in document["findings"]
        )
        lines += ["## Findings", ""]
        lines += table_markdown(TextTable("", ("code", "severity", "what", "where"), rows))
    for title, parts in sections(document, by_step=by_step, room=FENCED):
        lines += [f"## {title}", ""]
        for part in parts:
            lines += _part_markdown(part)
    notes = [f"{note['where']}: {note['text']}" for note in document["notes"][:NOTES]]
    for title, items in (("Not looked at", not_looked(document)), ("Notes", notes)):
        if items:
            lines += [f"## {title}", "", *(f"- {plain(item)}" for item in items), ""]
    if len(document["notes"]) > NOTES:
        lines += [_more(document["notes"]), ""]
    return "\n".join(lines)


def _style(document: Mapping[str, Any]) -> str:
    """Return the colour of the worst finding; green only where something was judged and is sound.

    Too few broken responses for a finding, or too few responses for a rule, are not green.
    """
    if not document["samples"] or document["repetition"] is None:
        return STYLES["inconclusive"]
    found = {finding["severity"] for finding in document["findings"]}
    sound = "info" if broken(document) else "healthy"
    return STYLES[next((name for name in ("critical", "warning", "info") if name in found), sound)]


def _where(evidence: Mapping[str, Any]) -> str:
    """Return where the first sample of an observation stands, and over which steps it was made."""
    where, first, last = evidence["where"], evidence["first_step"], evidence["last_step"]
    line = f":{where['line']}" if where["line"] else ""
    return f"{where['file']}{line}" + ("" if first is None else f", steps {first}-{last}")


def _more(notes: Sequence[object]) -> str:
    return f"and {len(notes) - NOTES:,} more, in --format json"


def _part(part: Part, width: int) -> Iterator[Line]:
    if isinstance(part, str):
        yield 2, Text(shown(part))
    elif isinstance(part, TextTable):
        yield from table_lines(part, width)
    elif isinstance(part, tuple):
        yield from _side_by_side(part, width)
    else:
        yield from ((2, line) for line in part)


def _titled(part: Part) -> bool:
    """Say whether a part begins with a title, before which a line is left empty."""
    return isinstance(part, tuple) or (isinstance(part, TextTable) and bool(part.title))


def _side_by_side(tables: Sequence[TextTable], width: int) -> Iterator[Line]:
    """Yield tables beside each other, as many as the width holds, the others below.

    Where a text runs from right to left, all are below each other: it would turn what follows it.
    """
    turned = any(reads_left(row[-1][:width]) for table in tables for row in table.rows)
    beside = 1 if turned else max(width // (BESIDE + 2), 1)
    room = width // min(beside, len(tables)) if width else 0
    for start in range(0, len(tables), beside):
        if start:
            yield 0, Text("")
        columns = [list(table_lines(table, room)) for table in tables[start : start + beside]]
        for place in range(max(map(len, columns))):
            line = Text()
            for column in columns:
                cell = column[place][1] if place < len(column) else Text()
                used = line.cell_len
                line.append_text(cell)
                line.append(padded("", max(room - (line.cell_len - used), 0)))
            line.rstrip()
            yield 2, line


def _part_markdown(part: Part) -> Iterator[str]:
    if isinstance(part, str):
        yield from (plain(part), "")
    elif isinstance(part, TextTable) and not part.text:
        yield from table_markdown(part)
    elif isinstance(part, list):
        yield from fenced([line.plain for line in part])
    else:
        for table in (part,) if isinstance(part, TextTable) else part:
            if table.title:
                yield from (f"**{plain(table.title)}**", "")
            yield from fenced(table.within(FENCED).lines(FENCED))
