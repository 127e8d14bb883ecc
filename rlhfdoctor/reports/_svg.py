"""Curves as SVG that fits any width: the plot is stretched, strokes and letters are not.

The outer picture has no coordinates of its own: x is a share of its width, y is in pixels. Curves
lie in an inner picture that is stretched over it. Colours are classes of the page's style sheet.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape

from rlhfdoctor.curves import Line, Marks, interval, thinned, unlogged
from rlhfdoctor.reports._lines import shown

PIXELS = 760
"""Width of the widest plot on the page, in CSS pixels."""

POINTS = 2 * PIXELS
"""Points of a curve: two a pixel, the lowest and the highest."""

ORDERS = 500.0
"""Ratio of the largest to the smallest value, all above 0, from which on the axis is logarithmic:
below it the small ones are a pixel high at least. [H]"""

TICKS = 5
"""Ticks of an axis at most, so that their labels have room on a phone."""

ROOM = 1 / 25
"""Share of the span that is left free above and below curves."""

LONGEST = 28
"""Characters of a checkpoint's name that stand beside its line."""


APART = 10
"""Pixels between two ticks: nearer to each other they hide the curve behind them. [H]"""


@dataclass(frozen=True, slots=True)
class Drawn:
    """A curve with its place in the palette: points alone, or a line.

    broken: steps whose value was not finite, where the line has a gap.
    """

    line: Line
    colour: int
    points: bool = False
    broken: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Axis:
    """The step axis that all figures of a run share, and what is marked on it, by logged step.

    low, high: its ends. unit: what a step is called.
    """

    low: int
    high: int
    marks: Marks
    unit: str = "step"

    def at(self, step: float) -> float:
        """Return where a step lies, as a share of the width, 0 to 1."""
        share = (step - self.low) / max(self.high - self.low, 1)
        return min(max(share, 0.0), 1.0)


@dataclass(frozen=True, slots=True)
class _Scale:
    """The value axis. Halves are taken first, so that no span of floats overflows."""

    low: float
    high: float
    logarithmic: bool

    def at(self, value: float) -> float:
        """Return where a value lies, 0 at the bottom and 1 at the top."""
        if self.logarithmic:
            value = math.log10(value)
        span = self.high / 2 - self.low / 2
        return min(max((value / 2 - self.low / 2) / span, 0.0), 1.0) if span else 0.5


def figure(
    drawn: Sequence[Drawn],
    axis: Axis,
    *,
    name: str,
    title: str,
    text: str,
    height: int = 150,
    labels: bool = False,
) -> str:
    """Return curves of one unit as an SVG element, escaped.

    name: unlike that of any other figure of the page. title, text: what is drawn, and what it
    shows, for those who do not see it. labels: name the onset and the checkpoint above the plot.
    """
    scale = _scale([value for item in drawn for value in item.line.values])
    return "".join(_elements(drawn, axis, scale, name, title, text, height, labels))


def ratio_axis(values: Sequence[float]) -> bool:
    """Say whether these values are drawn on a logarithmic axis."""
    return min(values) > 0 and max(values) / ORDERS > min(values)


def _elements(
    drawn: Sequence[Drawn],
    axis: Axis,
    scale: _Scale,
    name: str,
    title: str,
    text: str,
    height: int,
    labels: bool,
) -> Iterator[str]:
    yield (
        f'<svg class="figure" width="100%" height="{height}" role="img"'
        f' aria-labelledby="{name}-t {name}-d">'
        f'<title id="{name}-t">{escape(shown(title))}</title>'
        f'<desc id="{name}-d">{escape(shown(text))}</desc>'
    )
    onset, back = axis.marks.onset, axis.marks.back
    if onset:
        left, right = axis.at(onset.low), axis.at(onset.high)
        yield (
            f'<rect class="onset" x="{left:.2%}" y="0" width="{right - left:.2%}"'
            f' height="{height}"/>' + _upright("onset", axis.at(onset.step), 0, height)
        )
    for value, told in _values(scale):
        y = height * (1 - scale.at(value))
        yield f'<line class="grid" x1="0" x2="100%" y1="{y:.1f}" y2="{y:.1f}"/>'
        yield f'<text x="-8" y="{y + 4:.1f}" text-anchor="end">{told}</text>'
    yield f'<line class="base" x1="0" x2="100%" y1="{height}" y2="{height}"/>'
    for number, (tick, told) in enumerate(_steps(axis)):
        x = axis.at(tick)
        anchor = "start" if x < 0.08 else "end" if x > 0.92 else "middle"
        word = told if number else f"{escape(shown(axis.unit))} {told}"
        yield _upright("tick", x, height, height + 5)
        yield f'<text x="{x:.2%}" y="{height + 19}" text-anchor="{anchor}">{word}</text>'
    if back:
        yield _upright("back", axis.at(back[0]), 0, height)
    yield (
        f'<svg class="plot" width="100%" height="{height}" viewBox="0 0 {PIXELS} {height}"'
        ' preserveAspectRatio="none">'
    )
    for item in drawn:
        kind = "points" if item.points else "line"
        path = _path(item, axis, scale, height)
        yield f'<path class="{kind} c{item.colour}" d="{path}"/>'
    yield _ticked("saved", axis, [step for step, _ in axis.marks.saved], f"{height}v-9")
    yield _ticked("lost", axis, [step for item in drawn for step in item.broken], "0v8")
    yield "</svg>"
    if labels and back:
        yield _label("back", axis.at(back[0]), -22, f"go back to {back[1][:LONGEST]}")
    if labels and onset:
        yield _label("onset", axis.at(onset.step), -7, f"onset {interval(onset)}")
    yield "</svg>"


def _upright(kind: str, x: float, top: int, bottom: int) -> str:
    return f'<line class="{kind}" x1="{x:.2%}" x2="{x:.2%}" y1="{top}" y2="{bottom}"/>'


def _ticked(kind: str, axis: Axis, steps: Sequence[int], stroke: str) -> str:
    """Return a tick at each of these steps, ``APART`` at least; nothing without a step."""
    places: list[int] = []
    for x in sorted({round(PIXELS * axis.at(step)) for step in steps}):
        if not places or x - places[-1] >= APART:
            places.append(x)
    path = "".join(f"M{x} {stroke}" for x in places)
    return f'<path class="{kind}" d="{path}"/>' if path else ""


def _label(kind: str, x: float, y: int, text: str) -> str:
    anchor = "end" if x > 0.55 else "start"
    told = escape(shown(text))
    return f'<text class="{kind}" x="{x:.2%}" y="{y}" text-anchor="{anchor}">{told}</text>'


def _path(item: Drawn, axis: Axis, scale: _Scale, height: int) -> str:
    """Return a curve as path data: a new stretch behind each value that was not finite.

    Also behind a stretch of steps that nobody logged: nothing is interpolated.
    A point alone is a stroke without length, which round ends make a dot.
    """
    line = thinned(item.line, POINTS)
    parts: list[str] = []
    broken, after = iter(sorted((*item.broken, *unlogged(item.line)))), False
    gap = next(broken, None)
    for step, value in zip(line.steps, line.values, strict=True):
        while gap is not None and gap <= step:
            gap, after = next(broken, None), True
        place = f"{PIXELS * axis.at(step):.1f} {height * (1 - scale.at(value)):.1f}"
        parts.append(f"M{place}h0" if item.points or after or not parts else f"L{place}")
        after = False
    return "".join(parts)


def _scale(values: Sequence[float]) -> _Scale:
    low, high = min(values), max(values)
    if ratio_axis(values):
        return _Scale(math.log10(low), math.log10(high), True)
    if 0 <= low <= high / 2:
        low = 0.0
    if low == high:
        low, high = (0.0, 1.0) if not low else (low - abs(low) / 2, high + abs(high) / 2)
    room = (high / 2 - low / 2) * (2 * ROOM)
    low = low - room if low else low
    return _Scale(max(low, -sys.float_info.max), min(high + room, sys.float_info.max), False)


def _values(scale: _Scale) -> list[tuple[float, str]]:
    """Return the ticks of the value axis, with their labels."""
    if scale.logarithmic:
        first, last = math.ceil(scale.low), math.floor(scale.high)
        stride = max(1, -(-(last - first + 1) // TICKS))
        powers = [10.0**power for power in range(first, last + 1, stride)]
        return [(value, _told(value, 3)) for value in powers]
    ticks = _ticks(scale.low, scale.high)
    return list(zip(ticks, _labels(ticks), strict=True))


def _steps(axis: Axis) -> list[tuple[float, str]]:
    """Return the ticks of the step axis, with their labels: its first step and round ones."""
    span = axis.high - axis.low
    round_ones = [tick for tick in _ticks(axis.low, axis.high) if tick == int(tick)]
    ticks = [axis.low, *(tick for tick in round_ones if tick - axis.low > span / 8)]
    return [(tick, f"{int(tick):,}") for tick in ticks]


def _ticks(low: float, high: float) -> list[float]:
    """Return round numbers from one to another, ``TICKS`` at most; the ends where there are none.

    Steps of 1, 2, 2.5 or 5 times a power of ten.
    """
    span = high / TICKS - low / TICKS
    power = 10.0 ** math.floor(math.log10(span)) if span > 0 else 0.0
    if not power or low + power == low or high - power == high:
        return sorted({low, high})
    stride = next((power * times for times in (1, 2, 2.5, 5) if power * times >= span), power * 10)
    first, last = math.ceil(low / stride), math.floor(high / stride)
    return [number * stride for number in range(first, last + 1)]


def _labels(ticks: Sequence[float]) -> list[str]:
    """Return numbers with as few digits as tell them apart."""
    for digits in range(3, 9):
        told = [_told(tick, digits) for tick in ticks]
        if len(set(told)) == len(ticks):
            return told
    return [f"{tick!r}" for tick in ticks]


def _told(value: float, digits: int) -> str:
    large = 1e4 <= abs(value) < 1e6
    return f"{value:,.0f}" if large else f"{value:.{digits}g}"
