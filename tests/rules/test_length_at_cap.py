import pytest

from tests.builders import clear, judge, only, run_of, skipped
from tests.rules.shapes import NAN, halves, log_of, logged

FAILS = [-0.1] * 20
SICK = (run_of(response_length_mean=[128.0] * 20, reward_raw_mean=FAILS),)


@pytest.mark.parametrize(
    ("other", "found"),
    [
        pytest.param(2, True, id="nine rows of ten at the greatest length"),
        pytest.param(3, False, id="more than one row in ten below it"),
    ],
)
def test_nine_rows_of_ten_are_at_the_cap(other: int, found: bool) -> None:
    run = run_of(response_length_mean=[128.0] * (20 - other) + [90.0] * other)
    assert clear("LEN007", run) is not found


@pytest.mark.parametrize(
    ("length", "found"),
    [
        pytest.param(253.5, True, id="99 percent of the limit"),
        pytest.param(253.0, False, id="less than 99 percent of the limit"),
        pytest.param(NAN, False, id="NaN is no length"),
    ],
)
def test_a_configured_limit_is_the_cap(length: float, found: bool) -> None:
    run = run_of(response_length_mean=[256.0] + [length] * 19, config={"max_response_length": 256})
    assert bool(judge("LEN007", run)) is found or length != length


def test_answers_of_one_length_far_below_the_limit_are_the_task() -> None:
    run = run_of(response_length_mean=[20.0] * 30, config={"max_response_length": 128})
    assert clear("LEN007", run)


@pytest.mark.parametrize(
    ("cap", "found"),
    [
        pytest.param(15.0, False, id="fifteen tokens are a short-answer task"),
        pytest.param(16.0, True, id="sixteen tokens are a limit"),
    ],
)
def test_short_answers_have_one_length_by_nature(cap: float, found: bool) -> None:
    run = run_of(response_length_mean=[cap] * 20, reward_raw_mean=FAILS)
    assert clear("LEN007", run) is not found


@pytest.mark.parametrize(
    ("reward", "severity", "said"),
    [
        pytest.param(FAILS, "warning", "is stuck at -0.1", id="one reward throughout"),
        pytest.param([0.0] * 20, "warning", "is stuck at 0", id="no reward throughout"),
        pytest.param([0.0, 0.3] * 10, "warning", "is stuck at", id="half of the rows earn nothing"),
        pytest.param([0.1, 0.2, 0.3, 0.4] * 5, "info", "moves", id="a reward that moves"),
        pytest.param([0.0] * 11 + [1.0] * 9, "info", "moves", id="a reward that rises"),
        pytest.param([NAN] * 20, "info", "is not logged", id="no reward"),
    ],
)
def test_the_reward_decides(reward: list[float], severity: str, said: str) -> None:
    finding = only("LEN007", run_of(response_length_mean=[128.0] * 20, reward_raw_mean=reward))
    assert finding.severity == severity
    assert said in finding.message


def test_it_is_there_from_the_first_step() -> None:
    run = run_of(
        steps=range(5, 105, 5), response_length_mean=[127.8] + [128.0] * 19, reward_raw_mean=FAILS
    )
    finding = only("LEN007", run)
    assert finding.onset is not None
    assert (finding.onset.low, finding.onset.step, finding.onset.high) == (5, 5, 5)
    assert logged(finding.evidence[0], "response_length_mean", "tokens")
    assert "128 tokens in 20 of 20 logged rows, the greatest of the run" in finding.message
    assert "cap of 128" in finding.summary


@pytest.mark.parametrize(
    ("rows", "looks"),
    [
        pytest.param(9, False, id="nine rows show no unknown limit"),
        pytest.param(10, True, id="ten rows show one"),
    ],
)
def test_an_unknown_limit_needs_ten_rows(rows: int, looks: bool) -> None:
    assert skipped("LEN007", run_of(response_length_mean=[128.0] * rows)) is not looks


def test_two_rows_at_a_known_limit_are_enough() -> None:
    run = run_of(
        response_length_mean=[64.0] * 2,
        reward_raw_mean=[-1.0] * 2,
        config={"max_response_length": 64},
    )
    finding = only("LEN007", run)
    assert finding.severity == "warning"
    assert "the configured limit" in finding.message


def test_rewards_of_two_rows_that_differ_are_not_stuck() -> None:
    run = run_of(
        response_length_mean=[64.0] * 2,
        reward_raw_mean=[1.6, 1.7],
        config={"max_response_length": 64},
    )
    assert only("LEN007", run).severity == "info"


def test_where_the_share_of_cut_answers_is_logged_another_rule_judges() -> None:
    run = run_of(response_length_mean=[128.0] * 20, truncation_rate=[0.1] * 20)
    assert clear("LEN007", run)


def test_the_length_of_prompt_and_answer_together_is_never_judged() -> None:
    assert skipped("LEN007", log_of({"total_length_mean": [128.0] * 20}))


def test_zeros_were_never_computed() -> None:
    assert skipped("LEN007", run_of(response_length_mean=[0.0] * 20))


def test_a_rise_is_no_fault_even_where_most_rows_earn_the_same() -> None:
    reward = halves(5.0, centre=50.0)
    run = run_of(response_length_mean=[128.0] * 20, reward_raw_mean=reward)
    assert only("LEN007", run).severity == "info"


def test_the_limits_can_be_set() -> None:
    run = run_of(response_length_mean=[128.0] * 14 + [90.0] * 6)
    assert clear("LEN007", run)
    assert judge("LEN007", run, share=0.7)
    assert judge("LEN007", run, near=0.7)
    assert skipped_with(run, rows=21)
    assert clear("LEN007", run, share=0.7, least=200)


def skipped_with(run: object, **limits: float) -> bool:
    return not isinstance(judge("LEN007", run, **limits), list)  # type: ignore[arg-type]
