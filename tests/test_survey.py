import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from rlhfdoctor.runs import read_samples_as_run
from rlhfdoctor.survey import survey
from tests.builders import FIXTURES, write_jsonl

FILES = sorted(FIXTURES.glob("*/*samples*.jsonl"))
CHINESE = [
    {"response": "模型崩溃了，模型崩溃了。reward hacking又来了"},
    {"response": "これはテストです。カタカナ ひらがな 漢字"},
    {"response": "Mixed 中文 and English,全角　空格\tand\nlines"},
    {"response": "한국어는 단어로 센다 한국어는"},
    {"response": ""},
]


def reference(path: Path, n: int) -> tuple[Counter[str], Counter[str]]:
    """The ten lines that every count must equal: white space splits, Han and kana stand alone."""
    counts: Counter[str] = Counter()
    documents: Counter[str] = Counter()
    for line in path.read_text(encoding="utf-8").splitlines():
        text = json.loads(line)["response"]
        text = re.sub(r"([\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff])", r" \1 ", text)
        words = text.split()
        grams = [" ".join(words[i : i + n]) for i in range(len(words) - n + 1)]
        counts.update(grams)
        documents.update(set(grams))
    return counts, documents


def surveyed(path: Path, n: int, top: int = 1_000_000) -> dict[str, Any]:
    return survey(read_samples_as_run(path), [n], top, by_step=False)


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_three_grams_equal_the_reference(path: Path) -> None:
    counts, documents = reference(path, 3)
    found = surveyed(path, 3)["ngrams"]
    assert {gram["text"]: gram["count"] for gram in found} == counts
    assert {gram["text"]: gram["samples"] for gram in found} == documents


@pytest.mark.parametrize("n", [1, 2, 3, 5])
def test_chinese_and_japanese_are_counted_by_character(n: int, tmp_path: Path) -> None:
    path = write_jsonl(tmp_path / "samples.jsonl", CHINESE)
    counts, documents = reference(path, n)
    found = surveyed(path, n)["ngrams"]
    assert counts
    assert {gram["text"]: gram["count"] for gram in found} == counts
    assert {gram["text"]: gram["samples"] for gram in found} == documents
    assert all(gram["share"] == gram["samples"] / len(CHINESE) for gram in found)


def test_the_most_frequent_come_first_and_ties_in_text_order(tmp_path: Path) -> None:
    path = write_jsonl(tmp_path / "samples.jsonl", [{"response": "b b a a c"}])
    assert [gram["text"] for gram in surveyed(path, 1, top=2)["ngrams"]] == ["a", "b"]


def test_lengths_are_counted_in_tokens_where_the_file_has_them(tmp_path: Path) -> None:
    samples = [{"response": "a b", "token_ids": list(range(n))} for n in range(1, 101)]
    path = write_jsonl(tmp_path / "samples.jsonl", samples)
    length = surveyed(path, 1)["length"]
    assert length["unit"] == "tokens"
    assert (length["min"], length["p50"], length["p90"], length["p99"]) == (1, 50, 90, 99)
    assert length["max"] == 100
    assert length["mean"] == 50.5
    assert sum(bucket["count"] for bucket in length["histogram"]) == 100
    assert length["over_3_sigma"] == 0


def test_lengths_are_counted_in_words_otherwise(tmp_path: Path) -> None:
    path = write_jsonl(tmp_path / "samples.jsonl", [{"response": "a 中文"}] * 2)
    length = surveyed(path, 1)["length"]
    assert (length["unit"], length["mean"]) == ("words", 3)


def test_one_long_answer_stands_out(tmp_path: Path) -> None:
    samples = [{"response": "a b c"}] * 50 + [{"response": "a " * 500}]
    path = write_jsonl(tmp_path / "samples.jsonl", samples)
    found = surveyed(path, 1)
    assert found["length"]["over_3_sigma"] == 1
    assert found["repetition"]["looping"] == 1
    assert found["repetition"]["worst"][0]["line"] == 51
    assert found["repetition"]["worst"][0]["period"] == 1
    assert found["duplicates"] == {"groups": 1, "samples": 50, "share": 50 / 51}


def test_lines_that_cannot_be_read_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "samples.jsonl"
    path.write_text('{"response": "a b"}\nnot json\n{"other": 1}\n{"response": "c')
    found = surveyed(path, 1)
    assert found["samples"] == 1
    assert found["skipped_lines"] == 3
