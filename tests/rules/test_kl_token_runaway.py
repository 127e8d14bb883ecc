import pytest

from tests.builders import clear, only, run_of, skipped
from tests.rules.shapes import NAN

CALM = [0.01 * index for index in range(20)]


@pytest.mark.parametrize(
    ("rows_above", "alarms"),
    [
        pytest.param(4, False, id="four rows above the ceiling are patience"),
        pytest.param(5, True, id="five rows above the ceiling are an alarm"),
    ],
)
def test_patience_counts_consecutive_rows(rows_above: int, alarms: bool) -> None:
    run = run_of(kl_ref_token=CALM + [1.5] * rows_above)
    assert clear("KL003", run) is not alarms


@pytest.mark.parametrize(
    ("level", "alarms"),
    [
        pytest.param(1.0, False, id="the ceiling itself is not above it"),
        pytest.param(1.001, True, id="just above the ceiling"),
        pytest.param(NAN, False, id="NaN is never above"),
    ],
)
def test_the_ceiling_is_one_nat_a_token(level: float, alarms: bool) -> None:
    run = run_of(kl_ref_token=[*CALM, *[level] * 6])
    assert clear("KL003", run) is not alarms


def test_a_runaway_is_critical_and_dated_where_it_speeds_up() -> None:
    run = run_of(kl_ref_token=CALM + [0.2 + 0.3 * index for index in range(20)])
    finding = only("KL003", run)
    assert finding.severity == "critical"
    assert finding.onset is not None
    assert 19 <= finding.onset.step <= 21
    assert finding.onset.low <= finding.onset.step <= finding.onset.high
    assert finding.evidence[0].unit == "nats/token"
    assert finding.evidence[0].where.key == "kl_ref_token"


def test_a_spike_that_recovers_is_information() -> None:
    finding = only("KL003", run_of(kl_ref_token=CALM + [2.0] * 6 + [0.1] * 10))
    assert finding.severity == "info"
    assert finding.recovered_at == 27


def test_zeros_throughout_were_never_computed() -> None:
    assert skipped("KL003", run_of(kl_ref_token=[0.0] * 30))


@pytest.mark.parametrize(
    ("values", "looks"),
    [
        pytest.param([50.0] * 4, False, id="four rows are too few"),
        pytest.param([50.0] * 5, True, id="five rows are enough"),
        pytest.param([50.0] * 4 + [NAN] * 20, False, id="rows of NaN do not count"),
        pytest.param([50.0] * 5 + [NAN] * 20, True, id="rows of NaN do not harm"),
    ],
)
def test_five_rows_are_needed(values: list[float], looks: bool) -> None:
    assert skipped("KL003", run_of(kl_ref_token=values)) is not looks


def test_another_unit_is_never_judged() -> None:
    assert skipped("KL003", run_of(kl_ref_response=[50.0] * 30))
    assert skipped("KL003", run_of(kl_unknown=[50.0] * 30))


def test_the_limits_can_be_set() -> None:
    run = run_of(kl_ref_token=CALM + [0.5] * 6)
    assert clear("KL003", run)
    assert not clear("KL003", run, ceiling=0.4)
    assert clear("KL003", run, ceiling=0.4, patience=7)
