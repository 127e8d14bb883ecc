import pytest

from tests.builders import clear, judge, only, run_of, skipped
from tests.rules.shapes import NAN, log_of, logged


@pytest.mark.parametrize(
    ("share", "dead"),
    [
        pytest.param(0.98, False, id="a few groups still differ"),
        pytest.param(0.99, True, id="hardly any group differs"),
        pytest.param(1.0, True, id="no group differs"),
        pytest.param(0.0, False, id="zeros: every group differs"),
    ],
)
def test_a_row_is_dead_from_99_percent_of_the_groups(share: float, dead: bool) -> None:
    assert clear("GRP001", run_of(frac_reward_zero_std=[share] * 20)) is not dead


@pytest.mark.parametrize(
    ("spread", "dead"),
    [
        pytest.param(0.0, True, id="no spread at all"),
        pytest.param(0.9e-5, True, id="float rounding is no spread"),
        pytest.param(1e-5, False, id="the limit itself is a spread"),
    ],
)
def test_a_spread_below_float_noise_is_none(spread: float, dead: bool) -> None:
    assert clear("GRP001", run_of(reward_group_std=[spread] * 20)) is not dead


@pytest.mark.parametrize(
    ("alive", "severity", "alone"),
    [
        pytest.param(1, "critical", True, id="19 rows of 20 are the whole run"),
        pytest.param(2, "warning", False, id="18 rows of 20 are its end"),
    ],
)
def test_the_whole_run_means_95_percent_of_its_rows(alive: int, severity: str, alone: bool) -> None:
    run = run_of(frac_reward_zero_std=[0.1] * alive + [1.0] * (20 - alive))
    finding = only("GRP001", run)
    assert finding.severity == severity
    assert finding.alone is alone


@pytest.mark.parametrize(
    ("rows_dead", "found"),
    [
        pytest.param(9, False, id="nine dead rows at the end are patience"),
        pytest.param(10, True, id="ten dead rows at the end are a finding"),
    ],
)
def test_patience_counts_the_dead_rows_at_the_end(rows_dead: int, found: bool) -> None:
    run = run_of(frac_reward_zero_std=[0.1] * 20 + [1.0] * rows_dead)
    assert clear("GRP001", run) is not found


@pytest.mark.parametrize(
    ("alive", "found"),
    [
        pytest.param(9, True, id="nine rows that differ are no recovery"),
        pytest.param(10, False, id="ten rows that differ are a recovery"),
    ],
)
def test_groups_that_came_alive_again_are_clear(alive: int, found: bool) -> None:
    run = run_of(frac_reward_zero_std=[0.1] * 9 + [1.0] * 20 + [0.1] * alive)
    assert clear("GRP001", run) is not found


def test_throughout_it_stands_alone_from_the_first_dead_row() -> None:
    run = run_of(frac_reward_zero_std=[0.1] + [1.0] * 29, reward_raw_mean=[0.25] * 30)
    finding = only("GRP001", run)
    assert finding.severity == "critical"
    assert finding.alone
    assert finding.onset is not None
    assert (finding.onset.low, finding.onset.step, finding.onset.high) == (1, 2, 2)
    assert logged(finding.evidence[0], "frac_reward_zero_std", "fraction")
    assert finding.evidence[0].limit_high == 0.99
    assert "29 of 30 logged rows" in finding.message
    assert "median reward 0.25" in finding.message
    assert "no reward spread" in finding.summary


@pytest.mark.parametrize(
    ("reward", "severity"),
    [
        pytest.param([0.1] * 20 + [0.9] * 12, "info", id="a reward that rose was solved"),
        pytest.param([0.9] * 20 + [0.1] * 12, "warning", id="a reward that fell was not"),
        pytest.param([0.5] * 32, "warning", id="a reward that stayed was not"),
        pytest.param([NAN] * 32, "warning", id="a reward of NaN did not rise"),
    ],
)
def test_at_the_end_the_reward_decides(reward: list[float], severity: str) -> None:
    run = run_of(frac_reward_zero_std=[0.1] * 20 + [1.0] * 12, reward_raw_mean=reward)
    finding = only("GRP001", run)
    assert finding.severity == severity
    assert not finding.alone
    assert finding.onset is not None
    assert (finding.onset.low, finding.onset.step, finding.onset.high) == (21, 21, 21)
    assert "12 of 32 logged rows" in finding.message


@pytest.mark.parametrize(
    "columns",
    [
        pytest.param({}, id="without the column"),
        pytest.param({"reward_raw_mean": [NAN] * 20}, id="where it is NaN throughout"),
    ],
)
def test_a_reward_that_is_not_there_is_not_told(columns: dict[str, list[float]]) -> None:
    finding = only("GRP001", log_of(columns, frac_reward_zero_std=[1.0] * 20))
    assert "median reward not logged" in finding.message


def test_the_share_of_groups_is_preferred_to_their_spread() -> None:
    run = run_of(frac_reward_zero_std=[0.0] * 20, reward_group_std=[0.0] * 20)
    assert clear("GRP001", run)


@pytest.mark.parametrize(
    "values",
    [
        pytest.param([1e-7] * 20, id="throughout"),
        pytest.param([0.2] * 20 + [1e-7] * 12, id="at the end"),
    ],
)
def test_a_spread_is_told_in_rewards_below_the_float_noise(values: list[float]) -> None:
    evidence = only("GRP001", run_of(reward_group_std=values)).evidence[0]
    assert logged(evidence, "reward_group_std", "reward")
    assert evidence.observed == pytest.approx(1e-7)
    assert (evidence.limit_low, evidence.limit_high) == (1e-5, None)


def test_at_the_end_the_share_is_told_above_its_limit() -> None:
    evidence = only("GRP001", run_of(frac_reward_zero_std=[0.1] * 20 + [1.0] * 12)).evidence[0]
    assert logged(evidence, "frac_reward_zero_std", "fraction")
    assert evidence.observed == 1.0
    assert (evidence.limit_low, evidence.limit_high) == (None, 0.99)
    assert (evidence.first_step, evidence.last_step) == (21, 32)


def test_the_median_of_the_reward_is_told() -> None:
    run = run_of(frac_reward_zero_std=[1.0] * 20, reward_raw_mean=[0.1] * 11 + [9.0] * 9)
    assert "median reward 0.1" in only("GRP001", run).message


@pytest.mark.parametrize("rows", [1, 4, 5])
def test_one_live_row_says_that_some_group_has_spread(rows: int) -> None:
    assert clear("GRP001", run_of(frac_reward_zero_std=[1.0] * (rows - 1) + [0.5]))


@pytest.mark.parametrize(
    ("rows", "severity"),
    [
        pytest.param(1, "warning", id="a single dead row is all there is"),
        pytest.param(4, "warning", id="four dead rows"),
        pytest.param(5, "critical", id="five dead rows are a run"),
    ],
)
def test_a_short_log_that_is_dead_throughout_is_a_warning(rows: int, severity: str) -> None:
    finding = only("GRP001", run_of(frac_reward_zero_std=[1.0] * rows, grad_norm=[0.0] * rows))
    assert finding.severity == severity
    assert finding.onset is not None
    assert finding.onset.step == 1


@pytest.mark.parametrize(
    ("norm", "found"),
    [
        pytest.param([0.0, 0.0], True, id="a gradient norm of zero"),
        pytest.param([NAN, NAN], True, id="no finite gradient norm"),
        pytest.param([0.0, 0.3], False, id="a gradient that something else made"),
    ],
)
def test_a_short_log_must_not_learn_from_anything_else(norm: list[float], found: bool) -> None:
    run = run_of(reward_group_std=[0.0, 0.0], grad_norm=norm)
    assert skipped("GRP001", run) is not found


@pytest.mark.parametrize(
    ("dead", "rows", "found"),
    [
        pytest.param(14, 20, True, id="two thirds of the rows of either half"),
        pytest.param(12, 20, False, id="fewer than two thirds"),
        pytest.param(6, 9, False, id="too few rows in either half"),
    ],
)
def test_a_run_that_earns_nothing_may_be_dead_in_most_rows(
    dead: int, rows: int, found: bool
) -> None:
    half = [1.0, 0.5] * ((rows - dead) // 2) + [1.0] * (dead // 2 - (rows - dead) // 2)
    reward = [0.0, 0.2] * ((rows - dead) // 2) + [0.0] * (dead // 2 - (rows - dead) // 2)
    run = run_of(frac_reward_zero_std=half * 2, reward_raw_mean=reward * 2)
    assert clear("GRP001", run) is not found
    if found:
        finding = only("GRP001", run)
        assert finding.severity == "warning"
        assert finding.onset is not None
        assert finding.onset.step == 1
        assert f"{dead} of {rows} logged rows" in finding.message
        assert "the reward stays at its least" in finding.message


@pytest.mark.parametrize(
    "reward",
    [
        pytest.param([0.0] * 11 + [1.0] * 9, id="that rises"),
        pytest.param([0.1, 0.2, 0.3, 0.4, 0.5] * 4, id="that moves"),
        pytest.param([NAN] * 20, id="that is not there"),
    ],
)
def test_mostly_dead_rows_are_clear_beside_a_reward(reward: list[float]) -> None:
    spread = [1.0, 1.0, 1.0, 1.0, 0.5] * 4
    assert clear("GRP001", run_of(frac_reward_zero_std=spread, reward_raw_mean=reward))


def test_rows_that_die_late_are_no_run_that_was_dead_throughout() -> None:
    spread = [0.5] * 8 + [1.0] * 2 + [1.0, 1.0, 1.0, 1.0, 0.5] * 2
    assert clear("GRP001", run_of(frac_reward_zero_std=spread, reward_raw_mean=[0.0] * 20))


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        pytest.param(
            {"reward_raw_mean": [0.0] * 20}, "the reward stays at its least", id="never a reward"
        ),
        pytest.param(
            {"reward_raw_mean": [-1.0] * 20}, "the reward stays at its least", id="a failing reward"
        ),
        pytest.param(
            {"reward_raw_mean": [-1.0] * 9 + [0.0] * 11}, "everything", id="the penalty is gone"
        ),
        pytest.param({"reward_raw_mean": [3.0] * 20}, "not to be told", id="one reward"),
        pytest.param(
            {"reward_raw_mean": [0.1] * 20, "reward_max": [1.0] * 20, "reward_min": [0.0] * 20},
            "the reward stays at its least",
            id="near the lowest reward that was logged",
        ),
        pytest.param(
            {"reward_raw_mean": [0.9] * 20, "reward_max": [1.0] * 20, "reward_min": [0.0] * 20},
            "everything is earned",
            id="near the highest reward that was logged",
        ),
        pytest.param(
            {"reward_raw_mean": [0.5] * 20, "reward_max": [1.0] * 20, "reward_min": [0.0] * 20},
            "neither solved nor hopeless",
            id="between the two",
        ),
        pytest.param({"reward_raw_mean": [NAN] * 20}, "not to be told", id="no reward"),
    ],
)
def test_too_hard_too_easy_or_in_between(columns: dict[str, list[float]], said: str) -> None:
    assert said in only("GRP001", log_of(columns, frac_reward_zero_std=[1.0] * 20)).message


def test_dead_groups_at_the_end_are_information_where_everything_is_earned() -> None:
    run = run_of(frac_reward_zero_std=[0.1] * 20 + [1.0] * 12, reward_raw_mean=[1.0, 0.1] * 16)
    assert only("GRP001", run).severity == "warning"
    solved = [1.0] * 5 + [0.1, 1.0, 1.0] * 4 + [1.0] * 15
    run = run_of(frac_reward_zero_std=[0.1] * 20 + [1.0] * 12, reward_raw_mean=solved)
    assert only("GRP001", run).severity == "info"


def test_mostly_dead_rows_are_information_where_the_reward_is_at_its_best() -> None:
    spread = [1.0, 1.0, 1.0, 1.0, 0.5] * 4
    reward = [1.0, 1.0, 1.0, 1.0, 0.8] * 4
    finding = only("GRP001", run_of(frac_reward_zero_std=spread, reward_raw_mean=reward))
    assert finding.severity == "info"
    assert "median reward 1; everything is earned" in finding.message


@pytest.mark.parametrize(
    ("before", "rows", "found"),
    [
        pytest.param([1.0, 0.1] * 9, 10, True, id="half of the rows before: ten are no chance"),
        pytest.param(
            [1.0, 1.0, 0.1] * 2 + [1.0, 0.1] * 6, 11, False, id="some more: eleven may be"
        ),
        pytest.param([1.0, 1.0, 0.1] * 20, 16, False, id="two thirds: sixteen may be"),
        pytest.param([1.0, 1.0, 0.1] * 20, 17, True, id="seventeen are not"),
    ],
)
def test_dead_rows_at_the_end_must_be_more_than_chance(
    before: list[float], rows: int, found: bool
) -> None:
    run = run_of(frac_reward_zero_std=before + [1.0] * rows)
    assert clear("GRP001", run) is not found


def test_at_the_end_the_reward_of_the_end_is_told() -> None:
    run = run_of(
        frac_reward_zero_std=[0.1] * 20 + [1.0] * 12, reward_raw_mean=[1.0] * 20 + [0.0] * 12
    )
    assert "median reward 0; the reward stays at its least" in only("GRP001", run).message


def test_one_mean_reward_in_every_row_is_no_signal() -> None:
    """Without any spread that is logged, and although a gradient is."""
    finding = only("GRP001", run_of(reward_raw_mean=[0.2] * 20, grad_norm=[0.1, 0.2] * 10))
    assert finding.severity == "warning"
    assert finding.onset is not None
    assert (finding.onset.low, finding.onset.step, finding.onset.high) == (1, 1, 1)
    assert logged(finding.evidence[0], "reward_raw_mean", "reward")
    assert "no reward spread from batch to batch in 20 of 20 logged rows" in finding.message


@pytest.mark.parametrize(
    ("reward", "found"),
    [
        pytest.param([0.2] * 18 + [0.1, 0.3], True, id="in nine rows of ten"),
        pytest.param([0.2] * 17 + [0.1, 0.25, 0.3], False, id="in fewer"),
        pytest.param([0.2] * 10, True, id="in ten rows"),
        pytest.param([0.2] * 9, False, id="in nine rows"),
        pytest.param([0.1] * 37 + [0.9, 0.9, 0.9], False, id="that rises in the end"),
    ],
)
def test_nine_rows_of_ten_earn_the_same(reward: list[float], found: bool) -> None:
    assert skipped("GRP001", run_of(reward_raw_mean=reward)) is not found


@pytest.mark.parametrize(
    ("columns", "found"),
    [
        pytest.param({"reward_std": [0.0] * 20}, True, id="a spread of zero over the batch"),
        pytest.param({"reward_std": [1e-7] * 20}, True, id="a spread that is rounding"),
        pytest.param({"reward_std": [0.3] * 20}, False, id="ranks: the batch has a spread"),
        pytest.param({"reward_std": [NAN] * 20}, True, id="a spread of NaN"),
        pytest.param({"reward_component_std": [0.3] * 20}, False, id="a part has a spread"),
        pytest.param({"reward_component_mean[a]": [0.2] * 20}, True, id="its parts stay, too"),
        pytest.param({"reward_component_mean[a]": [0.1, 0.2] * 10}, False, id="a part moves"),
        pytest.param({"success_rate": [0.1, 0.2] * 10}, False, id="the share of solved moves"),
        pytest.param(
            {"reward_min": [0.2] * 20, "reward_max": [0.2] * 20}, True, id="lowest and highest"
        ),
        pytest.param(
            {"reward_min": [0.0] * 20, "reward_max": [1.0] * 20}, False, id="with room between"
        ),
    ],
)
def test_what_else_is_logged_may_show_a_spread(
    columns: dict[str, list[float]], found: bool
) -> None:
    assert skipped("GRP001", log_of(columns, reward_raw_mean=[0.2] * 20)) is not found


@pytest.mark.parametrize(
    ("columns", "found"),
    [
        pytest.param(
            {"grad_norm": [0.1] * 20, "response_length_mean": [9.0] * 20}, True, id="both"
        ),
        pytest.param(
            {"reward_std": [0.0] * 20, "response_length_mean": [9.0] * 20}, True, id="std"
        ),
        pytest.param(
            {"grad_norm": [0.1] * 20}, False, id="nothing shows that answers were sampled"
        ),
        pytest.param({"response_length_mean": [9.0] * 20}, False, id="nothing shows training"),
        pytest.param(
            {
                "grad_norm": [0.1] * 20,
                "response_length_mean": [9.0] * 20,
                "reward_component_mean[a]": [0.1, 0.2] * 10,
            },
            False,
            id="a part that moves makes the zeros a placeholder",
        ),
    ],
)
def test_a_reward_of_zeros_may_be_a_placeholder(
    columns: dict[str, list[float]], found: bool
) -> None:
    run = log_of(columns, reward_raw_mean=[0.0] * 20)
    assert skipped("GRP001", run) is not found
    if found:
        assert "the reward stays at its least" in only("GRP001", run).message


@pytest.mark.parametrize(
    ("reward", "severity"),
    [
        pytest.param([1.0] * 20, "info", id="all of a 0/1 reward"),
        pytest.param([0.7] * 19 + [0.5], "info", id="the highest that was ever earned"),
        pytest.param([0.7] * 19 + [0.9], "warning", id="not the highest"),
        pytest.param([0.0] * 19 + [-1.0], "info", id="no penalty any more"),
        pytest.param([-1.0] * 19 + [-2.0], "warning", id="a penalty in most rows"),
        pytest.param([2.0] * 20, "warning", id="nobody knows whether that is all"),
    ],
)
def test_one_mean_reward_may_be_a_solved_task(reward: list[float], severity: str) -> None:
    assert only("GRP001", run_of(reward_raw_mean=reward)).severity == severity


def test_a_run_that_learns_from_pairs_has_no_groups() -> None:
    assert skipped("GRP001", run_of(reward_raw_mean=[0.2] * 20, algorithm="DPO"))


def test_a_spread_that_is_no_longer_logged_was_not_looked_at() -> None:
    spread = [0.1] * 20 + [None] * 20
    assert skipped("GRP001", run_of(frac_reward_zero_std=spread, reward_raw_mean=[0.2, 0.3] * 20))


def test_the_spread_over_the_batch_is_never_judged() -> None:
    assert skipped("GRP001", run_of(reward_std=[0.0] * 20))
    assert skipped("GRP001", run_of(reward_component_std=[0.0] * 20))


def test_nan_throughout_is_not_judged() -> None:
    assert skipped("GRP001", run_of(frac_reward_zero_std=[NAN] * 20))
    assert skipped("GRP001", run_of(reward_group_std=[NAN] * 20))


def test_the_limits_can_be_set() -> None:
    run = run_of(frac_reward_zero_std=[0.1] * 10 + [0.8] * 8)
    assert clear("GRP001", run)
    assert clear("GRP001", run, share=0.7)
    assert only("GRP001", run, share=0.7, patience=8).severity == "warning"
    assert only("GRP001", run, share=0.7, throughout=0.4).severity == "critical"
    assert judge("GRP001", run_of(reward_group_std=[1e-3] * 9), float_noise=1e-2)
    tail = run_of(frac_reward_zero_std=[1.0, 0.1] * 10 + [1.0] * 12)
    assert only("GRP001", tail).severity == "warning"
    assert clear("GRP001", tail, chance=1e-9)
    assert judge("GRP001", run_of(reward_raw_mean=[0.2] * 16 + [0.1, 0.3] * 2), same=0.8)
    short = run_of(frac_reward_zero_std=[1.0] * 5)
    assert only("GRP001", short, few=6).severity == "warning"
    mostly = run_of(frac_reward_zero_std=[1.0, 0.5] * 20, reward_raw_mean=[0.0] * 40)
    assert clear("GRP001", mostly)
    assert only("GRP001", mostly, sparse=0.5).severity == "warning"
