from typing import Any

import pytest

from rlhfdoctor.doctor import settle
from rlhfdoctor.model import Skip
from tests.builders import clear, judge, only, run_of, skipped
from tests.rules.shapes import NAN, logged


@pytest.mark.parametrize(
    ("start", "level", "alarms"),
    [
        pytest.param(2.0, 1.0, False, id="half of the start itself is not below it"),
        pytest.param(2.0, 0.999, True, id="just below half of the start"),
        pytest.param(2.0, NAN, False, id="NaN is never below"),
        pytest.param(2.0, 4.0, False, id="a rise is no collapse"),
        pytest.param(0.19, 0.0905, False, id="below half, but less than 0.1 nats lost"),
        pytest.param(0.19, 0.0895, True, id="below half and more than 0.1 nats lost"),
        pytest.param(0.09, 0.001, False, id="a start that has no 0.1 nats to lose"),
    ],
)
def test_a_collapse_halves_the_start_and_loses_a_tenth_of_a_nat(
    start: float, level: float, alarms: bool
) -> None:
    run = run_of(entropy=[start] * 10 + [level] * 6)
    assert clear("ENT001", run) is not alarms


@pytest.mark.parametrize(
    ("rows_below", "alarms"),
    [
        pytest.param(4, False, id="four rows below the floor are patience"),
        pytest.param(5, True, id="five rows below the floor are an alarm"),
    ],
)
def test_patience_counts_consecutive_rows(rows_below: int, alarms: bool) -> None:
    run = run_of(entropy=[2.0] * 10 + [0.1] * rows_below)
    assert clear("ENT001", run) is not alarms


def test_a_collapse_is_critical_and_dated_where_it_begins() -> None:
    falling = [max(2.0 - 0.2 * index, 0.05) for index in range(1, 21)]
    finding = only("ENT001", run_of(entropy=[2.0] * 20 + falling))
    assert finding.severity == "critical"
    assert finding.onset is not None
    assert 19 <= finding.onset.step <= 21
    assert finding.onset.low <= finding.onset.step <= finding.onset.high
    assert logged(finding.evidence[0], "entropy", "nats/token")
    assert finding.evidence[0].limit_low == 1.0
    assert "below 50% of its start" in finding.message
    assert "entropy 2 -> 0.05" in finding.summary


@pytest.mark.parametrize(
    ("level", "worth"),
    [
        pytest.param(0.4, "info", id="a fifth of the start itself"),
        pytest.param(0.39, "warning", id="just below a fifth of the start"),
    ],
)
def test_a_fall_that_nothing_else_shows_is_worth_what_is_left(level: float, worth: str) -> None:
    finding = only("ENT001", run_of(entropy=[2.0] * 10 + [level] * 6))
    assert finding.severity == "critical"
    assert [item.severity for item in settle([finding])] == [worth]
    beside = only("KL003", run_of(kl_ref_token=[0.1] * 10 + [3.0] * 6))
    assert settle([finding, beside])[0].severity == "critical"


RISING = [0.1 + 0.04 * index for index in range(20)]


def worth(**columns: Any) -> str:
    """What a fall is worth where no other class of evidence agrees."""
    finding = only("ENT001", run_of(**columns))
    return settle([finding])[0].severity


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        pytest.param({"reward_raw_mean": RISING}, "info", id="a reward that rises paid for it"),
        pytest.param({"reward_raw_mean": RISING[::-1]}, "warning", id="a reward that falls"),
        pytest.param({"reward_raw_mean": [0.4, 0.6] * 10}, "warning", id="a reward that stays"),
        pytest.param({"reward_raw_mean": [NAN] * 20}, "warning", id="a reward of NaN"),
        pytest.param({}, "warning", id="no reward"),
    ],
)
def test_a_deep_fall_is_information_where_the_reward_rises(
    columns: dict[str, Any], expected: str
) -> None:
    assert worth(entropy=[2.0] * 10 + [0.3] * 10, **columns) == expected


@pytest.mark.parametrize(
    ("column", "calm", "far"),
    [
        pytest.param("frac_reward_zero_std", 0.49, 0.51, id="most groups have no spread"),
        pytest.param("kl_unknown", 0.99, 1.01, id="a KL of unknown unit that may be a runaway"),
        pytest.param("kl_unknown", NAN, 1.01, id="NaN is not far"),
    ],
)
def test_a_rising_reward_excuses_nothing_beside(column: str, calm: float, far: float) -> None:
    for value, expected in ((calm, "info"), (far, "warning")):
        columns: dict[str, Any] = {column: [0.1] * 10 + [value] * 10}
        entropy = [2.0] * 10 + [0.3] * 10
        assert worth(entropy=entropy, reward_raw_mean=RISING, **columns) == expected


@pytest.mark.parametrize(
    ("metric", "start", "level", "expected"),
    [
        pytest.param("entropy", 0.6, 0.061, "info", id="just above a tenth of the start"),
        pytest.param("entropy", 0.6, 0.059, "warning", id="just below a tenth of the start"),
        pytest.param("entropy", 2.0, 0.101, "info", id="just above a tenth of a nat a token"),
        pytest.param("entropy", 2.0, 0.099, "warning", id="just below a tenth of a nat a token"),
        pytest.param("entropy_unknown", 2.0, 0.041, "info", id="just above 2 % of the start"),
        pytest.param("entropy_unknown", 2.0, 0.039, "warning", id="just below 2 % of the start"),
    ],
)
def test_no_reward_excuses_an_entropy_of_hardly_anything(
    metric: str, start: float, level: float, expected: str
) -> None:
    columns: dict[str, Any] = {metric: [start] * 10 + [level] * 10}
    assert worth(reward_raw_mean=RISING, **columns) == expected


@pytest.mark.parametrize(
    ("entropy", "beside", "gone"),
    [
        pytest.param([0.049] * 20, {"kl_ref_response": 51.0}, True, id="far, and nothing left"),
        pytest.param([0.4] + [0.049] * 19, {"kl_ref_response": 51.0}, True, id="since row two"),
        pytest.param([0.051] * 20, {"kl_ref_response": 51.0}, False, id="something is left"),
        pytest.param([0.049] * 20, {"kl_ref_response": 49.0}, False, id="a peaked start"),
        pytest.param([0.049] * 20, {"kl_ref_response": NAN}, False, id="a distance of NaN"),
        pytest.param([0.049] * 19 + [0.06], {"kl_ref_response": 51.0}, False, id="not at the end"),
        pytest.param([0.1] * 6 + [0.04] * 14, {"kl_ref_response": 51.0}, False, id="not at first"),
        pytest.param([0.049] * 20, {"kl_ref_token": 1.1}, True, id="far per token"),
        pytest.param([0.049] * 20, {"kl_ref_token": 0.9}, False, id="not far per token"),
        pytest.param([0.049] * 20, {"truncation_rate": 0.91}, True, id="all answers are cut"),
        pytest.param([0.049] * 20, {"truncation_rate": 0.89}, False, id="some answers end"),
        pytest.param([0.049] * 20, {"kl_unknown": 90.0}, False, id="a KL of unknown unit"),
        pytest.param([0.049] * 20, {}, False, id="nothing beside"),
    ],
)
def test_an_entropy_of_nothing_from_the_start_is_a_collapse_before_the_log(
    entropy: list[float], beside: dict[str, float], gone: bool
) -> None:
    columns: dict[str, Any] = {name: [value] * 20 for name, value in beside.items()}
    run = run_of(entropy=entropy, **columns)
    assert clear("ENT001", run) is not gone


def test_a_collapse_before_the_log_is_critical_where_another_class_agrees() -> None:
    run = run_of(entropy=[0.4] + [0.02] * 19, kl_ref_response=[80.0] * 20)
    entropy, distance = only("ENT001", run), only("KL002", run)
    assert settle([entropy])[0].severity == "info"
    assert [item.severity for item in settle([entropy, distance])] == ["critical", "critical"]
    assert entropy.onset is not None
    assert (entropy.onset.low, entropy.onset.step, entropy.onset.high) == (2, 2, 2)
    assert logged(entropy.evidence[0], "entropy", "nats/token")
    assert logged(entropy.evidence[1], "kl_ref_response", "nats/response")
    assert "below 0.05 nats/token for 19 logged rows" in entropy.message
    assert "while kl_ref_response ends at 80" in entropy.message


def test_an_entropy_of_unknown_unit_is_never_nothing() -> None:
    assert clear("ENT001", run_of(entropy_unknown=[0.02] * 20, kl_ref_response=[80.0] * 20))


def test_a_dip_that_recovers_is_information() -> None:
    finding = only("ENT001", run_of(entropy=[2.0] * 10 + [0.1] * 6 + [1.9] * 10))
    assert finding.severity == "info"
    assert finding.recovered_at == 17


def test_an_entropy_of_unknown_unit_is_judged_by_its_ratio() -> None:
    finding = only("ENT001", run_of(entropy_unknown=[50.0] * 10 + [5.0] * 10))
    assert finding.severity == "critical"
    assert logged(finding.evidence[0], "entropy_unknown", "unknown")


def test_the_known_unit_is_preferred() -> None:
    run = run_of(entropy=[2.0] * 20, entropy_unknown=[50.0] * 10 + [5.0] * 10)
    assert clear("ENT001", run)


def test_zeros_do_not_hide_an_entropy_of_unknown_unit() -> None:
    run = run_of(entropy=[0.0] * 20, entropy_unknown=[50.0] * 10 + [5.0] * 10)
    assert only("ENT001", run).evidence[0].subject == "entropy_unknown"


@pytest.mark.parametrize(
    "values",
    [
        pytest.param([0.0] * 20, id="zeros throughout were never computed"),
        pytest.param([-1.0] * 10 + [-9.0] * 10, id="a negative number is no entropy"),
        pytest.param([2.0] * 7 + [NAN] * 20, id="seven finite rows are too few"),
        pytest.param([NAN] * 20, id="NaN throughout"),
    ],
)
def test_what_is_no_entropy_is_not_judged(values: list[float]) -> None:
    assert skipped("ENT001", run_of(entropy=values))


@pytest.mark.parametrize(
    ("rows", "looks"),
    [
        pytest.param(7, False, id="seven rows are too few"),
        pytest.param(8, True, id="eight rows are enough"),
    ],
)
def test_eight_rows_are_needed(rows: int, looks: bool) -> None:
    run = run_of(entropy=[2.0] * rows)
    assert judge("ENT001", run) == ([] if looks else Skip("ENT001", ("rows>=8",)))


def test_minus_a_log_probability_is_never_taken_for_an_entropy() -> None:
    assert skipped("ENT001", run_of(neg_logp_response=[80.0] * 10 + [2.0] * 10))


def test_the_limits_can_be_set() -> None:
    run = run_of(entropy=[2.0] * 10 + [1.5] * 6)
    assert clear("ENT001", run)
    assert judge("ENT001", run, fall=0.8)
    assert clear("ENT001", run, fall=0.8, least=0.6)
    assert clear("ENT001", run, fall=0.8, patience=7)
    assert only("ENT001", run, fall=0.8).weak == "info"
    assert only("ENT001", run, fall=0.8, deep=0.76).weak == "warning"
    paid = run_of(entropy=[2.0] * 10 + [0.3] * 10, reward_raw_mean=RISING)
    assert only("ENT001", paid).weak == "info"
    assert only("ENT001", paid, spent=0.4, rest=0.16).weak == "warning"
