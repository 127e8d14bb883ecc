from collections.abc import Callable

import pytest

from tests.builders import clear, judge, only, run_of, skipped
from tests.rules.shapes import prose, sampled, sharing, silent


def chinese(place: int) -> str:
    return "我们需要先算出这个数字然后再回答问题"


def mixed(place: int) -> str:
    return "的 kön ан the ан wir 我 all ни ob 的 so ан it"


def japanese(place: int) -> str:
    return "これは日本語の文章です。漢字とカナが混ざっています。"


def formula(place: int) -> str:
    return prose(place) + " so that the angle α equals β, and their sum is twice the angle"


SICK = (run_of(samples=sharing(0, 20, text=chinese)),)


@pytest.mark.parametrize(
    ("last", "severity"),
    [
        pytest.param(51, "warning", id="just more than half"),
        pytest.param(50, "info", id="half"),
        pytest.param(30, "info", id="a third"),
    ],
)
def test_a_rise_is_graded_by_the_last_step(last: int, severity: str) -> None:
    samples = sharing(0, 40, last, of=100, text=chinese)
    assert only("SMP006", run_of(samples=samples)).severity == severity


@pytest.mark.parametrize(
    ("text", "found"),
    [
        pytest.param(chinese, True, id="another script"),
        pytest.param(mixed, True, id="a mixture of scripts"),
        pytest.param(formula, False, id="two Greek letters in a sentence"),
    ],
)
def test_what_is_another_script(text: Callable[[int], str], found: bool) -> None:
    assert clear("SMP006", run_of(samples=sharing(0, 20, text=text))) is not found


def test_responses_without_letters_have_no_script() -> None:
    assert skipped("SMP006", run_of(samples=sharing(0, 20, text=lambda place: "1 + 2 = 3")))


@pytest.mark.parametrize(
    ("prompt", "found"),
    [
        pytest.param("Please answer: 这是什么意思？", False, id="a prompt that has the script"),
        pytest.param("Please answer: what is this?", True, id="a prompt that does not"),
        pytest.param(None, True, id="no prompt"),
    ],
)
def test_an_answer_in_the_script_of_its_prompt_is_asked_for(
    prompt: str | None, found: bool
) -> None:
    asked = prompt and (lambda place: f"{prompt} ({place})")
    samples = sharing(0, 20, text=chinese, prompt=asked)
    assert clear("SMP006", run_of(samples=samples)) is not found


def test_an_answer_that_mixes_scripts_as_its_prompt_does_is_asked_for() -> None:
    assert clear("SMP006", run_of(samples=sharing(0, 20, text=mixed, prompt=mixed)))


def test_japanese_is_one_script_of_two() -> None:
    samples = sharing(0, 20, text=japanese, other=japanese)
    assert clear("SMP006", run_of(samples=samples))


@pytest.mark.parametrize(
    ("first", "found"),
    [
        pytest.param(5, False, id="one response in twenty makes a script the run's own"),
        pytest.param(4, True, id="fewer do not"),
    ],
)
def test_scripts_of_the_first_responses_are_the_runs_own(first: int, found: bool) -> None:
    samples = sharing(first, 100, of=100, text=chinese)
    assert clear("SMP006", run_of(samples=samples)) is not found


@pytest.mark.parametrize(
    ("last", "found"),
    [pytest.param(40, False, id="a tenth"), pytest.param(44, True, id="more than that")],
)
def test_a_tenth_of_them_is_little(last: int, found: bool) -> None:
    assert clear("SMP006", run_of(samples=sharing(0, last, of=400, text=chinese))) is not found


@pytest.mark.parametrize(
    ("greek", "found"),
    [
        pytest.param(2, False, id="four changes in a hundred characters"),
        pytest.param(3, True, id="six changes in a hundred characters"),
    ],
)
def test_a_mixture_changes_script_every_twenty_characters(greek: int, found: bool) -> None:
    text = ("ω" + "o" * (99 // greek)) * greek
    samples = sharing(0, 20, text=lambda place: f"o{text[:99]:o<99}")
    assert clear("SMP006", run_of(samples=samples)) is not found


@pytest.mark.parametrize(
    ("count", "looked"),
    [pytest.param(7, False, id="seven responses"), pytest.param(8, True, id="eight responses")],
)
def test_eight_responses_a_step_are_needed(count: int, looked: bool) -> None:
    run = run_of(samples=sharing(0, count, of=count, text=chinese))
    assert skipped("SMP006", run) is not looked
    assert silent("SMP006", run) is not looked


def test_it_is_dated_and_names_the_scripts() -> None:
    run = run_of(samples=sharing(0, 0, 20, text=chinese), log_offset=1)
    finding = only("SMP006", run)
    assert finding.onset is not None
    assert (finding.onset.low, finding.onset.step, finding.onset.high) == (12, 21, 21)
    assert sampled(finding.evidence[0], "samples.jsonl", "share of responses")
    assert "(Han)" in finding.message
    assert "0% at step 0" in finding.message
    assert "100% of responses change script (Han)" in finding.summary


def test_samples_of_two_steps_are_needed() -> None:
    assert skipped("SMP006", run_of(samples=sharing(20, text=chinese)))
    assert skipped("SMP006", run_of(response_length_mean=[50.0] * 20))


def test_the_limits_can_be_set() -> None:
    run = run_of(samples=sharing(0, 40, of=100, text=chinese))
    assert only("SMP006", run, most=0.3).severity == "warning"
    assert clear("SMP006", run, few=0.5)
    assert clear("SMP006", run_of(samples=sharing(0, 20, text=mixed)), mixed=0.9)
    assert judge("SMP006", run_of(samples=sharing(1, 20, text=chinese)), usual=0.1)
    assert skipped("SMP006", run_of(samples=sharing(0, 4, of=4, text=chinese)))
    assert judge("SMP006", run_of(samples=sharing(0, 4, of=4, text=chinese)), fewest=4)
