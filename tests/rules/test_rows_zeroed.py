import pytest

from rlhfdoctor.model import Run
from tests.builders import clear, only, run_of, scanned, skipped, unread


@pytest.mark.parametrize(
    "run",
    [
        pytest.param(run_of(loss_total=[1.0] * 5), id="nobody scanned"),
        pytest.param(run_of(scans=[scanned(10, zero_rows=4)]), id="one checkpoint"),
        pytest.param(run_of(scans=[scanned(10), unread(20)]), id="one that could be read"),
        pytest.param(
            run_of(scans=[scanned(10), scanned(20, parameters=200, zero_rows=4)]),
            id="an embedding that was resized",
        ),
    ],
)
def test_two_comparable_checkpoints_are_needed(run: Run) -> None:
    assert skipped("CKP005", run)


@pytest.mark.parametrize(
    ("counts", "zeroed"),
    [
        pytest.param([0, 0], False, id="none"),
        pytest.param([4, 4], False, id="padding that was always zero"),
        pytest.param([4, 3], False, id="rows that were filled"),
        pytest.param([4, 5], True, id="one more than before"),
        pytest.param([0, 1], True, id="the first one"),
        pytest.param([0, 0, 2, 2], True, id="told once, where they appear"),
    ],
)
def test_only_new_rows_of_zeros_count(counts: list[int], zeroed: bool) -> None:
    scans = [scanned(10 * place, zero_rows=rows) for place, rows in enumerate(counts, start=1)]
    run = run_of(scans=scans)
    if zeroed:
        assert only("CKP005", run).severity == "warning"
    else:
        assert clear("CKP005", run)


@pytest.mark.parametrize(("rows", "found"), [(4, False), (3, True)])
def test_the_limit_is_the_users(rows: int, found: bool) -> None:
    run = run_of(scans=[scanned(10, zero_rows=1), scanned(20, zero_rows=4)])
    assert clear("CKP005", run, rows=rows) is not found


@pytest.mark.parametrize(
    ("before", "tensor"),
    [
        pytest.param(None, "w[3]", id="the first row is new"),
        pytest.param("w[3]", None, id="the first row was zero before"),
    ],
)
def test_a_row_is_named_where_it_is_known_to_be_new(before: str | None, tensor: str | None) -> None:
    scans = [
        scanned(10, zero_rows=1 if before else 0, first_zero_row=before),
        scanned(20, zero_rows=2, first_zero_row="w[3]"),
    ]
    finding = only("CKP005", run_of(scans=scans, log_offset=1))
    assert finding.evidence[0].where.tensor == tensor
    assert finding.onset is not None
    assert (finding.onset.low, finding.onset.step) == (12, 21)
    assert "checkpoint-20 has 2 rows" in finding.message
