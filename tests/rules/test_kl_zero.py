from dataclasses import replace
from typing import Any

import pytest

from rlhfdoctor.model import Run
from tests.builders import clear, only, run_of, skipped
from tests.rules.shapes import NAN, log_of, logged

ZEROS = [0.0] * 20
TRAINED: dict[str, Any] = {"grad_norm": [0.4] * 20}
SICK = (run_of(kl_ref_token=ZEROS, config={"kl_coef": 0.04}, **TRAINED),)


def printed(run: Run) -> Run:
    """The same run, its KL known from a console alone."""
    column = replace(run.columns["kl_ref_token"], printed=True)
    return replace(run, columns={**run.columns, "kl_ref_token": column})


@pytest.mark.parametrize(
    ("column", "unit"),
    [("kl_ref_token", "nats/token"), ("kl_ref_response", "nats/response")],
)
def test_a_penalty_on_a_kl_that_is_always_zero_is_a_warning(column: str, unit: str) -> None:
    finding = only("KL009", log_of({column: ZEROS, **TRAINED}, config={"kl_coef": 0.04}))
    assert finding.severity == "warning"
    assert finding.onset is not None
    assert (finding.onset.low, finding.onset.step, finding.onset.high) == (1, 1, 1)
    assert logged(finding.evidence[0], column, unit)
    assert finding.evidence[0].observed == 0.0
    assert "all 20 logged rows" in finding.message
    assert "the KL coefficient 0.04" in finding.message


def test_a_logged_coefficient_tells_as_well() -> None:
    run = run_of(kl_ref_token=ZEROS, kl_coef=[0.1] * 20, **TRAINED)
    assert only("KL009", run).severity == "warning"
    assert skipped("KL009", run_of(kl_ref_token=ZEROS, kl_coef=ZEROS, **TRAINED))


def test_without_a_known_coefficient_it_is_information() -> None:
    finding = only("KL009", run_of(kl_ref_token=ZEROS, **TRAINED))
    assert finding.severity == "info"
    assert "coefficient" not in finding.message


@pytest.mark.parametrize(
    ("norms", "found"),
    [
        pytest.param([0.4] * 11 + [0.0] * 9, True, id="above zero in more than half of the rows"),
        pytest.param([0.4] * 10 + [0.0] * 10, False, id="above zero in half of the rows"),
        pytest.param(ZEROS, False, id="of zero is the cause itself"),
        pytest.param([NAN] * 20, False, id="of NaN"),
    ],
)
def test_a_gradient_norm(norms: list[float], found: bool) -> None:
    run = run_of(kl_ref_token=ZEROS, grad_norm=norms, config={"kl_coef": 0.04})
    assert skipped("KL009", run) is not found


def test_without_a_gradient_norm_nothing_is_known() -> None:
    assert skipped("KL009", run_of(kl_ref_token=ZEROS, loss_total=[0.1] * 20))


def test_a_coefficient_of_zero_measures_no_kl() -> None:
    assert skipped("KL009", run_of(kl_ref_token=ZEROS, config={"kl_coef": 0.0}, **TRAINED))


def test_a_console_may_have_rounded() -> None:
    run = run_of(kl_ref_token=ZEROS, config={"kl_coef": 0.04}, **TRAINED)
    assert skipped("KL009", printed(run))


@pytest.mark.parametrize(
    "values",
    [
        pytest.param([0.0] * 2 + [1e-9] * 18, id="a warm-up that begins at zero"),
        pytest.param([0.01] * 5 + [0.0] * 15, id="zeros after something else"),
    ],
)
def test_what_left_zero_is_clear(values: list[float]) -> None:
    assert clear("KL009", run_of(kl_ref_token=values, config={"kl_coef": 0.04}, **TRAINED))


def test_another_kl_may_be_zero() -> None:
    assert skipped("KL009", run_of(kl_unknown=ZEROS, **TRAINED))
    assert skipped("KL009", run_of(kl_old_token=ZEROS, **TRAINED))


@pytest.mark.parametrize(
    ("rows", "found"),
    [
        pytest.param(9, False, id="nine rows are too few"),
        pytest.param(10, True, id="ten rows are enough"),
    ],
)
def test_ten_rows_are_needed(rows: int, found: bool) -> None:
    run = run_of(kl_ref_token=[0.0] * rows, grad_norm=[0.4] * rows)
    assert skipped("KL009", run) is not found


def test_the_limits_can_be_set() -> None:
    run = run_of(kl_ref_token=ZEROS, grad_norm=[0.4] * 8 + [0.0] * 12)
    assert skipped("KL009", run)
    assert only("KL009", run, updated=0.3)
