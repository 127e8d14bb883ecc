import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlhfdoctor.readers import parquet as module
from rlhfdoctor.readers.parquet import parquet, read_samples
from tests.readers.helpers import Read, read, sort, write


def of(
    tmp_path: Path, columns: dict[str, list[Any]], name: str = "completions_00040.parquet"
) -> Read:
    pl.DataFrame(columns).write_parquet(tmp_path / name)
    return read(parquet, tmp_path / name)


CHAT = [{"role": "user", "content": "q"}]
ANSWER = [{"role": "assistant", "content": "hi"}]


def test_completions_as_trl_writes_them(tmp_path: Path) -> None:
    found = of(
        tmp_path,
        {
            "step": [40, 40],
            "prompt": ["q", "q"],
            "completion": ["a", "b"],
            "accuracy": [1.0, 0.0],
            "format_ok": [0.5, None],
            "advantage": [0.7, -0.7],
        },
    )
    assert [(item.step, item.prompt, item.response, item.advantage) for item in found.samples] == [
        (40, "q", "a", 0.7),
        (40, "q", "b", -0.7),
    ]
    assert [item.reward_components for item in found.samples] == [
        {"accuracy": 1.0, "format_ok": 0.5},
        {"accuracy": 0.0},
    ]
    assert found.notes == []


def test_conversations(tmp_path: Path) -> None:
    found = of(tmp_path, {"prompt": [CHAT], "completion": [ANSWER]})
    assert [(item.step, item.prompt, item.response) for item in found.samples] == [(40, "q", "hi")]
    assert "no chat template" in found.told


def test_metrics(tmp_path: Path) -> None:
    found = of(tmp_path, {"_step": [1, 2], "kl": [0.5, None], "s": ["x", None]}, "history.parquet")
    assert [(row.step, dict(row.values)) for row in found.rows] == [(1, {"kl": 0.5}), (2, {})]
    assert "no numbers, so no metrics: s (1 rows)" in found.told


def test_a_table_of_something_else_is_noted(tmp_path: Path) -> None:
    found = of(tmp_path, {"city": ["a"]})
    assert found.told == "completions_00040.parquet: holds neither responses nor steps; not read"


def test_rows_beyond_the_limit_are_told_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST", 2)
    found = of(tmp_path, {"step": [1, 2, 3], "kl": [1.0, 2.0, 3.0]}, "metrics.parquet")
    assert len(found.rows) == 2
    assert "1 rows behind the first 2 were left out" in found.told


def streamed(path: Path, field: str | None = None) -> Read:
    return sort(read_samples(path, field))


@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "packed"])
@pytest.mark.parametrize(
    ("bound", "value"), [("BLOCK", 3), ("BLOCK_TEXT", 9), ("MOST_AT_ONCE", 4), ("SLICE", 1)]
)
def test_a_table_of_any_length_is_read_in_pieces(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    pack: Callable[[bytes], bytes],
    bound: str,
    value: int,
) -> None:
    monkeypatch.setattr(module, "FEWEST", 2)
    monkeypatch.setattr(module, bound, value)
    monkeypatch.setattr(module, "MOST", 1)
    whole = tmp_path / "whole"
    texts = [str(n) * (n % 5) for n in range(20)]
    pl.DataFrame({"response": texts, "ids": [[n] for n in range(20)]}).write_parquet(
        whole, row_group_size=7
    )
    found = streamed(write(tmp_path / "x.parquet", pack(whole.read_bytes())))
    assert [(item.line, item.response) for item in found.samples] == list(enumerate(texts, start=1))
    assert found.notes == []


@pytest.mark.parametrize(
    ("field", "expected"), [("mine", ["a", "b"]), ("o.text", ["c", "d"]), ("chat", ["hi", "hi"])]
)
def test_a_field_is_a_column_or_inside_one(tmp_path: Path, field: str, expected: list[str]) -> None:
    path = tmp_path / "x.parquet"
    columns = {"mine": ["a", "b"], "o": [{"text": "c"}, {"text": "d"}], "chat": [ANSWER, ANSWER]}
    pl.DataFrame(columns).write_parquet(path)
    assert [item.response for item in streamed(path, field).samples] == expected


def test_where_no_column_is_the_field_the_columns_are_told(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    pl.DataFrame({"id": [1], "mine": ["a"]}).write_parquet(path)
    for field in ("nope", None):
        found = streamed(path, field)
        assert found.told == "x.parquet: holds no responses; its columns are id, mine"
        assert found.notes[0].unread


def test_rows_beyond_the_bytes_of_a_file_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_ROWS", 3)
    path = tmp_path / "x.parquet"
    pl.DataFrame({"response": ["a"] * 50_000}).write_parquet(path)
    size = path.stat().st_size
    found = streamed(path)
    assert len(found.samples) == size
    assert found.left_out == 50_000 - size


def test_texts_beyond_any_measure_of_a_file_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("MOST_TEXT", 9), ("MOST_TIMES", 0), ("MOST_AT_ONCE", 2), ("FEWEST", 2)):
        monkeypatch.setattr(module, name, value)
    path = tmp_path / "x.parquet"
    pl.DataFrame({"response": ["a"] * 100}).write_parquet(path)
    assert streamed(path).told == "x.parquet: 90 rows behind the first 10 were left out"


@settings(max_examples=60, deadline=None)
@given(place=st.floats(0, 1), bytes_=st.binary(max_size=4))
def test_damage_is_never_a_traceback(
    tmp_path_factory: pytest.TempPathFactory, place: float, bytes_: bytes
) -> None:
    folder = tmp_path_factory.mktemp("damaged")
    whole = folder / "whole.parquet"
    pl.DataFrame({"step": [1, 2], "completion": ["a", "b"], "x": [[1], [2]]}).write_parquet(whole)
    text = whole.read_bytes()
    at = int(place * len(text))
    for damaged in (text[:at], text[:at] + bytes_ + text[at + len(bytes_) :]):
        read(parquet, write(folder / "completions_1.parquet", damaged))
        streamed(folder / "completions_1.parquet")


@pytest.mark.parametrize(
    ("name", "head", "claimed"),
    [
        ("completions_00040.parquet", b"PAR1", True),
        ("my_samples.parquet", b"PAR1", True),
        ("completions_00040.parquet", b"text", False),
        ("train.parquet", b"PAR1", False),
    ],
)
def test_claims(name: str, head: bytes, claimed: bool) -> None:
    assert parquet.claims(name, head) is claimed
