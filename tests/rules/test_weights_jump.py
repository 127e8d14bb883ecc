import pytest

from rlhfdoctor.model import Run
from tests.builders import clear, judge, only, run_of, scanned, skipped, unread

NAN = {"finite": False, "non_finite": 1, "first_non_finite": "w", "norm": None}


@pytest.mark.parametrize(
    "run",
    [
        pytest.param(run_of(loss_total=[1.0] * 5), id="nobody scanned"),
        pytest.param(run_of(scans=[scanned(10), unread(20)]), id="one that could be read"),
        pytest.param(run_of(scans=[scanned(10), scanned(20, **NAN)]), id="one that is finite"),
        pytest.param(
            run_of(scans=[scanned(10), scanned(20, adapter=True, norm=90.0)]),
            id="an adapter and full weights",
        ),
        pytest.param(
            run_of(scans=[scanned(10), scanned(20, parameters=101, norm=90.0)]),
            id="other parameter counts",
        ),
        pytest.param(run_of(scans=[scanned(10), scanned(20, norm=0.0)]), id="a norm of 0"),
    ],
)
def test_two_comparable_norms_are_needed(run: Run) -> None:
    assert skipped("CKP004", run)


@pytest.mark.parametrize(
    ("norm", "adapter", "jumps"),
    [
        pytest.param(14.9, False, False, id="just below half as much again"),
        pytest.param(15.1, False, True, id="just above half as much again"),
        pytest.param(6.7, False, False, id="just above two thirds"),
        pytest.param(6.6, False, True, id="just below two thirds"),
        pytest.param(39.9, True, False, id="an adapter just below four times"),
        pytest.param(40.1, True, True, id="an adapter just above four times"),
        pytest.param(2.4, True, True, id="an adapter just below a quarter"),
    ],
)
def test_the_norm_may_change_by_a_factor(norm: float, adapter: bool, jumps: bool) -> None:
    scans = [scanned(10, adapter=adapter), scanned(20, adapter=adapter, norm=norm)]
    assert clear("CKP004", run_of(scans=scans)) is not jumps


def test_the_limits_are_the_users() -> None:
    full = run_of(scans=[scanned(10), scanned(20, norm=11.0)])
    assert not clear("CKP004", full, factor=1.05)
    adapters = [scanned(10, adapter=True), scanned(20, adapter=True, norm=11.0)]
    assert not clear("CKP004", run_of(scans=adapters), adapter=1.05)


@pytest.mark.parametrize("factor", [0.0, 0.5, 1.0])
def test_a_factor_below_1_allows_no_change_at_all(factor: float) -> None:
    same = run_of(scans=[scanned(10), scanned(20)])
    assert clear("CKP004", same, factor=factor)
    assert not clear("CKP004", run_of(scans=[scanned(10), scanned(20, norm=11.0)]), factor=factor)


def test_a_jump_is_dated_between_the_two_checkpoints() -> None:
    scans = [scanned(10), scanned(20, norm=10.1), scanned(30, norm=40.4), scanned(40, norm=40.5)]
    finding = only("CKP004", run_of(scans=scans, log_offset=1))
    assert finding.severity == "warning"
    assert "checkpoint-30 have norm 40.4, 4 times that of checkpoint-20" in finding.message
    assert finding.onset is not None
    assert (finding.onset.step, finding.onset.low, finding.onset.high) == (31, 22, 31)
    evidence = finding.evidence[0]
    assert (evidence.first_step, evidence.last_step) == (20, 30)
    assert evidence.where.file == "run/checkpoint-30"


def test_every_jump_is_told_and_broken_checkpoints_are_passed_over() -> None:
    scans = [scanned(10), scanned(20, **NAN), scanned(30, norm=99.0), scanned(40)]
    outcome = judge("CKP004", run_of(scans=scans))
    assert isinstance(outcome, list)
    assert [item.onset_step for item in outcome] == [30, 40]
