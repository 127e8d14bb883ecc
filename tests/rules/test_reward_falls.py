import pytest

from tests.builders import clear, judge, only, run_of, skipped
from tests.rules.shapes import NAN, halves, log_of, logged

SICK = (run_of(reward_raw_mean=[0.8, 0.9] * 10 + [0.3, 0.4] * 10),)


def falling(effect: float, *, rows: int = 20, level: float = 10.0) -> list[float]:
    """Return rows of which the last fifth lies so many standard deviations below the others."""
    spread = (rows / (rows - 1)) ** 0.5
    wobble = [1.0, -1.0] * (rows // 2)
    return [level + value for _ in range(4) for value in wobble] + [
        level - effect * spread + value for value in wobble
    ]


@pytest.mark.parametrize(
    ("effect", "rows", "found"),
    [
        pytest.param(0.9, 100, False, id="less than one standard deviation, however sure"),
        pytest.param(1.1, 100, True, id="more than one standard deviation"),
        pytest.param(1.2, 20, False, id="less than four standard errors"),
        pytest.param(1.35, 20, True, id="more than four standard errors"),
    ],
)
def test_a_fall_is_sure_and_as_large_as_the_noise(effect: float, rows: int, found: bool) -> None:
    run = run_of(reward_raw_mean=falling(effect, rows=rows))
    assert clear("RWD008", run) is not found


@pytest.mark.parametrize(
    ("effect", "severity"),
    [
        pytest.param(1.9, "info", id="less than two standard deviations"),
        pytest.param(2.1, "critical", id="more than two standard deviations"),
    ],
)
def test_two_standard_deviations_are_a_fault(effect: float, severity: str) -> None:
    finding = only("RWD008", run_of(reward_raw_mean=falling(effect, rows=40, level=2.0)))
    assert finding.severity == severity
    assert finding.weak == "warning"


@pytest.mark.parametrize(
    ("level", "severity"),
    [
        pytest.param(0.81, "info", id="less than a fifth of the level is lost"),
        pytest.param(0.79, "critical", id="more than a fifth of the level is lost"),
    ],
)
def test_a_small_loss_is_none_however_smooth_the_reward(level: float, severity: str) -> None:
    run = run_of(reward_raw_mean=[1.0] * 40 + [level] * 10)
    assert only("RWD008", run).severity == severity


@pytest.mark.parametrize(
    ("level", "severity"),
    [
        pytest.param(0.61, "info", id="less than half of what was gained is lost"),
        pytest.param(0.59, "critical", id="more than half of what was gained is lost"),
        pytest.param(0.1, "critical", id="less is left than there was"),
    ],
)
def test_half_of_what_was_gained_must_be_lost(level: float, severity: str) -> None:
    reward = [0.2] * 10 + [0.5] * 10 + [1.0] * 20 + [level] * 10
    run = run_of(reward_raw_mean=reward, entropy=[0.5] * 40 + [5.0] * 10)
    assert only("RWD008", run).severity == severity


HARDER = [0.5] * 10 + [0.7] * 10 + [0.9] * 10 + [0.6] * 10 + [0.5] * 10
"""A reward that falls back to its start: harder prompts, or a policy that got worse."""


HIGH = [9.0] * 20
LATE = [0.3] * 35 + [0.6] * 15
"""Held-out scores: before the best reward, so high that no later one is the best; and one that has
its best at the end."""


def test_a_fall_that_nothing_else_goes_with_may_be_the_prompts() -> None:
    finding = only("RWD008", run_of(reward_raw_mean=HARDER, entropy=[0.5, 0.4] * 25))
    assert finding.severity == "info"
    assert "nothing else that is logged moved" in finding.message


@pytest.mark.parametrize(
    ("level", "severity"),
    [
        pytest.param(0.41, "info", id="less than a fifth below the start"),
        pytest.param(0.39, "critical", id="more than a fifth below the start"),
    ],
)
def test_a_reward_that_ends_below_its_start_is_worse(level: float, severity: str) -> None:
    run = run_of(reward_raw_mean=[0.5] * 10 + [0.7] * 10 + [0.9] * 20 + [level] * 10)
    assert only("RWD008", run).severity == severity


@pytest.mark.parametrize(
    ("level", "severity"),
    [
        pytest.param(0.26, "info", id="more than a quarter is left"),
        pytest.param(0.24, "critical", id="less than a quarter is left"),
    ],
)
def test_three_quarters_are_lost_to_no_change_of_prompts(level: float, severity: str) -> None:
    run = run_of(reward_raw_mean=[0.1] * 10 + [0.4] * 10 + [1.0] * 20 + [level] * 10)
    assert only("RWD008", run).severity == severity


@pytest.mark.parametrize(
    ("metric", "before", "after", "severity"),
    [
        pytest.param("entropy", 0.5, 1.4, "info", id="entropy less than three times"),
        pytest.param("entropy", 0.5, 1.6, "critical", id="entropy more than three times"),
        pytest.param("entropy", 0.5, 0.16, "critical", id="entropy below a third"),
        pytest.param("entropy_unknown", 0.5, 0.16, "critical", id="entropy of some unit"),
        pytest.param("response_length_mean", 300.0, 1000.0, "critical", id="longer answers"),
        pytest.param("response_length_mean", 300.0, 90.0, "critical", id="shorter answers"),
        pytest.param("response_length_mean", 300.0, 660.0, "info", id="harder, hence longer"),
        pytest.param("kl_ref_token", 0.01, 0.05, "info", id="KL in proportion to the steps"),
        pytest.param("kl_ref_token", 0.01, 0.06, "critical", id="KL beyond it"),
        pytest.param("kl_ref_token", 0.05, 0.001, "info", id="KL that falls"),
        pytest.param("grad_norm", 0.3, 1.0, "critical", id="a gradient three times as large"),
        pytest.param("grad_norm", 0.3, 0.01, "info", id="a gradient that shrinks"),
        pytest.param("grad_norm", 0.0, 0.3, "info", id="a gradient that was not there before"),
        pytest.param("truncation_rate", 0.02, 0.31, "info", id="some more answers are cut"),
        pytest.param("truncation_rate", 0.02, 0.33, "critical", id="many more answers are cut"),
        pytest.param("entropy", 0.5, NAN, "info", id="NaN is never above"),
        pytest.param("loss_total", 0.5, 9.0, "info", id="a loss says nothing"),
    ],
)
def test_another_metric_goes_along(metric: str, before: float, after: float, severity: str) -> None:
    beside = {metric: [before] * 30 + [after] * 20}
    finding = only("RWD008", log_of(beside, reward_raw_mean=HARDER))
    assert finding.severity == severity
    if severity == "critical":
        assert logged(finding.evidence[1], metric, finding.evidence[1].unit or "")
        assert f"meanwhile {metric} goes from {before:.3g} to {after:.3g}" in finding.message


@pytest.mark.parametrize(
    ("beside", "severity"),
    [
        pytest.param({"heldout_score": HIGH + halves(2.1, rows=15)}, "info", id="it rises"),
        pytest.param(
            {"heldout_score": HIGH + halves(1.9, rows=15)}, "critical", id="it hardly rises"
        ),
        pytest.param(
            {"heldout_score": LATE, "heldout_reward": HIGH + halves(-1.9, rows=15)},
            "info",
            id="another one hardly falls",
        ),
        pytest.param(
            {"heldout_score": LATE, "heldout_reward": HIGH + halves(-2.1, rows=15)},
            "critical",
            id="another one falls",
        ),
        pytest.param(
            {"eval_reward_raw_mean": [0.3] * 20 + [0.2] * 20 + [0.4] * 10}, "info", id="a reward"
        ),
        pytest.param(
            {"heldout_score": [0.5, None] * 25}, "critical", id="what never changes is no excuse"
        ),
        pytest.param({"eval_loss_total": [1.0] * 30 + [2.0] * 20}, "critical", id="a loss"),
        pytest.param({"success_rate": [0.3] * 30 + [0.6] * 20}, "info", id="more tasks are solved"),
        pytest.param(
            {"heldout_score": LATE, "success_rate": HARDER},
            "info",
            id="the share of solved training tasks falls with the prompts",
        ),
    ],
)
def test_a_held_out_quantity_knows_better(
    beside: dict[str, list[float | None]], severity: str
) -> None:
    far = [0.5] * 30 + [5.0] * 20
    finding = only("RWD008", log_of(beside, reward_raw_mean=HARDER, entropy=far))
    assert finding.severity == severity


@pytest.mark.parametrize(
    ("evaluations", "severity"),
    [
        pytest.param({1: 0.3, 50: 0.5}, "critical", id="two evaluations say nothing"),
        pytest.param({1: 0.3, 25: 0.4, 50: 0.5}, "info", id="the last of three is the best"),
        pytest.param({1: 0.3, 25: 0.6, 50: 0.5}, "critical", id="the best is in the middle"),
    ],
)
def test_few_evaluations_are_asked_for_the_best(
    evaluations: dict[int, float], severity: str
) -> None:
    score = [evaluations.get(step) for step in range(1, 51)]
    far = [0.5] * 30 + [5.0] * 20
    run = run_of(reward_raw_mean=HARDER, heldout_score=score, entropy=far)
    assert only("RWD008", run).severity == severity


@pytest.mark.parametrize(
    ("level", "found"),
    [
        pytest.param(0.17, True, id="less than a quarter is left"),
        pytest.param(0.25, False, id="more is left"),
    ],
)
def test_a_fall_in_the_last_tenth_is_seen(level: float, found: bool) -> None:
    wobble = [0.1, -0.1] * 90
    reward = [0.7 + value for value in wobble] + [level + value / 10 for value in wobble[:20]]
    finding = only("RWD008", run_of(reward_raw_mean=reward))
    assert finding.evidence[0].first_step == (181 if found else 161)
    assert (finding.severity == "critical") is found


def test_a_ramp_is_dated_where_it_begins() -> None:
    noisy = [0.8 + 0.05 * (row % 3 - 1) for row in range(60)]
    ramp = [0.8 - 0.035 * row for row in range(20)]
    finding = only("RWD008", run_of(reward_raw_mean=noisy + ramp + [0.1, 0.12] * 10))
    assert finding.onset is not None
    assert finding.onset.low <= 61 <= finding.onset.high
    assert 58 <= finding.onset.step <= 65


def test_it_is_told_and_dated_from_the_best_fifth_on() -> None:
    finding = only("RWD008", run_of(reward_raw_mean=[0.2] * 10 + [0.9] * 10 + [0.1] * 30))
    assert finding.onset is not None
    assert (finding.onset.low, finding.onset.step, finding.onset.high) == (21, 21, 21)
    evidence = finding.evidence[0]
    assert logged(evidence, "reward_raw_mean", "reward")
    assert evidence.observed == pytest.approx(0.1)
    assert "from 0.9 to 0.1" in finding.message
    assert "0.2 at the start" in finding.message
    assert "reward 0.9 -> 0.1" in finding.summary


@pytest.mark.parametrize(
    "values",
    [
        pytest.param([0.1, 0.2] * 10 + [0.8, 0.9] * 10, id="that rises"),
        pytest.param([0.5] * 40, id="that stays"),
        pytest.param([0.0] * 40, id="of zeros"),
        pytest.param([0.5] * 20 + [0.1] * 5 + [0.5] * 15, id="that came back"),
        pytest.param([0.5] * 20 + [NAN] * 20, id="of NaN at the end"),
    ],
)
def test_a_reward_is_clear(values: list[float]) -> None:
    assert clear("RWD008", run_of(reward_raw_mean=values))


@pytest.mark.parametrize(
    ("rows", "looks"),
    [
        pytest.param(9, False, id="nine rows are too few"),
        pytest.param(10, True, id="ten rows are enough"),
    ],
)
def test_ten_rows_are_needed(rows: int, looks: bool) -> None:
    assert skipped("RWD008", run_of(reward_raw_mean=[0.5] * rows)) is not looks


def test_the_reward_with_its_penalty_is_never_judged() -> None:
    assert skipped("RWD008", run_of(reward_shaped_mean=[0.9] * 20 + [0.1] * 20))


def test_the_limits_can_be_set() -> None:
    run = run_of(reward_raw_mean=[1.0] * 40 + [0.9] * 10)
    assert only("RWD008", run).severity == "info"
    assert only("RWD008", run, material=0.05).severity == "critical"
    peak = run_of(
        reward_raw_mean=[0.2] * 10 + [1.0] * 30 + [0.7] * 10,
        entropy=[0.5] * 40 + [1.0] * 10,
        truncation_rate=[0.0] * 40 + [0.2] * 10,
    )
    assert only("RWD008", peak, gain=0.3).severity == "info"
    assert only("RWD008", peak, gain=0.3, apart=1.9).severity == "critical"
    assert only("RWD008", peak, gain=0.3, cut=0.19).severity == "critical"
    assert only("RWD008", peak, gain=0.3, most=0.29).severity == "critical"
    score = [0.3 + 0.01 * (row % 2) + 0.01 * (row // 5) for row in range(50)]
    better = run_of(reward_raw_mean=[1.0] * 40 + [0.1] * 10, heldout_score=score)
    assert only("RWD008", better).severity == "info"
    assert only("RWD008", better, hint=99.0, evaluations=99).severity == "critical"
    small = run_of(reward_raw_mean=falling(0.8, rows=100))
    assert judge("RWD008", small, effect=0.7)
    assert clear("RWD008", small, effect=0.7, standard_errors=9.0)
    assert (
        only("RWD008", run_of(reward_raw_mean=falling(1.5, rows=40, level=2.0)), large=1.4).severity
        == "critical"
    )
