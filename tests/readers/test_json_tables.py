import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlhfdoctor.readers.json_tables import json_tables
from tests.readers.helpers import Read, read, write


def of(tmp_path: Path, document: Any, indent: int | None = None) -> Read:
    return read(json_tables, write(tmp_path / "run.json", json.dumps(document, indent=indent)))


def rows(found: Read) -> list[tuple[int | None, dict[str, float]]]:
    return [(row.step, dict(row.values)) for row in found.rows]


TWO = [(1, {"kl": 0.1}), (2, {"kl": 0.2})]


@pytest.mark.parametrize("indent", [None, 1])
@pytest.mark.parametrize(
    "document",
    [
        pytest.param([{"step": 1, "kl": 0.1}, {"step": 2, "kl": 0.2}], id="an array"),
        pytest.param({"history": [{"step": 1, "kl": 0.1}, {"step": 2, "kl": 0.2}]}, id="a list"),
        pytest.param({"a": {"b": {"1": {"kl": 0.1}, "2": {"kl": 0.2}}}}, id="tables by step"),
        pytest.param({"kl": {"1": 0.1, "2": 0.2}}, id="numbers by step"),
        pytest.param({"step": [1, 2], "kl": [0.1, 0.2], "name": "x"}, id="columns"),
        pytest.param({"log": {"steps": [1, 2], "kl": [0.1, 0.2]}}, id="columns deeper down"),
    ],
)
def test_tables(tmp_path: Path, document: Any, indent: int | None) -> None:
    found = of(tmp_path, document, indent)
    assert rows(found) == TWO
    assert found.notes == []


def test_lines_under_the_name_of_a_document(tmp_path: Path) -> None:
    text = '{"step": 1, "kl": 0.1}\n{"step": 2, "kl": 0.2}\n'
    assert rows(read(json_tables, write(tmp_path / "log.json", text))) == TWO


def test_tables_that_share_no_metric_are_one_run_by_step(tmp_path: Path) -> None:
    found = of(tmp_path, {"kl": {"1": 0.1, "2": 0.2}, "entropy": {"1": 3.0, "2": 2.0}})
    assert rows(found) == [
        (1, {"kl": 0.1}),
        (1, {"entropy": 3.0}),
        (2, {"kl": 0.2}),
        (2, {"entropy": 2.0}),
    ]


def test_a_table_of_evaluations_is_told_apart(tmp_path: Path) -> None:
    found = of(tmp_path, {"train": [{"step": 5, "loss": 1}], "eval": [{"step": 5, "loss": 2}]})
    assert [(row.split, dict(row.values)) for row in found.rows] == [
        ("train", {"loss": 1.0}),
        ("eval", {"eval_loss": 2.0}),
    ]


def test_tables_of_the_same_metrics_are_read_one_behind_the_other(tmp_path: Path) -> None:
    one = {"n": 2, "data": {"1": {"kl": 0.1}, "2": {"kl": 0.2}}}
    found = of(tmp_path, {"E1": one, "E2": one})
    assert rows(found) == TWO * 2
    assert "holds 2 tables of the same metrics, each a run: E1/data, E2/data" in found.told
    assert "2 values beside the tables are no rows" in found.told


def test_a_column_of_another_length_is_no_part_of_the_table(tmp_path: Path) -> None:
    found = of(tmp_path, {"step": [1, 2], "kl": [0.1, 0.2], "evals": [1, 2, 3]})
    assert rows(found) == TWO


def test_elements_that_are_no_records_are_counted(tmp_path: Path) -> None:
    found = of(tmp_path, [{"step": 1, "kl": 0.1}, 7, None])
    assert rows(found) == TWO[:1]
    assert (found.told, found.left_out) == (
        "run.json: 2 records are no tables and were left out",
        2,
    )


def test_one_record_with_a_step_is_a_table_of_one(tmp_path: Path) -> None:
    assert rows(of(tmp_path, {"step": 1, "kl": 0.1})) == TWO[:1]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        pytest.param("{}", "holds no table", id="an empty object"),
        pytest.param('{"a": 1}', "holds no table", id="a summary"),
        pytest.param('{"a": ' * 50 + "1" + "}" * 50, "holds no table", id="too deep"),
        pytest.param("3", "holds no table", id="a number"),
        pytest.param('[{"step": 1, "kl": 0.1}, {"st', "is cut or damaged", id="a cut array"),
        pytest.param(
            '{"history": [{"step": 1, "kl": 0.1}, {"step',
            "is cut or damaged; 1 records",
            id="a cut object",
        ),
    ],
)
def test_what_is_no_table_is_a_note(tmp_path: Path, text: str, told: str) -> None:
    assert told in read(json_tables, write(tmp_path / "x.json", text)).told


@given(st.integers(0, 200), st.binary(max_size=3))
def test_damage_is_never_a_traceback(place: int, bytes_: bytes) -> None:
    text = b'{"E": {"data": {"1": {"kl": 0.1}}, "h": [{"step": 1}], "c": {"x": [1, 2]}}}' * 2
    with TemporaryDirectory() as folder:
        damaged = text[:place] + bytes_ + text[place + len(bytes_) :]
        read(json_tables, write(Path(folder) / "x.json", damaged))


@pytest.mark.parametrize(
    ("head", "claimed"),
    [
        pytest.param('[{"step": 1, "loss": 0.5}]', True, id="rows"),
        pytest.param('{"a": {"1": {"kl": 0.5}}}', True, id="tables by step"),
        pytest.param('{"steps": [1, 2], "mean_reward": [1, 2]}', True, id="columns"),
        pytest.param('{"step": 1, "loss": 2}\n{"step": 2, "loss": 1}', True, id="lines"),
        pytest.param('[{"step": 1, "rho": 0.5}]', True, id="numbers that nobody knows, by step"),
        pytest.param('[{"step": 1, "action": "go"}]', False, id="steps of an agent"),
        pytest.param('{"loss": 0.5, "epoch": 3}', False, id="a summary"),
        pytest.param('[{"task": "x", "accuracy": 0.5}]', False, id="a table of benchmarks"),
        pytest.param('{"log_history": [{"step": 1, "loss": 2}]}', False, id="a trainer's state"),
        pytest.param('[{"step": 1, "response": "x", "reward": 1}]', False, id="samples"),
        pytest.param('{"model_type": "x", "step": [1, 2], "loss": 1}', False, id="a model"),
        pytest.param('{"steps": 9, "lr": 0.1, "betas": [0.9, 0.99]}', True, id="left to the name"),
        pytest.param("", False, id="an empty file"),
    ],
)
def test_claims(head: str, claimed: bool) -> None:
    assert json_tables.claims("x.json", head.encode()) is claimed
