from dataclasses import replace

import pytest

from rlhfdoctor.model import Run
from tests.builders import clear, judge, only, run_of, skipped
from tests.rules.shapes import NAN, log_of, logged

SICK = (
    run_of(is_ratio_train_infer_mean=[1.0] * 10 + [3.0] * 6, config={"temperature": 0.6}),
    run_of(is_ess=[0.1] * 10),
    run_of(chi2_train_infer=[4.0] * 10),
)


def severities(run: Run, **limits: float) -> list[str]:
    outcome = judge("MIS003", run, **limits)
    assert isinstance(outcome, list)
    return [finding.severity for finding in outcome]


@pytest.mark.parametrize(
    ("level", "expected"),
    [
        pytest.param(0.51, [], id="above half"),
        pytest.param(0.49, ["warning"], id="below half"),
        pytest.param(1.9, [], id="below twice"),
        pytest.param(2.1, ["warning"], id="above twice"),
        pytest.param(NAN, [], id="NaN is never beyond"),
    ],
)
def test_the_mean_weight(level: float, expected: list[str]) -> None:
    assert severities(run_of(is_ratio_train_infer_mean=[1.0] * 10 + [level] * 6)) == expected


@pytest.mark.parametrize(
    ("level", "expected"),
    [
        pytest.param(0.31, [], id="enough samples count"),
        pytest.param(0.29, ["warning"], id="few samples count"),
    ],
)
def test_the_effective_sample_size(level: float, expected: list[str]) -> None:
    assert severities(run_of(is_ess=[level] * 10)) == expected


@pytest.mark.parametrize(
    ("level", "expected"),
    [
        pytest.param(0.9, [], id="below 1"),
        pytest.param(1.1, ["info"], id="above 1"),
        pytest.param(1e6, ["info"], id="one token can do that"),
    ],
)
def test_the_chi_square_is_information(level: float, expected: list[str]) -> None:
    assert severities(run_of(chi2_train_infer=[level] * 10)) == expected


@pytest.mark.parametrize(
    ("rows", "alarms"),
    [
        pytest.param(4, False, id="four rows are patience"),
        pytest.param(5, True, id="five rows are an alarm"),
    ],
)
def test_patience_counts_consecutive_rows(rows: int, alarms: bool) -> None:
    run = run_of(is_ratio_train_infer_mean=[1.0] * 10 + [3.0] * rows)
    assert clear("MIS003", run) is not alarms


@pytest.mark.parametrize(
    ("framework", "level", "severity"),
    [
        pytest.param("TRL", 0.3, "info", id="TRL cuts large weights off"),
        pytest.param("Unsloth", 0.3, "info", id="Unsloth is TRL"),
        pytest.param("verl", 0.3, "warning", id="verl takes the mean of all"),
        pytest.param("TRL", 3.0, "warning", id="no cut raises a mean"),
    ],
)
def test_a_low_mean_after_truncation(framework: str, level: float, severity: str) -> None:
    run = replace(run_of(is_ratio_train_infer_mean=[level] * 10), framework=framework)
    assert severities(run) == [severity]


@pytest.mark.parametrize(
    ("config", "level", "expected"),
    [
        pytest.param({"temperature": 0.6}, 1.06, ["info"], id="another temperature"),
        pytest.param({"temperature": 0.6}, 1.04, [], id="a weight near 1"),
        pytest.param({"temperature": 0.6}, 2.1, ["warning"], id="a weight far off is a fault"),
        pytest.param({"top_p": 0.8}, 0.896, ["info"], id="the mass that top_p kept"),
        pytest.param({"top_p": 0.8}, 0.96, [], id="a weight near 1 with top_p"),
        pytest.param({"temperature": 1.0, "top_p": 1.0}, 0.896, [], id="the whole distribution"),
        pytest.param({}, 0.896, [], id="no configuration"),
    ],
)
def test_a_sampling_setting_is_named(
    config: dict[str, float], level: float, expected: list[str]
) -> None:
    run = run_of(is_ratio_train_infer_mean=[level] * 10, config=config)
    assert severities(run) == expected


def test_it_is_dated_and_can_be_looked_up() -> None:
    finding = only("MIS003", SICK[0])
    assert finding.onset is not None
    assert 9 <= finding.onset.step <= 11
    assert logged(finding.evidence[0], "is_ratio_train_infer_mean", "1")
    assert "mean 3, beyond 0.95-1.05 for 6 logged rows" in finding.message
    assert finding.message.endswith("; suspect: temperature 0.6 in the configuration")
    assert logged(only("MIS003", SICK[1]).evidence[0], "is_ess", "fraction")
    assert logged(only("MIS003", SICK[2]).evidence[0], "chi2_train_infer", "1")


def test_a_stretch_that_recovers_is_information() -> None:
    finding = only("MIS003", run_of(is_ess=[0.9] * 9 + [0.1] * 6 + [0.9] * 9))
    assert finding.severity == "info"
    assert finding.recovered_at == 16


@pytest.mark.parametrize(
    "column",
    [
        pytest.param("is_ratio_train_infer_max", id="a largest weight has no limit"),
        pytest.param("is_ratio_train_infer_min", id="nor has a smallest"),
        pytest.param("chi2_train_infer_seq", id="whole responses multiply their tokens"),
        pytest.param("ratio_mean", id="new and old policy are another pair"),
    ],
)
def test_another_weight_is_never_judged(column: str) -> None:
    assert skipped("MIS003", log_of({column: [50.0] * 20}))


def test_the_limits_can_be_set() -> None:
    assert severities(run_of(is_ratio_train_infer_mean=[0.6] * 9), low=0.7) == ["warning"]
    assert severities(run_of(is_ratio_train_infer_mean=[1.8] * 9), high=1.5) == ["warning"]
    run = run_of(is_ratio_train_infer_mean=[1.04] * 9, config={"top_p": 0.9})
    assert severities(run, off=0.03) == ["info"]
    assert severities(run_of(is_ess=[0.35] * 9), sample_size=0.4) == ["warning"]
    assert severities(run_of(chi2_train_infer=[0.9] * 9), chi2=0.5) == ["info"]
    assert severities(run_of(is_ess=[0.9] * 9 + [0.1] * 6), patience=7) == []
