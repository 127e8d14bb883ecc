"""The survey of samples, section by section, for any report: sentences, tables, drawings.

Texts of samples are in the tables and drawings as they are; ``TextTable.lines`` and ``_cells.fit``
make them safe to show. A section without anything to say is left out, and ``not_looked`` says why.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from rich.text import Text

from rlhfdoctor.reports._cells import bar, curve, fit, fit_middle
from rlhfdoctor.reports._lines import shown
from rlhfdoctor.reports._tables import MOST_TEXT, TextTable
from rlhfdoctor.reports._words import (
    correlation,
    counted,
    number,
    part_of,
    share,
    since,
    span,
    whole,
)

Row = Mapping[str, Any]

Drawing = list[Text]
"""Lines that are laid out already, and safe to show."""

Part = str | TextTable | tuple[TextTable, ...] | Drawing
"""A sentence; a table; tables that may stand side by side; a drawing."""

Section = tuple[str, list[Part]]
"""A title and its parts."""

BAR = 60
"""Cells of the longest bar where the page has no width."""

POINTS = (8, 80)
"""Least and most steps of a curve; of more, as many are taken, evenly spread."""

Column = tuple[str, str, Callable[[Any], str]]
"""A column's name, its key in the document ("" for the item itself), how its value is told."""

_GRAMS: tuple[Column, ...] = (
    ("count", "count", whole),
    ("samples", "samples", whole),
    ("share", "share", share),
    ("text", "text", str),
)
_GREW: tuple[Column, ...] = (
    ("early", "early_share", share),
    ("late", "late_share", share),
    ("from step", "", since),
    ("count", "count", whole),
    ("phrase", "text", str),
)
_COPIED: tuple[Column, ...] = (
    ("copies", "count", whole),
    ("prompts", "prompts", whole),
    ("text", "text", str),
)
_PAID: tuple[Column, ...] = (
    ("r", "r", correlation),
    ("with", "with_mean", number),
    ("without", "without_mean", number),
    ("samples", "samples", whole),
    ("early", "early_share", share),
    ("late", "late_share", share),
    ("from step", "", since),
    ("phrase", "text", str),
)
_COMPONENTS: tuple[Column, ...] = (
    ("mean", "mean", number),
    ("sd", "std", number),
    ("r with total", "total_r", correlation),
    ("r with length", "length_r", correlation),
    ("known", "known", whole),
    ("component", "name", str),
)
_LENGTHS: tuple[Column, ...] = (
    ("in", "", lambda item: f"{item['unit']} ({item['source']})"),
    ("min", "min", whole),
    ("p50", "p50", whole),
    ("p90", "p90", whole),
    ("p99", "p99", whole),
    ("max", "max", whole),
    ("mean", "mean", number),
    ("sd", "std", number),
    ("> mean + 3 sd", "over_3_sigma", whole),
)
_STEPS: tuple[Column, ...] = (
    ("step", "step", lambda step: "" if step is None else str(step)),
    ("samples", "samples", whole),
    ("mean {unit}", "mean_length", number),
    ("cut off", "truncated_share", share),
    ("in a loop", "looping_share", share),
    ("copies", "duplicate_share", share),
    ("distinct-3", "distinct_3", number),
    ("reward", "reward", number),
    ("perplexity", "perplexity", number),
    ("of the reference", "perplexity_reference", number),
    ("file", "source", str),
)

_SHARES = ("truncated_share", "looping_share", "duplicate_share", "distinct_3")
"""Measures by step that lie between 0 and 1."""

_SPARE = (
    *("file", "of the reference", "samples", "copies"),
    *("reward", "cut off", "distinct-3", "in a loop"),
)
"""Columns of the table of steps that a narrow page does without, the first to go first."""


def headline(document: Row) -> str:
    """Return what was read: file, responses, files, lines that could not be."""
    parts = [document["file"], counted(document["samples"], "response")]
    if document["field"]:
        parts.append(f"field {document['field']}")
    if len(document["files"]) > 1:
        parts.append(f"{len(document['files']):,} files")
    if document["skipped_lines"]:
        parts.append(f"{counted(document['skipped_lines'], 'line')} unread")
    return " . ".join(parts)


def summary(document: Row) -> str:
    """Return in a sentence what the text looks like, and what could not be compared."""
    count, repetition, limits = (document[key] for key in ("samples", "repetition", "limits"))
    if not count:
        return "no responses: nothing could be judged"
    if repetition is None:
        asked = " and ".join(document["only"] or ["nothing"])
        return f"{asked} only: whether the text degenerates was not looked at"
    signs = [
        (repetition["looping"], "end in a loop"),
        (repetition["runs"], f"hold one character {limits['run']} times or more in a row"),
        (repetition["empty"], "are empty"),
        (repetition["marks_only"], "are special tokens alone"),
    ]
    told = [f"{part_of(found, count)} {what}" for found, what in signs if found]
    if told:
        parts = [told[0].replace(" (", " responses (", 1), *told[1:]]
    else:
        parts = [f"no loop, no run of one character, no empty answer in {count:,} responses"]
    copies = document["duplicates"]
    if copies and copies["samples"]:
        parts.append(f"{share(copies['share'])} are copies of each other")
    cut = (document["length"] or {}).get("truncated")
    if cut and cut["count"]:
        parts.append(f"{share(cut['share'])} were cut off")
    parts.append(_compared(document))
    return "; ".join(parts)


def _compared(document: Row) -> str:
    if reason := _one_step(document):
        return f"early and late could not be compared: {reason}"
    grew = document["grew"]
    if not grew:
        return "no phrase grew from early to late"
    since = [item["from_step"] for item in grew if item["from_step"] is not None]
    return f"{counted(len(grew), 'phrase')} grew" + (f", from step {min(since)}" if since else "")


def _one_step(document: Row) -> str:
    """Return why early and late steps cannot be compared; nothing where they can be."""
    return {0: "no steps", 1: "one step"}.get(document["steps_known"], "")


def broken(document: Row) -> bool:
    """Say whether the text itself shows loops or runs of one character, or nothing but silence."""
    found = document["repetition"]
    silent = found["empty"] + found["marks_only"]
    return bool(found["looping"] or found["runs"] or silent >= document["samples"])


def judged(document: Row) -> str | None:
    """Return how much of the samples the findings rest on, where it is not all."""
    rests = document["judged"]
    if not rests or rests["samples"] >= rests["of"]:
        return None
    return f"the rules judged {rests['samples']:,} of {rests['of']:,} responses"


def not_looked(document: Row) -> list[str]:
    """Return what could not be looked at, and why, one line each."""
    if document["only"]:
        return [f"all but {' and '.join(document['only'])}: not asked for"]
    length = document["length"]
    reasons = {
        f"early against late: {_one_step(document)}": _one_step(document),
        "whether answers were cut off: no finish reason, no end token": length
        and not length["truncated"],
        "what the reward pays for: no rewards in what was read": not document["rewards"],
        "perplexity by position: no log-probabilities": not document["positions"],
    }
    return [reason for reason, holds in reasons.items() if holds and document["samples"]]


def sections(document: Row, *, by_step: bool, room: int) -> Iterator[Section]:
    """Yield the sections that have something to say.

    by_step: with a table of all steps. room: cells of a drawing's line; 0: no limit.
    """
    made: dict[str, Callable[[], Iterator[Part]]] = {
        "Length": lambda: _length(document, room or BAR + 40),
        "N-grams": lambda: _ngrams(document),
        "Phrases": lambda: _phrases(document),
        "Degeneration": lambda: _degeneration(document),
        "Worst examples": lambda: _worst(document, room or MOST_TEXT),
        "Reward": lambda: _reward(document),
        "Perplexity by position": lambda: _positions(document),
        "By step": lambda: _steps(document, room or BAR + 40, table=by_step),
    }
    for title, parts in made.items():
        if found := list(parts()):
            yield title, found


def _length(document: Row, room: int) -> Iterator[Part]:
    length = document["length"]
    if not length:
        return
    spare = ("> mean + 3 sd", "min", "p90", "sd", "p99", "p50")
    yield _table("", document["lengths"], _LENGTHS, spare)
    yield _histogram(length, room)
    parts = [f"cap: no length at which answers pile up ({length['unit']})"]
    if length["cap"] is not None:
        at_cap = f"{length['at_cap']:,} answers ({share(length['at_cap_share'])})"
        parts = [f"cap: {at_cap} have {length['cap']:,} {length['unit']} and pile up there"]
    if cut := length["truncated"]:
        parts.append(f"cut off: {part_of(cut['count'], cut['known'])}, by {cut['how']}")
    yield "; ".join(parts)


def _histogram(length: Row, room: int) -> Drawing:
    """Draw the histogram; bars past mean + 3 sd in another colour, the cap's bucket named."""
    buckets = length["histogram"]
    far = length["mean"] + 3 * length["std"]
    marks = []
    for item in buckets:
        named = []
        if length["std"] and item["low"] <= far < item["high"] + 1:
            named.append(f"mean + 3 sd = {far:,.0f}")
        if length["cap"] is not None and item["low"] <= length["cap"] <= item["high"]:
            named.append(f"cap {length['cap']:,}")
        marks.append(f" \u2190 {', '.join(named)}" if named else "")
    ranges = [span(item["low"], item["high"]) for item in buckets]
    counts = [f"{item['count']:,}" for item in buckets]
    names, numbers = max(map(len, ranges)), max(map(len, counts))
    most = max(item["count"] for item in buckets) or 1
    longest = max(room - names - numbers - 4 - max(map(len, marks)), 4)
    drawn = []
    for item, name, count, mark in zip(buckets, ranges, counts, marks, strict=True):
        line = Text(f"{name:>{names}}  {count:>{numbers}}  ")
        line.append(bar(item["count"] / most, longest), "yellow" if item["low"] > far else "cyan")
        drawn.append(line.append(mark, "bold"))
    return drawn


def _ngrams(document: Row) -> Iterator[Part]:
    grams = document["ngrams"]
    if grams is None or not document["samples"]:
        return
    totals = {item["n"]: item["count"] for item in document["ngrams_total"] or ()}
    found: list[TextTable] = []
    for n in sorted({*totals, *(item["n"] for item in grams)}):
        own = [item for item in grams if item["n"] == n]
        if own:
            total = f"{n}-grams: {totals[n]:,} in all" if n in totals else f"{n}-grams"
            found.append(_texts(total, own, _GRAMS, ("samples", "count")))
        elif not totals.get(n):
            yield f"no {n}-grams: every answer is shorter"
    if found:
        yield tuple(found)


def _phrases(document: Row) -> Iterator[Part]:
    templates, grew = document["templates"], document["grew"]
    if templates:
        title = "In at least half of the responses"
        yield _texts(title, templates, _GRAMS, ("samples", "count"))
        yield from _full(templates, document)
    if grew:
        title = "Grew from the first to the last quarter of the steps"
        yield _texts(title, grew, _GREW, ("count",))
        yield from _full(grew, document)


def _degeneration(document: Row) -> Iterator[Part]:
    found, count, limits = (document[key] for key in ("repetition", "samples", "limits"))
    if not found or not count:
        return
    distinct = [found[f"distinct_{n}"] for n in (1, 2, 3)]
    known = any(value is not None for value in distinct)
    mostly = f"mostly {found['run_of']}" if found["run_of"] else ""
    rows = [
        _counts(f"a loop of {limits['loop']}+ characters", found["looping"], count),
        _counts(f"{limits['run']} x one character", found["runs"], count, mostly),
        _counts("empty", found["empty"], count),
        _counts("only special tokens", found["marks_only"], count),
    ]
    if gopher := found["gopher"]:
        by = ", ".join(f"{item['name']} {share(item['share'])}" for item in gopher["by"])
        rows.append(_counts("over a Gopher limit", gopher["flagged"], count, by))
    copies = document["duplicates"]
    if copies:
        groups = f"in {counted(copies['groups'], 'group')}" if copies["groups"] else ""
        near = f"in {counted(copies['near_groups'], 'group')}" if copies["near_groups"] else ""
        rows.append(_counts("exact copies", copies["samples"], count, groups))
        rows.append(_counts("near copies", copies["near_samples"], count, near))
    header = ("responses", "count", "share", "of which")
    yield TextTable("", header, tuple(rows), ("share",), left=("responses",), text=True)
    yield (
        f"distinct-1, -2, -3: {', '.join(map(number, distinct))} (means over responses)"
        if known
        else "distinct n-grams: every response is too short to measure"
    )
    yield from _drift(found)
    if copies and copies["largest"]:
        yield _texts("Most copied", copies["largest"], _COPIED, ("prompts",))


def _counts(what: str, found: int, count: int, of_which: str = "") -> tuple[str, ...]:
    return what, f"{found:,}", share(found / count) if found else "", of_which


def _drift(found: Row) -> Iterator[str]:
    """Yield compression and scripts, early against late."""
    if size := found["compression"]:
        told = f"compressed to {share(size['median'])} of their size (median)"
        if size["early"] is not None and size["late"] is not None:
            told += f", early {share(size['early'])}, late {share(size['late'])}"
        yield told
    if found["scripts"]:
        scripts = (f"{item['name']} {share(item['share'])}" for item in found["scripts"])
        yield f"scripts: {', '.join(scripts)}"
    if changes := found["script_changes"]:
        early, late = share(changes["share_early"]), share(changes["share_late"])
        yield f"scripts change within a response: early {early}, late {late}"


def _worst(document: Row, room: int) -> Iterator[Part]:
    found = document["repetition"]
    unit = (document["length"] or {}).get("unit", "words")
    several = len(document["files"]) > 1
    drawn: Drawing = []
    for item in found["worst"] if found else ():
        drawn += _example(item, unit, several=several, room=room)
    if drawn:
        yield drawn


def _example(item: Row, unit: str, *, several: bool, room: int) -> Iterator[Text]:
    """Yield a response with its loop marked: whence, its prompt, how it starts, what it repeats."""
    period, covered, kind = item["period"], item["covered"], item["kind"]
    times = covered // period if period else 0
    since_start = f", from character {item['start'] + 1:,}" if item["start"] else ""
    what = {
        "loop": f"{counted(period, 'character')}, {times:,} times to the end{since_start}",
        "run": f"one character, {covered:,} times{since_start}",
    }.get(kind, "over a Gopher limit")
    parts = [f"line {item['line']}" + (f" of {fit(item['source'], 60)}" if several else "")]
    parts += [f"step {item['step']}"] if item["step"] is not None else []
    parts += [f"{item['length']:,} {unit}"] if item["length"] is not None else []
    parts += [f"reward {number(item['reward'])}"] if item["reward"] is not None else []
    yield Text(shown(f"{', '.join(parts)}: {what}"), "bold")
    rest = room - 10
    if item["prompt"] is not None:
        yield Text("  prompt  ", "dim").append(fit(item["prompt"], rest), "not dim")
    if kind not in ("loop", "run"):
        yield Text("  text    ", "dim").append(fit_middle(item["text"], rest), "not dim")
        return
    start = fit_middle(item["text"] if item["start"] else "(with the loop)", rest)
    yield Text("  starts  ", "dim").append(start, "not dim")
    count = f"<< x {times:,}"
    line = Text("  repeats ", "dim").append(">>", "not dim bold")
    line.append(fit_middle(item["loop"], max(rest - len(count) - 2, 1)), "not dim reverse")
    yield line.append(count, "not dim bold")


def _reward(document: Row) -> Iterator[Part]:
    reward = document["rewards"]
    if not reward:
        return
    if reward["constant"]:
        yield f"the same for all {reward['known']:,} responses: {number(reward['mean'])}"
    else:
        yield (
            f"mean {number(reward['mean'])}, sd {number(reward['std'])}, "
            f"{number(reward['min'])} to {number(reward['max'])}; known for "
            f"{part_of(reward['known'], document['samples'])}"
        )
        within = "inside each step, averaged" if reward["within_steps"] else "over all responses"
        yield (
            f"correlation with length {correlation(reward['length_r'])}, with repetition "
            f"{correlation(reward['repetition_r'])} ({within})"
        )
    if reward["phrases"]:
        title = "Phrases, and the mean reward with and without them"
        can_go = ("samples", "early", "late", "from step", "without")
        yield _texts(title, reward["phrases"], _PAID, can_go)
        yield from _full(reward["phrases"], document)
    if components := reward["components"]:
        yield _texts("Components", components, _COMPONENTS, ("known", "sd", "r with length"))


def _positions(document: Row) -> Iterator[Part]:
    found = document["positions"]
    if not found:
        return
    curves = {
        name: found[key]
        for name, key in (("all", "deciles"), ("early", "early"), ("late", "late"))
        if found[key]
    }
    known = [
        height for row in curves.values() for height in map(_finite, row) if height is not None
    ]
    low, high = min(known, default=0.0), max(known, default=0.0)
    tenths = tuple(f"{tenth}/10" for tenth in range(1, 11))
    rows = tuple(
        (name, curve([*map(_finite, row)], low, high), *(_perplexity(nats) for nats in row))
        for name, row in curves.items()
    )
    spare = tuple(f"{tenth}/10" for tenth in (4, 7, 3, 8, 6, 2, 9, 5))
    yield f"of the policy, by tenths of the response, in {counted(found['samples'], 'response')}"
    yield TextTable("", ("", "curve", *tenths), rows, spare, left=("", "curve"))


def _steps(document: Row, room: int, *, table: bool) -> Iterator[Part]:
    steps = document["steps"]
    if not steps:
        return
    several = len({step["source"] for step in steps}) > 1
    unit = (document["length"] or {}).get("unit", "length")
    columns = [
        (name.format(unit=unit), key, told)
        for name, key, told in _STEPS
        if any(step[key] is not None for step in steps) and (several or name != "file")
    ]
    if len(steps) > 1:
        yield _curves(steps, columns, min(max(room - 60, POINTS[0]), POINTS[1]))
    if table:
        names = [name for name, _, _ in columns]
        spare = tuple(name for name in _SPARE if name in names)
        yield replace(_table("All steps", steps, columns, spare), left=("file",))
    elif len(steps) > 1:
        yield "all steps: --by step"


def _curves(steps: Sequence[Row], columns: Sequence[Column], points: int) -> TextTable:
    """Draw each measure over the steps: shares from 0 to 1, others from their least value up."""
    taken = [*steps[: -1 : math.ceil(len(steps) / points)], steps[-1]]
    rows = []
    for name, key, told in columns:
        if name in ("step", "samples", "file"):
            continue
        known = [value for step in steps if (value := _finite(step[key])) is not None]
        if known:
            values = [_finite(step[key]) for step in taken]
            ends = (0.0, 1.0) if key in _SHARES else (min(known), max(known))
            four = (steps[0][key], steps[-1][key], min(known), max(known))
            rows.append((name, curve(values, *ends), *map(told, four)))
    ends_at = (steps[place]["step"] for place in (0, -1))
    first, last = ("no step" if step is None else f"step {step}" for step in ends_at)
    header = ("", "curve", first, last, "least", "greatest")
    return TextTable("", header, tuple(rows), ("least", "greatest"), left=("", "curve"))


def _table(
    title: str, items: Sequence[Row], columns: Sequence[Column], spare: tuple[str, ...]
) -> TextTable:
    rows = (tuple(told(item[key] if key else item) for _, key, told in columns) for item in items)
    return TextTable(title, tuple(name for name, _, _ in columns), tuple(rows), spare)


def _texts(
    title: str, items: Sequence[Row], columns: Sequence[Column], spare: tuple[str, ...]
) -> TextTable:
    """Return a table whose last column is text of samples."""
    made = _table(title, items, columns, spare)
    return replace(made, left=made.header[-1:], text=True)


def _full(items: Sequence[object], document: Row) -> Iterator[str]:
    """Say of a list that is as long as lists may be that there may be more."""
    if len(items) >= document["limits"]["listed"]:
        yield f"no more than {document['limits']['listed']} are listed"


def _perplexity(nats: float | None) -> str:
    """Return exp(nats a token); infinite where no float holds it."""
    if nats is None:
        return ""
    try:
        return number(math.exp(nats), 3)
    except OverflowError:
        return "inf"


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
