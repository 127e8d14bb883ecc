from collections.abc import Sequence
from typing import Any

import pytest

from tests.builders import clear, only, run_of, skipped
from tests.rules.shapes import NAN, logged

GROWN = [25.0] * 20 + [118.0] * 10
SICK = (run_of(step_time=GROWN),)


@pytest.mark.parametrize(
    ("times", "grows"),
    [
        pytest.param([25.0] * 30, False, id="steady"),
        pytest.param([25.0] * 20 + [99.0] * 10, False, id="less than four times"),
        pytest.param([25.0] * 20 + [101.0] * 10, True, id="more than four times"),
        pytest.param([400.0] + [25.0] * 29, False, id="a slow first row"),
        pytest.param([400.0] + [25.0] * 19 + [118.0] * 10, True, id="after a slow first row"),
        pytest.param([25.0] * 20 + [118.0] * 4 + [25.0] * 6, False, id="four slow rows"),
        pytest.param([25.0] * 20 + [118.0] * 5 + [25.0] * 6, True, id="five slow rows"),
        pytest.param([25.0] * 3 + [118.0] * 27, False, id="slow from the first rows on"),
        pytest.param([25.0] * 20 + [NAN] * 10, False, id="NaN is never above"),
        pytest.param([25.0, 25.0, 118.0] * 10, False, id="an evaluation every third step"),
    ],
)
def test_it_takes_several_rows_of_four_times_the_start(times: Sequence[float], grows: bool) -> None:
    assert clear("LOG005", run_of(step_time=times)) is not grows


def test_it_is_information_with_seconds() -> None:
    finding = only("LOG005", SICK[0])
    assert finding.severity == "info"
    assert logged(finding.evidence[0], "step_time", "s")
    assert finding.message == "step time 25 -> 118 s for 10 logged rows (10 steps)"
    assert finding.onset is not None
    assert 16 <= finding.onset.low <= finding.onset.high <= 25


def test_the_stage_that_grew_and_the_length_are_named() -> None:
    columns: dict[str, Any] = {
        "time_stage[gen]": [10.0] * 20 + [100.0] * 10,
        "time_stage[update_actor]": [8.0] * 20 + [11.0] * 10,
        "time_stage[reward]": [5.0] * 20 + [2.0] * 10,
        "time_stage[step]": [24.9] * 20 + [117.0] * 10,
        "response_length_mean": [300.0] * 20 + [2900.0] * 10,
    }
    assert only("LOG005", run_of(step_time=GROWN, **columns)).message.endswith(
        "; gen took 10 s, at the end 100 s; mean response length 300 -> 2900 tokens"
    )


@pytest.mark.parametrize(
    ("share", "named"),
    [pytest.param(0.94, True, id="a stage"), pytest.param(0.96, False, id="the step itself")],
)
def test_a_stage_that_is_the_whole_step_is_none(share: float, named: bool) -> None:
    stage: dict[str, Any] = {"time_stage[gen]": [share * value for value in GROWN]}
    assert ("gen took" in only("LOG005", run_of(step_time=GROWN, **stage)).message) is named


def test_zeros_and_short_logs_are_not_judged() -> None:
    assert skipped("LOG005", run_of(step_time=[0.0] * 30))
    assert skipped("LOG005", run_of(step_time=[25.0] * 5 + [118.0] * 5))
    assert only("LOG005", run_of(step_time=[25.0] * 6 + [118.0] * 5))
    assert clear("LOG005", run_of(step_time=[0.0] * 20 + [1.0] * 10))


@pytest.mark.parametrize(
    "limits",
    [pytest.param({"growth": 5.0}, id="growth"), pytest.param({"patience": 11}, id="rows")],
)
def test_the_limits_can_be_set(limits: dict[str, float]) -> None:
    assert clear("LOG005", SICK[0], **limits)


def test_the_share_of_a_whole_step_can_be_set() -> None:
    stage: dict[str, Any] = {"time_stage[gen]": GROWN}
    assert "gen took" in only("LOG005", run_of(step_time=GROWN, **stage), whole=1.1).message
