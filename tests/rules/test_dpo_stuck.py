import math

import pytest

from tests.builders import clear, only, run_of, skipped
from tests.rules.shapes import NAN, logged, silent

LN2 = math.log(2)


@pytest.mark.parametrize(
    ("away", "stuck"),
    [
        pytest.param(4.9e-4, True, id="just above ln 2 is ln 2"),
        pytest.param(-4.9e-4, True, id="just below ln 2 is ln 2"),
        pytest.param(5.1e-4, False, id="farther above has moved"),
        pytest.param(-5.1e-4, False, id="farther below has moved"),
    ],
)
def test_stuck_means_within_the_tolerance_of_ln_2(away: float, stuck: bool) -> None:
    run = run_of(loss_total=[LN2 + away] * 12, dpo_margin=[0.0] * 12)
    assert clear("UPD002", run) is not stuck


@pytest.mark.parametrize(
    ("losses", "stuck"),
    [
        pytest.param([LN2] * 9 + [NAN], False, id="nine finite losses are too few"),
        pytest.param([LN2] * 10, True, id="ten finite losses are enough"),
        pytest.param([LN2] * 10 + [NAN] * 5, True, id="NaN is neither stuck nor moved"),
    ],
)
def test_ten_rows_of_loss_are_needed(losses: list[float], stuck: bool) -> None:
    run = run_of(loss_total=losses, dpo_margin=[0.0] * len(losses))
    assert skipped("UPD002", run) is not stuck
    assert silent("UPD002", run) is not stuck


@pytest.mark.parametrize(
    ("margins", "stuck"),
    [
        pytest.param([NAN] * 12, False, id="NaN is no margin of zero"),
        pytest.param([0.0] + [NAN] * 11, False, id="one margin does not speak for all rows"),
        pytest.param([0.0] * 9 + [NAN] * 3, False, id="nine finite margins are too few"),
        pytest.param([0.0] * 10 + [NAN] * 2, True, id="ten finite margins are enough"),
    ],
)
def test_ten_rows_of_margins_are_needed(margins: list[float], stuck: bool) -> None:
    run = run_of(loss_total=[LN2] * 12, dpo_margin=margins)
    assert skipped("UPD002", run) is not stuck
    assert silent("UPD002", run) is not stuck


def test_it_stands_alone_and_from_the_first_step() -> None:
    run = run_of(
        steps=range(5, 65, 5),
        loss_total=[LN2] * 12,
        dpo_margin=[0.0] * 12,
    )
    finding = only("UPD002", run)
    assert finding.severity == "critical"
    assert finding.alone
    assert finding.onset is not None
    assert (finding.onset.low, finding.onset.step, finding.onset.high) == (5, 5, 5)
    assert logged(finding.evidence[0], "loss_total", "loss")
    assert logged(finding.evidence[1], "dpo_margin", "nats*beta")
    assert finding.evidence[0].last_step == 60
    assert "all 12 logged rows" in finding.message
    assert "stuck at ln 2" in finding.summary


@pytest.mark.parametrize(
    ("losses", "margins"),
    [
        pytest.param([LN2] * 12, [0.0] * 11 + [1e-6], id="a tiny margin is a slow start"),
        pytest.param([LN2] * 12, [0.0] * 11 + [-1e-6], id="a tiny negative margin too"),
        pytest.param([LN2] * 11 + [0.5], [0.0] * 12, id="one row of another loss"),
        pytest.param([LN2] * 6 + [0.3] * 6, [0.0] * 6 + [1.0] * 6, id="a start that got going"),
        pytest.param([0.0] * 12, [0.0] * 12, id="a loss of zero is not ln 2"),
    ],
)
def test_whatever_moved_is_not_stuck(losses: list[float], margins: list[float]) -> None:
    assert silent("UPD002", run_of(loss_total=losses, dpo_margin=margins))


@pytest.mark.parametrize(
    ("away", "rows", "planned", "slow"),
    [
        pytest.param(0.0019, 20, None, True, id="just within two thousandths of ln 2"),
        pytest.param(-0.0019, 20, None, True, id="likewise below"),
        pytest.param(0.0021, 20, None, False, id="just beyond two thousandths"),
        pytest.param(-0.0021, 20, None, False, id="a loss that fell"),
        pytest.param(0.0, 19, None, False, id="nineteen rows are a start"),
        pytest.param(0.0, 20, 40, True, id="half of the planned steps"),
        pytest.param(0.0, 20, 41, False, id="less than half of the planned steps"),
    ],
)
def test_a_start_that_stays_slow_is_information(
    away: float, rows: int, planned: int | None, slow: bool
) -> None:
    run = run_of(
        loss_total=[LN2] * (rows - 1) + [LN2 + away],
        dpo_margin=[1e-4] * (rows - 1) + [-5e-4],
        config={"planned_steps": planned} if planned else None,
    )
    assert clear("UPD002", run) is not slow
    if slow:
        finding = only("UPD002", run)
        assert finding.severity == "info"
        assert "no margin is larger than 0.0005 in all 20 logged rows" in finding.message
        assert "hardly anything was learnt yet; is the learning rate too low?" in finding.message
        assert logged(finding.evidence[1], "dpo_margin", "nats*beta")


def test_loss_and_margin_are_both_needed() -> None:
    assert skipped("UPD002", run_of(loss_total=[LN2] * 12))
    assert skipped("UPD002", run_of(dpo_margin=[0.0] * 12))
    assert skipped("UPD002", run_of(loss_total=[NAN] * 12, dpo_margin=[0.0] * 12))
    assert skipped("UPD002", run_of(policy_loss=[LN2] * 12, dpo_reward_chosen=[0.0] * 12))


@pytest.mark.parametrize(
    ("rows", "looks"),
    [
        pytest.param(9, False, id="nine logged rows are too few to look"),
        pytest.param(10, True, id="ten logged rows are enough to look"),
    ],
)
def test_a_short_log_is_not_judged(rows: int, looks: bool) -> None:
    run = run_of(loss_total=[LN2] * rows, dpo_margin=[0.0] * rows)
    assert skipped("UPD002", run) is not looks


@pytest.mark.parametrize(
    ("rows", "rates", "severity"),
    [
        pytest.param(2, [1e-6] * 2, None, id="two rows are too few"),
        pytest.param(3, [1e-6] * 3, "warning", id="three rows of a constant rate"),
        pytest.param(3, [3e-6, 2e-6, 1e-6], "warning", id="three rows of a rate that falls"),
        pytest.param(9, [1e-7] * 6 + [1e-6] * 3, "warning", id="nine rows, three past a warm-up"),
        pytest.param(9, [1e-7] * 7 + [1e-6] * 2, None, id="nine rows, two past a warm-up"),
        pytest.param(3, [1e-7, 2e-7, 3e-7], None, id="a rate that rises warms up"),
        pytest.param(3, [0.0] * 3, None, id="a rate of zero updates nothing"),
        pytest.param(3, [NAN] * 3, None, id="a rate of NaN is none"),
        pytest.param(10, [0.0] * 10, "critical", id="ten rows need no rate"),
    ],
)
def test_past_the_warm_up_three_rows_are_a_warning(
    rows: int, rates: list[float], severity: str | None
) -> None:
    run = run_of(loss_total=[LN2] * rows, dpo_margin=[0.0] * rows, lr=rates)
    assert silent("UPD002", run) is (severity is None)
    if severity:
        finding = only("UPD002", run)
        assert finding.severity == severity
        assert finding.alone is (severity == "critical")


def test_the_limits_can_be_set() -> None:
    run = run_of(loss_total=[LN2 + 0.002] * 12, dpo_margin=[0.0] * 12)
    assert clear("UPD002", run)
    assert not clear("UPD002", run, tolerance=0.003)
    assert silent("UPD002", run, tolerance=0.003, rows=13)
    start = run_of(loss_total=[LN2 + 0.001] * 25, dpo_margin=[1e-4] * 25)
    assert only("UPD002", start, many=25).severity == "info"
    assert silent("UPD002", start, many=26)
    assert silent("UPD002", start, slow=9e-4)
    short = run_of(loss_total=[LN2] * 20, dpo_margin=[0.0] * 12 + [NAN] * 8)
    assert not clear("UPD002", short, rows=12)
    assert silent("UPD002", short, rows=13)
    warm = run_of(loss_total=[LN2] * 4, dpo_margin=[0.0] * 4, lr=[1e-6] * 4)
    assert only("UPD002", warm, few=4)
    assert silent("UPD002", warm, few=5)
