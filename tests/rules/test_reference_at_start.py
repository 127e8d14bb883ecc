from dataclasses import replace
from typing import Any

import pytest

from rlhfdoctor.model import Run
from tests.builders import clear, only, run_of, skipped
from tests.rules.shapes import NAN, logged, silent

CALM = [0.01 * index for index in range(1, 20)]


@pytest.mark.parametrize(
    ("metric", "first", "apart"),
    [
        pytest.param("kl_ref_response", 1.0, False, id="one nat a response may be noise"),
        pytest.param("kl_ref_response", 1.1, True, id="more is another model"),
        pytest.param("kl_ref_token", 0.05, False, id="a twentieth of a nat a token may be noise"),
        pytest.param("kl_ref_token", 0.06, True, id="more a token is another model"),
        pytest.param("kl_ref_token", -0.2, False, id="a negative estimate is noise"),
        pytest.param("kl_ref_token", float("nan"), False, id="NaN is never above"),
    ],
)
def test_the_first_kl_is_zero(metric: str, first: float, apart: bool) -> None:
    columns: dict[str, Any] = {metric: [first, *CALM]}
    run = run_of(log_offset=1, **columns)
    if first != first:
        assert skipped("REF002", run)
    else:
        assert clear("REF002", run) is not apart


def test_it_is_a_warning_at_the_first_step() -> None:
    finding = only("REF002", run_of(kl_ref_response=[10.4, *CALM], log_offset=1))
    assert finding.severity == "warning"
    assert finding.onset_step == 1
    assert finding.evidence[0].unit == "nats/response"
    assert "10.4 nats/response at step 1" in finding.message


@pytest.mark.parametrize(
    ("steps", "offset"),
    [
        pytest.param(range(10, 30), 1, id="the log begins after some updates"),
        pytest.param(range(1, 21), 0, id="the rows may follow their update"),
    ],
)
def test_a_later_kl_is_not_judged(steps: range, offset: int) -> None:
    run = run_of(steps=list(steps), kl_ref_response=[10.4, *CALM], log_offset=offset)
    assert skipped("REF002", run)


def test_zeros_throughout_were_never_measured() -> None:
    assert skipped("REF002", run_of(kl_ref_token=[0.0] * 20, log_offset=1))


def test_rows_that_had_to_be_numbered_may_begin_anywhere() -> None:
    run = run_of(kl_ref_response=[10.4, *CALM], log_offset=1)
    assert skipped("REF002", replace(run, step_unit="row"))


def test_one_row_is_enough() -> None:
    assert only("REF002", run_of(kl_ref_token=[0.5], log_offset=1))


def flat(**changes: Any) -> Run:
    """A run whose rows average ten updates, far from its reference in all of them."""
    return run_of(**{"steps": range(10, 130, 10), "kl_ref_token": [0.9, 0.95] * 6, **changes})


SICK = (flat(),)


def test_a_distance_that_never_grew_is_another_model() -> None:
    finding = only("REF002", flat())
    assert finding.severity == "warning"
    assert finding.onset is not None
    assert (finding.onset.low, finding.onset.step, finding.onset.high) == (10, 10, 10)
    assert logged(finding.evidence[0], "kl_ref_token", "nats/token")
    assert "0.9 nats/token at step 10 and 0.95 at the end: the distance was" in finding.message
    assert finding.summary == "KL 0.9 nats/token from the first row to the last"


@pytest.mark.parametrize(
    ("changes", "apart"),
    [
        pytest.param({"kl_ref_token": [0.31] * 12}, True, id="just above 0.3 a token"),
        pytest.param({"kl_ref_token": [0.29] * 12}, False, id="just below 0.3 a token"),
        pytest.param({"kl_ref_token": [0.1] + [0.9] * 11}, False, id="near in the first row"),
        pytest.param({"kl_ref_token": [9.0] + [0.1] * 11}, False, id="a spike in the first row"),
        pytest.param({"kl_ref_token": [0.5] * 6 + [0.74] * 6}, True, id="hardly grown"),
        pytest.param({"kl_ref_token": [0.5] * 6 + [0.76] * 6}, False, id="grown by half"),
        pytest.param({"kl_ref_token": [0.9] * 6 + [0.61] * 6}, True, id="hardly fallen"),
        pytest.param({"kl_ref_token": [0.9] * 6 + [0.59] * 6}, False, id="fallen by a third"),
        pytest.param({"kl_ref_token": [0.9] * 10 + [None] * 2}, True, id="ten rows"),
        pytest.param({"kl_ref_token": [0.9] * 9 + [NAN] * 3}, False, id="nine rows"),
        pytest.param({"entropy": [0.051] * 12}, True, id="some entropy"),
        pytest.param({"entropy": [0.049] * 12}, False, id="a policy without entropy is lost"),
    ],
)
def test_only_a_distance_of_the_first_rows_that_stays_tells(
    changes: dict[str, Any], apart: bool
) -> None:
    assert silent("REF002", flat(**changes)) is not apart


@pytest.mark.parametrize(
    ("level", "apart"),
    [
        pytest.param(31.0, True, id="just above 30 a response"),
        pytest.param(29.0, False, id="just below 30 a response"),
    ],
)
def test_a_response_sums_up_to_more(level: float, apart: bool) -> None:
    run = run_of(steps=range(10, 130, 10), kl_ref_response=[level] * 12)
    assert silent("REF002", run) is not apart


@pytest.mark.parametrize(
    ("first", "severity"),
    [
        pytest.param(10, "warning", id="the first ten updates"),
        pytest.param(11, "info", id="a first row that comes later"),
        pytest.param(300, "info", id="a log that begins in the middle of a run"),
    ],
)
def test_a_log_that_begins_later_only_informs(first: int, severity: str) -> None:
    run = flat(steps=range(first, first + 120, 10))
    assert only("REF002", run).severity == severity
    assert only("REF002", replace(run, step_unit="row")).severity == "info"


def test_a_distance_of_unknown_unit_is_never_judged() -> None:
    assert skipped("REF002", run_of(kl_unknown=[40.0] * 12))


def test_the_limits_can_be_set() -> None:
    assert silent("REF002", flat(), away=1.2)
    assert silent("REF002", flat(), rows=13)
    assert silent("REF002", flat(), grown=1.01)
    assert only("REF002", flat(), early=9).severity == "info"
    assert silent("REF002", flat(entropy=[0.4] * 12), alive=0.5)
    run = run_of(kl_ref_response=[40.0] * 12)
    assert silent("REF002", run, away_response=50.0)
    assert clear("REF002", run_of(kl_ref_token=[0.2] * 9, log_offset=1), token=0.3)
    assert clear("REF002", run_of(kl_ref_response=[2.0] * 9, log_offset=1), response=3.0)
