from dataclasses import replace

import pytest

from rlhfdoctor.model import Location, Onset, Run, Seam, Skip
from tests.builders import clear, judge, only, run_of, skipped
from tests.rules.shapes import NAN


def logged_at(*steps: int) -> Run:
    return run_of(steps=steps, loss_total=[1.0] * len(steps))


def gap(width: int, every: int = 1) -> Run:
    """Rows at a steady interval, with one gap of ``width`` steps after the sixth."""
    before = [every * row for row in range(1, 7)]
    return logged_at(*before, *[before[-1] + width + every * row for row in range(6)])


SICK = (gap(40),)


@pytest.mark.parametrize(
    ("run", "found"),
    [
        pytest.param(gap(1), False, id="no gap"),
        pytest.param(gap(4), False, id="four times the interval"),
        pytest.param(gap(5), True, id="five times the interval"),
        pytest.param(gap(40, 10), False, id="four times an interval of ten"),
        pytest.param(gap(50, 10), True, id="five times an interval of ten"),
        pytest.param(logged_at(*range(1, 21), *range(120, 2000, 100)), False, id="a new interval"),
        pytest.param(logged_at(*range(1, 21), 500), False, id="a summary apart"),
        pytest.param(logged_at(0, *range(50, 70)), False, id="a row before the first"),
    ],
)
def test_a_gap_is_far_wider_than_its_neighbours(run: Run, found: bool) -> None:
    assert clear("LOG006", run) is not found


def test_it_is_information_and_dated_within_the_gap() -> None:
    finding = only("LOG006", SICK[0])
    assert finding.severity == "info"
    assert finding.onset == Onset(46, 6, 46)
    assert finding.message == (
        "the log jumps from step 6 to 46, usually by 1; 1 such gaps, 39 rows missing"
    )
    evidence = finding.evidence[0]
    assert evidence.where == Location("log.jsonl", key="loss_total", line=7)
    assert (evidence.first_step, evidence.last_step, evidence.unit) == (6, 46, "steps")


def test_every_gap_is_counted_and_the_first_are_listed() -> None:
    steps = [100 * block + row for block in range(30) for row in range(10)]
    finding = only("LOG006", logged_at(*steps))
    assert "29 such gaps" in finding.message
    assert len(finding.evidence) == 20
    assert len(only("LOG006", logged_at(*steps), told=2).evidence) == 2


def test_a_gap_where_the_run_was_resumed_is_none() -> None:
    seam = Seam(50, 46, Location("log.jsonl", line=51))
    assert clear("LOG006", replace(SICK[0], seams=(seam,)))


@pytest.mark.parametrize(
    ("rows", "found"), [pytest.param(9, False, id="nine"), pytest.param(10, True, id="ten")]
)
def test_it_takes_ten_rows(rows: int, found: bool) -> None:
    outcome = judge("LOG006", logged_at(*range(1, 6), *range(40, 40 + rows - 5)))
    assert isinstance(outcome, Skip) is not found
    assert bool(outcome)


def test_numbered_rows_have_no_gaps_to_see() -> None:
    assert skipped("LOG006", replace(SICK[0], step_unit="row"))


def test_the_limit_can_be_set() -> None:
    assert clear("LOG006", SICK[0], gap=50.0)
    assert only("LOG006", gap(3), gap=3.0)


def test_numbers_that_are_not_finite_are_rows_too() -> None:
    assert clear("LOG006", run_of(loss_total=[1.0, NAN] * 10))
