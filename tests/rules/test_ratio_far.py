from dataclasses import replace

import pytest

from rlhfdoctor.model import Run
from tests.builders import clear, judge, only, run_of, skipped
from tests.rules.shapes import NAN, log_of, logged

NEAR = [1.0, 1.01, 0.99] * 5
SICK = (run_of(ratio_mean=NEAR + [3.0] * 8),)


@pytest.mark.parametrize(
    ("level", "alarms"),
    [
        pytest.param(1.9, False, id="below twice"),
        pytest.param(2.1, True, id="above twice"),
        pytest.param(0.6, False, id="above half"),
        pytest.param(0.4, True, id="below half"),
        pytest.param(NAN, False, id="NaN is never far"),
    ],
)
def test_a_ratio_far_from_one_is_a_warning(level: float, alarms: bool) -> None:
    outcome = judge("OPT003", run_of(ratio_mean=NEAR + [level] * 6))
    assert isinstance(outcome, list)
    assert [finding.severity for finding in outcome] == ["warning"] * alarms


@pytest.mark.parametrize(
    ("rows", "alarms"),
    [
        pytest.param(4, False, id="four rows are patience"),
        pytest.param(5, True, id="five rows are an alarm"),
    ],
)
def test_patience_counts_consecutive_rows(rows: int, alarms: bool) -> None:
    assert clear("OPT003", run_of(ratio_mean=NEAR + [5.0] * rows)) is not alarms


def test_a_high_first_row_alone_is_clear() -> None:
    assert clear("OPT003", run_of(ratio_mean=[2.7, *NEAR]))


def test_a_stretch_that_recovers_is_information() -> None:
    finding = only("OPT003", run_of(ratio_mean=NEAR + [5.0] * 6 + NEAR))
    assert finding.severity == "info"
    assert finding.recovered_at == 22


def test_it_is_dated_and_can_be_looked_up() -> None:
    finding = only("OPT003", run_of(ratio_mean=[1.0] * 15 + [3.0] * 10))
    assert finding.onset is not None
    assert 14 <= finding.onset.step <= 16
    assert logged(finding.evidence[0], "ratio_mean", "1")
    assert (finding.evidence[0].limit_low, finding.evidence[0].limit_high) == (0.5, 2.0)
    assert "is 3, outside 0.5-2 for 10 logged rows" in finding.message


@pytest.mark.parametrize("rows", [pytest.param(1, id="one row"), pytest.param(4, id="four rows")])
def test_a_log_shorter_than_patience_is_information(rows: int) -> None:
    finding = only("OPT003", run_of(ratio_mean=[1000.0] * rows))
    assert finding.severity == "info"
    assert finding.onset is not None
    assert finding.onset.step == 1
    assert clear("OPT003", run_of(ratio_mean=[1000.0] * rows + [1.0]))


def responses(run: Run) -> Run:
    """The same log, of a trainer whose ratios are those of whole responses."""
    column = replace(run.columns["ratio_mean"], reduction="of whole responses")
    return replace(run, columns={**run.columns, "ratio_mean": column})


def test_ratios_of_whole_responses_are_information() -> None:
    assert only("OPT003", responses(run_of(ratio_mean=[3.0] * 20))).severity == "info"


def test_a_key_that_no_framework_owns_is_information() -> None:
    run = replace(run_of(ratio_mean=[0.2] * 20), dialect="generic")
    assert only("OPT003", run).severity == "info"


@pytest.mark.parametrize(
    "column",
    [
        pytest.param("ratio_max", id="a largest ratio has no limit"),
        pytest.param("is_ratio_train_infer_mean", id="the rollout engine is another pair"),
        pytest.param("eval_ratio_mean", id="evaluation is not training"),
    ],
)
def test_another_ratio_is_never_judged(column: str) -> None:
    assert skipped("OPT003", log_of({column: [1000.0] * 20}))


def test_zeros_throughout_were_never_computed() -> None:
    assert skipped("OPT003", run_of(ratio_mean=[0.0] * 20))


def test_the_limits_can_be_set() -> None:
    run = run_of(ratio_mean=NEAR + [1.5] * 6)
    assert clear("OPT003", run)
    assert not clear("OPT003", run, high=1.2)
    assert clear("OPT003", run, high=1.2, patience=7)
    assert not clear("OPT003", run_of(ratio_mean=[0.7] * 9), low=0.8)
