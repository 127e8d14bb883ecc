import pytest

from tests.builders import clear, judge, only, run_of, skipped
from tests.rules.shapes import NAN, log_of, logged

# mean 100, standard deviation 1.054 over the first ten rows
STEADY = [101.0 if index % 2 else 99.0 for index in range(10)]


@pytest.mark.parametrize(
    ("value", "spikes"),
    [
        pytest.param(103.1, False, id="2.9 standard deviations above the mean"),
        pytest.param(103.2, True, id="3.04 standard deviations above the mean"),
        pytest.param(50.0, False, id="far below the mean"),
        pytest.param(NAN, False, id="NaN is never above"),
        pytest.param(float("inf"), False, id="infinity is a matter of another rule"),
    ],
)
def test_three_standard_deviations_above_the_rows_before(value: float, spikes: bool) -> None:
    run = run_of(response_length_mean=[*STEADY, value, 100.0])
    assert clear("LEN001", run) is not spikes


@pytest.mark.parametrize(
    ("before", "spikes"),
    [
        pytest.param(9, False, id="nine rows before are no history"),
        pytest.param(10, True, id="ten rows before are a history"),
    ],
)
def test_ten_rows_of_history_are_needed(before: int, spikes: bool) -> None:
    run = run_of(response_length_mean=[*STEADY[:before], 500.0, 100.0, 100.0])
    assert clear("LEN001", run) is not spikes


@pytest.mark.parametrize(
    ("rows", "looks"),
    [
        pytest.param(10, False, id="ten logged rows hold no row to judge"),
        pytest.param(11, True, id="eleven logged rows hold one"),
    ],
)
def test_eleven_rows_are_needed(rows: int, looks: bool) -> None:
    assert skipped("LEN001", run_of(response_length_mean=[100.0] * rows)) is not looks
    assert skipped("LEN001", run_of(response_length_mean=[100.0] * rows + [NAN] * 9)) is not looks


def test_the_first_spike_is_dated_and_the_others_are_counted() -> None:
    values = [*STEADY, *STEADY, 150.0, 100.0, 400.0]
    finding = only("LEN001", run_of(steps=range(5, 120, 5), response_length_mean=values))
    assert finding.severity == "info"
    assert finding.onset is not None
    assert (finding.onset.low, finding.onset.step, finding.onset.high) == (100, 105, 105)
    evidence = finding.evidence[0]
    assert logged(evidence, "response_length_mean", "tokens")
    assert evidence.where.line == 21
    assert evidence.observed == 150.0
    assert evidence.limit_high == pytest.approx(103.1, abs=0.1)
    assert "150 at step 105" in finding.message
    assert "such rows: 2" in finding.message
    assert "step 105" in finding.summary


def test_a_spike_widens_the_limit_for_the_rows_after() -> None:
    assert (
        "such rows: 1"
        in only("LEN001", run_of(response_length_mean=[*STEADY, 150.0, 104.0])).message
    )


@pytest.mark.parametrize(
    "values",
    [
        pytest.param([512.0] * 20, id="a constant length"),
        pytest.param([0.1] * 20, id="a constant that no float holds exactly"),
        pytest.param([100.0 - index for index in range(20)], id="a length that shrinks"),
    ],
)
def test_what_never_stands_out_is_not_told(values: list[float]) -> None:
    assert clear("LEN001", run_of(response_length_mean=values))


@pytest.mark.parametrize(
    "value", [pytest.param(0.0, id="zeros throughout"), pytest.param(NAN, id="NaN throughout")]
)
def test_what_was_never_computed_is_not_judged(value: float) -> None:
    assert skipped("LEN001", run_of(response_length_mean=[value] * 20))


def test_a_jump_after_a_constant_length_stands_out() -> None:
    finding = only("LEN001", run_of(response_length_mean=[16.0] * 15 + [4096.0]))
    assert finding.onset is not None
    assert (finding.onset.low, finding.onset.step, finding.onset.high) == (15, 16, 16)


@pytest.mark.parametrize(
    "column",
    [
        pytest.param("response_length_max", id="the longest response is no mean"),
        pytest.param("eval_response_length_mean", id="evaluation is not training"),
        pytest.param("num_tokens", id="tokens so far are no length"),
    ],
)
def test_another_column_is_never_judged(column: str) -> None:
    assert skipped("LEN001", log_of({column: [*STEADY, 900.0]}))


def test_the_limits_can_be_set() -> None:
    run = run_of(response_length_mean=[*STEADY, 102.5])
    assert clear("LEN001", run)
    assert judge("LEN001", run, deviations=2.0)
    assert clear("LEN001", run, deviations=2.0, history=11)
