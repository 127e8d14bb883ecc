import pytest

from rlhfdoctor.model import Run
from tests.builders import batch, clear, judge, only, run_of, skipped
from tests.rules.shapes import sampled, silent


def piled(*at_cap: int, cap: int = 40, count: int = 20, log_offset: int = 0) -> Run:
    """Steps 0, 10, 20... at which so many of ``count`` responses have the greatest length."""
    rows = []
    for index, piles in enumerate(at_cap):
        lengths = [cap] * piles + [cap - 1 - place % 5 for place in range(count - piles)]
        rows += batch(10 * index, [list(range(length)) for length in lengths])
    return run_of(samples=rows, log_offset=log_offset)


@pytest.mark.parametrize(
    ("at_cap", "alarms"),
    [
        pytest.param((1, 1, 10, 10), False, id="exactly half of the responses"),
        pytest.param((1, 1, 11, 11), True, id="more than half of the responses"),
        pytest.param((1, 1, 1, 11), True, id="the last sampled step alone is enough"),
        pytest.param((1, 18, 18, 2), False, id="a pile that recovers does not stand"),
        pytest.param((4, 11, 11, 11), True, id="a fifth at the start leaves room for a change"),
        pytest.param((5, 11, 11, 11), False, id="a quarter at the start is no change"),
    ],
)
def test_most_responses_have_the_greatest_length(at_cap: tuple[int, ...], alarms: bool) -> None:
    assert clear("LEN005", piled(*at_cap)) is not alarms


@pytest.mark.parametrize(
    ("cap", "alarms"),
    [
        pytest.param(7, False, id="seven tokens are a short answer"),
        pytest.param(8, True, id="eight tokens are a limit"),
    ],
)
def test_short_answers_are_not_piles(cap: int, alarms: bool) -> None:
    assert clear("LEN005", piled(0, 20, 20, cap=cap)) is not alarms


@pytest.mark.parametrize(
    ("count", "alarms"),
    [
        pytest.param(7, False, id="seven responses a step are too few"),
        pytest.param(8, True, id="eight responses a step are enough"),
    ],
)
def test_eight_responses_a_step_are_needed(count: int, alarms: bool) -> None:
    run = piled(0, count, count, count=count)
    assert skipped("LEN005", run) is not alarms
    assert silent("LEN005", run) is not alarms


def test_it_is_critical_and_dated_between_two_sampled_steps() -> None:
    finding = only("LEN005", piled(1, 2, 15, 19, log_offset=1))
    assert finding.severity == "critical"
    assert finding.onset is not None
    assert (finding.onset.low, finding.onset.step, finding.onset.high) == (12, 21, 21)
    evidence = finding.evidence[0]
    assert sampled(evidence, "samples.jsonl", "share of responses")
    assert evidence.where.line == 41
    assert evidence.observed == pytest.approx(0.95)
    assert evidence.limit_high == 0.5
    assert "95% of the responses" in finding.message
    assert "5% at the start" in finding.message
    assert "cap of 40" in finding.summary


def test_words_are_never_judged() -> None:
    rows = [row for step in (0, 10) for row in batch(step, [list(range(40))] * 20)]
    for index, row in enumerate(rows):
        row["token_ids"] = None
        row["response"] = " ".join(["w"] * (40 if index >= 20 or index < 2 else 10 + index))
    assert skipped("LEN005", run_of(samples=rows))
    rows[0]["token_ids"] = list(range(40))
    assert skipped("LEN005", run_of(samples=rows))


@pytest.mark.parametrize(
    ("more", "looks"),
    [
        pytest.param(0, True, id="half of the responses have ids: the others are left out"),
        pytest.param(1, False, id="less than half have ids: lengths are words"),
    ],
)
def test_lengths_are_tokens_where_half_of_a_file_has_ids(more: int, looks: bool) -> None:
    rows = [
        row
        for step, piles in ((0, 0), (10, 18))
        for row in batch(step, [list(range(40 if i < piles else 20 + i)) for i in range(20)])
    ]
    for row in rows[1::2] + rows[:more]:
        row["token_ids"] = None
    run = run_of(samples=rows)
    assert skipped("LEN005", run) is not looks
    if looks:
        assert "90% of the responses" in only("LEN005", run).message


def test_a_file_of_words_does_not_hide_a_file_of_tokens() -> None:
    words = [row for step in (0, 10) for row in batch(step, [[1] * 9] * 8, source="a.jsonl")]
    for row in words:
        row["token_ids"] = None
    ids = [[7] * 20 if index else [7] * 40 for index in range(8)]
    tokens = [
        *batch(0, ids, source="b.jsonl"),
        *batch(10, [[7] * 40] * 8, source="b.jsonl"),
    ]
    finding = only("LEN005", run_of(samples=[*words, *tokens]))
    assert sampled(finding.evidence[0], "b.jsonl", "share of responses")


def test_the_logged_length_is_not_a_sample() -> None:
    assert skipped("LEN005", run_of(response_length_mean=[40.0] * 20))


def test_one_sampled_step_is_not_judged() -> None:
    assert skipped("LEN005", piled(20))


def test_the_limits_can_be_set() -> None:
    run = piled(1, 1, 8, 8)
    assert clear("LEN005", run)
    assert judge("LEN005", run, share=0.3)
    assert clear("LEN005", run, share=0.3, start=0.04)
    assert clear("LEN005", run, share=0.3, least=41)
    assert silent("LEN005", run, share=0.3, fewest=21)
