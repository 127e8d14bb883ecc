import pytest

from rlhfdoctor.doctor import settle
from tests.builders import clear, only, run_of, skipped
from tests.rules.shapes import NAN, logged

SICK = (run_of(entropy=[0.3] * 10 + [4.0] * 10),)


@pytest.mark.parametrize(
    ("start", "level", "found"),
    [
        pytest.param(3.0, 6.0, False, id="twice the start itself"),
        pytest.param(3.0, 6.01, True, id="more than twice the start"),
        pytest.param(0.3, 1.0, False, id="many times the start, but no more than a nat"),
        pytest.param(0.3, 1.01, True, id="many times the start and more than a nat"),
        pytest.param(0.13, 0.28, False, id="a reasoning run that explores"),
        pytest.param(2.0, NAN, False, id="NaN"),
        pytest.param(4.0, 0.1, False, id="a fall"),
    ],
)
def test_the_entropy_ends_at(start: float, level: float, found: bool) -> None:
    assert clear("ENT002", run_of(entropy=[start] * 10 + [level] * 6)) is not found


def test_half_a_nat_must_be_gained() -> None:
    run = run_of(entropy=[0.45] * 10 + [0.94] * 6)
    assert clear("ENT002", run, fine=0.0)
    assert not clear("ENT002", run, fine=0.0, least=0.4)
    more = run_of(entropy=[0.45] * 10 + [0.96] * 6)
    assert not clear("ENT002", more, fine=0.0)


@pytest.mark.parametrize(
    ("rows", "found"),
    [
        pytest.param(4, False, id="four rows above are patience"),
        pytest.param(5, True, id="five rows above are an alarm"),
    ],
)
def test_patience_counts_consecutive_rows(rows: int, found: bool) -> None:
    assert clear("ENT002", run_of(entropy=[0.3] * 10 + [4.0] * rows)) is not found


@pytest.mark.parametrize(
    ("level", "severity", "alone"),
    [
        pytest.param(2.0, "info", "info", id="two nats are information"),
        pytest.param(2.01, "critical", "warning", id="more are a warning, critical with another"),
    ],
)
def test_how_bad_a_rise_is(level: float, severity: str, alone: str) -> None:
    finding = only("ENT002", run_of(entropy=[0.3] * 10 + [level] * 6))
    assert finding.severity == severity
    assert [item.severity for item in settle([finding])] == [alone]
    beside = only("KL003", run_of(kl_ref_token=[0.1] * 10 + [3.0] * 6))
    assert settle([finding, beside])[0].severity == severity


def test_a_rise_is_dated_where_it_begins() -> None:
    rising = [0.3 + 0.2 * row for row in range(1, 21)]
    finding = only("ENT002", run_of(entropy=[0.3] * 20 + rising))
    assert finding.onset is not None
    assert 19 <= finding.onset.step <= 21
    assert logged(finding.evidence[0], "entropy", "nats/token")
    assert finding.evidence[0].limit_high == 1.0
    assert "from 0.3 to 3.9 nats/token, above 1 for" in finding.message
    assert "0.3 -> 3.9" in finding.summary


def test_a_rise_that_recovers_is_information() -> None:
    finding = only("ENT002", run_of(entropy=[0.3] * 10 + [4.0] * 6 + [0.4] * 10))
    assert finding.severity == "info"
    assert finding.recovered_at == 17


@pytest.mark.parametrize(
    "values",
    [
        pytest.param([0.0] * 30, id="zeros throughout"),
        pytest.param([NAN] * 30, id="NaN throughout"),
        pytest.param([0.3] * 7, id="seven rows"),
    ],
)
def test_what_cannot_be_judged_is_skipped(values: list[float]) -> None:
    assert skipped("ENT002", run_of(entropy=values))


def test_another_unit_is_never_judged() -> None:
    assert skipped("ENT002", run_of(entropy_unknown=[0.3] * 10 + [40.0] * 10))
    assert skipped("ENT002", run_of(neg_logp_response=[0.3] * 10 + [40.0] * 10))


def test_the_limits_can_be_set() -> None:
    run = run_of(entropy=[0.3] * 10 + [1.5] * 6)
    assert not clear("ENT002", run)
    assert clear("ENT002", run, times=6.0)
    assert clear("ENT002", run, least=1.3)
    assert clear("ENT002", run, fine=1.6)
    assert clear("ENT002", run, patience=7)
    assert only("ENT002", run, bad=1.4).severity == "critical"
