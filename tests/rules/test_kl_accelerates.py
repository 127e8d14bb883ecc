import math

import pytest

from tests.builders import clear, only, run_of, skipped
from tests.rules.shapes import NAN, log_of, logged

SICK = (run_of(kl_ref_token=[0.001 * 1.2**row for row in range(40)]),)


def parts(*levels: float, wobble: float = 0.0) -> list[float]:
    """Six parts of six rows each, at these levels."""
    return [level + wobble * (row % 2 - 0.5) for level in levels for row in range(6)]


@pytest.mark.parametrize(
    ("levels", "found"),
    [
        pytest.param((0, 1, 2, 3, 4.9, 7.2), True, id="more than twice as fast in the last third"),
        pytest.param((0, 1, 2, 3, 4.8, 6.8), False, id="less than twice as fast"),
        pytest.param((0, 1, 2, 3, 6.5, 9.0), False, id="that slows down in the last part"),
        pytest.param((0, 1, 2, 3, 3.5, 9.0), False, id="whose last part alone is fast"),
        pytest.param((0, 1, 2, 3, 4, 5), False, id="that is steady"),
        pytest.param((0, 5, 5, 5, 6, 8), False, id="that was faster at first"),
        pytest.param((5, 4, 3, 2, 1, 0), False, id="that falls"),
    ],
)
def test_a_growth(levels: tuple[float, ...], found: bool) -> None:
    assert clear("KL007", run_of(kl_ref_token=parts(*levels))) is not found


@pytest.mark.parametrize(
    ("wobble", "found"),
    [
        pytest.param(1.25, True, id="that is large beside its noise"),
        pytest.param(1.4, False, id="that its noise explains"),
    ],
)
def test_a_doubling(wobble: float, found: bool) -> None:
    run = run_of(kl_ref_token=parts(0, 1, 2, 4, 8, 13, wobble=wobble))
    assert clear("KL007", run) is not found


@pytest.mark.parametrize("column", ["kl_ref_token", "kl_ref_response", "kl_unknown"])
def test_the_shape_is_judged_in_every_unit(column: str) -> None:
    values = [0.001 * math.exp(0.1 * row) for row in range(60)]
    finding = only("KL007", log_of({column: values}))
    assert finding.severity == "info"
    assert finding.onset is None
    evidence = finding.evidence[0]
    assert evidence.subject == column
    assert (evidence.first_step, evidence.last_step) == (41, 60)
    assert "accelerates" in finding.summary


def test_the_sentence_tells_the_growth_of_the_last_third() -> None:
    finding = only("KL007", run_of(kl_ref_token=parts(0, 1, 2, 3, 5, 9)))
    assert logged(finding.evidence[0], "kl_ref_token", "nats/token")
    assert "from 0 to 3 in two thirds of the log, to 9 nats/token in the last" in finding.message


def test_one_spike_is_no_growth() -> None:
    values = [*parts(0, 1, 2, 3, 4, 5), 500.0]
    assert clear("KL007", run_of(kl_ref_token=values))
    assert clear("KL007", run_of(kl_ref_token=[*parts(0, 1, 2, 3, 4, 5), NAN]))


@pytest.mark.parametrize(
    ("rows", "looks"),
    [
        pytest.param(17, False, id="seventeen rows are too few"),
        pytest.param(18, True, id="eighteen rows are enough"),
    ],
)
def test_three_rows_a_part_are_needed(rows: int, looks: bool) -> None:
    assert skipped("KL007", run_of(kl_ref_token=[1.0] * rows)) is not looks


def test_zeros_throughout_were_never_computed() -> None:
    assert skipped("KL007", run_of(kl_ref_token=[0.0] * 30))
    assert skipped("KL007", run_of(kl_old_token=parts(0, 1, 2, 3, 5, 9)))


def test_the_limits_can_be_set() -> None:
    run = run_of(kl_ref_token=parts(0, 1, 2, 3, 5, 9, wobble=0.2))
    assert not clear("KL007", run)
    assert clear("KL007", run, times=4.0)
    assert clear("KL007", run, standard_errors=100.0)
