import pytest

from tests.builders import clear, only, run_of, skipped
from tests.rules.shapes import NAN, halves, log_of, logged


@pytest.mark.parametrize(
    ("errors", "rises"),
    [
        pytest.param(3.9, False, id="halves 3.9 standard errors apart are noise"),
        pytest.param(4.1, True, id="halves 4.1 standard errors apart are a rise"),
        pytest.param(-9.0, False, id="a fall is no rise"),
    ],
)
def test_a_rise_is_four_standard_errors(errors: float, rises: bool) -> None:
    assert clear("RWD003", run_of(reward_raw_mean=halves(errors))) is not rises


def test_it_is_information_without_an_onset() -> None:
    finding = only("RWD003", run_of(reward_raw_mean=[-1.0] * 10 + [0.5] * 10))
    assert finding.severity == "info"
    assert finding.onset is None
    evidence = finding.evidence[0]
    assert logged(evidence, "reward_raw_mean", "reward")
    assert evidence.observed == 0.5
    assert (evidence.first_step, evidence.last_step) == (1, 20)
    assert "rises from -1 to 0.5" in finding.message
    assert "-1 -> 0.5" in finding.summary


@pytest.mark.parametrize(
    "values",
    [
        pytest.param([0.0] * 20, id="a reward of zero throughout"),
        pytest.param([0.7] * 20, id="a constant reward"),
        pytest.param([0.1] * 10 + [NAN] * 10, id="NaN is no rise"),
        pytest.param([0.1] * 5 + [0.9] * 10 + [0.1] * 5, id="a rise that went away again"),
    ],
)
def test_what_does_not_rise_is_not_told(values: list[float]) -> None:
    assert clear("RWD003", run_of(reward_raw_mean=values))


@pytest.mark.parametrize(
    ("rows", "looks"),
    [
        pytest.param(9, False, id="nine rows are too few"),
        pytest.param(10, True, id="ten rows are enough"),
    ],
)
def test_ten_rows_are_needed(rows: int, looks: bool) -> None:
    assert skipped("RWD003", run_of(reward_raw_mean=[1.0] * rows)) is not looks
    assert skipped("RWD003", run_of(reward_raw_mean=[1.0] * rows + [NAN] * 20)) is not looks


@pytest.mark.parametrize(
    "column",
    [
        pytest.param("reward_shaped_mean", id="a reward with the penalty inside"),
        pytest.param("reward_component_mean", id="one part of a reward"),
        pytest.param("eval_reward_raw_mean", id="evaluation is not training"),
    ],
)
def test_another_reward_is_never_judged(column: str) -> None:
    assert skipped("RWD003", log_of({column: halves(9.0)}))


def test_the_limits_can_be_set() -> None:
    assert not clear("RWD003", run_of(reward_raw_mean=halves(3.0)), standard_errors=2.5)
