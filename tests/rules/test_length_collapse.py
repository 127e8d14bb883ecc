import pytest

from tests.builders import clear, judge, only, run_of, skipped
from tests.rules.shapes import NAN, halves, log_of, logged

FLAT = [0.5, 0.6] * 10
FALLING = halves(-9.0, centre=5.0)
SICK = (run_of(response_length_mean=[100.0] * 10 + [4.0] * 10, reward_raw_mean=FALLING),)


@pytest.mark.parametrize(
    ("level", "found"),
    [
        pytest.param(51.0, False, id="just more than half of the start"),
        pytest.param(49.0, True, id="just less than half of the start"),
        pytest.param(NAN, False, id="NaN is never below"),
    ],
)
def test_below_half_of_the_start_is_worth_a_line(level: float, found: bool) -> None:
    run = run_of(response_length_mean=[100.0] * 10 + [level] * 10)
    assert clear("LEN006", run) is not found


@pytest.mark.parametrize(
    ("level", "severity"),
    [
        pytest.param(26.0, "info", id="more than a quarter of the start is left"),
        pytest.param(24.0, "critical", id="less than a quarter of the start is left"),
    ],
)
def test_a_collapse_with_a_falling_reward_is_a_fault(level: float, severity: str) -> None:
    run = run_of(response_length_mean=[100.0] * 10 + [level] * 10, reward_raw_mean=FALLING)
    finding = only("LEN006", run)
    assert finding.severity == severity
    assert finding.weak == "warning"
    assert "the reward falls" in finding.message


@pytest.mark.parametrize(
    ("level", "severity"),
    [
        pytest.param(8.1, "info", id="answers of more than eight tokens may be answers"),
        pytest.param(7.9, "critical", id="answers of fewer say nothing"),
    ],
)
def test_a_few_tokens_that_earn_no_more_are_a_fault(level: float, severity: str) -> None:
    run = run_of(response_length_mean=[100.0] * 10 + [level] * 10, reward_raw_mean=FLAT)
    finding = only("LEN006", run)
    assert finding.severity == severity
    assert "the reward does not rise" in finding.message


@pytest.mark.parametrize(
    ("errors", "severity"),
    [
        pytest.param(1.9, "critical", id="nothing hints at a rise"),
        pytest.param(2.1, "info", id="the reward may have risen"),
        pytest.param(9.0, "info", id="the reward rises: short answers are what it asks for"),
    ],
)
def test_a_reward_that_may_have_risen_excuses_short_answers(errors: float, severity: str) -> None:
    reward = halves(errors, centre=50.0)
    run = run_of(response_length_mean=[100.0] * 10 + [3.0] * 10, reward_raw_mean=reward)
    assert only("LEN006", run).severity == severity


@pytest.mark.parametrize(
    ("level", "severity"),
    [
        pytest.param(0.81, "info", id="less than a fifth: brevity costs a little"),
        pytest.param(0.79, "critical", id="more than a fifth"),
    ],
)
def test_a_reward_that_falls_must_lose_much(level: float, severity: str) -> None:
    run = run_of(
        response_length_mean=[100.0] * 10 + [20.0] * 10,
        reward_raw_mean=[1.0] * 10 + [level] * 10,
    )
    assert only("LEN006", run).severity == severity


def test_a_reward_that_falls_only_a_little_does_not_excuse_answers_of_a_few_tokens() -> None:
    run = run_of(
        response_length_mean=[100.0] * 10 + [3.0] * 10, reward_raw_mean=[1.0] * 10 + [0.9] * 10
    )
    finding = only("LEN006", run)
    assert finding.severity == "critical"
    assert "the reward does not rise" in finding.message


def test_without_a_reward_it_is_information() -> None:
    finding = only("LEN006", run_of(response_length_mean=[100.0] * 10 + [2.0] * 10))
    assert finding.severity == "info"
    assert "the reward says nothing" in finding.message


@pytest.mark.parametrize(
    ("rows", "found"),
    [
        pytest.param(4, False, id="four short rows at the end are patience"),
        pytest.param(5, True, id="five short rows at the end are a collapse"),
    ],
)
def test_patience_counts_the_rows_at_the_end(rows: int, found: bool) -> None:
    run = run_of(response_length_mean=[100.0] * 10 + [2.0] * rows)
    assert clear("LEN006", run) is not found


def test_lengths_that_came_back_are_clear() -> None:
    assert clear("LEN006", run_of(response_length_mean=[100.0] * 8 + [9.0] * 8 + [80.0]))


@pytest.mark.parametrize(
    ("lengths", "found"),
    [
        pytest.param([181.0, 144.0, 58.0, 61.0], True, id="the last two of four rows are short"),
        pytest.param([181.0, 144.0, 120.0, 61.0], False, id="one short row proves nothing"),
        pytest.param([181.0, 144.0, 101.0, 101.0], False, id="more than half is left"),
        pytest.param([100.0] * 7 + [9.0, 9.0], True, id="the last two of nine rows are short"),
        pytest.param([100.0] * 8 + [9.0, 9.0], False, id="ten rows need five of them"),
    ],
)
def test_a_short_log_is_told_by_its_last_two_rows(lengths: list[float], found: bool) -> None:
    run = run_of(response_length_mean=lengths, reward_raw_mean=[0.0] * len(lengths))
    assert clear("LEN006", run) is not found
    if found:
        finding = only("LEN006", run)
        assert finding.severity == "info"
        assert finding.onset is not None
        assert finding.onset.low == 1


def test_three_rows_are_needed() -> None:
    assert skipped("LEN006", run_of(response_length_mean=[100.0, 2.0]))
    assert judge("LEN006", run_of(response_length_mean=[100.0, 2.0, 2.0]))


def test_the_collapse_is_dated_where_it_begins() -> None:
    lengths = [100.0, 101.0] * 10 + [90.0 - 9 * index for index in range(10)] + [3.0] * 10
    reward = [50.0, 52.0] * 10 + [10.0, 12.0] * 10
    finding = only("LEN006", run_of(response_length_mean=lengths, reward_raw_mean=reward))
    assert finding.onset is not None
    assert 19 <= finding.onset.step <= 22
    evidence = finding.evidence[0]
    assert logged(evidence, "response_length_mean", "tokens")
    assert evidence.limit_low == 50.0
    assert "from 100 to 3 tokens" in finding.message
    assert "length 100 -> 3" in finding.summary


def test_the_length_of_prompt_and_answer_together_is_never_judged() -> None:
    assert skipped("LEN006", log_of({"total_length_mean": [100.0] * 10 + [2.0] * 10}))


def test_the_limits_can_be_set() -> None:
    run = run_of(response_length_mean=[100.0] * 10 + [30.0] * 10, reward_raw_mean=FALLING)
    assert only("LEN006", run).severity == "info"
    assert only("LEN006", run, deep=0.4).severity == "critical"
    assert only("LEN006", run, deep=0.4, material=0.99).severity == "info"
    assert clear("LEN006", run, fall=0.2)
    assert judge("LEN006", run, patience=10)
    assert clear("LEN006", run, patience=11, short=11)
    flat = run_of(response_length_mean=[100.0] * 10 + [20.0] * 10, reward_raw_mean=FLAT)
    assert only("LEN006", flat).severity == "info"
    assert only("LEN006", flat, few=21.0).severity == "critical"
    assert only("LEN006", flat, few=21.0, hint=0.0).severity == "info"
