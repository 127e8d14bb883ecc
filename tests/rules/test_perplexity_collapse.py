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


@pytest.mark.parametrize(
    ("level", "alarms"),
    [
        pytest.param(5.0, False, id="half of the start itself is not below it"),
        pytest.param(4.99, True, id="just below half of the start"),
        pytest.param(40.0, False, id="a rise is no collapse"),
        pytest.param(NAN, False, id="NaN is never below"),
    ],
)
def test_logged_values_fall_below_half_of_the_start(level: float, alarms: bool) -> None:
    run = run_of(ppl_policy=[10.0] * 10 + [level] * 6)
    assert clear("PPL001", run) is not alarms


@pytest.mark.parametrize(
    ("rows_below", "alarms"),
    [
        pytest.param(4, False, id="four rows below the floor are patience"),
        pytest.param(5, True, id="five rows below the floor are an alarm"),
    ],
)
def test_patience_counts_consecutive_rows(rows_below: int, alarms: bool) -> None:
    run = run_of(ppl_policy=[10.0] * 10 + [1.5] * rows_below)
    assert clear("PPL001", run) is not alarms


def test_a_logged_collapse_is_critical_and_dated_where_it_begins() -> None:
    falling = [max(10.0 - index, 1.5) for index in range(1, 21)]
    finding = only("PPL001", run_of(ppl_policy=[10.0] * 20 + falling))
    assert finding.severity == "critical"
    assert finding.onset is not None
    assert 19 <= finding.onset.step <= 21
    assert finding.onset.low <= finding.onset.step <= finding.onset.high
    assert logged(finding.evidence[0], "ppl_policy", "perplexity")
    assert finding.evidence[0].limit_low == 5.0
    assert "from 10 to 1.5 (as logged)" in finding.message
    assert "10 -> 1.5" in finding.summary


@pytest.mark.parametrize(
    ("level", "worth"),
    [
        pytest.param(1.59, "info", id="a fifth of the entropy is left"),
        pytest.param(1.58, "warning", id="less than a fifth of the entropy is left"),
    ],
)
def test_a_fall_that_nothing_else_shows_is_worth_what_is_left(level: float, worth: str) -> None:
    for run in (run_of(ppl_policy=[10.0] * 10 + [level] * 6), perplexities(10.0, level, level)):
        assert [item.severity for item in settle([only("PPL001", run)])] == [worth]


def test_a_logged_dip_that_recovers_is_information() -> None:
    finding = only("PPL001", run_of(ppl_policy=[10.0] * 10 + [2.0] * 6 + [9.0] * 10))
    assert finding.severity == "info"
    assert finding.recovered_at == 17


def test_a_policy_that_was_always_sure_is_clear() -> None:
    assert clear("PPL001", run_of(ppl_policy=[1.2] * 20))
    assert clear("PPL001", perplexities(1.2, 1.2, 1.1))


@pytest.mark.parametrize(
    "value", [pytest.param(0.0, id="zeros throughout"), pytest.param(NAN, id="NaN throughout")]
)
def test_what_was_never_computed_is_not_judged(value: float) -> None:
    assert skipped("PPL001", run_of(ppl_policy=[value] * 20))
    samples = files(logprobs=[-3.0, -3.0, -0.1, -0.1])
    finding = only("PPL001", run_of(ppl_policy=[value] * 20, samples=samples))
    assert finding.evidence[0].kind == "samples"


@pytest.mark.parametrize(
    ("values", "alarms"),
    [
        pytest.param((20.0, 18.0, 10.2, 10.2), False, id="just above half of the start"),
        pytest.param((20.0, 18.0, 9.8, 9.8), True, id="just below half of the start"),
        pytest.param((20.0, 18.0, 18.0, 9.8), True, id="the last sampled step alone is enough"),
        pytest.param((20.0, 2.0, 2.0, 18.0), False, id="a fall that recovers does not stand"),
    ],
)
def test_samples_fall_below_half_of_the_start(values: tuple[float, ...], alarms: bool) -> None:
    assert clear("PPL001", perplexities(*values)) is not alarms


@pytest.mark.parametrize(
    ("count", "alarms"),
    [
        pytest.param(7, False, id="seven responses a step are too few"),
        pytest.param(8, True, id="eight responses a step are enough"),
    ],
)
def test_eight_responses_a_step_are_needed(count: int, alarms: bool) -> None:
    run = perplexities(20.0, 2.0, 2.0, count=count)
    assert skipped("PPL001", run) is not alarms


def test_a_collapse_of_samples_is_dated_between_two_sampled_steps() -> None:
    finding = only("PPL001", perplexities(20.0, 18.0, 4.0, 2.0, log_offset=1))
    assert finding.severity == "critical"
    assert finding.onset is not None
    assert (finding.onset.low, finding.onset.step, finding.onset.high) == (12, 21, 21)
    evidence = finding.evidence[0]
    assert sampled(evidence, "samples.jsonl", "perplexity")
    assert evidence.where.line == 17
    assert evidence.observed == pytest.approx(2.0)
    assert evidence.limit_low == pytest.approx(10.0)
    assert "from 20 to 2 (from the log-probabilities in samples.jsonl)" in finding.message


def test_log_and_samples_are_both_judged() -> None:
    rows = files(logprobs=[-3.0, -3.0, -0.1, -0.1])
    found = judge("PPL001", run_of(ppl_policy=[10.0] * 10 + [2.0] * 10, samples=rows))
    assert isinstance(found, list)
    assert [item.evidence[0].kind for item in found] == ["metric", "samples"]


NO_PERPLEXITY = [
    pytest.param(NAN, id="NaN is never below"),
    pytest.param(float("inf"), id="infinity is no log-probability"),
    pytest.param(0.02, id="a positive number is no log-probability"),
    pytest.param(-800.0, id="a perplexity that no float holds"),
]


@pytest.mark.parametrize("logprob", NO_PERPLEXITY)
def test_a_step_without_a_perplexity_is_left_out_alone(logprob: float) -> None:
    finding = only("PPL001", run_of(samples=files(logprobs=[-3.0, logprob, -0.1, -0.1])))
    assert finding.onset is not None
    assert (finding.onset.low, finding.onset.step, finding.onset.high) == (1, 20, 20)


@pytest.mark.parametrize("logprob", NO_PERPLEXITY)
def test_one_step_with_a_perplexity_is_not_judged(logprob: float) -> None:
    samples = files(logprobs=[logprob, logprob, -0.1, logprob])
    assert skipped("PPL001", run_of(samples=samples))
    assert clear("PPL001", run_of(ppl_policy=[10.0] * 20, samples=samples))


def test_the_reference_is_never_judged_here() -> None:
    assert skipped("PPL001", run_of(ppl_ref=[10.0] * 10 + [1.0] * 10))
    assert skipped("PPL001", perplexities(20.0))


def test_the_limits_can_be_set() -> None:
    run = run_of(ppl_policy=[10.0] * 10 + [7.0] * 6)
    assert clear("PPL001", run)
    assert judge("PPL001", run, fall=0.8)
    assert clear("PPL001", run, fall=0.8, patience=7)
    assert judge("PPL001", perplexities(20.0, 2.0, count=4), fewest=4)
    deep = only("PPL001", run_of(ppl_policy=[10.0] * 10 + [1.5] * 6), deep=0.1)
    assert deep.weak == "info"
