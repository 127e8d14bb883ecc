from dataclasses import replace

import pytest

from rlhfdoctor.model import Checkpoint, Run, Skip
from tests.builders import clear, judge, only, run_of, skipped
from tests.rules.shapes import NAN


def ended(last: int, checkpoints: tuple[int, ...] = (), **config: float | str | None) -> Run:
    return run_of(
        steps=[last - 1, last],
        loss_total=[1.0, 1.0],
        config={name: value for name, value in config.items() if value is not None},
        checkpoints=[Checkpoint(step, "", f"checkpoint-{step}") for step in checkpoints],
    )


@pytest.mark.parametrize(
    ("last", "every", "short"),
    [
        pytest.param(100, None, False, id="the log reaches the plan"),
        pytest.param(101, None, False, id="the log goes beyond the plan"),
        pytest.param(99, None, True, id="one row is missing"),
        pytest.param(91, 10, False, id="no further row was due"),
        pytest.param(90, 10, True, id="the row at the planned step was due"),
        pytest.param(99, 0, True, id="an interval of zero counts as one"),
        pytest.param(100, 0, False, id="an interval of zero accuses no complete log"),
        pytest.param(91, 0.1, False, id="a tenth of the plan is ten steps"),
        pytest.param(90, 0.1, True, id="a tenth of the plan was due"),
        pytest.param(96, 0.045, False, id="a share that makes no whole step is rounded up"),
        pytest.param(95, 0.045, True, id="five steps were due"),
        pytest.param(99, 1, True, id="an interval of one is no share"),
    ],
)
def test_short_means_that_another_row_was_due(last: int, every: float | None, short: bool) -> None:
    run = ended(last, planned_steps=100, logging_steps=every)
    assert clear("LOG001", run) is not short


def test_it_is_information_and_dated_at_the_end_of_the_log() -> None:
    finding = only("LOG001", ended(60, planned_steps=100))
    assert finding.severity == "info"
    assert finding.onset is not None
    assert (finding.onset.low, finding.onset.step, finding.onset.high) == (60, 60, 60)
    evidence = finding.evidence[0]
    assert evidence.kind == "log"
    assert (evidence.where.file, evidence.where.key) == ("args.json", "planned_steps")
    assert evidence.unit == "steps"
    assert (evidence.observed, evidence.limit_low) == (60.0, 100.0)
    assert "step 60 of 100 planned" in finding.message
    assert "step 60 of 100" in finding.summary


@pytest.mark.parametrize(
    ("checkpoints", "told"),
    [
        pytest.param((40, 60), False, id="checkpoints as old as the log are not told"),
        pytest.param((40, 80), True, id="a younger checkpoint is told"),
    ],
)
def test_a_checkpoint_younger_than_the_log_is_named(
    checkpoints: tuple[int, ...], told: bool
) -> None:
    finding = only("LOG001", ended(60, checkpoints, planned_steps=100))
    assert ("checkpoint-80 is younger than the log" in finding.message) is told


@pytest.mark.parametrize(
    "planned",
    [
        pytest.param(-1, id="minus one stands for no limit"),
        pytest.param(0, id="zero is no plan"),
        pytest.param(NAN, id="NaN is no number of steps"),
        pytest.param(float("inf"), id="a run without an end cannot be cut"),
        pytest.param("auto", id="a word is no number of steps"),
    ],
)
def test_a_plan_that_is_no_positive_number_is_not_judged(planned: float | str) -> None:
    assert skipped("LOG001", ended(60, planned_steps=planned))


def test_one_row_is_enough() -> None:
    run = run_of(steps=[60], loss_total=[1.0], config={"planned_steps": 100})
    assert "step 60 of 100 planned" in only("LOG001", run).message


def test_without_a_plan_or_a_row_nothing_is_judged() -> None:
    assert skipped("LOG001", ended(60))
    assert skipped("LOG001", ended(60, planned_epochs=3))
    empty = run_of(config={"planned_steps": 100})
    assert judge("LOG001", empty) == Skip("LOG001", ("rows>=1",))


def test_numbered_rows_are_no_steps_to_compare_with_a_plan() -> None:
    outcome = judge("LOG001", replace(ended(60, planned_steps=100), step_unit="row"))
    assert isinstance(outcome, Skip)
    assert outcome.missing == ("steps: the log's rows had to be numbered",)
