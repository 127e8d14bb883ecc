from collections.abc import Sequence
from itertools import count as counter
from typing import Any

import pytest

from tests.builders import batch, clear, judge, only, run_of, skipped
from tests.rules.shapes import correlated, sampled, silent

NONE = [0] * 20


def said(
    *steps: Sequence[int],
    phrase: str = "thanks",
    rewards: Sequence[float] | None = None,
    source: str = "samples.jsonl",
) -> list[dict[str, Any]]:
    """Steps 0, 10, 20...: how often each response of ten words holds the phrase.

    No other word comes twice. The reward is the count, unless ``rewards`` says otherwise.
    """
    fresh = counter()
    paid = iter(rewards or [float(times) for step in steps for times in step])
    found: list[dict[str, Any]] = []
    for index, step in enumerate(steps):
        texts = []
        for times in step:
            words = [f"w{next(fresh)}" for _ in range(10)]
            words[0 : 2 * times : 2] = [phrase] * times
            texts.append(" ".join(words))
        found += batch(
            10 * index,
            [[0]] * len(step),
            texts=texts,
            rewards=[next(paid) for _ in step],
            source=source,
        )
    return found


@pytest.mark.parametrize(
    ("holding", "paid"),
    [
        pytest.param(13, False, id="65 percent of the responses may have a favourite word"),
        pytest.param(14, True, id="70 percent of the responses have one word"),
    ],
)
def test_most_responses_hold_the_phrase(holding: int, paid: bool) -> None:
    last = [4] * holding + [0] * (20 - holding)
    assert clear("RWD002", run_of(samples=said(NONE, last))) is not paid


@pytest.mark.parametrize(
    ("last", "paid"),
    [
        pytest.param([2] * 18 + [1] * 2, False, id="19 percent of the words are a format"),
        pytest.param([2] * 18 + [3] * 2, True, id="21 percent of the words are a takeover"),
    ],
)
def test_the_phrase_is_a_fifth_of_all_words(last: list[int], paid: bool) -> None:
    assert clear("RWD002", run_of(samples=said(NONE, last))) is not paid


@pytest.mark.parametrize(
    ("times", "paid"),
    [
        pytest.param(1, False, id="once in each is a format"),
        pytest.param(2, True, id="twice in each is a phrase that is paid"),
    ],
)
def test_a_format_of_short_answers_is_no_paid_phrase(times: int, paid: bool) -> None:
    samples = [
        {**item, "response": "Answer: " * (times if item["step"] else 0) + f"x{place} y{place}"}
        for place, item in enumerate(said(NONE, [4] * 20))
    ]
    assert clear("RWD002", run_of(samples=samples)) is not paid


@pytest.mark.parametrize(
    ("first", "paid"),
    [
        pytest.param([2] * 18 + [1] * 2, True, id="19 percent at first is less than half"),
        pytest.param([2] * 18 + [3] * 2, False, id="21 percent at first is more than half"),
    ],
)
def test_the_share_of_the_phrase_doubles(first: list[int], paid: bool) -> None:
    assert clear("RWD002", run_of(samples=said(first, [4] * 20))) is not paid


@pytest.mark.parametrize(
    ("r", "paid"),
    [
        pytest.param(0.49, False, id="just below the correlation"),
        pytest.param(0.51, True, id="just above the correlation"),
        pytest.param(-0.9, False, id="a phrase that costs reward"),
    ],
)
def test_the_reward_follows_the_count_of_the_phrase(r: float, paid: bool) -> None:
    steps = (NONE, [3, 5] * 10)
    rewards = correlated([float(times) for step in steps for times in step], r)
    assert clear("RWD002", run_of(samples=said(*steps, rewards=rewards))) is not paid


@pytest.mark.parametrize(
    ("responses", "paid"),
    [
        pytest.param(7, False, id="seven responses a step are too few"),
        pytest.param(8, True, id="eight responses a step are enough"),
    ],
)
def test_eight_responses_a_step_are_needed(responses: int, paid: bool) -> None:
    run = run_of(samples=said([0] * responses, [4] * responses))
    assert skipped("RWD002", run) is not paid
    assert silent("RWD002", run) is not paid


def test_it_is_a_warning_dated_between_two_sampled_steps() -> None:
    run = run_of(samples=said(NONE, [0] * 19 + [4], [4] * 20, [5] * 20), log_offset=1)
    finding = only("RWD002", run)
    assert finding.severity == "warning"
    assert finding.onset is not None
    assert (finding.onset.low, finding.onset.step, finding.onset.high) == (12, 21, 21)
    evidence = finding.evidence[0]
    assert sampled(evidence, "samples.jsonl", "share of 1-grams")
    assert evidence.where.line == 41
    assert evidence.observed == pytest.approx(0.5)
    assert evidence.limit_high == 0.2
    assert "'thanks' is in 100% of the last responses" in finding.message
    assert "50% of their 1-grams (0% at the start)" in finding.message
    assert "r = 1.00" in finding.message
    assert "pays for 'thanks'" in finding.summary


@pytest.mark.parametrize(
    ("holding", "step"),
    [
        pytest.param(3, 20, id="three responses of twenty may be chance"),
        pytest.param(5, 10, id="five of twenty are more than two standard errors"),
    ],
)
def test_it_is_dated_where_the_phrase_began_to_grow(holding: int, step: int) -> None:
    run = run_of(samples=said(NONE, [1] * holding + NONE[holding:], [4] * 20, [5] * 20))
    finding = only("RWD002", run)
    assert finding.onset is not None
    assert (finding.onset.low, finding.onset.step) == (step - 9, step)


def test_of_several_phrases_the_one_is_named_that_the_reward_follows_most() -> None:
    first = batch(0, [[0]] * 10, texts=["a b c d e"] * 10, rewards=[0.0] * 10)
    last = batch(
        10,
        [[0]] * 10,
        texts=[" ".join(["so"] * 6 + ["very"] * (3 + place % 3)) for place in range(10)],
        rewards=[3.0 + place % 3 for place in range(10)],
    )
    assert "'very'" in only("RWD002", run_of(samples=[*first, *last])).message


def test_a_word_that_comes_with_length_is_not_what_is_paid() -> None:
    samples = said(NONE, [4] * 20)
    for place, row in enumerate(samples):
        row["token_ids"] = [0] * (20 + place)
        row["reward"] = 20.0 + place
    assert clear("RWD002", run_of(samples=samples))


def test_a_phrase_of_two_words_is_found_where_no_single_word_is_enough() -> None:
    # each pair of words is 9 of 19 2-grams; the words themselves were common from the start
    first = batch(
        0, [[0]] * 8, texts=["so a b so c d good e f good"] * 8, rewards=[0.1 * i for i in range(8)]
    )
    last = batch(10, [[0]] * 8, texts=[" ".join(["so good"] * 2 + ["x"])] * 8, rewards=[9.0] * 8)
    finding = only("RWD002", run_of(samples=[*first, *last]), growth=3.0)
    assert "'so good'" in finding.message
    assert sampled(finding.evidence[0], "samples.jsonl", "share of 2-grams")


@pytest.mark.parametrize(
    "steps",
    [
        pytest.param((NONE, NONE), id="no word comes twice"),
        pytest.param((NONE, [5] * 20, [5] * 20, NONE), id="a phrase that went away again"),
        pytest.param(([1] * 20, [1] * 20), id="a learnt format comes once"),
        pytest.param(([4] * 20, [4] * 20), id="a phrase that was always there"),
    ],
)
def test_what_takes_nothing_over_is_clear(steps: tuple[list[int], ...]) -> None:
    assert clear("RWD002", run_of(samples=said(*steps)))


def test_a_reward_that_is_constant_follows_nothing() -> None:
    assert clear("RWD002", run_of(samples=said(NONE, [4] * 20, rewards=[0.0] * 40)))


@pytest.mark.parametrize(
    "reward",
    [pytest.param(float("nan"), id="NaN is no reward"), pytest.param(None, id="no reward")],
)
def test_one_response_without_a_reward_leaves_its_file_out(reward: float | None) -> None:
    samples = said(NONE, [4] * 20)
    samples[3]["reward"] = reward
    assert skipped("RWD002", run_of(samples=samples))
    whole = said(NONE, [4] * 20, source="whole.jsonl")
    finding = only("RWD002", run_of(samples=[*samples, *whole]))
    assert sampled(finding.evidence[0], "whole.jsonl", "share of 1-grams")


def test_a_phrase_that_was_common_at_the_first_sampled_step_is_dated_there() -> None:
    run = run_of(loss_total=[1.0] * 20, samples=said([3] * 14 + NONE[14:], [5] * 20), log_offset=5)
    finding = only("RWD002", run)
    assert finding.onset is not None
    assert (finding.onset.low, finding.onset.step, finding.onset.high) == (1, 5, 5)


def test_rewards_and_two_steps_are_needed() -> None:
    samples = said(NONE, [4] * 20)
    for row in samples:
        row["reward"] = None
    assert skipped("RWD002", run_of(samples=samples))
    assert skipped("RWD002", run_of(samples=said([4] * 20)))
    assert skipped("RWD002", run_of(reward_raw_mean=[1.0] * 20))


def test_the_limits_can_be_set() -> None:
    run = run_of(samples=said(NONE, [4] * 14 + [0] * 6))
    assert judge("RWD002", run)
    assert clear("RWD002", run, documents=0.8)
    assert clear("RWD002", run, words=0.3)
    assert clear("RWD002", run, correlation=1.0)
    assert silent("RWD002", run, fewest=21)
    assert clear("RWD002", run_of(samples=said([1] * 20, [4] * 20)), growth=5.0)
