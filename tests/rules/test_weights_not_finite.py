import pytest

from rlhfdoctor.model import Run
from tests.builders import clear, only, run_of, scanned, skipped, unread

NAN = {"finite": False, "non_finite": 7, "first_non_finite": "lm_head.weight", "norm": None}


def test_finite_weights_are_clear() -> None:
    assert clear("CKP002", run_of(scans=[scanned(10), scanned(20)]))


@pytest.mark.parametrize(
    "run",
    [
        pytest.param(run_of(loss_total=[1.0] * 5), id="nobody scanned"),
        pytest.param(run_of(scans=[]), id="no checkpoint"),
        pytest.param(run_of(scans=[unread(10)]), id="none could be read"),
    ],
)
def test_without_a_scan_it_is_not_judged(run: Run) -> None:
    assert skipped("CKP002", run)


def test_weights_that_are_not_finite_are_proof_and_named() -> None:
    run = run_of(scans=[scanned(10), scanned(20), scanned(30, **NAN), scanned(40, **NAN)])
    finding = only("CKP002", run)
    assert (finding.severity, finding.alone, finding.recovered_at) == ("critical", True, None)
    assert "7 of the weights of checkpoint-30" in finding.message
    assert "lm_head.weight" in finding.message
    first, second = finding.evidence
    assert (first.subject, second.subject) == ("checkpoint-30", "checkpoint-40")
    assert (first.where.file, first.where.tensor) == ("run/checkpoint-30", "lm_head.weight")
    assert (first.observed, first.unit) == (7.0, "values")


@pytest.mark.parametrize(
    ("before", "offset", "step", "low"),
    [
        pytest.param([scanned(10), scanned(20)], 0, 30, 21, id="after the finite checkpoint"),
        pytest.param([scanned(10), scanned(20)], 1, 31, 22, id="in rows of the log"),
        pytest.param([scanned(10), unread(20)], 1, 31, 12, id="one that was not read says nothing"),
        pytest.param([], 1, 31, 2, id="no finite checkpoint: after the first update"),
    ],
)
def test_it_began_after_the_last_finite_checkpoint(
    before: list[dict[str, object]], offset: int, step: int, low: int
) -> None:
    run = run_of(scans=[*before, scanned(30, **NAN)], log_offset=offset)
    onset = only("CKP002", run).onset
    assert onset is not None
    assert (onset.step, onset.low, onset.high) == (step, low, step)


def test_a_later_finite_checkpoint_makes_it_a_file_that_must_not_be_used() -> None:
    run = run_of(scans=[scanned(10), scanned(20, **NAN), scanned(30)], log_offset=1)
    finding = only("CKP002", run)
    assert (finding.severity, finding.alone, finding.recovered_at) == ("info", False, 31)
