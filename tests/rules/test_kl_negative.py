import pytest

from tests.builders import clear, judge, only, run_of, skipped
from tests.rules.shapes import NAN, logged

SICK = (run_of(kl_ref_response=[-2.0, -3.0] * 10),)


def around(centre: float, spread: float, rows: int = 10) -> list[float]:
    """Rows that change between ``spread`` above and below a centre."""
    return [centre + spread, centre - spread] * (rows // 2)


@pytest.mark.parametrize(
    ("column", "level", "found"),
    [
        pytest.param("kl_ref_response", -0.99, False, id="not quite a nat a response"),
        pytest.param("kl_ref_response", -1.01, True, id="more than a nat a response"),
        pytest.param("kl_ref_token", -0.049, False, id="not quite a twentieth of a nat a token"),
        pytest.param("kl_ref_token", -0.051, True, id="more than a twentieth of a nat a token"),
    ],
)
def test_each_unit_has_its_limit(column: str, level: float, found: bool) -> None:
    assert clear("KL010", run_of(**{column: [level] * 10})) is not found  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("spread", "found"),
    [
        pytest.param(1.6, True, id="whose mean is 4.7 standard errors below zero"),
        pytest.param(2.0, False, id="whose mean is 3.8 standard errors below zero"),
        pytest.param(40.0, False, id="of mixed signs"),
    ],
)
def test_rows_that_scatter(spread: float, found: bool) -> None:
    assert clear("KL010", run_of(kl_ref_response=around(-2.5, spread))) is not found


@pytest.mark.parametrize(
    ("level", "found"),
    [
        pytest.param(-0.0099, False, id="rounding may have made"),
        pytest.param(-0.0101, True, id="rounding cannot have made"),
    ],
)
def test_a_k3_below_zero_that(level: float, found: bool) -> None:
    run = run_of(kl_ref_token=[level] * 10, estimators={"kl_ref_token": "k3"})
    assert clear("KL010", run) is not found
    assert clear("KL010", run_of(kl_ref_token=[level] * 10, estimators={"kl_ref_token": "k1"}))


def test_a_wrong_k3_is_told_as_such() -> None:
    run = run_of(kl_ref_token=[-0.2] * 12, estimators={"kl_ref_token": "k3"})
    assert "computed wrongly" in only("KL010", run).message


def test_below_zero_to_the_end_is_a_warning_from_where_it_began() -> None:
    run = run_of(
        kl_ref_response=[0.5] * 10 + around(-5.0, 1.0, 20),
        config={"temperature": 0.7, "top_p": 1.0},
    )
    finding = only("KL010", run)
    assert finding.severity == "warning"
    assert finding.recovered_at is None
    assert finding.onset is not None
    assert finding.onset.low == finding.onset.step
    assert 7 <= finding.onset.step <= 11
    assert finding.onset.high >= 11
    evidence = finding.evidence[0]
    assert logged(evidence, "kl_ref_response", "nats/response")
    assert evidence.limit_low == -1.0
    assert evidence.last_step == 30
    assert "(temperature 0.7)" in finding.message
    assert "below zero" in finding.summary


def test_a_stretch_that_recovered_is_information() -> None:
    finding = only("KL010", run_of(kl_ref_response=[-5.0] * 12 + [3.0] * 12))
    assert finding.severity == "info"
    assert finding.recovered_at is not None
    assert 13 <= finding.recovered_at <= 17


@pytest.mark.parametrize(
    ("between", "findings"),
    [
        pytest.param(9, 1, id="less than a window apart are one"),
        pytest.param(10, 2, id="a window apart are two"),
    ],
)
def test_stretches(between: int, findings: int) -> None:
    values = [-5.0] * 12 + [30.0] * between + [-5.0] * 12
    outcome = judge("KL010", run_of(kl_ref_response=values))
    assert isinstance(outcome, list)
    assert len(outcome) == findings
    assert outcome[-1].severity == "warning"


@pytest.mark.parametrize(
    "values",
    [
        pytest.param([-0.07] * 20, id="a small bias"),
        pytest.param([3.0] * 20, id="a KL above zero"),
        pytest.param([-5.0] * 3 + [1.0] * 20, id="a few rows"),
        pytest.param([-2.0] + [NAN] * 3 + [1.0] * 9, id="rows of NaN"),
    ],
)
def test_what_is_no_fault(values: list[float]) -> None:
    assert clear("KL010", run_of(kl_ref_response=values))


def test_another_unit_is_never_judged() -> None:
    assert skipped("KL010", run_of(kl_unknown=[-50.0] * 30))
    assert skipped("KL010", run_of(kl_old_token=[-50.0] * 30))


@pytest.mark.parametrize(
    ("rows", "looks"),
    [
        pytest.param(9, False, id="nine rows are too few"),
        pytest.param(10, True, id="ten rows are enough"),
    ],
)
def test_ten_rows_are_needed(rows: int, looks: bool) -> None:
    assert skipped("KL010", run_of(kl_ref_response=[-5.0] * rows)) is not looks


def test_zeros_throughout_were_never_computed() -> None:
    assert skipped("KL010", run_of(kl_ref_response=[0.0] * 30))


def test_the_limits_can_be_set() -> None:
    run = run_of(kl_ref_response=[-0.5] * 12)
    assert clear("KL010", run)
    assert not clear("KL010", run, response=0.4)
    assert clear("KL010", run, response=0.4, rows=13)
    assert clear("KL010", run_of(kl_ref_response=around(-2.5, 1.6)), standard_errors=5.0)
    assert not clear("KL010", run_of(kl_ref_token=[-0.04] * 12), token=0.03)
    exact = run_of(kl_ref_token=[-0.2] * 12, estimators={"kl_ref_token": "k3"})
    assert clear("KL010", exact, impossible=0.3)
