import math

import pytest

from rlhfdoctor.model import Run
from tests.builders import clear, judge, only, run_of, skipped
from tests.rules.shapes import NAN, files, sampled, silent


def perplexities(*values: float, count: int = 8, log_offset: int = 0) -> Run:
    """A sample file whose steps 0, 10, 20... have these perplexities under the reference."""
    rows = files(
        ref_logprobs=[-math.log(value) for value in values],
        steps=range(0, 10 * len(values), 10),
        count=count,
    )
    return run_of(samples=rows, log_offset=log_offset)


@pytest.mark.parametrize(
    ("values", "alarms"),
    [
        pytest.param((10.0, 12.0, 49.0, 49.0), False, id="just below five times the start"),
        pytest.param((10.0, 12.0, 51.0, 51.0), True, id="just above five times the start"),
        pytest.param((10.0, 12.0, 12.0, 51.0), True, id="the last sampled step alone is enough"),
        pytest.param((10.0, 900.0, 900.0, 12.0), False, id="a rise that recovers does not stand"),
        pytest.param((900.0, 10.0, 10.0, 10.0), False, id="a fall is no rise"),
        pytest.param((900.0, 900.0, 900.0), False, id="high from the start is no rise"),
        pytest.param((1.0, 1.0, 1.0), False, id="log-probabilities of zero throughout"),
    ],
)
def test_five_times_the_start_to_the_end(values: tuple[float, ...], alarms: bool) -> None:
    assert clear("PPL002", perplexities(*values)) is not alarms


@pytest.mark.parametrize(
    ("count", "alarms"),
    [
        pytest.param(7, False, id="seven responses a step are too few"),
        pytest.param(8, True, id="eight responses a step are enough"),
    ],
)
def test_eight_responses_a_step_are_needed(count: int, alarms: bool) -> None:
    run = perplexities(10.0, 900.0, 900.0, count=count)
    assert skipped("PPL002", run) is not alarms
    assert silent("PPL002", run) is not alarms


def test_it_is_critical_and_dated_between_two_sampled_steps() -> None:
    finding = only("PPL002", perplexities(10.0, 12.0, 100.0, 800.0, log_offset=1))
    assert finding.severity == "critical"
    assert finding.onset is not None
    assert (finding.onset.low, finding.onset.step, finding.onset.high) == (12, 21, 21)
    evidence = finding.evidence[0]
    assert sampled(evidence, "samples.jsonl", "perplexity")
    assert evidence.where.line == 17
    assert evidence.observed == pytest.approx(800.0)
    assert evidence.limit_high == pytest.approx(50.0)
    assert (evidence.first_step, evidence.last_step) == (20, 30)
    assert "under the reference rises from 10 to 800" in finding.message
    assert "samples.jsonl" in finding.message
    assert "10 -> 800" in finding.summary


def test_every_sample_file_is_judged_by_itself() -> None:
    rows = [
        *files(ref_logprobs=[-2.0] * 4, source="a.jsonl"),
        *files(ref_logprobs=[-2.0, -2.0, -5.0, -5.0], source="b.jsonl"),
    ]
    finding = only("PPL002", run_of(samples=rows))
    assert sampled(finding.evidence[0], "b.jsonl", "perplexity")


NO_PERPLEXITY = [
    pytest.param(NAN, id="NaN is never above"),
    pytest.param(float("-inf"), id="minus infinity is no log-probability"),
    pytest.param(-1e300, id="a number that cannot be summed"),
    pytest.param(-800.0, id="a perplexity that no float holds"),
    pytest.param(0.02, id="a positive number is no log-probability"),
]


@pytest.mark.parametrize("logprob", NO_PERPLEXITY)
def test_a_step_without_a_perplexity_is_left_out_alone(logprob: float) -> None:
    finding = only("PPL002", run_of(samples=files(ref_logprobs=[-2.0, logprob, -9.0, -9.0])))
    assert finding.onset is not None
    assert (finding.onset.low, finding.onset.step, finding.onset.high) == (1, 20, 20)


@pytest.mark.parametrize("logprob", NO_PERPLEXITY)
def test_one_step_with_a_perplexity_is_not_judged(logprob: float) -> None:
    samples = files(ref_logprobs=[logprob, -9.0, logprob, logprob])
    assert skipped("PPL002", run_of(samples=samples))


def test_the_perplexity_under_the_policy_is_never_judged_here() -> None:
    assert skipped("PPL002", run_of(samples=files(logprobs=[-2.0, -2.0, -9.0, -9.0])))
    assert skipped("PPL002", run_of(ppl_policy=[10.0] * 10 + [900.0] * 10))
    assert skipped("PPL002", perplexities(900.0))


def test_the_limits_can_be_set() -> None:
    run = perplexities(10.0, 12.0, 30.0, 30.0)
    assert clear("PPL002", run)
    assert judge("PPL002", run, rise=2.0)
    assert judge("PPL002", perplexities(10.0, 900.0, count=4), fewest=4)
