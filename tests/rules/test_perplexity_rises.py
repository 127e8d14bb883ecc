import math

import pytest

from rlhfdoctor.doctor import settle
from rlhfdoctor.model import Run
from tests.builders import clear, judge, only, run_of, skipped
from tests.rules.shapes import NAN, files, logged, sampled


def perplexities(*values: float, count: int = 8, log_offset: int = 0) -> Run:
    """A sample file whose steps 0, 10, 20... have these perplexities."""
    rows = files(
        logprobs=[-math.log(value) for value in values],
        steps=range(0, 10 * len(values), 10),
        count=count,
    )
    return run_of(samples=rows, log_offset=log_offset)


SICK = (perplexities(10.0, 12.0, 150.0, 160.0), run_of(ppl_policy=[10.0] * 10 + [90.0] * 9))


@pytest.mark.parametrize(
    ("level", "found"),
    [
        pytest.param(15.9, False, id="less than half a nat above the start"),
        pytest.param(16.1, True, id="more than half a nat above the start"),
        pytest.param(4.0, False, id="a fall"),
        pytest.param(NAN, False, id="NaN"),
    ],
)
def test_a_rise_is_1_6_times_the_start(level: float, found: bool) -> None:
    assert clear("PPL004", run_of(ppl_policy=[10.0] * 10 + [level] * 6)) is not found
    if level == level:
        assert clear("PPL004", perplexities(10.0, 10.0, level, level)) is not found


@pytest.mark.parametrize(
    ("level", "severity", "alone"),
    [
        pytest.param(29.9, "info", "info", id="less than three times the start"),
        pytest.param(30.1, "critical", "warning", id="more than three times the start"),
    ],
)
@pytest.mark.parametrize("origin", ["as logged", "samples.jsonl"])
def test_how_bad_a_rise_is(level: float, severity: str, alone: str, origin: str) -> None:
    run = run_of(ppl_policy=[10.0] * 10 + [level] * 6)
    finding = only("PPL004", run if origin == "as logged" else perplexities(10.0, level, level))
    assert finding.severity == severity
    assert [item.severity for item in settle([finding])] == [alone]
    assert origin in finding.message


@pytest.mark.parametrize(
    ("rows", "found"),
    [
        pytest.param(4, False, id="four rows above are patience"),
        pytest.param(5, True, id="five rows above are an alarm"),
    ],
)
def test_patience_counts_consecutive_rows(rows: int, found: bool) -> None:
    assert clear("PPL004", run_of(ppl_policy=[10.0] * 10 + [90.0] * rows)) is not found


def test_a_logged_rise_is_dated_and_recovers() -> None:
    rising = [10.0 + 10 * row for row in range(1, 21)]
    finding = only("PPL004", run_of(ppl_policy=[10.0] * 20 + rising))
    assert finding.onset is not None
    assert 19 <= finding.onset.step <= 21
    assert logged(finding.evidence[0], "ppl_policy", "perplexity")
    assert finding.evidence[0].limit_high == 16.0
    assert "10 -> 190" in finding.summary
    back = only("PPL004", run_of(ppl_policy=[10.0] * 10 + [90.0] * 6 + [11.0] * 10))
    assert back.severity == "info"
    assert back.recovered_at == 17


def test_a_sampled_rise_lies_between_two_sampled_steps() -> None:
    finding = only("PPL004", perplexities(10.0, 11.0, 90.0, 99.0, log_offset=1))
    assert finding.onset is not None
    assert (finding.onset.low, finding.onset.step, finding.onset.high) == (12, 21, 21)
    assert sampled(finding.evidence[0], "samples.jsonl", "perplexity")
    assert "rises from 10 to 99" in finding.message


def test_a_sampled_rise_must_stand_to_the_end() -> None:
    assert clear("PPL004", perplexities(10.0, 90.0, 11.0))


@pytest.mark.parametrize(
    ("count", "looks"),
    [
        pytest.param(7, False, id="seven responses a step are too few"),
        pytest.param(8, True, id="eight responses a step are enough"),
    ],
)
def test_eight_responses_are_needed(count: int, looks: bool) -> None:
    assert skipped("PPL004", perplexities(10.0, 90.0, count=count)) is not looks


@pytest.mark.parametrize("value", [0.0, NAN])
def test_what_was_never_computed_is_not_judged(value: float) -> None:
    assert skipped("PPL004", run_of(ppl_policy=[value] * 20))


def test_another_perplexity_is_never_judged() -> None:
    assert skipped("PPL004", run_of(ppl_ref=[10.0] * 10 + [90.0] * 10))
    assert skipped("PPL004", run_of(ppl_policy_sequence=[10.0] * 10 + [90.0] * 10))


def test_the_limits_can_be_set() -> None:
    run = run_of(ppl_policy=[10.0] * 10 + [20.0] * 6)
    assert only("PPL004", run).severity == "info"
    assert only("PPL004", run, far=1.9).severity == "critical"
    assert clear("PPL004", run, rise=2.1)
    assert clear("PPL004", run, patience=7)
    assert judge("PPL004", perplexities(10.0, 90.0, count=4), fewest=4)
