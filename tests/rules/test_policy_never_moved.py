from typing import Any

import pytest

from rlhfdoctor.model import Onset, Skip
from tests.builders import began, clear, judge, only, run_of, scanned, scored, skipped

NAN = float("nan")
HALF = {"dtype": "bfloat16", "noise_floor": 5e-3, "below_floor": True}


@pytest.mark.parametrize(
    "kls",
    [
        pytest.param([1e-5], id="at the floor"),
        pytest.param([1e-6, 2e-5], id="the last one moved"),
        pytest.param([2e-5, 1e-6], id="one moved and came back"),
        pytest.param([NAN], id="NaN"),
        pytest.param([1e-6, None], id="nothing"),
    ],
)
def test_a_checkpoint_that_can_be_told_from_the_reference_is_clear(kls: list[float]) -> None:
    scores = [began(), *(scored(10 * at, kl) for at, kl in enumerate(kls, start=1))]
    assert clear("REF006", run_of(scores=scores))


@pytest.mark.parametrize(("kl", "severity"), [(1e-6, "critical"), (1.1e-6, "info")], ids=str)
def test_a_policy_that_moved_a_little_is_information(kl: float, severity: str) -> None:
    found = only("REF006", run_of(scores=[scored(10, kl)], lr=[1.0] * 40))
    assert (found.severity, found.alone) == (severity, severity == "critical")


@pytest.mark.parametrize("kl", [0.0, 1e-6, -3e-7])
@pytest.mark.parametrize("count", [1, 3])
def test_checkpoints_that_none_can_be_told_from_it_were_never_trained(
    count: int, kl: float
) -> None:
    scores = [scored(10 * at, kl) for at in range(1, count + 1)]
    finding = only("REF006", run_of(scores=scores, lr=[1.0] * 40, log_offset=1))
    assert (finding.severity, finding.alone) == ("critical", True)
    assert finding.args["checkpoint"] == f"checkpoint-{10 * count}"
    assert finding.onset == Onset(1, 1, 1)
    assert finding.evidence[0].observed == kl


def test_pairs_are_judged_too() -> None:
    still = [scored(10, 0.0, part="chosen", on_policy=False)]
    assert only("REF006", run_of(scores=still)).onset == Onset(10, 10, 10)
    assert clear("REF006", run_of(scores=[scored(10, 0.1, part="chosen"), scored(10, 0.0)]))


@pytest.mark.parametrize(
    "rows",
    [
        pytest.param([], id="no rows"),
        pytest.param([began()], id="a reference alone"),
        pytest.param([scored(0, 0.0)], id="the initial model alone"),
    ],
)
def test_a_checkpoint_after_step_0_is_needed(rows: list[dict[str, Any]]) -> None:
    assert skipped("REF006", run_of(scores=rows))


@pytest.mark.parametrize("first", [HALF, {}])
def test_half_precision_cannot_tell(first: dict[str, Any]) -> None:
    outcome = judge("REF006", run_of(scores=[scored(10, 1e-9, **first), scored(20, 1e-3, **HALF)]))
    assert isinstance(outcome, Skip)
    assert outcome.command == "--dtype float32"
    assert clear("REF006", run_of(scores=[scored(10, 0.1, **{**HALF, "below_floor": False})]))


@pytest.mark.parametrize(
    ("hashes", "severity"),
    [
        pytest.param(["a", "a"], "critical", id="the same bytes"),
        pytest.param(["a", "b"], "info", id="bytes that differ"),
    ],
)
def test_weights_that_differ_were_trained_however_little(hashes: list[str], severity: str) -> None:
    scans = [scanned(10 * at, hash=each) for at, each in enumerate(hashes, start=1)]
    run = run_of(scans=scans, scores=[scored(10, 0.0), scored(20, 1e-7)])
    finding = only("REF006", run)
    assert (finding.severity, finding.alone) == (severity, severity == "critical")
