"""Batches under a token budget: what holds for any lengths, and how much padding is computed."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rlhfdoctor.scorers.batches import WASTE, Batch, buckets, packed, waste

Layout = Callable[[Sequence[int], int], list[Batch]]
LAYOUTS = pytest.mark.parametrize("layout", [packed, buckets])


def size(batch: Batch, lengths: Sequence[int]) -> int:
    """Return the tokens that a batch computes, padding included."""
    inside = [lengths[index] for index in batch.indices]
    return sum(inside) if batch.packed else max(inside) * len(inside)


@LAYOUTS
@given(lengths=st.lists(st.integers(1, 200), max_size=80), budget=st.integers(1, 400))
def test_a_layout_holds_its_promises(layout: Layout, lengths: list[int], budget: int) -> None:
    batches = layout(lengths, budget)
    assert sorted(index for batch in batches for index in batch.indices) == list(
        range(len(lengths))
    ), "every sequence exactly once"
    for batch in batches:
        assert batch.packed == (layout is packed)
        assert len(batch.indices) == 1 or size(batch, lengths) <= budget
        inside = [lengths[index] for index in batch.indices]
        assert inside == sorted(inside, reverse=True)
    firsts = [lengths[batch.indices[0]] for batch in batches]
    assert firsts == sorted(firsts, reverse=True), "the longest first"
    assert waste(lengths, batches) == 0 or layout is buckets
    assert waste(lengths, batches) <= WASTE


@LAYOUTS
@pytest.mark.parametrize(
    ("lengths", "budget", "count"),
    [
        pytest.param([], 10, 0, id="nothing"),
        pytest.param([10], 10, 1, id="one that fills the budget"),
        pytest.param([11], 10, 1, id="one above the budget"),
        pytest.param([5, 5], 10, 1, id="two that fill the budget"),
        pytest.param([5, 5], 9, 2, id="two that are one token too many"),
        pytest.param([11, 11], 10, 2, id="two above the budget"),
    ],
)
def test_the_budget_is_met_to_the_token(
    layout: Layout, lengths: list[int], budget: int, count: int
) -> None:
    assert len(layout(lengths, budget)) == count


def test_a_short_sequence_fills_the_room_that_a_long_one_left() -> None:
    assert packed([6, 5, 4, 5], 10) == [Batch((0, 2), True), Batch((1, 3), True)]


@pytest.mark.parametrize(
    ("lengths", "count"),
    [
        pytest.param([100, 90], 1, id="five percent of padding"),
        pytest.param([100, 89], 2, id="more than five percent of padding"),
    ],
)
def test_a_bucket_takes_padding_up_to_its_share(lengths: list[int], count: int) -> None:
    assert len(buckets(lengths, 1000)) == count


def test_waste_is_the_padding_of_what_is_computed() -> None:
    assert waste([4, 2], [Batch((0, 1), False)]) == pytest.approx(2 / 8)
    assert waste([4, 2], [Batch((0, 1), True)]) == 0
    assert waste([], []) == 0


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("budget", [2_048, 16_384])
def test_lengths_as_runs_have_them_waste_little(seed: int, budget: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.exp(torch.randn(2_000, generator=generator) * 0.8 + 5).long().clamp(1, 2_000)
    lengths = [int(length) for length in drawn]
    assert waste(lengths, buckets(lengths, budget)) <= 0.05
    batches = packed(lengths, budget)
    assert waste(lengths, batches) == 0
    fewest = sum(lengths) / budget
    assert len(batches) <= fewest * 1.05 + 1, "first fit leaves next to no room"
    in_file_order = [
        Batch(tuple(range(first, min(first + 8, 2_000))), False) for first in range(0, 2_000, 8)
    ]
    assert waste(lengths, in_file_order) > 0.3, "lengths that need sorting"
