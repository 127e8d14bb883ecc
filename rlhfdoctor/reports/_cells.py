"""Text in the cells of a terminal: cut, aligned, drawn as bars and curves.

A cell is the width of one Latin letter; Chinese, Japanese and Korean characters take two.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Sequence

from rich.cells import cell_len, set_cell_size

from rlhfdoctor.reports._lines import MARKS, shown

_EIGHTHS = ("", "\u258f", "\u258e", "\u258d", "\u258c", "\u258b", "\u258a", "\u2589")
_LEVELS = "\u2581\u2582\u2583\u2584\u2585\u2586\u2587\u2588"
_FULL = _LEVELS[-1]
_CUT = "\u2026"
_IN_ASCII = str.maketrans(
    _LEVELS + "".join(_EIGHTHS[1:]) + _CUT + "\u2500\u2502\u250c\u2514\u251c\u253c",
    "_.:-=+*#" + "...:=+#" + "~" + "-|+`++",
)


def padded(text: str, room: int, *, left: bool = True) -> str:
    """Return text filled up with spaces to ``room`` cells, at its end where it stands left."""
    space = " " * (room - cell_len(text))
    return text + space if left else space + text


def fit(text: str, room: int) -> str:
    """Return text as it may be shown, its end cut off where it takes more than ``room`` cells."""
    most = _most(room)
    visible = shown(text[:most])
    if len(text) <= most and cell_len(visible) <= room:
        return visible
    return set_cell_size(visible, max(min(room - 1, cell_len(visible)), 0)).rstrip() + _CUT


def fit_middle(text: str, room: int) -> str:
    """Return text as it may be shown, its middle cut out where it takes more than ``room``."""
    most = _most(room)
    if len(text) <= most and cell_len(shown(text)) <= room:
        return shown(text)
    last = (room - 1) // 2
    return fit(text[:most] + " " * room, room - last) + _ending(shown(text[-most:]), last)


def reads_left(text: str) -> bool:
    """Say whether a text holds Hebrew, Arabic or the like, which turns what follows it around."""
    return any(unicodedata.bidirectional(char) in ("R", "AL") for char in text)


def bar(share: float, room: int) -> str:
    """Return a bar of ``share`` of ``room`` cells, to an eighth of one; what is not 0 is seen."""
    eighths = max(round(share * room * len(_EIGHTHS)), 1 if share > 0 else 0)
    full, rest = divmod(eighths, len(_EIGHTHS))
    return _FULL * full + _EIGHTHS[rest]


def curve(values: Sequence[float | None], low: float, high: float) -> str:
    """Return values as columns of one cell each between ``low`` and ``high``; a gap for None."""
    return plot(values, low, high, 1)[0]


def plot(values: Sequence[float | None], low: float, high: float, rows: int) -> list[str]:
    """Return values as columns of ``rows`` cells, the top row first; ``low`` is seen too."""
    if math.isinf(high - low):
        return plot([value and value / 2 for value in values], low / 2, high / 2, rows)
    top = rows * len(_LEVELS) - 1
    span = high - low if high > low else math.inf
    heights = [
        0 if value is None else 1 + round(min(max((value - low) / span, 0.0), 1.0) * top)
        for value in values
    ]
    return [
        "".join(_cell(height - below * len(_LEVELS)) for height in heights)
        for below in range(rows - 1, -1, -1)
    ]


def _cell(eighths: int) -> str:
    return _LEVELS[min(eighths, len(_LEVELS)) - 1] if eighths > 0 else " "


def ascii_only(text: str) -> str:
    """Return text with what is drawn in blocks and lines drawn in ASCII, cell for cell."""
    return text.translate(_IN_ASCII)


def _most(room: int) -> int:
    """Return how many characters ``room`` cells can hold, each with its marks, which take none."""
    return (MARKS + 1) * max(room, 0) + 1


def _ending(text: str, room: int) -> str:
    """Return as much of a text's end as goes into ``room`` cells."""
    used = 0
    for index in range(len(text) - 1, -1, -1):
        used += cell_len(text[index])
        if used > room:
            return text[index + 1 :].lstrip()
    return text
