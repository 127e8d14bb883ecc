from dataclasses import replace

import pytest

from rlhfdoctor.model import Run
from tests.builders import clear, judge, only, run_of, skipped
from tests.rules.shapes import NAN, log_of, logged

SICK = (run_of(explained_variance=[-1.0] * 30, value_loss=[0.5] * 30),)


def critic(late: float, *, loss: float | None = 0.5, rows: int = 10) -> Run:
    """A run whose critic explains ``late`` in its second half, at a value loss of ``loss`` there.

    In the first half it is untrained, at a loss of 0.5.
    """
    variance = [-50.0] * rows + [late] * rows
    if loss is None:
        return run_of(explained_variance=variance)
    return run_of(explained_variance=variance, value_loss=[0.5] * rows + [loss] * rows)


def severities(run: Run, **limits: float) -> list[str]:
    outcome = judge("VAL001", run, **limits)
    assert isinstance(outcome, list)
    return [finding.severity for finding in outcome]


@pytest.mark.parametrize(
    ("late", "expected"),
    [
        pytest.param(0.7, [], id="a critic that follows"),
        pytest.param(0.01, [], id="little better than a constant"),
        pytest.param(-0.01, ["info"], id="worse than a constant"),
        pytest.param(-0.49, ["info"], id="bad"),
        pytest.param(-0.51, ["warning"], id="far worse than a constant"),
        pytest.param(NAN, ["info"], id="rows of NaN leave the untrained half"),
    ],
)
def test_the_second_half_decides(late: float, expected: list[str]) -> None:
    assert severities(critic(late)) == expected


@pytest.mark.parametrize(
    ("loss", "severity"),
    [
        pytest.param(0.5, "warning", id="a loss that stays"),
        pytest.param(0.9, "warning", id="a loss that rises"),
        pytest.param(0.4, "info", id="a loss that falls"),
        pytest.param(None, "info", id="no loss logged"),
    ],
)
def test_only_beside_a_loss_that_does_not_fall(loss: float | None, severity: str) -> None:
    assert severities(critic(-2.0, loss=loss)) == [severity]


@pytest.mark.parametrize(
    ("rows", "severity"),
    [
        pytest.param(9, "info", id="nine rows in the second half"),
        pytest.param(10, "warning", id="ten rows in the second half"),
    ],
)
def test_ten_rows_of_the_second_half(rows: int, severity: str) -> None:
    assert severities(critic(-2.0, rows=rows)) == [severity]


def test_a_single_better_row_makes_it_information() -> None:
    run = run_of(explained_variance=[-2.0] * 25 + [0.3, *[-2.0] * 4], value_loss=[0.5] * 30)
    assert severities(run) == ["info"]


@pytest.mark.parametrize("dialect", ["trl_ppo_old", "generic"])
def test_a_mean_over_mini_batches_is_information(dialect: str) -> None:
    assert severities(replace(critic(-2.0), dialect=dialect)) == ["info"]


def test_a_loss_logged_in_one_half_says_nothing() -> None:
    loss = [None] * 15 + [0.5] * 15
    finding = only("VAL001", run_of(explained_variance=[-2.0] * 30, value_loss=loss))
    assert finding.severity == "info"
    assert "one half only" in finding.message


def test_it_is_dated_and_can_be_looked_up() -> None:
    finding = only("VAL001", SICK[0])
    assert finding.onset is not None
    assert (finding.onset.low, finding.onset.step, finding.onset.high) == (1, 16, 16)
    assert logged(finding.evidence[0], "explained_variance", "1")
    assert "explains -1 of the variance" in finding.message
    assert "its loss does not fall" in finding.message


@pytest.mark.parametrize(
    ("rows", "looks"),
    [
        pytest.param(9, False, id="nine rows are too few"),
        pytest.param(10, True, id="ten rows are enough"),
    ],
)
def test_ten_rows_are_needed(rows: int, looks: bool) -> None:
    assert skipped("VAL001", run_of(explained_variance=[0.5] * rows)) is not looks


def test_another_number_is_never_judged() -> None:
    assert skipped("VAL001", log_of({"prob_corr_train_infer": [-1.0] * 30}))
    assert skipped("VAL001", run_of(explained_variance=[0.0] * 30))


def test_the_limits_can_be_set() -> None:
    assert severities(critic(-0.4), below_zero=0.3) == ["warning"]
    assert severities(critic(-2.0, rows=6), rows=6) == ["warning"]
    assert clear("VAL001", critic(0.2), below_zero=0.2)
