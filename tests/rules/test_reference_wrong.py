from collections.abc import Sequence
from typing import Any

import pytest

from rlhfdoctor.model import Onset, Run, Skip
from tests.builders import began, clear, judge, only, run_of, scored

NAN = float("nan")
ROWS = 40


def run(
    recomputed: Sequence[float | None],
    logged: Sequence[float | None],
    *,
    other: Sequence[float] = (),
    start: Sequence[dict[str, Any]] = (began("sft"),),
    **others: Any,
) -> Run:
    """A run from "sft"; a checkpoint each ten steps, the KL logged about each; "base" beside it."""
    column = [logged[min(row // 10, len(logged) - 1)] for row in range(ROWS)]
    rows = [scored(10 * at + 5, kl, reference="sft") for at, kl in enumerate(recomputed)]
    rows += [scored(10 * at + 5, kl) for at, kl in enumerate(other)]
    strange = [began("base", 2.0)] if other else []
    return run_of(kl_ref_token=column, scores=[*start, *strange, *rows], **others)


@pytest.mark.parametrize(
    ("recomputed", "logged"),
    [
        pytest.param([0.1, 0.3], [0.1, 0.3], id="the same numbers"),
        pytest.param([0.03], [0.06], id="a young checkpoint in a small batch"),
        pytest.param([0.03, 0.05], [0.06, 0.1], id="young checkpoints in small batches"),
        pytest.param([0.4], [0.6], id="one checkpoint half as far again"),
        pytest.param([0.4, 0.5], [0.8, 0.5], id="off at one, right at the other"),
        pytest.param([0.01], [0.015], id="both next to zero"),
        pytest.param([0.5, 2.0], [0.1, 0.1], id="calmer throughout is REF003's"),
        pytest.param([0.3, 0.5], [0.6, 1.0], id="twice as much"),
        pytest.param([0.05, 0.09], [0.15, 0.18], id="less than a tenth of a nat higher"),
        pytest.param([0.1, NAN], [0.1, 9.0], id="NaN in the checkpoint"),
    ],
)
def test_a_log_that_may_be_the_distance_to_the_start_is_clear(
    recomputed: list[float], logged: list[float]
) -> None:
    assert clear("REF004", run(recomputed, logged))


@pytest.mark.parametrize(
    ("recomputed", "logged"),
    [
        pytest.param([0.3, 0.5], [0.61, 1.01], id="more than twice as much"),
        pytest.param([0.05], [0.16], id="a tenth of a nat higher"),
        pytest.param([0.0, 0.001], [0.7, 0.7], id="far from the start on"),
        pytest.param([0.3, 0.5], [0.45, 1.5], id="clearly so at one checkpoint"),
    ],
)
def test_a_log_twice_as_high_is_not_the_distance_to_the_start(
    recomputed: list[float], logged: list[float]
) -> None:
    finding = only("REF004", run(recomputed, logged))
    assert finding.severity == "warning"
    assert finding.args["reference"] == "sft"
    assert finding.args["matched"] == ""
    assert finding.onset == Onset(1, 1, 1)
    assert [item.kind for item in finding.evidence] == ["metric", "checkpoint"]


def test_the_limits_can_be_set() -> None:
    assert only("REF004", run([0.5], [0.9]), times=1.5)
    assert only("REF004", run([0.03], [0.08]), least=0.04)


# Scatter is no proof


@pytest.mark.parametrize(
    ("rows", "wrong"),
    [
        pytest.param(1, False, id="a k3 that spikes in one row"),
        pytest.param(2, False, id="in two of five"),
        pytest.param(3, True, id="in most of them"),
    ],
)
def test_a_log_must_be_off_in_most_rows_about_a_checkpoint(rows: int, wrong: bool) -> None:
    logged = [1.0] * ROWS
    logged[19 : 19 + rows] = [43.0] * rows
    scores = [began(), scored(20, 1.0)]
    found = judge("REF004", run_of(kl_ref_token=logged, scores=scores))
    assert isinstance(found, list)
    assert bool(found) is wrong


def test_an_exact_kl_as_high_as_the_log_clears_it() -> None:
    scores = [began(), scored(20, 7.0, kl_k3_token=1.5)]
    known = {"kl_ref_token": "k3"}
    assert clear("REF004", run_of(kl_ref_token=[6.0] * ROWS, scores=scores, estimators=known))


def test_k1_of_responses_that_scatters_about_zero_is_clear() -> None:
    scores = [began(), scored(10, 0.01, kl_k1_response=-0.4), scored(20, 0.02)]
    assert clear("REF004", run_of(kl_ref_response=[-1.2, 1.3] * 20, scores=scores))


@pytest.mark.parametrize(
    ("logged", "wrong"), [pytest.param(19.0, False, id="less"), pytest.param(21.0, True, id="more")]
)
def test_a_kl_per_response_is_compared_with_one(logged: float, wrong: bool) -> None:
    scores = [began(), scored(10, 0.5), scored(20, 0.5)]
    found = judge("REF004", run_of(kl_ref_response=[logged] * ROWS, scores=scores))
    assert isinstance(found, list)
    assert bool(found) is wrong


# Another model that matches


def test_the_model_that_the_log_was_measured_against_is_named() -> None:
    finding = only("REF004", run([0.3, 0.4], [0.6, 0.7], other=[0.6, 0.7]))
    assert finding.message.endswith("; it matches base")


@pytest.mark.parametrize(
    ("recomputed", "logged", "wrong"),
    [
        pytest.param([0.3], [0.5], False, id="one checkpoint may match by chance"),
        pytest.param([0.3, 0.3], [0.5, 0.5], True, id="two do not"),
        pytest.param([0.2], [0.5], True, id="one where it is twice as high"),
        pytest.param([1.0], [0.4], True, id="one where it is less than half"),
        pytest.param([1.0], [0.6], False, id="one where it is more than half"),
        pytest.param([0.3, 0.5], [0.5, 0.5], False, id="one of two agrees with the start"),
    ],
)
def test_a_match_must_be_no_chance(
    recomputed: list[float], logged: list[float], wrong: bool
) -> None:
    found = judge("REF004", run(recomputed, logged, other=logged))
    assert isinstance(found, list)
    assert bool(found) is wrong


def test_of_two_models_that_it_may_have_started_from_either_clears() -> None:
    twin = [began("sft"), began("twin", 0.05), scored(5, 0.7, reference="twin")]
    twin += [scored(15, 0.7, reference="twin")]
    assert clear("REF004", run([0.2, 0.2], [0.7, 0.7], start=twin))


# What cannot be compared


@pytest.mark.parametrize(
    ("built", "missing"),
    [
        pytest.param(run_of(kl_ref_token=[0.1]), "scores", id="nobody recomputed"),
        pytest.param(run([0.1], [0.9], start=()), "step 0", id="no samples of step 0"),
        pytest.param(run([0.1], [0.9], start=[began("sft", None)]), "step 0", id="text alone"),
        pytest.param(run([0.1], [0.9], start=[began("sft", NAN)]), "step 0", id="NaN in the file"),
        pytest.param(run([0.1], [0.9], start=[began("sft", 2.0)]), "step 0", id="another model"),
        pytest.param(run([0.1], [0.9], start=[began("sft", 0.2)]), "step 0", id="hard to tell"),
        pytest.param(
            run([0.1], [0.9], start=[began("sft", on_policy=False)]), "step 0", id="fixed samples"
        ),
        pytest.param(run([0.1], [0.0]), "a logged KL", id="a placeholder of zeros, or beta 0"),
        pytest.param(run([0.1], [NAN]), "a logged KL", id="NaN"),
        pytest.param(run([NAN], [0.9]), "a logged KL", id="NaN in every checkpoint"),
        pytest.param(run([], [0.9]), "a logged KL", id="no checkpoint"),
    ],
)
def test_without_a_start_and_a_comparison_it_could_not_look(built: Run, missing: str) -> None:
    outcome = judge("REF004", built)
    assert isinstance(outcome, Skip)
    assert missing in " ".join(outcome.missing)
