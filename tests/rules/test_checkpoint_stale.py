import pytest

from rlhfdoctor.model import Run
from tests.builders import clear, only, run_of, scanned, skipped, unread


def hashed(*hashes: str) -> list[dict[str, object]]:
    return [scanned(10 * place, hash=each) for place, each in enumerate(hashes, start=1)]


@pytest.mark.parametrize(
    "run",
    [
        pytest.param(run_of(loss_total=[1.0] * 5), id="nobody scanned"),
        pytest.param(run_of(scans=[scanned(10), unread(20)]), id="one that could be read"),
    ],
)
def test_two_checkpoints_are_needed(run: Run) -> None:
    assert skipped("CKP007", run)


@pytest.mark.parametrize(
    "run",
    [
        pytest.param(run_of(scans=hashed("a", "b", "c")), id="all differ"),
        pytest.param(run_of(scans=hashed("a", "b", "a")), id="equal ones that are no neighbours"),
        pytest.param(run_of(scans=hashed("a", "a")), id="all equal: nothing was trained, CKP003"),
        pytest.param(
            run_of(scans=[scanned(10), scanned(10, checkpoint="copy"), scanned(20)]),
            id="two copies of one step",
        ),
    ],
)
def test_what_is_no_stale_save(run: Run) -> None:
    assert clear("CKP007", run)


def test_a_save_with_the_weights_of_the_one_before_is_named() -> None:
    finding = only("CKP007", run_of(scans=hashed("a", "b", "b", "c", "c")))
    assert finding.severity == "warning"
    assert [item.subject for item in finding.evidence] == ["checkpoint-30", "checkpoint-50"]
    assert (finding.evidence[0].first_step, finding.evidence[0].last_step) == (20, 30)
    assert "checkpoint-30 has the weights of checkpoint-20" in finding.message
    assert "other checkpoints differ" in finding.message


def test_it_has_no_onset_because_it_says_nothing_of_the_policy() -> None:
    assert only("CKP007", run_of(scans=hashed("a", "a", "b"))).onset is None


def test_all_saves_are_stale_where_the_log_drifts() -> None:
    run = run_of(scans=hashed("a", "a"), kl_ref_token=[0.01 * row for row in range(30)])
    finding = only("CKP007", run)
    assert "kl_ref_token drifts" in finding.message
    assert clear("CKP007", run, standard_errors=1e6)


@pytest.mark.parametrize(
    ("rise", "found"),
    [
        pytest.param(1.5, False, id="3.2 standard errors between the halves are noise"),
        pytest.param(2.5, True, id="5.3 standard errors are a drift"),
    ],
)
def test_four_standard_errors_are_a_drift(rise: float, found: bool) -> None:
    noise = [1.0, -1.0] * 5
    kl = [*(5.0 + each for each in noise), *(5.0 + rise + each for each in noise)]
    assert clear("CKP007", run_of(scans=hashed("a", "a"), kl_ref_token=kl)) is not found
