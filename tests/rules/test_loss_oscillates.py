import pytest

from rlhfdoctor.model import Run
from tests.builders import Values, judge, only, run_of, skipped
from tests.rules.shapes import NAN, log_of, silent

CALM = [0.6, 0.7] * 10
SICK = (run_of(loss_total=CALM + [0.2, 3.0] * 8, algorithm="DPO"),)


def swings(height: float, centre: float, rows: int = 12) -> list[float]:
    """Rows that swing by ``height`` to either side."""
    return [centre + (height if index % 2 else -height) for index in range(rows)]


def pairs(loss: Values) -> Run:
    """A run that learns from preference pairs."""
    return run_of(loss_total=loss, algorithm="DPO")


@pytest.mark.parametrize(
    ("height", "alarms"),
    [
        pytest.param(0.49, False, id="a variance below a half"),
        pytest.param(0.51, True, id="a variance above a half"),
    ],
)
def test_a_variance_of_a_half(height: float, alarms: bool) -> None:
    # half the mean squared change of a swing by h to either side is 2 h^2
    assert silent("OPT007", pairs(CALM + swings(height, 0.65))) is not alarms


@pytest.mark.parametrize(
    ("centre", "alarms"),
    [
        pytest.param(5.8, False, id="less than half of the mean"),
        pytest.param(5.5, True, id="more than half of the mean"),
    ],
)
def test_a_large_loss_may_vary_more(centre: float, alarms: bool) -> None:
    assert silent("OPT007", pairs(swings(2.0, centre, 30))) is not alarms


@pytest.mark.parametrize(
    ("rows", "alarms"),
    [
        pytest.param(9, False, id="nine rows are no window"),
        pytest.param(10, True, id="ten rows are one"),
    ],
)
def test_the_window_is_ten_rows(rows: int, alarms: bool) -> None:
    assert silent("OPT007", pairs(swings(1.0, 1.0, rows))) is not alarms


def test_a_single_leap_is_thinned_out_by_its_window() -> None:
    assert silent("OPT007", pairs([*CALM, 2.1, *CALM]))
    assert not silent("OPT007", pairs([*CALM, 2.1, *CALM]), window=5)


def test_it_is_information_with_its_place() -> None:
    finding = only("OPT007", pairs(CALM + [0.2, 3.0] * 8))
    assert finding.severity == "info"
    assert finding.recovered_at is None
    assert finding.onset is not None
    assert finding.onset.low <= finding.onset.step <= finding.onset.high <= 21
    evidence = finding.evidence[0]
    assert (evidence.subject, evidence.unit, evidence.limit_high) == ("loss_total", "loss^2", 0.5)
    assert evidence.where.line is not None
    assert "variance 3.92 over 10 logged rows, above 0.5, around a mean of 1.6" in finding.message


def test_swings_that_end_recovered() -> None:
    finding = only("OPT007", pairs(CALM + [0.2, 3.0] * 8 + CALM))
    assert finding.recovered_at is not None
    assert 37 <= finding.recovered_at <= 46


@pytest.mark.parametrize(
    "loss",
    [
        pytest.param([20.0 - index for index in range(19)], id="a loss that falls fast"),
        pytest.param(CALM, id="a calm loss"),
        pytest.param([25.0, 20.0] * 10, id="the scale of another loss"),
        pytest.param([1e200, 1.0] * 10, id="numbers too large to square"),
        pytest.param(CALM + [NAN] * 10, id="NaN never swings"),
    ],
)
def test_what_does_not_swing_is_clear(loss: list[float]) -> None:
    assert judge("OPT007", pairs(loss)) == []


@pytest.mark.parametrize(
    ("algorithm", "looks"),
    [
        pytest.param("DPO", True, id="DPO"),
        pytest.param("KTO", True, id="KTO"),
        pytest.param("RM", True, id="a reward model"),
        pytest.param("GRPO", False, id="the loss of GRPO is cosmetic"),
        pytest.param("PPO", False, id="the loss of PPO is cosmetic"),
        pytest.param("unknown", False, id="nobody knows what the loss means"),
    ],
)
def test_only_a_loss_that_means_something_is_judged(algorithm: str, looks: bool) -> None:
    run = run_of(loss_total=swings(2.0, 1.0, 20), algorithm=algorithm)
    assert skipped("OPT007", run) is not looks


def test_another_loss_is_never_judged() -> None:
    assert skipped("OPT007", log_of({"policy_loss": swings(2.0, 1.0, 20)}, algorithm="DPO"))


def test_the_limits_can_be_set() -> None:
    run = pairs(swings(0.4, 0.65, 20))
    assert silent("OPT007", run)
    assert not silent("OPT007", run, variance=0.2)
    assert not silent("OPT007", pairs(swings(2.0, 9.0, 20)), share=0.2)
