from typing import Any

import pytest

from tests.builders import clear, only, run_of, skipped

SICK = (run_of(algorithm="GRPO", config={"clip_range": 0.9}),)


def clipped(algorithm: str = "GRPO", **config: float) -> Any:
    return run_of(algorithm=algorithm, config=config)


@pytest.mark.parametrize(
    ("width", "odd"),
    [
        pytest.param(0.0, True, id="no room at all"),
        pytest.param(6e-5, True, id="below any sequence's"),
        pytest.param(1e-4, False, id="the narrowest of sequences belongs to the range"),
        pytest.param(1.5e-4, False, id="narrow, over sequences"),
        pytest.param(4e-4, False, id="GSPO's"),
        pytest.param(9e-4, False, id="wide, over sequences"),
        pytest.param(1e-3, False, id="the widest of sequences belongs to the range"),
        pytest.param(1.5e-3, True, id="between sequences and tokens"),
        pytest.param(0.06, True, id="below any token's"),
        pytest.param(0.1, False, id="the PPO paper's narrowest"),
        pytest.param(0.15, False, id="narrow, over tokens"),
        pytest.param(0.2, False, id="the usual range"),
        pytest.param(0.28, False, id="DAPO's upper range"),
        pytest.param(0.3, False, id="the PPO paper's widest"),
        pytest.param(0.5, True, id="above any of them"),
    ],
)
def test_the_ranges_in_use(width: float, odd: bool) -> None:
    run = clipped(clip_range=width)
    assert clear("CFG007", run) is not odd
    if odd:
        finding = only("CFG007", run)
        seen = finding.evidence[0]
        assert (finding.severity, finding.onset) == ("info", None)
        assert (seen.kind, seen.subject, seen.observed) == ("config", "clip_range", width)
        assert (seen.where.key, seen.unit) == ("clip_range", "1")


def test_only_the_odd_bounds_are_evidence() -> None:
    run = clipped(clip_range=0.2, clip_range_low=0.2, clip_range_high=5.0)
    finding = only("CFG007", run)
    assert [item.subject for item in finding.evidence] == ["clip_range_high"]
    assert "clip_range_high 5" in finding.message


@pytest.mark.parametrize(
    "run",
    [
        pytest.param(clipped("DPO", clip_range=0.9), id="DPO clips nothing"),
        pytest.param(clipped("unknown", clip_range=0.9), id="an unknown algorithm"),
        pytest.param(clipped(), id="no setting"),
    ],
)
def test_what_it_cannot_judge(run: Any) -> None:
    assert skipped("CFG007", run)


def test_the_limits_can_be_set() -> None:
    assert clear("CFG007", clipped(clip_range=0.5), high=0.5)
    assert clear("CFG007", clipped(clip_range=0.05), low=0.05)
    assert clear("CFG007", clipped(clip_range=5e-5), sequence_low=5e-5)
    assert clear("CFG007", clipped(clip_range=2e-3), sequence_high=2e-3)
