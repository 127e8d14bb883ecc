import pytest

from tests.builders import clear, judge, only, run_of, skipped
from tests.rules.shapes import sampled, sharing, silent

SICK = (run_of(samples=sharing(0, 20, text=lambda place: " ")),)


@pytest.mark.parametrize(
    ("last", "severity"),
    [
        pytest.param(51, "critical", id="just more than half"),
        pytest.param(50, "warning", id="half"),
        pytest.param(21, "warning", id="a fifth"),
    ],
)
def test_a_rise_is_graded_by_the_last_step(last: int, severity: str) -> None:
    samples = sharing(0, 20, last, of=100, text=lambda place: "")
    assert only("SMP004", run_of(samples=samples)).severity == severity


@pytest.mark.parametrize(
    ("last", "severity"),
    [
        pytest.param(100, "info", id="a tenth"),
        pytest.param(101, "warning", id="just more than a tenth"),
    ],
)
def test_a_tenth_of_them_is_a_warning(last: int, severity: str) -> None:
    samples = sharing(0, last, of=1000, text=lambda place: "")
    assert only("SMP004", run_of(samples=samples)).severity == severity


@pytest.mark.parametrize(
    ("last", "found"),
    [pytest.param(20, False, id="two in a hundred"), pytest.param(25, True, id="more than that")],
)
def test_a_few_are_silent_anyhow(last: int, found: bool) -> None:
    run = run_of(samples=sharing(0, last, of=1000, text=lambda place: ""))
    assert clear("SMP004", run) is not found


@pytest.mark.parametrize(
    ("count", "looked"),
    [pytest.param(7, False, id="seven responses"), pytest.param(8, True, id="eight responses")],
)
def test_eight_responses_a_step_are_needed(count: int, looked: bool) -> None:
    run = run_of(samples=sharing(0, count, of=count, text=lambda place: ""))
    assert skipped("SMP004", run) is not looked
    assert silent("SMP004", run) is not looked


@pytest.mark.parametrize(
    ("text", "empty"),
    [
        pytest.param("", True, id="nothing"),
        pytest.param(" \n\t", True, id="white space"),
        pytest.param("<|im_end|>", True, id="an end token"),
        pytest.param("[PAD][PAD]</s>", True, id="padding"),
        pytest.param("42", False, id="a number"),
        pytest.param("no", False, id="a short answer"),
    ],
)
def test_what_is_empty(text: str, empty: bool) -> None:
    samples = sharing(0, 20, text=lambda place: text)
    assert clear("SMP004", run_of(samples=samples)) is not empty


@pytest.mark.parametrize(
    "counts",
    [
        pytest.param((10, 10, 10), id="answers that only call tools, throughout"),
        pytest.param((0, 10, 0), id="silence that went away"),
        pytest.param((0, 0, 1), id="a single one"),
    ],
)
def test_what_did_not_grow_is_clear(counts: tuple[int, ...]) -> None:
    assert clear("SMP004", run_of(samples=sharing(*counts, text=lambda place: "")))


def test_it_is_dated_between_two_sampled_steps() -> None:
    run = run_of(samples=sharing(0, 0, 20, text=lambda place: ""), log_offset=1)
    finding = only("SMP004", run)
    assert finding.onset is not None
    assert (finding.onset.low, finding.onset.step, finding.onset.high) == (12, 21, 21)
    assert sampled(finding.evidence[0], "samples.jsonl", "share of responses")
    assert finding.message == "100% of the responses in samples.jsonl are empty, 0% at step 0"
    assert "100% of responses are empty" in finding.summary


def test_samples_of_two_steps_are_needed() -> None:
    assert skipped("SMP004", run_of(samples=sharing(20, text=lambda place: "")))
    assert skipped("SMP004", run_of(response_length_mean=[50.0] * 20))


def test_the_limits_can_be_set() -> None:
    run = run_of(samples=sharing(0, 30, of=100, text=lambda place: ""))
    assert only("SMP004", run, most=0.2).severity == "critical"
    assert only("SMP004", run, some=0.4).severity == "info"
    assert clear("SMP004", run, few=0.4)
    few = run_of(samples=sharing(0, 4, of=4, text=lambda place: ""))
    assert skipped("SMP004", few)
    assert judge("SMP004", few, fewest=4)
