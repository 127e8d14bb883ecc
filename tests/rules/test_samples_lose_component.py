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


def test_it_is_a_warning_that_names_both_parts() -> None:
    samples = earned((0.2, 0.5, 1.0), (0.6, 0.6, 0.0))
    finding = only("RWD013", run_of(samples=samples, log_offset=1))
    assert finding.severity == "warning"
    assert finding.onset is not None
    assert (finding.onset.low, finding.onset.step, finding.onset.high) == (12, 21, 21)
    assert sampled(finding.evidence[0], "samples.jsonl", "reward")
    assert finding.evidence[0].limit_low == pytest.approx(0.06)
    assert "now earns format (0.2 -> 1), and right is lost (0.6 -> 0)" in finding.message
    assert "format earned by all, right 0.6 -> 0" in finding.summary


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
