import pytest

from rlhfdoctor.model import Run
from tests.builders import clear, judge, only, run_of, skipped
from tests.rules.shapes import NAN, files, sampled, silent


def apart(*k1: float, count: int = 8, log_offset: int = 0) -> Run:
    """A sample file whose steps 0, 10, 20... lie this far from the reference."""
    rows = files(
        logprobs=[-4.0] * len(k1),
        ref_logprobs=[-4.0 - value for value in k1],
        steps=range(0, 10 * len(k1), 10),
        count=count,
    )
    return run_of(samples=rows, log_offset=log_offset)


@pytest.mark.parametrize(
    ("levels", "alarms"),
    [
        pytest.param((0.0, 0.1, 0.99, 0.99), False, id="just below the ceiling"),
        pytest.param((0.0, 0.1, 1.01, 1.01), True, id="just above the ceiling"),
        pytest.param((0.0, 0.1, 0.1, 1.01), True, id="the last sampled step alone is enough"),
        pytest.param((0.0, 3.0, 3.0, 0.1), False, id="a distance that recovers does not stand"),
        pytest.param((0.0, -3.0, -3.0, -3.0), False, id="a negative estimate is not above"),
        pytest.param((0.0, 0.0, 0.0, 0.0), False, id="policy and reference agree"),
    ],
)
def test_a_nat_a_token_to_the_end(levels: tuple[float, ...], alarms: bool) -> None:
    assert clear("KL005", apart(*levels)) is not alarms


@pytest.mark.parametrize(
    ("count", "alarms"),
    [
        pytest.param(7, False, id="seven responses a step are too few"),
        pytest.param(8, True, id="eight responses a step are enough"),
    ],
)
def test_eight_responses_a_step_are_needed(count: int, alarms: bool) -> None:
    run = apart(0.0, 5.0, 5.0, count=count)
    assert skipped("KL005", run) is not alarms
    assert silent("KL005", run) is not alarms


def test_it_is_critical_and_dated_between_two_sampled_steps() -> None:
    finding = only("KL005", apart(0.0, 0.1, 2.0, 4.0))
    assert finding.severity == "critical"
    assert finding.onset is not None
    assert (finding.onset.low, finding.onset.step, finding.onset.high) == (11, 20, 20)
    evidence = finding.evidence[0]
    assert sampled(evidence, "samples.jsonl", "nats/token")
    assert evidence.where.line == 17
    assert evidence.estimator == "k1"
    assert evidence.observed == pytest.approx(4.0)
    assert evidence.limit_high == 1.0
    assert (evidence.first_step, evidence.last_step) == (20, 30)
    assert "above 1 nats/token (k1)" in finding.message
    assert "reach 4," in finding.message
    assert "from step 20 on" in finding.message
    assert "4 nats/token (k1)" in finding.summary


@pytest.mark.parametrize(
    ("rows", "low"),
    [
        pytest.param(40, 5, id="some time since the log began"),
        pytest.param(0, 11, id="at that step where there is no log"),
    ],
)
def test_a_run_far_away_from_the_first_sampled_step_on_is_dated_there(rows: int, low: int) -> None:
    samples = files(logprobs=[-1.0] * 3, ref_logprobs=[-4.0] * 3, steps=(10, 20, 30))
    steps = range(5, 5 + rows)
    run = run_of(steps=steps, loss_total=[1.0] * rows, samples=samples, log_offset=1)
    finding = only("KL005", run)
    assert finding.onset is not None
    assert (finding.onset.low, finding.onset.step, finding.onset.high) == (low, 11, 11)
    assert "from step 10 on" in finding.message
    assert finding.evidence[0].where.line == 1


def test_the_onset_is_told_in_logged_steps() -> None:
    finding = only("KL005", apart(0.0, 0.1, 2.0, 4.0, log_offset=1))
    assert finding.onset is not None
    assert (finding.onset.low, finding.onset.step, finding.onset.high) == (12, 21, 21)


def test_every_sample_file_is_judged_by_itself() -> None:
    rows = [
        *files(logprobs=[-1.0] * 4, ref_logprobs=[-1.0, -1.0, -4.0, -4.0], source="a.jsonl"),
        *files(logprobs=[-1.0] * 4, ref_logprobs=[-1.0] * 4, source="b.jsonl"),
    ]
    finding = only("KL005", run_of(samples=rows))
    assert sampled(finding.evidence[0], "a.jsonl", "nats/token")


@pytest.mark.parametrize(
    ("logprob", "ref_logprob"),
    [
        pytest.param(-1.0, NAN, id="NaN under the reference"),
        pytest.param(NAN, -9.0, id="NaN under the policy"),
        pytest.param(-1.0, float("-inf"), id="an impossible token under the reference"),
    ],
)
def test_what_is_not_finite_is_never_above(logprob: float, ref_logprob: float) -> None:
    rows = files(logprobs=[logprob] * 4, ref_logprobs=[-1.0, *[ref_logprob] * 3])
    assert skipped("KL005", run_of(samples=rows))


@pytest.mark.parametrize(
    "ref_logprob",
    [
        pytest.param(NAN, id="NaN"),
        pytest.param(float("-inf"), id="an impossible token"),
        pytest.param(0.02, id="a positive number"),
    ],
)
def test_a_step_without_an_estimate_is_left_out_alone(ref_logprob: float) -> None:
    rows = files(logprobs=[-1.0] * 4, ref_logprobs=[-1.0, ref_logprob, -4.0, -4.0])
    finding = only("KL005", run_of(samples=rows))
    assert finding.onset is not None
    assert (finding.onset.low, finding.onset.step, finding.onset.high) == (1, 20, 20)


@pytest.mark.parametrize(
    ("logprob", "alarms"),
    [
        pytest.param(0.01, True, id="half precision rounds to just above zero"),
        pytest.param(0.011, False, id="what is farther above zero is no log-probability"),
    ],
)
def test_a_log_probability_is_not_above_zero(logprob: float, alarms: bool) -> None:
    rows = files(logprobs=[-1.0, -1.0, *[logprob] * 2], ref_logprobs=[-1.0, -1.0, -4.0, -4.0])
    assert clear("KL005", run_of(samples=rows)) is not alarms


def test_responses_that_lack_one_of_the_models_are_left_out_alone() -> None:
    rows = files(logprobs=[-1.0] * 4, ref_logprobs=[-1.0, -1.0, -4.0, -4.0])
    for index, row in enumerate(rows):
        if index % 8 < 6:
            row["logprobs" if index % 2 else "ref_logprobs"] = None
    assert only("KL005", run_of(samples=rows)).evidence[0].observed == pytest.approx(3.0)


def test_log_probabilities_of_another_length_are_never_compared() -> None:
    rows = files(logprobs=[-1.0] * 4, ref_logprobs=[-9.0] * 4)
    for row in rows:
        row["ref_logprobs"] = row["ref_logprobs"][:-1]
    assert skipped("KL005", run_of(samples=rows))


def test_both_log_probabilities_and_two_steps_are_needed() -> None:
    assert skipped("KL005", run_of(samples=files(logprobs=[-1.0] * 4)))
    assert skipped("KL005", apart(5.0))
    assert skipped("KL005", run_of(kl_ref_token=[5.0] * 20))


def test_the_limits_can_be_set() -> None:
    run = apart(0.0, 0.5, 0.5, 0.5)
    assert clear("KL005", run)
    assert judge("KL005", run, ceiling=0.4)
    assert judge("KL005", apart(0.0, 5.0, count=4), fewest=4)
