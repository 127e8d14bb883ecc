from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlhfdoctor.readers import parquet as module
from rlhfdoctor.readers.parquet import parquet
from tests.readers.helpers import Read, read, write


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


def test_a_long_file_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LARGEST", 10)
    assert "is longer than 10 bytes" in of(tmp_path, {"step": [1], "kl": [1.0]}).told


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
