"""The samples command: every input, every output, and text that is shown and never obeyed."""

import gzip
import io
import json
import os
import shutil
import sys
import threading
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tests.builders import FIXTURES, write_jsonl
from tests.test_cli import assert_error_lines, cli, document

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

LATE = FIXTURES / "grpo_late" / "bad_samples.jsonl"
THREE: list[dict[str, Any]] = [
    {"response": "a b c", "step": 1},
    {"response": "a b d", "step": 2},
    {"response": "x"},
]
FORMS = ("terminal", "json", "markdown")


def test_the_page_sums_up_first_and_names_the_paid_word(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, out, _ = cli(capsys, "samples", LATE, "--ngrams", 3)
    assert code == 0
    first, second, *rest = out.splitlines()
    assert first.endswith("640 responses")
    assert "end in a loop" in second
    text = "\n".join(rest)
    for told in ("tokens (token ids)", "LORD LORD LORD", "40 (30-40)", "cap 32", "RWD002"):
        assert told in text


def test_several_n_and_steps(capsys: pytest.CaptureFixture[str]) -> None:
    path = FIXTURES / "ppo_late" / "samples_fresh.jsonl"
    found = document(
        capsys, "samples", path, "--ngrams", 1, "--ngrams", 2, "--top", 4, "--by", "step"
    )
    assert [gram["n"] for gram in found["ngrams"]] == [1] * 4 + [2] * 4
    assert [step["step"] for step in found["steps"]] == [0, 20, 40, 60, 100, 160]
    assert "SMP001" in {finding["code"] for finding in found["findings"]}


def test_lengths_and_ngrams_alone(capsys: pytest.CaptureFixture[str]) -> None:
    found = document(capsys, "samples", LATE, "--only", "lengths,ngrams", "--memory", "200M")
    whole = document(capsys, "samples", LATE)
    assert found["only"] == ["lengths", "ngrams"]
    assert found["ngrams"] == whole["ngrams"]
    assert found["lengths"] == whole["lengths"]
    assert found["repetition"] is None
    assert "Degeneration" not in cli(capsys, "samples", LATE, "--only", "ngrams")[1]


# What can be read


def _array(path: Path) -> Path:
    path.write_text(json.dumps(THREE), encoding="utf-8")
    return path


def _object(path: Path) -> Path:
    path.write_text(json.dumps({"score": 0.7, "samples": {"all": THREE}}), encoding="utf-8")
    return path


def _strings(path: Path) -> Path:
    responses = [item["response"] for item in THREE]
    path.write_text(json.dumps({"n": 3, "responses": responses}), encoding="utf-8")
    return path


def _batches(path: Path) -> Path:
    columns = {key: [item.get(key) for item in THREE] for key in ("response", "step")}
    return write_jsonl(path, [columns])


def _chats(path: Path) -> Path:
    turns = [
        [{"role": "user", "content": "?"}, {"role": "assistant", "content": item["response"]}]
        for item in THREE
    ]
    return write_jsonl(path, [{"messages": chat} for chat in turns])


def _parquet(path: Path) -> Path:
    frame = pl.DataFrame({"completion": [item["response"] for item in THREE], "step": 5})
    frame.write_parquet(path)
    return path


def _csv(path: Path) -> Path:
    lines = ["prompt,response", *(f'"p, q","{item["response"]}"' for item in THREE)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def _gzip(path: Path) -> Path:
    path.write_bytes(gzip.compress(write_jsonl(path.with_name("x"), THREE).read_bytes()))
    return path


def _zstd(path: Path) -> Path:
    path.write_bytes(zstd.compress(write_jsonl(path.with_name("x"), THREE).read_bytes()))
    return path


def _folder(path: Path) -> Path:
    for number, item in enumerate(THREE, start=9):
        write_jsonl(path / f"{number}.jsonl", [{"input": "?", "output": item["response"]}])
    return path


@pytest.mark.parametrize(
    ("name", "written"),
    [
        pytest.param("s.jsonl", lambda path: write_jsonl(path, THREE), id="JSON Lines"),
        pytest.param("s.json", _array, id="an array"),
        pytest.param("s.json", _object, id="an object around a list"),
        pytest.param("s.json", _strings, id="an object around a list of texts"),
        pytest.param("completions.jsonl", _batches, id="a batch a line"),
        pytest.param("s.jsonl", _chats, id="conversations"),
        pytest.param("completions_00005.parquet", _parquet, id="parquet"),
        pytest.param("s.csv", _csv, id="CSV"),
        pytest.param("s.jsonl.gz", _gzip, id="gzip"),
        pytest.param("s.jsonl.zst", _zstd, id="zstd"),
        pytest.param("rollouts", _folder, id="a folder with a file a step"),
    ],
)
def test_the_same_samples_from_every_format(
    name: str, written: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = document(capsys, "samples", written(tmp_path / name), "--ngrams", 2)
    assert found["samples"] == 3
    assert found["ngrams"][0] == {
        **{"n": 2, "text": "a b", "count": 2, "samples": 2},
        "share": pytest.approx(2 / 3),
    }


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "packed"])
def test_standard_input(
    packed: bool,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    content = write_jsonl(tmp_path / "s.jsonl", THREE).read_bytes()
    text = io.TextIOWrapper(io.BytesIO(gzip.compress(content) if packed else content))
    monkeypatch.setattr(sys, "stdin", text)
    found = document(capsys, "samples", "-")
    assert (found["file"], found["samples"]) == ("-", 3)


def test_an_unusual_field(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_jsonl(tmp_path / "s.jsonl", [{"said": "a b c"}, {"said": "a b d"}])
    assert cli(capsys, "samples", path)[0] == 2
    found = document(capsys, "samples", path, "--field", "said", "--ngrams", 2)
    assert found["ngrams"][0] == {"n": 2, "text": "a b", "count": 2, "samples": 2, "share": 1.0}


def test_a_missing_field_names_the_keys_that_are_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_jsonl(tmp_path / "s.jsonl", [{"said": "a", "score": 1}])
    code, _, err = cli(capsys, "samples", path, "--field", "text")
    assert code == 2
    assert_error_lines(err)
    assert "said" in err


def test_pairs_are_surveyed_side_by_side(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_jsonl(tmp_path / "pairs.jsonl", [{"prompt": "p", "chosen": "a", "rejected": "b"}])
    code, _, err = cli(capsys, "samples", path)
    assert (code, "--field chosen" in err) == (2, True)
    assert document(capsys, "samples", path, "--field", "rejected")["samples"] == 1


def test_bad_lines_are_counted_and_located(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "s.jsonl"
    path.write_bytes(b'{"response": "a"}\nno json\n{"response": "b", "reward": NaN}\n\xff\xfe{\n')
    found = document(capsys, "samples", path)
    assert (found["samples"], found["skipped_lines"]) == (2, 2)
    assert any("2, 4" in note["text"] for note in found["notes"])


def test_a_tokenizer_beside_the_samples_is_used_and_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_jsonl(tmp_path / "s.jsonl", [{"response": "In the beginning God created"}])
    assert document(capsys, "samples", path)["length"]["unit"] == "words"
    named = document(capsys, "samples", path, "--tokenizer", FIXTURES / "base")
    assert (named["length"]["unit"], named["length"]["source"][-14:]) == (
        "tokens",
        "tokenizer.json",
    )
    shutil.copy(FIXTURES / "base" / "tokenizer.json", tmp_path)
    beside = document(capsys, "samples", path)
    assert beside["length"]["source"] == "tokenizer.json"
    assert beside["length"]["mean"] == named["length"]["mean"]


def test_a_tokenizer_that_cannot_read_a_text_is_left_out_unless_it_was_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_jsonl(tmp_path / "s.jsonl", [{"response": "words it does not know"}])
    vocabulary = {"model": {"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "[UNK]"}}
    (tmp_path / "tokenizer.json").write_text(json.dumps({"version": "1.0", **vocabulary}))
    found = document(capsys, "samples", path)
    assert found["length"]["unit"] == "words"
    assert any(note["where"] == "tokenizer.json" for note in found["notes"])
    code, _, err = cli(capsys, "samples", path, "--tokenizer", tmp_path)
    assert code == 2
    assert_error_lines(err)


def test_calls_of_tools_are_no_empty_answers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    call = [{"function": {"name": "search", "arguments": "{}"}}]
    chat = [
        {"role": "user", "content": "?"},
        {"role": "assistant", "content": "", "tool_calls": call},
    ]
    path = write_jsonl(
        tmp_path / "s.jsonl", [{"messages": chat}, {"response": "", "tool_calls": call}]
    )
    found = document(capsys, "samples", path, "--ngrams", 1)
    assert found["repetition"]["empty"] == 0
    assert "search" in found["ngrams"][0]["text"] or found["samples"] == 2


def test_a_pipe_is_read_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    content = write_jsonl(tmp_path / "s.jsonl", THREE).read_bytes()
    writer = threading.Thread(target=pipe.write_bytes, args=(content,))
    writer.start()
    found = document(capsys, "samples", pipe)
    writer.join()
    assert found["samples"] == 3


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(["nowhere.jsonl"], id="a missing file"),
        pytest.param([LATE, "--only", "loops"], id="a section that is none"),
        pytest.param([LATE, "--memory", "1M"], id="too little memory"),
        pytest.param([LATE, "--memory", "much"], id="a size that is none"),
        pytest.param([LATE, "--top", "9" * 20], id="more n-grams than can be listed"),
        pytest.param([LATE, "--format", "html"], id="a report that is none"),
        pytest.param([LATE, "--tokenizer", "nowhere"], id="a tokenizer that is nowhere"),
        pytest.param([LATE, "--tokenizer", LATE], id="a tokenizer that is none"),
        pytest.param([LATE, "--output", f"json={LATE}"], id="an output over the samples"),
        pytest.param([LATE, "--output", "json=nowhere/x"], id="an output to nowhere"),
        pytest.param([FIXTURES / "base"], id="a folder without samples"),
    ],
)
def test_errors_are_two_lines(arguments: list[object], capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = cli(capsys, "samples", *arguments)
    assert (code, out) == (2, "")
    assert_error_lines(err)


def test_reports_are_written_beside(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    places = [tmp_path / "s.json", tmp_path / "s.md"]
    outputs = ["--output", f"json={places[0]}", "--output", f"markdown={places[1]}"]
    before = LATE.read_bytes()
    code, _, _ = cli(capsys, "samples", LATE, *outputs)
    assert code == 0
    assert json.loads(places[0].read_text(encoding="utf-8"))["samples"] == 640
    assert places[1].read_text(encoding="utf-8").startswith("#")
    assert LATE.read_bytes() == before


# Text that would do harm

EVIL = "\x1b[2J\x1b]0;owned\x07\x9b31m[bold]{0}[/bold]<script>alert(1)</script>\u202e\x00\u200b`|"
HOSTILE: list[dict[str, Any]] = [
    {"response": f"{EVIL} " * 60, "prompt": EVIL, "reward": 1.0, "step": 1},
    {"response": f"{EVIL} " * 60, "prompt": EVIL + "q", "reward": 2.0, "step": 1},
    {"response": "lone \ud800 surrogate " * 20, "prompt": "\udfff", "step": 2},
    {"response": "x" * 10_000_000, "prompt": "ten million", "step": 2},
    {"response": EVIL, EVIL: EVIL},
]


@pytest.mark.parametrize("form", FORMS)
def test_hostile_text_passes_through_every_output_harmlessly(
    form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_jsonl(tmp_path / "s.jsonl", HOSTILE)
    place = tmp_path / "report"
    code, out, err = cli(
        capsys, "samples", path, "--format", form, "--output", f"{form}={place}", "--by", "step"
    )
    assert (code, err) == (0, "")
    written = place.read_text(encoding="utf-8")
    for text in (out, written):
        assert len(text) < 200_000
        harmful = set("\x1b\x07\x9b\x00\u202e\u200b") & set(text)
        assert not harmful
        if form == "json":
            assert not harmful, "control characters are JSON escapes"
            assert json.loads(text)["samples"] == 5
        else:
            assert "[bold]{0}[/bold]" in text, "markup is shown as it is"
    if form == "markdown":
        outside = [
            line
            for block in written.split("\n\n")
            if "```" not in block
            for line in block.splitlines()
            if not line.startswith("    ")
        ]
        assert not any("<script>" in line for line in outside)
