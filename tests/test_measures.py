import math
from pathlib import Path
from typing import Any

import pytest

from rlhfdoctor.measures import (
    batches,
    common,
    ladders,
    locate,
    metric_evidence,
    sample_evidence,
    sample_fields,
    track,
)
from rlhfdoctor.model import Location
from rlhfdoctor.runs import read_runs
from tests.builders import batch, run_of, write_jsonl


def test_a_track_holds_finite_values_only() -> None:
    run = run_of(
        steps=[1, 2, 5, 6, 9], kl_ref_token=[0.5, math.nan, None, math.inf, -0.25], lr=[1.0] * 5
    )
    found = track(run, "kl_ref_token")
    assert (found.steps, found.values) == ([1, 9], [0.5, -0.25])
    assert len(found) == 2
    assert found.column.unit == "nats/token"


@pytest.mark.parametrize(
    ("values", "placeholder"),
    [
        pytest.param([0.0, 0.0], True, id="zeros throughout"),
        pytest.param([0.0, -0.0, math.nan], True, id="zeros and NaN"),
        pytest.param([0.0, 1e-12], False, id="one tiny value"),
    ],
)
def test_placeholders(values: list[float], placeholder: bool) -> None:
    assert track(run_of(entropy=values), "entropy").placeholder is placeholder


def test_common_pairs_values_at_shared_steps() -> None:
    run = run_of(
        steps=[1, 2, 3, 4], entropy=[1.0, None, 3.0, 4.0], reward_raw_mean=[9.0, 8.0, None, 6.0]
    )
    pairs = common(track(run, "entropy"), track(run, "reward_raw_mean"))
    assert pairs == ([1.0, 4.0], [9.0, 6.0])


def test_evidence_of_a_metric_says_where_and_against_what() -> None:
    run = run_of(
        steps=[10, 20, 30],
        kl_ref_token=[0.1, 0.2, 0.3],
        estimators={"kl_ref_token": "k3"},
    )
    found = metric_evidence(run, track(run, "kl_ref_token"), 1, 2, 0.25, limit_high=0.2)
    assert (found.kind, found.subject, found.observed) == ("metric", "kl_ref_token", 0.25)
    assert found.where == Location("log.jsonl", key="kl_ref_token", line=2)
    assert (found.limit_low, found.limit_high) == (None, 0.2)
    assert (found.unit, found.estimator) == ("nats/token", "k3")
    assert (found.first_step, found.last_step) == (20, 30)


def test_a_value_is_located_where_the_file_that_was_kept_holds_it(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "a.jsonl", [{"step": 1, "reward": 1.0}, {"step": 2, "reward": 2.0}])
    write_jsonl(
        tmp_path / "b.jsonl",
        [{"step": 2, "mean_reward": 3.0}, {"step": 2, "eval_reward": 5.0}, {"own": 1, "step": 3}],
    )
    run = read_runs(tmp_path)[0]
    assert locate(run, "reward_raw_mean", 1) == Location("a.jsonl", key="reward", line=1)
    assert locate(run, "reward_raw_mean", 2) == Location("b.jsonl", key="mean_reward", line=1)
    found = locate(run, "eval_reward_raw_mean", 2)
    assert (found.file, found.line) == ("b.jsonl", 2)
    assert locate(run, "reward_raw_mean", 77).file == "b.jsonl"


# Samples


def test_batches_are_grouped_by_source_and_step() -> None:
    run = run_of(
        samples=[
            *batch(20, [[1], [2]], source="b.jsonl"),
            *batch(5, [[1]], source="b.jsonl"),
            *batch(100, [[3]], source="a.jsonl"),
            {"source": "a.jsonl", "response": "no step", "token_ids": [7]},
            {"source": "a.jsonl", "prompt": "no response"},
        ]
    )
    found = batches(run)
    assert [(item.source, item.step, len(item.items)) for item in found] == [
        ("a.jsonl", None, 1),
        ("a.jsonl", 100, 1),
        ("b.jsonl", 5, 1),
        ("b.jsonl", 20, 2),
    ]


@pytest.mark.parametrize(
    ("samples", "unit", "length"),
    [
        pytest.param(
            [{"response": "a b", "token_ids": [1, 2, 3, 4]}], "tokens", 4.0, id="the run's tokens"
        ),
        pytest.param([{"response": "a b"}], "words", 2.0, id="words where there are none"),
        pytest.param(
            [{"response": "a b", "token_ids": [1, 2, 3, 4]}, {"response": "c"}],
            "words",
            1.5,
            id="words where one response has none",
        ),
        pytest.param([{"response": ""}, {"response": "a b c"}], "words", 1.5, id="empty counts"),
        pytest.param([{"response": "\u4f60\u597d a"}], "words", 3.0, id="a Han character is one"),
    ],
)
def test_lengths(samples: list[dict[str, Any]], unit: str, length: float) -> None:
    found = batches(run_of(samples=[{"step": 1, **sample} for sample in samples]))[0]
    assert (found.unit, found.mean_length) == (unit, length)


def test_perplexity_is_weighted_by_tokens() -> None:
    run = run_of(
        samples=[
            *batch(1, [[1, 2, 3]], logprob=-1.0, ref_logprob=-2.0),
            *batch(1, [[4]], logprob=-5.0, ref_logprob=-3.0),
        ]
    )
    found = batches(run)[0]
    assert found.perplexity == pytest.approx(math.exp((3 * 1.0 + 5.0) / 4))
    assert found.ref_perplexity == pytest.approx(math.exp((3 * 2.0 + 3.0) / 4))
    assert found.k1 == pytest.approx((3 * (-1.0 + 2.0) + (-5.0 + 3.0)) / 4)


@pytest.mark.parametrize(
    "sample",
    [
        pytest.param({}, id="no log-probabilities"),
        pytest.param({"logprobs": []}, id="an empty list"),
        pytest.param({"logprobs": [math.nan]}, id="NaN"),
        pytest.param({"logprobs": [-math.inf]}, id="an impossible token"),
        pytest.param({"logprobs": [-1e6]}, id="a perplexity beyond any float"),
        pytest.param(
            {"logprobs": [-1.0, -1.0], "ref_logprobs": [-1.0]}, id="lists of different length"
        ),
    ],
)
def test_perplexity_that_is_unknown(sample: dict[str, Any]) -> None:
    found = batches(run_of(samples=[{"step": 1, "response": "x", **sample}]))[0]
    assert (found.perplexity, found.ref_perplexity, found.k1) == (None, None, None)


def test_a_response_that_cannot_be_scored_does_not_spoil_the_others() -> None:
    samples = [
        {"step": 1, "response": "x", "logprobs": [-1.0]},
        {"step": 1, "response": "y", "logprobs": [math.nan]},
        {"step": 1, "response": "z"},
    ]
    assert batches(run_of(samples=samples))[0].perplexity == pytest.approx(math.e)


def test_without_a_reference_there_is_no_k1() -> None:
    found = batches(run_of(samples=batch(1, [[1, 2]], logprob=-1.0)))[0]
    assert found.perplexity == pytest.approx(math.e)
    assert (found.ref_perplexity, found.k1) == (None, None)


def test_distinct_3_is_a_mean_over_responses() -> None:
    run = run_of(samples=batch(1, [[1, 2, 3, 4], [5, 5, 5, 5], [6]]))
    assert batches(run)[0].distinct_3 == pytest.approx((1.0 + 0.5) / 2)
    assert batches(run_of(samples=batch(1, [[1], [2, 3]])))[0].distinct_3 is None


def test_the_share_of_one_length() -> None:
    found = batches(run_of(samples=batch(1, [[1, 2], [3, 4], [5], [6, 7, 8]])))[0]
    assert found.share_of_length(2) == 0.5
    assert found.share_of_length(9) == 0.0


@pytest.mark.parametrize(
    ("reward", "kept"),
    [(0.0, 0.0), (-1.5, -1.5), (math.nan, None), (math.inf, None), (None, None)],
)
def test_rewards_are_finite_or_absent(reward: float | None, kept: float | None) -> None:
    run = run_of(samples=[{"step": 1, "response": "x", "reward": reward}])
    assert batches(run)[0].items[0].reward == kept


def test_batches_of_one_run_are_not_those_of_another() -> None:
    one, other = (run_of(samples=[{"step": 1, "response": word}]) for word in ("a", "b"))
    assert batches(one)[0].items[0].words == ["a"]
    assert batches(other)[0].items[0].words == ["b"]
    assert batches(one) is batches(one)


@pytest.mark.parametrize(
    ("fewest", "expected"),
    [
        pytest.param(1, [[1, 2, 3], [1, 2]], id="one response is enough"),
        pytest.param(2, [[1, 3], [1, 2]], id="two responses a step"),
        pytest.param(3, [], id="no file has two such steps"),
    ],
)
def test_ladders(fewest: int, expected: list[list[int]]) -> None:
    run = run_of(
        samples=[
            *batch(1, [[1], [2], [3]], source="a"),
            *batch(2, [[1]], source="a"),
            *batch(3, [[1], [2]], source="a"),
            *batch(1, [[1], [2]], source="b"),
            *batch(2, [[1], [2]], source="b"),
            *batch(1, [[1], [2], [3]], source="c"),
            {"source": "d", "response": "no step"},
        ]
    )
    assert [[item.step for item in ladder] for ladder in ladders(run, fewest)] == expected


def test_evidence_of_samples() -> None:
    run = run_of(samples=[*batch(1, [[1]]), *batch(9, [[1], [2]])])
    first, last = batches(run)
    found = sample_evidence(first, last, "distinct", 0.5, unit="share", limit_low=0.7)
    assert (found.kind, found.subject, found.observed) == ("samples", "distinct", 0.5)
    assert found.where == Location("samples.jsonl", line=1)
    assert (found.first_step, found.last_step) == (1, 9)
    assert (found.limit_low, found.limit_high, found.unit) == (0.7, None, "share")


def test_the_fields_that_hold_anything() -> None:
    run = run_of(samples=[{"response": "x", "reward": None}, {"response": "y", "logprobs": [-1.0]}])
    assert sample_fields(run) == {"source", "line", "response", "logprobs"}
    assert sample_fields(run_of(entropy=[1.0])) == frozenset()
