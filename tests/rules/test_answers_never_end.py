import pytest

from tests.builders import clear, judge, only, run_of, skipped
from tests.rules.shapes import NAN, log_of, logged

NEVER = [0.0] * 10
SICK = (run_of(num_eos_tokens=NEVER, reward_raw_mean=[-0.1] * 10),)


@pytest.mark.parametrize(
    "column",
    [
        pytest.param("num_eos_tokens", id="end tokens of a batch"),
        pytest.param("eos_rate", id="share of ended answers"),
        pytest.param("num_terminated", id="count of ended answers"),
        pytest.param("response_length_terminated_mean", id="mean length of ended answers"),
    ],
)
def test_zeros_in_every_row_mean_that_no_answer_ended(column: str) -> None:
    assert only("LEN008", log_of({column: NEVER})).severity == "info"
    assert clear("LEN008", log_of({column: [0.0] * 9 + [1.0]}))
    assert skipped("LEN008", log_of({column: [NAN] * 10}))


@pytest.mark.parametrize(
    ("reward", "severity", "said"),
    [
        pytest.param([-0.1] * 10, "warning", "is stuck at -0.1", id="one reward throughout"),
        pytest.param([0.0] * 10, "warning", "is stuck at 0", id="nothing earned"),
        pytest.param([-0.1, 0.1, -0.1, 0.2, -0.1, 0.3, -0.1, 0.1], "warning", "stuck", id="half"),
        pytest.param(
            [-0.1] * 4 + [0.1, 0.2, 0.3, 0.2, 0.15, 0.05], "info", "moves", id="fewer than half"
        ),
        pytest.param([0.0] * 5 + [9.0] * 5, "info", "moves", id="a reward that rises"),
        pytest.param([NAN] * 10, "info", "is not logged", id="no reward"),
    ],
)
def test_a_reward_that_is_stuck_beside_it_makes_it_a_fault(
    reward: list[float], severity: str, said: str
) -> None:
    run = run_of(num_eos_tokens=[0.0] * len(reward), reward_raw_mean=reward)
    finding = only("LEN008", run)
    assert finding.severity == severity
    assert said in finding.message


@pytest.mark.parametrize(
    ("cut", "found"),
    [
        pytest.param(0.49, False, id="most answers are not cut: the zeros are no measurement"),
        pytest.param(0.5, True, id="half of the answers are cut"),
    ],
)
def test_a_share_of_cut_answers_may_contradict_it(cut: float, found: bool) -> None:
    run = run_of(response_length_terminated_mean=NEVER, truncation_rate=[cut] * 10)
    assert clear("LEN008", run) is not found


@pytest.mark.parametrize(
    ("reward", "severity"),
    [
        pytest.param([1.6, 1.7], "info", id="two rewards that differ say nothing"),
        pytest.param([-1.0, -1.0], "warning", id="two that are the same do"),
        pytest.param([-1.0, NAN], "info", id="one reward says nothing"),
    ],
)
def test_two_rows_are_enough(reward: list[float], severity: str) -> None:
    assert only("LEN008", run_of(num_eos_tokens=[0.0] * 2, reward_raw_mean=reward)).severity == (
        severity
    )
    assert skipped("LEN008", run_of(num_eos_tokens=[0.0]))


def test_it_is_there_from_the_first_step() -> None:
    finding = only("LEN008", run_of(steps=range(10, 110, 10), num_eos_tokens=NEVER))
    assert finding.onset is not None
    assert (finding.onset.low, finding.onset.step, finding.onset.high) == (10, 10, 10)
    assert logged(finding.evidence[0], "num_eos_tokens", "responses/batch")
    assert "any of 10 logged rows (num_eos_tokens is 0" in finding.message
    assert finding.summary == "no answer ever ends"


def test_the_limits_can_be_set() -> None:
    run = run_of(eos_rate=NEVER, truncation_rate=[0.4] * 10)
    assert clear("LEN008", run)
    assert judge("LEN008", run, cut=0.3)
