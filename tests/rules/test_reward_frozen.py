import pytest

from tests.builders import clear, judge, only, run_of, skipped
from tests.rules.shapes import NAN, logged

NOISY = [0.1, 0.5, 0.3, 0.6, 0.2, 0.4] * 5
STILL = [0.2, 0.2005, 0.201, 0.2002] * 6


def losses(rows: int) -> list[float]:
    return [0.01 * row for row in range(rows)]


SICK = (run_of(reward_raw_mean=NOISY + STILL, loss_total=losses(54)),)


def test_a_reward_that_freezes_to_the_end_is_critical() -> None:
    finding = only("RWD006", SICK[0])
    assert finding.severity == "critical"
    assert finding.weak == "warning"
    assert finding.onset is not None
    assert (finding.onset.low, finding.onset.step, finding.onset.high) == (30, 31, 31)
    assert logged(finding.evidence[0], "reward_raw_mean", "reward")
    assert "within 0.2..0.201 for 24 logged rows while the loss moves" in finding.message
    assert "frozen at 0.201" in finding.summary


@pytest.mark.parametrize(
    ("rows", "found"),
    [
        pytest.param(20, False, id="twenty rows"),
        pytest.param(21, True, id="twenty-one rows"),
    ],
)
def test_more_than_twenty_rows_stand_still(rows: int, found: bool) -> None:
    run = run_of(reward_raw_mean=NOISY + [0.3] * rows, loss_total=losses(30 + rows))
    assert clear("RWD006", run) is not found


@pytest.mark.parametrize(
    ("spread", "found"),
    [
        pytest.param(0.0024, True, id="by less than the spread of the case it is taken from"),
        pytest.param(0.0026, False, id="by more"),
    ],
)
def test_standing_still_allows_a_spread(spread: float, found: bool) -> None:
    still = [0.2, 0.2 + spread] * 12
    run = run_of(reward_raw_mean=NOISY + still, loss_total=losses(54))
    assert clear("RWD006", run) is not found


@pytest.mark.parametrize(
    ("jump", "found"),
    [
        pytest.param(0.022, False, id="less than ten times the spread"),
        pytest.param(0.026, True, id="more than ten times the spread"),
    ],
)
def test_the_rows_before_were_much_noisier(jump: float, found: bool) -> None:
    before = [0.3, 0.3 + jump / (1.4826 / 2**0.5)] * 15
    run = run_of(reward_raw_mean=before + [0.3] * 24, loss_total=losses(54))
    assert clear("RWD006", run) is not found


@pytest.mark.parametrize(
    ("level", "found"),
    [
        pytest.param(0.6, False, id="at the highest level of the run: solved"),
        pytest.param(1.0, False, id="above everything before"),
        pytest.param(0.59, True, id="below the highest level"),
        pytest.param(0.0, True, id="at nothing"),
    ],
)
def test_what_stands_at_its_best_is_solved(level: float, found: bool) -> None:
    run = run_of(reward_raw_mean=NOISY + [level] * 24, loss_total=losses(54))
    assert clear("RWD006", run) is not found


@pytest.mark.parametrize(
    ("different", "found"),
    [
        pytest.param(12, False, id="half of the losses are repeated: one value written often"),
        pytest.param(13, True, id="more than half of them differ"),
    ],
)
def test_the_loss_must_move_meanwhile(different: int, found: bool) -> None:
    beside = losses(30) + losses(different) + [0.0] * (24 - different)
    run = run_of(reward_raw_mean=NOISY + [0.3] * 24, loss_total=beside)
    assert clear("RWD006", run) is not found


def test_a_gradient_norm_will_do() -> None:
    run = run_of(reward_raw_mean=NOISY + [0.3] * 24, grad_norm=losses(54))
    assert "while the gradient norm moves" in only("RWD006", run).message


def test_a_reward_that_thawed_is_information() -> None:
    run = run_of(reward_raw_mean=NOISY + [0.3] * 24 + NOISY, loss_total=losses(84))
    finding = only("RWD006", run)
    assert finding.severity == "info"
    assert finding.recovered_at == 55


def test_of_several_stretches_the_longest_and_the_last_are_told() -> None:
    values = NOISY + [0.3] * 22 + NOISY + [0.3] * 30 + NOISY + [0.3] * 22
    run = run_of(reward_raw_mean=values, loss_total=losses(len(values)))
    outcome = judge("RWD006", run)
    assert isinstance(outcome, list)
    assert [finding.severity for finding in outcome] == ["info", "critical"]


def test_a_reward_that_stands_still_at_the_start_has_not_begun() -> None:
    run = run_of(reward_raw_mean=[0.0] * 24 + NOISY, loss_total=losses(54))
    assert clear("RWD006", run)


def test_zeros_and_nan_were_never_computed() -> None:
    assert skipped("RWD006", run_of(reward_raw_mean=[0.0] * 54, loss_total=losses(54)))
    assert skipped("RWD006", run_of(reward_raw_mean=[NAN] * 54, loss_total=losses(54)))
    assert clear(
        "RWD006", run_of(reward_raw_mean=NOISY + [NAN] * 24 + [0.3], loss_total=losses(55))
    )


def test_without_a_loss_or_a_gradient_nobody_can_look() -> None:
    assert skipped("RWD006", run_of(reward_raw_mean=NOISY + STILL))


def test_the_limits_can_be_set() -> None:
    run = run_of(reward_raw_mean=NOISY + [0.3] * 12, loss_total=losses(42))
    assert clear("RWD006", run)
    assert judge("RWD006", run, rows=12)
    assert clear("RWD006", run, rows=12, noise=999.0)
    assert clear("RWD006", run, rows=12, moving=1.0)
    assert judge(
        "RWD006",
        run_of(reward_raw_mean=NOISY + [0.3, 0.31] * 12, loss_total=losses(54)),
        spread=0.011,
    )
