from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from rlhfdoctor.model import Location, Onset, Run, Seam, Skip
from tests.builders import began, clear, judge, only, run_of, scored

NAN = float("nan")
FALL = [0.5] * 20 + [0.01] * 20
"""A logged KL that falls to nothing at step 21."""


def run(
    logged: Sequence[float] = FALL, kls: Sequence[float | None] = (0.5, 0.5), **others: Any
) -> Run:
    """A run with checkpoints at steps 10 and 30, or each ten steps from 10 on."""
    steps = (10, 30) if len(kls) == 2 else range(10, 50, 10)
    rows = [scored(step, kl) for step, kl in zip(steps, kls, strict=False)]
    return run_of(kl_ref_token=logged, scores=[began(), *rows], **others)


@pytest.mark.parametrize(
    ("logged", "kls"),
    [
        pytest.param([0.5] * 40, (0.5, 0.5), id="no fall"),
        pytest.param(FALL, (0.5, 0.01), id="the policy really returned"),
        pytest.param(FALL, (0.5, 0.24), id="it returned by more than half"),
        pytest.param(FALL, (0.02, 0.05), id="it had gone far only after the checkpoint"),
        pytest.param([0.5] * 20 + [0.01] * 5 + [0.5] * 15, (0.5, 0.5), id="it returned and left"),
        pytest.param([0.5] * 20 + [0.01] * 2 + [0.5] * 18, (0.5, 0.5), id="two quiet rows"),
        pytest.param([0.5] * 20 + [0.01] + [0.15] * 19, (0.5, 0.5), id="one row of three"),
        pytest.param([0.5] * 20 + [0.1] * 20, (0.5, 0.5), id="to a fifth"),
        pytest.param([0.04] * 20 + [0.001] * 20, (0.04, 0.04), id="from next to nothing"),
        pytest.param([0.5, 0.3, 0.2, 0.1] + [0.05] * 36, (0.5, 0.5), id="row by row"),
        pytest.param([0.001] * 40, (1e-6, 1e-6), id="tiny throughout"),
        pytest.param([-0.5] * 20 + [-0.01] * 20, (0.5, 0.5), id="negative k1"),
    ],
)
def test_a_log_that_the_weights_explain_is_clear(
    logged: list[float], kls: tuple[float, float]
) -> None:
    assert clear("REF005", run(logged, kls))


@pytest.mark.parametrize(
    ("logged", "kls", "step"),
    [
        pytest.param(FALL, (0.5, 0.5), 21, id="the weights stayed"),
        pytest.param(FALL, (0.5, 0.26), 21, id="they stayed by half"),
        pytest.param(FALL, (0.1, 0.5), 21, id="a young checkpoint before"),
        pytest.param([0.5] * 20 + [0.099] * 20, (0.5, 0.5), 21, id="to less than a fifth"),
        pytest.param([0.05] * 20 + [0.001] * 20, (0.05, 0.05), 21, id="from just enough"),
        pytest.param([0.5] * 3 + [0.01] * 37, (0.5, 0.5), None, id="before any checkpoint"),
        pytest.param([0.5] * 37 + [0.01] * 3, (0.5, 0.5), None, id="after every checkpoint"),
    ],
)
def test_a_log_that_falls_alone_was_measured_anew(
    logged: list[float], kls: tuple[float, float], step: int | None
) -> None:
    if step is None:
        outcome = judge("REF005", run(logged, kls))
        assert isinstance(outcome, Skip)
        assert "on both sides of step" in outcome.missing[0]
        return
    finding = only("REF005", run(logged, kls))
    assert finding.severity == "warning"
    assert finding.onset == Onset(step, step, step)
    assert [item.kind for item in finding.evidence] == ["metric", "checkpoint"]
    assert finding.evidence[0].where.line == step
    assert "resumed" not in finding.message


def test_a_fall_at_a_resume_is_said_to_be_one() -> None:
    resumed = replace(run(), seams=(Seam(25, 21, Location("log.jsonl", line=26)),))
    assert "where the log was resumed" in only("REF005", resumed).message


@pytest.mark.parametrize(
    ("limits", "found"),
    [
        pytest.param({"fall": 0.01}, False, id="fall"),
        pytest.param({"token": 0.6}, False, id="token"),
        pytest.param({"stays": 1.1}, False, id="stays"),
        pytest.param({"rows": 20}, True, id="rows there are"),
        pytest.param({"rows": 21}, False, id="rows there are not"),
    ],
)
def test_the_limits_can_be_set(limits: dict[str, float], found: bool) -> None:
    outcome = judge("REF005", run(), **limits)
    assert isinstance(outcome, list)
    assert bool(outcome) is found


@pytest.mark.parametrize(
    ("before", "found"),
    [pytest.param(0.9, False, id="0.9 nats"), pytest.param(1.0, True, id="one nat")],
)
def test_a_kl_per_response_has_a_limit_of_its_own(before: float, found: bool) -> None:
    logged = [before] * 20 + [0.01] * 20
    scores = [began(), scored(10, 0.05), scored(30, 0.05)]
    outcome = judge("REF005", run_of(kl_ref_response=logged, scores=scores))
    assert isinstance(outcome, list)
    assert bool(outcome) is found


def test_k1_of_responses_that_scatters_is_clear() -> None:
    logged = [1.5, 1.1, 2.0, 1.2, 0.1, -0.2, 0.2, 1.4, 1.9, 1.0] * 4
    scores = [began(), scored(2, 0.06), scored(20, 0.06), scored(38, 0.06)]
    assert clear("REF005", run_of(kl_ref_response=logged, scores=scores))


def test_a_later_fall_is_seen_behind_one_that_nobody_can_tell() -> None:
    logged = [0.5] * 5 + [0.01] * 5 + [0.5] * 10 + [0.01] * 20
    assert only("REF005", run(logged)).onset == Onset(21, 21, 21)


@pytest.mark.parametrize(
    "kls",
    [
        pytest.param((0.5, NAN), id="NaN after it"),
        pytest.param((NAN, 0.5), id="NaN before it"),
        pytest.param((0.5, None), id="nothing after it"),
    ],
)
def test_numbers_that_are_not_finite_accuse_nobody(kls: tuple[float, float]) -> None:
    outcome = judge("REF005", run(kls=kls))
    assert isinstance(outcome, Skip)
    assert outcome.missing == ("scored checkpoints on both sides of step 21",)


def test_a_length_that_nobody_knows_accuses_nobody() -> None:
    scores = [scored(10, 0.5), scored(30, 0.5, mean_length=None)]
    assert clear("REF005", run_of(kl_ref_response=[10.0] * 20 + [0.1] * 20, scores=scores))


@pytest.mark.parametrize(
    ("built", "missing"),
    [
        pytest.param(run_of(kl_ref_token=FALL), "scores", id="nobody recomputed"),
        pytest.param(run_of(lr=FALL, scores=[scored(10)]), "kl_ref_token", id="no KL is logged"),
        pytest.param(run([0.0] * 40), "zeros", id="a placeholder of zeros, or beta 0"),
        pytest.param(run([0.5] * 5), "rows>=6", id="five rows"),
        pytest.param(
            run_of(kl_ref_token=FALL, scores=[began()]), "both sides", id="a reference alone"
        ),
        pytest.param(
            run_of(kl_ref_token=FALL, scores=[scored(10, 0.5)]), "both sides", id="one checkpoint"
        ),
    ],
)
def test_what_it_needs(built: Run, missing: str) -> None:
    outcome = judge("REF005", built)
    assert isinstance(outcome, Skip)
    assert missing in " ".join(outcome.missing)


def test_the_longest_ladder_tells() -> None:
    short = [scored(30, 0.01, samples_file="short.jsonl")]
    long = [scored(step, 0.5, samples_file="long.jsonl") for step in (10, 20, 30)]
    assert only("REF005", run_of(kl_ref_token=FALL, scores=[*short, *long]))


def test_a_row_belongs_to_the_weights_that_sampled_it() -> None:
    scores = [scored(20, 0.5)]
    before = judge("REF005", run_of(kl_ref_token=FALL, scores=[scored(10, 0.5), *scores]))
    assert isinstance(before, Skip)
    assert only(
        "REF005", run_of(kl_ref_token=FALL, scores=[scored(10, 0.5), *scores], log_offset=1)
    )


def test_a_fixed_set_says_nothing_of_a_log_of_other_prompts() -> None:
    fixed = [
        scored(step, 0.5, on_policy=False, samples_file="fixed.jsonl") for step in (10, 15, 30, 35)
    ]
    own = [scored(10, 0.5), scored(30, 0.01)]
    found = run_of(kl_ref_token=FALL, scores=[began(), *own, *fixed])
    assert clear("REF005", found)
