import json
import math
from dataclasses import asdict
from typing import Any

import pytest

from rlhfdoctor.doctor import diagnose
from rlhfdoctor.runs import read_runs
from rlhfdoctor.summaries import MOST_ROWS, restored, summary
from tests.builders import FIXTURES, batch
from tests.test_compare import of


def test_a_run_of_any_length_keeps_a_bounded_number_of_rows() -> None:
    values = [float(step) for step in range(1, 5001)]
    run = of(reward_raw_mean=values, grad_norm=values, entropy=values)
    for kept in run.curves:
        assert len(kept.steps) == len(kept.values) == MOST_ROWS
        assert (kept.steps[0], kept.steps[-1], kept.rows) == (1, 5000, 5000)
        assert (kept.first, kept.last) == (3.0, 4998.0)
        assert [float(step) for step in kept.steps] == [*kept.values]
    assert len(run.epochs) == MOST_ROWS


def test_the_gradient_norm_is_measured_on_every_row_and_robustly() -> None:
    run = of(grad_norm=[1.0, 2.0, 3.0, 2.0, 100.0])
    assert run.gradient is not None
    middle, variance, relative = run.gradient
    assert middle == 2.0
    assert variance == pytest.approx(1921.3)
    assert relative == pytest.approx((1.4826 * 1.0 / 2.0) ** 2)


def test_hours_and_gpu_hours_are_of_the_whole_log() -> None:
    run = of(step_time=[3600.0] * 11, loss_total=[1.0] * 11, settings={"gpus": 8})
    assert (run.hours, run.gpu_hours) == (10.0, 80.0)
    assert (of(loss_total=[1.0]).hours, of(loss_total=[1.0]).gpu_hours) == (None, None)


def test_perplexity_is_that_of_the_samples_at_their_first_and_last_step() -> None:
    samples = [*batch(1, [[1, 2, 3]] * 4, logprob=-3.0), *batch(9, [[1, 2, 3]] * 4, logprob=-1.0)]
    found = of(samples=samples).perplexity
    assert found is not None
    assert [*found] == pytest.approx([math.exp(3), math.exp(1)])


def test_a_learning_rate_that_only_the_log_tells_is_its_peak_and_said() -> None:
    run = of(lr=[0.0, 1e-5, 5e-6])
    assert run.settings["learning_rate"] == 1e-5
    assert any("largest one logged" in note for note in run.notes)


# stored and read again


@pytest.mark.parametrize("name", ["grpo_late", "ppo_late", "dpo_healthy"])
def test_a_summary_survives_json(name: str) -> None:
    (run,) = read_runs(FIXTURES / name)
    found = summary(diagnose(run))
    assert restored(json.loads(json.dumps(asdict(found)))) == found


def changed(**fields: object) -> dict[str, Any]:
    return {**json.loads(json.dumps(asdict(of(reward_raw_mean=[1.0, 2.0])))), **fields}


@pytest.mark.parametrize(
    "told",
    [
        pytest.param({}, id="nothing"),
        pytest.param(changed(more=1), id="a field too many"),
        pytest.param(changed(curves=None), id="no curves"),
        pytest.param(changed(curves=[{}]), id="an empty curve"),
        pytest.param(changed(curves=[{**changed()["curves"][0], "values": []}]), id="no values"),
        pytest.param(changed(onset=[1, 2]), id="half an onset"),
        pytest.param(changed(onset=[1, 2, "3"]), id="an onset of text"),
        pytest.param(changed(rows=True), id="a truth for a number"),
        pytest.param(changed(settings={"learning_rate": [1]}), id="a list for a setting"),
        pytest.param(changed(hours=math.nan), id="hours that are no number"),
        pytest.param(changed(hours=10**400), id="hours that no float holds"),
    ],
)
def test_what_is_no_summary_is_refused(told: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"no run|not the fields|not what|without a value") as why:
        restored(told)
    assert "class" not in str(why.value)
    assert "NoneType" not in str(why.value)


@pytest.mark.parametrize("told", [None, [], "run", 1])
def test_what_is_no_mapping_is_no_run(told: object) -> None:
    with pytest.raises(ValueError, match="no run"):
        restored(told)
