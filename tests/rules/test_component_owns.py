from collections.abc import Sequence

import pytest

from rlhfdoctor.model import Run
from tests.builders import Values, clear, judge, only, run_of, skipped
from tests.rules.shapes import NAN, halves, log_of, logged

UP = [0.1, 0.2] * 10 + [0.9, 1.0] * 10
LOST = [0.5, 0.6] * 10 + [0.0, 0.02] * 10
RARE = [0.0, 0.004] * 20


def parts(*columns: Values, total: Values | None = None, names: Sequence[str] = "abc") -> Run:
    """Return a run whose reward is the sum of these parts, or ``total``."""
    summed = [sum(value or 0.0 for value in row) for row in zip(*columns, strict=True)]
    named = {
        f"reward_component_mean[{name}]": column
        for name, column in zip(names, columns, strict=False)
    }
    return log_of(named, reward_raw_mean=summed if total is None else total)


SICK = (parts(UP, RARE, total=UP),)


def test_a_part_that_is_lost_while_another_carries_the_reward_up() -> None:
    finding = only("RWD005", parts([2 * value for value in UP], LOST))
    assert finding.severity == "warning"
    assert logged(finding.evidence[0], "reward_component_mean[a]", "reward")
    assert logged(finding.evidence[1], "reward_component_mean[b]", "reward")
    assert "by a alone; b is lost (0.55 -> 0.01)" in finding.message
    assert "reward up by a alone" in finding.summary
    assert finding.onset is not None
    assert 19 <= finding.onset.step <= 22


def test_a_part_that_is_lost_is_dated_where_it_has_lost_half_for_good() -> None:
    """A noisy part is below half of its level now and then long before it is lost."""
    noisy = [0.5, 0.1, 0.6, 0.5, 0.7, 0.55, 0.2, 0.6, 0.5, 0.45] * 3
    up = [0.2, 0.3] * 15 + [2.0, 2.1] * 15
    finding = only("RWD005", parts(up, noisy + [0.02, 0.01] * 15))
    assert finding.severity == "warning"
    assert finding.onset is not None
    assert finding.onset.low <= 31 <= finding.onset.high
    assert 28 <= finding.onset.step <= 32


def test_a_part_that_is_not_learnt_is_dated_where_the_other_rises() -> None:
    up = [0.1, 0.12] * 10 + [0.2 + 0.05 * row for row in range(20)]
    finding = only("RWD005", parts(up, RARE, total=up))
    assert finding.onset is not None
    assert 18 <= finding.onset.step <= 24


@pytest.mark.parametrize(
    ("names", "said"),
    [
        pytest.param(("format", "accuracy"), "by format alone; accuracy is lost", id="as meant"),
        pytest.param(("accuracy", "format"), "by accuracy alone; format is lost", id="swapped"),
        pytest.param(("x", "y"), "by x alone; y is lost", id="without meaning"),
    ],
)
def test_names_of_parts_change_no_verdict(names: tuple[str, str], said: str) -> None:
    finding = only("RWD005", parts([2 * value for value in UP], LOST, names=names))
    assert finding.severity == "warning"
    assert said in finding.message


@pytest.mark.parametrize(
    ("level", "found"),
    [
        pytest.param(0.04, True, id="less than a tenth is left"),
        pytest.param(0.06, False, id="more than a tenth is left"),
    ],
)
def test_lost_means_below_a_tenth(level: float, found: bool) -> None:
    other = [0.5] * 20 + [level] * 20
    assert clear("RWD005", parts([3 * value for value in UP], other)) is not found


@pytest.mark.parametrize(
    ("level", "found"),
    [
        pytest.param(0.11, True, id="more than a tenth of the reward"),
        pytest.param(0.09, False, id="less than a tenth of the reward"),
    ],
)
def test_what_is_lost_had_a_share_of_the_reward(level: float, found: bool) -> None:
    other = [level] * 20 + [0.001, 0.0] * 2 + [0.0] * 16
    total = [1.0, 1.02] * 10 + [2.0, 2.02] * 10
    run = parts(UP, [*other[:20], *[0.0005 * (row % 2) for row in range(20)]], total=total)
    outcome = judge("RWD005", run)
    assert isinstance(outcome, list)
    assert bool(outcome) is found


@pytest.mark.parametrize(
    ("spread", "found"),
    [
        pytest.param(0.24, True, id="more than two standard deviations"),
        pytest.param(0.30, False, id="less than two standard deviations"),
    ],
)
def test_the_loss_must_exceed_the_spread_of_the_rows(spread: float, found: bool) -> None:
    wobble = [spread, -spread] * 40
    other = [0.53 + value for value in wobble] + [value * 1.0 for value in wobble]
    outcome = judge("RWD005", parts([1.0, 1.1] * 40 + [9.0, 9.1] * 40, other))
    assert isinstance(outcome, list)
    assert bool(outcome) is found


@pytest.mark.parametrize(
    ("spread", "found"),
    [
        pytest.param(0.16, True, id="more than four standard errors"),
        pytest.param(0.22, False, id="less than four standard errors"),
    ],
)
def test_in_few_rows_the_loss_must_exceed_the_noise(spread: float, found: bool) -> None:
    wobble = [spread, -spread, 0.0, spread, -spread]
    other = [0.5 + value for value in wobble] + [value * 1.0 for value in wobble]
    outcome = judge("RWD005", parts([0.1, 0.2] * 2 + [0.1] + [9.0, 9.1] * 2 + [9.0], other))
    assert isinstance(outcome, list)
    assert bool(outcome) is found


def test_a_penalty_that_grows_is_not_lost() -> None:
    assert clear("RWD005", parts([3 * value for value in UP], [-0.1] * 20 + [-0.5] * 20))


@pytest.mark.parametrize(
    ("total", "severity"),
    [
        pytest.param(UP, "warning", id="the reward is the owner, whatever the other does"),
        pytest.param([2 * value for value in UP], "warning", id="the reward is twice the owner"),
        pytest.param(None, "info", id="the other is paid too: it may come later"),
    ],
)
def test_a_part_that_is_hardly_ever_earned_and_not_paid(
    total: list[float] | None, severity: str
) -> None:
    finding = only("RWD005", parts(UP, RARE, total=total))
    assert finding.severity == severity
    assert "b is not learnt" in finding.message


@pytest.mark.parametrize(
    ("off", "severity"),
    [
        pytest.param(0.7e-4, "warning", id="by less than a ten-thousandth is rounding"),
        pytest.param(1.9e-4, "info", id="by more is another reward"),
    ],
)
def test_the_reward_may_differ_from_the_owner(off: float, severity: str) -> None:
    total = [value + (off if row == 5 else 0.0) for row, value in enumerate(UP)]
    assert only("RWD005", parts(UP, RARE, total=total)).severity == severity


@pytest.mark.parametrize(
    ("level", "found"),
    [
        pytest.param(0.04, True, id="less than a twentieth of the owner"),
        pytest.param(0.06, False, id="more than a twentieth of the owner"),
    ],
)
def test_not_learnt_means_below_a_twentieth_of_the_owner(level: float, found: bool) -> None:
    rare = [level * 0.94, level * 0.95] * 20
    assert clear("RWD005", parts(UP, rare, total=UP)) is not found


@pytest.mark.parametrize(
    ("errors", "found"),
    [
        pytest.param(1.9, True, id="nothing hints at a rise"),
        pytest.param(2.1, False, id="it may be learnt after all"),
    ],
)
def test_a_hint_of_a_rise_is_enough(errors: float, found: bool) -> None:
    rare = halves(errors, rows=20, centre=0.01, spread=0.001)
    assert clear("RWD005", parts(UP, rare, total=UP)) is not found


def test_negative_parts_are_penalties_and_not_to_be_learnt() -> None:
    assert clear("RWD005", parts(UP, [-value for value in RARE], total=UP))


@pytest.mark.parametrize(
    ("rows", "severity"),
    [
        pytest.param(18, "info", id="nineteen rows and fewer are early"),
        pytest.param(20, "warning", id="twenty rows are not"),
    ],
)
def test_what_is_not_learnt_yet_may_come(rows: int, severity: str) -> None:
    half = rows // 2
    up = [0.1 + 0.01 * (row % 2) for row in range(half)] + [
        0.9 + 0.01 * (row % 2) for row in range(half)
    ]
    assert only("RWD005", parts(up, RARE[:rows], total=up)).severity == severity


def test_exact_zeros_are_information() -> None:
    finding = only("RWD005", parts(UP, [0.0] * 40))
    assert finding.severity == "info"
    assert "never paid anything" in finding.message


def test_a_third_part_that_rises_shows_that_the_reward_pays_more_than_one() -> None:
    total = [2 * value for value in UP]
    half = [value / 2 for value in UP]
    assert only("RWD005", parts(UP, RARE, half, total=total)).severity == "info"


def test_a_third_part_that_is_the_owner_less_the_other_is_no_witness() -> None:
    less = [a - b for a, b in zip(UP, RARE, strict=True)]
    assert only("RWD005", parts(UP, RARE, less, total=UP)).severity == "warning"


def test_a_reward_that_does_not_rise_is_clear() -> None:
    assert clear("RWD005", parts([0.5, 0.6] * 20, RARE))
    assert clear("RWD005", parts(UP[::-1], RARE))


def test_parts_that_are_all_learnt_are_clear() -> None:
    assert clear("RWD005", parts(UP, [0.2, 0.3] * 10 + [0.6, 0.7] * 10))


def test_two_parts_and_a_reward_are_needed() -> None:
    assert skipped("RWD005", parts(UP))
    assert skipped("RWD005", parts(UP, [NAN] * 40))
    assert skipped(
        "RWD005", log_of({"reward_component_mean[a]": UP, "reward_component_mean[b]": UP})
    )
    assert skipped("RWD005", run_of(reward_raw_mean=UP))
    assert skipped("RWD005", parts(UP[16:25], LOST[16:25]))


def test_parts_that_are_logged_now_and_then_are_not_enough() -> None:
    seldom: Values = [value if row % 5 == 0 else None for row, value in enumerate(RARE)]
    assert skipped("RWD005", parts(UP, seldom, total=UP))
    assert judge("RWD005", parts(UP, seldom, total=UP), rows=16)


def test_the_limits_can_be_set() -> None:
    lost = parts([3 * value for value in UP], [0.5] * 20 + [0.2] * 20)
    assert clear("RWD005", lost)
    assert only("RWD005", lost, lost=0.5).severity == "warning"
    rare = parts(UP, RARE, total=UP)
    assert clear("RWD005", rare, dead=0.001)
    assert clear("RWD005", rare, effect=99.0)
    assert clear("RWD005", rare, standard_errors=99.0)
    assert only("RWD005", rare, rows=41).severity == "info"
    assert clear("RWD005", parts(UP, halves(1.0, rows=20, centre=0.01, spread=0.001)), hint=0.5)
