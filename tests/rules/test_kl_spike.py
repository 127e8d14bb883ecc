from typing import Any

import pytest

from tests.builders import clear, only, run_of, skipped
from tests.rules.shapes import NAN, log_of, logged

CALM = [0.09, 0.1, 0.11] * 4
SICK = (run_of(kl_ref_token=[*CALM, 17.8, *CALM]),)


def spiked(*peak: float, column: str = "kl_ref_token", scale: float = 1.0) -> Any:
    """A log with these rows in the middle of calm ones, which are ``scale`` times 0.1."""
    calm = [scale * value for value in CALM]
    return log_of({column: [*calm, *peak, *calm]})


def test_a_spike_is_information_with_its_step_and_its_recovery() -> None:
    finding = only("KL011", spiked(17.8))
    assert finding.severity == "info"
    assert finding.recovered_at == 14
    assert finding.onset is not None
    assert (finding.onset.low, finding.onset.step, finding.onset.high) == (13, 13, 13)
    evidence = finding.evidence[0]
    assert logged(evidence, "kl_ref_token", "nats/token")
    assert evidence.observed == 17.8
    assert (evidence.first_step, evidence.last_step) == (13, 13)
    assert "17.8 nats/token at step 13 between rows of 0.1" in finding.message
    assert "(logged rows: 1; such spikes: 1)" in finding.message
    assert "17.8" in finding.summary


@pytest.mark.parametrize(
    ("column", "scale", "peak", "found"),
    [
        pytest.param("kl_ref_token", 1.0, 0.99, False, id="below ten times its neighbours"),
        pytest.param("kl_ref_token", 1.0, 1.01, True, id="above ten times its neighbours"),
        pytest.param("kl_ref_token", 0.1, 0.5, False, id="less than half a nat a token above"),
        pytest.param("kl_ref_token", 0.1, 0.52, True, id="more than half a nat a token above"),
        pytest.param("kl_ref_response", 1.0, 10.0, False, id="less than ten nats a response above"),
        pytest.param("kl_ref_response", 1.0, 10.2, True, id="more than ten nats a response above"),
        pytest.param("kl_unknown", 1.0, 0.99, False, id="an unknown unit, below ten times"),
        pytest.param("kl_unknown", 0.01, 0.02, True, id="an unknown unit, far above for itself"),
        pytest.param("kl_ref_token", 1.0, NAN, False, id="NaN"),
        pytest.param("kl_ref_token", 1.0, -50.0, False, id="a row below"),
    ],
)
def test_one_row_that_is(column: str, scale: float, peak: float, found: bool) -> None:
    assert clear("KL011", spiked(peak, column=column, scale=scale)) is not found


@pytest.mark.parametrize(
    ("peak", "found"),
    [
        pytest.param(29.0, False, id="within twenty deviations of the rows around"),
        pytest.param(31.0, True, id="beyond twenty deviations of the rows around"),
    ],
)
def test_rows_that_scatter_around_zero(peak: float, found: bool) -> None:
    noisy = [-1.0, 0.0, 1.0] * 4
    run = run_of(kl_ref_token=[*noisy, peak, *noisy])
    assert clear("KL011", run) is not found


@pytest.mark.parametrize(
    ("rows", "found"),
    [
        pytest.param(4, True, id="four rows are a spike"),
        pytest.param(5, False, id="five rows are none"),
    ],
)
def test_a_spike_is_short(rows: int, found: bool) -> None:
    assert clear("KL011", spiked(*[9.0] * rows)) is not found


def test_an_unknown_unit_is_told() -> None:
    assert (
        "jumps to 17.8 (unit unknown) at"
        in only("KL011", spiked(17.8, column="kl_unknown")).message
    )


def test_the_level_is_that_of_ten_rows_on_either_side() -> None:
    far = [0.05] * 10
    near = [0.1] * 10
    finding = only("KL011", run_of(kl_ref_token=[*far, *near, 9.0, *near, *far]))
    assert "between rows of 0.1 and" in finding.message


def test_ten_rows_on_either_side_outnumber_two_spikes_that_nearly_touch() -> None:
    run = run_of(kl_ref_token=[*CALM, *[9.0] * 4, 0.1, *[9.0] * 4, *CALM])
    assert "(logged rows: 4; such spikes: 2)" in only("KL011", run).message


def test_what_has_not_come_back_is_no_spike() -> None:
    assert clear("KL011", run_of(kl_ref_token=[*CALM, 17.8]))


def test_growth_is_no_spike() -> None:
    assert clear("KL011", run_of(kl_ref_token=[0.001 * 1.5**row for row in range(30)]))


def test_the_largest_speaks_for_all() -> None:
    finding = only("KL011", run_of(kl_ref_token=[*CALM, 9.0, *CALM, 12.0, 11.0, *CALM]))
    assert finding.evidence[0].observed == 12.0
    assert finding.recovered_at == 28
    assert "(logged rows: 2; such spikes: 2)" in finding.message


@pytest.mark.parametrize(
    ("rows", "looks"),
    [
        pytest.param(9, False, id="nine rows are too few"),
        pytest.param(10, True, id="ten rows are enough"),
    ],
)
def test_ten_rows_are_needed(rows: int, looks: bool) -> None:
    assert skipped("KL011", run_of(kl_ref_token=[0.1] * rows)) is not looks


def test_zeros_throughout_were_never_computed() -> None:
    assert skipped("KL011", run_of(kl_ref_token=[0.0] * 30))
    assert skipped("KL011", run_of(kl_old_token=[*CALM, 17.8, *CALM]))


def test_the_limits_can_be_set() -> None:
    run = spiked(2.0)
    assert not clear("KL011", run)
    assert clear("KL011", run, times=21.0)
    assert clear("KL011", run, token=2.0)
    assert clear("KL011", run, sigmas=200.0)
    assert clear("KL011", spiked(2.0, 2.0), longest=1)
    assert clear("KL011", spiked(20.0, column="kl_ref_response"), response=21.0)
    plateau = run_of(kl_ref_token=[*CALM, *[9.0] * 4, *CALM])
    assert not clear("KL011", plateau)
    assert clear("KL011", plateau, around=3)
