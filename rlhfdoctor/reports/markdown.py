"""The report for an issue, a pull request or a wiki: markdown with tables."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rlhfdoctor.masking import masked
from rlhfdoctor.model import Diagnosis, RollbackPlan
from rlhfdoctor.reports import Gated, Page, report
from rlhfdoctor.reports._backtest import alarm_line, backtest_sections
from rlhfdoctor.reports._gate import counted_words, gate_rows
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

_ACTIVE = "\\`*_{}[]<>#|~!&$"
"""Characters that markdown, HTML or GitHub's formulas would act on."""

_ADDRESS = re.compile(r"(?<=\w)://|(?<=www)\.", re.IGNORECASE)
"""What makes bare text a link: it is one no more with a backslash in it."""

_NOTIFIES = re.compile(r"@(?=\w)|\\#(?=\w)")
"""What GitHub makes a mention or a reference of, escaped or not, unless it is code."""


@report("markdown")
def markdown(diagnoses: Sequence[Diagnosis], page: Page) -> str:
    """Print each diagnosis: the five lines, findings, what was recomputed, rollback, skips.

    What a gate said of them all stands before.
    """
    return "".join(markdown_parts(diagnoses, page.gate))


def markdown_parts(diagnoses: Sequence[Diagnosis], gate: Gated | None) -> Iterator[str]:
    """Yield the page's parts: the gate's table, where there is one, and each diagnosis."""
    if gate is not None:
        yield "\n".join(_gate(diagnoses, gate)) + "\n"
    for diagnosis in diagnoses:
        yield "\n".join(_diagnosis(masked(diagnosis))) + "\n"


def _gate(diagnoses: Sequence[Diagnosis], gate: Gated) -> Iterator[str]:
    """Yield a table of runs: word, name, verdict, headline, and what is accepted."""
    rows = [*gate_rows(diagnoses, gate)]
    yield f"# Gate: {counted_words(rows)}"
    yield ""
    header = ("gate", "run", "verdict", "what", "accepted, or what to do")
    cells = tuple(masked((*row[:-1], "; ".join(row.lines))) for row in rows)
    yield from table_markdown(TextTable("", header, cells))


def recompute_markdown(document: Mapping[str, Any]) -> str:
    """Print a recomputation: its references, its tables, its notes."""
    lines = [f"# {plain(document['run']['id'])}", ""]
    lines += [*(f"- {plain(line)}" for line in scan_lines(document["scans"])), ""]
    lines += _recomputed(document["rows"], document["references"])
    lines += _notes(document["notes"])
    return "\n".join(lines) + "\n"


def backtest_markdown(document: Mapping[str, Any]) -> str:
    """Print a backtest: as the terminal does."""
    return section_markdown(backtest_sections(document))


def section_markdown(sections: Sections, bullet: str = "") -> str:
    """Print a page section by section; a table with a title in a fenced block, where gaps stay.

    bullet: what a sentence begins with; with one, sentences are a list and not paragraphs.
    """
    lines: list[str] = []
    for place, (title, parts) in enumerate(sections):
        lines += [f"{'##' if place else '#'} {plain(title)}", ""]
        for part in parts:
            if isinstance(part, str):
                lines += [f"{bullet}{plain(part)}", *([] if bullet else [""])]
            elif part.title:
                lines += [f"**{plain(part.title)}**", "", *fenced(part.lines(0))]
            else:
                lines += table_markdown(part)
        lines += [""] * bool(bullet and parts)
    return "\n".join(lines)


def fenced(lines: Sequence[str]) -> Iterator[str]:
    """Yield lines in a block that none of them can end."""
    longest = max((len(run) for line in lines for run in re.findall("`+", line)), default=0)
    fence = "`" * max(longest + 1, 3)
    yield from (f"{fence}text", *(line.rstrip() for line in lines), fence, "")


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
    yield from _resume(plan)
    yield "## Ladder"
    yield ""
    table = ladder_table(rungs)
    if table is None:
        yield "No checkpoints were found."
        return
    yield from table_markdown(table)
    yield from (f"- {plain(line)}" for line in rung_lines(rungs))


FAMILIES = {
    "LOG": "The log",
    "NUM": "Values that are not finite",
    "UPD": "Updates of the weights",
    "CKP": "Checkpoints",
    "REF": "The reference model",
    "MIS": "Rollout engine against trainer",
    "GRP": "Groups",
    "OPT": "The optimizer",
    "VAL": "The value model",
    "KL": "Distance from the reference",
    "ENT": "Entropy",
    "PPL": "Perplexity",
    "LEN": "Length",
    "SMP": "The text of the samples",
    "RWD": "Reward",
    "DPO": "Preference training",
    "CFG": "The configuration",
}
"""Families of rules in the order in which an engineer asks, by the letters of their codes."""

ISSUES = {
    "TRL": "huggingface/trl",
    "verl": "verl-project/verl",
    "OpenRLHF": "OpenRLHF/OpenRLHF",
    "NeMo-RL": "NVIDIA-NeMo/RL",
    "NeMo-Aligner": "NVIDIA/NeMo-Aligner",
    "LLaMA-Factory": "hiyouga/LLaMA-Factory",
    "swift": "modelscope/ms-swift",
    "open-r1": "huggingface/open-r1",
    "DSE": "deepspeedai/DeepSpeedExamples",
    "DPO": "eric-mitchell/direct-preference-optimization",
    "MOSS": "OpenLMLab/MOSS-RLHF",
    "trlx": "CarperAI/trlx",
    "vllm": "vllm-project/vllm",
    "peft": "huggingface/peft",
}
"""Where the issues that rules cite can be read, by the names that they are cited under."""

_INTRODUCTION = """\
# Rules

Made of the rules' own docstrings by `make docs`; do not edit it. `rlhfdoctor explain CODE` prints
the same. *Needs* names what a run must hold for the rule to look: columns of the log under their
canonical names, `samples.` fields, `config.` settings, `scans` and `scores` of checkpoints. *Looks
at* names the class of evidence; the README says which classes corroborate each other. Limits are
defaults, which `--set CODE.limit=value` or a profile changes. [H] marks a heuristic without a
published source; a name with a number, such as TRL 1340, is a public issue of that project:
"""


def rules_markdown(documents: Sequence[Mapping[str, Any]]) -> str:
    """Print rules as a page: families in the order of the questions, one section a rule."""
    families: dict[str, list[Mapping[str, Any]]] = {family: [] for family in FAMILIES}
    for document in documents:
        families.setdefault(document["code"].rstrip("0123456789"), []).append(document)
    present = {family: found for family, found in families.items() if found}
    linked = [f"[{name}](https://github.com/{where}/issues)" for name, where in ISSUES.items()]
    lines = [f"{_INTRODUCTION}{', '.join(linked)}.", ""]
    for family, found in present.items():
        codes = ", ".join(f"[{item['code']}](#{_anchor(item)})" for item in found)
        lines.append(f"- **{FAMILIES.get(family, family)}**: {codes}")
    for family, found in present.items():
        lines += ["", f"## {FAMILIES.get(family, family)} ({family})"]
        for document in found:
            lines += ["", *_rule(document)]
    return "\n".join(lines) + "\n"


def _rule(document: Mapping[str, Any]) -> Iterator[str]:
    sentence, _, rest = document["doc"].partition("\n")
    body, _, _ = rest.partition("Remedy:")
    yield f"### {document['code']} {document['name']}"
    yield ""
    yield f"**{_prose(sentence)}**"
    for paragraph in body.strip().split("\n\n"):
        yield ""
        yield _prose(paragraph)
    yield ""
    yield f"**Remedy:** {_prose(document['remedy'])}"
    yield ""
    needs = [f"`{need}`" for need in document["needs"]]
    needs += [" or ".join(f"`{need}`" for need in document["any_of"])] if document["any_of"] else []
    yield f"- Needs: {', '.join(needs)}"
    yield f"- Looks at: {document['signal']}"
    yield f"- Says: `{document['says']}`"
    if document["limits"]:
        yield ""
        yield "| limit | default | unit and meaning |"
        yield "|---|---|---|"
        for item in document["limits"]:
            yield f"| `{item['limit']}` | {item['default']} | {plain(item['meaning'])} |"


def _anchor(document: Mapping[str, Any]) -> str:
    """Return GitHub's name for a rule's heading."""
    return f"{document['code']}-{document['name']}".lower()


def _prose(text: str) -> str:
    """Return a docstring's text with its code as code, and nothing else acting as a mark."""
    parts = text.split("``")
    return "`".join(
        part if index % 2 else "".join(f"\\{char}" if char in "*<>~" else char for char in part)
        for index, part in enumerate(parts)
    )


def plain(text: str) -> str:
    """Return text of a run as text: nothing in it is a mark, a link, a tag or a mention."""
    quiet = "".join(f"\\{char}" if char in _ACTIVE else char for char in shown(text))
    unlinked = _ADDRESS.sub(lambda found: f"\\{found[0]}", quiet)
    return _NOTIFIES.sub(lambda found: f"`{found[0][-1]}`", unlinked)


def _diagnosis(diagnosis: Diagnosis) -> Iterator[str]:
    first, *rest = five_lines(diagnosis)
    yield f"# {plain(first)}"
    yield ""
    for line in rest:
        yield f"- {plain(line)}"
    yield ""
    if diagnosis.findings:
        yield "## Findings"
        yield ""
        yield from table_markdown(
            TextTable(
                "",
                ("code", "severity", "what", "where"),
                tuple(
                    (
                        finding.code,
                        finding.severity,
                        told(finding),
                        "; ".join(where(item) for item in finding.evidence[:2]),
                    )
                    for finding in diagnosis.findings
                ),
            )
        )
    if diagnosis.causes:
        yield "## Causes"
        yield ""
        for cause in diagnosis.causes:
            yield f"- {plain(cause.name)} ({cause.confidence}): {plain(cause.remedy)}"
            for line in rivals(cause):
                yield f"  - {plain(line)}"
        yield ""
    yield from _recomputed(score_rows(diagnosis.run), diagnosis.references)
    plan = diagnosis.rollback
    if plan.needed:
        yield "## Rollback"
        yield ""
        yield f"- {plain(destination(plan))}: {plain(plan.reason)}"
        for line in plan_lines(plan):
            yield f"- {plain(line)}"
        yield ""
        yield from _resume(plan)
    if diagnosis.verdict in ("collapsed", "degraded") and diagnosis.backtest:
        yield "## Backtest"
        yield ""
        for alarm in diagnosis.backtest:
            yield f"- {plain(alarm_line(alarm))}"
        yield ""
    if diagnosis.skipped:
        yield "## Not looked at"
        yield ""
        for skip in diagnosis.skipped:
            command = f" ({plain(skip.command)})" if skip.command else ""
            yield f"- {skip.code}: {plain(', '.join(skip.missing))}{command}"
        yield ""
    limits = limits_told(diagnosis)
    if limits:
        yield from (f"Limits: {plain(limits)}", "")
    yield from _notes([{"where": note.where, "text": note.text} for note in diagnosis.notes])


def _resume(plan: RollbackPlan) -> Iterator[str]:
    """Yield how to go on: the lines to copy, and what would go wrong otherwise."""
    if plan.resume is None:
        return
    yield "To go on (printed to be copied, nothing was run):"
    yield ""
    yield from (f"    {shown(line)}" for line in plan.resume.text.splitlines())
    yield ""
    for caveat in plan.resume.caveats:
        yield f"- {plain(caveat)}"
    yield ""


def _recomputed(
    rows: Sequence[Mapping[str, Any]], references: Sequence[Mapping[str, Any]]
) -> Iterator[str]:
    if not rows:
        return
    yield "## Recomputed"
    yield ""
    for line in reference_lines(references):
        yield f"- {plain(line)}"
    yield ""
    for table in score_tables(rows, references):
        yield from table_markdown(table)
    if has_off_policy(rows):
        yield plain(OFF_POLICY)
        yield ""


def table_markdown(table: TextTable) -> Iterator[str]:
    """Yield a table with its title, and an empty line."""
    if table.title:
        yield f"**{plain(table.title)}**"
        yield ""
    yield "| " + " | ".join(plain(name) for name in table.header) + " |"
    yield "|" + "---|" * len(table.header)
    for row in table.rows:
        yield "| " + " | ".join(plain(cell) for cell in row) + " |"
    yield ""


def _notes(notes: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    if notes:
        yield "## Notes"
        yield ""
        for note in notes:
            yield f"- {plain(note['where'])}: {plain(note['text'])}"
        yield ""
