import pytest

from tests.builders import clear, judge, only, run_of, skipped
from tests.rules.shapes import NAN, log_of, logged

SICK = (run_of(reward_raw_mean=[65.0] * 10, reward_shaped_mean=[64.0] * 10),)


@pytest.mark.parametrize(
    ("level", "found"),
    [
        pytest.param(20.0, False, id="twenty itself"),
        pytest.param(21.0, True, id="more than twenty"),
        pytest.param(-21.0, True, id="less than minus twenty"),
        pytest.param(-20.0, False, id="minus twenty itself"),
    ],
)
def test_scores_in_the_tens(level: float, found: bool) -> None:
    run = run_of(reward_raw_mean=[level] * 10, kl_penalty_reward=[-0.1] * 10)
    assert clear("RWD009", run) is not found


@pytest.mark.parametrize(
    ("column", "found"),
    [
        pytest.param("kl_penalty_reward", True, id="the penalty as a reward"),
        pytest.param("kl_penalty_reward_token", True, id="the penalty of a token as a reward"),
        pytest.param("reward_shaped_mean", True, id="the reward with the penalty"),
        pytest.param("kl_ref_token", False, id="a KL that may stand in the loss"),
    ],
)
def test_only_where_the_penalty_is_inside_the_reward(column: str, found: bool) -> None:
    run = log_of({column: [-0.1] * 10}, reward_raw_mean=[65.0] * 10)
    assert clear("RWD009", run) is not found


def test_the_configuration_may_say_so() -> None:
    inside = run_of(reward_raw_mean=[65.0] * 10, config={"kl_in_reward": True})
    assert judge("RWD009", inside)
    outside = run_of(reward_raw_mean=[65.0] * 10, config={"kl_in_reward": False})
    assert clear("RWD009", outside)


def test_it_is_information_with_the_median() -> None:
    run = run_of(reward_raw_mean=[-30.0] * 9 + [99.0], kl_penalty_reward=[-0.1] * 10)
    finding = only("RWD009", run)
    assert finding.severity == "info"
    assert finding.onset is None
    evidence = finding.evidence[0]
    assert logged(evidence, "reward_raw_mean", "reward")
    assert (evidence.limit_low, evidence.limit_high) == (-20.0, None)
    assert "-30 (median)" in finding.message
    assert "-30" in finding.summary


def test_a_reward_of_nan_is_not_judged() -> None:
    assert skipped("RWD009", run_of(reward_raw_mean=[NAN] * 10, kl_penalty_reward=[-0.1] * 10))


def test_the_limit_can_be_set() -> None:
    run = run_of(reward_raw_mean=[15.0] * 10, kl_penalty_reward=[-0.1] * 10)
    assert clear("RWD009", run)
    assert judge("RWD009", run, level=14.0)
