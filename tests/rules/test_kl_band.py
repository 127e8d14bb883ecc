import pytest

from tests.builders import clear, only, run_of, skipped
from tests.rules.shapes import NAN, log_of, logged


@pytest.mark.parametrize(
    ("level", "outside"),
    [
        pytest.param(0.49, True, id="just below the band"),
        pytest.param(0.5, False, id="the lower edge belongs to the band"),
        pytest.param(3.0, False, id="the upper edge belongs to the band"),
        pytest.param(3.01, True, id="just above the band"),
        pytest.param(-1.0, True, id="a negative estimate is below the band"),
    ],
)
def test_the_band_includes_its_edges(level: float, outside: bool) -> None:
    assert clear("KL001", run_of(kl_ref_response=[level] * 20)) is not outside


@pytest.mark.parametrize(
    ("rows_outside", "outside"),
    [
        pytest.param(4, False, id="four of the last ten rows are a minority"),
        pytest.param(6, True, id="six of the last ten rows are the majority"),
    ],
)
def test_the_median_of_the_last_ten_rows_is_judged(rows_outside: int, outside: bool) -> None:
    run = run_of(kl_ref_response=[1.0] * 24 + [9.0] * rows_outside)
    assert clear("KL001", run) is not outside


def test_it_is_information_about_the_end_and_has_no_onset() -> None:
    finding = only("KL001", run_of(kl_ref_response=[1.0] * 10 + [6.0] * 15))
    assert finding.severity == "info"
    assert finding.onset is None
    assert logged(finding.evidence[0], "kl_ref_response", "nats/response")
    assert (finding.evidence[0].limit_low, finding.evidence[0].limit_high) == (0.5, 3.0)
    assert (finding.evidence[0].first_step, finding.evidence[0].last_step) == (16, 25)
    assert "ends at 6 nats/response" in finding.message
    assert "band 0.5-3" in finding.summary


@pytest.mark.parametrize(
    "values",
    [
        pytest.param([9.0] * 10 + [1.0] * 10, id="a run that came back ends inside"),
        pytest.param([1.0] * 10 + [NAN] * 10, id="NaN is neither above nor below"),
        pytest.param([0.0] * 10 + [1.0] * 10, id="zeros of the first rows do not count"),
    ],
)
def test_only_the_end_counts(values: list[float]) -> None:
    assert clear("KL001", run_of(kl_ref_response=values))


@pytest.mark.parametrize(
    "value", [pytest.param(0.0, id="zeros throughout"), pytest.param(NAN, id="NaN throughout")]
)
def test_what_was_never_computed_is_not_judged(value: float) -> None:
    assert skipped("KL001", run_of(kl_ref_response=[value] * 20))


@pytest.mark.parametrize(
    ("rows", "looks"),
    [
        pytest.param(9, False, id="nine rows are too few"),
        pytest.param(10, True, id="ten rows are enough"),
    ],
)
def test_ten_rows_are_needed(rows: int, looks: bool) -> None:
    assert skipped("KL001", run_of(kl_ref_response=[9.0] * rows)) is not looks


@pytest.mark.parametrize(
    "column",
    [
        pytest.param("kl_ref_token", id="kl_ref_token is another quantity"),
        pytest.param("kl_unknown", id="kl_unknown is another quantity"),
        pytest.param("kl_old_token", id="kl_old_token is another quantity"),
    ],
)
def test_another_unit_is_never_judged(column: str) -> None:
    assert skipped("KL001", log_of({column: [50.0] * 20}))


def test_the_limits_can_be_set() -> None:
    run = run_of(kl_ref_response=[4.0] * 20)
    assert not clear("KL001", run)
    assert clear("KL001", run, low=1.0, high=5.0)
    assert not clear("KL001", run, low=4.5, high=5.0)
    assert clear("KL001", run_of(kl_ref_response=[4.0] * 9 + [1.0] * 3), rows=3)
