"""SwanLab's messages, made by hand: field numbers as in swanlab/proto of SwanLab 0.10."""

import math
import struct
from pathlib import Path

import pytest

from rlhfdoctor.readers._protobuf import written
from rlhfdoctor.readers.swanlab import swanlab
from tests.readers.helpers import Read, read, write
from tests.readers.logs import log

HEADER = b":SWL\xd6\xe1\x02"


def message(**parts: int | float | bytes) -> bytes:
    """A message of the fields f1, f2, ...; as in proto3, an integer of 0 is not written."""
    data = b""
    for name, value in parts.items():
        number = int(name[1:])
        if isinstance(value, bytes):
            data += written(number << 3 | 2) + written(len(value)) + value
        elif isinstance(value, float):
            data += written(number << 3 | 1) + struct.pack("<d", value)
        elif value:
            data += written(number << 3) + written(value)
    return data


def scalar(key: str, step: int, value: float | None) -> bytes:
    held = b"" if value == 0 or value is None else message(f1=value)
    stamp = message(f1=1_800_000_000 + step, f2=500_000_000)
    fields: dict[str, int | float | bytes] = {"f1": key.encode(), "f2": step, "f4": stamp}
    if value is not None:
        fields["f5"] = held
    return message(f1=step, f13=message(**fields))


def finished(state: int = 1, error: str = "") -> bytes:
    return message(f11=message(f1=state, f2=error.encode()))


def made(tmp_path: Path, *records: bytes, header: bytes = HEADER) -> Read:
    return read(swanlab, write(tmp_path / "run-x.swanlab", log(header, records)))


def test_scalars_of_one_step_are_one_row(tmp_path: Path) -> None:
    logged = [
        scalar("train/loss", 0, 0.5),
        scalar("train/kl", 0, 0.0),
        scalar("train/loss", 1, math.nan),
        scalar("eval/loss", 1, -2.0),
    ]
    found = made(tmp_path, *logged, finished())
    assert [(row.step, row.split, row.wall_time) for row in found.rows] == [
        (0, "train", 1_800_000_000.5),
        (1, "train", 1_800_000_001.5),
        (1, "eval", 1_800_000_001.5),
    ]
    assert found.rows[0].values == {"train/loss": 0.5, "train/kl": 0.0}
    assert math.isnan(found.rows[1].values["train/loss"])
    assert found.notes == []


@pytest.mark.parametrize(
    ("record", "told"),
    [
        pytest.param(None, "records no end: the run was killed, or still ran", id="no end"),
        pytest.param(finished(0), "says that the run runs on", id="running"),
        pytest.param(finished(1), "", id="finished"),
        pytest.param(finished(2), "says that the run crashed", id="crashed"),
        pytest.param(finished(3), "says that the run was aborted", id="aborted"),
    ],
)
def test_how_the_run_ended(tmp_path: Path, record: bytes | None, told: str) -> None:
    found = made(tmp_path, scalar("kl", 1, 1.0), *([record] if record else []))
    assert found.told.removeprefix("run-x.swanlab: ") == told


def test_the_last_line_of_the_error_is_a_setting(tmp_path: Path) -> None:
    error = "Traceback (most recent call last):\n  File\nRuntimeError: out of memory\n"
    found = made(tmp_path, scalar("kl", 1, 1.0), finished(2, error))
    assert [(item.name, item.value) for item in found.settings] == [
        ("ended_with", "RuntimeError: out of memory")
    ]


@pytest.mark.parametrize(
    "record",
    [
        pytest.param(scalar("kl", 2, None), id="a scalar without a value"),
        pytest.param(message(f13=5), id="a number in place of a scalar"),
        pytest.param(b"\x6a\x7f", id="a record that is cut"),
        pytest.param(message(f13=message(f1=b"kl", f5=message(f1=b"abc"))), id="a number cut"),
    ],
)
def test_records_that_are_none_are_counted(tmp_path: Path, record: bytes) -> None:
    found = made(tmp_path, scalar("kl", 1, 1.0), record, scalar("kl", 3, 3.0), finished())
    assert [row.step for row in found.rows] == [1, 3]
    assert found.told.endswith("1 records are none of SwanLab's and were left out")


def test_media_are_counted(tmp_path: Path) -> None:
    found = made(tmp_path, scalar("kl", 1, 1.0), message(f14=message(f1=b"x")), finished())
    assert found.told == "run-x.swanlab: holds besides numbers, unread: 1 media"


def test_another_version_is_told(tmp_path: Path) -> None:
    found = made(tmp_path, scalar("kl", 1, 1.0), finished(), header=HEADER[:6] + b"\x03")
    assert [row.values for row in found.rows] == [{"kl": 1.0}]
    assert "of another version" in found.told


def test_of_a_cut_file_the_whole_records_are_read(tmp_path: Path) -> None:
    whole = log(HEADER, [scalar("kl", step, float(step)) for step in range(1, 9)])
    for place in range(7, len(whole)):
        found = read(swanlab, write(tmp_path / "run-x.swanlab", whole[:place]))
        steps = [row.step for row in found.rows]
        assert steps == list(range(1, len(steps) + 1))
        assert len(steps) == (place - 7) * 8 // (len(whole) - 7)


@pytest.mark.parametrize(
    ("name", "head", "claimed"),
    [
        pytest.param("run-x.swanlab", HEADER, True, id="the record of a run"),
        pytest.param("run-x.swanlab", b":W&B\xe1\xbe\0", False, id="another magic"),
    ],
)
def test_claims(name: str, head: bytes, claimed: bool) -> None:
    assert swanlab.claims(name, head) is claimed
