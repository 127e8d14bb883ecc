import pytest

from tests.builders import clear, judge, only, skipped
from tests.rules.shapes import NAN, log_of, logged

DIFFERENCE = "prob_diff_train_infer_mean"
FACTOR = "prob_mult_error_train_infer"
LOG_RATIO = "logp_diff_train_infer_mean"
CORRELATION = "prob_corr_train_infer"
CALM = {DIFFERENCE: 0.003, FACTOR: 1.01, LOG_RATIO: 0.01, CORRELATION: 0.999}
UNITS = {DIFFERENCE: "probability", FACTOR: "1", LOG_RATIO: "nats/token", CORRELATION: "1"}
SICK = tuple(
    log_of({metric: [CALM[metric]] * 10 + [level] * 8})
    for metric, level in {DIFFERENCE: 0.05, FACTOR: 1.5, LOG_RATIO: 0.4, CORRELATION: 0.2}.items()
)


@pytest.mark.parametrize(
    ("metric", "level", "expected"),
    [
        pytest.param(DIFFERENCE, 0.009, [], id="a difference below verl's bound"),
        pytest.param(DIFFERENCE, 0.011, ["info"], id="a difference above verl's bound"),
        pytest.param(DIFFERENCE, 0.019, ["info"], id="a difference below twice the bound"),
        pytest.param(DIFFERENCE, 0.021, ["warning"], id="a difference above twice the bound"),
        pytest.param(DIFFERENCE, NAN, [], id="a difference of NaN"),
        pytest.param(FACTOR, 1.04, [], id="a factor below NeMo-RL's bound"),
        pytest.param(FACTOR, 1.06, ["info"], id="a factor above NeMo-RL's bound"),
        pytest.param(FACTOR, 1.09, ["info"], id="a factor below 1.1"),
        pytest.param(FACTOR, 1.11, ["warning"], id="a factor above 1.1"),
        pytest.param(LOG_RATIO, 0.049, [], id="a log-ratio below a twentieth"),
        pytest.param(LOG_RATIO, 0.051, ["info"], id="a log-ratio above a twentieth"),
        pytest.param(LOG_RATIO, 0.099, ["info"], id="a log-ratio below a tenth"),
        pytest.param(LOG_RATIO, 0.101, ["warning"], id="a log-ratio above a tenth"),
        pytest.param(CORRELATION, 0.96, [], id="a high correlation"),
        pytest.param(CORRELATION, 0.94, ["info"], id="a lower correlation"),
        pytest.param(CORRELATION, 0.0, ["info"], id="no correlation"),
        pytest.param(CORRELATION, NAN, [], id="a correlation of NaN"),
    ],
)
def test_each_quantity_has_its_bounds(metric: str, level: float, expected: list[str]) -> None:
    outcome = judge("MIS002", log_of({metric: [CALM[metric]] * 10 + [level] * 6}))
    assert isinstance(outcome, list)
    assert [finding.severity for finding in outcome] == expected
    if expected:
        assert logged(outcome[0].evidence[0], metric, UNITS[metric])
        assert outcome[0].onset is not None
        assert 9 <= outcome[0].onset.step <= 11


@pytest.mark.parametrize(
    ("rows", "alarms"),
    [
        pytest.param(4, False, id="four rows are patience"),
        pytest.param(5, True, id="five rows are an alarm"),
    ],
)
def test_patience_counts_consecutive_rows(rows: int, alarms: bool) -> None:
    run = log_of({DIFFERENCE: [0.003] * 10 + [0.05] * rows})
    assert clear("MIS002", run) is not alarms


def test_every_logged_quantity_is_judged() -> None:
    columns = {DIFFERENCE: [0.05] * 8, FACTOR: [1.01] * 8, LOG_RATIO: [0.4] * 8}
    outcome = judge("MIS002", log_of(columns))
    assert isinstance(outcome, list)
    assert [finding.evidence[0].subject for finding in outcome] == [DIFFERENCE, LOG_RATIO]
    assert "mean difference 0.05, beyond 0.01 for 8 logged rows" in outcome[0].message


def test_a_stretch_that_recovers_is_information() -> None:
    finding = only("MIS002", log_of({FACTOR: [1.01] * 9 + [1.5] * 6 + [1.01] * 9}))
    assert finding.severity == "info"
    assert finding.recovered_at == 16


@pytest.mark.parametrize(
    "column",
    [
        pytest.param("prob_diff_train_infer_max", id="a largest difference"),
        pytest.param("logp_diff_train_infer_max", id="a largest log-ratio"),
        pytest.param("prob_diff_train_infer_std", id="a spread"),
    ],
)
def test_another_quantity_is_never_judged(column: str) -> None:
    assert skipped("MIS002", log_of({column: [50.0] * 20}))


def test_zeros_throughout_were_never_computed() -> None:
    assert skipped("MIS002", log_of({DIFFERENCE: [0.0] * 20}))


def test_the_limits_can_be_set() -> None:
    run = log_of({DIFFERENCE: [0.008] * 9})
    assert clear("MIS002", run)
    assert only("MIS002", run, difference=0.005).severity == "info"
    assert only("MIS002", run, difference=0.005, difference_fault=0.006).severity == "warning"
    assert clear("MIS002", run, difference=0.005, patience=10) is False
    assert only("MIS002", log_of({FACTOR: [1.03] * 9}), factor=1.02).severity == "info"
    assert only("MIS002", log_of({FACTOR: [1.07] * 9}), factor_fault=1.06).severity == "warning"
    assert only("MIS002", log_of({LOG_RATIO: [0.03] * 9}), log_ratio=0.02).severity == "info"
    run = log_of({LOG_RATIO: [0.08] * 9})
    assert only("MIS002", run, log_ratio_fault=0.07).severity == "warning"
    assert clear("MIS002", log_of({CORRELATION: [0.9] * 9}), correlation=0.8)
