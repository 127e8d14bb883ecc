from typing import Any

import pytest

from tests.builders import clear, judge, only, run_of, skipped
from tests.rules.shapes import NAN, log_of, logged

MOVING = [0.50, 0.52, 0.55, 0.53, 0.56, 0.58, 0.54, 0.57, 0.59, 0.60]
SICK = (run_of(heldout_score=[*MOVING, *[0.45] * 10]),)


@pytest.mark.parametrize(
    ("repeats", "found"),
    [
        pytest.param(4, False, id="four times the same may be luck"),
        pytest.param(5, True, id="five times the same are none"),
    ],
)
def test_the_same_numbers_five_times_in_a_row(repeats: int, found: bool) -> None:
    run = run_of(heldout_score=[*MOVING, *[0.45] * repeats])
    assert clear("RWD007", run) is not found


@pytest.mark.parametrize(
    ("before", "found"),
    [
        pytest.param([0.45, 0.5, 0.55, 0.6], False, id="one of four others is the same"),
        pytest.param(
            [0.47, 0.5, 0.55, 0.6, 0.52, 0.51, 0.48, 0.49, 0.53], True, id="none of nine is"
        ),
    ],
)
def test_small_evaluation_sets_repeat_by_chance(before: list[float], found: bool) -> None:
    assert clear("RWD007", run_of(heldout_score=[*before, *[0.45] * 5])) is not found


@pytest.mark.parametrize(
    ("before", "found"),
    [
        pytest.param(7, False, id="a chance of 3 in a thousand"),
        pytest.param(8, True, id="a chance of just less than 2 in a thousand"),
    ],
)
def test_the_chance_is_at_most_two_in_a_thousand(before: int, found: bool) -> None:
    run = run_of(heldout_score=[*MOVING[:before], *[0.45] * 5])
    assert clear("RWD007", run) is not found


@pytest.mark.parametrize(
    "column",
    [
        pytest.param("heldout_score", id="a held-out score"),
        pytest.param("heldout_score[math]", id="a held-out score of one set"),
        pytest.param("heldout_reward", id="a held-out reward"),
        pytest.param("success_rate", id="the share of solved tasks"),
        pytest.param("eval_reward_raw_mean", id="the reward of an evaluation"),
        pytest.param("eval_entropy", id="the entropy of an evaluation"),
    ],
)
def test_every_held_out_quantity_is_asked(column: str) -> None:
    finding = only("RWD007", log_of({column: [*MOVING, *[0.45] * 8]}))
    assert finding.severity == "critical"
    assert finding.weak == "warning"
    assert finding.signal == "reward"


@pytest.mark.parametrize(
    ("other", "found"),
    [
        pytest.param([*MOVING, *[0.3] * 8], True, id="another that stands still too"),
        pytest.param([0.7] * 18, True, id="another that never moved says nothing"),
        pytest.param([*MOVING, *[0.30, 0.31] * 4], False, id="another that still moves"),
        pytest.param([NAN] * 18, True, id="another of NaN says nothing"),
    ],
)
def test_all_that_ever_varied_must_stand_still(other: list[float], found: bool) -> None:
    run = run_of(heldout_score=[*MOVING, *[0.45] * 8], eval_loss_total=other)
    assert clear("RWD007", run) is not found


def test_how_many_tokens_an_evaluation_has_seen_says_nothing() -> None:
    run = run_of(
        heldout_score=[*MOVING, *[0.45] * 8], eval_num_tokens=[float(row) for row in range(18)]
    )
    assert judge("RWD007", run)


@pytest.mark.parametrize(
    ("level", "found"),
    [
        pytest.param(1.0, False, id="solved"),
        pytest.param(0.6, False, id="converged at the best of the run"),
        pytest.param(0.59, True, id="below the best of the run"),
    ],
)
def test_what_stands_at_its_best_has_converged(level: float, found: bool) -> None:
    run = run_of(heldout_score=[*MOVING, *[level] * 8])
    assert clear("RWD007", run) is not found


@pytest.mark.parametrize(
    ("repeats", "after", "severity"),
    [
        pytest.param(9, 18, "info", id="less than a quarter of all evaluations"),
        pytest.param(10, 18, "warning", id="more than a quarter of all evaluations"),
    ],
)
def test_a_spell_that_ended_is_a_fault_where_it_was_long(
    repeats: int, after: int, severity: str
) -> None:
    later = [0.61 + 0.01 * (row % 9) for row in range(after)]
    finding = only("RWD007", run_of(heldout_score=[*MOVING, *[0.45] * repeats, *later]))
    assert finding.severity == severity
    assert finding.recovered_at == 11 + repeats


@pytest.mark.parametrize(
    ("rate", "severity"),
    [
        pytest.param(1e-8, "info", id="a hundredth of the highest learning rate changes nothing"),
        pytest.param(1.1e-8, "critical", id="a little more does"),
        pytest.param(NAN, "critical", id="a rate that is not logged excuses nothing"),
    ],
)
def test_where_nothing_is_learnt_any_more_nothing_can_change(rate: float, severity: str) -> None:
    run = run_of(heldout_score=[*MOVING, *[0.45] * 8], lr=[1e-6] * 10 + [rate] * 8)
    assert only("RWD007", run).severity == severity


@pytest.mark.parametrize(
    ("loss", "said"),
    [
        pytest.param([0.1] * 10 + [0.0, -0.0] * 4, True, id="a loss of exactly zero"),
        pytest.param([0.1] * 18, False, id="a loss that is none"),
        pytest.param([NAN] * 18, False, id="no loss"),
    ],
)
def test_a_loss_of_exactly_zero_is_told(loss: list[float], said: bool) -> None:
    run = run_of(heldout_score=[*MOVING, *[0.45] * 8], loss_total=loss)
    assert ("loss being exactly 0" in only("RWD007", run).message) is said


def test_it_is_dated_at_the_first_of_the_same_evaluations() -> None:
    score: list[float | None] = [*MOVING, *[0.45] * 8]
    run = run_of(steps=range(20, 380, 20), heldout_score=score)
    finding = only("RWD007", run)
    assert finding.onset is not None
    assert (finding.onset.low, finding.onset.step, finding.onset.high) == (200, 220, 220)
    evidence = finding.evidence[0]
    assert logged(evidence, "heldout_score", "score")
    assert evidence.observed == 0.45
    assert (evidence.first_step, evidence.last_step) == (220, 360)
    assert "8 evaluations in a row" in finding.message
    assert "8 identical" in finding.summary


def test_the_same_from_the_first_evaluation_was_never_different() -> None:
    assert clear("RWD007", run_of(heldout_score=[0.45] * 10 + [0.6] * 1 + [0.5, 0.7]))


def test_rows_between_two_evaluations_do_not_count() -> None:
    columns: dict[str, Any] = {
        "heldout_score": [
            value for score in (*MOVING, *[0.45] * 8) for value in (score, None, None)
        ]
    }
    assert "8 evaluations" in only("RWD007", log_of(columns)).message


def test_too_few_evaluations_are_not_judged() -> None:
    assert skipped("RWD007", run_of(heldout_score=[0.5, 0.6, *[0.4] * 3]))
    assert skipped("RWD007", run_of(heldout_score=[0.45] * 20))
    assert skipped("RWD007", run_of(reward_raw_mean=[*MOVING, *[0.45] * 8]))


def test_the_limits_can_be_set() -> None:
    run = run_of(heldout_score=[*MOVING, 0.61, 0.62, *[0.45] * 4])
    assert judge("RWD007", run, repeats=4, chance=0.01)
    assert clear("RWD007", run, repeats=4, chance=1e-6)
    spell = run_of(heldout_score=[*MOVING, *[0.45] * 6, *MOVING, *MOVING])
    assert only("RWD007", spell).severity == "info"
    assert only("RWD007", spell, long=0.1).severity == "warning"
    rate = run_of(heldout_score=[*MOVING, *[0.45] * 8], lr=[1e-6] * 10 + [1e-7] * 8)
    assert only("RWD007", rate, rate=0.2).severity == "info"
