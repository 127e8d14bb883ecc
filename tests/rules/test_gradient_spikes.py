from typing import Any

import pytest

from tests.builders import Values, clear, judge, only, run_of, skipped
from tests.rules.shapes import NAN, log_of, logged

CALM = [0.5, 0.6, 0.4, 0.5, 0.7] * 8
LEAPS = [0.5] * 9 + [50.0]
SICK = (run_of(grad_norm=CALM + [50.0] * 6), run_of(grad_norm=LEAPS * 6))


def severities(norms: Values, **limits: float) -> list[str]:
    outcome = judge("OPT001", run_of(grad_norm=norms), **limits)
    assert isinstance(outcome, list)
    return [finding.severity for finding in outcome]


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        pytest.param(4, ["info"], id="four high rows at the end are a spike"),
        pytest.param(5, ["warning"], id="five high rows at the end are a rise that stays"),
    ],
)
def test_a_rise_stays_for_five_rows(rows: int, expected: list[str]) -> None:
    assert severities([0.5] * 100 + [50.0] * rows) == expected


@pytest.mark.parametrize(
    ("level", "expected"),
    [
        pytest.param(4.9, [], id="less than ten times the start"),
        pytest.param(5.1, ["warning"], id="more than ten times the start"),
        pytest.param(NAN, [], id="NaN is never above"),
    ],
)
def test_a_rise_is_tenfold(level: float, expected: list[str]) -> None:
    assert severities([0.5] * 40 + [level] * 8) == expected


@pytest.mark.parametrize(
    ("level", "expected"),
    [
        pytest.param(0.9, [], id="below the clipping bound a leap changes no step"),
        pytest.param(1.1, ["warning"], id="above the clipping bound it does"),
    ],
)
def test_a_small_norm_is_no_leap(level: float, expected: list[str]) -> None:
    assert severities([0.01] * 40 + [level] * 8) == expected


@pytest.mark.parametrize(
    ("calm", "expected"),
    [
        pytest.param(90, ["info"], id="a leap in less than a tenth of the rows"),
        pytest.param(89, ["warning"], id="leaps in a tenth of the rows"),
    ],
)
def test_leaps_in_a_tenth_of_the_rows_are_no_accident(calm: int, expected: list[str]) -> None:
    leaps = [value for _ in range(9) for value in (50.0, 0.5)]
    early, late = (calm - 9) // 2, calm - 9 - (calm - 9) // 2
    norms = [0.5] * early + leaps + [0.5] * late
    assert severities([*norms, 50.0, 0.5] if calm == 89 else norms) == expected


UP = [index / 60 for index in range(60)]


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        pytest.param({}, "warning", id="nothing that could go well"),
        pytest.param({"reward_raw_mean": UP}, "info", id="a reward that rises"),
        pytest.param({"reward_raw_mean": UP[::-1]}, "warning", id="a reward that falls"),
        pytest.param({"reward_raw_mean": [0.4, 0.6] * 30}, "warning", id="a reward that stays"),
        pytest.param({"reward_raw_mean": [NAN] * 60}, "warning", id="a reward of NaN"),
        pytest.param({"dpo_accuracy": UP}, "info", id="an accuracy that rises"),
        pytest.param({"dpo_margin": UP}, "info", id="a margin that rises"),
    ],
)
def test_leaps_are_information_while_the_run_goes_well(
    columns: dict[str, Any], expected: str
) -> None:
    assert only("OPT001", run_of(grad_norm=LEAPS * 6, **columns)).severity == expected


@pytest.mark.parametrize(
    ("column", "start", "inside", "outside"),
    [
        pytest.param("kl_ref_token", 0.0, 0.99, 1.01, id="a KL above 1 a token"),
        pytest.param("kl_unknown", 0.0, 0.99, 1.01, id="a KL above 1 of unknown unit"),
        pytest.param("kl_ref_response", 0.0, 9.9, 10.1, id="a KL above 10 a response"),
        pytest.param("entropy", 1.0, 0.21, 0.19, id="a fifth of the entropy"),
        pytest.param("entropy", 1.0, 1.99, 2.01, id="twice the entropy"),
        pytest.param("entropy_unknown", 50.0, 99.0, 101.0, id="twice an entropy of any unit"),
        pytest.param("entropy", 1.0, NAN, 2.01, id="NaN is not far"),
    ],
)
def test_leaps_beside_a_policy_that_moved_away_are_a_warning(
    column: str, start: float, inside: float, outside: float
) -> None:
    for level, expected in ((inside, "info"), (outside, "warning")):
        columns: dict[str, Any] = {column: [start] * 30 + [level] * 30}
        run = run_of(grad_norm=LEAPS * 6, reward_raw_mean=UP, **columns)
        assert only("OPT001", run).severity == expected


def test_a_rise_that_stays_is_a_warning_whatever_the_reward() -> None:
    run = run_of(grad_norm=[0.5] * 50 + [50.0] * 10, reward_raw_mean=UP)
    assert only("OPT001", run).severity == "warning"


def test_four_leaps_are_few_even_in_a_short_log() -> None:
    assert severities([0.5, 0.5, 0.5, 0.5, 0.5, 50.0] * 4 + [0.5]) == ["info"]
    assert severities([0.5, 0.5, 0.5, 0.5, 0.5, 50.0] * 5 + [0.5]) == ["warning"]


def test_a_single_spike_is_information_and_recovers() -> None:
    finding = only("OPT001", run_of(grad_norm=[*CALM, 154.0, *CALM]))
    assert finding.severity == "info"
    assert finding.recovered_at == 42
    assert finding.onset is not None
    assert (finding.onset.low, finding.onset.step, finding.onset.high) == (41, 41, 41)
    assert "1 of 81 logged rows, up to 154" in finding.message
    assert finding.summary == "gradient norm 0.5 -> 154"


def test_a_spike_in_the_last_row_has_not_recovered() -> None:
    assert only("OPT001", run_of(grad_norm=[*CALM, 154.0])).recovered_at is None


def test_a_rise_is_dated_where_it_begins() -> None:
    finding = only("OPT001", run_of(grad_norm=CALM + [0.5 + 4 * index for index in range(1, 21)]))
    assert finding.severity == "warning"
    assert finding.onset is not None
    assert 38 <= finding.onset.step <= 43
    assert logged(finding.evidence[0], "grad_norm", "L2 norm")
    assert finding.evidence[0].limit_high == pytest.approx(5.0)


@pytest.mark.parametrize(
    "norms",
    [
        pytest.param([16.0, 12.0, 9.0, 6.0] + [2.5] * 40, id="a gradient that falls"),
        pytest.param([30.0] + [0.5] * 4 + CALM, id="a high first row in the warm-up"),
        pytest.param([0.0, 1.5] * 30, id="batches without signal do not make the others leap"),
        pytest.param([0.0] * 30 + [1.5] * 30, id="no signal at first"),
        pytest.param([0.02] * 5 + [1.5, 1.2] * 20, id="little signal in the first rows"),
        pytest.param([0.02, 0.03, 0.02, 1.5] * 20, id="a signal in every fourth batch"),
    ],
)
def test_a_sound_run_has_information_at_most(norms: list[float]) -> None:
    assert set(severities(norms)) <= {"info"}


def test_zeros_do_not_enter_what_is_usual() -> None:
    assert clear("OPT001", run_of(grad_norm=[0.0, 0.0, 0.0, 5.0] * 10))


@pytest.mark.parametrize(
    ("norms", "looks"),
    [
        pytest.param([0.5] * 9, False, id="nine rows are too few"),
        pytest.param([0.5] * 10, True, id="ten rows are enough"),
        pytest.param([0.5] * 9 + [0.0] * 20, False, id="rows without a gradient do not count"),
        pytest.param([0.5] * 9 + [NAN] * 20, False, id="rows of NaN do not count"),
    ],
)
def test_ten_rows_with_a_gradient_are_needed(norms: list[float], looks: bool) -> None:
    assert skipped("OPT001", run_of(grad_norm=norms)) is not looks


@pytest.mark.parametrize(
    "column",
    [
        pytest.param("grad_norm_critic", id="the value model's gradient"),
        pytest.param("eval_grad_norm", id="an evaluation"),
    ],
)
def test_another_norm_is_never_judged(column: str) -> None:
    assert skipped("OPT001", log_of({column: CALM + [50.0] * 6}))


def test_the_limits_can_be_set() -> None:
    assert severities(CALM + [3.0] * 8) == []
    assert severities(CALM + [3.0] * 8, times=5.0) == ["warning"]
    assert severities([0.05] * 40 + [0.9] * 8, size=0.5) == ["warning"]
    assert severities(CALM + [50.0] * 3, rows=3) == ["warning"]
    assert severities(LEAPS * 6, share=0.2) == ["info"]
