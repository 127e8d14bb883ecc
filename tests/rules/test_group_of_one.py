from typing import Any

import pytest

from tests.builders import clear, only, run_of, skipped
from tests.rules.shapes import NAN

SICK = (run_of(algorithm="GRPO", config={"group_size": 1}, frac_reward_zero_std=[1.0] * 4),)


def groups(size: int, algorithm: str = "GRPO", **columns: Any) -> Any:
    return run_of(algorithm=algorithm, config={"group_size": size}, **columns)


@pytest.mark.parametrize(
    ("size", "algorithm", "told"),
    [
        pytest.param(1, "GRPO", True, id="one response"),
        pytest.param(1, "GRPO or RLOO", True, id="one response, whichever of two it is"),
        pytest.param(2, "RLOO", False, id="two responses can be compared"),
        pytest.param(3, "GRPO", False, id="three responses"),
    ],
)
def test_a_group_of_one_is_told(size: int, algorithm: str, told: bool) -> None:
    run = groups(size, algorithm)
    assert clear("CFG008", run) is not told
    if told:
        finding = only("CFG008", run)
        seen = finding.evidence[0]
        assert (finding.severity, finding.onset) == ("info", None)
        assert (seen.kind, seen.subject, seen.observed) == ("config", "group_size", size)
        assert (seen.limit_low, seen.unit) == (2, "responses/prompt")


@pytest.mark.parametrize(
    ("columns", "severity"),
    [
        pytest.param({"frac_reward_zero_std": [1.0] * 4}, "warning", id="no group has a spread"),
        pytest.param({"frac_reward_zero_std": [0.995] * 4}, "warning", id="next to none has one"),
        pytest.param({"frac_reward_zero_std": [1.0, 0.98]}, "info", id="a group with a spread"),
        pytest.param({"frac_reward_zero_std": [1.0, 0.6]}, "info", id="many groups with a spread"),
        pytest.param({"reward_group_std": [0.0] * 4}, "warning", id="a spread of zero"),
        pytest.param({"reward_group_std": [8e-6] * 4}, "warning", id="a spread of rounding"),
        pytest.param({"reward_group_std": [0.0, 1.5e-5]}, "info", id="a spread above rounding"),
        pytest.param({"reward_group_std": [0.0, 0.4]}, "info", id="a spread"),
        pytest.param({"reward_std": [NAN] * 4}, "warning", id="a spread that is NaN throughout"),
        pytest.param({"reward_group_std": [NAN] * 4}, "warning", id="a NaN within groups"),
        pytest.param({"reward_std": [NAN, 0.4]}, "info", id="a spread that is NaN at times"),
        pytest.param({"reward_std": [None] * 4}, "info", id="a spread that is not logged"),
        pytest.param({"reward_std": [0.0] * 4}, "info", id="a spread over an unknown set"),
    ],
)
def test_it_is_a_warning_where_the_log_agrees(columns: Any, severity: str) -> None:
    finding = only("CFG008", groups(1, **columns))
    assert finding.severity == severity
    assert (finding.onset is not None) == (severity == "warning")
    assert ("the log shows no spread" in finding.message) == (severity == "warning")


@pytest.mark.parametrize("algorithm", ["PPO", "PPO or GRPO", "REINFORCE", "DPO", "unknown"])
def test_what_does_not_compare_within_groups_is_not_judged(algorithm: str) -> None:
    assert skipped("CFG008", groups(1, algorithm))


def test_the_limits_can_be_set() -> None:
    assert not clear("CFG008", groups(3), fewest=4)
    shared = groups(1, frac_reward_zero_std=[0.9] * 4)
    assert only("CFG008", shared, share=0.9).severity == "warning"
    noisy = groups(1, reward_group_std=[1e-4] * 4)
    assert only("CFG008", noisy, float_noise=1e-3).severity == "warning"
