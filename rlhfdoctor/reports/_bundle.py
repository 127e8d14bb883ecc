"""The pages of an evidence bundle: the rollback plan with its ladder, and what lies in a folder."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rlhfdoctor.model import RollbackPlan
from rlhfdoctor.reports._rollback import destination, ladder_table, plan_lines, rung_lines
from rlhfdoctor.reports._tables import TextTable
from rlhfdoctor.reports.markdown import plain, resume_markdown, table_markdown


def rollback_markdown(plan: RollbackPlan, rungs: Sequence[Mapping[str, Any]]) -> str:
    """Print a plan: where to go back to, what to change, how to go on, and the ladder."""
    return "\n".join(_rollback(plan, rungs)) + "\n"


def _rollback(plan: RollbackPlan, rungs: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    yield f"# {plain(destination(plan))}"
    yield ""
    yield plain(plan.reason[:1].upper() + plan.reason[1:])
    yield ""
    yield from (f"- {plain(line)}" for line in plan_lines(plan))
    yield ""
    yield from resume_markdown(plan)
    yield "## Ladder"
    yield ""
    table = ladder_table(rungs)
    if table is None:
        yield "No checkpoints were found."
        return
    yield from table_markdown(table)
    yield from (f"- {plain(line)}" for line in rung_lines(rungs))


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
