import pytest

from tests.builders import clear, only, run_of, skipped
from tests.rules.shapes import NAN, logged


def falling(last: float, rows: int = 40) -> list[float]:
    """A straight fall from 2 nats."""
    return [2.0 - (2.0 - last) * row / (rows - 1) for row in range(rows)]


SICK = (run_of(entropy=falling(0.5)),)


@pytest.mark.parametrize(
    ("last", "found"),
    [
        pytest.param(0.7, True, id="within as many steps as the second half took"),
        pytest.param(0.9, False, id="later than that"),
        pytest.param(2.0, False, id="never, as it does not fall"),
        pytest.param(0.0, False, id="before the log ended"),
    ],
)
def test_without_a_plan_the_floor_is_reached(last: float, found: bool) -> None:
    assert clear("ENT003", run_of(entropy=falling(last))) is not found


@pytest.mark.parametrize(
    ("planned", "found"),
    [
        pytest.param(70, True, id="before the planned end"),
        pytest.param(50, False, id="after the planned end"),
        pytest.param(40, False, id="and training has ended"),
    ],
)
def test_with_a_plan_the_floor_is_reached(planned: int, found: bool) -> None:
    run = run_of(entropy=falling(0.9), config={"planned_steps": planned})
    assert clear("ENT003", run) is not found


@pytest.mark.parametrize(
    ("noise", "found"),
    [
        pytest.param(0.5, True, id="that its noise leaves clear"),
        pytest.param(1.0, False, id="that its noise hides"),
    ],
)
def test_a_fall(noise: float, found: bool) -> None:
    values = falling(0.5)
    for row in range(25, 35):
        values[row] += noise * (row % 2 - 0.5)
    assert clear("ENT003", run_of(entropy=values)) is not found


def test_a_fall_is_information_with_the_time_to_the_floor() -> None:
    finding = only("ENT003", run_of(entropy=falling(0.5)))
    assert finding.severity == "info"
    assert finding.onset is None
    evidence = finding.evidence[0]
    assert logged(evidence, "entropy", "nats/token")
    assert (evidence.first_step, evidence.last_step) == (21, 40)
    assert evidence.observed == pytest.approx(0.577, abs=0.001)
    assert evidence.limit_low == pytest.approx(0.192, abs=0.001)
    assert "reaches 10% of its start 8 steps after" in finding.message


@pytest.mark.parametrize(
    ("start", "found"),
    [
        pytest.param(0.0099, True, id="no entropy at the start"),
        pytest.param(0.011, False, id="little entropy at the start"),
    ],
)
def test_a_peaked_start(start: float, found: bool) -> None:
    run = run_of(entropy=[start] * 20)
    assert clear("ENT003", run) is not found
    if found:
        assert "from the start" in only("ENT003", run).message
        assert logged(only("ENT003", run).evidence[0], "entropy", "nats/token")


def test_an_unknown_unit_is_judged_by_its_course_alone() -> None:
    assert clear("ENT003", run_of(entropy_unknown=[0.001] * 20))
    fall = only("ENT003", run_of(entropy_unknown=falling(0.5)))
    assert logged(fall.evidence[0], "entropy_unknown", "unknown")


@pytest.mark.parametrize(
    "values",
    [
        pytest.param([-1.0] * 20, id="a negative number"),
        pytest.param([2.0] * 20, id="an entropy that stays"),
        pytest.param([1.0 + 0.1 * row for row in range(20)], id="an entropy that rises"),
        pytest.param([*falling(0.9), NAN], id="NaN at the end"),
    ],
)
def test_what_is_on_no_way_down(values: list[float]) -> None:
    assert clear("ENT003", run_of(entropy=values))


@pytest.mark.parametrize(
    ("rows", "looks"),
    [
        pytest.param(19, False, id="nineteen rows are too few"),
        pytest.param(20, True, id="twenty rows are enough"),
    ],
)
def test_twenty_rows_are_needed(rows: int, looks: bool) -> None:
    assert skipped("ENT003", run_of(entropy=[1.0] * rows)) is not looks


def test_zeros_throughout_were_never_computed() -> None:
    assert skipped("ENT003", run_of(entropy=[0.0] * 30))


def test_the_limits_can_be_set() -> None:
    run = run_of(entropy=falling(0.9))
    assert clear("ENT003", run)
    assert not clear("ENT003", run, floor=0.3)
    assert clear("ENT003", run, floor=0.3, standard_errors=100.0)
    assert not clear("ENT003", run_of(entropy=[0.02] * 20), sure=0.03)
