"""How a run was understood, and the limits that hold, as pages of a terminal and as markdown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rlhfdoctor.reports._tables import Sections
from rlhfdoctor.reports._words import counted
from rlhfdoctor.reports.markdown import section_markdown
from rlhfdoctor.reports.terminal import Line, section_lines

Row = Mapping[str, Any]


def inspect_lines(document: Row) -> Iterator[Line]:
    """Yield how each file and key of a run was understood, and what is missing for which rules."""
    return section_lines(_inspection(document), 0)


def inspect_markdown(document: Row) -> str:
    """Print the same as lists."""
    return section_markdown(_inspection(document), bullet="- ")


def profile_lines(document: Row) -> Iterator[Line]:
    """Yield every limit as it holds: its value, its unit, and where it came from."""
    for indent, line in section_lines(_profile(document), 0):
        line.highlight_regex(r"  rule default$", "dim")
        line.highlight_regex(r"(?<=\)  )(?!rule default$).+$", "bold cyan")
        yield indent, line


def profile_markdown(document: Row) -> str:
    """Print the same as lists."""
    return section_markdown(_profile(document), bullet="- ")


def _inspection(document: Row) -> Sections:
    yield f"{document['path']}: {document['framework']} {document['algorithm']}", ()
    yield "Files", [_source(item) for item in document["sources"]]
    yield "Columns", [line for item in document["columns"] for line in _column(item)]
    yield "Keys without a meaning", [", ".join(document["unmapped"]) or "none"]
    yield "Samples", [str(document["samples"] or "none")]
    yield "Checkpoints", [_checkpoint(item) for item in document["checkpoints"]] or ["none"]
    settings = [
        f"{item['name']} = {item['value']}  ({item['file']})" for item in document["config"]
    ]
    yield "Configuration", settings or ["none"]
    if document["conflicts"]:
        yield "Files disagree", [_conflict(item) for item in document["conflicts"]]
    if document["seams"]:
        yield (
            "Resumed",
            [f"at step {item['step']}, after step {item['left']}" for item in document["seams"]],
        )
    yield (
        "Missing, and the rules that cannot look for want of it",
        [f"{item['missing']}: {', '.join(item['rules'])}" for item in document["silenced"]],
    )
    if document["notes"]:
        yield "Notes", [f"{note['where']}: {note['text']}" for note in document["notes"]]


def _source(source: Row) -> str:
    reader = source["reader"] + (f", {source['dialect']}" if source["dialect"] else "")
    return f"{source['file']}: {reader}, {counted(source['rows'], 'row')}"


def _column(column: Row) -> Iterator[str]:
    """Yield a column with its unit, then what was corrected in it."""
    told = ", ".join(part for part in (column["unit"], column["estimator"]) if part)
    yield f"{column['name']} ({told}) from {', '.join(column['keys'])}"
    for correction in column["corrections"]:
        how = "estimated" if column["derived"] else "corrected"
        yield f"{column['name']} {how}: {correction}"


def _conflict(conflict: Row) -> str:
    return f"{conflict['key']}: at {conflict['steps']} steps, first at {conflict['first_step']}"


def _checkpoint(checkpoint: Row) -> str:
    """Return a checkpoint in one line: step, state, and whether it can be loaded as it lies."""
    state = "complete" if checkpoint["complete"] else ", ".join(checkpoint["missing"])
    role = "" if checkpoint["role"] == "policy" else f", {checkpoint['role']}"
    loadable = "yes" if checkpoint["loadable"] else "no"
    if not checkpoint["loadable"] and checkpoint["convert"]:
        loadable = f"after {checkpoint['convert']}"
    where = f"{checkpoint['name']} (step {checkpoint['step']}{role})"
    return f"{where}: {state}; {checkpoint['format']}, loadable: {loadable}"


def _profile(document: Row) -> Sections:
    chosen = f" (chosen: {document['reason']})" if document["reason"] else ""
    of_run = f"{document['run']}: " if document["run"] else ""
    required = document["require"]
    told = [] if required is None else [f"required: {', '.join(required) or 'nothing'}"]
    rows = document["rollback"] or ()
    told += [f"rollback {row['name']}: {row['checkpoint']}, {row['change']}" for row in rows]
    yield f"{of_run}profile {document['profile']}{chosen}", told
    yield "Limits", [_limit(item) for item in document["limits"]] or ["none but the rules' own"]


def _limit(item: Row) -> str:
    stated = f"{item['code']}.{item['limit']} = {item['value']:g}"
    return f"{stated}  ({item['meaning']})  {item['origin']}"
