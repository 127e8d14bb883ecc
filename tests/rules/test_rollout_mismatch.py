from dataclasses import replace

import pytest

from tests.builders import clear, judge, only, run_of, skipped
from tests.rules.shapes import NAN, log_of, logged

NEAR = [0.0004, 0.0006] * 6
SICK = (run_of(kl_train_infer_token=NEAR + [0.2] * 8),)


@pytest.mark.parametrize(
    ("level", "expected"),
    [
        pytest.param(0.001, [], id="rounding"),
        pytest.param(0.009, [], id="below tinker's limit"),
        pytest.param(0.011, ["info"], id="above tinker's limit"),
        pytest.param(0.049, ["info"], id="as after a repair"),
        pytest.param(0.051, ["warning"], id="most ratios leave the clip range"),
        pytest.param(-0.051, ["warning"], id="a k1 estimate below zero"),
        pytest.param(NAN, [], id="NaN is never above"),
    ],
)
def test_the_level_decides(level: float, expected: list[str]) -> None:
    outcome = judge("MIS001", run_of(kl_train_infer_token=NEAR + [level] * 6))
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
    assert clear("MIS001", run_of(kl_train_infer_token=NEAR + [0.2] * rows)) is not alarms


def test_it_is_dated_and_can_be_looked_up() -> None:
    run = run_of(kl_train_infer_token=NEAR + [0.2] * 8, estimators={"kl_train_infer_token": "k3"})
    finding = only("MIS001", run)
    assert finding.onset is not None
    assert 11 <= finding.onset.step <= 13
    assert logged(finding.evidence[0], "kl_train_infer_token", "nats/token")
    assert finding.evidence[0].limit_high == 0.01
    assert "0.2 nats/token (k3), above 0.01 for 8 logged rows" in finding.message


def test_the_other_way_round_is_judged_where_it_stands_alone() -> None:
    finding = only("MIS001", run_of(kl_train_infer_reverse_token=[0.2] * 8))
    assert logged(finding.evidence[0], "kl_train_infer_reverse_token", "nats/token")


def test_a_stretch_that_recovers_is_information() -> None:
    finding = only("MIS001", run_of(kl_train_infer_token=NEAR + [0.2] * 6 + NEAR))
    assert finding.severity == "info"
    assert finding.recovered_at == 19


def test_one_row_is_information() -> None:
    assert only("MIS001", run_of(kl_train_infer_token=[0.5])).severity == "info"


def test_a_key_that_no_framework_owns_is_information() -> None:
    run = replace(run_of(kl_train_infer_token=[0.5] * 20), dialect="generic")
    assert only("MIS001", run).severity == "info"


@pytest.mark.parametrize(
    "column",
    [
        pytest.param("kl_ref_token", id="a KL to the reference"),
        pytest.param("kl_old_token", id="a KL to the policy that sampled"),
        pytest.param("kl_unknown", id="a KL of unknown unit"),
        pytest.param("kl_train_infer_masked_token", id="tokens masked for their mismatch"),
        pytest.param("kl_train_infer_kept_token", id="tokens kept for their agreement"),
    ],
)
def test_another_pair_is_never_judged(column: str) -> None:
    assert skipped("MIS001", log_of({column: [50.0] * 20}))


def test_zeros_throughout_were_never_computed() -> None:
    assert skipped("MIS001", run_of(kl_train_infer_token=[0.0] * 20))


def test_the_limits_can_be_set() -> None:
    run = run_of(kl_train_infer_token=NEAR + [0.008] * 6)
    assert clear("MIS001", run)
    assert only("MIS001", run, note=0.005).severity == "info"
    assert only("MIS001", run, note=0.005, fault=0.007).severity == "warning"
    assert clear("MIS001", run, note=0.005, patience=7)
