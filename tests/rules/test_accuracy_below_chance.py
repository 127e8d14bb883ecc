import pytest

from rlhfdoctor.model import Skip
from tests.builders import clear, judge, only, run_of, skipped
from tests.rules.shapes import NAN, log_of, logged


def around(level: float, rows: int = 20) -> list[float]:
    """Accuracies of this mean whose halves of ten rows have a standard error of 1/60."""
    return [level + (0.05 if index % 2 else -0.05) for index in range(rows)]


@pytest.mark.parametrize(
    ("level", "alarms"),
    [
        pytest.param(0.44, False, id="3.6 standard errors below chance are noise"),
        pytest.param(0.43, True, id="4.2 standard errors below chance are not"),
        pytest.param(0.6, False, id="above chance is what training is for"),
    ],
)
def test_four_standard_errors_below_one_half(level: float, alarms: bool) -> None:
    assert clear("DPO002", run_of(dpo_accuracy=around(level))) is not alarms


@pytest.mark.parametrize(
    ("level", "alarms"),
    [
        pytest.param(0.485, False, id="a hundredth and a half below chance is nothing"),
        pytest.param(0.475, True, id="two hundredths and a half are something"),
        pytest.param(0.5, False, id="chance itself is not below it"),
    ],
)
def test_however_steady_two_hundredths_are_asked_for(level: float, alarms: bool) -> None:
    assert clear("DPO002", run_of(dpo_accuracy=[level] * 20)) is not alarms


@pytest.mark.parametrize(
    "columns",
    [
        pytest.param({}, id="margins that are not logged"),
        pytest.param({"dpo_margin": [0.0] * 30}, id="margins of zero"),
        pytest.param({"dpo_margin": [NAN] * 30}, id="margins of NaN"),
    ],
)
def test_accuracies_of_zero_are_ties_or_were_never_computed(
    columns: dict[str, list[float]],
) -> None:
    assert skipped("DPO002", log_of(columns, dpo_accuracy=[0.0] * 30))


@pytest.mark.parametrize(
    ("accuracy", "margin"),
    [
        pytest.param([0.0] * 30, [-1.0] * 30, id="zeros beside margins that are not zero"),
        pytest.param([0.0] * 29 + [0.1], [0.0] * 30, id="accuracies that left zero"),
    ],
)
def test_accuracies_that_were_measured_are_judged(
    accuracy: list[float], margin: list[float]
) -> None:
    assert not clear("DPO002", run_of(dpo_accuracy=accuracy, dpo_margin=margin))
    assert not skipped("DPO002", run_of(dpo_accuracy=accuracy, dpo_margin=margin))


@pytest.mark.parametrize(
    ("rows", "looks"),
    [
        pytest.param(18, False, id="nine rows in the second half are too few"),
        pytest.param(19, True, id="ten rows in the second half are enough"),
    ],
)
def test_ten_rows_in_the_second_half_are_needed(rows: int, looks: bool) -> None:
    run = run_of(dpo_accuracy=around(0.2, rows))
    assert skipped("DPO002", run) is not looks


def test_however_few_the_second_half_may_hold_ten_rows_are_needed() -> None:
    run = run_of(dpo_accuracy=around(0.2, 9) + [NAN] * 20)
    assert judge("DPO002", run, rows=4) == Skip("DPO002", ("rows>=10",))
    assert only("DPO002", run_of(dpo_accuracy=around(0.2, 10)), rows=4)


def test_it_is_critical_and_dated_to_the_middle_at_the_latest() -> None:
    finding = only("DPO002", run_of(dpo_accuracy=around(0.2, 40)))
    assert finding.severity == "critical"
    assert finding.onset is not None
    assert (finding.onset.step, finding.onset.low, finding.onset.high) == (21, 1, 21)
    assert logged(finding.evidence[0], "dpo_accuracy", "fraction")
    assert finding.evidence[0].observed == pytest.approx(0.2)
    assert finding.evidence[0].limit_low == 0.5
    assert (finding.evidence[0].first_step, finding.evidence[0].last_step) == (21, 40)
    assert "0.20 over the second half" in finding.message
    assert "below chance" in finding.summary


@pytest.mark.parametrize(
    "values",
    [
        pytest.param([0.0] * 10 + around(0.6, 10), id="zeros before the first update"),
        pytest.param(around(0.2) + around(0.7), id="a first half below chance that recovered"),
        pytest.param([*around(0.6), *[NAN] * 20], id="NaN is never below chance"),
    ],
)
def test_only_the_second_half_of_the_finite_rows_is_judged(values: list[float]) -> None:
    assert clear("DPO002", run_of(dpo_accuracy=values))


def test_rows_that_are_not_finite_do_not_count_as_rows() -> None:
    assert skipped("DPO002", run_of(dpo_accuracy=around(0.2, 18) + [NAN] * 22))
    assert skipped("DPO002", run_of(dpo_accuracy=[NAN] * 30))


def test_the_accuracy_on_other_data_is_never_judged() -> None:
    assert skipped("DPO002", run_of(eval_dpo_accuracy=around(0.2)))
    assert skipped("DPO002", run_of(token_accuracy=around(0.2)))


@pytest.mark.parametrize(
    ("algorithm", "start", "alarms"),
    [
        pytest.param("SimPO", 0.3, False, id="SimPO from a start that is no better"),
        pytest.param("ORPO or SimPO", 0.3, False, id="ORPO or SimPO likewise"),
        pytest.param("CPO", 0.5, True, id="CPO from a better start"),
        pytest.param("ORPO", 0.9, True, id="ORPO from a far better start"),
        pytest.param("DPO", 0.3, True, id="DPO, whose start is chance whatever its rows say"),
    ],
)
def test_without_a_reference_the_start_is_the_runs_own(
    algorithm: str, start: float, alarms: bool
) -> None:
    run = run_of(algorithm=algorithm, dpo_accuracy=around(start) + around(0.31))
    assert clear("DPO002", run) is not alarms


def test_unpaired_data_have_no_chance_level() -> None:
    assert skipped("DPO002", run_of(algorithm="KTO", dpo_accuracy=around(0.2)))


def test_the_limits_can_be_set() -> None:
    run = run_of(dpo_accuracy=around(0.44))
    assert not clear("DPO002", run, standard_errors=2.0)
    assert not clear("DPO002", run, chance=0.7)
    assert not clear("DPO002", run_of(dpo_accuracy=[0.49] * 20), least=0.005)
    assert clear("DPO002", run_of(dpo_accuracy=[0.2] * 20), least=0.4)
    assert skipped("DPO002", run_of(dpo_accuracy=around(0.2, 12)))
    assert not clear("DPO002", run_of(dpo_accuracy=around(0.2, 12)), rows=6)
