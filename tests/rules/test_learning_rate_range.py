from typing import Any

import pytest

from tests.builders import clear, only, run_of, skipped
from tests.rules.shapes import NAN, halves, logged

SICK = (run_of(algorithm="DPO", config={"learning_rate": 1e-4}),)


def configured(rate: float, algorithm: str = "GRPO", **config: float) -> Any:
    return run_of(algorithm=algorithm, config={"learning_rate": rate, **config})


@pytest.mark.parametrize(
    ("rate", "algorithm", "config", "outside"),
    [
        pytest.param(3e-7, "GRPO", {}, True, id="below what GRPO is trained with"),
        pytest.param(5e-7, "PPO", {}, False, id="the lower end belongs to the range"),
        pytest.param(6e-7, "RLOO", {}, False, id="inside the range of RL"),
        pytest.param(9e-7, "PPO or GRPO", {}, False, id="inside, whichever of two it is"),
        pytest.param(1e-6, "GRPO", {}, False, id="the upper end belongs to the range"),
        pytest.param(1.5e-6, "GRPO", {}, True, id="above the range of RL"),
        pytest.param(9e-6, "GRPO", {"lora_rank": 8}, False, id="adapters take ten times as much"),
        pytest.param(1e-5, "GRPO", {"lora_rank": 8}, False, id="ten times the upper end, exactly"),
        pytest.param(1.5e-5, "GRPO", {"lora_rank": 8}, True, id="above what adapters take"),
        pytest.param(3e-7, "DPO", {}, True, id="below what DPO is trained with"),
        pytest.param(6e-7, "DPO", {}, False, id="TRL's default and Zephyr's rate are usual"),
        pytest.param(9e-6, "KTO", {}, False, id="inside the range of preference training"),
        pytest.param(1.5e-5, "DPO", {}, True, id="above the range of preference training"),
        pytest.param(9e-5, "DPO", {"lora_rank": 8}, False, id="DPO of adapters"),
        pytest.param(9e-5, "unknown", {}, False, id="an unknown algorithm may train adapters"),
        pytest.param(2e-4, "unknown", {}, True, id="too much for any algorithm"),
        pytest.param(3e-7, "unknown", {}, True, id="too little for any algorithm"),
    ],
)
def test_the_range_depends_on_the_algorithm(
    rate: float, algorithm: str, config: dict[str, float], outside: bool
) -> None:
    run = configured(rate, algorithm, **config)
    assert clear("CFG001", run) is not outside
    if outside:
        assert only("CFG001", run).severity == "info"


def test_the_setting_is_the_evidence_and_there_is_no_onset() -> None:
    finding = only("CFG001", configured(2e-5, "DPO"))
    seen = finding.evidence[0]
    assert (seen.kind, seen.subject, seen.observed) == ("config", "learning_rate", 2e-5)
    assert (seen.where.file, seen.where.key) == ("args.json", "learning_rate")
    assert (seen.limit_low, seen.limit_high, seen.unit) == (5e-7, 1e-5, "1/step")
    assert finding.onset is None
    assert "2e-05: above the rule of thumb 5e-07 to 1e-05 (preference" in finding.message
    assert "adapters take 10 times as much" in finding.message


def test_without_a_setting_the_highest_rate_of_the_log_is_judged() -> None:
    run = run_of(algorithm="DPO", lr=[0.0, 1e-5, 2e-5, 1e-5, NAN])
    finding = only("CFG001", run)
    assert logged(finding.evidence[0], "lr", "1/step")
    assert finding.evidence[0].observed == 2e-5
    assert (finding.evidence[0].first_step, finding.evidence[0].last_step) == (3, 3)


@pytest.mark.parametrize(
    ("rates", "algorithm"),
    [
        pytest.param([1e-8, 2e-8], "GRPO", id="a log that ended in its warm-up is not too low"),
        pytest.param([9.99999974e-06], "DPO", id="single precision is not below"),
        pytest.param([1.00000001e-05], "DPO", id="rounding is not above"),
        pytest.param([5e-6, NAN], "DPO", id="NaN is not the highest"),
    ],
)
def test_rates_of_the_log_that_say_nothing(rates: list[float], algorithm: str) -> None:
    assert clear("CFG001", run_of(algorithm=algorithm, lr=rates))


def test_the_setting_goes_before_the_log() -> None:
    run = run_of(algorithm="DPO", config={"learning_rate": 5e-6}, lr=[1.0, 1.0])
    assert clear("CFG001", run)


def test_a_rate_of_zero_is_a_warning_from_the_first_step() -> None:
    run = run_of(algorithm="GRPO", config={"learning_rate": 0.0}, grad_norm=[0.3] * 12)
    finding = only("CFG001", run)
    assert finding.severity == "warning"
    assert finding.onset is not None
    assert (finding.onset.step, finding.onset.low, finding.onset.high) == (1, 1, 1)
    assert "nothing is learnt" in finding.message
    assert finding.evidence[0].observed == 0.0


@pytest.mark.parametrize(
    ("columns", "severity"),
    [
        pytest.param({"kl_ref_token": [0.0, 0.1]}, "info", id="a KL that left zero"),
        pytest.param({"kl_ref_token": [0.0, 0.0]}, "warning", id="a KL of zeros shows nothing"),
        pytest.param({"reward_raw_mean": halves(5.0)}, "info", id="a trend is an update"),
        pytest.param({"reward_raw_mean": halves(3.0)}, "warning", id="noise is no update"),
        pytest.param({}, "info", id="without a log nobody knows"),
    ],
)
def test_a_log_that_shows_updates_contradicts_it(columns: Any, severity: str) -> None:
    finding = only("CFG001", run_of(algorithm="GRPO", config={"learning_rate": 0.0}, **columns))
    assert finding.severity == severity


def test_a_rate_that_the_log_knows_better_is_not_zero() -> None:
    run = run_of(algorithm="GRPO", config={"learning_rate": 0.0}, lr=[0.0, 1e-6])
    assert clear("CFG001", run)


@pytest.mark.parametrize(
    "columns",
    [
        pytest.param({}, id="no rate at all"),
        pytest.param({"lr": [0.0, 0.0]}, id="a rate of zeros, which UPD001 judges"),
        pytest.param({"lr": [NAN, NAN]}, id="a rate of NaN"),
    ],
)
def test_without_a_rate_it_cannot_look(columns: Any) -> None:
    assert skipped("CFG001", run_of(algorithm="GRPO", **columns))


def test_the_limits_can_be_set() -> None:
    run = configured(5e-6)
    assert not clear("CFG001", run)
    assert clear("CFG001", run, rl_high=5e-6)
    assert clear("CFG001", configured(5e-6, lora_rank=8))
    assert not clear("CFG001", configured(5e-6, lora_rank=8), lora=2)
    assert clear("CFG001", configured(1e-7), rl_low=1e-7)
    assert clear("CFG001", configured(1e-7, "DPO"), dpo_low=1e-7)
    assert clear("CFG001", configured(2e-5, "DPO"), dpo_high=2e-5)
