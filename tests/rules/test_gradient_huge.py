from dataclasses import replace

import pytest

from rlhfdoctor.model import Skip
from tests.builders import Values, judge, only, run_of, skipped
from tests.rules.shapes import NAN, log_of, logged

SICK = (run_of(grad_norm=[3168.0] * 12, algorithm="GRPO"),)


def severities(norms: Values, algorithm: str = "GRPO", **limits: float) -> list[str]:
    outcome = judge("OPT002", run_of(grad_norm=norms, algorithm=algorithm), **limits)
    assert isinstance(outcome, list)
    return [finding.severity for finding in outcome]


@pytest.mark.parametrize(
    ("level", "expected"),
    [
        pytest.param(42.0, [], id="a norm of a preference run"),
        pytest.param(99.0, [], id="below a hundred"),
        pytest.param(101.0, ["info"], id="above a hundred"),
        pytest.param(999.0, ["info"], id="below a thousand"),
        pytest.param(1001.0, ["warning"], id="above a thousand"),
    ],
)
def test_the_level_decides(level: float, expected: list[str]) -> None:
    assert severities([level] * 20) == expected


@pytest.mark.parametrize(
    ("huge", "expected"),
    [
        pytest.param(17, "info", id="thousands in less than nine tenths of the rows"),
        pytest.param(18, "warning", id="thousands in nine tenths of the rows"),
    ],
)
def test_thousands_throughout_are_a_warning(huge: int, expected: str) -> None:
    assert severities([3000.0] * huge + [200.0] * (20 - huge)) == [expected]


@pytest.mark.parametrize(
    ("algorithm", "expected"),
    [
        pytest.param("GRPO", "warning", id="GRPO divides its loss"),
        pytest.param("RLOO", "warning", id="RLOO divides its loss"),
        pytest.param("PPO", "warning", id="PPO divides its loss"),
        pytest.param("DPO", "info", id="DPO sums over a response"),
        pytest.param("KTO", "info", id="KTO sums over a response"),
        pytest.param("unknown", "info", id="nobody knows how the loss is made"),
    ],
)
def test_only_losses_that_are_divided_know_a_level(algorithm: str, expected: str) -> None:
    assert severities([3000.0] * 20, algorithm) == [expected]


def test_a_key_that_no_framework_owns_is_no_proof() -> None:
    run = replace(run_of(grad_norm=[3000.0] * 20, algorithm="GRPO"), dialect="generic")
    assert only("OPT002", run).severity == "info"


def test_single_leaps_are_another_rules() -> None:
    assert severities([0.5] * 11 + [3000.0] * 9) == []


def test_the_finding_can_be_looked_up() -> None:
    finding = only("OPT002", run_of(steps=range(5, 65, 5), grad_norm=[3168.0] * 12))
    assert logged(finding.evidence[0], "grad_norm", "L2 norm")
    assert finding.onset is not None
    assert (finding.onset.low, finding.onset.step, finding.onset.high) == (5, 5, 5)
    assert "3168 in the median of 12 logged rows" in finding.message
    assert finding.summary == "gradient norm 3168 throughout"


@pytest.mark.parametrize(
    ("norms", "looks"),
    [
        pytest.param([3000.0] * 4, False, id="four rows are too few"),
        pytest.param([3000.0] * 5, True, id="five rows are enough"),
        pytest.param([3000.0] * 4 + [0.0] * 9, False, id="rows without a gradient do not count"),
        pytest.param([3000.0] * 4 + [NAN] * 9, False, id="rows of NaN do not count"),
    ],
)
def test_five_rows_with_a_gradient_are_needed(norms: list[float], looks: bool) -> None:
    assert skipped("OPT002", run_of(grad_norm=norms, algorithm="GRPO")) is not looks


def test_another_norm_is_never_judged() -> None:
    assert skipped("OPT002", log_of({"grad_norm_critic": [3000.0] * 20}))


def test_the_limits_can_be_set() -> None:
    assert severities([60.0] * 20, large=50.0) == ["info"]
    assert severities([600.0] * 20, huge=500.0) == ["warning"]
    assert severities([3000.0] * 12 + [200.0] * 8, share=0.5) == ["warning"]
    assert isinstance(judge("OPT002", run_of(grad_norm=[3000.0] * 9), rows=10), Skip)
