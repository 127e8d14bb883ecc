from typing import Any

import pytest

from rlhfdoctor.model import Run
from tests.builders import clear, judge, only, run_of, skipped
from tests.rules.shapes import NAN, logged

STEPS = list(range(10, 130, 10))
LOSS = [0.69, 0.66, 0.62, 0.60, 0.40, 0.35, 0.33, 0.30, 0.12, 0.10, 0.08, 0.08]


def evaluated(
    losses: list[float], accuracies: list[float], train: float = 0.7, **columns: Any
) -> Run:
    """A run of twelve rows, with evaluations spread evenly over them."""
    every = 12 // len(losses)

    def spread(values: list[float]) -> list[float | None]:
        rows: list[float | None] = [None] * 12
        for index, value in enumerate(values):
            rows[(index + 1) * every - 1] = value
        return rows

    return run_of(
        **{
            "steps": STEPS,
            "dpo_accuracy": [0.5] * 4 + [train] * 8,
            "loss_total": LOSS,
            "eval_loss_total": spread(losses),
            "eval_dpo_accuracy": spread(accuracies),
            **columns,
        }
    )


WORSE = ([0.68, 0.66, 0.75, 0.80], [0.60, 0.64, 0.58, 0.57])
SICK = (evaluated(*WORSE),)


def test_an_evaluation_that_gets_worse_is_a_warning_since_its_lowest_loss() -> None:
    finding = only("DPO009", evaluated(*WORSE, train=0.95))
    assert finding.severity == "warning"
    assert finding.onset is not None
    assert (finding.onset.low, finding.onset.step, finding.onset.high) == (61, 90, 90)
    loss, accuracy = finding.evidence
    assert logged(loss, "eval_loss_total", "loss")
    assert (loss.first_step, loss.last_step, loss.observed) == (90, 120, 0.80)
    assert loss.limit_high == pytest.approx(0.71)
    assert logged(accuracy, "eval_dpo_accuracy", "fraction")
    assert "accuracy 0.95 on the training pairs, 0.57 on held-out ones;" in finding.message
    assert "loss is 0.09 above its lowest, of step 60" in finding.message


@pytest.mark.parametrize(
    ("losses", "accuracies", "alarms"),
    [
        pytest.param([0.68, 0.66, 0.712, 0.72], WORSE[1], True, id="just more than a twentieth"),
        pytest.param([0.68, 0.66, 0.708, 0.72], WORSE[1], False, id="just less than a twentieth"),
        pytest.param(WORSE[0], [0.60, 0.64, 0.60, 0.578], True, id="just more than 0.03 lost"),
        pytest.param(WORSE[0], [0.60, 0.64, 0.60, 0.582], False, id="just less than 0.03 lost"),
        pytest.param(WORSE[0], [0.50, 0.66, 0.58, 0.58], False, id="one high evaluation"),
        pytest.param(WORSE[0], [0.60, 0.64, 0.66, 0.68], False, id="a loss that rises alone"),
        pytest.param([0.68, 0.66, 0.66, 0.80], WORSE[1], False, id="the last evaluation alone"),
        pytest.param([0.68, 0.75, 0.80, 0.66], WORSE[1], False, id="a loss that came back"),
        pytest.param([0.66, 0.75, 0.80], [0.64, 0.58, 0.57], True, id="three evaluations"),
        pytest.param([0.66, 0.80], [0.64, 0.58], False, id="two evaluations"),
        pytest.param([0.68, 0.66, NAN, NAN], WORSE[1], False, id="NaN is not worse"),
    ],
)
def test_loss_and_accuracy_must_both_get_worse(
    losses: list[float], accuracies: list[float], alarms: bool
) -> None:
    assert clear("DPO009", evaluated(losses, accuracies)) is not alarms


@pytest.mark.parametrize(
    ("losses", "alarms"),
    [
        pytest.param([0.65, 0.70, 1.10, 1.31], True, id="just more than twice the lowest"),
        pytest.param([0.65, 0.70, 1.10, 1.29], False, id="just less than twice the lowest"),
        pytest.param([0.40, 0.70, 1.10, 1.20], True, id="just above ln 2 and 0.4"),
        pytest.param([0.40, 0.70, 1.08, 1.20], False, id="just below ln 2 and 0.4"),
        pytest.param([0.65, 0.70, 0.70, 1.40], False, id="the last evaluation alone"),
    ],
)
def test_a_loss_that_doubled_needs_no_accuracy_beside_it(losses: list[float], alarms: bool) -> None:
    assert clear("DPO009", evaluated(losses, [0.60, 0.61, 0.62, 0.62])) is not alarms


def test_a_training_loss_that_rises_too_is_no_overfitting() -> None:
    assert clear("DPO009", evaluated(*WORSE, loss_total=LOSS[:6] + [0.9] * 6))


@pytest.mark.parametrize(
    ("train", "gap"),
    [
        pytest.param(0.76, True, id="just more than 0.15 ahead"),
        pytest.param(0.74, False, id="just less than 0.15 ahead"),
    ],
)
def test_a_gap_alone_is_information(train: float, gap: bool) -> None:
    run = evaluated([0.68, 0.67, 0.66, 0.66], [0.55, 0.57, 0.60, 0.60], train)
    assert clear("DPO009", run) is not gap
    if gap:
        finding = only("DPO009", run)
        assert finding.severity == "info"
        assert finding.summary == "accuracy 0.76 in training, 0.60 held out"
        assert logged(finding.evidence[0], "eval_dpo_accuracy", "fraction")


def test_only_rows_before_the_evaluation_are_held_against_it() -> None:
    run = run_of(
        dpo_accuracy=[0.6] * 5 + [0.99] * 5, eval_dpo_accuracy=[None] * 4 + [0.6] + [None] * 5
    )
    assert clear("DPO009", run)


def test_evaluations_are_needed() -> None:
    assert skipped("DPO009", run_of(dpo_accuracy=[0.9] * 12))
    assert skipped("DPO009", run_of(dpo_accuracy=[0.9] * 12, eval_loss_total=[0.6] * 12))
    assert skipped("DPO009", run_of(eval_dpo_accuracy=[0.9] * 12))


def test_the_limits_can_be_set() -> None:
    calm = evaluated([0.68, 0.66, 0.68, 0.69], [0.60, 0.64, 0.61, 0.60])
    assert clear("DPO009", calm)
    assert only("DPO009", calm, rise=0.01, fall=0.01).severity == "warning"
    assert clear("DPO009", evaluated(*WORSE), patience=3)
    risen = evaluated([0.65, 0.70, 1.10, 1.31], [0.60, 0.61, 0.62, 0.62])
    assert clear("DPO009", risen, times=2.5)
    assert clear("DPO009", risen, chance=0.5)
    assert judge("DPO009", evaluated([0.6] * 4, [0.6] * 4), gap=0.05)
