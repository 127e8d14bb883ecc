"""The five lines that every report begins with, and text that cannot harm a terminal."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

from rlhfdoctor.model import Acceptance, Cause, Change, Diagnosis, Evidence, Finding

_UNSAFE = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
"""Unicode categories that move a cursor, reverse a line, or have no agreed shape or width."""

_HIDDEN = frozenset(
    map(
        chr,
        (
            0x034F,  # combining grapheme joiner
            *(0x115F, 0x1160, 0x3164, 0xFFA0),  # Hangul fillers
            *(0x17B4, 0x17B5),  # Khmer inherent vowels
            *range(0x180B, 0x1810),  # Mongolian variation selectors
            0x2800,  # braille pattern blank
            *range(0xFE00, 0xFE10),  # variation selectors
            *range(0xE0100, 0xE01F0),
        ),
    )
)
"""Characters of other categories that nobody sees: the default ignorable ones, and a blank."""

MARKS = 4
"""Combining marks of one letter that are drawn; Thai and Hebrew need three, a heap covers lines."""


_COMMANDS = re.compile(r"^\s*:(?=:.*::)|#(?=#\w*\[)")
"""What the runners of GitHub (``::error::`` where a line begins, ``##[group]`` anywhere), Azure
(``##vso[``) and TeamCity obey in what a job prints (actions/runner, ActionCommand.cs)."""


def shown(text: str) -> str:
    """Return text in which nothing commands a terminal or a CI runner, hides, or leaves its place.

    Control, formatting, separator, private and unassigned characters, those that have no shape,
    and marks heaped upon one letter are written as escapes, and so is what begins a command.
    """
    text = _COMMANDS.sub(lambda found: f"{found[0][:-1]}\\x{ord(found[0][-1]):x}", text)
    if text.isascii() and text.isprintable():
        return text
    parts: list[str] = []
    marks = 0
    for char in text:
        category = unicodedata.category(char)
        marks = marks + 1 if category[0] == "M" else 0
        unsafe = category in _UNSAFE or char in _HIDDEN or marks > MARKS
        parts.append(char.encode("unicode_escape").decode("ascii") if unsafe else char)
    return "".join(parts)


def five_lines(diagnosis: Diagnosis) -> list[str]:
    """Return what a user sees first and pastes into a chat; control characters are escaped."""
    run = diagnosis.run
    who = " ".join(part for part in (run.framework, run.algorithm) if part != "unknown")
    planned = run.number("planned_steps")
    cut = any(cause.name == "interrupted" for cause in diagnosis.causes)
    steps = "no known metric"
    if run.last_step is not None:
        steps = f"{run.last_step} {run.step_unit}{'' if run.last_step == 1 else 's'}"
    if cut and planned and run.last_step is not None:
        steps = f"{run.last_step} of {planned:.0f} {run.step_unit}s, cut short"
    lines = [
        f"{diagnosis.verdict.upper()}  {run.name} . {who or 'trainer unknown'} . {steps}",
        diagnosis.headline,
        _cause(diagnosis),
        _rollback(diagnosis),
        _lost(diagnosis),
    ]
    return [shown(line) for line in lines]


def told(finding: Finding) -> str:
    """Return a finding's message, when it was over, and who bears it, why and until when."""
    text = finding.message
    if finding.recovered_at is not None:
        text += f"; over by step {finding.recovered_at}"
    return text + (f"; {acceptance(finding.accepted)}" if finding.accepted else "")


def acceptance(accepted: Acceptance) -> str:
    """Return "accepted (ignore, until 2027-01-31): the reason"."""
    until = f", until {accepted.until}" if accepted.until else ""
    reason = f": {accepted.reason}" if accepted.reason else ""
    return f"accepted ({accepted.by}{until}){reason}"


def where(item: Evidence) -> str:
    """Return where a piece of evidence can be looked up: its file, line, key and steps."""
    line = f":{item.where.line}" if item.where.line else ""
    key = f" {item.where.key}" if item.where.key else ""
    steps = "" if item.first_step is None else f", steps {item.first_step}-{item.last_step}"
    return f"{item.where.file}{line}{key}{steps}"


def stated(diagnosis: Diagnosis) -> list[str]:
    """Return the limits that somebody set: "KL003.ceiling = 9, not 1 (rlhfdoctor.toml)"."""
    return [
        f"{item.code}.{item.limit} = {item.value:g}, not {item.default:g} ({item.origin})"
        for item in diagnosis.stated
    ]


def limits_told(diagnosis: Diagnosis) -> str:
    """Return by which limits a run was judged; empty where all are the rules' own."""
    chosen = ""
    if diagnosis.profile_reason and diagnosis.profile != "default":
        chosen = f"profile {diagnosis.profile} (chosen: {diagnosis.profile_reason})"
    return "; ".join((*([chosen] if chosen else []), *stated(diagnosis)))


def rivals(cause: Cause) -> Iterator[str]:
    """Yield a line for each rival of a cause: how its test came out, or how to run it."""
    for rival in cause.rivals:
        command = f": {rival.command}" if rival.command else ""
        how = {
            "yes": f"perhaps: {rival.why}; {rival.test}",
            "no": f"no: {rival.why}",
            "unknown": f"not tested; {rival.test}{command}",
        }[rival.reply]
        yield f"or {rival.name}? {how}"


def change(item: Change) -> str:
    """Return a change as "parameter current -> suggested"."""
    if item.suggested is None:
        return item.parameter
    current = "" if item.current is None else f" {_value(item.current)}"
    return f"{item.parameter}{current} -> {_value(item.suggested)}"


def _value(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:g}"


def _cause(diagnosis: Diagnosis) -> str:
    if not diagnosis.causes:
        return "Cause: none found"
    first, *others = diagnosis.causes
    sure = "; ".join(part for part in (first.confidence, first.caveat) if part)
    also = ", ".join(f"{cause.name} ({cause.confidence})" for cause in others)
    remedy = first.remedy.partition(";")[0]
    return f"Cause: {first.name} ({sure}): {remedy}" + (f". Also: {also}" if also else "")


def _rollback(diagnosis: Diagnosis) -> str:
    plan = diagnosis.rollback
    reason = plan.reason[:1].upper() + plan.reason[1:]
    changes = ", ".join(change(item) for item in plan.changes if item.suggested is not None)
    tail = f". {changes}" if changes else ""
    if not plan.needed:
        where = f"Resume from {plan.checkpoint.name}. " if plan.checkpoint else ""
        return f"{where}{reason}"
    if plan.checkpoint is None:
        return f"Go back to the initial model. {reason}{tail}"
    extra = plan.perplexity
    perplexity = f" (perplexity {extra:.3g})" if extra is not None else ""
    return f"Go back to {plan.checkpoint.name}{perplexity}. {reason}{tail}"


MUCH = 0.5
"""Share of groups without reward spread from which the five lines tell it."""


def _lost(diagnosis: Diagnosis) -> str:
    cost, last = diagnosis.cost, diagnosis.run.last_step
    lost = ""
    if cost and cost.steps_after_onset:
        hours = f" ({cost.gpu_hours:.3g} GPU-hours)" if cost.gpu_hours is not None else ""
        lost = f"Lost: {cost.steps_after_onset} of {last} steps{hours}. "
    if cost and (cost.silent_fraction or 0.0) >= MUCH:
        lost += f"{cost.silent_fraction:.0%} of the groups carried no signal. "
    if cost and cost.money is not None:
        lost += f"Cost: {cost.money:.2f}. "
    elif cost and cost.unpriced:
        lost += f"Cost: unknown, {cost.unpriced}. "
    return f"{lost}Next: {diagnosis.next_step}"
