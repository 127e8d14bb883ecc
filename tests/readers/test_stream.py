import gzip
import io
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlhfdoctor.model import Note, Sample
from rlhfdoctor.readers import _samples
from rlhfdoctor.readers._stream import in_order, stream
from tests.readers.helpers import write

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

RECORDS = [
    {"step": 3, "prompt": "p", "response": "one \u4f60", "reward": 0.5},
    {"step": 4, "prompt": "q", "response": "two\nlines", "reward": 1.5},
]
EXPECTED = [(record["step"], record["response"], record["reward"]) for record in RECORDS]
CHATS = [
    {
        "step": record["step"],
        "messages": [
            {"role": "user", "content": record["prompt"]},
            {"role": "assistant", "content": record["response"]},
        ],
        "reward": record["reward"],
    }
    for record in RECORDS
]
BATCH = {key: [record[key] for record in RECORDS] for key in RECORDS[0]}


def told(*paths: Path, field: str | None = None) -> tuple[list[tuple[str, Sample]], list[Note]]:
    found = list(stream(paths, field))
    return (
        [item for item in found if not isinstance(item, Note)],
        [item for item in found if isinstance(item, Note)],
    )


def parquet_of(table: dict[str, list[object]]) -> bytes:
    file = io.BytesIO()
    pl.DataFrame(table).write_parquet(file)
    return file.getvalue()


def lines(*records: object) -> bytes:
    return "".join(json.dumps(record) + "\n" for record in records).encode()


TABLE = pl.DataFrame(BATCH)
FORMATS = {
    "JSON Lines": lines(*RECORDS),
    "a JSON array": json.dumps(RECORDS).encode(),
    "an indented array": json.dumps(RECORDS, indent=2).encode(),
    "an object around records": json.dumps({"n": 2, "samples": RECORDS}, indent=2).encode(),
    "a batch of lists": lines(BATCH),
    "a batch of lists as a document": json.dumps(BATCH, indent=2).encode(),
    "conversations": lines(*CHATS),
    "CSV": TABLE.write_csv().encode(),
    "TSV": TABLE.write_csv(separator="\t").encode(),
    "parquet": parquet_of(BATCH),
}


@pytest.mark.parametrize("name", ["samples", "samples.jsonl", "samples.json", "x.txt"])
@pytest.mark.parametrize(
    "pack",
    [
        pytest.param(bytes, id="plain"),
        pytest.param(gzip.compress, id="gzip"),
        pytest.param(zstd.compress, id="zstd"),
    ],
)
@pytest.mark.parametrize("form", list(FORMATS))
def test_every_format_under_any_name(
    tmp_path: Path, form: str, pack: Callable[[bytes], bytes], name: str
) -> None:
    path = write(tmp_path / name, pack(FORMATS[form]))
    found, notes = told(path)
    assert [(x.step, x.response, x.reward) for _, x in found] == EXPECTED
    assert {source for source, _ in found} == {name}
    assert [note for note in notes if "no chat template" not in note.text] == []


def test_files_are_read_in_the_order_of_the_paths(tmp_path: Path) -> None:
    paths = [tmp_path / "b" / "2.jsonl", tmp_path / "a" / "1.jsonl"]
    for path in paths:
        write(path, lines({"response": path.stem}, {"prompt": "p"}))
    found, notes = told(*paths)
    assert [(name, x.response, x.step) for name, x in found] == [
        ("b/2.jsonl", "2", 2),
        ("a/1.jsonl", "1", 1),
    ]
    assert [note.where for note in notes] == ["b/2.jsonl", "a/1.jsonl"]


def test_a_name_that_is_no_text_can_be_shown(tmp_path: Path) -> None:
    path = tmp_path / os.fsdecode(b"s\xff.jsonl")
    ((name, _),), (note,) = told(write(path, lines({"response": "a"}, {"prompt": "b"})))
    assert (name, note.where) == ("s\\xff.jsonl", "s\\xff.jsonl")


def test_no_file_holds_nothing() -> None:
    assert told() == ([], [])


@pytest.mark.parametrize(
    ("content", "text"),
    [
        pytest.param(b"", "is empty; nothing was read", id="an empty file"),
        pytest.param(None, "cannot be read (No such file or directory)", id="no file"),
        pytest.param(b"PAR1 but cut", "is no parquet file that can be read", id="no parquet"),
        pytest.param(b"\x7fELF\x00\x00", "last line is cut", id="a program"),
        pytest.param(b'{"metrics": 1}\n', "their keys are metrics", id="no samples"),
    ],
)
def test_what_cannot_be_read_is_a_note_and_the_rest_is_read(
    tmp_path: Path, content: bytes | None, text: str
) -> None:
    path = tmp_path / "x.jsonl"
    if content is not None:
        write(path, content)
    other = write(tmp_path / "y.jsonl", lines({"response": "a"}))
    found, notes = told(path, other)
    assert [x.response for _, x in found] == ["a"]
    assert text in notes[0].text
    assert notes[0].where.startswith("x.jsonl")


def test_nothing_is_too_much(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_samples, "MOST", 1)
    monkeypatch.setattr(_samples, "MOST_TEXT", 1)
    for form, content in FORMATS.items():
        found, _ = told(write(tmp_path / form, content))
        assert len(found) == len(RECORDS)


@settings(deadline=None)
@given(data=st.binary(max_size=80), start=st.sampled_from([b"", b"PAR1", b"[", b"a,text\n"]))
def test_nothing_is_a_traceback(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, start: bytes
) -> None:
    path = write(tmp_path_factory.getbasetemp() / "any", start + data)
    for item in stream([path]):
        assert isinstance(item, tuple | Note)


@pytest.mark.parametrize(
    ("paths", "expected"),
    [
        (["10.jsonl", "2.jsonl", "1.jsonl"], ["1.jsonl", "2.jsonl", "10.jsonl"]),
        (["s_10/a", "s_9/b", "s_9/a"], ["s_9/a", "s_9/b", "s_10/a"]),
        (["b", "a10", "a9", "a"], ["a", "a9", "a10", "b"]),
        (["x" + "9" * 5000, "x1"], ["x1", "x" + "9" * 5000]),
    ],
    ids=["steps", "folders", "letters", "a number beyond any"],
)
def test_numbers_in_names_count(paths: list[str], expected: list[str]) -> None:
    assert in_order(list(map(Path, paths))) == list(map(Path, expected))
