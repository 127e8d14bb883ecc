from typing import Any

import pytest

from rlhfdoctor.model import Run
from tests.builders import batch, clear, judge, only, run_of, skipped
from tests.rules.shapes import NAN, correlated, log_of, logged, sampled, silent

LENGTHS = [100.0] * 5 + [100.0 + 5.0 * index for index in range(1, 16)] + [200.0] * 5


def rows(r: float, *, lengths: list[float] = LENGTHS, **columns: list[float]) -> Run:
    """A log whose reward correlates with the length by ``r``."""
    reward = correlated(lengths, r)
    return log_of({"reward_raw_mean": reward, "response_length_mean": lengths, **columns})


def drawn(
    r: float,
    *,
    count: int = 8,
    factor: float = 2.0,
    at_cap: int = 0,
    source: str = "samples.jsonl",
) -> list[dict[str, Any]]:
    """Two sampled steps whose rewards correlate with the lengths by ``r``."""
    found: list[dict[str, Any]] = []
    for step, times in ((0, 1.0), (10, factor)):
        lengths = [round(times * (20 + 4 * index)) for index in range(count)]
        if step and at_cap:
            lengths[-at_cap:] = [max(lengths)] * at_cap
        rewards = correlated([float(length) for length in lengths], r)
        found += batch(step, [list(range(n)) for n in lengths], rewards=rewards, source=source)
    return found


@pytest.mark.parametrize(
    ("r", "follows"),
    [
        pytest.param(0.79, False, id="just below the correlation"),
        pytest.param(0.81, True, id="just above the correlation"),
        pytest.param(-0.95, False, id="a reward that falls with the length"),
    ],
)
def test_the_logged_rows_correlate(r: float, follows: bool) -> None:
    assert clear("RWD001", rows(r)) is not follows


@pytest.mark.parametrize(
    ("r", "follows"),
    [
        pytest.param(0.49, False, id="just below the correlation"),
        pytest.param(0.51, True, id="just above the correlation"),
        pytest.param(-0.9, False, id="a reward that falls with the length"),
    ],
)
def test_the_responses_of_a_step_correlate(r: float, follows: bool) -> None:
    assert clear("RWD001", run_of(samples=drawn(r))) is not follows


def test_responses_that_contradict_the_log_acquit() -> None:
    lengths = LENGTHS
    reward = correlated(lengths, 0.95)
    for r, follows in ((0.2, False), (0.9, True)):
        run = run_of(reward_raw_mean=reward, response_length_mean=lengths, samples=drawn(r))
        assert clear("RWD001", run) is not follows


@pytest.mark.parametrize(
    ("end", "grew"),
    [
        pytest.param(149.0, False, id="just less than half longer"),
        pytest.param(150.0, True, id="half longer"),
    ],
)
def test_the_logged_length_grows_by_half(end: float, grew: bool) -> None:
    lengths = [100.0] * 5 + [100.0 + 3.0 * index for index in range(1, 16)] + [end] * 5
    assert clear("RWD001", rows(0.95, lengths=lengths)) is not grew


@pytest.mark.parametrize(
    ("factor", "grew"),
    [
        pytest.param(1.45, False, id="just less than half longer"),
        pytest.param(1.55, True, id="just more than half longer"),
    ],
)
def test_the_sampled_length_grows_by_half(factor: float, grew: bool) -> None:
    assert clear("RWD001", run_of(samples=drawn(0.9, factor=factor))) is not grew


@pytest.mark.parametrize(
    ("share", "severity"),
    [
        pytest.param(0.5, "info", id="half of the responses cut at the limit"),
        pytest.param(0.51, "warning", id="most responses cut at the limit"),
        pytest.param(0.0, "info", id="no response cut"),
        pytest.param(NAN, "info", id="NaN is never most"),
    ],
)
def test_the_logged_truncation_decides_how_grave_it_is(share: float, severity: str) -> None:
    run = rows(0.95, truncation_rate=[share] * len(LENGTHS))
    assert only("RWD001", run).severity == severity


def test_only_the_truncation_at_the_end_counts() -> None:
    run = rows(0.95, truncation_rate=[1.0] * 15 + [0.0] * 10)
    assert only("RWD001", run).severity == "info"


@pytest.mark.parametrize(
    ("at_cap", "severity"),
    [
        pytest.param(4, "info", id="half of the last responses at one length"),
        pytest.param(5, "warning", id="most of the last responses at one length"),
    ],
)
def test_without_a_logged_truncation_the_samples_decide(at_cap: int, severity: str) -> None:
    assert only("RWD001", run_of(samples=drawn(0.9, at_cap=at_cap))).severity == severity


@pytest.mark.parametrize(
    ("count", "follows"),
    [
        pytest.param(7, False, id="seven responses a step are too few"),
        pytest.param(8, True, id="eight responses a step are enough"),
    ],
)
def test_eight_responses_a_step_are_needed(count: int, follows: bool) -> None:
    assert skipped("RWD001", run_of(samples=drawn(0.9, count=count))) is not follows


def test_log_and_samples_are_both_evidence() -> None:
    run = run_of(
        reward_raw_mean=correlated(LENGTHS, 0.95),
        response_length_mean=LENGTHS,
        samples=drawn(0.9),
    )
    finding = only("RWD001", run)
    assert finding.severity == "info"
    assert finding.onset is None
    first, second = finding.evidence
    assert logged(first, "reward_raw_mean", "reward")
    assert first.observed == pytest.approx(0.95)
    assert first.limit_high == 0.8
    assert sampled(second, "samples.jsonl", "correlation with length")
    assert second.observed == pytest.approx(0.9)
    assert second.limit_high == 0.5
    assert "r = 0.95 over logged rows" in finding.message
    assert "r = 0.90 between the responses" in finding.message
    assert "from 100 to 200" in finding.message
    assert "reward follows length" in finding.summary


def test_only_rows_that_have_both_are_compared() -> None:
    reward = correlated(LENGTHS, 0.95)
    reward[3] = reward[12] = NAN
    run = run_of(reward_raw_mean=reward, response_length_mean=LENGTHS)
    assert only("RWD001", run).evidence[0].observed == pytest.approx(0.95, abs=0.03)


@pytest.mark.parametrize(
    ("reward", "lengths"),
    [
        pytest.param([0.0] * 25, LENGTHS, id="a reward of zeros"),
        pytest.param(LENGTHS, [0.0] * 25, id="a length of zeros"),
        pytest.param([1.0, 2.0, *[NAN] * 23], LENGTHS, id="two rows are no correlation"),
    ],
)
def test_where_nothing_correlates_nobody_is_accused(
    reward: list[float], lengths: list[float]
) -> None:
    assert silent("RWD001", run_of(reward_raw_mean=reward, response_length_mean=lengths))


def test_a_reward_or_a_length_of_nan_is_not_judged() -> None:
    broken = [NAN] * len(LENGTHS)
    assert skipped("RWD001", run_of(reward_raw_mean=broken, response_length_mean=LENGTHS))
    assert skipped("RWD001", run_of(reward_raw_mean=LENGTHS, response_length_mean=broken))


@pytest.mark.parametrize(
    "reward", [pytest.param(NAN, id="NaN is no reward"), pytest.param(None, id="no reward")]
)
def test_one_response_without_a_reward_leaves_its_file_out(reward: float | None) -> None:
    samples = drawn(0.9)
    samples[3]["reward"] = reward
    assert skipped("RWD001", run_of(samples=samples))


def test_another_column_is_never_judged() -> None:
    reward = correlated(LENGTHS, 0.95)
    assert skipped("RWD001", run_of(reward_raw_mean=reward))
    assert skipped("RWD001", run_of(reward_raw_mean=reward, response_length_max=LENGTHS))
    assert skipped("RWD001", run_of(reward_shaped_mean=reward, response_length_mean=LENGTHS))


def test_the_limits_can_be_set() -> None:
    assert judge("RWD001", rows(0.7), correlation=0.6)
    assert clear("RWD001", rows(0.95), growth=2.5)
    assert judge("RWD001", run_of(samples=drawn(0.4)), within=0.3)
    run = rows(0.95, truncation_rate=[0.3] * len(LENGTHS))
    assert only("RWD001", run, share=0.2).severity == "warning"
    assert judge("RWD001", run_of(samples=drawn(0.9, count=5)), fewest=5)
