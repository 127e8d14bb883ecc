import pytest

from tests.builders import clear, only, run_of, skipped
from tests.rules.shapes import NAN, log_of, logged

START = [100.0] * 10


@pytest.mark.parametrize(
    ("level", "drifts"),
    [
        pytest.param(150.0, False, id="half longer and no more"),
        pytest.param(150.1, True, id="just more than half longer"),
        pytest.param(66.7, False, id="just less than a third shorter"),
        pytest.param(66.6, True, id="just more than a third shorter"),
    ],
)
def test_a_drift_is_a_factor_of_one_and_a_half(level: float, drifts: bool) -> None:
    run = run_of(response_length_mean=START + [level] * 10)
    assert clear("LEN002", run) is not drifts


@pytest.mark.parametrize(
    ("between", "drifts"),
    [
        pytest.param(113.0, False, id="halves 3.9 standard errors apart are noise"),
        pytest.param(116.0, True, id="halves 4.1 standard errors apart are a drift"),
    ],
)
def test_the_halves_differ_by_four_standard_errors(between: float, drifts: bool) -> None:
    run = run_of(response_length_mean=START + [between] * 5 + [200.0] * 5)
    assert clear("LEN002", run) is not drifts


@pytest.mark.parametrize(
    "level", [pytest.param(300.0, id="a growth"), pytest.param(20.0, id="a shrinkage")]
)
def test_a_drift_is_information_without_an_onset(level: float) -> None:
    finding = only("LEN002", run_of(response_length_mean=START + [level] * 10))
    assert finding.severity == "info"
    assert finding.onset is None
    evidence = finding.evidence[0]
    assert logged(evidence, "response_length_mean", "tokens")
    assert evidence.observed == level
    assert (evidence.first_step, evidence.last_step) == (1, 20)
    assert f"from 100 to {level:g} tokens" in finding.message
    assert f"100 -> {level:g}" in finding.summary


@pytest.mark.parametrize(
    "values",
    [
        pytest.param([0.0] * 10 + START, id="a start of zero has no factor"),
        pytest.param([100.0] * 20, id="a constant length"),
        pytest.param(START + [NAN] * 10, id="NaN is no drift"),
        pytest.param(START + [300.0] * 5 + [100.0] * 5, id="a stretch that recovered"),
    ],
)
def test_what_does_not_drift_is_not_told(values: list[float]) -> None:
    assert clear("LEN002", run_of(response_length_mean=values))


@pytest.mark.parametrize(
    "value", [pytest.param(0.0, id="zeros throughout"), pytest.param(NAN, id="NaN throughout")]
)
def test_what_was_never_computed_is_not_judged(value: float) -> None:
    assert skipped("LEN002", run_of(response_length_mean=[value] * 20))


@pytest.mark.parametrize(
    ("rows", "looks"),
    [
        pytest.param(9, False, id="nine rows are too few"),
        pytest.param(10, True, id="ten rows are enough"),
    ],
)
def test_ten_rows_are_needed(rows: int, looks: bool) -> None:
    assert skipped("LEN002", run_of(response_length_mean=[100.0] * rows)) is not looks


@pytest.mark.parametrize(
    "column",
    [
        pytest.param("response_length_max", id="the longest response is no mean"),
        pytest.param("eval_response_length_mean", id="evaluation is not training"),
    ],
)
def test_another_column_is_never_judged(column: str) -> None:
    assert skipped("LEN002", log_of({column: START + [900.0] * 10}))


def test_the_limits_can_be_set() -> None:
    run = run_of(response_length_mean=START + [125.0] * 5 + [130.0] * 5)
    assert clear("LEN002", run)
    assert not clear("LEN002", run, factor=1.2)
    assert clear("LEN002", run, factor=1.2, standard_errors=200.0)
