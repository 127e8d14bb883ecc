"""Files written by wandb itself, and of its own messages."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from wandb.proto.wandb_internal_pb2 import Record  # type: ignore[attr-defined]

from rlhfdoctor.readers.wandb import wandb
from tests.readers.helpers import Read, read, write
from tests.readers.logs import log

HEADER = b":W&B\xe1\xbe\0"

SCRIPT = """
import math, wandb
run = wandb.init(project="p", config={"learning_rate": 1e-5, "beta": 0.1, "kl": {"target": 6}})
for step in range(1, 4):
    values = {"train/loss": 1 / step, "train/kl": {"mean": step}, "train/nan": math.nan}
    run.log({**values, "train/global_step": 10 * step, "h": wandb.Histogram([1, 2, 3])})
run.log({"eval/loss": 2.0, "train/global_step": 30})
run.finish(exit_code=3)
"""


def history(call: Mapping[str, object], step: int | None = None) -> Record:
    record = Record()
    for key, value in call.items():
        record.history.item.add(key=key, value_json=json.dumps(value))
    if step is not None:
        record.history.step.num = step
    return record


def ended(code: int = 0) -> Record:
    record = Record()
    record.exit.SetInParent()
    record.exit.exit_code = code
    return record


def configured(**config: object) -> Record:
    record = Record()
    for key, value in config.items():
        record.run.config.update.add(key=key, value_json=json.dumps(value))
    return record


def made(tmp_path: Path, *records: Record | bytes) -> Read:
    data = [item if isinstance(item, bytes) else item.SerializeToString() for item in records]
    return read(wandb, write(tmp_path / "run-x.wandb", log(HEADER, data)))


def test_what_wandb_writes_offline_is_read(tmp_path: Path) -> None:
    environment = {
        **os.environ,
        "WANDB_MODE": "offline",
        "WANDB_DIR": str(tmp_path),
        "WANDB_SILENT": "true",
        "WANDB_CONSOLE": "off",
    }
    subprocess.run([sys.executable, "-c", SCRIPT], env=environment, check=True, timeout=120)
    found = read(wandb, next(tmp_path.glob("wandb/offline-run-*/run-*.wandb")))
    assert [(row.step, row.split) for row in found.rows] == [
        (10, "train"),
        (20, "train"),
        (30, "train"),
        (30, "eval"),
    ]
    assert found.rows[0].values == pytest.approx(
        {"train/loss": 1.0, "train/kl/mean": 1.0, "train/nan": float("nan")}, nan_ok=True
    )
    assert all((row.wall_time or 0) > 1.7e9 for row in found.rows)
    assert {item.name: item.value for item in found.settings} == {
        "learning_rate": 1e-5,
        "kl_coef": 0.1,
    }
    assert "the run ended with exit code 3" in found.told
    assert "holds besides numbers, unread: 3 histogram" in found.told


def test_rows_are_those_of_wandbs_own_messages(tmp_path: Path) -> None:
    calls = [{f"metric_{key}": key / (step + 1) for key in range(60)} for step in range(400)]
    found = made(tmp_path, *(history(call, step) for step, call in enumerate(calls)), ended())
    assert [row.values for row in found.rows] == calls
    assert [row.step for row in found.rows] == list(range(400))
    assert found.notes == []


def test_a_record_may_span_many_blocks(tmp_path: Path) -> None:
    call = {f"metric_{key}": key for key in range(6000)}
    found = made(tmp_path, history({"a": 1}, 1), history(call, 2), history({"a": 3}, 3), ended())
    assert [(row.step, len(row.values)) for row in found.rows] == [(1, 1), (2, 6000), (3, 1)]
    assert found.notes == []


@pytest.mark.parametrize(
    ("calls", "steps"),
    [
        pytest.param([{"kl": 1}, {"kl": 1}], [0, 1], id="wandb's own step where no other is"),
        pytest.param(
            [{"kl": 1, "train/global_step": 10}, {"kl": 1, "train/global_step": 20}],
            [10, 20],
            id="the trainer's own step",
        ),
        pytest.param(
            [{"kl": 1, "global_step": 10}, {"x": 1}, {"kl": 1, "global_step": 20}],
            [10, 10, 20],
            id="a call without a step was made after the one before",
        ),
        pytest.param(
            [{"kl": 1}, {"kl": 1}, {"kl": 1}, {"x": 1, "step": 70}],
            [0, 1, 2, 70],
            id="a step that few calls carry is theirs alone",
        ),
        pytest.param(
            [{"kl": 1, "step": 50}, {"t": "x"}, {"t": "y"}, {"x": 1}, {"kl": 1, "step": 60}],
            [50, 50, 60],
            id="calls without numbers do not count",
        ),
        pytest.param(
            [{"kl": 1, "step": 5}, {"image": {"_type": "image-file"}}, {"kl": 1, "step": 6}],
            [5, 6],
            id="a call without numbers is no row",
        ),
    ],
)
def test_steps(tmp_path: Path, calls: list[dict[str, object]], steps: list[int]) -> None:
    found = made(tmp_path, *(history(call, count) for count, call in enumerate(calls)))
    assert [row.step for row in found.rows] == steps


def test_wandbs_own_keys_are_no_metrics(tmp_path: Path) -> None:
    call = {"kl": 1, "_step": 4, "_runtime": 9.5, "_timestamp": 1.8e9, "_wandb": {"runtime": 9}}
    row = made(tmp_path, history(call)).rows[0]
    assert (row.values, row.step, row.wall_time) == ({"kl": 1.0}, 4, 1.8e9)


@pytest.mark.parametrize(
    ("field", "value", "read_as"),
    [
        ("value_json", "NaN", {"kl": pytest.approx(float("nan"), nan_ok=True)}),
        ("value_json", "-Infinity", {"kl": float("-inf")}),
        ("value_json", '"NaN"', {"kl": pytest.approx(float("nan"), nan_ok=True)}),
        ("json", "0.5", {"kl": 0.5}),
        ("number", -0.25, {"kl": -0.25}),
        ("integer", -7, {"kl": -7.0}),
        ("integer", 7, {"kl": 7.0}),
        ("text", "0.5", {"kl": 0.5}),
    ],
)
def test_values_of_every_kind(
    tmp_path: Path, field: str, value: Any, read_as: dict[str, float]
) -> None:
    record = Record()
    record.history.item.add(key="kl", **{field: value})
    record.history.item.add(key="_step", value_json="1")
    assert made(tmp_path, record).rows[0].values == read_as


def test_nested_keys_are_joined(tmp_path: Path) -> None:
    record = Record()
    record.history.item.add(nested_key=["kl", "mean"], value_json="2")
    record.history.item.add(nested_key=["kl", "max"], value_json='{"value": 3}')
    record.history.item.add(nested_key=["h", "_type"], value_json='"histogram"')
    record.history.item.add(nested_key=["h", "values"], value_json="[1, 2]")
    record.history.step.num = 1
    found = made(tmp_path, record, ended())
    assert found.rows[0].values == {"kl/mean": 2.0, "kl/max/value": 3.0}
    assert found.told == "run-x.wandb: holds besides numbers, unread: 1 histogram"


def test_a_key_of_many_parts_is_followed_to_a_depth(tmp_path: Path) -> None:
    record = Record()
    record.history.item.add(nested_key=["a"] * 5000, value_json="2")
    record.history.step.num = 1
    assert made(tmp_path, record).rows[0].values == {"/".join(["a"] * 32): 2.0}


@pytest.mark.parametrize(
    ("records", "told"),
    [
        pytest.param([], "records no end: the run was killed, or still ran", id="no end"),
        pytest.param([ended(255)], "the run ended with exit code 255", id="a failure"),
        pytest.param([ended()], "", id="a success"),
    ],
)
def test_how_the_run_ended(tmp_path: Path, records: list[Record], told: str) -> None:
    found = made(tmp_path, history({"kl": 1}, 1), *records)
    assert found.told.removeprefix("run-x.wandb: ") == told


def test_the_configuration_is_what_was_set_last(tmp_path: Path) -> None:
    later = Record()
    later.config.update.add(nested_key=["beta"], value_json="0.2")
    found = made(tmp_path, configured(beta=0.1, seed=3, _wandb={"seed": 4}), later)
    assert {item.name: item.value for item in found.settings} == {"kl_coef": 0.2, "seed": 3}


def test_a_run_without_history_has_its_last_values(tmp_path: Path) -> None:
    summary = Record()
    for key, value in (("kl", 1), ("kl", 2), ("_step", 9), ("_timestamp", 1.8e9)):
        summary.summary.update.add(key=key, value_json=json.dumps(value))
    found = made(tmp_path, summary, ended())
    assert [(row.step, row.values) for row in found.rows] == [(9, {"kl": 2.0})]
    assert found.told == "run-x.wandb: holds only the last value of each key, no history"


@pytest.mark.parametrize(
    "record",
    [
        pytest.param(b"\x0f", id="a wire type that does not exist"),
        pytest.param(b"\x12\x7f", id="a record that is cut"),
        pytest.param(b"\x10\x05", id="a number in place of a history"),
        pytest.param(b"\x12\x07\x0a\x05\x82\x01\x02{]", id="a value that is no JSON"),
        pytest.param(b"\x12\x06\x0a\x04\x32\x02ab", id="a number of two bytes"),
        pytest.param(b"\x12\x05\x0a\x03\x2a\x01x", id="a text in place of an integer"),
    ],
)
def test_records_that_are_none_are_counted(tmp_path: Path, record: bytes) -> None:
    found = made(tmp_path, history({"kl": 1}, 1), record, history({"kl": 2}, 2), ended())
    assert [row.step for row in found.rows] == [1, 2]
    assert found.told.endswith("1 records are none of wandb's and were left out")


def test_of_a_cut_file_the_whole_records_are_read(tmp_path: Path) -> None:
    calls = [history({"kl": 1 / step, "loss": step}, step) for step in range(1, 900)]
    whole = log(HEADER, [call.SerializeToString() for call in calls])
    assert len(whole) > 32768
    true = read(wandb, write(tmp_path / "run-x.wandb", whole)).rows
    last = 0
    for place in range(7, len(whole), 64 * 23):
        found = read(wandb, write(tmp_path / "run-x.wandb", whole[:place]))
        assert found.rows == true[: len(found.rows)]
        assert last <= len(found.rows) <= last + 40
        last = len(found.rows)
        assert found.left_out <= 1
    assert "ends inside a record" in found.told


def test_a_flipped_byte_costs_one_record(tmp_path: Path) -> None:
    calls = [history({"kl": 1 / step}, step) for step in range(1, 60)]
    whole = log(HEADER, [call.SerializeToString() for call in calls])
    true = read(wandb, write(tmp_path / "run-x.wandb", whole)).rows
    lost = []
    for place in range(7, len(whole), 5):
        damaged = whole[:place] + bytes([whole[place] ^ 0x10]) + whole[place + 1 :]
        found = read(wandb, write(tmp_path / "run-x.wandb", damaged))
        assert all(row in true for row in found.rows)
        assert found.left_out >= 1
        lost.append(len(true) - len(found.rows))
    assert min(lost) == 1
    assert sorted(lost)[len(lost) // 2] == 1


def test_a_damaged_block_does_not_cost_the_next(tmp_path: Path) -> None:
    calls = [history({"kl": 1 / step}, step) for step in range(1, 3000)]
    whole = log(HEADER, [call.SerializeToString() for call in calls])
    noise = b"\xa5" * 300
    found = read(wandb, write(tmp_path / "run-x.wandb", whole[:40_000] + noise + whole[40_300:]))
    steps = [row.step or 0 for row in found.rows]
    assert steps[-1] == 2999
    assert steps == sorted(set(steps))
    assert 0 < 2999 - len(steps) < 800
    assert "damaged" in found.told


@pytest.mark.parametrize(
    ("name", "head", "claimed"),
    [
        pytest.param("run-abc.wandb", HEADER, True, id="the record of a run"),
        pytest.param("run-abc.wandb", b":SWL\xd6\xe1\x02", False, id="another magic"),
        pytest.param("run-abc.txt", HEADER, False, id="another ending"),
    ],
)
def test_claims(name: str, head: bytes, claimed: bool) -> None:
    assert wandb.claims(name, head) is claimed
