"""The page of an evidence bundle that says what lies in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rlhfdoctor.reports._tables import TextTable
from rlhfdoctor.reports.markdown import plain, table_markdown


def contents(
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
    told = [*(f"- {plain(line)}" for line in rest), ""] if rest else []
    lines = [f"# {plain(title)}", "", *told]
    rows = tuple(
        tuple(str(entry[key]) for key in ("name", "what", "bytes", "masked")) for entry in entries
    )
    header = ("file", "what it is", "bytes", "secrets masked")
    lines += table_markdown(TextTable("", header, rows))
    lines += [f"- {plain(remark)}" for remark in remarks]
    if remarks:
        lines.append("")
    by = ", ".join(f"{name} {version}" for name, version in versions.items())
    lines += [plain(f"Written by {by}."), ""]
    return "\n".join(lines)
