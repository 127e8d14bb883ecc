from typing import Any

import pytest

from rlhfdoctor.ladder import Distance, rungs
from rlhfdoctor.model import Onset, Run, Rung
from tests.builders import batch, began, run_of, scored
from tests.test_rollback import saved

ONSET = Onset(60, 55, 60)


def logged(at: int, value: float, *, rest: float = 1.0, noise: float = 0.01) -> list[float]:
    """Return 100 rows around ``rest``, those about a step around ``value``."""
    levels = [value if abs(step - at) <= 3 else rest for step in range(1, 101)]
    return [level * (1 + noise * (-1) ** step) for step, level in enumerate(levels)]


def rung(run: Run, onset: Onset | None = ONSET, distance: Distance = "held") -> Rung:
    """Return the only rung of a run."""
    (found,) = rungs(run, onset, distance)
    return found


def with_log(**columns: Any) -> Run:
    return run_of(checkpoints=saved(40), loss_total=[1.0] * 100, **columns)


@pytest.mark.parametrize(
    ("metric", "share", "outside"),
    [
        pytest.param("entropy", 0.70, True, id="entropy below 75 %"),
        pytest.param("entropy", 0.80, False, id="entropy above 75 %"),
        pytest.param("entropy", 1.20, False, id="entropy below 125 %"),
        pytest.param("entropy", 1.30, True, id="entropy above 125 %"),
        pytest.param("eos_rate", 0.45, True, id="fewer than half as many end by themselves"),
        pytest.param("eos_rate", 0.55, False, id="more than half as many end by themselves"),
    ],
)
def test_a_logged_level_is_held_against_the_start(metric: str, share: float, outside: bool) -> None:
    found = rung(with_log(**{metric: logged(40, share)}))
    assert bool(found.outside) is outside


@pytest.mark.parametrize(
    ("scatter", "outside"),
    [
        pytest.param(0.01, True, id="a quiet series"),
        pytest.param(0.30, False, id="a series that scatters as much"),
    ],
)
def test_only_an_interval_that_lies_outside_rejects(scatter: float, outside: bool) -> None:
    found = rung(with_log(entropy=logged(40, 0.7, noise=scatter)))
    reading = found.readings["entropy"]
    assert reading.low is not None
    assert reading.high is not None
    assert reading.low < reading.value < reading.high
    assert bool(found.outside) is outside


@pytest.mark.parametrize(
    ("logprob", "outside"),
    [
        pytest.param(-2.45, True, id="perplexity below 60 %"),
        pytest.param(-2.55, False, id="perplexity above 60 %"),
        pytest.param(-3.45, False, id="perplexity below 160 %"),
        pytest.param(-3.50, True, id="perplexity above 160 %"),
    ],
)
def test_perplexity_of_samples_is_held_against_step_0(logprob: float, outside: bool) -> None:
    texts = [[token, token + 1, token + 2] for token in range(8)]
    run = with_log(samples=batch(0, texts) + batch(40, texts, logprob=logprob))
    found = rung(run)
    assert found.readings["perplexity"].source == "samples.jsonl"
    assert bool(found.outside) is outside


def test_perplexity_that_scatters_is_not_rejected() -> None:
    texts = [[1, 2, 3]] * 4
    wild = [{**item, "logprobs": [-0.1 - 2 * k] * 3} for k, item in enumerate(batch(40, texts))]
    found = rung(with_log(samples=batch(0, texts, logprob=-4.0) + wild))
    reading = found.readings["perplexity"]
    assert reading.base is not None
    assert reading.value < 0.6 * reading.base
    assert found.outside == ()


def test_responses_of_one_prompt_count_as_one() -> None:
    texts = [[1, 2, 3]] * 6
    one = [{**item, "prompt": "why?"} for item in batch(40, texts, logprob=-0.1)]
    found = rung(with_log(samples=batch(0, texts) + one))
    assert found.outside == ()
    assert "perplexity: 1.105, nothing tells how sure that is" in found.unknown


def test_a_recomputed_perplexity_speaks_before_the_file_s_own() -> None:
    texts = [[token, token + 1] for token in range(4)]
    run = with_log(
        samples=batch(0, texts) + batch(40, texts),
        scores=[
            began(perplexity_policy=20.0, entropy_token=3.0),
            scored(
                40, perplexity_policy=9.0, perplexity_low=8.0, perplexity_high=10.0,
                entropy_token=3.0, entropy_low=2.9, entropy_high=3.1,
            ),
        ],
    )  # fmt: skip
    found = rung(run)
    assert found.readings["perplexity"].source == "recomputed on samples.jsonl"
    assert found.outside == ("perplexity 9 is 45% of the start's",)


def test_a_recomputation_without_an_interval_leaves_the_word_to_the_log() -> None:
    run = with_log(entropy=logged(40, 0.5), scores=[began(), scored(40, entropy_token=3.0)])
    found = rung(run)
    assert found.readings["entropy"].source == "log.jsonl entropy"
    assert [item.partition(" ")[0] for item in found.outside] == ["entropy"]


@pytest.mark.parametrize(
    ("share", "finished", "outside"),
    [
        pytest.param(3.0, [0.9] * 100, (), id="long answers that end as before"),
        pytest.param(2.1, logged(40, 0.2), ("length", "finished"), id="long answers that are cut"),
        pytest.param(1.9, logged(40, 0.2), ("finished",), id="answers that are cut, hardly longer"),
        pytest.param(3.0, None, (), id="long answers, and nobody knows whether they end"),
        pytest.param(0.3, [0.9] * 100, (), id="short answers that end as before"),
        pytest.param(0.45, logged(40, 0.2), ("length", "finished"), id="short ones that are cut"),
        pytest.param(0.55, logged(40, 0.2), ("finished",), id="cut ones, hardly shorter"),
    ],
)
def test_a_length_counts_only_where_fewer_answers_end(
    share: float, finished: list[float] | None, outside: tuple[str, ...]
) -> None:
    columns = {} if finished is None else {"eos_rate": finished}
    found = rung(with_log(response_length_mean=logged(40, share), **columns))
    assert tuple(item.partition(" ")[0] for item in found.outside) == outside


def test_cut_answers_are_told_as_finished_ones() -> None:
    cut = [0.1 if step < 30 else 0.8 for step in range(100)]
    reading = rung(with_log(truncation_rate=cut)).readings["finished"]
    assert (reading.base, reading.value) == pytest.approx((0.9, 0.2))


@pytest.mark.parametrize(
    ("metric", "unit"),
    [
        ("kl_ref_token", "nats/token"),
        ("kl_ref_response", "nats/response"),
        ("kl_unknown", "unknown"),
    ],
)
@pytest.mark.parametrize(
    ("level", "outside"),
    [pytest.param(0.5, False, id="below"), pytest.param(1.5, True, id="above")],
)
def test_the_kl_is_held_against_its_own_column_at_the_onset(
    metric: str, unit: str, level: float, outside: bool
) -> None:
    found = rung(with_log(**{metric: logged(40, level)}))
    assert found.readings["kl"].unit == unit
    assert bool(found.outside) is outside


@pytest.mark.parametrize(("distance", "unknown"), [("shown", False), ("mistrusted", True)])
def test_a_kl_that_is_not_the_matter_rejects_nothing(distance: Distance, unknown: bool) -> None:
    found = rung(with_log(kl_ref_token=logged(40, 9.0)), distance=distance)
    assert found.outside == ()
    assert (
        any(item.startswith("KL: the reference is the fault") for item in found.unknown) is unknown
    )


def test_without_an_onset_no_kl_is_too_high() -> None:
    found = rung(with_log(kl_ref_token=logged(40, 9.0)), onset=None)
    assert found.outside == ()
    assert found.readings["kl"].base is None


def test_what_nobody_measured_is_told_and_no_reason_to_reject() -> None:
    found = rung(with_log())
    assert found.outside == ()
    assert found.unknown == (
        "perplexity: not measured",
        "entropy: not measured",
        "length: not measured",
        "finished: not measured",
        "KL: not measured",
    )


def test_a_placeholder_was_not_measured() -> None:
    assert "KL: not measured" in rung(with_log(kl_ref_token=[0.0] * 100)).unknown


def test_rows_of_the_collapse_are_no_part_of_a_checkpoint_s_level() -> None:
    entropy = [1.0 + 0.01 * (-1) ** step if step < 42 else 0.1 for step in range(1, 101)]
    early = Onset(42, 42, 42)
    assert rung(with_log(entropy=entropy), early).outside == ()
    assert rung(with_log(entropy=entropy), early).readings["entropy"].value > 0.9


def test_the_held_out_score_is_the_last_one_until_then() -> None:
    scores = [float(step) if step % 20 == 0 else None for step in range(1, 101)]
    run = run_of(checkpoints=saved(59), loss_total=[1.0] * 100, heldout_score=scores, log_offset=1)
    assert rung(run).readings["held_out"].value == 40.0, "the one at 60 is of later weights"
