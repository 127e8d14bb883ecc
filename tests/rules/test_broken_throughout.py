from collections.abc import Callable

import pytest

from tests.builders import clear, only, run_of, skipped
from tests.rules.shapes import prose, sampled, sharing, silent


def looping(place: int) -> str:
    return prose(place) + " and so on and on." * 5


def empty(place: int) -> str:
    return ""


SICK = (run_of(samples=sharing(20, text=looping, steps=False)),)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param(looping, "end in a loop", id="loops"),
        pytest.param(empty, "are empty", id="nothing"),
    ],
)
@pytest.mark.parametrize(
    ("count", "severity"),
    [
        pytest.param(2, None, id="one in fifty"),
        pytest.param(3, "info", id="three in a hundred"),
        pytest.param(50, "info", id="half"),
        pytest.param(51, "warning", id="just more than half"),
    ],
)
def test_a_file_without_steps_is_graded_by_its_share(
    text: Callable[[int], str], words: str, count: int, severity: str | None
) -> None:
    run = run_of(samples=sharing(count, of=100, text=text, steps=False))
    if severity is None:
        assert clear("SMP010", run)
        return
    finding = only("SMP010", run)
    assert (finding.severity, finding.onset) == (severity, None)
    told = f"{count}.0% of the responses in samples.jsonl {words}"
    assert finding.message == f"{told} (no earlier samples to compare with)"
    assert finding.summary == told
    assert sampled(finding.evidence[0], "samples.jsonl", "share of responses")


def test_both_kinds_are_one_finding() -> None:
    samples = [
        *sharing(40, of=40, text=empty, steps=False),
        *sharing(60, of=60, text=looping, steps=False),
    ]
    finding = only("SMP010", run_of(samples=samples))
    assert finding.severity == "warning"
    assert "60.0% of the responses in samples.jsonl end in a loop, 40.0%" in finding.message
    assert finding.evidence[0].observed == 0.6
    assert finding.evidence[0].where.line == 41


@pytest.mark.parametrize(
    ("counts", "found"),
    [
        pytest.param((12, 12, 12), True, id="a share that stays where it began"),
        pytest.param((0, 20, 20), False, id="a share that grew is another rule's"),
        pytest.param((0, 0, 0), False, id="nothing broken"),
    ],
)
def test_a_file_with_steps_is_information_at_most(counts: tuple[int, ...], found: bool) -> None:
    run = run_of(samples=sharing(*counts, text=looping))
    assert clear("SMP010", run) is not found
    if found:
        assert only("SMP010", run).severity == "info"
        assert "60.0% of the responses" in only("SMP010", run).message
        assert "(60% at step 0)" in only("SMP010", run).message


def test_steps_of_few_responses_are_one_file() -> None:
    samples = sharing(*[3] * 8, of=3, text=looping)
    finding = only("SMP010", run_of(samples=samples))
    assert finding.severity == "warning"
    assert "100.0% of the responses" in finding.message


@pytest.mark.parametrize(
    ("count", "looked"),
    [
        pytest.param(19, False, id="nineteen responses"),
        pytest.param(20, True, id="twenty responses"),
    ],
)
def test_twenty_responses_are_needed(count: int, looked: bool) -> None:
    run = run_of(samples=sharing(count, of=count, text=looping, steps=False))
    assert skipped("SMP010", run) is not looked
    assert silent("SMP010", run) is not looked


def test_responses_are_needed() -> None:
    assert skipped("SMP010", run_of(response_length_mean=[50.0] * 20))


@pytest.mark.parametrize(
    ("count", "compared"),
    [pytest.param(7, False, id="seven responses"), pytest.param(8, True, id="eight responses")],
)
def test_steps_of_eight_responses_are_compared(count: int, compared: bool) -> None:
    finding = only("SMP010", run_of(samples=sharing(count, count, count, of=count, text=looping)))
    assert ("at step 0" in finding.message) is compared


def test_the_limits_can_be_set() -> None:
    run = run_of(samples=sharing(30, of=100, text=looping, steps=False))
    assert only("SMP010", run, most=0.2).severity == "warning"
    assert clear("SMP010", run, few=0.4)
    assert silent("SMP010", run, alone=101)
    assert silent("SMP010", run_of(samples=sharing(3, 3, of=8, text=looping)), fewest=9)
