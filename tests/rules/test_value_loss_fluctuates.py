from dataclasses import replace

import pytest

from rlhfdoctor.model import Run
from tests.builders import Values, clear, judge, only, run_of, skipped
from tests.rules.shapes import NAN, log_of, logged

CALM = [0.1, 0.12, 0.08, 0.1] * 5
GROWN = CALM + [4.0] * 10
SICK = (run_of(value_loss=GROWN, return_var=[0.2] * 30),)


def severities(run: Run, **limits: float) -> list[str]:
    outcome = judge("VAL002", run, **limits)
    assert isinstance(outcome, list)
    return [finding.severity for finding in outcome]


@pytest.mark.parametrize(
    ("level", "expected"),
    [
        pytest.param(0.95, [], id="less than ten times the start"),
        pytest.param(1.05, ["warning"], id="more than ten times the start"),
        pytest.param(NAN, [], id="NaN never grows"),
    ],
)
def test_growth_is_tenfold(level: float, expected: list[str]) -> None:
    assert severities(run_of(value_loss=CALM + [level] * 10, return_var=[0.2] * 30)) == expected


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        pytest.param(4, ["info"], id="four rows are a leap"),
        pytest.param(5, ["warning"], id="five rows to the end are growth"),
    ],
)
def test_growth_stays_for_five_rows(rows: int, expected: list[str]) -> None:
    loss = CALM + [4.0] * rows
    assert severities(run_of(value_loss=loss, return_var=[0.2] * len(loss))) == expected


@pytest.mark.parametrize(
    ("metric", "values", "severity"),
    [
        pytest.param("return_var", [1.9] * 30, "warning", id="returns that vary less than half"),
        pytest.param("return_var", [2.1] * 30, "info", id="returns that vary as much"),
        pytest.param("return_var", [0.1] * 20 + [9.0] * 10, "info", id="returns that grew too"),
        pytest.param("explained_variance", [-0.6] * 30, "warning", id="a critic far off"),
        pytest.param("explained_variance", [-0.4] * 30, "info", id="a critic not so far off"),
        pytest.param("explained_variance", [0.8] * 30, "info", id="a critic that follows"),
        pytest.param("return_mean", [0.1] * 30, "info", id="nothing that tells"),
    ],
)
def test_growth_is_a_fault_where_the_returns_do_not_explain_it(
    metric: str, values: Values, severity: str
) -> None:
    assert severities(log_of({"value_loss": GROWN, metric: values})) == [severity]


def test_four_rows_of_returns_tell_nothing() -> None:
    run = run_of(value_loss=GROWN, return_var=[None] * 26 + [0.2] * 4)
    assert severities(run) == ["info"]


def test_a_leap_is_information_and_recovers() -> None:
    finding = only("VAL002", run_of(value_loss=[*CALM, 4.0, *CALM], return_var=[0.1] * 41))
    assert finding.severity == "info"
    assert finding.recovered_at == 22
    assert finding.onset is not None
    assert finding.onset.step == 21
    assert "leaps to more than 10 times its usual 0.1: 1 of 41 logged rows" in finding.message
    assert only("VAL002", run_of(value_loss=[*CALM, 4.0])).recovered_at is None


def test_it_is_dated_and_can_be_looked_up() -> None:
    finding = only("VAL002", SICK[0])
    assert finding.onset is not None
    assert 19 <= finding.onset.step <= 21
    assert logged(finding.evidence[0], "value_loss", "reward^2")
    assert finding.message.endswith("the returns' variance is 0.2")
    assert finding.summary == "value loss 0.1 -> 4"


@pytest.mark.parametrize(
    "loss",
    [
        pytest.param([20.0, 5.0, 1.0, 0.5, 0.2] + [0.05] * 30, id="a loss that falls"),
        pytest.param(CALM, id="a calm loss"),
        pytest.param([-0.1] * 10 + [5.0] * 10, id="a loss that began below zero has no scale"),
    ],
)
def test_what_does_not_grow_is_clear(loss: list[float]) -> None:
    assert clear("VAL002", run_of(value_loss=loss, return_var=[0.01] * len(loss)))


def test_a_key_that_no_framework_owns_is_information() -> None:
    assert severities(replace(SICK[0], dialect="generic")) == ["info"]


@pytest.mark.parametrize(
    ("rows", "looks"),
    [
        pytest.param(9, False, id="nine rows are too few"),
        pytest.param(10, True, id="ten rows are enough"),
    ],
)
def test_ten_rows_are_needed(rows: int, looks: bool) -> None:
    assert skipped("VAL002", run_of(value_loss=[0.1] * rows)) is not looks


@pytest.mark.parametrize("column", ["value_loss_sum", "policy_loss", "cost_value_loss"])
def test_another_loss_is_never_judged(column: str) -> None:
    assert skipped("VAL002", log_of({column: GROWN, "return_var": [0.2] * 30}))


def test_the_limits_can_be_set() -> None:
    run = run_of(value_loss=CALM + [0.6] * 10, return_var=[0.2] * 30)
    assert clear("VAL002", run)
    assert severities(run, times=5.0) == ["warning"]
    assert severities(run, times=5.0, variances=4.0) == ["info"]
    grown = log_of({"value_loss": GROWN, "explained_variance": [-0.4] * 30})
    assert severities(grown, below_zero=0.3) == ["warning"]
    assert clear("VAL002", SICK[0], rows=11)
