import pytest

from rlhfdoctor.model import Run
from tests.builders import clear, only, run_of, skipped
from tests.rules.shapes import NAN, log_of, logged


def apart(late: float, *, rows: int = 10, variance: float = 0.25) -> Run:
    """A critic beside returns of 1 and a standard deviation of 0.5, by ``late`` in the end."""
    return run_of(
        value_mean=[9.0] * rows + [1.0 + late] * rows,
        return_mean=[1.0] * 2 * rows,
        return_var=[variance] * 2 * rows,
    )


SICK = (apart(0.9),)


@pytest.mark.parametrize(
    ("late", "told"),
    [
        pytest.param(0.49, False, id="less than a standard deviation"),
        pytest.param(0.51, True, id="more than a standard deviation"),
        pytest.param(-0.51, True, id="more than one below"),
    ],
)
def test_a_standard_deviation_of_the_returns(late: float, told: bool) -> None:
    assert clear("VAL004", apart(late)) is not told


@pytest.mark.parametrize(
    ("value", "told"),
    [
        pytest.param(1.4, False, id="less than a quarter of the range"),
        pytest.param(1.6, True, id="more than a quarter of the range"),
    ],
)
def test_a_quarter_of_the_range_stands_for_it(value: float, told: bool) -> None:
    run = run_of(
        value_mean=[value] * 20,
        return_mean=[1.0] * 20,
        return_max=[2.0] * 20,
        return_min=[0.0] * 20,
    )
    assert clear("VAL004", run) is not told


def test_it_is_information_with_its_place() -> None:
    finding = only("VAL004", SICK[0])
    assert finding.severity == "info"
    assert finding.onset is not None
    assert (finding.onset.low, finding.onset.step, finding.onset.high) == (1, 11, 11)
    assert logged(finding.evidence[0], "value_mean", "reward")
    assert "predicts 1.9 where the returns are 1" in finding.message
    assert "1.8 standard deviations" in finding.message


def test_a_critic_that_predicts_zero_is_judged() -> None:
    run = run_of(value_mean=[0.0] * 20, return_mean=[1.0] * 20, return_var=[0.25] * 20)
    assert only("VAL004", run).severity == "info"


@pytest.mark.parametrize(
    "columns",
    [
        pytest.param({}, id="no spread logged"),
        pytest.param({"return_max": [2.0] * 20}, id="half a range"),
        pytest.param({"return_var": [0.0] * 20}, id="returns without a spread"),
        pytest.param({"return_var": [NAN] * 20}, id="a spread of NaN"),
    ],
)
def test_without_a_spread_nothing_is_judged(columns: dict[str, list[float]]) -> None:
    values = {"value_mean": [9.0] * 20, "return_mean": [1.0] * 20}
    assert skipped("VAL004", log_of({**values, **columns}))


@pytest.mark.parametrize(
    ("rows", "looks"),
    [
        pytest.param(4, False, id="four rows in the second half are too few"),
        pytest.param(5, True, id="five rows in the second half are enough"),
    ],
)
def test_five_rows_of_the_second_half_are_needed(rows: int, looks: bool) -> None:
    spread = [None] * (20 - 2 * rows) + [0.25] * 2 * rows
    run = run_of(value_mean=[9.0] * 20, return_mean=[1.0] * 20, return_var=spread)
    assert skipped("VAL004", run) is not looks


def test_another_value_is_never_judged() -> None:
    columns = {"cost_value_mean": [9.0] * 20, "return_mean": [1.0] * 20, "return_var": [0.2] * 20}
    assert skipped("VAL004", log_of(columns))


def test_the_limits_can_be_set() -> None:
    assert not clear("VAL004", apart(0.4), deviations=0.5)
    assert clear("VAL004", apart(0.9), deviations=2.0)
    assert not clear("VAL004", apart(0.9), rows=10)
