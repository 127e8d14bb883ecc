"""Event files written by TensorBoard's own writers, with its EventAccumulator as the judge."""

import json
import math
import random
import struct
from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.compat.proto import event_pb2, summary_pb2, tensor_pb2, types_pb2
from tensorboard.summary.writer.event_file_writer import EventFileWriter
from tensorboard.util import tensor_util

from rlhfdoctor.readers._tfrecord import LARGEST_RECORD, masked_crc
from rlhfdoctor.readers.tensorboard import tensorboard
from tests.readers.helpers import Read, read, write
from tests.readers.logs import framed

Point = tuple[int, float]


def event(step: int, *values: Any, wall_time: float = 0.0) -> Any:
    """One event; ``values``: (tag, number), or a finished Summary.Value."""
    summary = summary_pb2.Summary()
    for value in values:
        if isinstance(value, tuple):
            value = summary_pb2.Summary.Value(tag=value[0], simple_value=value[1])
        summary.value.append(value)
    return event_pb2.Event(step=step, wall_time=wall_time or 1.8e9 + step, summary=summary)


def tensor(tag: str, made: Any, plugin: str = "scalars") -> Any:
    value = summary_pb2.Summary.Value(tag=tag, tensor=made)
    value.metadata.plugin_data.plugin_name = plugin
    return value


def written(folder: Path, events: Iterable[Any]) -> Path:
    """Write events with TensorBoard's writer."""
    writer = EventFileWriter(str(folder))
    for item in events:
        writer.add_event(item)
    writer.close()
    return next(folder.glob("*tfevents*"))


def framed_file(folder: Path, *records: bytes) -> Path:
    return write(folder / "events.out.tfevents.1.host", b"".join(map(framed, records)))


def points(found: Read) -> dict[str, list[Point]]:
    """Every number of the rows, by tag and in order; steps that are metrics of their own aside."""
    held = defaultdict(list)
    for row in found.rows:
        for tag, value in row.values.items():
            assert row.step is not None
            held[tag].append((row.step, value))
    return dict(held)


def judged(path: Path) -> dict[str, list[Point]]:
    """What EventAccumulator reads, with nothing thinned out."""
    accumulator = EventAccumulator(str(path), size_guidance={"scalars": 0, "tensors": 0})
    accumulator.Reload()
    held = {
        tag: [(item.step, item.value) for item in accumulator.Scalars(tag)]
        for tag in accumulator.Tags()["scalars"]
    }
    for tag in accumulator.Tags()["tensors"]:
        for item in accumulator.Tensors(tag):
            number = tensor_util.make_ndarray(item.tensor_proto).item()
            held.setdefault(tag, []).append((item.step, float(number)))
    return held


def same(one: dict[str, list[Point]], other: dict[str, list[Point]]) -> bool:
    return repr(sorted(one.items())) == repr(sorted(other.items()))


def test_twelve_thousand_points_of_a_tag_are_all_read(tmp_path: Path) -> None:
    chosen = random.Random(0)
    path = written(
        tmp_path,
        (
            event(step, (tag, chosen.gauss(0, 1)))
            for step in range(1, 12_001)
            for tag in ("train/loss", "train/kl")
        ),
    )
    found = read(tensorboard, path)
    assert len(found.rows) == 12_000
    assert found.notes == []
    assert same(points(found), judged(path))


def test_what_torch_writes_is_read(tmp_path: Path) -> None:
    from torch.utils.tensorboard import SummaryWriter

    with SummaryWriter(str(tmp_path)) as writer:
        for step in range(1, 6):
            writer.add_scalar("train/loss", 1 / step, step)
            writer.add_scalar("train/kl", step, step, new_style=True)
    path = next(tmp_path.glob("*tfevents*"))
    found = read(tensorboard, path)
    assert [row.step for row in found.rows] == [1, 2, 3, 4, 5]
    assert same(points(found), judged(path))


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 0.0, -0.0, 1e-40, 3.4e38])
def test_numbers_stay_what_they_are(tmp_path: Path, value: float) -> None:
    path = written(tmp_path, [event(1, ("kl", 1.0)), event(2, ("kl", value))])
    found = read(tensorboard, path)
    assert same(points(found), judged(path))
    assert found.rows[1].values["kl"] == pytest.approx(value, rel=1e-6, nan_ok=True)


@pytest.mark.parametrize(
    ("number", "dtype"),
    [
        (1.5, np.float32),
        (-1.1, np.float64),
        (0.3, np.float16),
        (-7, np.int32),
        (-7, np.int64),
        (-7, np.int8),
        (200, np.uint8),
        (60_000, np.uint16),
    ],
)
@pytest.mark.parametrize("inside", [True, False], ids=["content", "list"])
def test_tensors_of_one_number_are_scalars(
    tmp_path: Path, number: float, dtype: Any, inside: bool
) -> None:
    array = np.array(number, dtype=dtype)
    made = tensor_util.make_tensor_proto(array)
    if inside:
        for field in ("float_val", "double_val", "half_val", "int_val", "int64_val"):
            made.ClearField(field)
        made.tensor_content = array.tobytes()
    path = written(tmp_path, [event(3, tensor("kl", made))])
    found = read(tensorboard, path)
    assert found.rows[0].values == {"kl": array.item()}
    assert same(points(found), judged(path))


@pytest.mark.parametrize("inside", [True, False], ids=["content", "list"])
def test_bfloat16_is_the_upper_half_of_a_float(tmp_path: Path, inside: bool) -> None:
    upper = struct.pack("<f", -0.375)[2:]
    made = tensor_pb2.TensorProto(dtype=types_pb2.DT_BFLOAT16)
    if inside:
        made.tensor_content = upper
    else:
        made.half_val.append(int.from_bytes(upper, "little"))
    found = read(tensorboard, written(tmp_path, [event(3, tensor("kl", made))]))
    assert found.rows[0].values == {"kl": -0.375}


def test_a_plugin_is_remembered_from_a_tags_first_event(tmp_path: Path) -> None:
    one = tensor_util.make_tensor_proto(np.array(0.5))
    bare = summary_pb2.Summary.Value(tag="curve", tensor=one)
    events = [event(1, tensor("curve", one, plugin="pr_curves")), event(2, bare)]
    found = read(tensorboard, written(tmp_path, events))
    assert found.rows == []
    assert "2 pr_curves" in found.told


@pytest.mark.parametrize("shape", [(2,), (0,), (2, 2)])
def test_tensors_of_several_numbers_are_counted(tmp_path: Path, shape: tuple[int, ...]) -> None:
    made = tensor_util.make_tensor_proto(np.ones(shape))
    path = written(tmp_path, [event(1, ("kl", 1.0)), event(1, tensor("x", made, plugin=""))])
    found = read(tensorboard, path)
    assert points(found) == {"kl": [(1, 1.0)]}
    assert found.told.endswith("holds besides scalars, unread: 1 tensor")


def test_scalars_of_one_step_and_split_are_one_row(tmp_path: Path) -> None:
    events = [
        event(5, ("train/loss", 1.0), wall_time=100.0),
        event(5, ("train/kl", 2.0), wall_time=101.0),
        event(5, ("train/epoch", 0.5), wall_time=102.0),
        event(5, ("eval/loss", 3.0), wall_time=103.0),
        event(5, ("train/epoch", 0.5), wall_time=104.0),
        event(6, ("train/loss", 4.0), wall_time=105.0),
    ]
    found = read(tensorboard, written(tmp_path, events))
    assert [(row.step, row.split, row.epoch, row.wall_time) for row in found.rows] == [
        (5, "train", 0.5, 101.0),
        (5, "eval", 0.5, 103.0),
        (6, "train", None, 105.0),
    ]
    assert found.rows[0].values == {"train/loss": 1.0, "train/kl": 2.0}


@pytest.mark.parametrize(
    ("logged", "rows"),
    [
        pytest.param(
            [(1, "a"), (2, "a"), (3, "a"), (1, "b"), (3, "b")],
            [(1, "ab"), (2, "a"), (3, "ab")],
            id="one tag after the other",
        ),
        pytest.param(
            [(2, "a"), (4, "a"), (1, "b"), (2, "b"), (3, "b")],
            [(1, "b"), (2, "ab"), (3, "b"), (4, "a")],
            id="tags at steps of their own",
        ),
        pytest.param(
            [(1, "a"), (1, "b"), (2, "a"), (2, "b"), (1, "a"), (1, "b"), (2, "a")],
            [(1, "ab"), (2, "ab"), (1, "ab"), (2, "a")],
            id="a trainer that was resumed",
        ),
        pytest.param(
            [(1, "a"), (1, "a"), (1, "b"), (2, "a")],
            [(1, "ab"), (1, "a"), (2, "a")],
            id="a tag twice at one step",
        ),
        pytest.param(
            [(-1, "a"), (0, "a"), (2**40, "a")],
            [(-1, "a"), (0, "a"), (2**40, "a")],
            id="steps of any size",
        ),
        pytest.param([(0, "a"), (0, "b")], [(0, "ab")], id="a first step of 0"),
        pytest.param(
            [(0, "a"), (0, "b"), (0, "a"), (0, "b")],
            [(None, "ab"), (None, "ab")],
            id="no step was ever given",
        ),
    ],
)
def test_every_value_finds_its_row(
    tmp_path: Path, logged: list[tuple[int, str]], rows: list[tuple[int | None, str]]
) -> None:
    path = written(tmp_path, [event(step, (tag, 1.0)) for step, tag in logged])
    found = read(tensorboard, path)
    assert [(row.step, "".join(sorted(row.values))) for row in found.rows] == rows


@pytest.mark.parametrize("tags", [("kl", "train/global_step"), ("train/global_step", "kl")])
def test_a_tag_that_counts_steps_serves_where_no_step_was_given(
    tmp_path: Path, tags: tuple[str, str]
) -> None:
    events = [event(0, (tag, float(step))) for step in (10, 20, 30) for tag in tags]
    found = read(tensorboard, written(tmp_path, events))
    assert [(row.step, row.values) for row in found.rows] == [
        (10, {"kl": 10.0}),
        (20, {"kl": 20.0}),
        (30, {"kl": 30.0}),
    ]


@pytest.mark.parametrize(
    ("tag", "content"),
    [
        pytest.param("args/text_summary", json.dumps({"beta": 0.25, "x": [1]}), id="as JSON"),
        pytest.param(
            "hyperparameters/text_summary", "|param|value|\n|-|-|\n|beta|0.25|\n", id="as a table"
        ),
    ],
)
def test_arguments_in_a_text_are_settings(tmp_path: Path, tag: str, content: str) -> None:
    made = tensor_util.make_tensor_proto(content.encode())
    found = read(tensorboard, written(tmp_path, [event(0, tensor(tag, made, plugin="text"))]))
    assert [(item.name, item.value, item.where.key) for item in found.settings] == [
        ("kl_coef", 0.25, "beta")
    ]


def test_hyperparameters_of_the_plugin_are_settings(tmp_path: Path) -> None:
    from torch.utils.tensorboard.summary import hparams

    tried = {"beta": 0.25, "seed": 3, "trainer": "dpo", "other": True}
    events = [event(0, *summary.value) for summary in hparams(tried, {})]  # type: ignore[no-untyped-call]
    found = read(tensorboard, written(tmp_path, events))
    told = {item.name: item.value for item in found.settings}
    assert told == {"kl_coef": 0.25, "seed": 3, "algorithm": "DPO"}


def test_texts_histograms_and_pictures_are_counted(tmp_path: Path) -> None:
    from torch.utils.tensorboard import SummaryWriter

    with SummaryWriter(str(tmp_path)) as writer:
        writer.add_scalar("kl", 1, 1)
        writer.add_text("sample", "a response", 1)
        writer.add_text("sample", "another", 2)
        writer.add_histogram("logits", np.arange(9.0), 1)
        writer.add_image("plot", np.zeros((3, 2, 2)), 1)
    found = read(tensorboard, next(tmp_path.glob("*tfevents*")))
    assert points(found) == {"kl": [(1, 1.0)]}
    assert found.told.endswith("unread: 1 histogram, 1 picture, 2 texts")


def test_a_file_without_scalars_says_so(tmp_path: Path) -> None:
    found = read(tensorboard, written(tmp_path, []))
    assert (found.rows, found.told.partition(": ")[2]) == ([], "holds no scalars")


def cut_at(data: bytes, place: int) -> bytes:
    return data[:place]


def flipped(data: bytes, place: int) -> bytes:
    return data[:place] + bytes([data[place] ^ 0x10]) + data[place + 1 :]


@pytest.mark.parametrize("damage", [cut_at, flipped])
def test_of_a_damaged_file_no_value_is_read_that_was_not_there(
    tmp_path: Path, damage: Callable[[bytes, int], bytes]
) -> None:
    events = [event(step, ("loss", 1 / step), ("kl", step)) for step in range(1, 60)]
    whole = written(tmp_path / "whole", events).read_bytes()
    path = tmp_path / "events.out.tfevents.1.host"
    true = set(points(read(tensorboard, write(path, whole)))["kl"])
    ends = {0}
    while max(ends) < len(whole):
        length = int.from_bytes(whole[max(ends) : max(ends) + 8], "little")
        ends.add(max(ends) + length + 16)
    for place in range(0, len(whole), 7 if damage is flipped else 64):
        found = read(tensorboard, write(path, damage(whole, place)))
        held = set(points(found).get("kl", []))
        assert held <= true
        if damage is flipped:
            assert len(true - held) <= 1
            assert found.left_out == 1
            assert "damage" in found.told
        else:
            assert ("ends inside a record" in found.told) == (place not in ends)
            assert len(held) == max(sum(end <= place for end in ends) - 2, 0)


def test_a_stretch_of_garbage_costs_what_it_covers(tmp_path: Path) -> None:
    parts = [framed(event(step, ("kl", step)).SerializeToString()) for step in range(1, 21)]
    whole = b"".join(parts)
    start, end = sum(map(len, parts[:5])) + 3, sum(map(len, parts[:9])) + 7
    noise = random.Random(0).randbytes(end - start)
    path = write(tmp_path / "events.out.tfevents.1.host", whole[:start] + noise + whole[end:])
    found = read(tensorboard, path)
    assert [row.step for row in found.rows] == [*range(1, 6), *range(11, 21)]
    assert "1 records are damaged" in found.told


@pytest.mark.parametrize(
    "tail",
    [
        pytest.param(b"\0" * 5000, id="zeros"),
        pytest.param(b"\xff" * 5000, id="ones"),
        pytest.param(b"\1\0\0\0\0\0\0\0" * 600, id="what looks like lengths"),
        pytest.param(random.Random(1).randbytes(5000), id="noise"),
    ],
)
def test_what_is_no_record_ends_the_reading(tmp_path: Path, tail: bytes) -> None:
    good = framed(event(1, ("kl", 1.0)).SerializeToString())
    found = read(tensorboard, write(tmp_path / "events.out.tfevents.1.host", good + tail))
    assert points(found) == {"kl": [(1, 1.0)]}
    assert "no record was found behind the damage" in found.told


@pytest.mark.parametrize(
    "record",
    [
        pytest.param(b"\x0f", id="a wire type that does not exist"),
        pytest.param(b"\x80" * 40, id="a number without an end"),
        pytest.param(b"\x09" + b"\0" * 8 + b"\x10" + b"\xff" * 30, id="a step without an end"),
        pytest.param(b"\x2a\xff\xff\xff\xff\x0f", id="a summary longer than its event"),
        pytest.param(b"\x2a\x03\x0a\x01\x08", id="a value that is cut"),
        pytest.param(b"\x28\x05", id="a number in place of a summary"),
        pytest.param(b"\x09\0", id="a time that is cut"),
        pytest.param(b"\x2a\x08\x0a\x06\x42\x04\x08\x01\x2a\x00" + b"\x07", id="a key of nothing"),
    ],
)
def test_records_that_are_no_events_are_counted(tmp_path: Path, record: bytes) -> None:
    good = [event(step, ("kl", step)).SerializeToString() for step in (1, 2)]
    found = read(tensorboard, framed_file(tmp_path, good[0], record, good[1]))
    assert points(found) == {"kl": [(1, 1.0), (2, 2.0)]}
    assert found.told.endswith("1 records are no events and were left out")
    assert found.left_out == 1


def test_a_record_of_more_than_a_mebibyte_is_passed_over(tmp_path: Path) -> None:
    good = [event(step, ("kl", step)).SerializeToString() for step in (1, 2)]
    huge = b"\x12" * (3 * LARGEST_RECORD)
    found = read(tensorboard, framed_file(tmp_path, good[0], huge, good[1]))
    assert points(found) == {"kl": [(1, 1.0), (2, 2.0)]}
    assert found.told.endswith("1 records of more than 1 MiB were passed over unread")


@pytest.mark.parametrize("before", [0, 1, 12, 100])
def test_the_longest_record_is_read_wherever_it_lies(tmp_path: Path, before: int) -> None:
    filler = b"\0" * (2**20 - 28 - before)
    longest = b"\0" * LARGEST_RECORD
    last = event(2, ("kl", 2.0)).SerializeToString()
    found = read(tensorboard, framed_file(tmp_path, filler, longest, last))
    assert points(found) == {"kl": [(2, 2.0)]}
    assert "cut" not in found.told


def test_a_length_beyond_the_file_is_a_cut(tmp_path: Path) -> None:
    good = framed(event(1, ("kl", 1.0)).SerializeToString())
    length = (2**62).to_bytes(8, "little")
    endless = length + masked_crc(length).to_bytes(4, "little") + b"\0" * 100
    found = read(tensorboard, write(tmp_path / "events.out.tfevents.1.host", good + endless))
    assert points(found) == {"kl": [(1, 1.0)]}
    assert "ends inside a record" in found.told


@pytest.mark.parametrize(
    ("name", "claimed"),
    [
        ("events.out.tfevents.1776871995.host.123.0", True),
        ("events.out.tfevents.1776871995.host.123.0.v2", True),
        ("x.tfevents", True),
        ("events.txt", False),
    ],
)
def test_claims(name: str, claimed: bool) -> None:
    assert tensorboard.claims(name, b"") is claimed
    assert tensorboard.promises(name) is claimed
