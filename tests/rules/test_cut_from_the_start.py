import pytest

from tests.builders import clear, judge, only, run_of, skipped
from tests.rules.shapes import NAN, halves, logged

SICK = (run_of(truncation_rate=[0.9] * 12),)


@pytest.mark.parametrize(
    ("start", "found"),
    [
        pytest.param(0.24, False, id="less than a quarter at the start: it exploded"),
        pytest.param(0.25, True, id="a quarter at the start: the limit is low"),
        pytest.param(0.9, True, id="most from the start: the limit is too low"),
    ],
)
def test_what_was_cut_from_the_start_is_a_warning(start: float, found: bool) -> None:
    run = run_of(truncation_rate=[start] * 10 + [0.9] * 10)
    assert clear("LEN009", run) is not found
    if found:
        assert only("LEN009", run).severity == "warning"


@pytest.mark.parametrize(
    ("level", "alarms"),
    [
        pytest.param(0.5, False, id="half of the responses itself is not above it"),
        pytest.param(0.51, True, id="just more than half of the responses"),
        pytest.param(NAN, False, id="NaN is never above"),
    ],
)
def test_most_responses_are_cut(level: float, alarms: bool) -> None:
    assert clear("LEN009", run_of(truncation_rate=[0.4] * 10 + [level] * 6)) is not alarms


@pytest.mark.parametrize(
    ("rows_above", "alarms"),
    [
        pytest.param(4, False, id="four rows above the share are patience"),
        pytest.param(5, True, id="five rows above the share are an alarm"),
    ],
)
def test_patience_counts_consecutive_rows(rows_above: int, alarms: bool) -> None:
    run = run_of(truncation_rate=[0.4] * 10 + [0.9] * rows_above)
    assert clear("LEN009", run) is not alarms


def test_the_evidence_is_the_column() -> None:
    finding = only("LEN009", run_of(truncation_rate=[0.9] * 12))
    assert logged(finding.evidence[0], "truncation_rate", "fraction")
    assert finding.evidence[0].limit_high == 0.5
    assert finding.onset is not None
    assert finding.onset.step == 1
    assert "90% in the first rows" in finding.message
    assert skipped("LEN009", run_of(clip_frac=[0.9] * 12))
    assert skipped("LEN009", run_of(truncation_rate=[NAN] * 12))
    assert clear("LEN009", run_of(truncation_rate=[0.0] * 12))


def test_the_limits_can_be_set() -> None:
    run = run_of(truncation_rate=[0.3] * 10 + [0.45] * 6)
    assert clear("LEN009", run)
    assert not clear("LEN009", run, share=0.4)
    assert clear("LEN009", run, share=0.4, patience=7)
    assert clear("LEN009", run, share=0.4, start=0.35)


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
    assert only("LEN009", run).severity == severity


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
    assert skipped("LEN009", run) is not found
    if found:
        finding = only("LEN009", run)
        assert finding.severity == "warning"
        assert finding.evidence[0].limit_high == 0.95
        assert finding.onset is not None
        assert finding.onset.step == 1
        assert f"for {len(cut)} logged rows" in finding.message
        assert judge("LEN009", run, patience=len(cut))


def test_the_share_of_a_short_log_can_be_set() -> None:
    run = run_of(truncation_rate=[0.9, 0.9], reward_raw_mean=[0.0, 0.0])
    assert skipped("LEN009", run)
    assert judge("LEN009", run, nearly_all=0.9)
