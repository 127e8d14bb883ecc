from typing import Any

import pytest

from tests.builders import clear, judge, only, run_of, skipped
from tests.rules.shapes import correlated, sampled, silent


def repeating(
    *steps: float, r: float = 0.9, of: int = 20, length: bool = False, sound: bool = False
) -> list[dict[str, Any]]:
    """Steps 0, 10, 20, ...: about so much of each response is one word over and over.

    Within a step the shares differ and the reward follows them with correlation ``r``. length: the
    repetition is added to a response of fixed length, and the reward is the length.
    """
    rows: list[dict[str, Any]] = []
    for index, share in enumerate(steps):
        counts = [3 + round(40 * share) + place % 5 for place in range(of)]
        rewards = correlated([float(count) for count in counts], r)
        for place, (count, reward) in enumerate(zip(counts, rewards, strict=True)):
            fresh = 60 if length else 60 - count
            words = [f"w{index}x{place}x{number}" for number in range(fresh)] + ["so"] * count
            rows.append(
                {
                    "step": 10 * index,
                    "prompt": f"prompt {place}",
                    "response": " ".join(words),
                    "reward": float(len(words)) if length else reward,
                }
            )
    return rows


SICK = (run_of(samples=repeating(0.0, 0.9)),)


@pytest.mark.parametrize(
    ("r", "of", "found"),
    [
        pytest.param(0.9, 20, True, id="a reward that follows"),
        pytest.param(0.29, 200, False, id="just below the limit"),
        pytest.param(0.31, 200, True, id="just above the limit"),
        pytest.param(0.6, 20, True, id="four standard errors of forty responses"),
        pytest.param(0.35, 20, False, id="a correlation that may be chance"),
        pytest.param(-0.9, 20, False, id="a reward that punishes repetition"),
    ],
)
def test_the_reward_follows_repetition_within_steps(r: float, of: int, found: bool) -> None:
    run = run_of(samples=repeating(0.2, 0.9, 0.9, r=r, of=of))
    assert clear("RWD012", run) is not found


@pytest.mark.parametrize(
    ("steps", "found"),
    [
        pytest.param((0.0, 0.0, 0.0), False, id="no repetition at all"),
        pytest.param((0.9, 0.9, 0.9), False, id="repetition from the start"),
        pytest.param((0.0, 0.9, 0.0), False, id="repetition that went away again"),
        pytest.param((0.0, 0.2, 0.2), False, id="less than a fifth more"),
        pytest.param((0.0, 0.4, 0.4), True, id="more than a fifth more"),
    ],
)
def test_repetition_grew(steps: tuple[float, ...], found: bool) -> None:
    assert clear("RWD012", run_of(samples=repeating(*steps))) is not found


def test_a_reward_that_pays_for_length_is_another_matter() -> None:
    samples = repeating(0.0, 0.9, 0.9, length=True)
    assert skipped("RWD012", run_of(samples=samples))


@pytest.mark.parametrize(
    ("measured", "found"),
    [
        pytest.param(20, True, id="twenty of two hundred"),
        pytest.param(5, False, id="five of two hundred"),
        pytest.param(3, False, id="three, which any two lines go through"),
    ],
)
def test_responses_too_short_to_repeat_weigh_nothing(measured: int, found: bool) -> None:
    samples = repeating(0.0, 0.9, of=200)
    for place, row in enumerate(samples):
        if place % 200 >= measured:
            row["response"] = "so short"
    run = run_of(samples=samples)
    assert silent("RWD012", run) is not found


def test_it_is_a_warning_dated_where_repetition_stands() -> None:
    finding = only("RWD012", run_of(samples=repeating(0.0, 0.0, 0.9), log_offset=1))
    assert finding.severity == "warning"
    assert finding.onset is not None
    assert (finding.onset.low, finding.onset.step, finding.onset.high) == (12, 21, 21)
    assert sampled(finding.evidence[0], "samples.jsonl", "correlation with repetition")
    assert "r = 0.90 at equal length" in finding.message
    assert "pays for repetition" in finding.summary


def test_rewards_that_differ_at_two_steps_are_needed() -> None:
    samples = repeating(0.0, 0.9)
    assert skipped("RWD012", run_of(samples=[{**row, "reward": 1.0} for row in samples]))
    assert skipped("RWD012", run_of(samples=[{**row, "reward": None} for row in samples]))
    assert skipped("RWD012", run_of(samples=repeating(0.9)))
    assert skipped("RWD012", run_of(reward_raw_mean=[1.0] * 20))


@pytest.mark.parametrize(
    ("count", "looked"),
    [pytest.param(7, False, id="seven responses"), pytest.param(8, True, id="eight responses")],
)
def test_eight_responses_a_step_are_needed(count: int, looked: bool) -> None:
    run = run_of(samples=repeating(0.0, *[0.9] * 3, of=count, r=0.99))
    assert skipped("RWD012", run) is not looked
    assert silent("RWD012", run) is not looked


def test_the_limits_can_be_set() -> None:
    run = run_of(samples=repeating(0.0, 0.9, r=0.7))
    assert judge("RWD012", run)
    assert clear("RWD012", run, correlation=0.8)
    assert clear("RWD012", run, standard_errors=8.0)
    assert clear("RWD012", run, fall=0.1)
    assert silent("RWD012", run, fewest=21)
