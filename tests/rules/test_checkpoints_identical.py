import pytest

from rlhfdoctor.model import Run
from tests.builders import clear, only, run_of, scanned, skipped, unread
from tests.rules.shapes import halves

NAN = {"finite": False, "non_finite": 1, "first_non_finite": "w", "norm": None}
FLAT = [1.0, 1.1] * 15
"""A column that shows no update."""


@pytest.mark.parametrize(
    "run",
    [
        pytest.param(run_of(loss_total=FLAT), id="nobody scanned"),
        pytest.param(run_of(scans=[scanned(10)]), id="one checkpoint"),
        pytest.param(run_of(scans=[scanned(10), unread(20)]), id="one that could be read"),
        pytest.param(
            run_of(scans=[scanned(10), scanned(10, checkpoint="b", hash="x")]), id="one step"
        ),
        pytest.param(run_of(scans=[scanned(10, **NAN), scanned(20, **NAN)]), id="nothing finite"),
    ],
)
def test_two_finite_checkpoints_are_needed(run: Run) -> None:
    assert skipped("CKP003", run)


@pytest.mark.parametrize(
    "hashes",
    [
        pytest.param(["a", "b"], id="two that differ"),
        pytest.param(["a", "a", "b"], id="the last one differs"),
        pytest.param(["a", "b", "b"], id="the first one differs"),
    ],
)
def test_checkpoints_of_which_any_differs_are_clear(hashes: list[str]) -> None:
    scans = [scanned(10 * place, hash=each) for place, each in enumerate(hashes, start=1)]
    assert clear("CKP003", run_of(scans=scans, loss_total=FLAT))


@pytest.mark.parametrize("adapter", [False, True])
@pytest.mark.parametrize("count", [2, 5])
def test_identical_weights_in_all_checkpoints_prove_that_nothing_was_trained(
    count: int, adapter: bool
) -> None:
    steps = [10 * place for place in range(1, count + 1)]
    scans = [scanned(step, hash="a", adapter=adapter) for step in steps]
    finding = only("CKP003", run_of(scans=scans, loss_total=FLAT))
    assert (finding.severity, finding.alone) == ("critical", True)
    assert [item.subject for item in finding.evidence] == [f"checkpoint-{step}" for step in steps]
    assert f"between steps 10 and {10 * count}" in finding.message
    assert f"{count} checkpoints" in finding.summary
    assert finding.onset_step == 1


def test_it_needs_no_log() -> None:
    assert only("CKP003", run_of(scans=[scanned(5, hash="a"), scanned(9, hash="a")])).alone


@pytest.mark.parametrize(
    ("errors", "trained"),
    [pytest.param(3.9, False, id="noise"), pytest.param(4.1, True, id="a trend")],
)
def test_a_trend_in_the_log_puts_the_saves_at_fault(errors: float, trained: bool) -> None:
    scans = [scanned(10, hash="a"), scanned(20, hash="a")]
    run = run_of(scans=scans, loss_total=halves(errors))
    assert clear("CKP003", run) is trained
    assert clear("CKP007", run) is not trained
    assert not clear("CKP003", run, standard_errors=errors + 0.1)
