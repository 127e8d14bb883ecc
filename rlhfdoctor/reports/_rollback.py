"""The rollback plan and the ladder of checkpoints in words and tables, for any report."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rlhfdoctor.model import RollbackPlan
from rlhfdoctor.reports._lines import change
from rlhfdoctor.reports._tables import TextTable
from rlhfdoctor.reports._words import number

COLUMNS = {
    "kl": "KL",
    "perplexity": "perplexity",
    "entropy": "entropy",
    "length": "length",
    "finished": "finished",
    "held_out": "held-out",
}
"""Readings of the ladder, and what their columns are called."""

MOST_NAMES = 8
"""Checkpoints that are named of those that were rejected for one reason."""

FLAT = {
    "reward_raw_mean": "reward",
    "kl_recomputed": "recomputed KL/token",
    "perplexity_recomputed": "recomputed perplexity",
}
"""Numbers of the ladder that are held against nothing."""


def destination(plan: RollbackPlan) -> str:
    """Return where to go, in a name."""
    if plan.checkpoint is not None:
        return plan.checkpoint.name
    return "initial model" if plan.needed else "no rollback"


def plan_lines(plan: RollbackPlan) -> Iterator[str]:
    """Yield the table's row, what to change, what was not looked at, and what was rejected."""
    if plan.table:
        overruled = " (overruled)" if plan.overruled else ""
        row = f'table row "{plan.table.row}": {plan.table.checkpoint}, {plan.table.change}'
        yield f"{row}{overruled}"
    if plan.cause:
        yield plan.cause
    for item in plan.changes:
        yield f"{change(item)}  ({item.why})"
    if plan.needed and plan.cause and not plan.changes:
        yield "no setting is known that would mend it: do what the line above says"
    if plan.checkpoint and plan.unchecked:
        yield f"not looked at: {'; '.join(plan.unchecked)}"
    reasons: dict[str, list[str]] = {}
    for rejected in plan.rejected:
        reasons.setdefault(rejected.why.partition(" (")[0], []).append(rejected.checkpoint)
    for why, names in reasons.items():
        more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
        yield f"{why}: {', '.join(names[:MOST_NAMES])}{more}"


def ladder_table(rungs: Sequence[Mapping[str, Any]]) -> TextTable | None:
    """Return the ladder as a table: the start, then each checkpoint; None where there is none."""
    if not rungs:
        return None
    read = [name for name in COLUMNS if any(name in rung["readings"] for rung in rungs)]
    flat = [name for name in FLAT if any(isinstance(rung[name], float) for rung in rungs)]
    names = [_header(name, rungs) for name in read] + [FLAT[name] for name in flat]
    start = ["start", *(_start(name, rungs) for name in read), *("" for _ in flat)]
    rows = [
        [
            f"{'-> ' if rung['chosen'] else ''}{rung['checkpoint']}",
            *(_cell(name, rung["readings"].get(name)) for name in read),
            *(number(rung[name]) for name in flat),
        ]
        for rung in rungs
    ]
    spare = ("held-out", "recomputed perplexity", "reward", "finished", "length")
    return TextTable(
        "",
        ("checkpoint", *names),
        tuple(tuple(row) for row in (start, *rows)),
        spare=tuple(name for name in spare if name in names),
    )


def rung_lines(rungs: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield why each checkpoint was not chosen, and which bounds of the ladder it breaks."""
    for rung in rungs:
        why, broken = rung["why_not"], rung["outside"]
        told = [why] if why else []
        if broken and not any(item in (why or "") for item in broken):
            names = ", ".join(item.partition(" ")[0] for item in broken)
            told.append(f"out of bounds: {names}")
        if told:
            yield f"{rung['checkpoint']}: {'; '.join(told)}"


def _header(name: str, rungs: Sequence[Mapping[str, Any]]) -> str:
    if name != "kl":
        return COLUMNS[name]
    units = {rung["readings"]["kl"]["unit"] for rung in rungs if "kl" in rung["readings"]}
    return f"KL {' or '.join(sorted(units)).replace('nats', '').strip()}".replace("KL /", "KL/")


def _start(name: str, rungs: Sequence[Mapping[str, Any]]) -> str:
    """Return what a quantity was at the start; the KL is held against that at the onset."""
    known = [rung["readings"][name]["base"] for rung in rungs if name in rung["readings"]]
    found = next((value for value in known if value is not None), None)
    return "" if name == "kl" else number(found)


def _cell(name: str, reading: Mapping[str, Any] | None) -> str:
    if reading is None:
        return ""
    value, base = reading["value"], reading["base"]
    if name in ("kl", "held_out") or not base or base < 0:
        return number(value)
    return f"{number(value)} ({value / base:.0%})"
