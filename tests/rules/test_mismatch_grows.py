import pytest

from tests.builders import clear, judge, only, run_of, skipped
from tests.rules.shapes import NAN, log_of, logged

START = [0.0004] * 10
SICK = (run_of(kl_train_infer_token=START + [0.03] * 8),)


@pytest.mark.parametrize(
    ("start", "level", "expected"),
    [
        pytest.param(0.0004, 0.0039, [], id="less than ten times its start"),
        pytest.param(0.0004, 0.0041, ["info"], id="more than ten times its start"),
        pytest.param(0.00001, 0.0009, [], id="below the floor of rounding"),
        pytest.param(0.00001, 0.0011, ["info"], id="above the floor of rounding"),
        pytest.param(0.0004, 0.0099, ["info"], id="below tinker's limit"),
        pytest.param(0.0004, 0.0101, ["warning"], id="above tinker's limit"),
        pytest.param(0.0004, -0.0101, ["warning"], id="a k1 estimate below zero"),
        pytest.param(0.0, 0.0101, ["warning"], id="from exactly the same weights"),
        pytest.param(0.0004, NAN, [], id="NaN never grows"),
    ],
)
def test_growth_from_its_own_start(start: float, level: float, expected: list[str]) -> None:
    outcome = judge("MIS005", run_of(kl_train_infer_token=[start] * 10 + [level] * 6))
    assert isinstance(outcome, list)
    assert [finding.severity for finding in outcome] == expected


@pytest.mark.parametrize(
    ("rows", "alarms"),
    [
        pytest.param(4, False, id="four rows are patience"),
        pytest.param(5, True, id="five rows are an alarm"),
    ],
)
def test_patience_counts_consecutive_rows(rows: int, alarms: bool) -> None:
    assert clear("MIS005", run_of(kl_train_infer_token=START + [0.03] * rows)) is not alarms


def test_the_start_is_the_first_five_rows() -> None:
    assert clear("MIS005", run_of(kl_train_infer_token=[0.0001] * 2 + [0.02] * 18))
    assert not clear("MIS005", run_of(kl_train_infer_token=[0.0001] * 3 + [0.02] * 17))


def test_it_is_dated_and_can_be_looked_up() -> None:
    finding = only("MIS005", SICK[0])
    assert finding.onset is not None
    assert 9 <= finding.onset.step <= 11
    assert logged(finding.evidence[0], "kl_train_infer_token", "nats/token")
    assert "grew from 0.0004 to 0.03 nats/token, more than 10 times" in finding.message


@pytest.mark.parametrize(
    "metric",
    [
        pytest.param("kl_train_infer_reverse_token", id="the other way round"),
        pytest.param("js_train_infer_token", id="Jensen-Shannon"),
    ],
)
def test_other_distances_of_the_same_pair(metric: str) -> None:
    finding = only("MIS005", log_of({metric: START + [0.03] * 8}))
    assert logged(finding.evidence[0], metric, "nats/token")


def test_growth_that_recovers_is_information() -> None:
    finding = only("MIS005", run_of(kl_train_infer_token=START + [0.03] * 6 + START))
    assert finding.severity == "info"
    assert finding.recovered_at == 17


@pytest.mark.parametrize(
    ("rows", "looks"),
    [
        pytest.param(9, False, id="nine rows are too few"),
        pytest.param(10, True, id="ten rows are enough"),
    ],
)
def test_ten_rows_are_needed(rows: int, looks: bool) -> None:
    assert skipped("MIS005", run_of(kl_train_infer_token=[0.0004] * rows)) is not looks


@pytest.mark.parametrize("column", ["kl_ref_token", "kl_old_token", "kl_unknown"])
def test_another_pair_is_never_judged(column: str) -> None:
    assert skipped("MIS005", log_of({column: START + [50.0] * 20}))


def test_the_limits_can_be_set() -> None:
    run = run_of(kl_train_infer_token=START + [0.003] * 6)
    assert clear("MIS005", run)
    assert only("MIS005", run, growth=5.0).severity == "info"
    assert only("MIS005", run, growth=5.0, fault=0.002).severity == "warning"
    assert clear("MIS005", run, growth=5.0, floor=0.004)
    assert clear("MIS005", run, growth=5.0, patience=7)
