from dataclasses import replace

import pytest

from tests.builders import clear, judge, only, run_of, skipped
from tests.rules.shapes import NAN, logged, silent

START = [0.0, 1.0, 4.0]
SICK = (run_of(dpo_margin=[*START, *[12.0] * 5], dpo_accuracy=[0.5, 0.9, *[1.0] * 6]),)


@pytest.mark.parametrize(
    ("margin", "accuracy", "solved"),
    [
        pytest.param(10.1, 0.995, True, id="just above ten, nearly all pairs"),
        pytest.param(9.9, 1.0, False, id="just below ten"),
        pytest.param(12.0, 0.98, False, id="two pairs in a hundred wrong"),
        pytest.param(NAN, 1.0, False, id="NaN is not above"),
    ],
)
def test_solved_is_a_margin_of_ten_on_all_pairs(
    margin: float, accuracy: float, solved: bool
) -> None:
    run = run_of(dpo_margin=START + [margin] * 5, dpo_accuracy=[0.9] * 3 + [accuracy] * 5)
    assert silent("DPO006", run) is not solved


@pytest.mark.parametrize(
    ("steps", "soon"),
    [
        pytest.param([1, 5, 10, 15, 20], True, id="after a tenth of an epoch"),
        pytest.param([1, 5, 11, 15, 20], False, id="after more than a tenth"),
    ],
)
def test_soon_is_a_tenth_of_an_epoch(steps: list[int], soon: bool) -> None:
    run = run_of(steps=steps, dpo_margin=[0.0, 1.0, 12.0, 12.0, 12.0], dpo_accuracy=[1.0] * 5)
    assert clear("DPO006", run) is not soon


@pytest.mark.parametrize(
    ("rows", "solved"),
    [
        pytest.param(2, False, id="two rows may be chance"),
        pytest.param(3, True, id="three rows are solved"),
    ],
)
def test_three_rows_are_asked_for(rows: int, solved: bool) -> None:
    run = run_of(dpo_margin=START + [12.0] * rows, dpo_accuracy=[1.0] * (3 + rows))
    assert clear("DPO006", run) is not solved


def test_it_is_information() -> None:
    finding = only("DPO006", SICK[0])
    assert finding.severity == "info"
    assert finding.onset is not None
    assert (finding.onset.low, finding.onset.step, finding.onset.high) == (1, 4, 4)
    assert logged(finding.evidence[0], "dpo_margin", "nats*beta")
    assert finding.evidence[0].limit_high == 10.0
    assert "above 10 nats*beta and the accuracy 1.00 from step 4 on" in finding.message
    assert finding.summary == "margin above 10 after 0.04 epochs"


def test_another_unit_or_no_epoch_is_not_judged() -> None:
    run = SICK[0]
    assert skipped("DPO006", replace(run, metrics=run.metrics.with_columns(epoch=None)))
    other = run_of(dpo_margin=[12.0] * 5, dpo_accuracy=[1.0] * 5, units={"dpo_margin": "unknown"})
    assert skipped("DPO006", other)
    assert skipped("DPO006", run_of(dpo_margin=[12.0] * 5))


def test_the_limits_can_be_set() -> None:
    run = run_of(dpo_margin=START + [6.0] * 5, dpo_accuracy=[0.9] * 8)
    assert clear("DPO006", run)
    assert judge("DPO006", run, margin=5.0, accuracy=0.8)
    assert clear("DPO006", SICK[0], epochs=0.01)
    assert clear("DPO006", SICK[0], patience=6)
