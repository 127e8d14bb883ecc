from typing import Any

import pytest

from tests.builders import clear, only, run_of, skipped
from tests.rules.shapes import prose, sampled, sharing, silent

PHRASE = "thanks for asking"


def said(*counts: int, of: int = 20, phrase: str = PHRASE, **fields: Any) -> list[dict[str, Any]]:
    return sharing(*counts, of=of, text=lambda place: f"{prose(place)} {phrase}", **fields)


SICK = (run_of(samples=said(0, 20)),)


@pytest.mark.parametrize(
    ("counts", "found"),
    [
        pytest.param((0, 70), True, id="seven responses of ten"),
        pytest.param((0, 69), False, id="fewer than seven of ten"),
        pytest.param((20, 90), True, id="a fifth of the first ones"),
        pytest.param((21, 90), False, id="more than a fifth of the first ones"),
        pytest.param((90, 90), False, id="a template that was always there"),
        pytest.param((0, 90, 90, 0), False, id="a phrase that went away again"),
    ],
)
def test_most_responses_hold_it_and_the_first_did_not(counts: tuple[int, ...], found: bool) -> None:
    assert clear("SMP008", run_of(samples=said(*counts, of=100))) is not found


@pytest.mark.parametrize(
    ("phrase", "named"),
    [
        pytest.param("thanks", "'thanks'", id="one word"),
        pytest.param("so good", "'so good'", id="two words"),
        pytest.param("thanks for all of it", "'all of it'", id="three words of five"),
        pytest.param("LORD LORD LORD", "'LORD'", id="one word over and over"),
        pytest.param("感谢你", "'感谢你'", id="three words without spaces"),
    ],
)
def test_the_longest_phrase_of_different_words_is_named(phrase: str, named: str) -> None:
    assert named in only("SMP008", run_of(samples=said(0, 20, phrase=phrase))).message


@pytest.mark.parametrize(
    ("length", "found"),
    [
        pytest.param(12, True, id="one word of twelve"),
        pytest.param(13, False, id="one word of thirteen"),
    ],
)
def test_it_is_twice_as_frequent_as_at_the_start(length: int, found: bool) -> None:
    """At first it is one word of five in a fifth of the responses: one of 25."""

    def text(place: int) -> str:
        return f"thanks {prose(place, 4 if place < 100 else length - 1)}"

    def other(place: int) -> str:
        return prose(place, 5)

    samples = sharing(20, 100, of=100, text=text, other=other)
    assert clear("SMP008", run_of(samples=samples)) is not found


@pytest.mark.parametrize(
    ("length", "phrase"),
    [
        pytest.param(9, "thanks for asking", id="one of seven phrases of three words"),
        pytest.param(10, "for asking", id="one of eight, and one of nine of two words"),
    ],
)
def test_a_phrase_is_counted_among_all_of_its_length(length: int, phrase: str) -> None:
    """At first it is one of three in a fifth of the responses: one of fifteen."""

    def text(place: int) -> str:
        return f"{PHRASE} {prose(place, 2 if place < 100 else length - 3)}"

    samples = sharing(20, 100, of=100, text=text, other=lambda place: prose(place, 5))
    assert f"'{phrase}'" in only("SMP008", run_of(samples=samples)).message


def test_what_longer_answers_hold_more_of_is_no_template() -> None:
    def words(place: int) -> str:
        count = 10 if place < 20 else 300
        return " ".join(f"w{(place * 31 + index * index * 7) % 97}" for index in range(count))

    assert clear("SMP008", run_of(samples=sharing(0, 0, text=prose, other=words)))


def test_it_is_information_dated_where_it_grew() -> None:
    finding = only("SMP008", run_of(samples=said(0, 0, 8, 20, 20), log_offset=1))
    assert finding.severity == "info"
    assert finding.onset is not None
    assert (finding.onset.low, finding.onset.step, finding.onset.high) == (12, 21, 21)
    assert sampled(finding.evidence[0], "samples.jsonl", "share of responses")
    assert finding.message == (
        "'thanks for asking' is in 100% of the responses in samples.jsonl, 0% at step 0; it grew "
        "from step 20"
    )
    assert "'thanks for asking' in 100% of responses" in finding.summary


def test_whether_the_reward_goes_with_it_is_told() -> None:
    samples = said(0, 10, 20, other=lambda place: prose(place, 15))
    for row in samples:
        row["reward"] = float(PHRASE in row["response"])
    told = "the reward goes with its count, r = 1.00 at equal length"
    assert told in only("SMP008", run_of(samples=samples)).message
    samples[0]["reward"] = None
    assert "the reward" not in only("SMP008", run_of(samples=samples)).message


def test_every_sample_file_has_its_own_phrase() -> None:
    one = said(0, 20, source="a.jsonl")
    two = said(0, 20, phrase="so good", source="b.jsonl")
    three = said(0, 0, source="c.jsonl")
    outcome = [only("SMP008", run_of(samples=[*rows, *three])).message for rows in (one, two)]
    assert "thanks for asking" in outcome[0]
    assert "so good" in outcome[1]


def test_samples_of_two_steps_are_needed() -> None:
    assert skipped("SMP008", run_of(samples=said(20)))
    assert skipped("SMP008", run_of(response_length_mean=[50.0] * 20))


@pytest.mark.parametrize(
    ("count", "looked"),
    [pytest.param(7, False, id="seven responses"), pytest.param(8, True, id="eight responses")],
)
def test_eight_responses_a_step_are_needed(count: int, looked: bool) -> None:
    run = run_of(samples=said(0, count, of=count))
    assert skipped("SMP008", run) is not looked
    assert silent("SMP008", run) is not looked


def test_the_limits_can_be_set() -> None:
    run = run_of(samples=said(10, 80, of=100))
    assert clear("SMP008", run, late=0.9)
    assert clear("SMP008", run, early=0.05)
    assert clear("SMP008", run, growth=9.0)
    assert silent("SMP008", run, fewest=101)
