from typing import Any

import pytest

from tests.builders import clear, only, run_of, skipped

SICK = (run_of(algorithm="DPO", config={"kl_coef": 0.0}, loss_total=[0.69] * 12),)


def weighed(beta: float, algorithm: str = "DPO", **columns: Any) -> Any:
    return run_of(algorithm=algorithm, config={"kl_coef": beta}, **columns)


@pytest.mark.parametrize(
    ("beta", "algorithm", "outside"),
    [
        pytest.param(0.006, "DPO", True, id="below what DPO is trained with"),
        pytest.param(0.01, "DPO", False, id="Zephyr's beta belongs to the range"),
        pytest.param(0.015, "IPO", False, id="just inside"),
        pytest.param(0.1, "DPO", False, id="the usual beta"),
        pytest.param(1.0, "KTO", False, id="the upper end belongs to the range"),
        pytest.param(1.5, "DPO", True, id="above what DPO is trained with"),
        pytest.param(0.001, "GRPO", False, id="verl's weight is usual for GRPO"),
        pytest.param(0.9, "PPO", False, id="a heavy penalty"),
        pytest.param(1.5, "PPO", True, id="a penalty that no controller would reach"),
    ],
)
def test_the_range_depends_on_what_it_weighs(beta: float, algorithm: str, outside: bool) -> None:
    run = weighed(beta, algorithm)
    assert clear("CFG002", run) is not outside
    if outside:
        finding = only("CFG002", run)
        assert (finding.severity, finding.onset) == ("info", None)
        assert (finding.evidence[0].kind, finding.evidence[0].observed) == ("config", beta)
        assert finding.evidence[0].limit_high == 1.0
        assert finding.evidence[0].where.key == "kl_coef"


@pytest.mark.parametrize(
    ("columns", "severity"),
    [
        pytest.param({"loss_total": [0.69] * 4}, "warning", id="the loss can only be a constant"),
        pytest.param({"dpo_margin": [0.0] * 4}, "warning", id="margins of zero agree"),
        pytest.param({"dpo_margin": [0.0, 0.3]}, "info", id="margins that moved contradict it"),
        pytest.param({}, "info", id="without a log nobody knows"),
    ],
)
def test_a_beta_of_zero_teaches_nothing(columns: Any, severity: str) -> None:
    finding = only("CFG002", weighed(0.0, **columns))
    assert finding.severity == severity
    assert (finding.onset is not None) == (severity == "warning")
    assert finding.evidence[0].unit == "1/nat"


@pytest.mark.parametrize(
    ("columns", "told"),
    [
        pytest.param({}, True, id="nothing logged"),
        pytest.param({"kl_ref_token": [0.0] * 12}, True, id="a KL that was never computed"),
        pytest.param({"kl_old_token": [0.1] * 12}, True, id="a KL to another policy"),
        pytest.param({"kl_ref_token": [0.1] * 12}, False, id="a KL a token"),
        pytest.param({"kl_ref_response": [2.0] * 12}, False, id="a KL a response"),
        pytest.param({"kl_unknown": [2.0] * 12}, False, id="a KL without a unit"),
    ],
)
def test_no_penalty_is_told_where_no_kl_is_logged_either(columns: Any, told: bool) -> None:
    run = weighed(0.0, "GRPO", **columns)
    assert clear("CFG002", run) is not told
    if told:
        finding = only("CFG002", run)
        assert (finding.severity, finding.onset) == ("info", None)
        assert "neither penalised nor logged" in finding.message


@pytest.mark.parametrize("algorithm", ["ORPO", "CPO", "SimPO", "ORPO or SimPO", "unknown", "RM"])
def test_another_beta_is_never_judged(algorithm: str) -> None:
    assert skipped("CFG002", weighed(5.0, algorithm))


def test_pairs_without_a_known_algorithm_are_judged_as_dpo() -> None:
    assert only("CFG002", weighed(0.001, "unknown", dpo_margin=[0.1] * 4)).severity == "info"


def test_the_limits_can_be_set() -> None:
    assert clear("CFG002", weighed(0.001), low=0.001)
    assert clear("CFG002", weighed(3.0), high=3.0)
    assert not clear("CFG002", weighed(0.5), high=0.4)
