import math
from dataclasses import replace
from typing import Any

import pytest

from rlhfdoctor.model import Run
from tests.builders import clear, judge, only, run_of, skipped
from tests.rules.shapes import NAN, logged

LN2 = math.log(2)
STEPS = [20, 40, 60, 80]


def trained(**columns: Any) -> Run:
    """A DPO run of four rows and 0.8 epochs whose loss is above ln 2 at an accuracy of chance."""
    return run_of(
        **{
            "algorithm": "DPO",
            "steps": STEPS,
            "loss_total": [1.5, 1.3, 1.2, 1.2],
            "dpo_accuracy": [0.47, 0.47, 0.51, 0.52],
            **columns,
        }
    )


SICK = (trained(),)


def test_it_is_a_warning_from_the_first_row() -> None:
    finding = only("DPO005", trained())
    assert finding.severity == "warning"
    assert finding.onset is not None
    assert (finding.onset.low, finding.onset.step, finding.onset.high) == (20, 20, 20)
    loss, accuracy = finding.evidence
    assert logged(loss, "loss_total", "loss")
    assert (loss.first_step, loss.last_step, loss.observed) == (20, 80, 1.2)
    assert logged(accuracy, "dpo_accuracy", "fraction")
    assert "at least 1.2 in all 4 logged rows" in finding.message
    assert "the accuracy is 0.49:" in finding.message


@pytest.mark.parametrize(
    ("lowest", "alarms"),
    [
        pytest.param(LN2 + 0.21, True, id="just more than a fifth above ln 2"),
        pytest.param(LN2 + 0.19, False, id="just less than a fifth above ln 2"),
        pytest.param(LN2, False, id="ln 2 in one row"),
    ],
)
def test_every_row_must_be_far_above_ln_2(lowest: float, alarms: bool) -> None:
    run = trained(loss_total=[1.5, lowest, 1.3, 1.3])
    assert clear("DPO005", run) is not alarms


@pytest.mark.parametrize(
    ("accuracies", "alarms"),
    [
        pytest.param([0.55] * 4, True, id="just above one half"),
        pytest.param([0.57] * 4, False, id="above chance"),
        pytest.param([0.4, 0.4, 0.7, 0.7], False, id="chance in the mean, but learning"),
        pytest.param([0.3] * 4, True, id="below one half"),
    ],
)
def test_the_accuracy_must_be_that_of_chance(accuracies: list[float], alarms: bool) -> None:
    run = trained(dpo_accuracy=accuracies)
    assert clear("DPO005", run) is not alarms


@pytest.mark.parametrize(
    ("steps", "severity"),
    [
        pytest.param([12, 25, 37, 49], "info", id="less than half an epoch"),
        pytest.param([12, 25, 37, 51], "warning", id="more than half an epoch"),
    ],
)
def test_before_half_an_epoch_it_is_information(steps: list[int], severity: str) -> None:
    assert only("DPO005", trained(steps=steps)).severity == severity


def test_without_epochs_it_is_information() -> None:
    run = trained()
    assert only("DPO005", replace(run, metrics=run.metrics.with_columns(epoch=None)))
    none = replace(run, metrics=run.metrics.with_columns(epoch=NAN))
    assert only("DPO005", none).severity == "info"


@pytest.mark.parametrize(
    "algorithm", ["ORPO or SimPO", "KTO", "IPO", "CPO", "SimPO", "unknown"], ids=str
)
def test_other_algorithms_begin_elsewhere(algorithm: str) -> None:
    assert skipped("DPO005", trained(algorithm=algorithm))


@pytest.mark.parametrize(
    "columns",
    [
        pytest.param({"sft_loss": [0.9] * 4}, id="a supervised term"),
        pytest.param(
            {"dpo_reward_chosen": [0.01] * 4, "dpo_margin": [0.019] * 4}, id="a first margin of 0"
        ),
        pytest.param({"loss_total": [1.019, 0.95, 0.93, 0.92]}, id="the start of a hinge loss"),
        pytest.param(
            {"loss_total": [25.4, 24.0, 23.0, 22.0], "config": {"kl_coef": 0.1}},
            id="the start of IPO",
        ),
        pytest.param({"loss_total": [4 * LN2 * 1.019] * 4}, id="a sum over four batches"),
        pytest.param({"loss_total": [16 * LN2 * 0.981] * 4}, id="a sum over sixteen batches"),
    ],
)
def test_what_tells_of_another_loss_is_listened_to(columns: dict[str, Any]) -> None:
    assert skipped("DPO005", trained(**columns))


@pytest.mark.parametrize(
    "columns",
    [
        pytest.param({"sft_loss": [0.9] * 4, "policy_loss": [1.5] * 4}, id="a loss of its own"),
        pytest.param(
            {"dpo_reward_chosen": [0.01] * 4, "dpo_margin": [0.021] * 4}, id="a first margin"
        ),
        pytest.param({"loss_total": [1.021, 0.95, 0.93, 0.92]}, id="not quite a hinge loss"),
        pytest.param(
            {"loss_total": [25.6, 24.0, 23.0, 22.0], "config": {"kl_coef": 0.1}},
            id="not quite IPO",
        ),
        pytest.param(
            {"loss_total": [4 * LN2] * 3 + [4 * LN2 * 1.021]}, id="not quite a sum over batches"
        ),
    ],
)
def test_what_does_not_tell_of_another_loss_is_judged(columns: dict[str, Any]) -> None:
    assert only("DPO005", trained(**columns)).severity == "warning"


@pytest.mark.parametrize(
    ("losses", "accuracies"),
    [
        pytest.param([1.5, 1.5, 1.5, NAN], [0.5] * 4, id="three finite losses"),
        pytest.param([1.5] * 4, [0.5, 0.5, 0.5, NAN], id="three finite accuracies"),
    ],
)
def test_four_rows_are_needed(losses: list[float], accuracies: list[float]) -> None:
    assert skipped("DPO005", trained(loss_total=losses, dpo_accuracy=accuracies))


def test_the_limits_can_be_set() -> None:
    assert clear("DPO005", trained(), above=0.6)
    assert clear("DPO005", trained(dpo_accuracy=[0.52] * 4), chance=0.01)
    assert skipped("DPO005", trained(dpo_accuracy=[0.5] * 3 + [NAN]))
    assert judge("DPO005", trained(dpo_accuracy=[0.5] * 3 + [NAN]), rows=3)
    assert only("DPO005", trained(), epochs=0.9).severity == "info"
    margins = {"dpo_reward_chosen": [0.1] * 4, "dpo_margin": [0.1] * 4}
    assert only("DPO005", trained(**margins))
    assert not isinstance(judge("DPO005", trained(**margins), agree=0.2), list)
    assert not isinstance(judge("DPO005", trained(loss_total=[1.06] * 4), same=0.1), list)
