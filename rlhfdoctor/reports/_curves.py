"""What a run's quantities did, drawn in the cells of a terminal over one axis of steps.

Nothing is told by colour alone, and nothing computed: cells and moving values are those of
``rlhfdoctor.curves``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from rich.text import Text

from rlhfdoctor.curves import (
    SMOOTHED,
    SPIKES,
    Line,
    Panel,
    cells,
    interval,
    marks,
    not_finite,
    panels,
    smoothed,
)
from rlhfdoctor.model import Diagnosis
from rlhfdoctor.reports._cells import padded, plot
from rlhfdoctor.reports._lines import shown
from rlhfdoctor.reports._words import counted, number

ROWS = {SMOOTHED: 5, "Response length": 2, "Reward": 2}
"""Rows of a quantity's first curve; all others take one."""

UNLIMITED = 80
"""Columns of the drawing where the page has no width: a pipe, a file."""

WIDEST = 160
"""Columns beyond which a drawing is not stretched: its shape gets lost [H]."""

GUTTER = 10
"""Cells left of a curve, for the values at the ends of its axis."""

EDGE, CORNER, RULE = "\u2502", "\u2514", "\u2500"

NAMED = ("Reward", "Accuracy")
"""Quantities of which a title says what was logged: there is more than one kind of each."""

MOST_CELLS = 4
"""Cells that one step takes at most."""

Told = tuple[int, Text]
"""Indent and text."""


@dataclass(frozen=True, slots=True)
class _Axis:
    """The steps from the first cell to the last; ``onset``: the cell of the onset."""

    first: int
    last: int
    cells: int
    onset: int | None

    def cell(self, step: int) -> int | None:
        """Return the cell of a step, None where it lies outside."""
        if not self.first <= step <= self.last:
            return None
        return (step - self.first) * self.cells // (self.last - self.first + 1)


def curve_lines(diagnosis: Diagnosis, width: int) -> Iterator[Told]:
    """Yield the curves of a run under a title; nothing where nothing was logged.

    width: characters of a line; 0: no limit.
    """
    found = panels(diagnosis.run, smooth=False)
    if not found:
        return
    axis = _axis(diagnosis, found, min(width or UNLIMITED, WIDEST) - 2 - GUTTER - 1)
    yield 0, Text("Curves", style="bold")
    drawn = [panel for panel in found if not all(map(_flat, panel.lines))]
    if drawn:
        yield 2, Text(_scale(axis, drawn, diagnosis.run.step_unit), style="dim")
    for panel in found:
        yield from _panel(panel, axis, diagnosis)
    if drawn:
        yield from _under(axis, diagnosis)


def _flat(line: Line) -> bool:
    """Say whether there is nothing to draw: one value in all rows."""
    return min(line.values) == max(line.values)


def _axis(diagnosis: Diagnosis, found: Sequence[Panel], room: int) -> _Axis:
    lines = [line for panel in found for line in panel.lines]
    first, last = min(line.steps[0] for line in lines), max(line.steps[-1] for line in lines)
    span = last - first + 1
    cells = room if span >= room else span * min(room // span, MOST_CELLS)
    bare = _Axis(first, last, cells, None)
    onset = diagnosis.onset
    return replace(bare, onset=bare.cell(onset.step) if onset else None)


def _scale(axis: _Axis, found: Sequence[Panel], unit: str) -> str:
    """Return what a column stands for."""
    span = axis.last - axis.first + 1
    if span <= axis.cells:
        return f"each {unit} by itself"
    quantities = dict.fromkeys(panel.quantity for panel in found)
    names = [name if name == SMOOTHED else name.lower() for name in quantities if name in SPIKES]
    spiky = f"the highest of {' and of '.join(names)}" if names else ""
    calm = "the mean of the others" if len(names) < len(quantities) else ""
    told = ", ".join(filter(None, (spiky, calm))) if names else "the mean"
    return f"a column is about {number(round(span / axis.cells, 1))} {unit}s: {told}"


def _panel(panel: Panel, axis: _Axis, diagnosis: Diagnosis) -> Iterator[Told]:
    """Yield a panel's curves, each under its title; of a placeholder only that it is one."""
    title = panel.quantity
    if panel.unit != panel.quantity.lower():
        title += f", unit {panel.unit}" if panel.unit == "unknown" else f", {panel.unit}"
    title += f" ({panel.estimator})" if panel.estimator else ""
    if panel.placeholder:
        zeros = counted(max(len(line.steps) for line in panel.lines), "row")
        yield 2, Text(shown(f"{title}: not measured, exactly 0 in {zeros}"))
        return
    for place, line in enumerate(panel.lines):
        named = panel.quantity in NAMED or len(panel.lines) > 1
        rows = 1 if place else ROWS.get(panel.quantity, 1)
        whole = f"{title}: {line.name}" if named else title
        whole += _lost(not_finite(diagnosis.run, line.column), diagnosis.run.step_unit)
        yield from _curve(whole, panel, line, rows, axis)
        if panel.quantity == SMOOTHED and not _flat(line):
            for told in _moving(line, diagnosis):
                yield GUTTER + 3, Text(told, style="dim")


def _lost(steps: Sequence[int], unit: str) -> str:
    """Return at how many steps a number was logged that cannot be drawn."""
    first = f", first at {steps[0]}" if len(steps) > 1 else f", {steps[0]}" if steps else ""
    return f" (not finite at {counted(len(steps), unit)}{first})" if steps else ""


def _curve(title: str, panel: Panel, line: Line, rows: int, axis: _Axis) -> Iterator[Told]:
    """Yield a curve under its title; one of both tells the ends of its axis."""
    if _flat(line):
        constant = f"{_label(line.values[0])} in {counted(len(line.values), 'row')}"
        yield 2, Text(shown(title)).append(f", {constant}", style="dim")
        return
    values = cells(line, axis.first, axis.last, axis.cells, peaks=panel.quantity in SPIKES)
    known = [value for value in values if value is not None]
    low, high = min(known), max(known)
    if panel.quantity == SMOOTHED:
        low = min(low, 0.0)
    digits = next((few for few in range(3, 6) if _label(low, few) != _label(high, few)), 6)
    bottom, top = _label(low, digits), _label(high, digits)
    labels = {0: top, rows - 1: bottom} if rows > 1 else {}
    if rows > 2:
        labels[rows // 2] = _label(low / 2 + high / 2, digits)
    ends = "" if labels else f", axis {bottom} to {top}"
    yield 2, Text(shown(title)).append(ends, style="dim")
    for place, drawn in enumerate(plot(values, low, high, rows)):
        told = Text(padded(labels.get(place, ""), GUTTER - 1, left=False), style="dim")
        yield 2, told.append(f" {EDGE}", style="dim").append_text(_marked(drawn, axis, rows))


def _marked(drawn: str, axis: _Axis, rows: int) -> Text:
    """Return a row of a curve: red from the onset on, which a line marks where there is room."""
    onset = axis.onset
    if onset is None:
        return Text(drawn, style="cyan")
    mark = EDGE if rows > 1 and drawn[onset] == " " else drawn[onset]
    text = Text(drawn[:onset], style="cyan")
    return text.append(mark + drawn[onset + 1 :], style="red")


def _moving(line: Line, diagnosis: Diagnosis) -> Iterator[str]:
    """Yield the three numbers that practitioners show of a KL, at the onset and at the end."""
    places = {line.steps[-1]: "at the end"}
    if diagnosis.onset is not None:
        step = diagnosis.onset.step
        places = {step: f"at {diagnosis.run.step_unit} {step}", **places}
    for step, where in places.items():
        found = smoothed(line, step)
        if found is not None:
            rows, *values = found
            current, average, high = map(_label, values)
            last = f"last {counted(rows, 'row')}"
            yield f"{where}: {current}; {last}: mean {average}, 90th percentile {high}"


def _under(axis: _Axis, diagnosis: Diagnosis) -> Iterator[Told]:
    """Yield the axis with its checkpoints, its steps with the onset, and what the marks mean."""
    marked = marks(diagnosis)
    saved = [axis.cell(step) for step, _ in marked.saved]
    goal = axis.cell(marked.back[0]) if marked.back else None
    line = [RULE] * axis.cells
    for mark, places in (("o", saved), ("R", [goal])):
        for cell in places:
            if cell is not None:
                line[cell] = mark
    gap = " " * GUTTER
    yield 2, Text(f"{gap}{CORNER}{''.join(line)}", style="dim")
    yield 2, Text(f"{gap} {_numbers(axis, diagnosis)}")
    told = []
    if marked.onset is not None:
        where = f"onset at {diagnosis.run.step_unit} {interval(marked.onset)}"
        told.append(f"{where}, not drawn here" if axis.onset is None else f"^ {where}")
    outside = saved.count(None)
    if outside < len(saved):
        told.append("o checkpoint")
    if marked.back and goal is not None:
        told.append(f"R go back to {marked.back[1]}")
    if outside:
        told.append(f"{counted(outside, 'checkpoint')} outside these {diagnosis.run.step_unit}s")
    if told:
        yield 2, Text(shown(", ".join(told)), style="dim")


def _numbers(axis: _Axis, diagnosis: Diagnosis) -> str:
    """Return the first and the last step below their cells, and a caret below the onset's."""
    first, last = f"{axis.first}", f"{axis.last}"
    line = [" "] * max(axis.cells, len(last))

    def put(text: str, start: int) -> None:
        """Write a number where it fits between the others."""
        end = start + len(text)
        free = line[max(start - 1, 0) : end + 1]
        if start >= 0 and end <= len(line) and not "".join(free).strip():
            line[start:end] = text

    if axis.onset is not None and diagnosis.onset is not None:
        step = str(diagnosis.onset.step)
        left = axis.onset + 1 + len(step) > len(line) - len(last) - 1
        text, start = (f"{step}^", axis.onset - len(step)) if left else (f"^{step}", axis.onset)
        put(text, start) if start >= 0 else put("^", axis.onset)
    put(first, 0)
    if axis.last > axis.first:
        put(last, len(line) - len(last))
    return "".join(line).rstrip()


def _label(value: float, digits: int = 3) -> str:
    """Return a number in fewer cells than ``GUTTER``."""
    if 1000 <= abs(value) < 1e5:
        return f"{value:,.0f}"
    text = f"{value:.{digits}g}"
    return text if len(text) < GUTTER else f"{value:.1g}"
