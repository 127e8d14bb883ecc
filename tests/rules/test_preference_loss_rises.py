import math

import pytest

from tests.builders import clear, only, run_of, skipped
from tests.rules.shapes import NAN, logged

LN2 = math.log(2)


def rises(losses: list[float]) -> bool:
    """Say whether the rule finds that these losses rise."""
    return not clear("DPO003", run_of(loss_total=losses, dpo_accuracy=[0.6] * len(losses)))


def around(level: float, rows: int = 10) -> list[float]:
    """Ten losses of this mean with a standard error of 1/60."""
    return [level + (0.05 if index % 2 else -0.05) for index in range(rows)]


@pytest.mark.parametrize(
    ("rise", "alarms"),
    [
        pytest.param(0.06, False, id="3.6 standard errors above the start are noise"),
        pytest.param(0.07, True, id="4.2 standard errors above the start are not"),
        pytest.param(-0.3, False, id="below the start is what training is for"),
    ],
)
@pytest.mark.parametrize(
    "start", [pytest.param(LN2, id="a sigmoid loss"), pytest.param(0.9, id="another loss")]
)
def test_four_standard_errors_above_the_start(start: float, rise: float, alarms: bool) -> None:
    assert rises([start] * 10 + around(start + rise)) is alarms


@pytest.mark.parametrize(
    ("rise", "alarms"),
    [
        pytest.param(0.009, False, id="less than a hundredth is nothing"),
        pytest.param(0.011, True, id="more than a hundredth is something"),
    ],
)
def test_however_steady_a_hundredth_is_asked_for(rise: float, alarms: bool) -> None:
    assert rises([LN2] * 10 + [LN2 + rise] * 10) is alarms


@pytest.mark.parametrize(
    ("first", "sigmoid"),
    [
        pytest.param(LN2 + 0.009, True, id="just above ln 2 is a sigmoid loss"),
        pytest.param(LN2 - 0.009, True, id="just below ln 2 is a sigmoid loss"),
        pytest.param(LN2 + 0.011, False, id="farther above is another loss"),
        pytest.param(LN2 - 0.011, False, id="farther below is another loss"),
    ],
)
def test_the_first_row_tells_a_sigmoid_loss(first: float, sigmoid: bool) -> None:
    # the second half is above ln 2 and below the median of the first rows
    assert rises([first] + [0.9] * 9 + [0.8] * 10) is sigmoid


def test_it_is_critical_and_dated_to_the_middle_at_the_latest() -> None:
    run = run_of(
        steps=range(5, 105, 5),
        loss_total=[LN2] * 10 + [0.9] * 10,
        dpo_accuracy=[0.5] * 20,
    )
    finding = only("DPO003", run)
    assert finding.severity == "critical"
    assert not finding.alone
    assert finding.onset is not None
    assert (finding.onset.low, finding.onset.step, finding.onset.high) == (5, 55, 55)
    evidence = finding.evidence[0]
    assert logged(evidence, "loss_total", "loss")
    assert evidence.observed == pytest.approx(0.9)
    assert evidence.limit_high == pytest.approx(LN2)
    assert (evidence.first_step, evidence.last_step) == (55, 100)
    assert "is 0.9 over the second half" in finding.message
    assert "above the 0.693 of an untrained policy" in finding.message
    assert "loss 0.69 -> 0.9" in finding.summary


def test_a_loss_with_other_terms_is_held_against_its_first_rows() -> None:
    run = run_of(loss_total=[2.0] * 10 + [2.5] * 10, dpo_accuracy=[0.5] * 20)
    assert "above the 2 of an untrained policy" in only("DPO003", run).message


@pytest.mark.parametrize(
    "values",
    [
        pytest.param([LN2] + [5.0] * 9 + [0.4] * 10, id="a first half that recovered"),
        pytest.param([LN2] * 20, id="a loss that never moved"),
        pytest.param([LN2] * 10 + [0.2] * 10, id="a loss that fell"),
        pytest.param([LN2] * 20 + [NAN] * 20, id="NaN is never above"),
    ],
)
def test_only_the_second_half_of_the_finite_rows_is_judged(values: list[float]) -> None:
    assert clear("DPO003", run_of(loss_total=values, dpo_accuracy=[0.5] * len(values)))


@pytest.mark.parametrize(
    ("rows", "looks"),
    [
        pytest.param(9, False, id="nine rows are too few"),
        pytest.param(10, True, id="ten rows are enough"),
    ],
)
def test_ten_rows_of_both_are_needed(rows: int, looks: bool) -> None:
    full, short = [LN2] * 20, [0.5] * rows + [NAN] * (20 - rows)
    assert skipped("DPO003", run_of(loss_total=full, dpo_accuracy=short)) is not looks
    assert skipped("DPO003", run_of(loss_total=short, dpo_accuracy=full)) is not looks


def test_the_loss_of_anything_but_preferences_is_never_judged() -> None:
    rising = [LN2] * 10 + [0.9] * 10
    assert skipped("DPO003", run_of(loss_total=rising))
    assert skipped("DPO003", run_of(loss_total=rising, eval_dpo_accuracy=[0.5] * 20))
    assert skipped("DPO003", run_of(eval_loss_total=rising, dpo_accuracy=[0.5] * 20))
    assert skipped("DPO003", run_of(policy_loss=rising, dpo_accuracy=[0.5] * 20))


def test_the_limits_can_be_set() -> None:
    run = run_of(loss_total=[LN2] * 10 + around(LN2 + 0.06), dpo_accuracy=[0.5] * 20)
    assert clear("DPO003", run)
    assert not clear("DPO003", run, standard_errors=2.0)
    assert clear("DPO003", run, standard_errors=2.0, near=0.1)
