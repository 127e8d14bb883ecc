from dataclasses import replace

import pytest

from tests.builders import clear, judge, only, run_of, skipped
from tests.rules.shapes import NAN, log_of, logged

NEAR = [0.001, 0.002] * 6
SICK = (run_of(kl_old_token=NEAR + [0.8] * 8),)


@pytest.mark.parametrize(
    ("level", "expected"),
    [
        pytest.param(0.09, [], id="below TRL's bound"),
        pytest.param(0.11, ["info"], id="above TRL's bound"),
        pytest.param(0.49, ["info"], id="below RL4LMs' bound"),
        pytest.param(0.51, ["warning"], id="above RL4LMs' bound"),
        pytest.param(-0.51, ["warning"], id="a k1 estimate below zero"),
        pytest.param(NAN, [], id="NaN is never above"),
    ],
)
def test_the_bounds_for_stopping_an_update(level: float, expected: list[str]) -> None:
    outcome = judge("OPT005", run_of(kl_old_token=NEAR + [level] * 6))
    assert isinstance(outcome, list)
    assert [finding.severity for finding in outcome] == expected


@pytest.mark.parametrize(
    ("rows", "alarms"),
    [
        pytest.param(4, False, id="four rows are patience"),
        pytest.param(5, True, id="five rows are an alarm"),
    ],
)
def test_patience_counts_consecutive_rows(rows: int, alarms: bool) -> None:
    assert clear("OPT005", run_of(kl_old_token=NEAR + [0.8] * rows)) is not alarms


def test_it_is_dated_and_can_be_looked_up() -> None:
    run = run_of(kl_old_token=NEAR + [0.8] * 8, estimators={"kl_old_token": "k2"})
    finding = only("OPT005", run)
    assert finding.onset is not None
    assert 11 <= finding.onset.step <= 13
    assert logged(finding.evidence[0], "kl_old_token", "nats/token")
    assert finding.evidence[0].limit_high == 0.1
    assert "0.8 nats/token (k2), above 0.1 for 8 logged rows" in finding.message


def test_a_stretch_that_recovers_is_information() -> None:
    finding = only("OPT005", run_of(kl_old_token=NEAR + [0.8] * 6 + NEAR))
    assert finding.severity == "info"
    assert finding.recovered_at == 19


def test_one_row_is_information() -> None:
    assert only("OPT005", run_of(kl_old_token=[3.13])).severity == "info"


def test_a_key_that_no_framework_owns_is_information() -> None:
    run = replace(run_of(kl_old_token=[0.8] * 20), dialect="generic")
    assert only("OPT005", run).severity == "info"


@pytest.mark.parametrize(
    "column",
    [
        pytest.param("kl_old_response", id="a KL of whole responses"),
        pytest.param("kl_ref_token", id="a KL to the reference"),
        pytest.param("kl_unknown", id="a KL of unknown unit"),
        pytest.param("eval_kl_old_token", id="an evaluation"),
    ],
)
def test_another_unit_is_never_judged(column: str) -> None:
    assert skipped("OPT005", log_of({column: [50.0] * 20}))


def test_zeros_throughout_were_never_computed() -> None:
    assert skipped("OPT005", run_of(kl_old_token=[0.0] * 20))


def test_the_limits_can_be_set() -> None:
    run = run_of(kl_old_token=NEAR + [0.08] * 6)
    assert clear("OPT005", run)
    assert only("OPT005", run, stop=0.05).severity == "info"
    assert only("OPT005", run, stop=0.05, fault=0.07).severity == "warning"
    assert clear("OPT005", run, stop=0.05, patience=7)
