from dataclasses import replace
from typing import Any

import pytest

from rlhfdoctor.model import Column, Location, Run, Seam
from tests.builders import clear, only, run_of, skipped
from tests.rules.shapes import NAN, log_of, logged, silent

CODE = "RWD011"
ROWS = 20

CALM: dict[str, list[float]] = {
    "reward_raw_mean": [0.55, 0.56] * (ROWS // 2),
    "entropy": [0.4, 0.5] * (ROWS // 2),
    "response_length_mean": [190.0, 210.0] * (ROWS // 2),
    "truncation_rate": [0.1, 0.12] * (ROWS // 2),
    "kl_ref_token": [0.02, 0.04] * (ROWS // 2),
}
GONE = {
    "reward_raw_mean": 0.01,
    "entropy": 3.0,
    "response_length_mean": 900.0,
    "truncation_rate": 0.95,
    "kl_ref_token": 4.0,
}


def ended(rows: int, *names: str, before: int = ROWS, **last: Any) -> Run:
    """A calm log; the quantities named, or given with a value, have left it in its last rows."""
    gone = {**{name: GONE[name] for name in names}, **last}
    columns: dict[str, Any] = {
        name: values[-before:] + ([gone[name]] * rows if name in gone else values[:rows])
        for name, values in CALM.items()
    }
    return log_of(columns)


SICK = (ended(3, *GONE), ended(2, "reward_raw_mean", "entropy"))


@pytest.mark.parametrize(
    ("names", "severity"),
    [
        pytest.param(("reward_raw_mean",), None, id="a reward alone may be a curriculum"),
        pytest.param(("response_length_mean", "truncation_rate"), None, id="lengths are one class"),
        pytest.param(("kl_ref_token",), None, id="a KL alone"),
        pytest.param(("reward_raw_mean", "entropy"), "critical", id="reward and entropy"),
        pytest.param(("entropy", "kl_ref_token"), "critical", id="entropy and KL"),
        pytest.param(("truncation_rate", "kl_ref_token"), "critical", id="length and KL"),
        pytest.param(
            ("reward_raw_mean", "truncation_rate"), "warning", id="other data shifts both"
        ),
        pytest.param(("entropy", "response_length_mean"), "warning", id="and these two"),
        pytest.param(("reward_raw_mean", "entropy", "truncation_rate"), "critical", id="not three"),
    ],
)
def test_two_classes_of_evidence_agree(names: tuple[str, ...], severity: str | None) -> None:
    run = ended(3, *names)
    if severity is None:
        assert clear(CODE, run)
    else:
        finding = only(CODE, run)
        assert finding.severity == severity
        assert finding.alone is (severity == "critical")
        assert {item.subject for item in finding.evidence} == {*names}
        assert finding.message.endswith("could do so too") is (severity == "warning")


@pytest.mark.parametrize(
    ("rows", "before", "found"),
    [
        pytest.param(1, 20, False, id="one row may be a batch of another size"),
        pytest.param(2, 20, True, id="two rows"),
        pytest.param(4, 20, True, id="four rows"),
        pytest.param(5, 20, False, id="five rows are for the other rules"),
        pytest.param(3, 5, False, id="five rows before are too few"),
        pytest.param(3, 6, True, id="six rows before are enough"),
    ],
)
def test_two_to_four_rows_after_six_others(rows: int, before: int, found: bool) -> None:
    assert silent(CODE, ended(rows, *GONE, before=before)) is not found


@pytest.mark.parametrize(
    ("column", "inside", "beyond"),
    [
        pytest.param("reward_raw_mean", 0.28, 0.27, id="half of the reward lost"),
        pytest.param("entropy", 0.14, 0.13, id="less than 0.3 of the entropy left"),
        pytest.param("entropy", 0.89, 0.91, id="more than twice the entropy"),
        pytest.param("response_length_mean", 51.0, 49.0, id="less than a quarter of the length"),
        pytest.param("response_length_mean", 399.0, 401.0, id="more than twice the length"),
        pytest.param("truncation_rate", 0.49, 0.51, id="more than half of the responses cut"),
        pytest.param("kl_ref_token", 0.29, 0.31, id="a KL above 0.3 a token"),
    ],
)
def test_each_must_be_far_off(column: str, inside: float, beyond: float) -> None:
    other = "entropy" if column == "kl_ref_token" else "kl_ref_token"
    near: dict[str, Any] = {column: inside}
    far: dict[str, Any] = {column: beyond}
    assert clear(CODE, ended(3, other, **near))
    finding = only(CODE, ended(3, other, **far))
    (seen,) = [item for item in finding.evidence if item.subject == column]
    assert seen.observed == beyond
    falls = beyond < CALM[column][0]
    assert (seen.limit_low is None, seen.limit_high is None) == (not falls, falls)


@pytest.mark.parametrize(
    ("last", "found"),
    [
        pytest.param(0.49, False, id="less than five times its largest"),
        pytest.param(0.51, True, id="more than five times its largest"),
    ],
)
def test_a_kl_is_five_times_its_largest(last: float, found: bool) -> None:
    run = run_of(
        kl_ref_token=[0.05] * 10 + [0.1] + [0.05] * 10 + [last] * 3,
        entropy=[0.5] * 21 + [3.0] * 3,
    )
    assert clear(CODE, run) is not found


@pytest.mark.parametrize(
    ("last", "found"),
    [
        pytest.param(4.9, False, id="a KL per response below five nats"),
        pytest.param(5.1, True, id="a KL per response above five nats"),
    ],
)
def test_a_kl_is_far_in_its_unit(last: float, found: bool) -> None:
    run = run_of(kl_ref_response=[-0.1, 0.3] * 10 + [last] * 3, entropy=[0.5] * 20 + [3.0] * 3)
    assert clear(CODE, run) is not found


@pytest.mark.parametrize(
    ("before", "found"),
    [
        pytest.param(0.24, True, id="a quarter was cut before"),
        pytest.param(0.26, False, id="more were cut before"),
    ],
)
def test_answers_that_were_cut_before_tell_nothing_new(before: float, found: bool) -> None:
    run = run_of(truncation_rate=[before] * 20 + [0.9] * 3, kl_ref_token=[0.02] * 20 + [4.0] * 3)
    assert clear(CODE, run) is not found


@pytest.mark.parametrize(
    ("last", "found"),
    [
        pytest.param(-0.075, False, id="one and a half times its noise"),
        pytest.param(-0.125, True, id="two and a half times its noise"),
    ],
)
def test_a_reward_near_zero_is_measured_by_its_noise(last: float, found: bool) -> None:
    step = 0.05 * 2**0.5 / 1.4826  # its row-to-row noise is 0.05, its median 0
    reward = [-step / 2, step / 2] * 10
    assert clear(CODE, run_of(reward_raw_mean=[*reward, last, last], entropy=E)) is not found


E = [0.5] * 20 + [3.0] * 2


@pytest.mark.parametrize(
    "reward",
    [
        pytest.param([0.2] + [0.6] * 19 + [0.25] * 2, id="half is lost, and was so before"),
        pytest.param([0.6] * 20 + [0.1, 0.5], id="a last row that came back"),
        pytest.param([0.6] * 20 + [1.4] * 2, id="a reward that doubles"),
        pytest.param([0.6] * 20 + [NAN] * 2, id="NaN is not below"),
        pytest.param([-5.0] * 20 + [-7.0] * 2, id="a negative reward that falls by less"),
        pytest.param([0.6] * 14 + [0.1] * 2 + [None] * 6, id="rows before the others"),
    ],
)
def test_what_is_not_beyond_the_run_is_none(reward: list[float | None]) -> None:
    assert clear(CODE, run_of(reward_raw_mean=reward, entropy=E))


def test_a_negative_reward_that_loses_half_of_its_size_is() -> None:
    run = run_of(reward_raw_mean=[-5.0] * 20 + [-8.0] * 2, entropy=E)
    assert only(CODE, run).severity == "critical"


@pytest.mark.parametrize(
    ("column", "before", "last", "found"),
    [
        pytest.param("entropy_unknown", 50.0, 5.0, True, id="an entropy by its ratio"),
        pytest.param("entropy_unknown", -50.0, -200.0, False, id="a negated entropy never"),
        pytest.param("kl_unknown", 0.001, 0.006, True, id="a KL by its ratio"),
        pytest.param("kl_unknown", -0.1, 0.2, False, id="a KL below zero has no multiple"),
    ],
)
def test_an_unknown_unit_is_one_witness(
    column: str, before: float, last: float, found: bool
) -> None:
    columns: dict[str, Any] = {column: [before] * 20 + [last] * 3}
    reward = [0.6] * 20 + [0.1] * 3
    assert silent(CODE, log_of(columns, reward_raw_mean=reward)) is not found


def test_witnesses_of_unknown_units_alone_are_a_warning() -> None:
    run = run_of(kl_unknown=[0.001] * 20 + [0.1] * 3, entropy_unknown=[0.5] * 20 + [3.0] * 3)
    finding = only(CODE, run)
    assert (finding.severity, finding.alone) == ("warning", False)
    assert finding.message.endswith("; the units are unknown")


def test_a_kl_to_the_policy_that_sampled_is_no_witness() -> None:
    run = run_of(kl_unknown=[0.001] * 20 + [0.1] * 3, reward_raw_mean=[0.6] * 20 + [0.1] * 3)
    assert only(CODE, run)
    named = Column("kl_unknown", "unknown", sources=(Location("log.jsonl", key="approx_kl"),))
    assert clear(CODE, replace(run, columns={**run.columns, "kl_unknown": named}))


@pytest.mark.parametrize(
    ("step", "found"),
    [
        pytest.param(15, True, id="a resume six rows before"),
        pytest.param(16, False, id="a resume five rows before"),
        pytest.param(21, False, id="a resume at the first of them"),
    ],
)
def test_what_came_before_a_resume_is_another_run(step: int, found: bool) -> None:
    seam = Seam(step + 3, step, Location("log.jsonl", line=step))
    run = replace(ended(3, *GONE), seams=(Seam(5, 3, seam.where), seam))
    assert silent(CODE, run) is not found


def test_it_is_dated_at_the_first_of_these_rows() -> None:
    kl = [0.02] * 20 + [0.05] + [4.0] * 2
    reward = [0.6] * 20 + [0.1] * 3
    finding = only(CODE, run_of(steps=range(10, 240, 10), kl_ref_token=kl, reward_raw_mean=reward))
    assert finding.onset is not None
    assert (finding.onset.low, finding.onset.step, finding.onset.high) == (201, 210, 210)
    assert finding.summary == (
        "in the last 3 logged rows KL 0.02 -> 4 nats/token, reward 0.6 -> 0.1"
    )
    first, second = finding.evidence
    assert logged(first, "kl_ref_token", "nats/token")
    assert logged(second, "reward_raw_mean", "reward")
    assert (first.first_step, first.last_step, first.limit_high) == (220, 230, 0.3)
    assert (second.first_step, second.last_step, second.limit_low) == (210, 230, 0.3)
    assert (first.where.line, second.where.line) == (22, 21)


@pytest.mark.parametrize(
    "run",
    [
        pytest.param(run_of(reward_raw_mean=[0.5] * 20), id="the reward alone"),
        pytest.param(
            run_of(response_length_mean=[9.0] * 20, truncation_rate=[0.1] * 20), id="lengths alone"
        ),
        pytest.param(ended(2, *GONE, before=5), id="seven rows"),
        pytest.param(
            run_of(reward_raw_mean=[0.5] * 20, kl_ref_token=[0.0] * 20), id="a placeholder beside"
        ),
    ],
)
def test_one_class_of_evidence_cannot_be_looked_at(run: Run) -> None:
    assert skipped(CODE, run)


@pytest.mark.parametrize("rows", range(8, ROWS + 1))
def test_a_calm_log_may_end_anywhere(rows: int) -> None:
    columns: dict[str, Any] = {name: values[:rows] for name, values in CALM.items()}
    assert clear(CODE, log_of(columns))


@pytest.mark.parametrize(
    ("run", "limits"),
    [
        pytest.param(ended(1, *GONE), {"least": 1}, id="least"),
        pytest.param(ended(5, *GONE), {"longest": 5}, id="longest"),
        pytest.param(ended(3, *GONE, before=5), {"before": 5}, id="before"),
        pytest.param(
            ended(3, "entropy", kl_ref_token=0.25), {"token": 0.2, "times": 2.0}, id="token, times"
        ),
        pytest.param(ended(3, "entropy", reward_raw_mean=0.4), {"lost": 0.2}, id="lost"),
    ],
)
def test_the_limits_can_be_set(run: Run, limits: dict[str, float]) -> None:
    assert silent(CODE, run)
    assert not silent(CODE, run, **limits)
