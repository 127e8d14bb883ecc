import json
import math
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlhfdoctor.model import Sample
from rlhfdoctor.readers._json import STEP_KEYS, TEXT_KEYS
from rlhfdoctor.readers._samples import samples_of
from rlhfdoctor.readers.samples import read_samples, samples
from tests.builders import write_jsonl
from tests.readers.helpers import Read, read, sort, write

EVERYTHING: dict[str, Any] = {
    "step": 7,
    "split": "eval",
    "prompt": "Say it.",
    "response": "It.",
    "reward": 0.5,
    "reward_components": {"r_len": 1.5, "r_fmt": -1},
    "advantage": -0.25,
    "group": "g1",
    "truncated": True,
    "prompt_ids": [1, 2],
    "token_ids": [3, 4.0],
    "generated_tokens": 2,
    "logprobs": [-0.5, -2],
    "ref_logprobs": [-0.75, -1.5],
    "chosen": "good",
    "rejected": "bad",
}


def of(tmp_path: Path, *records: Any) -> Read:
    return read(samples, write_jsonl(tmp_path / "samples.jsonl", records))


def one(tmp_path: Path, **record: Any) -> Sample:
    found = of(tmp_path, {"response": "It.", **record})
    assert len(found.samples) == 1
    return found.samples[0]


def test_every_field_is_read(tmp_path: Path) -> None:
    sample = one(tmp_path, **EVERYTHING)
    assert sample == Sample(
        line=1,
        step=7,
        split="eval",
        prompt="Say it.",
        response="It.",
        reward=0.5,
        reward_components={"r_len": 1.5, "r_fmt": -1.0},
        advantage=-0.25,
        group="g1",
        truncated=True,
        prompt_ids=(1, 2),
        token_ids=(3, 4),
        tokens=2,
        logprobs=(-0.5, -2.0),
        ref_logprobs=(-0.75, -1.5),
        chosen="good",
        rejected="bad",
    )
    assert [item.name for item in fields(Sample) if getattr(sample, item.name) is None] == []


@pytest.mark.parametrize("left_out", sorted(set(EVERYTHING) - {"response"}))
@pytest.mark.parametrize("null", [True, False], ids=["null", "absent"])
def test_where_the_file_is_silent_the_sample_is_too(
    tmp_path: Path, left_out: str, null: bool
) -> None:
    record = {key: value for key, value in EVERYTHING.items() if key != left_out}
    if null:
        record[left_out] = None
    found = of(tmp_path, record)
    empty = [item.name for item in fields(Sample) if getattr(found.samples[0], item.name) is None]
    assert empty == ["tokens" if left_out == "generated_tokens" else left_out]
    assert found.notes == []


@pytest.mark.parametrize("key", [key for key in TEXT_KEYS if key != "chosen"])
def test_every_usual_key_of_a_response(tmp_path: Path, key: str) -> None:
    found = of(tmp_path, {"step": 1, key: "words"})
    assert found.samples[0].response == "words"


@pytest.mark.parametrize(
    ("record", "attribute", "expected"),
    [
        pytest.param({"query": "q"}, "prompt", "q", id="query is a prompt"),
        pytest.param({"instruction": "q"}, "prompt", "q", id="instruction is a prompt"),
        pytest.param({"question": "q"}, "prompt", "q", id="question is a prompt"),
        pytest.param({"input": "q"}, "prompt", "q", id="input is a prompt"),
        pytest.param({"score": 2}, "reward", 2.0, id="score is a reward"),
        pytest.param({"rewards": 2}, "reward", 2.0, id="rewards may be one number"),
        pytest.param({"score": 9, "reward": 2}, "reward", 2.0, id="reward before score"),
        pytest.param({"score": 9, "reward": None}, "reward", 9.0, id="null before score"),
        pytest.param({"rewards": 2, "reward": None, "score": None}, "reward", 2.0, id="two nulls"),
        pytest.param({"reward": "NaN"}, "reward", math.nan, id="a reward that is NaN"),
        pytest.param({"reward": "-inf"}, "reward", -math.inf, id="inf as Python prints it"),
        pytest.param({"reward": True}, "reward", 1.0, id="true is a reward of 1"),
        pytest.param({"reward": [1.0]}, "reward", None, id="a list is no reward"),
        pytest.param({"rewards": {"a": 1}}, "reward_components", {"a": 1.0}, id="named rewards"),
        pytest.param(
            {"reward_components": {"a": 1, "b": "word", "c": None}},
            "reward_components",
            {"a": 1.0},
            id="components that are no numbers are left out",
        ),
        pytest.param({"reward_components": {"b": "x"}}, "reward_components", None, id="none left"),
        pytest.param({"group_id": 3}, "group", "3", id="a group may be a number"),
        pytest.param({"prompt_id": 0}, "group", "0", id="group zero is a group"),
        pytest.param({"uid": "u"}, "group", "u", id="uid is a group"),
        pytest.param({"is_truncated": False}, "truncated", False, id="not truncated is known"),
        pytest.param({"truncated": "yes"}, "truncated", None, id="a word is no flag"),
        pytest.param({"step": 3.0}, "step", 3, id="a step as a float"),
        pytest.param({"step": "3"}, "step", 3, id="a step as a string"),
        pytest.param({"step": 3.5}, "step", None, id="half a step is no step"),
        pytest.param({"step": "NaN"}, "step", None, id="NaN is no step"),
        pytest.param({"global_step": 3}, "step", 3, id="global_step is a step"),
        pytest.param({"step": None, "global_step": 3}, "step", 3, id="null before global_step"),
        pytest.param({"step": 2**53}, "step", None, id="a step that no float counts"),
        pytest.param({"step": 10**19}, "step", None, id="a step beyond 64 bits"),
        pytest.param({"step": "inf"}, "step", None, id="infinity is no step"),
        pytest.param({"group": None, "uid": 4}, "group", "4", id="null before uid"),
        pytest.param({"split": 3}, "split", None, id="a number is no split"),
        pytest.param({"logprobs": []}, "logprobs", (), id="no token, no log-probability"),
        pytest.param({"token_ids": []}, "token_ids", (), id="no token"),
        pytest.param({"logprobs": ["-Infinity"]}, "logprobs", (-math.inf,), id="impossible token"),
        pytest.param({"advantage": "-Infinity"}, "advantage", -math.inf, id="infinite advantage"),
    ],
)
def test_fields(tmp_path: Path, record: dict[str, Any], attribute: str, expected: Any) -> None:
    found = getattr(one(tmp_path, **record), attribute)
    if isinstance(expected, float):
        assert found == pytest.approx(expected, nan_ok=True)
    else:
        assert found == expected


@pytest.mark.parametrize("key", STEP_KEYS)
def test_every_step_key(tmp_path: Path, key: str) -> None:
    assert one(tmp_path, **{key: 12}).step == 12


@pytest.mark.parametrize(
    ("key", "value"),
    [
        pytest.param("logprobs", -3.0, id="one number is no list"),
        pytest.param("logprobs", [-1.0, None], id="a hole in the log-probabilities"),
        pytest.param("ref_logprobs", [[-1.0]], id="a list of lists"),
        pytest.param("ref_logprobs", {"a": 1}, id="a table"),
        pytest.param("token_ids", [1, 2.5], id="half a token"),
        pytest.param("token_ids", [1, math.nan], id="a token that is NaN"),
        pytest.param("token_ids", [1, math.inf], id="a token that is infinite"),
        pytest.param("token_ids", [2**63], id="a token beyond 64 bits"),
        pytest.param("token_ids", [True], id="a token that is true"),
        pytest.param("prompt_ids", "1 2 3", id="tokens as a text"),
    ],
)
def test_lists_of_the_wrong_shape_are_left_out_and_noted(
    tmp_path: Path, key: str, value: Any
) -> None:
    found = of(tmp_path, {"response": "a", "reward": 1, key: value}, {"response": "b"})
    assert getattr(found.samples[0], key) is None
    assert found.samples[0].reward == 1.0
    assert found.told == (
        f"samples.jsonl: {key}: has an unexpected shape in 1 records; left out there"
    )


USER = {"role": "user", "content": "q"}
FIRST = {"role": "assistant", "content": "hello"}
LAST = {"role": "assistant", "content": [{"type": "text", "text": "h"}, {"text": "i"}, "x"]}


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        pytest.param({"completion": [FIRST]}, (None, "hello", None, None), id="one answer"),
        pytest.param({"prompt": [USER], "completion": [LAST]}, ("q", "hi", None, None), id="parts"),
        pytest.param(
            {"completion": [USER, FIRST, USER, LAST]},
            ("user: q\nassistant: hello\nuser: q", "hi", None, None),
            id="several turns",
        ),
        pytest.param(
            {"chosen": [USER, FIRST], "rejected": [USER, LAST]},
            ("q", None, "hello", "hi"),
            id="a pair with its prompt inside",
        ),
        pytest.param({"messages": [USER, FIRST]}, ("q", "hello", None, None), id="messages"),
        pytest.param({"output": {"content": "hi"}}, (None, "hi", None, None), id="one message"),
        pytest.param({"content": ["q", "hi"]}, ("q", "hi", None, None), id="NeMo-RL's list"),
    ],
)
def test_conversations(
    tmp_path: Path, record: dict[str, Any], expected: tuple[str | None, ...]
) -> None:
    found = of(tmp_path, record).samples[0]
    assert (found.prompt, found.response, found.chosen, found.rejected) == expected


def test_conversations_are_told_of_once(tmp_path: Path) -> None:
    found = of(tmp_path, *[{"prompt": [USER], "response": "a"}] * 3)
    assert found.told == (
        "samples.jsonl: 3 conversations: the last answer is the response; "
        "the prompts carry no chat template"
    )


@pytest.mark.parametrize(
    "chat",
    [
        pytest.param([USER], id="nobody answered"),
        pytest.param([{"role": "assistant"}], id="a message without content"),
        pytest.param([{"role": "assistant", "content": 3}], id="a number for content"),
        pytest.param([3], id="a number"),
    ],
)
def test_conversations_without_an_answer_hold_no_response(tmp_path: Path, chat: Any) -> None:
    found = of(tmp_path, {"completion": chat}, {"completion": "a"})
    assert [item.response for item in found.samples] == ["a"]
    assert "1 records hold no response" in found.told


def test_prompt_and_response_in_one_text_are_told_of(tmp_path: Path) -> None:
    found = of(tmp_path, {"content": "q a", "rewards": 1.0})
    assert (found.samples[0].response, found.samples[0].reward) == ("q a", 1.0)
    assert "1 responses hold their prompt" in found.told


def test_a_mask_tells_prompt_response_and_padding_apart(tmp_path: Path) -> None:
    found = of(
        tmp_path,
        {
            "content": "x",
            "token_ids": [1, 2, 3, 4, 0],
            "token_loss_mask": [0, 0, 1, 1, 0],
            "generation_logprobs": [0, 0, -1, -2, 0],
        },
        {"content": "x", "token_ids": [1, 2, 3], "token_loss_mask": [1, 0, 1]},
    )
    first, second = found.samples
    assert (first.prompt_ids, first.token_ids, first.logprobs) == ((1, 2), (3, 4), (-1.0, -2.0))
    assert (second.prompt_ids, second.token_ids) == (None, None)
    assert "token_loss_mask: has an unexpected shape in 1 records" in found.told


def test_a_line_of_nemo_rl_is_a_batch_of_one(tmp_path: Path) -> None:
    line = {
        "content": [["q", "hi"]],
        "rewards": [0.5],
        "generation_logprobs": [[0.0, -1.0]],
        "input_lengths": [2],
        "idx": 0,
    }
    masked = {**line, "token_ids": [[7, 8]], "token_loss_mask": [[0, 1]]}
    found = of(tmp_path, line, masked, {"content": ["q hi"], "rewards": [1]})
    assert [(x.prompt, x.response, x.reward) for x in found.samples] == [
        ("q", "hi", 0.5),
        ("q", "hi", 0.5),
        (None, "q hi", 1.0),
    ]
    assert [(x.token_ids, x.logprobs) for x in found.samples[:2]] == [(None, None), ((8,), (-1.0,))]
    assert "1 lists of log-probabilities span prompt and response" in found.told


def test_a_batch_is_taken_apart(tmp_path: Path) -> None:
    found = of(
        tmp_path,
        {
            "step": 3,
            "prompt": ["p", "q"],
            "completion": ["a", "b"],
            "advantages": [0.5, -0.5],
            "Accuracy": [1, 0],
            "entropy": [0.1, 0.2],
        },
    )
    assert [(x.line, x.step, x.prompt, x.response, x.advantage) for x in found.samples] == [
        (1, 3, "p", "a", 0.5),
        (1, 3, "q", "b", -0.5),
    ]
    assert [x.reward_components for x in found.samples] == [{"Accuracy": 1.0}, {"Accuracy": 0.0}]
    assert [x.reward for x in found.samples] == [1.0, 0.0]


@pytest.mark.parametrize(
    ("record", "reward", "components"),
    [
        pytest.param(
            {"reward": {"total": 3, "format": 1}}, 3.0, {"total": 3.0, "format": 1.0}, id="a table"
        ),
        pytest.param({"score": {"a": 1, "b": 2}}, None, {"a": 1.0, "b": 2.0}, id="no total"),
        pytest.param(
            {"reward": 2, "format_reward": 1}, 2.0, {"format_reward": 1.0}, id="beside the reward"
        ),
        pytest.param(
            {"prompt": "p", "advantage": 1, "right": 1, "length": 9}, 1.0, {"right": 1.0}, id="TRL"
        ),
        pytest.param({"right": 1}, None, None, id="a number without an advantage"),
    ],
)
def test_named_rewards(
    tmp_path: Path, record: dict[str, Any], reward: float | None, components: Any
) -> None:
    found = one(tmp_path, **record)
    assert (found.reward, found.reward_components) == (reward, components)


@pytest.mark.parametrize(
    ("record", "attribute", "expected"),
    [
        pytest.param({"finish_reason": "length"}, "truncated", True, id="stopped by length"),
        pytest.param({"finish_reason": "max_tokens"}, "truncated", True, id="by max_tokens"),
        pytest.param({"stop_reason": "MAX_LENGTH"}, "truncated", True, id="by max_length"),
        pytest.param({"finish_reason": {"type": "length"}}, "truncated", True, id="as SGLang says"),
        pytest.param({"finish_reason": "FinishReason.STOP"}, "truncated", False, id="an enum"),
        pytest.param({"finish_reason": "eos"}, "truncated", False, id="stopped by its end token"),
        pytest.param({"finish_reason": "abort"}, "truncated", None, id="an aborted request"),
        pytest.param({"truncated": 1}, "truncated", True, id="a flag that is a number"),
        pytest.param(
            {"truncated": None, "finish_reason": "length"}, "truncated", True, id="null before it"
        ),
        pytest.param({"finish_reason": "stop"}, "truncated", False, id="stopped by itself"),
        pytest.param({"task_id": "T/1"}, "group", "T/1", id="a task is a group"),
        pytest.param({"head_version": 7}, "step", 7, id="the version of the weights"),
        pytest.param({"raw_generation": "x"}, "response", "It.", id="response comes first"),
    ],
)
def test_further_fields(
    tmp_path: Path, record: dict[str, Any], attribute: str, expected: Any
) -> None:
    assert getattr(one(tmp_path, **record), attribute) == expected


LONG = "a response that is a good deal longer than its count"


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        *(
            pytest.param({key: 12}, 12, id=key)
            for key in (
                *("generated_tokens", "response_tokens", "completion_tokens", "output_tokens"),
                *("num_tokens", "n_tokens", "token_count", "num_generated_tokens"),
                *("response_length", "completion_length", "response_len", "gen_len"),
                "completion_token_count",
            )
        ),
        *(
            pytest.param({key: 12}, None, id=f"{key} is not the response's")
            for key in ("prompt_tokens", "input_tokens", "total_tokens", "max_new_tokens", "length")
        ),
        pytest.param({"generated_tokens": "12"}, 12, id="a text"),
        pytest.param({"generated_tokens": 12.5}, None, id="half a token"),
        pytest.param({"generated_tokens": -1}, None, id="less than none"),
        pytest.param({"generated_tokens": 0}, 0, id="none"),
        pytest.param({"response_tokens": ["a", "b"]}, 2, id="a list of tokens"),
        pytest.param({"num_tokens": 30, "generated_tokens": 12}, 12, id="the most explicit"),
        pytest.param({"response_length": len(LONG)}, None, id="characters"),
        pytest.param({"generated_tokens": len(LONG.split())}, None, id="words"),
        pytest.param({"num_tokens": 500}, None, id="more than the response can have"),
    ],
)
def test_lengths_in_tokens(tmp_path: Path, record: dict[str, Any], expected: int | None) -> None:
    found = of(tmp_path, *[{"response": LONG, **record}] * 40)
    assert {sample.tokens for sample in found.samples} == {expected}


def test_lengths_in_another_unit_are_told_of(tmp_path: Path) -> None:
    found = of(tmp_path, *[{"response": LONG[:n], "response_length": n} for n in range(1, 50)])
    assert found.told == (
        "samples.jsonl: 32 lengths count characters, so none is taken for one in tokens"
    )
    assert found.samples[0].response == "a"


def test_short_answers_do_not_tell_what_their_lengths_count(tmp_path: Path) -> None:
    found = of(tmp_path, {"response": "A", "generated_tokens": 1})
    assert (found.samples[0].tokens, found.notes) == (1, [])


def test_token_ids_alone_are_a_sample(tmp_path: Path) -> None:
    found = of(tmp_path, {"query_tensor": [1], "response_tensor": [2, 3]})
    assert [(x.prompt_ids, x.token_ids, x.response) for x in found.samples] == [
        ((1,), (2, 3), None)
    ]


@pytest.mark.parametrize(
    ("name", "step", "split"),
    [
        ("40.jsonl", 40, None),
        ("train_data_step12.jsonl", 12, None),
        ("val_data_step12.jsonl", 12, "eval"),
        ("completions_00040.jsonl", 40, None),
        ("samples.jsonl", None, None),
        ("run7_generations.jsonl", None, None),
    ],
)
def test_what_the_name_of_a_file_tells(
    tmp_path: Path, name: str, step: int | None, split: str | None
) -> None:
    text = '{"response": "a"}\n{"response": "b", "step": 9, "split": "train"}\n'
    found = read(samples, write(tmp_path / name, text)).samples
    assert (found[0].step, found[0].split) == (step, split)
    assert (found[1].step, found[1].split) == (9, "train")


@pytest.mark.parametrize(
    "record",
    [
        pytest.param({"results": [{"output": "a"}, {"output": "b"}]}, id="a list under any key"),
        pytest.param({"n": 2, "x": {"y": [{"output": "a"}, {"output": "b"}]}}, id="deeper down"),
        pytest.param({"n": 2, "responses": ["a", "b"], "rate": 0.5}, id="a batch"),
        pytest.param({"x": {"responses": ["a", "b"]}}, id="a batch deeper down"),
        pytest.param({"outputs": [{"text": "a"}, {"text": "b"}]}, id="a batch of tables"),
    ],
)
def test_one_object_around_samples(tmp_path: Path, record: dict[str, Any]) -> None:
    for indent in (None, 1):
        text = json.dumps(record, indent=indent)
        found = read(samples, write(tmp_path / "my_results.json", text))
        assert [sample.response for sample in found.samples] == ["a", "b"]
        assert found.notes == []


def test_lines_in_a_file_that_is_named_json(tmp_path: Path) -> None:
    text = '{"response": "a"}\n{"response": "b"}\n'
    found = read(samples, write(tmp_path / "x.json", text))
    assert [sample.response for sample in found.samples] == ["a", "b"]


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        pytest.param(
            {"train": [{"output": "a"}], "test": [{"output": "b"}]},
            [(1, "a"), (2, "b")],
            id="several lists",
        ),
        pytest.param(
            {"0": {"prediction": "a"}, "1": {"prediction": "b"}},
            [(1, "a"), (2, "b")],
            id="a table a sample",
        ),
        pytest.param(
            {"config": {"output": "somewhere/"}, "data": {"samples": [{"text": "a"}]}},
            [(1, "a")],
            id="lists before tables",
        ),
        pytest.param({"responses": ["a", "b"]}, [(1, "a"), (2, "b")], id="texts are numbered"),
        pytest.param({"responses": ["a", None, "b"]}, [(1, "a"), (3, "b")], id="a hole"),
    ],
)
def test_what_an_object_around_samples_may_look_like(
    tmp_path: Path, record: dict[str, Any], expected: list[tuple[int, str]]
) -> None:
    found = read(samples, write(tmp_path / "all.json", json.dumps(record)))
    assert [(sample.line, sample.response) for sample in found.samples] == expected


def test_a_line_around_samples_lends_them_its_step(tmp_path: Path) -> None:
    inner = [{"response": "a", "reward": 1}, {"response": "b", "step": 9}, 3]
    found = of(tmp_path, {"step": 4, "reward": 0.5, "samples": inner})
    assert [(x.line, x.step, x.response, x.reward) for x in found.samples] == [
        (1, 4, "a", 1.0),
        (1, 9, "b", None),
    ]
    assert found.left_out == 1


def test_a_line_around_other_texts_holds_no_response(tmp_path: Path) -> None:
    found = of(tmp_path, {"examples": [{"question": "q", "answer": "gold"}]}, {"response": "a"})
    assert [sample.response for sample in found.samples] == ["a"]
    assert found.left_out == 1


@pytest.mark.parametrize(
    ("records", "expected"),
    [
        pytest.param(["a", "b"], ["a", "b"], id="texts"),
        pytest.param([[USER, FIRST], [USER, LAST]], ["hello", "hi"], id="conversations"),
        pytest.param([[{"response": "a"}, {"response": "b"}]], ["a", "b"], id="lists of records"),
    ],
)
def test_records_that_are_no_tables(
    tmp_path: Path, records: list[Any], expected: list[str]
) -> None:
    array = read(samples, write(tmp_path / "s.json", json.dumps(records)))
    lines = of(tmp_path, *records)
    assert [sample.response for sample in array.samples] == expected
    assert [sample.response for sample in lines.samples] == expected


def test_conversations_of_sharegpt(tmp_path: Path) -> None:
    chat = [{"from": "human", "value": "q"}, {"from": "gpt", "value": "hi"}]
    found = of(tmp_path, {"conversations": chat}).samples[0]
    assert (found.prompt, found.response) == ("q", "hi")


def test_samples_beyond_the_limit_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rlhfdoctor.readers._samples.MOST", 2)
    found = of(tmp_path, *[{"response": "a"}] * 5)
    assert len(found.samples) == 2
    assert found.told == "samples.jsonl: 3 samples behind the first 2 were left out"
    assert found.left_out == 3


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(max_size=3),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(
                    ["completion", "chosen", "content", "role", "prompt", "reward", "x"]
                ),
                inner,
                max_size=4,
            )
        ),
        max_leaves=12,
    )
)
def test_no_record_is_a_traceback(record: Any) -> None:
    found = sort(samples_of([(1, record)], "f"))
    assert found.samples or found.left_out >= 1


def test_records_without_text_are_counted_and_located(tmp_path: Path) -> None:
    found = of(tmp_path, {"response": "a"}, {"prompt": "b"}, 7, {"response": 5}, {"response": "c"})
    assert [(sample.line, sample.response) for sample in found.samples] == [(1, "a"), (5, "c")]
    assert found.told == ("samples.jsonl: 3 records hold no response and were left out: 2, 3, 4")
    assert found.left_out == 3


def test_an_empty_response_is_a_response(tmp_path: Path) -> None:
    found = of(tmp_path, {"response": ""})
    assert found.samples[0].response == ""
    assert found.notes == []


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        pytest.param(r"a\ud800b", "a\ufffdb", id="a high surrogate alone"),
        pytest.param(r"\udc00", "\ufffd", id="a low surrogate alone"),
        pytest.param(r"\ud83d\ude00", "\U0001f600", id="a pair is the character it stands for"),
        pytest.param(r"\u0000", "\x00", id="a null character stays"),
        pytest.param("\u4f60", "\u4f60", id="Chinese stays"),
    ],
)
@pytest.mark.parametrize("key", ["prompt", "response", "chosen", "rejected", "split", "group"])
def test_lone_surrogates_are_replaced(
    tmp_path: Path, key: str, written: str, expected: str
) -> None:
    text = f'{{"text": "x", "{key}": "{written}"}}\n'
    found = read(samples, write(tmp_path / "s.jsonl", text))
    assert getattr(found.samples[0], key) == expected


def test_surrogates_in_component_names_are_replaced(tmp_path: Path) -> None:
    text = '{"response": "x", "reward_components": {"r\\ud800": 1}}\n'
    found = read(samples, write(tmp_path / "s.jsonl", text)).samples[0]
    assert found.reward_components == {"r\ufffd": 1.0}


def test_pairs_are_no_response_of_the_policy(tmp_path: Path) -> None:
    found = of(tmp_path, {"prompt": "p", "chosen": "good", "rejected": "bad", "step": 2})
    sample = found.samples[0]
    assert (sample.prompt, sample.chosen, sample.rejected, sample.step) == ("p", "good", "bad", 2)
    assert sample.response is None
    assert found.notes == []


def test_a_pair_needs_its_chosen_answer(tmp_path: Path) -> None:
    found = of(tmp_path, {"chosen": "good"}, {"rejected": "bad"})
    assert [(sample.chosen, sample.rejected) for sample in found.samples] == [("good", None)]
    assert found.left_out == 1


def test_an_unusual_field_names_the_response(tmp_path: Path) -> None:
    path = write_jsonl(
        tmp_path / "s.jsonl",
        [{"my text": "mine", "response": "not this"}, {"response": "nor this"}, {"my text": 3}],
    )
    found = sort(read_samples(path, "my text"))
    assert [(sample.line, sample.response) for sample in found.samples] == [(1, "mine")]
    assert found.told == "s.jsonl: 2 records hold no response and were left out: 2, 3"


@pytest.mark.parametrize(
    ("field", "record", "expected"),
    [
        pytest.param("output.text", {"output": {"text": "a"}}, ["a"], id="a key in a table"),
        pytest.param("a.b.c", {"a": {"b": {"c": "x"}}}, ["x"], id="deeper"),
        pytest.param("a.b", {"a.b": "x", "a": {"b": "y"}}, ["x"], id="a key with a dot"),
        pytest.param("c.0.text", {"c": [{"text": "a"}, {"text": "b"}]}, ["a"], id="a place"),
        pytest.param("c.text", {"c": [{"text": "a"}, {"text": "b"}]}, ["a", "b"], id="each place"),
        pytest.param("m.chat", {"m": {"chat": [USER, FIRST]}}, ["hello"], id="a conversation"),
        pytest.param("x", {"x": ["a", "b"]}, ["a", "b"], id="a batch"),
        pytest.param("x.9", {"x": ["a"]}, [], id="no such place"),
    ],
)
def test_a_field_may_be_a_path(
    tmp_path: Path, field: str, record: dict[str, Any], expected: list[str]
) -> None:
    path = write_jsonl(tmp_path / "s.jsonl", [record])
    assert [item.response for item in sort(read_samples(path, field)).samples] == expected


def test_a_field_inside_the_records_of_a_document(tmp_path: Path) -> None:
    text = json.dumps({"all": [{"o": {"t": "a"}}, {"o": {"t": "b"}}]})
    found = sort(read_samples(write(tmp_path / "s.json", text), "o.t"))
    assert [(item.line, item.response) for item in found.samples] == [(1, "a"), (2, "b")]


def test_where_no_record_has_the_field_its_keys_are_told(tmp_path: Path) -> None:
    path = write_jsonl(tmp_path / "s.jsonl", [{"id": 1, "out": {"text": "a"}}, {"mine\x1b": "b"}])
    assert sort(read_samples(path, "nope")).told == (
        "s.jsonl: 2 records hold no response and were left out: 1, 2; "
        "their keys are id, out, out.text, mine\x1b"
    )


def test_keys_are_told_up_to_a_number(tmp_path: Path) -> None:
    found = of(tmp_path, {f"k{place}": 1 for place in range(100)})
    assert "k39, ..." in found.told
    assert "k40" not in found.told


def test_records_of_many_shapes_are_read_alike(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rlhfdoctor.readers._samples._MOST_SHAPES", 2)
    found = of(tmp_path, *[{f"k{n}": n, "response": "a", "reward": n} for n in range(5)] * 2)
    assert [sample.reward for sample in found.samples] == [0.0, 1.0, 2.0, 3.0, 4.0] * 2


def test_a_cut_last_line_is_noted_and_the_rest_kept(tmp_path: Path) -> None:
    text = '{"response": "a"}\n{"response": "b"}\n{"response": "c'
    found = read(samples, write(tmp_path / "s.jsonl", text))
    assert [sample.response for sample in found.samples] == ["a", "b"]
    assert found.told == "s.jsonl:3: last line is cut; the file ends inside a record"


def test_bad_lines_are_counted_and_located(tmp_path: Path) -> None:
    text = '{"response": "a"}\n{nope\n' + "[" * 100_000 + '\n{"response": "c"}\n'
    found = read(samples, write(tmp_path / "s.jsonl", text))
    assert [(sample.line, sample.response) for sample in found.samples] == [(1, "a"), (4, "c")]
    assert found.told == "s.jsonl: 2 lines are no JSON and were left out: 2, 3"


def test_one_json_array_is_read_like_lines(tmp_path: Path) -> None:
    text = json.dumps([{"response": "a"}, {"response": "b"}], indent=1)
    found = read(samples, write(tmp_path / "my_samples.json", text))
    assert [(sample.line, sample.response) for sample in found.samples] == [(1, "a"), (2, "b")]


def test_of_a_cut_array_the_whole_records_before_the_cut_are_kept(tmp_path: Path) -> None:
    text = '[{"response": "a"}, {"response": "[b]"}, {"response": "c'
    found = read(samples, write(tmp_path / "my_samples.json", text))
    assert [(sample.line, sample.response) for sample in found.samples] == [(1, "a"), (2, "[b]")]
    assert found.told == "my_samples.json: is cut or damaged; 2 records before that were read"
    assert found.left_out == 1


def test_an_empty_file_holds_nothing(tmp_path: Path) -> None:
    found = read(samples, write(tmp_path / "s.jsonl", ""))
    assert (found.samples, found.notes) == ([], [])


@pytest.mark.parametrize(
    ("name", "head", "claimed"),
    [
        pytest.param("x.jsonl", '{"response": "a"}', True, id="a response"),
        pytest.param("x.ndjson", '{"step": 3, "completion": "a"}', True, id="a completion"),
        pytest.param("x.jsonl", '{"chosen": "a", "rejected": "b"}', True, id="a pair"),
        pytest.param("bad_samples_3.json", '[{"text": "a"}]', True, id="samples as an array"),
        pytest.param("dpo_pairs.json", '[{"chosen": "a"}]', True, id="pairs as an array"),
        pytest.param("x.json", '[{"text": "a"}]', True, id="samples under any name"),
        pytest.param("x.json", '{"a": [{"n": 1}]}', False, id="JSON without text"),
        pytest.param("x.jsonl", '{"step": 3, "kl": 1}', False, id="metrics"),
        pytest.param("x.jsonl", '{"response": 3}', False, id="a response that is a number"),
        pytest.param(
            "x.jsonl",
            '{"prompt": "' + "word " * 10_000 + '", "response": "a", "reward": 1}',
            True,
            id="a response behind a long prompt",
        ),
        pytest.param("x.jsonl", '{"completion": [{"role": "a"}]}', True, id="a conversation"),
        *(
            pytest.param("x.jsonl", f'{{"text": "a", "{key}": 1}}', False, id=f"a text and {key}")
            for key in ("loss", "train/loss", "grad_norm", "learning_rate", "lr")
        ),
        pytest.param("x.jsonl", '{"content": "a", "rewards": 1}', True, id="content comes first"),
        pytest.param("x.jsonl", '{"kl": 1, "content": "a"}', False, id="content beside numbers"),
        pytest.param("x.json", '[{"response_tensor": [1]}]', True, id="token ids alone"),
        pytest.param("x.jsonl", '{"messages": [{"role": "a"}]}', True, id="messages"),
        pytest.param("x.jsonl", "", False, id="an empty file"),
    ],
)
def test_claims(name: str, head: str, claimed: bool) -> None:
    assert samples.claims(name, head.encode()) is claimed
