from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from rlhfdoctor.model import Onset, Run
from tests.builders import clear, judge, only, run_of, skipped
from tests.rules.shapes import NAN, logged, silent

SLOW = [1e-6] * 10 + [1e-8] * 10
SICK = (run_of(ratio_mean=[2.0] * 12), run_of(kl_old_token=[0.2] * 20, lr=SLOW))


def averaged(run: Run, metric: str, reduction: str) -> Run:
    """The same run, whose column is reduced in a way of its own."""
    columns = {**run.columns, metric: replace(run.columns[metric], reduction=reduction)}
    return replace(run, columns=columns)


@pytest.mark.parametrize(
    ("first", "off"),
    [
        pytest.param(1.0, False, id="one"),
        pytest.param(0.81, False, id="within the clip range"),
        pytest.param(1.24, False, id="within its inverse"),
        pytest.param(0.79, True, id="below"),
        pytest.param(1.26, True, id="above"),
        pytest.param(0.1, True, id="a tenth"),
        pytest.param(1000.0, True, id="a thousand"),
    ],
)
def test_a_ratio_that_keeps_a_factor_is_a_mismatch(first: float, off: bool) -> None:
    run = run_of(ratio_mean=[first * (1 + 0.005 * (row % 3 - 1)) for row in range(12)])
    if not off:
        assert clear("REF007", run)
        return
    finding = only("REF007", run)
    assert finding.severity == "warning"
    assert finding.onset == Onset(1, 1, 1)
    assert logged(finding.evidence[0], "ratio_mean", "1")
    assert (finding.evidence[0].limit_low, finding.evidence[0].limit_high) == (0.8, 1.25)
    assert "stays off by the same factor" in finding.message


@pytest.mark.parametrize(
    ("ratios", "severity"),
    [
        pytest.param([2.0] * 6, "warning", id="six rows"),
        pytest.param([2.0] * 5, "info", id="five rows"),
        pytest.param([1.68, 1.4, 1.3, 1.15, 1.1, 1.1, 1.07, 1.05], "info", id="it comes down"),
        pytest.param([2.0] * 3 + [1.0] * 20, "info", id="the first rows alone"),
        pytest.param([2.0] * 9 + [2.19] + [2.0] * 10, "warning", id="a row that is a tenth off"),
        pytest.param([2.0] * 3 + [2.19] * 17, "warning", id="a tenth more throughout"),
        pytest.param([2.0] * 3 + [2.21] * 17, "info", id="more than a tenth more throughout"),
        pytest.param([2.0] * 10 + [3.0] * 2 + [2.0] * 8, "warning", id="nine tenths of the rows"),
        pytest.param([2.0] * 10 + [3.0] * 3 + [2.0] * 7, "info", id="fewer"),
        pytest.param([2.0] * 29 + [1.0], "info", id="not to the end"),
        pytest.param([2.0, NAN] * 6, "warning", id="NaN now and then"),
    ],
)
def test_what_moves_may_be_learning(ratios: list[float], severity: str) -> None:
    assert only("REF007", run_of(ratio_mean=ratios)).severity == severity


@pytest.mark.parametrize(
    "ratios",
    [
        pytest.param([1.0, 1.0, 2.0, 3.0, 9.0, 20.0], id="a ratio that explodes later"),
        pytest.param([2.0, 1.0, 1.0, 1.0, 1.0, 1.0], id="one row"),
        pytest.param([NAN, 1.0, 1.0, 1.0, 1.0, 1.0], id="NaN is never above"),
    ],
)
def test_the_first_rows_are_judged_alone(ratios: list[float]) -> None:
    assert silent("REF007", run_of(ratio_mean=ratios))


def test_ratios_of_whole_responses_prove_nothing() -> None:
    run = averaged(SICK[0], "ratio_mean", "of whole responses")
    assert only("REF007", run).severity == "info"


@pytest.mark.parametrize(
    ("first", "off"),
    [
        pytest.param(0.049, False, id="inner updates move as much"),
        pytest.param(0.051, True, id="more is much"),
        pytest.param(-0.051, True, id="a negative k1 as well"),
    ],
)
def test_a_kl_to_the_sampling_policy_alone_is_information(first: float, off: bool) -> None:
    run = run_of(kl_old_token=[first] * 12)
    if off:
        finding = only("REF007", run)
        assert finding.severity == "info"
        assert logged(finding.evidence[0], "kl_old_token", "nats/token")
        assert finding.message.endswith("or the mean over the inner updates of a step")
    else:
        assert clear("REF007", run)


@pytest.mark.parametrize(
    ("kl", "lr", "severity"),
    [
        pytest.param([0.2] * 20, SLOW, "warning", id="as high where nothing moves"),
        pytest.param([0.2] * 10 + [0.11] * 10, SLOW, "warning", id="more than half"),
        pytest.param([0.2] * 10 + [0.09] * 10, SLOW, "info", id="less than half"),
        pytest.param([0.2] * 10 + [0.39] * 10, SLOW, "warning", id="less than twice"),
        pytest.param([0.2] * 10 + [0.41] * 10, SLOW, "info", id="more than twice: unstable"),
        pytest.param([0.2] * 20, [1e-6] * 20, "info", id="a constant rate"),
        pytest.param([0.2] * 20, [1e-6] * 10 + [2e-7] * 10, "info", id="a fifth of the rate"),
        pytest.param([0.2] * 20, [1e-6] * 10 + [0.9e-7] * 10, "warning", id="a tenth of it"),
        pytest.param([0.2] * 20, [1e-6] * 17 + [0.0] * 3, "warning", id="three slow rows"),
        pytest.param([0.2] * 20, [1e-6] * 18 + [0.0] * 2, "info", id="two slow rows"),
        pytest.param([0.2] * 20, [0.0] * 3 + [1e-6] * 17, "warning", id="slow while it warms up"),
        pytest.param([0.2] * 20, [0.0] * 20, "info", id="no rate at all"),
        pytest.param([0.2] * 20, [NAN] * 20, "info", id="rates that are no numbers"),
    ],
)
def test_a_kl_that_the_learning_rate_does_not_explain(
    kl: Sequence[float], lr: Sequence[float], severity: str
) -> None:
    assert only("REF007", run_of(kl_old_token=kl, lr=lr)).severity == severity


def test_both_are_told() -> None:
    outcome = judge("REF007", run_of(ratio_mean=[2.0] * 12, kl_old_token=[0.2] * 12))
    assert isinstance(outcome, list)
    assert [item.severity for item in outcome] == ["warning", "info"]


@pytest.mark.parametrize(
    "run",
    [
        pytest.param(run_of(steps=range(10, 22), ratio_mean=[2.0] * 12), id="it begins later"),
        pytest.param(replace(SICK[0], step_unit="row"), id="rows that had to be numbered"),
        pytest.param(run_of(ratio_mean=[0.0] * 12), id="zeros: never computed"),
        pytest.param(run_of(kl_old_response=[9.0] * 12), id="another unit"),
    ],
)
def test_another_beginning_is_not_judged(run: Run) -> None:
    assert skipped("REF007", run)


def test_exact_zeros_of_a_kl_are_as_they_should_be() -> None:
    assert clear("REF007", run_of(kl_old_token=[0.0] * 12))


@pytest.mark.parametrize(
    ("run", "limits"),
    [
        pytest.param(0, {"high": 2.5}, id="high"),
        pytest.param(1, {"kl": 0.3}, id="kl"),
    ],
)
def test_the_limits_can_be_set(run: int, limits: dict[str, Any]) -> None:
    assert clear("REF007", SICK[run], **limits)
