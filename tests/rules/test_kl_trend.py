import pytest

from tests.builders import clear, only, run_of, skipped
from tests.rules.shapes import NAN, log_of, logged


def growing(second: float, last: float) -> list[float]:
    """Ten rows of 1, five rows of ``second``, five of ``last``."""
    return [1.0] * 10 + [second] * 5 + [last] * 5


@pytest.mark.parametrize(
    ("second", "grows"),
    [
        pytest.param(1.19, False, id="halves 3.9 standard errors apart are noise"),
        pytest.param(1.24, True, id="halves 4.1 standard errors apart are growth"),
    ],
)
def test_the_halves_differ_by_four_standard_errors(second: float, grows: bool) -> None:
    assert clear("KL004", run_of(kl_ref_token=growing(second, 2.5))) is not grows


@pytest.mark.parametrize(
    ("last", "grows"),
    [
        pytest.param(2.0, False, id="a level that doubled and no more"),
        pytest.param(2.01, True, id="a level that more than doubled"),
        pytest.param(0.1, False, id="a level that fell"),
    ],
)
def test_the_level_doubles_in_the_second_half(last: float, grows: bool) -> None:
    assert clear("KL004", run_of(kl_ref_token=growing(last, last))) is not grows


def test_growth_is_information_without_an_onset() -> None:
    finding = only("KL004", run_of(kl_ref_token=growing(3.0, 4.0)))
    assert finding.severity == "info"
    assert finding.onset is None
    assert logged(finding.evidence[0], "kl_ref_token", "nats/token")
    assert finding.evidence[0].observed == 4.0
    assert (finding.evidence[0].first_step, finding.evidence[0].last_step) == (11, 20)
    assert "1 nats/token in the middle" in finding.message
    assert "4 at the end" in finding.summary


def test_a_kl_per_response_is_told_in_its_own_unit() -> None:
    finding = only("KL004", run_of(kl_ref_response=growing(3.0, 4.0)))
    assert logged(finding.evidence[0], "kl_ref_response", "nats/response")
    assert "nats/response" in finding.message


def test_a_kl_per_token_is_preferred() -> None:
    run = run_of(kl_ref_token=[1.0] * 20, kl_ref_response=growing(3.0, 4.0))
    assert clear("KL004", run)


def test_zeros_per_token_do_not_hide_a_kl_per_response() -> None:
    run = run_of(kl_ref_token=[0.0] * 20, kl_ref_response=growing(3.0, 4.0))
    assert only("KL004", run).evidence[0].subject == "kl_ref_response"


@pytest.mark.parametrize(
    "values",
    [
        pytest.param([-2.0] * 10 + [-1.0] * 5 + [9.0] * 5, id="no level in the middle to double"),
        pytest.param([1.0] * 10 + [NAN] * 10, id="NaN is no growth"),
        pytest.param([1.0] * 10 + [9.0] * 5 + [1.0] * 5, id="a stretch that recovered"),
    ],
)
def test_what_is_no_growth_is_clear(values: list[float]) -> None:
    assert clear("KL004", run_of(kl_ref_token=values))


@pytest.mark.parametrize(
    "value", [pytest.param(0.0, id="zeros throughout"), pytest.param(NAN, id="NaN throughout")]
)
def test_what_was_never_computed_is_not_judged(value: float) -> None:
    assert skipped("KL004", run_of(kl_ref_token=[value] * 20))


@pytest.mark.parametrize(
    ("rows", "looks"),
    [
        pytest.param(9, False, id="nine rows are too few"),
        pytest.param(10, True, id="ten rows are enough"),
    ],
)
def test_ten_rows_are_needed(rows: int, looks: bool) -> None:
    assert skipped("KL004", run_of(kl_ref_token=[1.0] * rows)) is not looks
    assert skipped("KL004", run_of(kl_ref_token=[1.0] * rows + [NAN] * 20)) is not looks


@pytest.mark.parametrize(
    "column",
    [
        pytest.param("kl_unknown", id="kl_unknown is another quantity"),
        pytest.param("kl_old_token", id="kl_old_token is another quantity"),
        pytest.param("kl_train_infer_token", id="kl_train_infer_token is another quantity"),
    ],
)
def test_another_distance_is_never_judged(column: str) -> None:
    assert skipped("KL004", log_of({column: growing(3.0, 4.0)}))


def test_the_limits_can_be_set() -> None:
    run = run_of(kl_ref_token=growing(1.19, 1.8))
    assert clear("KL004", run)
    assert not clear("KL004", run, growth=1.5)
    assert clear("KL004", run, growth=1.5, standard_errors=50.0)
