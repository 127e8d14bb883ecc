from dataclasses import replace

import pytest

from rlhfdoctor.model import Run
from tests.builders import Values, clear, judge, only, run_of, skipped
from tests.rules.shapes import NAN, log_of, logged

ALIVE = [0.51234, 0.61234] * 10
DEAD = [0.0] * 12
SICK = (run_of(grad_norm=ALIVE + DEAD, algorithm="DPO"), run_of(loss_total=ALIVE + DEAD))


def severities(run: Run, **limits: float) -> list[str]:
    outcome = judge("UPD003", run, **limits)
    assert isinstance(outcome, list)
    return [finding.severity for finding in outcome]


@pytest.mark.parametrize(
    ("norms", "expected"),
    [
        pytest.param(ALIVE + [0.0] * 9, [], id="nine rows of zero"),
        pytest.param(ALIVE + [0.0] * 10, ["warning"], id="ten rows of zero"),
        pytest.param([*ALIVE, *[0.0] * 20, 0.5], [], id="zeros that ended"),
        pytest.param([*ALIVE, *[0.0] * 9, NAN], [], id="NaN is not zero"),
        pytest.param(ALIVE, [], id="a gradient to the end"),
    ],
)
def test_ten_rows_without_a_gradient(norms: list[float], expected: list[str]) -> None:
    assert severities(run_of(grad_norm=norms, algorithm="DPO")) == expected


def test_it_is_dated_and_can_be_looked_up() -> None:
    steps = range(10, 330, 10)
    finding = only("UPD003", run_of(steps=steps, grad_norm=ALIVE + DEAD, algorithm="DPO"))
    assert finding.onset is not None
    assert (finding.onset.low, finding.onset.step, finding.onset.high) == (201, 210, 210)
    assert logged(finding.evidence[0], "grad_norm", "L2 norm")
    assert "exactly 0 in the last 12 logged rows" in finding.message
    assert finding.summary == "gradient norm 0 from step 210"


@pytest.mark.parametrize(
    ("algorithm", "severity"),
    [
        pytest.param("DPO", "warning", id="pairs always have a gradient"),
        pytest.param("PPO", "warning", id="advantages of a value model are never all equal"),
        pytest.param("GRPO", "info", id="groups may have no spread"),
        pytest.param("RLOO", "info", id="groups of RLOO may have none"),
        pytest.param("unknown", "info", id="nobody knows"),
    ],
)
def test_groups_may_have_no_gradient(algorithm: str, severity: str) -> None:
    assert severities(run_of(grad_norm=ALIVE + DEAD, algorithm=algorithm)) == [severity]


@pytest.mark.parametrize(
    ("metric", "late", "severity"),
    [
        pytest.param("frac_reward_zero_std", [1.0] * 12, "info", id="no group has any"),
        pytest.param("frac_reward_zero_std", [0.995] * 12, "info", id="nearly none has any"),
        pytest.param("frac_reward_zero_std", [0.98] * 12, "warning", id="some groups have it"),
        pytest.param("frac_reward_zero_std", [None] * 12, "info", id="it is no longer logged"),
        pytest.param("reward_group_std", [0.0] * 12, "info", id="the mean spread is zero"),
        pytest.param("reward_group_std", [0.2] * 12, "warning", id="the mean spread is not"),
    ],
)
def test_a_spread_without_a_gradient_is_a_fault(metric: str, late: Values, severity: str) -> None:
    columns = {"grad_norm": ALIVE + DEAD, metric: [0.3] * 20 + list(late)}
    assert severities(log_of(columns, algorithm="GRPO")) == [severity]


def test_a_console_may_have_rounded() -> None:
    run = run_of(grad_norm=[0.512, 0.02] * 10 + DEAD, algorithm="DPO")
    column = replace(run.columns["grad_norm"], printed=True)
    assert severities(run) == ["warning"]
    assert severities(replace(run, columns={"grad_norm": column})) == ["info"]
    exact = run_of(grad_norm=[0.51234, 0.02] * 10 + DEAD, algorithm="DPO")
    assert severities(replace(exact, columns={"grad_norm": column})) == ["warning"]


def test_a_key_that_no_framework_owns_is_information() -> None:
    run = run_of(grad_norm=ALIVE + DEAD, algorithm="DPO")
    assert severities(replace(run, dialect="generic")) == ["info"]


def test_a_loss_of_zero_alone_is_information() -> None:
    assert severities(run_of(loss_total=ALIVE + DEAD, algorithm="DPO")) == ["info"]
    assert clear("UPD003", run_of(loss_total=ALIVE + DEAD, grad_norm=ALIVE + [0.5] * 12))


def test_zeros_throughout_are_another_rules() -> None:
    assert skipped("UPD003", run_of(grad_norm=[0.0] * 30))


def test_another_norm_is_never_judged() -> None:
    assert skipped("UPD003", log_of({"grad_norm_critic": ALIVE + DEAD}))


def test_the_limits_can_be_set() -> None:
    run = run_of(grad_norm=ALIVE + [0.0] * 6, frac_reward_zero_std=[0.9] * 26, algorithm="GRPO")
    assert severities(run) == []
    assert severities(run, rows=5) == ["warning"]
    assert severities(run, rows=5, solved=0.8) == ["info"]
