"""Batches of sequences under a token budget, longest first.

Packed batches lay sequences end to end and hold no padding. Buckets, for models whose attention
cannot be told where a sequence ends, hold sequences of like length, padded on the right; a causal
model never sees what stands to the right, so no mask is needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

WASTE = 0.05
"""Share of a bucket that may be padding."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Indices of sequences that are scored together, and how they are laid out."""

    indices: tuple[int, ...]
    packed: bool


def packed(lengths: Sequence[int], budget: int) -> list[Batch]:
    """Return batches of at most ``budget`` tokens, laid end to end: longest first, first fit.

    A sequence longer than the budget is a batch by itself.
    """
    bins: list[list[int]] = []
    room: list[int] = []
    closed = 0
    for index in _longest_first(lengths):
        length = lengths[index]
        place = next((at for at in range(closed, len(bins)) if room[at] >= length), None)
        if place is None:
            bins.append([])
            room.append(budget)
            place = len(bins) - 1
        bins[place].append(index)
        room[place] -= length
        while closed < len(bins) and room[closed] <= 0:
            closed += 1
    return [Batch(tuple(found), packed=True) for found in bins]


def buckets(lengths: Sequence[int], budget: int) -> list[Batch]:
    """Return batches of at most ``budget`` tokens with padding, of which ``WASTE`` at most is such.

    Longest first: a batch that does not fit into memory is met at once, not at the end.
    """
    batches: list[Batch] = []
    found: list[int] = []
    held = 0
    for index in _longest_first(lengths):
        widest = lengths[found[0]] if found else lengths[index]
        total = widest * (len(found) + 1)
        if found and (total > budget or held + lengths[index] < (1 - WASTE) * total):
            batches.append(Batch(tuple(found), packed=False))
            found, held = [], 0
        found.append(index)
        held += lengths[index]
    return [*batches, Batch(tuple(found), packed=False)] if found else batches


def waste(lengths: Sequence[int], batches: Sequence[Batch]) -> float:
    """Return the share of the computed tokens that is padding."""
    real = computed = 0
    for batch in batches:
        inside = [lengths[index] for index in batch.indices]
        real += sum(inside)
        computed += sum(inside) if batch.packed else max(inside) * len(inside)
    return 1 - real / computed if computed else 0.0


def _longest_first(lengths: Sequence[int]) -> list[int]:
    return sorted(range(len(lengths)), key=lambda index: (-lengths[index], index))
