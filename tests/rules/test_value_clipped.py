import pytest

from tests.builders import clear, only, run_of, skipped
from tests.rules.shapes import NAN, log_of, logged

SOME = [0.4] * 10
SICK = (run_of(value_clip_frac=SOME + [0.8] * 6),)


@pytest.mark.parametrize(
    ("level", "told"),
    [
        pytest.param(0.59, False, id="as frequent as TRL's notes say"),
        pytest.param(0.61, True, id="more than that"),
        pytest.param(NAN, False, id="NaN is never above"),
    ],
)
def test_most_predictions_are_clipped(level: float, told: bool) -> None:
    assert clear("VAL003", run_of(value_clip_frac=SOME + [level] * 6)) is not told


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        pytest.param(4, False, id="four rows are patience"),
        pytest.param(5, True, id="five rows are enough"),
    ],
)
def test_patience_counts_consecutive_rows(rows: int, told: bool) -> None:
    assert clear("VAL003", run_of(value_clip_frac=SOME + [0.8] * rows)) is not told


def test_it_is_information_with_its_place() -> None:
    finding = only("VAL003", SICK[0])
    assert finding.severity == "info"
    assert finding.onset is not None
    assert 9 <= finding.onset.step <= 11
    assert logged(finding.evidence[0], "value_clip_frac", "fraction")
    assert "80% of the value predictions are clipped" in finding.message


def test_clipping_that_ends_recovers() -> None:
    assert only("VAL003", run_of(value_clip_frac=SOME + [0.8] * 6 + SOME)).recovered_at == 17


def test_no_clipping_at_all_is_clear() -> None:
    assert clear("VAL003", run_of(value_clip_frac=[0.0] * 20))


@pytest.mark.parametrize("column", ["clip_frac", "truncation_rate"])
def test_another_fraction_is_never_judged(column: str) -> None:
    assert skipped("VAL003", log_of({column: [0.9] * 20}))


def test_the_limits_can_be_set() -> None:
    run = run_of(value_clip_frac=SOME + [0.5] * 6)
    assert clear("VAL003", run)
    assert not clear("VAL003", run, share=0.45)
    assert clear("VAL003", run, share=0.45, patience=7)
