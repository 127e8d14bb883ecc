from dataclasses import replace
from typing import Any

import pytest

from tests.builders import clear, only, run_of, skipped

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
