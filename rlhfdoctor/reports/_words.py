"""Numbers as a reader takes them in: counts, shares, steps; nothing where a value is not known."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

LEAST_SHARE = 0.0005
"""Share below which one decimal of per cent says 0.0."""

LARGE = 1000
"""Where four digits are told with their thousands apart."""


def counted(count: int, noun: str) -> str:
    """Return "1 line" or "2,000 lines"."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def part_of(found: int, whole: int) -> str:
    """Return "39 of 250 (15.6%)"."""
    return f"{found:,} of {whole:,} ({share(found / whole if whole else 0.0)})"


def share(value: float | None) -> str:
    """Return a share in per cent; one that is not 0 is not said to be."""
    if value is None:
        return ""
    return "<0.1%" if 0 < value < LEAST_SHARE else f"{value:.1%}"


def whole(value: int | None) -> str:
    """Return a count with its thousands apart."""
    return "" if value is None else f"{value:,}"


def number(value: float | None, digits: int = 4) -> str:
    """Return a number with ``digits`` digits; a large one whole."""
    if value is None:
        return ""
    large = LARGE <= abs(value) < 1e15
    return f"{value:,.0f}" if large else f"{value:.{digits}g}"


def correlation(value: float | None) -> str:
    """Return Pearson's r with its sign; one that could not be computed is unknown."""
    return "unknown" if value is None else f"{value:+.2f}"


def span(low: int, high: int) -> str:
    """Return "12-71", or one number where both ends are the same."""
    return f"{low:,}" if low == high else f"{low:,}-{high:,}"


def since(item: Mapping[str, Any]) -> str:
    """Return the step from which something grew, with the interval that it lies in."""
    step, low, high = item["from_step"], item["from_low"], item["from_high"]
    if step is None:
        return ""
    return str(step) if low is None or high is None or low == high else f"{step} ({low}-{high})"
