import pytest

from tests.builders import clear, judge, only, run_of, skipped
from tests.rules.shapes import NAN, halves, logged

EARLY = [0.1, 0.3] * 10
SICK = (run_of(frac_reward_zero_std=EARLY + [0.7, 0.9] * 10),)


@pytest.mark.parametrize(
    ("start", "level", "found"),
    [
        pytest.param(0.3, 0.51, True, id="from few groups to just more than half"),
        pytest.param(0.3, 0.5, False, id="to half of the groups itself"),
        pytest.param(0.49, 0.9, True, id="from just fewer than half"),
        pytest.param(0.5, 0.9, False, id="half of the groups from the start"),
        pytest.param(0.9, 0.2, False, id="from many to few"),
    ],
)
def test_groups_without_spread_become_the_majority(start: float, level: float, found: bool) -> None:
    run = run_of(frac_reward_zero_std=[start] * 20 + [level] * 20)
    assert clear("GRP002", run) is not found


@pytest.mark.parametrize(
    ("errors", "found"),
    [
        pytest.param(2.9, False, id="a change of 2.9 standard errors may be noise"),
        pytest.param(3.1, True, id="a change of 3.1 standard errors is a trend"),
    ],
)
def test_the_change_is_beyond_noise(errors: float, found: bool) -> None:
    values = halves(errors, rows=10, centre=0.45, spread=0.1)
    assert clear("GRP002", run_of(frac_reward_zero_std=values), share=0.46) is not found


@pytest.mark.parametrize(
    ("reward", "said"),
    [
        pytest.param([0.1] * 20 + [0.9] * 20, "the reward rises", id="it solves more"),
        pytest.param([0.1, 0.2] * 20, "the reward shows no clear rise", id="answers grow alike"),
        pytest.param([NAN] * 40, "the reward is not logged", id="nobody knows"),
    ],
)
def test_it_is_information_whatever_the_reward_does(reward: list[float], said: str) -> None:
    run = run_of(frac_reward_zero_std=[0.2] * 20 + [0.8] * 20, reward_raw_mean=reward)
    finding = only("GRP002", run)
    assert finding.severity == "info"
    assert said in finding.message
    assert finding.args["waste"] == pytest.approx(0.5)
    assert "50% of the answers" in finding.message


def test_it_is_dated_where_it_crosses_half() -> None:
    slope = [0.1] * 20 + [0.1 + 0.05 * index for index in range(1, 17)] + [0.9] * 8
    finding = only("GRP002", run_of(frac_reward_zero_std=slope))
    assert finding.onset is not None
    assert 18 <= finding.onset.step <= 29
    assert logged(finding.evidence[0], "frac_reward_zero_std", "fraction")
    assert "10% -> 90%" in finding.summary


def test_nan_is_never_above() -> None:
    assert clear("GRP002", run_of(frac_reward_zero_std=[0.1] * 20 + [NAN] * 20))
    assert skipped("GRP002", run_of(frac_reward_zero_std=[NAN] * 40))


def test_ten_rows_are_needed() -> None:
    assert skipped("GRP002", run_of(frac_reward_zero_std=[0.1] * 4 + [0.9] * 5))
    assert judge("GRP002", run_of(frac_reward_zero_std=[0.1] * 5 + [0.9] * 5))


def test_a_spread_is_never_judged() -> None:
    assert skipped("GRP002", run_of(reward_group_std=[0.1] * 20 + [0.9] * 20))


def test_the_limits_can_be_set() -> None:
    run = run_of(frac_reward_zero_std=[0.1] * 20 + [0.4] * 20)
    assert clear("GRP002", run)
    assert judge("GRP002", run, share=0.3)
