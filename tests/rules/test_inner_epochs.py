from dataclasses import replace
from typing import Any

import pytest

from tests.builders import clear, only, run_of, skipped

SICK = (run_of(algorithm="PPO", config={"ppo_epochs": 64}),)


def passes(count: int, algorithm: str = "PPO", framework: str = "TRL") -> Any:
    return replace(run_of(algorithm=algorithm, config={"ppo_epochs": count}), framework=framework)


@pytest.mark.parametrize(
    ("count", "framework", "told"),
    [
        pytest.param(1, "TRL", False, id="one pass"),
        pytest.param(3, "TRL", False, id="three passes"),
        pytest.param(4, "TRL", False, id="TRL's default"),
        pytest.param(5, "TRL", True, id="one more than that"),
        pytest.param(1, "DeepSpeed-Chat", False, id="DeepSpeed-Chat's one pass"),
        pytest.param(2, "DeepSpeed-Chat", True, id="DeepSpeed-Chat's second pass"),
    ],
)
def test_more_passes_than_are_known_to_hold(count: int, framework: str, told: bool) -> None:
    run = passes(count, framework=framework)
    assert clear("CFG006", run) is not told
    if told:
        finding = only("CFG006", run)
        seen = finding.evidence[0]
        assert (finding.severity, finding.onset) == ("info", None)
        assert (seen.kind, seen.subject, seen.observed) == ("config", "ppo_epochs", count)
        assert (seen.limit_high, seen.unit) == (count - 1, "passes/batch")
        assert f"{count} passes" in finding.message


@pytest.mark.parametrize(
    "run",
    [
        pytest.param(passes(64, "DPO"), id="pairs are not sampled"),
        pytest.param(passes(64, "unknown"), id="an unknown algorithm"),
        pytest.param(run_of(algorithm="PPO"), id="no setting"),
    ],
)
def test_what_it_cannot_judge(run: Any) -> None:
    assert skipped("CFG006", run)


def test_the_limits_can_be_set() -> None:
    assert clear("CFG006", passes(8), most=8)
    assert not clear("CFG006", passes(3), most=2)
    assert clear("CFG006", passes(2, framework="DeepSpeed-Chat"), deepspeed_chat=2)
