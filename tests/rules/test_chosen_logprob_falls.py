import pytest

from tests.builders import clear, judge, only, run_of, skipped
from tests.rules.shapes import NAN, logged

START = [-100.0] * 10


@pytest.mark.parametrize(
    ("level", "alarms"),
    [
        pytest.param(-150.0, False, id="half of the magnitude itself is not beyond it"),
        pytest.param(-150.1, True, id="just more than half of the magnitude"),
        pytest.param(-50.0, False, id="a rise is no fall"),
        pytest.param(NAN, False, id="NaN is never below"),
    ],
)
def test_a_fall_of_half_the_magnitude(level: float, alarms: bool) -> None:
    run = run_of(logp_chosen=START + [level] * 6)
    assert clear("DPO001", run) is not alarms


@pytest.mark.parametrize(
    ("level", "alarms"),
    [
        pytest.param(-44.9, False, id="more than half of the start, less than 20 nats"),
        pytest.param(-45.1, True, id="more than 20 nats as well"),
    ],
)
def test_short_answers_must_lose_twenty_nats(level: float, alarms: bool) -> None:
    assert clear("DPO001", run_of(logp_chosen=[-25.0] * 10 + [level] * 6)) is not alarms
    assert clear("DPO001", run_of(eval_logp_chosen=[-25.0, level])) is not alarms


@pytest.mark.parametrize(
    ("rows_below", "alarms"),
    [
        pytest.param(4, False, id="four rows below the floor are patience"),
        pytest.param(5, True, id="five rows below the floor are an alarm"),
    ],
)
def test_patience_counts_consecutive_rows(rows_below: int, alarms: bool) -> None:
    run = run_of(logp_chosen=START + [-400.0] * rows_below)
    assert clear("DPO001", run) is not alarms


def test_a_fall_is_critical_and_dated_where_it_begins() -> None:
    run = run_of(logp_chosen=[-100.0] * 20 + [-100.0 - 20.0 * index for index in range(1, 21)])
    finding = only("DPO001", run)
    assert finding.severity == "critical"
    assert finding.onset is not None
    assert 19 <= finding.onset.step <= 21
    assert finding.onset.low <= finding.onset.step <= finding.onset.high
    assert logged(finding.evidence[0], "logp_chosen", "nats/response")
    assert finding.evidence[0].limit_low == -150.0
    assert "falls from -100 to" in finding.message
    assert "-100" in finding.summary


def test_a_fall_that_recovers_is_information() -> None:
    finding = only("DPO001", run_of(logp_chosen=START + [-300.0] * 6 + START))
    assert finding.severity == "info"
    assert finding.recovered_at == 17


@pytest.mark.parametrize(
    "start",
    [
        pytest.param(0.0, id="zeros were never computed"),
        pytest.param(0.3, id="a positive number is no log-probability"),
        pytest.param(NAN, id="NaN throughout"),
    ],
)
def test_what_is_no_log_probability_is_not_judged(start: float) -> None:
    assert skipped("DPO001", run_of(logp_chosen=[start] * 10 + [start - 1.0] * 10))


BETA = {"kl_coef": 0.1}


@pytest.mark.parametrize(
    ("reward", "alarms"),
    [
        pytest.param(-5.0, False, id="half of the start itself"),
        pytest.param(-5.01, True, id="just more than half of the start"),
        pytest.param(5.01, False, id="a rise is no fall"),
    ],
)
def test_with_beta_known_each_row_is_held_against_its_own_start(
    reward: float, alarms: bool
) -> None:
    # the answers of the last rows are more likely from the start, which hides the fall
    run = run_of(
        logp_chosen=[-100.0] * 16,
        dpo_reward_chosen=[0.0] * 10 + [reward] * 6,
        config=BETA,
    )
    assert clear("DPO001", run) is not alarms


def test_with_beta_known_a_stretch_of_long_answers_is_no_fall() -> None:
    logp, reward = START + [-400.0] * 6, [0.0] * 15 + [0.01]
    assert clear("DPO001", run_of(logp_chosen=logp, dpo_reward_chosen=reward, config=BETA))


@pytest.mark.parametrize(
    ("config", "unit"),
    [
        pytest.param({}, "nats*beta", id="beta is not known"),
        pytest.param({"kl_coef": 0.0}, "nats*beta", id="a beta of zero"),
        pytest.param({"kl_coef": "auto"}, "nats*beta", id="a beta that is a word"),
        pytest.param(BETA, "unknown", id="rewards of another unit"),
    ],
)
def test_otherwise_the_first_rows_are_the_start(config: dict[str, float | str], unit: str) -> None:
    run = run_of(
        logp_chosen=START + [-400.0] * 6,
        dpo_reward_chosen=[0.0] * 15 + [0.01],
        config=config,
        units={"dpo_reward_chosen": unit},
    )
    assert only("DPO001", run).severity == "critical"
    assert not clear("DPO001", run_of(logp_chosen=START + [-400.0] * 6, config=BETA))


def test_only_rows_that_have_both_are_held_against_their_start() -> None:
    run = run_of(
        logp_chosen=[-90.0, -110.0] * 10,
        dpo_reward_chosen=[None, 0.0] * 5 + [None, -12.0] * 5,
        config=BETA,
    )
    finding = only("DPO001", run)
    # the rows' own starts: -110 five times, then -110 + 120 five times; their median is -50
    assert finding.evidence[0].limit_low == -75.0
    assert finding.evidence[0].observed == -170.0
    assert "falls from -50 to -170 nats/response for 5 logged rows" in finding.message


def test_a_start_of_its_own_that_is_no_log_probability_is_not_judged() -> None:
    run = run_of(logp_chosen=[-100.0] * 16, dpo_reward_chosen=[-12.0] * 16, config=BETA)
    assert skipped("DPO001", run)


@pytest.mark.parametrize(
    ("rows", "looks"),
    [
        pytest.param(7, False, id="seven rows are too few"),
        pytest.param(8, True, id="eight rows are enough"),
    ],
)
def test_eight_rows_are_needed(rows: int, looks: bool) -> None:
    assert skipped("DPO001", run_of(logp_chosen=[-100.0] * rows)) is not looks


def test_another_column_is_never_judged() -> None:
    falling = START + [-500.0] * 10
    assert skipped("DPO001", run_of(logp_rejected=falling))
    assert skipped("DPO001", run_of(neg_logp_response=falling))
    assert skipped("DPO001", run_of(eval_logp_rejected=falling))


@pytest.mark.parametrize(
    ("start", "level", "alarms"),
    [
        pytest.param(-0.3, -1.29, False, id="less than a nat a token"),
        pytest.param(-0.3, -1.31, True, id="more than a nat a token, and half of the start"),
        pytest.param(-4.0, -5.9, False, id="more than a nat, less than half of the start"),
        pytest.param(-4.0, -6.1, True, id="more than half of the start"),
        pytest.param(-0.3, NAN, False, id="NaN is never below"),
    ],
)
def test_a_token_mean_must_fall_by_a_nat(start: float, level: float, alarms: bool) -> None:
    run = run_of(logp_chosen_token=[start] * 10 + [level] * 6)
    assert clear("DPO001", run) is not alarms
    if alarms:
        finding = only("DPO001", run)
        assert logged(finding.evidence[0], "logp_chosen_token", "nats/token")
        assert "nats/token for 6 logged rows" in finding.message


@pytest.mark.parametrize(
    ("values", "alarms"),
    [
        pytest.param([-100.0, -149.0], False, id="less than half of the start"),
        pytest.param([-100.0, -151.0], True, id="more than half of the start in the second"),
        pytest.param([-100.0, -190.0, -140.0], False, id="a fall that recovered"),
    ],
)
def test_two_evaluations_tell_where_training_logs_none(values: list[float], alarms: bool) -> None:
    assert clear("DPO001", run_of(eval_logp_chosen=values)) is not alarms


def test_a_fall_in_evaluation_is_dated_between_the_two() -> None:
    run = run_of(steps=[50, 100, 150], eval_logp_chosen=[-100.0, -110.0, -400.0])
    finding = only("DPO001", run)
    assert finding.severity == "critical"
    assert finding.onset is not None
    assert (finding.onset.low, finding.onset.step, finding.onset.high) == (101, 150, 150)
    assert logged(finding.evidence[0], "eval_logp_chosen", "nats/response")
    assert "from -100 to -400 nats/response for 1 logged evaluations" in finding.message


def test_evaluations_are_asked_only_where_training_logs_none() -> None:
    run = run_of(logp_chosen=[-100.0] * 10, eval_logp_chosen=[-100.0] * 5 + [-400.0] * 5)
    assert clear("DPO001", run)
    assert skipped("DPO001", run_of(eval_logp_chosen=[-100.0]))
    assert skipped("DPO001", run_of(eval_logp_chosen=[0.2, -4.0]))


def test_the_limits_can_be_set() -> None:
    run = run_of(logp_chosen=START + [-130.0] * 6)
    assert clear("DPO001", run)
    assert judge("DPO001", run, fall=0.2)
    assert clear("DPO001", run, fall=0.2, patience=7)
    assert skipped("DPO001", run_of(logp_chosen=[-100.0] * 5))
    assert clear("DPO001", run_of(logp_chosen=[-100.0] * 5), rows=5)
    short = run_of(logp_chosen=[-25.0] * 10 + [-40.0] * 6)
    assert clear("DPO001", short)
    assert judge("DPO001", short, least=10.0)
    token = run_of(logp_chosen_token=[-0.3] * 10 + [-1.0] * 6)
    assert clear("DPO001", token)
    assert judge("DPO001", token, nats=0.5)
