from typing import Any

import pytest

from tests.builders import clear, only, run_of, skipped

SICK = (run_of(algorithm="DPO", config={"learning_rate": 2e-5, "kl_coef": 0.01}),)


def both(rate: float, beta: float, algorithm: str = "DPO", **config: float) -> Any:
    return run_of(algorithm=algorithm, config={"learning_rate": rate, "kl_coef": beta, **config})


@pytest.mark.parametrize(
    ("rate", "beta", "algorithm", "config", "told"),
    [
        pytest.param(1e-5, 0.05, "DPO", {}, True, id="the limits themselves are told"),
        pytest.param(9e-6, 0.01, "DPO", {}, False, id="a lower rate bears a low beta"),
        pytest.param(1.5e-5, 0.04, "DPO", {}, True, id="both beyond"),
        pytest.param(1e-4, 0.06, "DPO", {}, False, id="a higher beta holds"),
        pytest.param(9e-5, 0.01, "DPO", {"lora_rank": 8}, False, id="adapters bear more"),
        pytest.param(1.5e-4, 0.01, "DPO", {"lora_rank": 8}, True, id="but not everything"),
        pytest.param(1e-5, 0.0, "GRPO", {}, True, id="GRPO without a penalty at ten times"),
        pytest.param(9e-6, 0.0, "GRPO", {}, False, id="GRPO without a penalty, slower"),
        pytest.param(1.5e-5, 0.0, "PPO", {}, True, id="PPO without a penalty, faster"),
        pytest.param(1e-3, 0.001, "PPO", {}, False, id="a small penalty is one"),
    ],
)
def test_only_both_together_are_told(
    rate: float, beta: float, algorithm: str, config: dict[str, float], told: bool
) -> None:
    assert clear("CFG003", both(rate, beta, algorithm, **config)) is not told


def test_both_settings_are_the_evidence() -> None:
    finding = only("CFG003", both(2e-5, 0.01))
    assert (finding.severity, finding.onset) == ("info", None)
    rate, beta = finding.evidence
    assert (rate.kind, rate.subject, rate.observed, rate.limit_high) == (
        "config", "learning_rate", 2e-5, 1e-5,
    )  # fmt: skip
    assert (beta.subject, beta.observed, beta.limit_low) == ("kl_coef", 0.01, 0.05)
    assert "2e-05" in finding.message
    assert "0.01" in finding.message


@pytest.mark.parametrize(
    "run",
    [
        pytest.param(both(1.0, 0.0, "unknown"), id="an unknown algorithm"),
        pytest.param(both(1.0, 0.0, "ORPO"), id="a beta of another kind"),
        pytest.param(run_of(algorithm="DPO", config={"kl_coef": 0.0}), id="no rate"),
        pytest.param(run_of(algorithm="DPO", config={"learning_rate": 1.0}), id="no beta"),
    ],
)
def test_what_it_cannot_judge(run: Any) -> None:
    assert skipped("CFG003", run)


def test_the_limits_can_be_set() -> None:
    assert clear("CFG003", both(2e-5, 0.01), dpo_rate=3e-5)
    assert clear("CFG003", both(2e-5, 0.04), dpo_beta=0.03)
    assert clear("CFG003", both(2e-5, 0.0, "PPO"), rl_rate=3e-5)
    assert not clear("CFG003", both(2e-5, 0.01, lora_rank=8), lora=1)
