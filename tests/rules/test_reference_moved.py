from collections.abc import Sequence
from typing import Any

import pytest

from rlhfdoctor.model import Onset, Skip
from tests.builders import began, clear, judge, only, run_of, scored, skipped

NAN, INF = float("nan"), float("inf")
ROWS = 40


def run(
    kls: Sequence[float | None],
    logged: Sequence[float | None],
    *,
    start: Sequence[dict[str, Any]] = (began(),),
    every: int = 10,
    scores: Sequence[dict[str, Any]] = (),
    **others: Any,
) -> Any:
    """A run with a checkpoint each ten steps, and the KL logged about each."""
    column = [logged[min(row // every, len(logged) - 1)] for row in range(ROWS)]
    rows = [scored(10 * at + 5, kl) for at, kl in enumerate(kls)]
    return run_of(kl_ref_token=column, scores=[*start, *rows, *scores], **others)


def spiked(level: float, spike: float, at: int) -> list[float]:
    return [spike if row == at else level for row in range(1, ROWS + 1)]


@pytest.mark.parametrize(
    ("kls", "logged"),
    [
        pytest.param([0.1, 0.3, 0.5], [0.1, 0.3, 0.5], id="the same numbers"),
        pytest.param([0.1, 0.3, 0.5], [0.08, 0.4, 0.41], id="scatter of small batches"),
        pytest.param([0.02, 0.05, 0.09], [0.0, 0.01, 0.02], id="a KL that is tiny throughout"),
        pytest.param([0.5, 1.0], [0.25, 0.5], id="half of the recomputed one"),
        pytest.param([0.5, 0.5], [0.01, 0.5], id="calm at first, right at the end"),
        pytest.param([0.5], [2.0], id="higher than recomputed"),
        pytest.param([0.5, NAN], [0.5, 0.001], id="NaN in the last checkpoint"),
        pytest.param([0.5, None], [0.5, 0.001], id="nothing in the last checkpoint"),
        pytest.param([0.5, INF], [0.5, 0.001], id="infinity in the last checkpoint"),
    ],
)
def test_a_log_that_says_as_much_is_clear(kls: list[float], logged: list[float]) -> None:
    assert clear("REF003", run(kls, logged))


@pytest.mark.parametrize(
    ("kls", "logged", "at", "low"),
    [
        pytest.param([2.0], [0.01], 5, 1, id="one checkpoint"),
        pytest.param([0.5, 1.0], [0.249, 0.49], 5, 1, id="less than half from the first on"),
        pytest.param([0.3, 0.6, 2.0], [0.3, 0.25, 0.2], 15, 6, id="from the second on"),
        pytest.param([0.11], [0.0001], 5, 1, id="just far enough to matter"),
        pytest.param([0.5], [-0.01], 5, 1, id="a negative k1"),
    ],
)
def test_a_log_that_stays_calm_is_contradicted(
    kls: list[float], logged: list[float], at: int, low: int
) -> None:
    finding = only("REF003", run(kls, logged))
    assert finding.severity == "warning"
    assert finding.onset == Onset(at, low, at)
    own, recomputed = finding.evidence
    assert (own.subject, recomputed.kind) == ("kl_ref_token", "checkpoint")
    assert own.where.line == own.first_step
    assert finding.args["exact"] == max(kls)


def test_it_matters_from_a_tenth_of_a_nat_on() -> None:
    assert clear("REF003", run([0.1], [0.0001]))
    assert only("REF003", run([0.1], [0.0001]), least=0.09)


def test_the_share_can_be_set() -> None:
    assert clear("REF003", run([1.0], [0.4]), share=0.4)
    assert only("REF003", run([1.0], [0.4]), share=0.41)


# Scatter is no proof


def test_one_quiet_row_among_loud_ones_is_scatter() -> None:
    kl = spiked(1.0, 0.01, 20)
    assert clear("REF003", run_of(kl_ref_token=kl, scores=[began(), scored(20, 1.0)]))
    kl[17:22] = [0.01] * 5
    assert only("REF003", run_of(kl_ref_token=kl, scores=[began(), scored(20, 1.0)]))


def test_a_recomputed_k3_that_spikes_does_not_outweigh_the_exact_kl() -> None:
    """A token that the reference all but forbids makes k3 of a sample 43 where KL is 7."""
    scores = [began(), scored(20, 7.2, kl_k3_token=43.0)]
    known = {"kl_ref_token": "k3"}
    assert clear("REF003", run_of(kl_ref_token=[6.3] * ROWS, scores=scores, estimators=known))


def test_a_k3_that_lies_below_the_kl_is_what_k3_does() -> None:
    """Sure of a token to which the reference gives 0.3: KL is 1.2, k3 0.5 in every sample."""
    scores = [began(), scored(20, 1.2, kl_k3_token=0.5)]
    known = {"kl_ref_token": "k3"}
    assert clear("REF003", run_of(kl_ref_token=[0.5] * ROWS, scores=scores, estimators=known))


@pytest.mark.parametrize(
    ("estimator", "logged", "moved"),
    [
        pytest.param(None, 0.4, False, id="k1 or k3, and k1 agrees"),
        pytest.param(None, 0.9, False, id="k1 or k3, and k3 agrees"),
        pytest.param(None, 0.1, True, id="k1 or k3, and neither does"),
        pytest.param("k1", 0.1, True, id="k1"),
        pytest.param("k3", 0.1, True, id="k3"),
    ],
)
def test_the_nearest_estimator_counts(estimator: str | None, logged: float, moved: bool) -> None:
    scores = [began(), scored(20, 0.8, kl_k1_token=0.4, kl_k3_token=0.9)]
    known = {"kl_ref_token": estimator} if estimator else {}
    found = judge("REF003", run_of(scores=scores, estimators=known, kl_ref_token=[logged] * ROWS))
    assert isinstance(found, list)
    assert bool(found) is moved


def test_the_nearest_sample_file_counts() -> None:
    """The training batch itself gives the number back; fresh samples scatter."""
    fresh = scored(20, 1.0, samples_file="fresh.jsonl")
    batch = scored(20, 0.3, samples_file="batch.jsonl")
    assert clear("REF003", run_of(kl_ref_token=[0.3] * ROWS, scores=[began(), fresh, batch]))
    assert only("REF003", run_of(kl_ref_token=[0.3] * ROWS, scores=[began(), fresh]))


# A KL per response


@pytest.mark.parametrize(
    ("logged", "moved"),
    [
        pytest.param(9.0, False, id="as much"),
        pytest.param(5.0, False, id="half"),
        pytest.param(4.9, True, id="less than half"),
        pytest.param(-0.5, True, id="negative"),
    ],
)
def test_a_kl_per_response_is_compared_with_one(logged: float, moved: bool) -> None:
    found = judge(
        "REF003", run_of(kl_ref_response=[logged] * ROWS, scores=[began(), scored(20, 0.5)])
    )
    assert isinstance(found, list)
    assert bool(found) is moved
    assert not found or found[0].args["unit"] == "nats/response"


def test_negative_k1_of_a_young_policy_is_scatter() -> None:
    scores = [began(), scored(10, 0.02, kl_k1_response=-0.3), scored(20, 0.03)]
    assert clear("REF003", run_of(kl_ref_response=[-0.5, 0.7] * 20, scores=scores))


# Which reference


def test_a_reference_of_which_nothing_is_known_accuses_nobody() -> None:
    assert clear("REF003", run([2.0], [0.01], start=()))
    assert clear("REF003", run([2.0], [0.01], start=[began(gap=2.0)]))
    assert clear("REF003", run([2.0], [0.01], start=[began(gap=0.2)]))


def test_one_that_the_log_agreed_with_at_first_does() -> None:
    assert only("REF003", run([0.4, 2.0], [0.4, 0.1], start=())).onset == Onset(15, 6, 15)
    assert clear("REF003", run([0.05, 2.0], [0.05, 0.02], start=()))


def test_of_several_references_the_one_it_started_from_accuses() -> None:
    other = [began("other", 2.0), scored(5, 5.0, reference="other")]
    finding = only("REF003", run([2.0], [0.01], start=other, scores=[began()]))
    assert finding.args["reference"] == "base"


# What cannot be compared


@pytest.mark.parametrize(
    ("built", "missing"),
    [
        pytest.param(run_of(kl_ref_token=[0.1] * 9), "scores", id="nobody recomputed"),
        pytest.param(run_of(scores=[began(), scored(5, 2.0)]), "a logged KL", id="no KL logged"),
        pytest.param(run([2.0], [0.0]), "a logged KL", id="a placeholder of zeros, or beta 0"),
        pytest.param(run([2.0], [NAN]), "a logged KL", id="NaN"),
        pytest.param(run([2.0], [0.0, NAN]), "a logged KL", id="zeros and NaN"),
        pytest.param(run([2.0], [INF]), "a logged KL", id="infinity"),
        pytest.param(run([2.0], [0.01, None]), "a logged KL", id="a KL that stopped being logged"),
        pytest.param(
            run_of(steps=range(10, 110, 10), kl_ref_token=[0.01] * 10, log_offset=1,
                   scores=[began(), scored(20, 2.0)]),
            "a logged KL", id="one row each ten steps",
        ),
        pytest.param(
            run_of(kl_ref_token=[0.01] * ROWS, scores=[began(), scored(20, 2.0, on_policy=False)]),
            "on its own samples", id="samples that others drew",
        ),
        pytest.param(
            run_of(kl_ref_token=[0.01] * ROWS, scores=[began(), scored(20, 2.0, part="chosen")]),
            "a logged KL", id="pairs",
        ),
        pytest.param(
            run_of(kl_ref_response=[0.01] * 9, scores=[began(), scored(9, 2.0, mean_length=NAN)]),
            "a logged KL", id="a length that nobody knows",
        ),
    ],
)  # fmt: skip
def test_without_a_comparison_it_could_not_look(built: Any, missing: str) -> None:
    outcome = judge("REF003", built)
    assert isinstance(outcome, Skip)
    assert missing in " ".join(outcome.missing)


def test_a_row_belongs_to_the_weights_that_sampled_it() -> None:
    kl = [2.0] * 20 + [0.01] * 20
    scores = [began(), scored(20, 2.0)]
    assert clear("REF003", run_of(kl_ref_token=kl, scores=scores))
    kl[18:20] = [0.01] * 2
    assert (
        only("REF003", run_of(kl_ref_token=kl, scores=scores, log_offset=1)).args["logged_step"]
        == 21
    )
    assert not skipped("REF003", run_of(kl_ref_token=kl, scores=scores))
