import pytest

from rlhfdoctor.model import Run
from tests.builders import clear, only, run_of, scanned, skipped

ZERO = {"adapter": True, "adapter_zero": True}
MOVED = {"adapter": True, "adapter_zero": False}


@pytest.mark.parametrize(
    "run",
    [
        pytest.param(run_of(loss_total=[1.0] * 5), id="nobody scanned"),
        pytest.param(run_of(scans=[scanned(10), scanned(20)]), id="full weights"),
        pytest.param(run_of(scans=[scanned(10, adapter=True)]), id="an adapter without LoRA"),
        pytest.param(run_of(scans=[scanned(0, **ZERO)]), id="step 0, before the first update"),
    ],
)
def test_without_a_lora_adapter_after_step_0_it_is_not_judged(run: Run) -> None:
    assert skipped("CKP006", run)


@pytest.mark.parametrize(
    "scans",
    [
        pytest.param([scanned(10, **MOVED)], id="one that moved"),
        pytest.param([scanned(10, **ZERO), scanned(20, **MOVED)], id="one that moved later"),
        pytest.param([scanned(0, **ZERO), scanned(10, **MOVED)], id="zero before training"),
    ],
)
def test_an_adapter_that_moved_is_clear(scans: list[dict[str, object]]) -> None:
    assert clear("CKP006", run_of(scans=scans))


@pytest.mark.parametrize("steps", [[1], [0, 10, 20]], ids=["one checkpoint", "several"])
def test_an_adapter_that_adds_nothing_was_never_trained(steps: list[int]) -> None:
    run = run_of(scans=[scanned(step, **ZERO) for step in steps], loss_total=[1.0] * 5)
    finding = only("CKP006", run)
    assert (finding.severity, finding.alone) == ("critical", True)
    assert f"exactly 0 at step {steps[-1]}" in finding.message
    later = [f"checkpoint-{step}" for step in steps if step]
    assert [item.subject for item in finding.evidence] == later
    assert finding.onset_step == 1
