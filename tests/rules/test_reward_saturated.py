import pytest

from tests.builders import clear, judge, only, run_of, skipped
from tests.rules.shapes import NAN, halves, logged

UP = [0.1, 0.2] * 5 + [0.4, 0.5] * 5
SICK = (run_of(reward_raw_mean=UP + [0.8, 0.9] * 10),)


def test_a_reward_that_rose_and_stands_is_on_a_plateau() -> None:
    finding = only("RWD010", SICK[0])
    assert finding.severity == "info"
    assert logged(finding.evidence[0], "reward_raw_mean", "reward")
    assert (finding.evidence[0].first_step, finding.evidence[0].last_step) == (21, 40)
    assert "from 0.15 to 0.85" in finding.message
    assert "plateau at 0.85" in finding.summary


@pytest.mark.parametrize(
    ("errors", "found"),
    [
        pytest.param(1.9, True, id="less than two standard errors"),
        pytest.param(2.1, False, id="more than two standard errors"),
        pytest.param(-2.1, False, id="a fall is no plateau"),
    ],
)
def test_the_second_half_shows_no_trend(errors: float, found: bool) -> None:
    late = halves(errors, rows=20, centre=0.9, spread=0.01)
    early = [0.1, 0.2] * 10 + [0.4, 0.5] * 10
    assert clear("RWD010", run_of(reward_raw_mean=early + late)) is not found


@pytest.mark.parametrize(
    ("added", "found"),
    [
        pytest.param(0.06, True, id="less than a tenth of the gain"),
        pytest.param(0.10, False, id="more than a tenth of the gain"),
    ],
)
def test_the_second_half_adds_next_to_nothing(added: float, found: bool) -> None:
    late = [0.6, 1.0] * 5 + [0.6 + added, 1.0 + added] * 5
    assert clear("RWD010", run_of(reward_raw_mean=UP + late)) is not found


@pytest.mark.parametrize(
    ("errors", "found"),
    [
        pytest.param(3.9, False, id="a rise of less than four standard errors"),
        pytest.param(4.1, True, id="a rise of more than four standard errors"),
    ],
)
def test_the_reward_had_risen(errors: float, found: bool) -> None:
    values = halves(errors, rows=10, spread=1.0)
    early, late = values[:10], values[10:]
    run = run_of(reward_raw_mean=early + early + late + late)
    assert clear("RWD010", run) is not found


@pytest.mark.parametrize(
    "values",
    [
        pytest.param([0.01 * row for row in range(40)], id="that still rises"),
        pytest.param([0.5, 0.6] * 20, id="that never rose"),
        pytest.param([0.9, 0.8] * 10 + [0.1, 0.2] * 10, id="that fell"),
    ],
)
def test_a_reward_is_not_on_a_plateau(values: list[float]) -> None:
    assert clear("RWD010", run_of(reward_raw_mean=values))


def test_twenty_rows_are_needed() -> None:
    assert skipped("RWD010", run_of(reward_raw_mean=[0.1] * 19))
    assert clear("RWD010", run_of(reward_raw_mean=[0.1] * 20))
    assert skipped("RWD010", run_of(reward_raw_mean=[NAN] * 40))


def test_the_limits_can_be_set() -> None:
    assert clear("RWD010", SICK[0], standard_errors=99.0)
    late = [0.6, 1.0] * 5 + [0.7, 1.1] * 5
    assert judge("RWD010", run_of(reward_raw_mean=UP + late), share=0.5)
    assert clear("RWD010", run_of(reward_raw_mean=UP + late), share=0.5, hint=0.5)
