import pytest

from tests.builders import clear, only, run_of, skipped
from tests.rules.shapes import NAN, log_of, logged

SICK = (run_of(entropy=[0.5, -0.4, 0.3]),)


@pytest.mark.parametrize(
    ("column", "unit"),
    [
        pytest.param("entropy", "nats/token", id="an entropy over the vocabulary"),
        pytest.param("neg_logp_token", "nats/token", id="minus a log-probability per token"),
        pytest.param("neg_logp_response", "nats/response", id="minus that of a response"),
    ],
)
@pytest.mark.parametrize(
    ("value", "found"),
    [
        pytest.param(-0.009, False, id="just below zero may be rounding"),
        pytest.param(-0.011, True, id="further below zero is no rounding"),
        pytest.param(NAN, False, id="NaN is not below zero"),
    ],
)
def test_what_cannot_be_negative(column: str, unit: str, value: float, found: bool) -> None:
    run = log_of({column: [0.5, value, 0.4]})
    assert clear("ENT004", run) is not found
    if found:
        assert logged(only("ENT004", run).evidence[0], column, unit)


def test_a_fault_of_measurement_is_information() -> None:
    finding = only("ENT004", run_of(entropy=[0.5, 0.4, -3.0, 0.4, -5.0, 0.1]))
    assert finding.severity == "info"
    assert finding.onset is not None
    assert (finding.onset.low, finding.onset.step, finding.onset.high) == (3, 3, 3)
    evidence = finding.evidence[0]
    assert (evidence.first_step, evidence.last_step) == (3, 5)
    assert (evidence.observed, evidence.limit_low) == (-5.0, -0.01)
    assert "entropy is below zero in 2 of 6 logged rows, down to -5 nats/token" in finding.message


def test_an_entropy_of_unknown_sign_and_unit_is_not_judged() -> None:
    assert skipped("ENT004", run_of(entropy_unknown=[-5.0] * 9))
    assert skipped("ENT004", run_of(entropy=[0.0] * 9))


def test_the_limits_can_be_set() -> None:
    assert clear("ENT004", run_of(entropy=[0.5, -0.4]), rounding=0.5)
