from dataclasses import replace

import pytest

from tests.builders import clear, judge, only, run_of, skipped
from tests.rules.shapes import NAN, log_of, logged

FEW = [0.01] * 10
FAR = [0.01] * 10 + [0.5] * 6
SICK = (run_of(clip_frac=FEW + [0.6] * 6, kl_old_token=FAR),)


@pytest.mark.parametrize(
    ("level", "alarms"),
    [
        pytest.param(0.29, False, id="below three tenths"),
        pytest.param(0.31, True, id="above three tenths"),
        pytest.param(NAN, False, id="NaN is never above"),
    ],
)
def test_a_third_of_the_ratios_is_clipped(level: float, alarms: bool) -> None:
    run = run_of(clip_frac=FEW + [level] * 6, kl_old_token=FAR)
    outcome = judge("OPT004", run)
    assert isinstance(outcome, list)
    assert [finding.severity for finding in outcome] == ["warning"] * alarms


@pytest.mark.parametrize(
    ("kl", "severity"),
    [
        pytest.param([0.01] * 10 + [0.09] * 6, "info", id="a small KL to the sampling policy"),
        pytest.param([0.01] * 10 + [0.11] * 6, "warning", id="a large one"),
        pytest.param([0.01] * 10 + [-0.11] * 6, "warning", id="a large one below zero"),
        pytest.param([0.5] * 10 + [0.01] * 6, "info", id="a large one in other rows"),
        pytest.param([None] * 12 + [0.5] * 4, "info", id="a large one in four rows"),
        pytest.param([None] * 11 + [0.5] * 5, "warning", id="a large one in five rows"),
        pytest.param([None] * 16, "info", id="none logged"),
    ],
)
def test_only_beside_a_large_kl_is_it_a_warning(kl: list[float | None], severity: str) -> None:
    run = run_of(clip_frac=FEW + [0.6] * 6, kl_old_token=kl)
    assert only("OPT004", run).severity == severity


@pytest.mark.parametrize(
    ("rows", "alarms"),
    [
        pytest.param(4, False, id="four rows are patience"),
        pytest.param(5, True, id="five rows are an alarm"),
    ],
)
def test_patience_counts_consecutive_rows(rows: int, alarms: bool) -> None:
    assert clear("OPT004", run_of(clip_frac=FEW + [0.6] * rows)) is not alarms


def test_it_is_dated_and_can_be_looked_up() -> None:
    finding = only("OPT004", run_of(clip_frac=FEW + [0.6] * 6, kl_old_token=FAR))
    assert finding.onset is not None
    assert 9 <= finding.onset.step <= 11
    assert logged(finding.evidence[0], "clip_frac", "fraction")
    assert "KL to the policy that sampled: 0.5 nats/token" in finding.message
    assert "not logged" in only("OPT004", run_of(clip_frac=[0.6] * 6)).message


def test_a_stretch_that_recovers_is_information() -> None:
    run = run_of(clip_frac=[*FEW, *[0.6] * 6, *FEW], kl_old_token=[0.5] * 26)
    assert only("OPT004", run).severity == "info"
    assert only("OPT004", run).recovered_at == 17


def test_one_row_is_information() -> None:
    run = run_of(clip_frac=[0.61], kl_old_token=[3.0])
    assert only("OPT004", run).severity == "info"


def test_nothing_clipped_is_no_fault() -> None:
    assert clear("OPT004", run_of(clip_frac=[0.0] * 20))


def test_a_key_that_no_framework_owns_is_information() -> None:
    run = run_of(clip_frac=FEW + [0.6] * 6, kl_old_token=FAR)
    assert only("OPT004", replace(run, dialect="generic")).severity == "info"


@pytest.mark.parametrize(
    "column",
    [
        pytest.param("truncation_rate", id="cut responses are not clipped ratios"),
        pytest.param("value_clip_frac", id="clipped values are not clipped ratios"),
    ],
)
def test_another_fraction_is_never_judged(column: str) -> None:
    assert skipped("OPT004", log_of({column: [0.9] * 20}))


def test_the_limits_can_be_set() -> None:
    run = run_of(clip_frac=FEW + [0.2] * 6, kl_old_token=[0.05] * 16)
    assert clear("OPT004", run)
    assert only("OPT004", run, share=0.1).severity == "info"
    assert only("OPT004", run, share=0.1, kl=0.04).severity == "warning"
    assert clear("OPT004", run, share=0.1, patience=7)
