import pytest

from tests.builders import clear, only, run_of, skipped
from tests.rules.shapes import NAN, log_of, logged

SICK = (
    run_of(staleness_mean=[1.0] * 10 + [12.0] * 8),
    run_of(staleness_mean=[1.0] * 9 + [4.0] * 9),
)


@pytest.mark.parametrize(
    ("level", "told"),
    [
        pytest.param(7.9, False, id="below eight versions"),
        pytest.param(8.1, True, id="above eight versions"),
        pytest.param(NAN, False, id="NaN is no age"),
    ],
)
def test_more_than_eight_versions(level: float, told: bool) -> None:
    assert clear("MIS004", run_of(staleness_mean=[6.5] * 10 + [level] * 6)) is not told


@pytest.mark.parametrize(
    ("start", "level", "told"),
    [
        pytest.param(2.5, 4.9, False, id="less than twice its start"),
        pytest.param(2.5, 5.1, True, id="more than twice its start"),
        pytest.param(0.5, 2.4, False, id="less than two versions more"),
        pytest.param(0.5, 2.6, True, id="more than two versions more"),
    ],
)
def test_an_age_that_doubles(start: float, level: float, told: bool) -> None:
    assert clear("MIS004", run_of(staleness_mean=[start] * 10 + [level] * 10)) is not told


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        pytest.param(4, False, id="four rows are patience"),
        pytest.param(5, True, id="five rows are enough"),
    ],
)
def test_patience_counts_consecutive_rows(rows: int, told: bool) -> None:
    assert clear("MIS004", run_of(staleness_mean=[6.0] * 10 + [9.0] * rows)) is not told


def test_it_is_information_with_its_place() -> None:
    for run in SICK:
        finding = only("MIS004", run)
        assert finding.severity == "info"
        assert finding.onset is not None
        assert 8 <= finding.onset.step <= 12
        assert logged(finding.evidence[0], "staleness_mean", "versions")
    assert "12 weight versions old (1 at the start)" in only("MIS004", SICK[0]).message


def test_an_age_that_grows_from_zero_is_dated_where_it_grew() -> None:
    finding = only("MIS004", run_of(staleness_mean=[0.0] * 10 + [3.0] * 10))
    assert finding.onset is not None
    assert 9 <= finding.onset.step <= 11


def test_an_age_that_recovers() -> None:
    run = run_of(staleness_mean=[1.0] * 9 + [12.0] * 6 + [1.0] * 9)
    assert only("MIS004", run).recovered_at == 16


def test_zeros_throughout_were_never_computed() -> None:
    assert skipped("MIS004", run_of(staleness_mean=[0.0] * 20))


def test_another_count_is_never_judged() -> None:
    assert skipped("MIS004", log_of({"num_turns_mean": [50.0] * 20}))


def test_the_limits_can_be_set() -> None:
    run = run_of(staleness_mean=[4.0] * 20)
    assert clear("MIS004", run)
    assert not clear("MIS004", run, versions=3.0)
    grown = run_of(staleness_mean=[2.0] * 10 + [3.5] * 10)
    assert clear("MIS004", grown)
    assert clear("MIS004", grown, growth=1.5)
    assert not clear("MIS004", grown, growth=1.5, grown=1.0)
    assert clear("MIS004", run_of(staleness_mean=[1.0] * 10 + [12.0] * 6), patience=9)
