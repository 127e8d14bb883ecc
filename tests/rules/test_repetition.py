import pytest

from rlhfdoctor.model import Run
from tests.builders import batch, clear, judge, only, run_of, skipped
from tests.rules.shapes import sampled


def answer(distinct: int) -> list[int]:
    """100 3-grams, so many of them different, and the rest one token over and over."""
    return list(range(distinct - 1)) + [-1] * (102 - distinct + 1)


def varied(*percent: int, count: int = 8, log_offset: int = 0, words: bool = False) -> Run:
    """Steps 0, 10, 20... whose responses have this share of different 3-grams."""
    rows = [
        row
        for index, distinct in enumerate(percent)
        for row in batch(10 * index, [answer(distinct)] * count)
    ]
    if words:
        for row in rows:
            row["token_ids"] = None
    return run_of(samples=rows, log_offset=log_offset)


@pytest.mark.parametrize(
    "words", [pytest.param(False, id="tokens"), pytest.param(True, id="words")]
)
@pytest.mark.parametrize(
    ("percent", "alarms"),
    [
        pytest.param((95, 94, 77, 77), False, id="just above 80 percent of the start"),
        pytest.param((95, 94, 75, 75), True, id="just below 80 percent of the start"),
        pytest.param((95, 94, 94, 75), True, id="the last sampled step alone is enough"),
        pytest.param((95, 10, 10, 94), False, id="repetition that recovers does not stand"),
        pytest.param((10, 10, 10, 10), False, id="repetitive from the start is no change"),
        pytest.param((50, 95, 95, 95), False, id="more variety is no repetition"),
    ],
)
def test_a_fifth_of_the_variety_is_lost(
    percent: tuple[int, ...], alarms: bool, words: bool
) -> None:
    assert clear("SMP001", varied(*percent, words=words)) is not alarms


@pytest.mark.parametrize(
    ("count", "alarms"),
    [
        pytest.param(7, False, id="seven responses a step are too few"),
        pytest.param(8, True, id="eight responses a step are enough"),
    ],
)
def test_eight_responses_a_step_are_needed(count: int, alarms: bool) -> None:
    assert skipped("SMP001", varied(95, 10, 10, count=count)) is not alarms


def test_it_is_critical_and_dated_between_two_sampled_steps() -> None:
    finding = only("SMP001", varied(95, 94, 50, 10, log_offset=1))
    assert finding.severity == "critical"
    assert finding.onset is not None
    assert (finding.onset.low, finding.onset.step, finding.onset.high) == (12, 21, 21)
    evidence = finding.evidence[0]
    assert sampled(evidence, "samples.jsonl", "share of different 3-grams")
    assert evidence.where.line == 17
    assert evidence.observed == pytest.approx(0.10)
    assert evidence.limit_low == pytest.approx(0.76)
    assert "10% different 3-grams a response, 95% at the start" in finding.message
    assert "0.95 -> 0.10" in finding.summary


@pytest.mark.parametrize(
    ("looping", "told"),
    [
        pytest.param(8, "100% of the last ones end in a loop", id="every response loops"),
        pytest.param(2, "25% of the last ones end in a loop", id="a quarter of them loops"),
    ],
)
def test_the_loops_of_the_last_step_are_counted(looping: int, told: str) -> None:
    ends = [answer(10)] * looping + [[*answer(10), 7, 8, 9]] * (8 - looping)
    rows = [*batch(0, [answer(95)] * 8), *batch(10, ends)]
    assert told in only("SMP001", run_of(samples=rows)).message


def test_every_sample_file_is_judged_by_itself() -> None:
    rows = []
    for source, last in (("a.jsonl", 95), ("b.jsonl", 10)):
        rows += batch(0, [answer(95)] * 8, source=source)
        rows += batch(10, [answer(last)] * 8, source=source)
    finding = only("SMP001", run_of(samples=rows))
    assert sampled(finding.evidence[0], "b.jsonl", "share of different 3-grams")


def test_responses_that_are_too_short_for_a_3_gram_are_not_judged() -> None:
    rows = [row for step in (0, 10) for row in batch(step, [[1, 2]] * 8)]
    assert skipped("SMP001", run_of(samples=rows))


def test_a_step_of_short_responses_is_left_out_alone() -> None:
    rows = [*batch(0, [answer(95)] * 8), *batch(10, [[1, 2]] * 8), *batch(20, [answer(10)] * 8)]
    finding = only("SMP001", run_of(samples=rows))
    assert finding.onset is not None
    assert (finding.onset.low, finding.onset.step, finding.onset.high) == (1, 20, 20)
    assert skipped("SMP001", run_of(samples=rows[:16]))


def test_samples_of_two_steps_are_needed() -> None:
    assert skipped("SMP001", varied(10))
    assert skipped("SMP001", run_of(response_length_mean=[50.0] * 20))


def lengthening(words: int, vocabulary: int) -> Run:
    """Two steps of eight responses: 20 different words, then so many of so few different ones."""
    first = [" ".join(f"a{place}x{index}" for index in range(20)) for place in range(8)]
    later = [
        " ".join(f"w{(index * index * 7 + place) % vocabulary}" for index in range(words))
        for place in range(8)
    ]
    texts = [*first, *later]
    return run_of(
        samples=[{"step": 10 * (place // 8), "response": text} for place, text in enumerate(texts)]
    )


@pytest.mark.parametrize(
    ("run", "alarms"),
    [
        pytest.param(lengthening(400, 101), False, id="words that come again far apart"),
        pytest.param(lengthening(400, 5), True, id="words that come again at once"),
        pytest.param(lengthening(20, 5), True, id="no longer than they were"),
    ],
)
def test_longer_responses_are_compared_in_windows_of_equal_length(run: Run, alarms: bool) -> None:
    assert clear("SMP001", run) is not alarms


def test_the_limits_can_be_set() -> None:
    run = varied(95, 94, 85, 85)
    assert clear("SMP001", run)
    assert judge("SMP001", run, fall=0.95)
    assert judge("SMP001", varied(95, 10, count=4), fewest=4)
