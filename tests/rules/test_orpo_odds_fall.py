import pytest

from tests.builders import clear, only, run_of, skipped
from tests.rules.shapes import NAN, halves, logged

SICK = (run_of(orpo_log_odds=[0.2] * 12 + [-0.5] * 12),)


@pytest.mark.parametrize(
    ("early", "late", "falls"),
    [
        pytest.param(0.05, -0.06, True, id="just more than a tenth, to below zero"),
        pytest.param(0.05, -0.04, False, id="just less than a tenth"),
        pytest.param(0.9, 0.1, False, id="a fall that stays above zero"),
        pytest.param(-0.6, -0.5, False, id="a rise below zero"),
        pytest.param(-0.5, -0.8, True, id="a fall below zero"),
        pytest.param(-0.5, NAN, False, id="NaN is never below"),
    ],
)
def test_a_fall_is_a_tenth_of_a_nat_and_ends_below_zero(
    early: float, late: float, falls: bool
) -> None:
    run = run_of(orpo_log_odds=[early] * 20 + [late] * 20)
    assert clear("DPO012", run) is not falls


@pytest.mark.parametrize(
    ("errors", "falls"),
    [
        pytest.param(-3.9, False, id="3.9 standard errors are noise"),
        pytest.param(-4.1, True, id="4.1 standard errors are not"),
        pytest.param(4.1, False, id="a rise is what training is for"),
    ],
)
def test_a_fall_is_four_standard_errors(errors: float, falls: bool) -> None:
    assert clear("DPO012", run_of(orpo_log_odds=halves(errors, centre=-1.0))) is not falls


@pytest.mark.parametrize(
    ("rows", "looks"),
    [
        pytest.param(19, False, id="nineteen rows are too few"),
        pytest.param(20, True, id="twenty rows are enough"),
    ],
)
def test_twenty_rows_are_needed(rows: int, looks: bool) -> None:
    assert skipped("DPO012", run_of(orpo_log_odds=[0.1] * rows)) is not looks


def test_it_is_a_warning_dated_to_the_middle_at_the_latest() -> None:
    finding = only("DPO012", SICK[0])
    assert finding.severity == "warning"
    assert finding.onset is not None
    assert (finding.onset.low, finding.onset.step, finding.onset.high) == (1, 13, 13)
    assert logged(finding.evidence[0], "orpo_log_odds", "nats")
    assert finding.evidence[0].observed == pytest.approx(-0.5)
    assert "fall from 0.2 to -0.5:" in finding.message
    assert finding.summary == "log-odds 0.2 -> -0.5"


def test_the_limits_can_be_set() -> None:
    run = run_of(orpo_log_odds=[0.02] * 12 + [-0.02] * 12)
    assert clear("DPO012", run)
    assert only("DPO012", run, fall=0.03)
    assert skipped("DPO012", run_of(orpo_log_odds=[0.2] * 24)) is False
    assert clear("DPO012", run_of(orpo_log_odds=halves(-4.1, centre=-1.0)), standard_errors=5.0)
    assert not clear("DPO012", SICK[0], rows=12)
    assert skipped("DPO012", run_of(orpo_log_odds=[0.2, 0.1] * 4))
