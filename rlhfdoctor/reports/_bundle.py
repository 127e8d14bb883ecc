"""The pages of an evidence bundle: the rollback plan with its ladder, and what lies in a folder."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from rlhfdoctor.model import Resume, RollbackPlan
from rlhfdoctor.reports import Document
from rlhfdoctor.reports._lines import change, shown
from rlhfdoctor.reports._tables import TextTable
from rlhfdoctor.reports.markdown import plain, table_markdown

_LANGUAGES = {"shell": "sh", "python": "python", "yaml": "yaml"}


def rollback_markdown(plan: RollbackPlan, rungs: Sequence[Document], resume: Resume | None) -> str:
    """Print a plan: where to go back to, what to change, how to go on, and the ladder."""
    return "\n".join(_rollback(plan, rungs, resume)) + "\n"


def _rollback(
    plan: RollbackPlan, rungs: Sequence[Document], resume: Resume | None
) -> Iterator[str]:
    chosen = plan.checkpoint.name if plan.checkpoint else "initial model"
    yield f"# {plain(chosen if plan.needed or plan.checkpoint else 'no rollback')}"
    yield ""
    yield plain(plan.reason[:1].upper() + plan.reason[1:])
    yield ""
    if plan.table is not None:
        yield f"- by the table: {plain(plan.table.row)}, {plain(plan.table.change)}"
    for item in plan.changes:
        yield f"- {plain(change(item))} ({plain(item.why)})"
    for rejected in plan.rejected:
        yield f"- not {plain(rejected.checkpoint)}: {plain(rejected.why)}"
    yield ""
    if resume is not None:
        yield "## How to go on"
        yield ""
        yield from _fenced(resume)
        for caveat in resume.caveats:
            yield f"- {plain(caveat)}"
        yield ""
    yield "## Ladder"
    yield ""
    keys = [key for key in (rungs[0] if rungs else ()) if any(r[key] is not None for r in rungs)]
    if rungs:
        rows = tuple(tuple(_cell(rung[key]) for key in keys) for rung in rungs)
        yield from table_markdown(TextTable("", tuple(keys), rows))
    else:
        yield "No checkpoints were found."
        yield ""


def _fenced(resume: Resume) -> Iterator[str]:
    """Yield a snippet as code, in a fence that nothing in it can close."""
    longest = max((len(part) for part in _ticks(resume.text)), default=0)
    fence = "`" * max(3, longest + 1)
    yield fence + _LANGUAGES[resume.kind]
    yield from (shown(line) for line in resume.text.split("\n"))
    yield fence
    yield ""


def _ticks(text: str) -> list[str]:
    return "".join(char if char == "`" else " " for char in text).split()


def _cell(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else ""
    if isinstance(value, float):
        return f"{value:.4g}"
    return "" if value is None else str(value)


def manifest(
    headlines: Sequence[str],
    entries: Sequence[Mapping[str, object]],
    remarks: Sequence[str],
    versions: Mapping[str, str],
) -> str:
    """Print what lies in a folder of evidence.

    headlines: the first of them is the title. entries: a file or folder each, with its ``name``,
    ``what`` it is, its ``bytes`` and how many secrets were ``masked`` in it.
    """
    title, *rest = headlines
    lines = [f"# {plain(title)}", "", *(f"- {plain(line)}" for line in rest), ""]
    rows = tuple(
        tuple(str(entry[key]) for key in ("name", "what", "bytes", "masked")) for entry in entries
    )
    header = ("file", "what it is", "bytes", "secrets masked")
    lines += table_markdown(TextTable("", header, rows))
    lines += [f"- {plain(remark)}" for remark in remarks]
    told = ", ".join(f"{name} {version}" for name, version in versions.items())
    lines += ["", plain(f"Written by {told}."), ""]
    return "\n".join(lines)
