from typing import Any

import pytest

from tests.builders import clear, only, run_of, skipped

SICK = (run_of(algorithm="PPO", config={"vf_coef": 5.0}),)


def weighed(weight: float, algorithm: str = "PPO", **config: float) -> Any:
    return run_of(algorithm=algorithm, config={"vf_coef": weight, **config})


@pytest.mark.parametrize(
    ("weight", "outside"),
    [
        pytest.param(0.0, True, id="a critic that is not trained"),
        pytest.param(0.006, True, id="below"),
        pytest.param(0.01, False, id="the lower end belongs to the range"),
        pytest.param(0.015, False, id="just inside"),
        pytest.param(0.1, False, id="TRL's default"),
        pytest.param(0.6, False, id="inside"),
        pytest.param(1.0, False, id="trlX's default"),
        pytest.param(1.5, True, id="above"),
    ],
)
def test_the_range(weight: float, outside: bool) -> None:
    run = weighed(weight)
    assert clear("CFG004", run) is not outside
    if outside:
        finding = only("CFG004", run)
        seen = finding.evidence[0]
        assert (finding.severity, finding.onset) == ("info", None)
        assert (seen.kind, seen.subject, seen.observed, seen.unit) == (
            "config", "vf_coef", weight, "1",
        )  # fmt: skip
        assert (seen.limit_low, seen.limit_high) == (0.01, 1.0)
        assert "outside the usual 0.01 to 1" in finding.message


@pytest.mark.parametrize(
    "run",
    [
        pytest.param(weighed(9.0, "GRPO"), id="GRPO has no critic"),
        pytest.param(weighed(9.0, "unknown"), id="an unknown algorithm may have none"),
        pytest.param(weighed(9.0, lr_critic=1e-5), id="a critic with an optimizer of its own"),
        pytest.param(run_of(algorithm="PPO"), id="no coefficient"),
    ],
)
def test_what_it_cannot_judge(run: Any) -> None:
    assert skipped("CFG004", run)


def test_the_limits_can_be_set() -> None:
    assert clear("CFG004", weighed(2.0), high=2.0)
    assert clear("CFG004", weighed(0.001), low=0.001)
