import pytest

from tests.builders import clear, judge, only, run_of, skipped
from tests.rules.shapes import NAN, halves, log_of, logged

FEW = [0.02] * 10


@pytest.mark.parametrize(
    ("level", "alarms"),
    [
        pytest.param(0.5, False, id="half of the responses itself is not above it"),
        pytest.param(0.51, True, id="just more than half of the responses"),
        pytest.param(NAN, False, id="NaN is never above"),
    ],
)
def test_most_responses_are_cut(level: float, alarms: bool) -> None:
    assert clear("LEN003", run_of(truncation_rate=FEW + [level] * 6)) is not alarms


@pytest.mark.parametrize(
    ("rows_above", "alarms"),
    [
        pytest.param(4, False, id="four rows above the share are patience"),
        pytest.param(5, True, id="five rows above the share are an alarm"),
    ],
)
def test_patience_counts_consecutive_rows(rows_above: int, alarms: bool) -> None:
    assert clear("LEN003", run_of(truncation_rate=FEW + [0.9] * rows_above)) is not alarms


def test_an_explosion_is_dated_where_it_begins() -> None:
    rising = [min(0.02 + 0.08 * index, 1.0) for index in range(1, 21)]
    finding = only("LEN003", run_of(truncation_rate=[0.02] * 20 + rising))
    assert finding.severity == "critical"
    assert finding.onset is not None
    assert 19 <= finding.onset.step <= 21
    assert finding.onset.low <= finding.onset.step <= finding.onset.high
    assert logged(finding.evidence[0], "truncation_rate", "fraction")
    assert finding.evidence[0].limit_high == 0.5
    assert "100% of the responses are cut" in finding.message
    assert "(2% at the start)" in finding.message
    assert "100% of responses" in finding.summary


def test_a_stretch_that_recovers_is_information() -> None:
    finding = only("LEN003", run_of(truncation_rate=FEW + [0.9] * 6 + FEW))
    assert finding.severity == "info"
    assert finding.recovered_at == 17


def test_zeros_mean_that_no_response_was_cut() -> None:
    assert clear("LEN003", run_of(truncation_rate=[0.0] * 20))


def test_nan_throughout_is_not_judged() -> None:
    assert skipped("LEN003", run_of(truncation_rate=[NAN] * 20))


@pytest.mark.parametrize(
    ("rows", "looks"),
    [
        pytest.param(4, False, id="four rows are too few"),
        pytest.param(5, True, id="five rows are enough"),
    ],
)
def test_five_rows_are_needed(rows: int, looks: bool) -> None:
    assert skipped("LEN003", run_of(truncation_rate=[0.9] * rows)) is not looks


@pytest.mark.parametrize(
    ("start", "exploded"),
    [
        pytest.param(0.24, True, id="less than a quarter at the start"),
        pytest.param(0.25, False, id="a quarter at the start: the limit is low"),
    ],
)
def test_what_was_cut_from_the_start_did_not_explode(start: float, exploded: bool) -> None:
    run = run_of(truncation_rate=[start] * 10 + [0.9] * 10)
    assert clear("LEN003", run) is not exploded


@pytest.mark.parametrize(
    "column",
    [
        pytest.param("clip_frac", id="clipped ratios are not cut responses"),
        pytest.param("eval_truncation_rate", id="evaluation is not training"),
    ],
)
def test_another_fraction_is_never_judged(column: str) -> None:
    assert skipped("LEN003", log_of({column: FEW + [0.9] * 10}))


def test_the_limits_can_be_set() -> None:
    run = run_of(truncation_rate=FEW + [0.4] * 6)
    assert clear("LEN003", run)
    assert judge("LEN003", run, share=0.3)
    assert clear("LEN003", run, share=0.3, patience=7)
    assert clear("LEN003", run, share=0.3, start=0.01)


def test_a_rising_reward_does_not_excuse_an_explosion() -> None:
    reward = halves(9.0, centre=50.0)
    run = run_of(truncation_rate=[0.02] * 10 + [1.0] * 10, reward_raw_mean=reward)
    assert only("LEN003", run).severity == "critical"
