import gzip
import json
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlhfdoctor.model import Note
from rlhfdoctor.readers import _elements
from rlhfdoctor.readers._elements import elements
from tests.readers.helpers import write

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text('ab"\\{}[],:\n \u4f60', max_size=6),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text('a"\\}{', max_size=2), inner)
    ),
    max_leaves=8,
)


def of(tmp_path: Path, text: str | bytes, name: str = "s.jsonl") -> tuple[list[Any], str]:
    """Return numbered values, and the notes in one text."""
    found = list(elements(write(tmp_path / name, text)))
    notes = [item for item in found if isinstance(item, Note)]
    values = [item for item in found if not isinstance(item, Note)]
    return values, "\n".join(f"{note.where}: {note.text}" for note in notes)


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        pytest.param("s.jsonl", '{"a": 1}\n{"a": 2}\n', [(1, 1), (2, 2)], id="lines"),
        pytest.param("s.jsonl", '{"a": 1}\r\n{"a": 2}', [(1, 1), (2, 2)], id="lines of Windows"),
        pytest.param("s.jsonl", '\n{"a": 1}\n \n{"a": 2}\n\n', [(2, 1), (4, 2)], id="blank lines"),
        pytest.param("s.jsonl", '\ufeff{"a": 1}\n{"a": 2}\n', [(1, 1), (2, 2)], id="a mark first"),
        pytest.param("s.jsonl", '[{"a": 1},{"a": 2}]', [(1, 1), (2, 2)], id="an array"),
        pytest.param("s.json", '\ufeff \n[{"a": 1}]', [(1, 1)], id="an array behind a mark"),
        pytest.param("s.json", '[{"a": 1}, {"a": 2},\n]', [(1, 1), (2, 2)], id="a comma too many"),
        pytest.param("s.json", "[]", [], id="an empty array"),
        pytest.param("s.json", "", [], id="an empty file"),
        pytest.param("s.json", '{"a": 1}\n{"a": 2}\n', [(1, 1), (2, 2)], id="lines under .json"),
        pytest.param("s.json", '{"a": 1}', [(0, 1)], id="one object"),
        pytest.param("s.jsonl", '{"a": 1}', [(1, 1)], id="one line"),
        pytest.param("s.jsonl", '{\n"a": 1\n}\n', [(0, 1)], id="one object over lines"),
        pytest.param(
            "s.jsonl", '{\n"a": 1\n}\n{\n"a": 2\n}', [(1, 1), (2, 2)], id="objects as jq prints"
        ),
    ],
)
@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "packed"])
@pytest.mark.parametrize("size", [8, 13, 2**20])
def test_values(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    text: str,
    expected: list[tuple[int, int]],
    pack: Callable[[bytes], bytes],
    size: int,
) -> None:
    monkeypatch.setattr(_elements, "READ", size)
    values, told = of(tmp_path, pack(text.encode()), name)
    assert [(line, value["a"]) for line, value in values] == expected
    assert told == ""


@pytest.mark.parametrize("size", [16, 2**20])
@pytest.mark.parametrize("indent", [None, 1])
@settings(max_examples=60, deadline=None)
@given(records=st.lists(JSON, max_size=5))
def test_an_array_is_split_where_its_elements_end(
    tmp_path_factory: pytest.TempPathFactory, size: int, indent: int | None, records: list[Any]
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_elements, "READ", size)
        path = tmp_path_factory.getbasetemp() / f"array{size}{indent}.json"
        for escaped in (True, False):
            write(path, json.dumps(records, indent=indent, ensure_ascii=escaped))
            assert [value for _, value in elements(path)] == records  # type: ignore[misc]


@settings(deadline=None)
@given(data=st.binary(max_size=60), start=st.sampled_from([b"", b"[", b"{\n", b'[{"a":"', b"{"]))
def test_nothing_is_a_traceback(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, start: bytes
) -> None:
    for name in ("x.json", "x.jsonl"):
        path = write(tmp_path_factory.getbasetemp() / name, start + data)
        for item in elements(path):
            assert isinstance(item, tuple | Note)


@pytest.mark.parametrize(
    ("line", "expected", "told"),
    [
        pytest.param(b'{"a": NaN}', "nan", "", id="NaN"),
        pytest.param(b'{"a": -Infinity}', "-inf", "", id="infinity"),
        pytest.param(b'{"a": "x\x00y\ty"}', "x\x00y\ty", "", id="control characters as they are"),
        pytest.param(rb'{"a": "\ud800"}', "\ud800", "", id="a lone surrogate"),
        pytest.param(b'{"a": "\xff\xfe"}', "\ufffd\ufffd", "1 records hold bytes", id="no UTF-8"),
        pytest.param(b'{"a": "' + b"x" * 10**7 + b'"}', "x" * 10**7, "", id="ten megabytes"),
        pytest.param(b'{"a": 1e999}', "inf", "", id="a number beyond any"),
    ],
)
@pytest.mark.parametrize("array", [True, False], ids=["array", "lines"])
def test_what_trainers_write_and_orjson_refuses(
    tmp_path: Path, line: bytes, expected: str, told: str, array: bool
) -> None:
    text = b"[" + line + b', {"a": 7}]' if array else line + b'\n{"a": 7}\n'
    values, notes = of(tmp_path, text)
    assert [(number, str(value["a"])) for number, value in values] == [(1, expected), (2, "7")]
    assert told in notes
    assert bool(told) == bool(notes)


@pytest.mark.parametrize(
    ("name", "text", "expected", "told"),
    [
        pytest.param(
            "s.jsonl",
            '{"a": 1}\n{nope\n\x00\n"quoted"\n' + "[" * 100_000 + '\n{"a": 2}\n',
            [1, 2],
            "s.jsonl: 4 lines are no JSON and were left out: 2, 3, 4, 5",
            id="lines that are no records",
        ),
        pytest.param(
            "s.jsonl",
            '{"a": 1}\n{"a": 2',
            [1],
            "s.jsonl:2: last line is cut; the file ends inside a record",
            id="a cut line",
        ),
        pytest.param(
            "s.jsonl",
            "x\n" * 12 + '{"a": 1}\n{"a',
            [1],
            "s.jsonl:14: last line is cut; the file ends inside a record\n"
            "s.jsonl: 12 lines are no JSON and were left out: 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, ...",
            id="many lines, of which the first are told",
        ),
        pytest.param(
            "s.json",
            '[{"a": 1}, {"a": 2',
            [1],
            "s.json: is cut or damaged; 1 records before that were read",
            id="a cut array",
        ),
        pytest.param(
            "s.json",
            '[{"a": 1}, {"a": 2}',
            [1, 2],
            "s.json: is cut or damaged; 2 records before that were read",
            id="an array cut between elements",
        ),
        pytest.param(
            "s.json",
            '[{"a": 1}, {"a" 9}, {"a": 2}]',
            [1, 2],
            "s.json: 1 lines are no JSON and were left out: 2",
            id="a bad element",
        ),
        pytest.param(
            "s.json",
            '[{"a": 1}] and more',
            [1],
            "s.json: holds something behind its array, which was not read; "
            "1 records before that were read",
            id="something behind an array",
        ),
        pytest.param(
            "s.json",
            '{\n"a": 1,\n"b": "',
            [],
            "s.json: is cut or damaged; no records before that were read",
            id="a cut object",
        ),
    ],
)
def test_damage_is_located(
    tmp_path: Path, name: str, text: str, expected: list[int], told: str
) -> None:
    values, notes = of(tmp_path, text, name)
    assert [value["a"] for _, value in values] == expected
    assert notes == told


def test_lines_that_are_lists_are_no_array(tmp_path: Path) -> None:
    assert of(tmp_path, "[1, 2]\n \n[3]\n") == ([(1, [1, 2]), (3, [3])], "")


def test_lines_that_are_texts(tmp_path: Path) -> None:
    assert of(tmp_path, '"a"\n"b"\n') == ([(1, "a"), (2, "b")], "")


def test_of_a_packed_file_that_is_cut_the_beginning_is_read(tmp_path: Path) -> None:
    lines = "".join(f'{{"a": "{n * 7919}"}}\n' for n in range(5000)).encode()
    values, notes = of(tmp_path, gzip.compress(lines)[:-4000])
    assert 0 < len(values) < 5000
    assert "is packed and damaged or cut" in notes


@pytest.mark.parametrize(
    ("name", "text", "expected", "told"),
    [
        pytest.param(
            "s.jsonl",
            '{"a": 1}\n{"a": "' + "x" * 200 + '"}\n{"a": 2}\n',
            [1, 2],
            "1 lines are longer than",
            id="a line is left out",
        ),
        pytest.param(
            "s.json",
            '[{"a": 1}, {"a": "' + "x" * 200 + '"}, {"a": 2}]',
            [1],
            "holds a record of more than 100 bytes; the rest was not read",
            id="an array ends there",
        ),
        pytest.param(
            "s.json", '{"a": 3, "b": "' + "x" * 200 + '"}', [3], "", id="a document may be longer"
        ),
    ],
)
def test_records_beyond_the_bound(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    text: str,
    expected: list[int],
    told: str,
) -> None:
    monkeypatch.setattr(_elements, "LONGEST", 100)
    monkeypatch.setattr(_elements, "READ", 32)
    values, notes = of(tmp_path, text, name)
    assert [value["a"] for _, value in values] == expected
    assert told in notes
    assert bool(told) == bool(notes)


@pytest.mark.parametrize("array", [True, False], ids=["array", "lines"])
def test_a_long_file_is_not_held(tmp_path: Path, array: bool) -> None:
    record = json.dumps({"a": "x" * 10_000})
    text = f"[{', '.join([record] * 3000)}]" if array else f"{record}\n" * 3000
    path = write(tmp_path / "s.json", text)
    del text
    tracemalloc.start()
    count = sum(1 for _ in elements(path))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert count == 3000
    assert peak < 8 * 2**20
