import pytest

from tests.builders import clear, judge, only, run_of, skipped
from tests.rules.shapes import NAN, logged

SICK = (run_of(reward_raw_mean=[0.8, 0.9] * 10 + [0.3, 0.4] * 10),)


def falling(effect: float, *, rows: int = 20, level: float = 10.0) -> list[float]:
    """Return rows of which the last fifth lies so many standard deviations below the others."""
    spread = (rows / (rows - 1)) ** 0.5
    wobble = [1.0, -1.0] * (rows // 2)
    return [level + value for _ in range(4) for value in wobble] + [
        level - effect * spread + value for value in wobble
    ]


@pytest.mark.parametrize(
    ("effect", "rows", "found"),
    [
        pytest.param(0.9, 100, False, id="less than one standard deviation, however sure"),
        pytest.param(1.1, 100, True, id="more than one standard deviation"),
        pytest.param(1.2, 20, False, id="less than four standard errors"),
        pytest.param(1.35, 20, True, id="more than four standard errors"),
    ],
)
def test_a_fall_is_sure_and_as_large_as_the_noise(effect: float, rows: int, found: bool) -> None:
    run = run_of(reward_raw_mean=falling(effect, rows=rows))
    assert clear("RWD008", run) is not found


@pytest.mark.parametrize(
    ("effect", "severity"),
    [
        pytest.param(1.9, "info", id="less than two standard deviations"),
        pytest.param(2.1, "critical", id="more than two standard deviations"),
    ],
)
def test_two_standard_deviations_are_a_fault(effect: float, severity: str) -> None:
    finding = only("RWD008", run_of(reward_raw_mean=falling(effect, rows=40, level=2.0)))
    assert finding.severity == severity
    assert finding.weak == "warning"


@pytest.mark.parametrize(
    ("level", "severity"),
    [
        pytest.param(0.81, "info", id="less than a fifth of the level is lost"),
        pytest.param(0.79, "critical", id="more than a fifth of the level is lost"),
    ],
)
def test_a_small_loss_is_none_however_smooth_the_reward(level: float, severity: str) -> None:
    run = run_of(reward_raw_mean=[1.0] * 40 + [level] * 10)
    assert only("RWD008", run).severity == severity


@pytest.mark.parametrize(
    ("level", "severity"),
    [
        pytest.param(0.61, "info", id="less than half of what was gained is lost"),
        pytest.param(0.59, "critical", id="more than half of what was gained is lost"),
        pytest.param(0.1, "critical", id="less is left than there was"),
    ],
)
def test_half_of_what_was_gained_must_be_lost(level: float, severity: str) -> None:
    run = run_of(reward_raw_mean=[0.2] * 10 + [0.5] * 10 + [1.0] * 20 + [level] * 10)
    assert only("RWD008", run).severity == severity


def test_it_is_told_and_dated_from_the_best_fifth_on() -> None:
    finding = only("RWD008", run_of(reward_raw_mean=[0.2] * 10 + [0.9] * 10 + [0.1] * 30))
    assert finding.onset is not None
    assert (finding.onset.low, finding.onset.step, finding.onset.high) == (11, 21, 50)
    evidence = finding.evidence[0]
    assert logged(evidence, "reward_raw_mean", "reward")
    assert evidence.observed == pytest.approx(0.1)
    assert "from 0.9 to 0.1" in finding.message
    assert "0.2 at the start" in finding.message
    assert "reward 0.9 -> 0.1" in finding.summary


@pytest.mark.parametrize(
    "values",
    [
        pytest.param([0.1, 0.2] * 10 + [0.8, 0.9] * 10, id="that rises"),
        pytest.param([0.5] * 40, id="that stays"),
        pytest.param([0.0] * 40, id="of zeros"),
        pytest.param([0.5] * 20 + [0.1] * 5 + [0.5] * 15, id="that came back"),
        pytest.param([0.5] * 20 + [NAN] * 20, id="of NaN at the end"),
    ],
)
def test_a_reward_is_clear(values: list[float]) -> None:
    assert clear("RWD008", run_of(reward_raw_mean=values))


@pytest.mark.parametrize(
    ("rows", "looks"),
    [
        pytest.param(9, False, id="nine rows are too few"),
        pytest.param(10, True, id="ten rows are enough"),
    ],
)
def test_ten_rows_are_needed(rows: int, looks: bool) -> None:
    assert skipped("RWD008", run_of(reward_raw_mean=[0.5] * rows)) is not looks


def test_the_reward_with_its_penalty_is_never_judged() -> None:
    assert skipped("RWD008", run_of(reward_shaped_mean=[0.9] * 20 + [0.1] * 20))


def test_the_limits_can_be_set() -> None:
    run = run_of(reward_raw_mean=[1.0] * 40 + [0.9] * 10)
    assert only("RWD008", run).severity == "info"
    assert only("RWD008", run, material=0.05).severity == "critical"
    peak = run_of(reward_raw_mean=[0.2] * 10 + [1.0] * 30 + [0.7] * 10)
    assert only("RWD008", peak, gain=0.3).severity == "critical"
    small = run_of(reward_raw_mean=falling(0.8, rows=100))
    assert judge("RWD008", small, effect=0.7)
    assert clear("RWD008", small, effect=0.7, standard_errors=9.0)
    assert (
        only("RWD008", run_of(reward_raw_mean=falling(1.5, rows=40, level=2.0)), large=1.4).severity
        == "critical"
    )
