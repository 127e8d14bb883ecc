import gc
import math
import weakref
from pathlib import Path
from typing import Any

import pytest

from rlhfdoctor.measures import (
    batches,
    common,
    finite_rows,
    ladders,
    last_drawn,
    locate,
    logged,
    metric_evidence,
    of_run,
    sample_evidence,
    sample_fields,
    silent_since,
    track,
)
from rlhfdoctor.model import Location, Run
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


@pytest.mark.parametrize(
    ("values", "rows"),
    [
        pytest.param([1.0, 0.0, -1.0], 3, id="all of them"),
        pytest.param([None, math.nan, math.inf, -math.inf], 0, id="none of them"),
        pytest.param([1.0, None, math.nan, 2.0], 2, id="some of them"),
    ],
)
def test_finite_rows(values: list[float | None], rows: int) -> None:
    run = run_of(entropy=values)
    assert finite_rows(run, "entropy") == rows
    assert logged(run, "entropy") is (rows > 0)
    assert finite_rows(run, "step") == finite_rows(run, "grad_norm") == 0
    assert not logged(run, "grad_norm")


@pytest.mark.parametrize(
    ("entropy", "other", "taken"),
    [
        pytest.param([1.0, 2.0], [3.0, 4.0], "entropy", id="the first"),
        pytest.param([0.0, 0.0], [3.0, 4.0], "entropy_unknown", id="zeros give way"),
        pytest.param([0.0, 0.0], [0.0, 0.0], "entropy", id="zeros do not give way to zeros"),
        pytest.param([0.0, 0.0], [math.nan] * 2, "entropy", id="nor to what is not finite"),
        pytest.param([math.nan] * 2, [0.0, 0.0], "entropy_unknown", id="NaN gives way to zeros"),
        pytest.param([None, None], [3.0, 4.0], "entropy_unknown", id="what was not logged, too"),
        pytest.param([0.0, 1e-9], [3.0, 4.0], "entropy", id="one value is enough"),
    ],
)
def test_the_first_measured_column_is_taken(
    entropy: list[float | None], other: list[float | None], taken: str
) -> None:
    run = run_of(entropy=entropy, entropy_unknown=other)
    assert track(run, "entropy", "entropy_unknown").metric == taken
    assert track(run, "grad_norm", "entropy", "entropy_unknown").metric == taken


@pytest.mark.parametrize("metrics", [("entropy",), ("grad_norm",), ("entropy", "grad_norm"), ()])
def test_a_rule_that_asks_for_nothing_logged_is_told(metrics: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match=f"none of {', '.join(metrics)} is logged"):
        track(run_of(entropy=[math.nan, None]), *metrics)


@pytest.mark.parametrize(
    ("pattern", "step"),
    [
        pytest.param("#" * 20, None, id="to the end"),
        pytest.param("#" * 10 + "." * 5, None, id="five rows of silence"),
        pytest.param("#" * 10 + "." * 6, 10, id="six rows of silence"),
        pytest.param("#..#..#" + "." * 12, None, id="four usual gaps of silence"),
        pytest.param("#..#..#" + "." * 13, 7, id="more than four usual gaps"),
        pytest.param("...#" + "." * 6, 4, id="one value"),
        pytest.param("...#" + "." * 5, None, id="one value near the end"),
        pytest.param("." * 20, None, id="never"),
        pytest.param("#" * 10 + "." * 10 + "#", None, id="back at the end"),
        pytest.param("#" * 10 + "n" * 10, None, id="NaN is not silence"),
    ],
)
def test_since_when_a_metric_is_silent(pattern: str, step: int | None) -> None:
    value = {"#": 1.0, "n": math.nan, ".": None}
    run = run_of(entropy=[value[letter] for letter in pattern], lr=[1.0] * len(pattern))
    assert silent_since(run, "entropy") == step


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
            "tokens",
            4.0,
            id="tokens where half the responses have them",
        ),
        pytest.param(
            [{"response": "a b", "token_ids": [1, 2, 3, 4]}, *[{"response": "c d e"}] * 2],
            "words",
            8 / 3,
            id="words where fewer have them",
        ),
        pytest.param(
            [{"response": "a b", "token_ids": []}, {"response": "c", "token_ids": [1, 2]}],
            "tokens",
            1.0,
            id="no token is a length, too",
        ),
        pytest.param([{"response": ""}, {"response": "a b c"}], "words", 1.5, id="empty counts"),
        pytest.param([{"response": "\u4f60\u597d a"}], "words", 3.0, id="a Han character is one"),
    ],
)
def test_lengths(samples: list[dict[str, Any]], unit: str, length: float) -> None:
    found = batches(run_of(samples=[{"step": 1, **sample} for sample in samples]))[0]
    assert (found.unit, found.mean_length) == (unit, length)


def test_each_file_is_counted_in_its_own_unit() -> None:
    run = run_of(
        samples=[
            {"source": "a", "step": 1, "response": "x", "token_ids": [1, 2, 3]},
            {"source": "a", "step": 2, "response": "y"},
            {"source": "b", "step": 1, "response": "x y"},
        ]
    )
    assert [(item.source, item.step, item.unit, item.mean_length) for item in batches(run)] == [
        ("a", 1, "tokens", 3.0),
        ("b", 1, "words", 2.0),
    ]


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
        pytest.param({"logprobs": [math.inf, -math.inf]}, id="infinity of either sign"),
        pytest.param({"logprobs": [-1e6]}, id="a perplexity beyond any float"),
        pytest.param({"logprobs": [-1e100]}, id="a number too large to sum"),
        pytest.param({"logprobs": [-1.0, 0.02]}, id="a probability above 1"),
        pytest.param({"logprobs": [1000.0], "ref_logprobs": [-1.0]}, id="far above 1"),
    ],
)
def test_perplexity_that_is_unknown(sample: dict[str, Any]) -> None:
    found = batches(run_of(samples=[{"step": 1, "response": "x", **sample}]))[0]
    assert (found.perplexity, found.ref_perplexity, found.k1) == (None, None, None)


@pytest.mark.parametrize(
    "reference",
    [
        pytest.param([-1.0], id="a list of another length"),
        pytest.param([-1.0, math.nan], id="NaN"),
        pytest.param([-1.0, 0.02], id="a probability above 1"),
        pytest.param([], id="an empty list"),
        pytest.param(None, id="none"),
    ],
)
def test_a_reference_that_is_unknown_leaves_the_policy(reference: list[float] | None) -> None:
    sample = {"step": 1, "response": "x", "logprobs": [-1.0, -1.0], "ref_logprobs": reference}
    found = batches(run_of(samples=[sample]))[0]
    assert found.perplexity == pytest.approx(math.e)
    assert (found.ref_perplexity, found.k1) == (None, None)


def test_rounding_to_half_precision_is_no_fault() -> None:
    sample = {"step": 1, "response": "x", "logprobs": [-1.0, 0.01]}
    found = batches(run_of(samples=[sample]))[0]
    assert found.perplexity == pytest.approx(math.exp(0.99 / 2))


def test_k1_is_taken_over_the_responses_that_both_models_scored() -> None:
    samples = [
        {"step": 1, "response": "x", "logprobs": [-1.0, -1.0], "ref_logprobs": [-2.0, -2.5]},
        {"step": 1, "response": "y", "logprobs": [-5.0, -5.0]},
        {"step": 1, "response": "z", "logprobs": [-5.0], "ref_logprobs": [math.nan]},
        {"step": 1, "response": "v", "ref_logprobs": [-9.0]},
    ]
    found = batches(run_of(samples=samples))[0]
    assert found.k1 == pytest.approx(1.25)
    assert found.perplexity == pytest.approx(math.exp(17 / 5))
    assert found.ref_perplexity == pytest.approx(math.exp(4.5 / 2))


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


def test_what_was_said_of_a_run_does_not_keep_it_alive() -> None:
    asked: list[tuple[object, ...]] = []

    @of_run
    def length(run: Run, *rest: object) -> int:
        asked.append(rest)
        return run.metrics.height

    first = run_of(loss_total=[1.0, 2.0])
    assert [length(first), length(first), length(first, "a"), length(first)] == [2] * 4
    assert asked == [(), ("a",)]
    gone = weakref.ref(first.metrics)
    assert length(run_of(loss_total=[1.0])) == 1
    del first
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize(
    ("given", "row", "kept"),
    [
        pytest.param([3, 1, 2, None], None, ["2.jsonl", "0.jsonl"], id="by step, dated ones alone"),
        pytest.param([3, 1, 2, None], 3, ["1.jsonl", "2.jsonl"], id="drawn by a row of the log"),
        pytest.param([2, 2, 2, 2], None, ["2.jsonl", "3.jsonl"], id="of one step by file and line"),
        pytest.param([None] * 4, None, ["2.jsonl", "3.jsonl"], id="the last where none is dated"),
        pytest.param([None] * 4, 9, [], id="none by a row where none is dated"),
        pytest.param([], None, [], id="no samples"),
    ],
)
def test_the_last_samples_drawn(given: list[int | None], row: int | None, kept: list[str]) -> None:
    samples = [{"step": step, "source": f"{place}.jsonl"} for place, step in enumerate(given)]
    samples = sorted(samples, key=lambda item: -int(str(item["source"])[0]))
    run = run_of(samples=samples, log_offset=1)
    found = last_drawn(run, 2, row)
    assert found["source"].to_list() == kept
    sources = run.samples.collect()["source"].to_list()
    assert [sources[place] for place in found["place"]] == kept
