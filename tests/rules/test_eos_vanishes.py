import pytest

from tests.builders import clear, judge, only, run_of, skipped
from tests.rules.shapes import NAN, logged

START = [40.0] * 10


@pytest.mark.parametrize(
    ("level", "alarms"),
    [
        pytest.param(10.0, False, id="a quarter of the start itself is not below it"),
        pytest.param(9.9, True, id="just below a quarter of the start"),
        pytest.param(0.0, True, id="none at all"),
        pytest.param(NAN, False, id="NaN is never below"),
    ],
)
def test_vanished_means_below_a_quarter_of_the_start(level: float, alarms: bool) -> None:
    run = run_of(num_eos_tokens=START + [level] * 6)
    assert clear("LEN004", run) is not alarms


@pytest.mark.parametrize(
    ("rows_below", "alarms"),
    [
        pytest.param(4, False, id="four rows below the floor are patience"),
        pytest.param(5, True, id="five rows below the floor are an alarm"),
    ],
)
def test_patience_counts_consecutive_rows(rows_below: int, alarms: bool) -> None:
    run = run_of(num_eos_tokens=START + [1.0] * rows_below)
    assert clear("LEN004", run) is not alarms


def test_it_is_critical_and_dated_where_the_fall_begins() -> None:
    falling = [max(40.0 - 4.0 * index, 0.0) for index in range(1, 21)]
    finding = only("LEN004", run_of(num_eos_tokens=[40.0] * 20 + falling))
    assert finding.severity == "critical"
    assert finding.onset is not None
    assert 19 <= finding.onset.step <= 21
    assert finding.onset.low <= finding.onset.step <= finding.onset.high
    assert logged(finding.evidence[0], "num_eos_tokens", "responses/batch")
    assert finding.evidence[0].limit_low == 10.0
    assert "fall from 40 to 0 responses/batch" in finding.message
    assert "40 -> 0" in finding.summary


def test_a_dip_that_recovers_is_information() -> None:
    finding = only("LEN004", run_of(num_eos_tokens=START + [1.0] * 6 + START))
    assert finding.severity == "info"
    assert finding.recovered_at == 17


def test_a_rate_is_preferred_to_a_count() -> None:
    run = run_of(eos_rate=[0.8] * 20, num_eos_tokens=START + [1.0] * 10)
    assert clear("LEN004", run)
    finding = only("LEN004", run_of(eos_rate=[0.8] * 10 + [0.1] * 10))
    assert logged(finding.evidence[0], "eos_rate", "fraction")


def test_a_rate_of_zeros_does_not_hide_the_count() -> None:
    run = run_of(eos_rate=[0.0] * 20, num_eos_tokens=START + [1.0] * 10)
    assert only("LEN004", run).evidence[0].subject == "num_eos_tokens"


@pytest.mark.parametrize(
    "values",
    [
        pytest.param([0.0] * 20, id="zeros throughout were never counted"),
        pytest.param([0.0] * 5 + [3.0] * 15, id="none at the start"),
        pytest.param([NAN] * 20, id="NaN throughout"),
    ],
)
def test_where_nothing_can_vanish_nothing_is_judged(values: list[float]) -> None:
    assert skipped("LEN004", run_of(num_eos_tokens=values))


@pytest.mark.parametrize(
    ("rows", "looks"),
    [
        pytest.param(7, False, id="seven rows are too few"),
        pytest.param(8, True, id="eight rows are enough"),
    ],
)
def test_eight_rows_are_needed(rows: int, looks: bool) -> None:
    assert skipped("LEN004", run_of(num_eos_tokens=[40.0] * rows)) is not looks


def test_another_column_is_never_judged() -> None:
    assert skipped("LEN004", run_of(truncation_rate=[0.8] * 10 + [0.0] * 10))


def test_the_limits_can_be_set() -> None:
    run = run_of(num_eos_tokens=START + [20.0] * 6)
    assert clear("LEN004", run)
    assert judge("LEN004", run, fall=0.6)
    assert clear("LEN004", run, fall=0.6, patience=7)
