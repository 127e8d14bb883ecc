from dataclasses import replace

import pytest

from rlhfdoctor.model import Run
from tests.builders import Values, clear, judge, only, run_of, skipped
from tests.rules.shapes import NAN, log_of, logged

DECAY = [1e-5 * (40 - index) / 40 for index in range(40)]
ANEW = [*DECAY, 1e-5, 9e-6, 8e-6]
SICK = (run_of(lr=DECAY + [-1e-6] * 4), run_of(lr=DECAY + [0.0] * 20), run_of(lr=ANEW))


def printed(rates: Values) -> Run:
    """The same log, read from a console."""
    run = run_of(lr=rates)
    return replace(run, columns={"lr": replace(run.columns["lr"], printed=True)})


def severities(run: Run, **limits: float) -> list[str]:
    outcome = judge("OPT006", run, **limits)
    assert isinstance(outcome, list)
    return [finding.severity for finding in outcome]


@pytest.mark.parametrize(
    ("rate", "expected"),
    [
        pytest.param(-1.1e-8, ["warning"], id="below zero by more than a thousandth of the peak"),
        pytest.param(-0.9e-8, [], id="below zero by rounding"),
        pytest.param(NAN, [], id="NaN is not negative"),
    ],
)
def test_a_negative_rate_undoes_what_was_learnt(rate: float, expected: list[str]) -> None:
    assert severities(run_of(lr=[*DECAY, rate])) == expected


def test_one_negative_row_proves_it() -> None:
    finding = only("OPT006", run_of(lr=[-1e-6]))
    assert finding.severity == "warning"
    assert finding.summary == "learning rate is negative"


@pytest.mark.parametrize(
    ("before", "zeros", "expected"),
    [
        pytest.param(20, 9, [], id="nine rows of zero"),
        pytest.param(20, 10, ["warning"], id="ten rows of zero"),
        pytest.param(80, 19, [], id="less than a fifth of the rows"),
        pytest.param(80, 20, ["warning"], id="a fifth of the rows"),
    ],
)
def test_a_schedule_that_ended_early(before: int, zeros: int, expected: list[str]) -> None:
    assert severities(run_of(lr=[1e-5] * before + [0.0] * zeros)) == expected


def test_it_is_dated_and_can_be_looked_up() -> None:
    finding = only("OPT006", run_of(steps=range(10, 610, 10), lr=DECAY + [0.0] * 20))
    assert finding.onset is not None
    assert (finding.onset.low, finding.onset.step, finding.onset.high) == (401, 410, 410)
    assert logged(finding.evidence[0], "lr", "1/step")
    assert "is 0 to the end: 1e-05 before, 0 in 20 of 60 logged rows" in finding.message


@pytest.mark.parametrize(
    "rates",
    [
        pytest.param([0.0, *DECAY, 0.0], id="a warm-up from zero and a decay to zero"),
        pytest.param([0.0] * 20 + DECAY, id="zeros at first"),
        pytest.param([*DECAY[:10], *[0.0] * 15, *DECAY[10:]], id="zeros in between"),
        pytest.param([1e-7 * index for index in range(40)], id="a long warm-up"),
        pytest.param([1e-5] * 40, id="a constant"),
        pytest.param([*DECAY, *[1e-9] * 20], id="a floor above zero"),
    ],
)
def test_sound_schedules_are_clear(rates: list[float]) -> None:
    assert clear("OPT006", run_of(lr=rates))


def test_zeros_of_a_console_may_be_rounded() -> None:
    assert clear("OPT006", printed(DECAY + [0.0] * 20))


@pytest.mark.parametrize(
    ("rates", "expected"),
    [
        pytest.param([1.0, 0.5, 2.6], ["info"], id="five times the rate after it fell by half"),
        pytest.param([1.0, 0.5, 2.4], [], id="less than five times"),
        pytest.param([1.0, 0.6, 3.1], [], id="it had not yet fallen by half"),
        pytest.param([0.001, 0.01, 0.1, 1.0], [], id="a steep warm-up"),
        pytest.param([1.0, 0.0, 1.0], [], id="from zero nothing can be told"),
    ],
)
def test_a_schedule_that_began_anew_is_information(rates: list[float], expected: list[str]) -> None:
    assert severities(run_of(lr=rates)) == expected


def test_zeros_throughout_are_another_rules() -> None:
    assert skipped("OPT006", run_of(lr=[0.0] * 40))


def test_another_rate_is_never_judged() -> None:
    assert skipped("OPT006", log_of({"lr_critic": [-1.0] * 20}))


def test_the_limits_can_be_set() -> None:
    assert severities(run_of(lr=[*DECAY, -0.5e-8]), negligible=1e-4) == ["warning"]
    run = run_of(lr=[1e-5] * 80 + [0.0] * 10)
    assert severities(run) == []
    assert severities(run, share=0.1) == ["warning"]
    assert severities(run, share=0.1, rows=11) == []
    assert severities(run_of(lr=[1.0, 0.5, 2.0]), jump=4.0) == ["info"]
    assert severities(run_of(lr=[1.0, 0.7, 4.0]), fallen=0.8) == ["info"]
