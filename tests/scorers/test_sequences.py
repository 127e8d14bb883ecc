"""Which sequences are scored under which checkpoint, and how text becomes tokens."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from rlhfdoctor.errors import DoctorError
from rlhfdoctor.model import Note, Run
from rlhfdoctor.scorers.sequences import (
    Bounds,
    SampleSet,
    Scored,
    Specials,
    fitting,
    sample_sets,
    tokenizer,
)
from tests.builders import FIXTURES, run_of

BASE = FIXTURES / "base"
MARKS = Specials(begin=1, end=2)


@pytest.fixture(scope="module")
def encode() -> Any:
    found, where = tokenizer([BASE])
    assert where == "base"
    return found


def at(step: int | None, count: int = 1, **fields: Any) -> list[dict[str, Any]]:
    """Return samples of a step, each with a token id of its own."""
    return [
        {"step": step, "prompt_ids": [5, 6], "token_ids": [10 + number, 2], **fields}
        for number in range(count)
    ]


def of(
    samples: Sequence[Mapping[str, Any]],
    steps: Sequence[int] = (20, 40),
    *,
    encode: Any = None,
    specials: Specials = MARKS,
    sources: Sequence[str] | None = None,
    **options: Any,
) -> tuple[list[SampleSet], list[str]]:
    run: Run = run_of(samples=samples)
    sets, notes = sample_sets(run, steps, sources, encode, specials, **options)
    return sets, [note.text for note in notes]


def shape(sets: Sequence[SampleSet]) -> list[tuple[int | None, int]]:
    return [(item.step, len(item.sequences)) for item in sets]


@pytest.mark.parametrize(
    ("samples", "sets"),
    [
        pytest.param([*at(20, 3), *at(40, 2)], [(20, 3), (40, 2)], id="each checkpoint its own"),
        pytest.param([*at(40), *at(20), *at(40)], [(20, 1), (40, 2)], id="in any order"),
        pytest.param([*at(0, 2), *at(20)], [(0, 2), (20, 1)], id="step 0 under the reference"),
        pytest.param([*at(20), *at(30, 4)], [(20, 1)], id="a step without a checkpoint is left"),
        pytest.param(at(None, 3), [(None, 3)], id="no steps: under every checkpoint"),
        pytest.param(at(0, 3), [(None, 3)], id="step 0 alone: under every checkpoint"),
        pytest.param([*at(7), *at(8)], [(None, 2)], id="only foreign steps: under every one"),
    ],
)
def test_a_sample_is_scored_under_the_policy_that_drew_it(
    samples: list[dict[str, Any]], sets: list[tuple[int | None, int]]
) -> None:
    assert shape(of(samples)[0]) == sets


def test_every_sample_can_be_asked_of_every_checkpoint() -> None:
    found, told = of([*at(0, 2), *at(20, 3), *at(99)], fixed=True)
    assert shape(found) == [(None, 6)]
    assert told == []


@pytest.mark.parametrize(
    ("samples", "told"),
    [
        pytest.param([*at(20), *at(40)], [], id="nothing to tell"),
        pytest.param([*at(0), *at(20), *at(40)], [], id="step 0 needs no checkpoint"),
        pytest.param(
            [*at(20), *at(40), *at(30, 2)],
            ["2 samples of step 30 have no checkpoint; not scored"],
            id="a step without a checkpoint",
        ),
        pytest.param(
            [*at(20), *at(40), *at(30), *at(35)],
            ["2 samples of steps 30, 35 have no checkpoint; not scored"],
            id="two of them",
        ),
        pytest.param(
            [*at(20), *at(40), *(row for step in range(1, 10) for row in at(step))],
            ["9 samples of steps 1, 2, 3, 4, 5, 6, 7, 8, ... have no checkpoint; not scored"],
            id="nine of them",
        ),
        pytest.param(
            at(20),
            ["no samples of step 40; those checkpoints are not scored on it"],
            id="a checkpoint without samples",
        ),
        pytest.param(
            [*at(20), *at(40), *at(None, 3)],
            ["3 samples name no step, where others do; not scored"],
            id="samples without a step among others",
        ),
    ],
)
def test_what_has_no_counterpart_is_told(samples: list[dict[str, Any]], told: list[str]) -> None:
    assert of(samples)[1] == told


def test_files_are_apart_and_can_be_chosen() -> None:
    samples = [*at(20, source="a.jsonl"), *at(None, 2, source="b.jsonl")]
    found, _ = of(samples)
    assert [(item.source, item.step) for item in found] == [("a.jsonl", 20), ("b.jsonl", None)]
    found, told = of(samples, sources=["b.jsonl"])
    assert [(item.source, item.step) for item in found] == [("b.jsonl", None)]
    assert told == []
    assert of(samples, sources=["c.jsonl"]) == ([], [])


# Tokens


def test_token_ids_beat_text(encode: Any) -> None:
    row = {"prompt": "a", "response": "b", "prompt_ids": [5], "token_ids": [7, 8]}
    for given in (encode, None):
        (found,), told = of([row], encode=given)
        assert found.sequences == (Scored((5,), (7, 8), line=1, cluster=(5,)),)
        assert found.part == "response"
        assert told == []


def test_text_is_tokenized_prompt_and_response_apart(encode: Any) -> None:
    row = {"prompt": "And he said", "response": " unto them"}
    (found,), told = of([row], encode=encode)
    (scored,) = found.sequences
    assert scored.prompt == tuple(encode.encode("And he said", add_special_tokens=False).ids)
    assert scored.response == tuple(encode.encode(" unto them", add_special_tokens=False).ids)
    assert scored.ids == scored.prompt + scored.response
    assert told == [
        "1 prompts carry no token ids; their text was tokenized as it stands, without a template",
        "1 responses carry no token ids; their text was tokenized apart from the prompt, and no "
        "end mark is scored, since text does not tell whether they ended",
    ]


@pytest.mark.parametrize(
    ("truncated", "ended"), [(False, True), (True, False), (None, False)], ids=str
)
def test_a_response_ends_with_a_mark_only_where_the_file_says_it_ended(
    truncated: bool | None, ended: bool, encode: Any
) -> None:
    row = {"prompt_ids": [5], "response": " unto them", "truncated": truncated}
    (found,), _ = of([row], encode=encode)
    assert (found.sequences[0].response[-1] == 2) is ended


@pytest.mark.parametrize(
    ("row", "count"),
    [
        pytest.param({"prompt": "a", "token_ids": [7]}, 1, id="of the prompt"),
        pytest.param({"prompt_ids": [5], "response": "b"}, 1, id="of the response"),
        pytest.param({"prompt": "a", "response": "b"}, 1, id="of both"),
        pytest.param({"prompt_ids": [5], "chosen": "b", "rejected": "c"}, 2, id="of a pair"),
    ],
)
def test_text_without_a_tokenizer_is_left_out_and_said(row: dict[str, Any], count: int) -> None:
    found, told = of([row])
    assert found == []
    assert told == [
        f"{count} texts carry no token ids and no tokenizer was found (--tokenizer); left out"
    ]


@pytest.mark.parametrize("prompt", [{"prompt": ""}, {"prompt_ids": []}], ids=str)
def test_a_response_to_an_empty_prompt_stands_after_the_begin_mark(prompt: dict[str, Any]) -> None:
    row = {"token_ids": [7], **prompt}
    (found,), told = of([row])
    assert found.sequences[0].prompt == (1,)
    assert told == ["1 prompts are empty; scored after the model's begin mark"]
    nothing, told = of([row], specials=Specials())
    assert nothing == []
    assert told == ["1 prompts are empty and the model has no begin mark; left out"]


def test_a_prompt_that_could_not_be_read_is_not_an_empty_one() -> None:
    found, told = of([{"token_ids": [7]}, *at(None)])
    assert shape(found) == [(None, 1)]
    assert told == ["1 samples carry no prompt that could be read; left out"]


@pytest.mark.parametrize("row", [{"token_ids": []}, {"response": ""}], ids=str)
def test_an_empty_response_is_left_out_and_said(row: dict[str, Any], encode: Any) -> None:
    found, told = of([{"prompt_ids": [5], **row}, *at(None)], encode=encode)
    assert shape(found) == [(None, 1)]
    assert "1 samples are empty; left out" in told


def test_an_empty_answer_that_ended_is_its_end_mark(encode: Any) -> None:
    (found,), _ = of([{"prompt_ids": [5], "response": "", "truncated": False}], encode=encode)
    assert found.sequences[0].response == (2,)


def test_a_pair_is_two_sets_that_end(encode: Any) -> None:
    row = {"prompt": "And he said", "chosen": " unto them", "rejected": " them unto"}
    sets, told = of([row, row], encode=encode)
    assert [(item.part, item.step, len(item.sequences)) for item in sets] == [
        ("chosen", None, 2),
        ("rejected", None, 2),
    ]
    for item in sets:
        assert all(scored.response[-1] == 2 for scored in item.sequences)
        assert [scored.line for scored in item.sequences] == [1, 2]
    assert told == [
        "4 answers carry no token ids; their text was tokenized apart and the end mark put behind "
        "it",
        "2 prompts carry no token ids; their text was tokenized as it stands, without a template",
    ]


def test_an_end_mark_that_is_there_is_not_doubled(encode: Any) -> None:
    mark = encode.id_to_token(2)
    row = {"prompt_ids": [5], "chosen": f" unto{mark}", "rejected": " them"}
    sets, _ = of([row], encode=encode)
    assert [item.sequences[0].response.count(2) for item in sets] == [1, 1]


def test_one_side_of_a_pair_is_no_pair(encode: Any) -> None:
    assert of([{"prompt_ids": [5], "chosen": " unto"}], encode=encode)[0] == []


def test_log_probabilities_are_kept_where_they_match_the_tokens() -> None:
    rows = [
        {"prompt_ids": [5], "token_ids": [7, 8], "logprobs": [-1.0, -2.0]},
        {"prompt_ids": [5], "token_ids": [7, 8], "logprobs": [-1.0], "ref_logprobs": [-3.0, -4.0]},
    ]
    (found,), _ = of(rows)
    assert [scored.logprobs for scored in found.sequences] == [(-1.0, -2.0), None]
    assert [scored.ref_logprobs for scored in found.sequences] == [None, (-3.0, -4.0)]


def test_samples_of_one_prompt_are_one_cluster() -> None:
    rows = [{"prompt_ids": [prompt], "token_ids": [7]} for prompt in (5, 6, 5)]
    (found,), _ = of(rows)
    one, two, three = (scored.cluster for scored in found.sequences)
    assert one == three != two


# Fitting


@pytest.mark.parametrize(
    ("bounds", "left", "told"),
    [
        pytest.param(Bounds(300, 4), 2, [], id="all fit exactly"),
        pytest.param(
            Bounds(299, 4),
            1,
            ["1 samples hold token ids outside the vocabulary of 299; left out"],
            id="an id one above",
        ),
        pytest.param(
            Bounds(300, 3),
            1,
            ["1 samples are longer than the model's 3 positions; left out"],
            id="a token too long",
        ),
        pytest.param(Bounds(300, None), 2, [], id="any length"),
        pytest.param(
            Bounds(5, 3),
            0,
            ["2 samples hold token ids outside the vocabulary of 5; left out"],
            id="none fits",
        ),
    ],
)
def test_what_no_model_can_score_is_left_out_and_said(
    bounds: Bounds, left: int, told: list[str]
) -> None:
    sequences = (Scored((5,), (299,), 1, 0), Scored((5, 6, 7), (8,), 2, 1))
    sets, notes = fitting([SampleSet("a", "response", None, sequences)], bounds)
    assert sum(len(item.sequences) for item in sets) == left
    assert [note.text for note in notes] == told
    assert sum(note.left_out for note in notes) == 2 - left


@pytest.mark.parametrize("ids", [(-1,), (300,), (5, 2**40)], ids=str)
def test_an_id_that_no_vocabulary_has_is_left_out(ids: tuple[int, ...]) -> None:
    for scored in (Scored((5,), ids, 1, 0), Scored(ids, (5,), 1, 0)):
        sets, notes = fitting([SampleSet("a", "response", None, (scored,))], Bounds(300))
        assert sets == []
        assert notes == [
            Note("a", "1 samples hold token ids outside the vocabulary of 300; left out", 1)
        ]


@pytest.mark.parametrize(
    ("most", "lines"),
    [
        pytest.param(1, [1], id="one"),
        pytest.param(3, [1, 4, 7], id="three of ten, spread"),
        pytest.param(5, [1, 3, 5, 7, 9], id="half"),
        pytest.param(9, [1, 2, 3, 4, 5, 6, 7, 8, 9], id="all but one"),
        pytest.param(10, list(range(1, 11)), id="exactly all"),
        pytest.param(11, list(range(1, 11)), id="more than there are"),
    ],
)
def test_fewer_samples_are_evenly_spaced(most: int, lines: list[int]) -> None:
    (found,), told = of(at(None, 10), most=most)
    assert [scored.line for scored in found.sequences] == lines
    assert told == ([f"{most} of 10 samples are scored (--max-samples)"] if most < 10 else [])


def test_the_limit_holds_for_each_set() -> None:
    found, told = of([*at(20, 5), *at(40, 2)], most=3)
    assert shape(found) == [(20, 3), (40, 2)]
    assert told == ["5 of 7 samples are scored (--max-samples)"]


# Tokenizers


def test_a_folder_without_a_usable_tokenizer_is_passed_over(tmp_path: Any) -> None:
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "tokenizer.json").write_text("{", encoding="utf-8")
    assert tokenizer([tmp_path, broken]) == (None, None)
    found, where = tokenizer([tmp_path, broken, BASE])
    assert where == "base"
    assert found is not None
    assert found.get_vocab_size(with_added_tokens=True) == 1024


def test_a_tokenizer_that_cuts_and_pads_does_neither_here(encode: Any, tmp_path: Path) -> None:
    cutting = type(encode).from_str(encode.to_str())
    cutting.enable_truncation(3)
    cutting.enable_padding(length=40)
    cutting.save(str(tmp_path / "tokenizer.json"))
    found, _ = tokenizer([tmp_path])
    assert found is not None
    text = "And he said unto them, Go ye into all the world"
    assert found.encode(text).ids == encode.encode(text).ids


def test_a_tokenizer_that_panics_is_an_error(encode: Any, tmp_path: Path) -> None:
    told = json.loads(encode.to_str())
    pattern = {"type": "Split", "pattern": {"Regex": "(a+)+$"}, "behavior": "Isolated"}
    told["pre_tokenizer"] = {**pattern, "invert": False}
    (tmp_path / "tokenizer.json").write_text(json.dumps(told))
    found, _ = tokenizer([tmp_path])
    with pytest.raises(DoctorError, match="the tokenizer cannot read a sample"):
        of([{"prompt_ids": [5], "response": "a" * 40 + "b"}], encode=found)
