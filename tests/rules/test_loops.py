from typing import Any

import pytest

from tests.builders import clear, judge, only, run_of, skipped
from tests.rules.shapes import prose, sampled, sharing, silent


def looping(place: int) -> str:
    """A sound beginning, then one sentence over and over, cut short."""
    return prose(place) + " and so on and on." * 5 + " and so"


def grown(*counts: int, of: int = 20, **fields: Any) -> list[dict[str, Any]]:
    return sharing(*counts, of=of, text=looping, **fields)


SICK = (run_of(samples=grown(0, 0, 10, 20)),)


@pytest.mark.parametrize(
    ("last", "severity"),
    [
        pytest.param(100, "critical", id="most of the responses"),
        pytest.param(51, "critical", id="just more than half of the responses"),
        pytest.param(50, "warning", id="half of the responses"),
        pytest.param(21, "warning", id="just more than a fifth of the responses"),
        pytest.param(20, "info", id="a fifth of the responses"),
    ],
)
def test_a_rise_is_graded_by_the_last_step(last: int, severity: str) -> None:
    assert only("SMP002", run_of(samples=grown(0, 0, 30, last, of=100))).severity == severity


@pytest.mark.parametrize(
    ("last", "found"),
    [pytest.param(20, False, id="a twentieth"), pytest.param(24, True, id="more than that")],
)
def test_a_twentieth_of_them_is_little(last: int, found: bool) -> None:
    assert clear("SMP002", run_of(samples=grown(0, last, of=400))) is not found


@pytest.mark.parametrize(
    "counts",
    [
        pytest.param((39, 39, 41, 40), id="a task on which the base model loops too"),
        pytest.param((0, 90, 90, 0), id="loops that went away again"),
        pytest.param((30, 20, 10, 10), id="loops that become fewer"),
        pytest.param((10, 12, 15, 22), id="a rise that may be chance"),
    ],
)
def test_what_did_not_grow_is_clear(counts: tuple[int, ...]) -> None:
    assert clear("SMP002", run_of(samples=grown(*counts, of=100)))


def test_it_is_dated_between_two_sampled_steps_and_shows_a_loop() -> None:
    finding = only("SMP002", run_of(samples=grown(0, 0, 12, 20), log_offset=1))
    assert finding.onset is not None
    assert (finding.onset.low, finding.onset.step, finding.onset.high) == (12, 21, 21)
    evidence = finding.evidence[0]
    assert sampled(evidence, "samples.jsonl", "share of responses")
    assert evidence.where.line == 41
    assert evidence.observed == 1.0
    assert "100% of the responses in samples.jsonl end in a loop" in finding.message
    assert "on and on" in finding.message
    assert "0% at step 0" in finding.message
    assert "100% of responses end in a loop" in finding.summary


@pytest.mark.parametrize(
    ("prompts", "grew"),
    [
        pytest.param(20, True, id="ten prompts of twenty"),
        pytest.param(4, False, id="two prompts of four, five answers each"),
        pytest.param(1, False, id="a single prompt, twenty answers"),
    ],
)
def test_answers_to_one_prompt_are_one_observation(prompts: int, grew: bool) -> None:
    samples = grown(0, 10, prompt=lambda place: f"{place // 20}-{place % 20 * prompts // 20}")
    assert clear("SMP002", run_of(samples=samples)) is not grew


def padded(place: int) -> str:
    return prose(place) + "[PAD]" * 20


def ended(place: int) -> str:
    return looping(place) + "<|im_end|>\n"


def test_padding_is_no_loop() -> None:
    assert clear("SMP002", run_of(samples=sharing(0, 20, text=padded)))


def test_an_end_token_after_a_loop_hides_nothing() -> None:
    assert only("SMP002", run_of(samples=sharing(0, 20, text=ended))).severity == "critical"


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("|a|b|\n|---|---|\n|1|2|\n|1|3|\n|2|4|\n|3|9|\n|4|16|", id="a table"),
        pytest.param("- one\n- two\n- three\n- four\n- five\n- six\n- seven", id="a list"),
        pytest.param("1 + 1 = 2\n1 + 2 = 3\n1 + 3 = 4\n1 + 4 = 5\n1 + 5 = 6", id="an enumeration"),
        pytest.param("def f(x):\n    if x:\n        return {'a': [[1, 0], [0, 1]]}}}", id="code"),
        pytest.param("Tyger, tyger!\nTyger, tyger!", id="a line of a poem that comes twice"),
        pytest.param("12:01 INFO ok\n12:02 INFO ok\n12:03 INFO ok\n12:04 INFO ok", id="a log"),
        pytest.param("ha ha ha ha", id="a laugh"),
    ],
)
def test_forms_that_repeat_on_purpose_are_no_loops(text: str) -> None:
    samples = sharing(0, 20, 20, text=lambda place: f"{prose(place)}\n{text}")
    assert clear("SMP002", run_of(samples=samples))


def test_eight_responses_at_two_steps_are_needed() -> None:
    assert skipped("SMP002", run_of(samples=grown(0, 7, of=7)))
    assert not silent("SMP002", run_of(samples=grown(0, 8, of=8)))
    assert skipped("SMP002", run_of(samples=grown(20, steps=False)))
    assert skipped("SMP002", run_of(response_length_mean=[50.0] * 20))


def test_the_limits_can_be_set() -> None:
    run = run_of(samples=grown(0, 0, 30, 30, of=100))
    assert only("SMP002", run, most=0.2).severity == "critical"
    assert only("SMP002", run, some=0.4).severity == "info"
    assert clear("SMP002", run, few=0.5)
    assert judge("SMP002", run_of(samples=grown(0, 4, of=4)), fewest=4)
