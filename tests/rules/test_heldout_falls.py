import pytest

from tests.builders import clear, judge, only, run_of, skipped
from tests.rules.shapes import NAN, log_of, logged

UP = [0.1, 0.2] * 10 + [1.1, 1.2] * 10
DOWN = [0.60, 0.62] * 10 + [0.30, 0.32] * 10
NEVER = [0.0, 0.01] * 60
SICK = (run_of(reward_raw_mean=UP, heldout_score=DOWN),)


def test_a_reward_that_rises_while_held_out_scores_fall_is_over_optimised() -> None:
    finding = only("RWD004", run_of(reward_raw_mean=UP, heldout_score=DOWN))
    assert finding.severity == "critical"
    assert finding.weak == "warning"
    assert finding.signal == "reward"
    assert finding.onset is not None
    assert 1 <= finding.onset.low <= finding.onset.step <= finding.onset.high
    assert logged(finding.evidence[0], "reward_raw_mean", "reward")
    assert logged(finding.evidence[1], "heldout_score", "score")
    assert "from 0.15 to 1.15 while heldout_score falls (0.61 -> 0.31)" in finding.message
    assert "0.61 -> 0.31" in finding.summary


@pytest.mark.parametrize(
    "column",
    [
        pytest.param("heldout_score[math]", id="a held-out score of one set"),
        pytest.param("heldout_reward", id="a held-out reward"),
        pytest.param("success_rate", id="the share of solved tasks"),
        pytest.param("eval_reward_raw_mean", id="the reward of an evaluation"),
        pytest.param("eval_success_rate", id="the share of solved held-out tasks"),
    ],
)
def test_every_quantity_of_which_more_is_better_is_asked(column: str) -> None:
    assert judge("RWD004", log_of({column: DOWN}, reward_raw_mean=UP))


@pytest.mark.parametrize(
    "column",
    [
        pytest.param("eval_loss_total", id="a loss"),
        pytest.param("eval_response_length_mean", id="a length"),
        pytest.param("reward_component_mean[x]", id="a part of the reward"),
    ],
)
def test_what_may_fall_for_good_is_not_asked(column: str) -> None:
    assert skipped("RWD004", log_of({column: DOWN}, reward_raw_mean=UP))


@pytest.mark.parametrize(
    ("reward", "found"),
    [
        pytest.param(UP, True, id="that rises"),
        pytest.param([0.1, 0.2] * 20, False, id="that does not rise"),
        pytest.param(UP[::-1], False, id="that falls too"),
    ],
)
def test_the_training_reward_must_rise(reward: list[float], found: bool) -> None:
    assert clear("RWD004", run_of(reward_raw_mean=reward, heldout_score=DOWN)) is not found


@pytest.mark.parametrize(
    ("level", "found"),
    [
        pytest.param(0.49, False, id="less than a fifth of the best is lost"),
        pytest.param(0.47, True, id="more than a fifth of the best is lost"),
        pytest.param(NAN, False, id="NaN has not fallen"),
    ],
)
def test_a_fifth_of_the_best_must_be_lost(level: float, found: bool) -> None:
    score = [0.6] * 20 + [level] * 20
    assert clear("RWD004", run_of(reward_raw_mean=UP, heldout_score=score)) is not found


@pytest.mark.parametrize(
    ("spread", "found"),
    [
        pytest.param(0.14, True, id="more than two standard deviations"),
        pytest.param(0.16, False, id="less than two standard deviations"),
    ],
)
def test_the_fall_must_exceed_the_spread_of_evaluations(spread: float, found: bool) -> None:
    wobble = [spread, -spread] * 10
    score = [0.8 + w for w in wobble] + [0.49 + w for w in wobble]
    assert clear("RWD004", run_of(reward_raw_mean=UP, heldout_score=score)) is not found


@pytest.mark.parametrize(
    ("spread", "found"),
    [
        pytest.param(0.065, True, id="more than four standard errors"),
        pytest.param(0.085, False, id="less than four standard errors"),
    ],
)
def test_the_fall_must_exceed_the_noise_of_few_evaluations(spread: float, found: bool) -> None:
    wobble = [spread, -spread, 0.0, spread, -spread]
    score = [0.7 + value for value in wobble] + [0.5 + value for value in wobble]
    run = run_of(reward_raw_mean=[0.1, 0.2] * 2 + [1.1, 1.2] * 3, heldout_score=score)
    assert clear("RWD004", run) is not found


@pytest.mark.parametrize(
    ("others", "severity"),
    [
        pytest.param({"heldout_score[b]": UP}, "info", id="another rises"),
        pytest.param({"heldout_score[b]": [0.5, 0.6] * 20}, "critical", id="half of them stay"),
        pytest.param(
            {"heldout_score[b]": [0.5, 0.6] * 20, "heldout_score[c]": [0.5, 0.6] * 20},
            "info",
            id="most of them stay",
        ),
    ],
)
def test_half_of_the_held_out_quantities_must_fall_and_none_rise(
    others: dict[str, list[float]], severity: str
) -> None:
    run = log_of(others, reward_raw_mean=UP, **{"heldout_score[a]": DOWN})
    assert only("RWD004", run).severity == severity


def test_a_fall_from_a_peak_counts_too() -> None:
    score = [0.3, 0.32] * 8 + [0.7, 0.72] * 8 + [0.4, 0.42] * 4
    finding = only("RWD004", run_of(reward_raw_mean=UP, heldout_score=score))
    assert finding.onset is not None
    assert finding.onset.low >= 17
    assert "(0.71 -> 0.41)" in finding.message


@pytest.mark.parametrize(
    ("rows", "severity"),
    [
        pytest.param(48, "info", id="in the first rows the format comes first"),
        pytest.param(50, "warning", id="fifty rows are long enough"),
    ],
)
def test_a_task_that_nobody_solves_while_the_reward_rises(rows: int, severity: str) -> None:
    reward = [0.1, 0.2] * (rows // 4) + [0.9, 1.0] * (rows // 2 - rows // 4)
    run = run_of(reward_raw_mean=reward, success_rate=NEVER[:rows])
    finding = only("RWD004", run)
    assert finding.severity == severity
    assert "success_rate stays as good as 0" in finding.message
    assert finding.onset is not None
    assert finding.onset.step == 1


@pytest.mark.parametrize(
    ("rate", "found"),
    [
        pytest.param([0.0, 0.038] * 30, True, id="fewer than two in a hundred"),
        pytest.param([0.0, 0.042] * 30, False, id="more than two in a hundred"),
        pytest.param([0.0, 0.01] * 15 + [0.01, 0.03] * 15, False, id="some, and more of them"),
    ],
)
def test_hardly_ever_solved_and_never_more_often(rate: list[float], found: bool) -> None:
    reward = [0.1, 0.2] * 15 + [0.9, 1.0] * 15
    assert clear("RWD004", run_of(reward_raw_mean=reward, success_rate=rate)) is not found


@pytest.mark.parametrize(
    ("late", "found"),
    [
        pytest.param(0.002, True, id="a change of less than two standard errors"),
        pytest.param(0.0045, False, id="a change of more than two standard errors"),
    ],
)
def test_a_hint_that_tasks_are_solved_is_enough(late: float, found: bool) -> None:
    rate = [0.0, 0.01] * 15 + [late, 0.01 + late] * 15
    reward = [0.1, 0.2] * 15 + [0.9, 1.0] * 15
    assert clear("RWD004", run_of(reward_raw_mean=reward, success_rate=rate)) is not found


def test_a_score_of_zero_has_no_unit_that_says_it_is_none() -> None:
    assert clear("RWD004", run_of(reward_raw_mean=UP * 2, heldout_score=NEVER[:80]))


def test_a_little_more_reward_proves_no_proxy() -> None:
    reward = [0.1, 0.9] * 15 + [0.5, 1.4] * 15
    assert clear("RWD004", run_of(reward_raw_mean=reward, success_rate=NEVER[:60]))


@pytest.mark.parametrize(
    ("rows", "looks"),
    [
        pytest.param(9, False, id="nine evaluations are too few"),
        pytest.param(10, True, id="ten evaluations are enough"),
    ],
)
def test_ten_evaluations_are_needed(rows: int, looks: bool) -> None:
    run = run_of(reward_raw_mean=[0.5] * 20, heldout_score=[0.5] * rows + [None] * (20 - rows))
    assert skipped("RWD004", run) is not looks


def test_without_a_reward_or_a_held_out_score_nobody_can_look() -> None:
    assert skipped("RWD004", run_of(heldout_score=DOWN))
    assert skipped("RWD004", run_of(reward_raw_mean=UP))


def test_the_limits_can_be_set() -> None:
    run = run_of(reward_raw_mean=UP, heldout_score=DOWN)
    assert clear("RWD004", run, material=0.6)
    assert clear("RWD004", run, effect=99.0)
    assert clear("RWD004", run, standard_errors=200.0)
    assert judge("RWD004", run, fewest=40)
    rate = run_of(reward_raw_mean=UP, success_rate=NEVER[:40])
    assert only("RWD004", rate, rows=40).severity == "warning"
    assert clear("RWD004", rate, unsolved=0.001)
    assert clear("RWD004", rate, hint=0.0)
