import pytest

from tests.builders import clear, judge, only, run_of, skipped
from tests.rules.shapes import NAN, halves, log_of, logged

FEW = [0.02] * 10


@pytest.mark.parametrize(
    ("level", "alarms"),
    [
        pytest.param(0.5, False, id="half of the responses itself is not above it"),
        pytest.param(0.51, True, id="just more than half of the responses"),
        pytest.param(NAN, False, id="NaN is never above"),
    ],
)
def test_most_responses_are_cut(level: float, alarms: bool) -> None:
    assert clear("LEN003", run_of(truncation_rate=FEW + [level] * 6)) is not alarms


@pytest.mark.parametrize(
    ("rows_above", "alarms"),
    [
        pytest.param(4, False, id="four rows above the share are patience"),
        pytest.param(5, True, id="five rows above the share are an alarm"),
    ],
)
def test_patience_counts_consecutive_rows(rows_above: int, alarms: bool) -> None:
    assert clear("LEN003", run_of(truncation_rate=FEW + [0.9] * rows_above)) is not alarms


@pytest.mark.parametrize(
    ("start", "severity"),
    [
        pytest.param(0.24, "critical", id="less than a quarter at the start: it exploded"),
        pytest.param(0.25, "warning", id="a quarter at the start: the limit is low"),
        pytest.param(0.9, "warning", id="most from the start: the limit is too low"),
    ],
)
def test_what_was_cut_from_the_start_is_a_warning(start: float, severity: str) -> None:
    run = run_of(truncation_rate=[start] * 10 + [0.9] * 10)
    assert only("LEN003", run).severity == severity


def test_an_explosion_is_dated_where_it_begins() -> None:
    rising = [min(0.02 + 0.08 * index, 1.0) for index in range(1, 21)]
    finding = only("LEN003", run_of(truncation_rate=[0.02] * 20 + rising))
    assert finding.severity == "critical"
    assert finding.onset is not None
    assert 19 <= finding.onset.step <= 21
    assert finding.onset.low <= finding.onset.step <= finding.onset.high
    assert logged(finding.evidence[0], "truncation_rate", "fraction")
    assert finding.evidence[0].limit_high == 0.5
    assert "100% of the responses are cut" in finding.message
    assert "(2% at the start)" in finding.message
    assert "100% of responses" in finding.summary


def test_a_stretch_that_recovers_is_information() -> None:
    finding = only("LEN003", run_of(truncation_rate=FEW + [0.9] * 6 + FEW))
    assert finding.severity == "info"
    assert finding.recovered_at == 17


def test_zeros_mean_that_no_response_was_cut() -> None:
    assert clear("LEN003", run_of(truncation_rate=[0.0] * 20))


def test_nan_throughout_is_not_judged() -> None:
    assert skipped("LEN003", run_of(truncation_rate=[NAN] * 20))


@pytest.mark.parametrize(
    ("rows", "looks"),
    [
        pytest.param(4, False, id="four rows are too few"),
        pytest.param(5, True, id="five rows are enough"),
    ],
)
def test_five_rows_are_needed(rows: int, looks: bool) -> None:
    assert skipped("LEN003", run_of(truncation_rate=[0.9] * rows)) is not looks


@pytest.mark.parametrize(
    "column",
    [
        pytest.param("clip_frac", id="clipped ratios are not cut responses"),
        pytest.param("eval_truncation_rate", id="evaluation is not training"),
    ],
)
def test_another_fraction_is_never_judged(column: str) -> None:
    assert skipped("LEN003", log_of({column: FEW + [0.9] * 10}))


def test_the_limits_can_be_set() -> None:
    run = run_of(truncation_rate=FEW + [0.4] * 6)
    assert clear("LEN003", run)
    assert judge("LEN003", run, share=0.3)
    assert clear("LEN003", run, share=0.3, patience=7)
    assert only("LEN003", run, share=0.3, start=0.01).severity == "warning"


@pytest.mark.parametrize(
    ("errors", "severity"),
    [
        pytest.param(3.9, "warning", id="a reward that may not have risen excuses nothing"),
        pytest.param(4.1, "info", id="a reward that rises: the limit may be the task's"),
    ],
)
def test_texts_that_fill_the_limit_and_earn_by_it_are_information(
    errors: float, severity: str
) -> None:
    reward = halves(errors, centre=50.0)
    run = run_of(truncation_rate=[1.0] * len(reward), reward_raw_mean=reward)
    assert only("LEN003", run).severity == severity


def test_a_rising_reward_does_not_excuse_an_explosion() -> None:
    reward = halves(9.0, centre=50.0)
    run = run_of(truncation_rate=[0.02] * 10 + [1.0] * 10, reward_raw_mean=reward)
    assert only("LEN003", run).severity == "critical"


@pytest.mark.parametrize(
    ("cut", "reward", "found"),
    [
        pytest.param([0.97, 0.99], [0.0, 0.0], True, id="two rows of it are proof"),
        pytest.param([0.95, 1.0, 0.97, 0.99], [-0.1] * 4, True, id="four rows of a failing reward"),
        pytest.param([0.94, 1.0, 1.0], [0.0] * 3, False, id="a row with fewer cut is none"),
        pytest.param([0.99, 0.99], [0.0, 0.1], False, id="something was earned"),
        pytest.param([0.99, 0.99], [0.5, 0.5], False, id="the same reward, but a reward"),
        pytest.param([0.99, 0.99], [-0.2, -0.1], False, id="the failures differ"),
        pytest.param([0.99, 0.99], [0.0, NAN], False, id="one row without a reward"),
    ],
)
def test_a_short_log_is_judged_where_all_is_cut_and_nothing_earned(
    cut: list[float], reward: list[float], found: bool
) -> None:
    run = run_of(truncation_rate=cut, reward_raw_mean=reward)
    assert skipped("LEN003", run) is not found
    if found:
        finding = only("LEN003", run)
        assert finding.severity == "warning"
        assert finding.evidence[0].limit_high == 0.95
        assert finding.onset is not None
        assert finding.onset.step == 1
        assert f"for {len(cut)} logged rows" in finding.message
        assert judge("LEN003", run, patience=len(cut))


def test_the_share_of_a_short_log_can_be_set() -> None:
    run = run_of(truncation_rate=[0.9, 0.9], reward_raw_mean=[0.0, 0.0])
    assert skipped("LEN003", run)
    assert judge("LEN003", run, nearly_all=0.9)
