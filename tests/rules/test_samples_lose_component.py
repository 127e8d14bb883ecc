from collections.abc import Sequence
from typing import Any

import pytest

from tests.builders import clear, judge, only, run_of, skipped
from tests.rules.shapes import prose, sampled, silent


def earned(
    form: Sequence[float], right: Sequence[float], of: int = 20, **fields: Any
) -> list[dict[str, Any]]:
    """Steps 0, 10, 20, ...: the shares of responses that earn the format and that are right."""
    rows: list[dict[str, Any]] = []
    for index, shares in enumerate(zip(form, right, strict=True)):
        for place in range(of):
            parts = [float(place < round(share * of)) for share in shares]
            rows.append(
                {
                    "step": 10 * index,
                    "prompt": f"prompt {place}",
                    "response": prose(len(rows)),
                    "reward_components": f'{{"format": {parts[0]}, "right": {parts[1]}}}',
                    **fields,
                }
            )
    return rows


SICK = (run_of(samples=earned((0.2, 1.0), (0.6, 0.0))),)


@pytest.mark.parametrize(
    ("form", "right", "found"),
    [
        pytest.param((0.2, 1.0), (0.6, 0.0), True, id="all earn the format, none is right"),
        pytest.param((0.2, 0.9), (0.6, 0.0), True, id="nine of ten earn the format"),
        pytest.param((0.2, 0.85), (0.6, 0.0), False, id="fewer than nine of ten"),
        pytest.param((0.2, 1.0), (0.6, 0.05), True, id="less than a tenth is left"),
        pytest.param((0.2, 1.0), (0.6, 0.1), False, id="more than a tenth is left"),
        pytest.param((0.2, 1.0), (0.6, 0.7), False, id="both are learnt"),
        pytest.param((0.2, 1.0), (0.0, 0.0), False, id="a part that was never earned"),
        pytest.param((1.0, 1.0), (0.6, 0.0), False, id="a format that all had from the start"),
        pytest.param((0.2, 1.0), (0.1, 0.0), False, id="a loss that may be chance"),
        pytest.param((0.2, 1.0, 1.0), (0.6, 0.0, 0.6), False, id="a loss that was made good"),
    ],
)
def test_one_part_is_earned_by_all_while_another_is_lost(
    form: tuple[float, ...], right: tuple[float, ...], found: bool
) -> None:
    assert clear("RWD013", run_of(samples=earned(form, right))) is not found


def test_it_is_information_that_names_both_parts() -> None:
    samples = earned((0.2, 0.5, 1.0), (0.6, 0.6, 0.0))
    finding = only("RWD013", run_of(samples=samples, log_offset=1))
    assert finding.severity == "info"
    assert finding.onset is not None
    assert (finding.onset.low, finding.onset.step, finding.onset.high) == (12, 21, 21)
    assert sampled(finding.evidence[0], "samples.jsonl", "reward")
    assert finding.evidence[0].limit_low == pytest.approx(0.06)
    assert "now earns format (0.2 -> 1), and right is lost (0.6 -> 0)" in finding.message
    assert "format earned by all, right 0.6 -> 0" in finding.summary


@pytest.mark.parametrize("size", [1e-200, 1e200, 1.7e308], ids=str)
def test_the_size_of_the_parts_does_not_matter(size: float) -> None:
    samples = earned((0.2, 0.5, 1.0), (0.6, 0.6, 0.0))
    for row in samples:
        row["reward_components"] = row["reward_components"].replace("1.0", str(size))
    finding = only("RWD013", run_of(samples=samples))
    assert finding.args["after"] == 0.0
    assert finding.args["owned_after"] == size
    assert finding.args["before"] == pytest.approx(0.6 * size)


def test_parts_of_opposite_signs_may_be_as_large_as_numbers_are() -> None:
    samples = earned((0.0, 1.0), (1.0, 0.0))
    for row in samples:
        told = row["reward_components"].replace("1.0", "1.7e308").replace("0.0", "-1.7e308")
        row["reward_components"] = told
    assert only("RWD013", run_of(samples=samples)).args["after"] == -1.7e308


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity"])
def test_a_part_that_is_no_number_once_is_not_judged(number: str) -> None:
    samples = earned((0.2, 1.0), (0.6, 0.0))
    samples[0]["reward_components"] = f'{{"format": {number}, "right": 1.0}}'
    assert skipped("RWD013", run_of(samples=samples))


def test_two_parts_at_two_steps_are_needed() -> None:
    lone = earned((0.2, 1.0), (0.6, 0.0), reward_components='{"format": 1.0}')
    assert skipped("RWD013", run_of(samples=lone))
    assert skipped("RWD013", run_of(samples=earned((0.2,), (0.6,))))
    assert skipped("RWD013", run_of(samples=earned((0, 1), (1, 0), reward_components=None)))


@pytest.mark.parametrize(
    ("count", "looked"),
    [pytest.param(7, False, id="seven responses"), pytest.param(8, True, id="eight responses")],
)
def test_eight_responses_a_step_are_needed(count: int, looked: bool) -> None:
    run = run_of(samples=earned((0.0, 1.0), (1.0, 0.0), of=count))
    assert skipped("RWD013", run) is not looked
    assert silent("RWD013", run) is not looked


def test_the_limits_can_be_set() -> None:
    run = run_of(samples=earned((0.2, 0.9), (0.8, 0.05)))
    assert judge("RWD013", run)
    assert clear("RWD013", run, lost=0.01)
    assert clear("RWD013", run, everyone=1.0)
    assert silent("RWD013", run, fewest=21)
