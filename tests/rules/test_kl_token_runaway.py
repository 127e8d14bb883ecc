from dataclasses import replace

import pytest

from rlhfdoctor.model import Location, Run, Skip
from tests.builders import clear, judge, only, run_of, skipped
from tests.rules.shapes import NAN

CALM = [0.01 * index for index in range(20)]


@pytest.mark.parametrize(
    ("rows_above", "alarms"),
    [
        pytest.param(4, False, id="four rows above the ceiling are patience"),
        pytest.param(5, True, id="five rows above the ceiling are an alarm"),
    ],
)
def test_patience_counts_consecutive_rows(rows_above: int, alarms: bool) -> None:
    run = run_of(kl_ref_token=CALM + [1.5] * rows_above)
    assert clear("KL003", run) is not alarms


@pytest.mark.parametrize(
    ("level", "alarms"),
    [
        pytest.param(1.0, False, id="the ceiling itself is not above it"),
        pytest.param(1.001, True, id="just above the ceiling"),
        pytest.param(NAN, False, id="NaN is never above"),
    ],
)
def test_the_ceiling_is_one_nat_a_token(level: float, alarms: bool) -> None:
    run = run_of(kl_ref_token=[*CALM, *[level] * 6])
    assert clear("KL003", run) is not alarms


def test_a_runaway_is_critical_and_dated_where_it_speeds_up() -> None:
    run = run_of(kl_ref_token=CALM + [0.2 + 0.3 * index for index in range(20)])
    finding = only("KL003", run)
    assert finding.severity == "critical"
    assert finding.onset is not None
    assert 19 <= finding.onset.step <= 21
    assert finding.onset.low <= finding.onset.step <= finding.onset.high
    assert finding.evidence[0].unit == "nats/token"
    assert finding.evidence[0].where.key == "kl_ref_token"


def test_a_spike_that_recovers_is_information() -> None:
    finding = only("KL003", run_of(kl_ref_token=CALM + [2.0] * 6 + [0.1] * 10))
    assert finding.severity == "info"
    assert finding.recovered_at == 27


def test_zeros_throughout_were_never_computed() -> None:
    assert skipped("KL003", run_of(kl_ref_token=[0.0] * 30))
    assert skipped("KL003", run_of(kl_unknown=[0.0] * 30))


@pytest.mark.parametrize(
    ("values", "looks"),
    [
        pytest.param([50.0] * 4, False, id="four rows are too few"),
        pytest.param([50.0] * 5, True, id="five rows are enough"),
        pytest.param([50.0] * 4 + [NAN] * 20, False, id="rows of NaN do not count"),
        pytest.param([50.0] * 5 + [NAN] * 20, True, id="rows of NaN do not harm"),
    ],
)
def test_five_rows_are_needed(values: list[float], looks: bool) -> None:
    assert skipped("KL003", run_of(kl_ref_token=values)) is not looks


def test_another_unit_is_never_judged() -> None:
    assert skipped("KL003", run_of(kl_ref_response=[50.0] * 30))
    assert skipped("KL003", run_of(kl_unknown=[50.0] * 30))


def test_the_limits_can_be_set() -> None:
    run = run_of(kl_ref_token=CALM + [0.5] * 6)
    assert clear("KL003", run)
    assert not clear("KL003", run, ceiling=0.4)
    assert clear("KL003", run, ceiling=0.4, patience=7)
    assert clear("KL003", run_of(kl_unknown=[0.5] * 9), near=0.6)


# A KL of unknown unit


def unknown(key: str, *values: float, estimator: str | None = None) -> Run:
    """A log whose only KL has this name and no unit."""
    run = run_of(kl_unknown=values)
    place = (Location("log.jsonl", key=key),)
    column = replace(run.columns["kl_unknown"], sources=place, estimator=estimator)
    return replace(run, columns={"kl_unknown": column})


@pytest.mark.parametrize(
    ("values", "looks"),
    [
        pytest.param([0.099] * 9, True, id="that is near in every unit clears"),
        pytest.param([-0.099] * 9, True, id="that is near below zero clears"),
        pytest.param([0.099] * 8 + [NAN], True, id="whose rows are finite or nothing clears"),
        pytest.param([0.099] * 8 + [0.1], False, id="with one row that may be far leaves it open"),
        pytest.param([-50.0] * 9, False, id="far below zero leaves it open"),
        pytest.param([50.0] * 9, False, id="that is far is never accused"),
    ],
)
def test_a_kl_of_unknown_unit(values: list[float], looks: bool) -> None:
    run = unknown("kl_divergence", *values)
    assert clear("KL003", run) is looks
    assert skipped("KL003", run) is not looks


def test_what_is_left_open_names_the_unit_and_how_to_state_it() -> None:
    outcome = judge("KL003", unknown("kl", *[0.5] * 9))
    assert outcome == Skip("KL003", ("kl_ref_token",), "--map kl=kl_ref_token")


@pytest.mark.parametrize("key", ["approx_kl", "kl_old", "ppo_kl", "policy_kl", "kl_loss"])
def test_a_kl_that_is_small_in_every_run_clears_nothing(key: str) -> None:
    assert skipped("KL003", unknown(key, *[0.001] * 9))
    assert clear("KL003", unknown(key, *[0.001] * 9, estimator="k3"))


def test_a_known_unit_is_judged_beside_an_unknown_one() -> None:
    assert clear("KL003", run_of(kl_ref_token=[0.5] * 9, kl_unknown=[50.0] * 9))
    stopped = [0.1] * 5 + [3.0] * 10 + [None] * 40
    run = run_of(kl_ref_token=stopped, kl_unknown=[0.01] * 55)
    assert only("KL003", run).evidence[0].subject == "kl_ref_token"


def test_of_very_many_stretches_the_first_the_last_and_the_longest_are_told() -> None:
    lengths = [5 + (place == 30) for place in range(60)]
    values = CALM + [value for rows in lengths for value in [2.0] * rows + [0.1] * 9]
    findings = judge("KL003", run_of(kl_ref_token=values))
    assert isinstance(findings, list)
    rows = [item.limit_high for finding in findings for item in finding.evidence]
    assert len(rows) == 20
    told = [(item.first_step, item.last_step) for item in findings[0].evidence]
    assert told[0] == (21, 25)
    assert any(finding.args["rows"] == 6 for finding in findings)
