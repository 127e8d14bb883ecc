import os
import shutil
import struct
import zipfile
from pathlib import Path

import orjson
import pytest
import torch

from rlhfdoctor.finite import CHUNK, FORMATS, Health, _storages, health
from rlhfdoctor.model import Checkpoint
from tests.builders import FIXTURES, run_of

NUMBERS = {"F64": "d", "F32": "f", "F16": "e"}
"""Formats that the standard library can write."""


def safetensors(folder: Path, tensors: dict[str, tuple[str, bytes]], name: str = "model") -> Path:
    """Write a safetensors file of raw bytes."""
    header, data = {}, b""
    for tensor, (dtype, raw) in tensors.items():
        places = [len(data), len(data) + len(raw)]
        header[tensor] = {"dtype": dtype, "shape": [len(raw)], "data_offsets": places}
        data += raw
    told = orjson.dumps(header)
    path = folder / f"{name}.safetensors"
    path.write_bytes(len(told).to_bytes(8, "little") + told + data)
    return path


def header(tensors: dict[str, tuple[str, int, int]]) -> bytes:
    """Return the head of a safetensors file: types, and first and last byte of each tensor."""
    told = orjson.dumps(
        {
            name: {"dtype": dtype, "shape": [1], "data_offsets": [first, last]}
            for name, (dtype, first, last) in tensors.items()
        }
    )
    return len(told).to_bytes(8, "little") + told


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "run" / "checkpoint-1"
    made.mkdir(parents=True)
    return made


def read(folder: Path) -> Health:
    run = run_of(loss_total=[1.0])
    object.__setattr__(run, "path", str(folder.parent))
    return health(run, Checkpoint(1, folder.name, folder.name, complete=True))


@pytest.mark.parametrize("dtype", NUMBERS)
@pytest.mark.parametrize(
    ("value", "finite"),
    [
        pytest.param(0.0, True, id="zero"),
        pytest.param(-1.5, True, id="a negative number"),
        pytest.param(65504.0, True, id="the largest half"),
        pytest.param(5e-324, True, id="the smallest number"),
        pytest.param(float("nan"), False, id="NaN"),
        pytest.param(float("inf"), False, id="infinity"),
        pytest.param(float("-inf"), False, id="minus infinity"),
    ],
)
@pytest.mark.parametrize("place", [0, 7, CHUNK + 3])
def test_one_number_among_many(
    folder: Path, dtype: str, value: float, finite: bool, place: int
) -> None:
    values = [1.0] * (2 * CHUNK)
    values[place] = value
    raw = struct.pack(f"<{len(values)}{NUMBERS[dtype]}", *values)
    safetensors(folder, {"sound": ("I8", b"\x7f" * 10), "weight": (dtype, raw)})
    found = read(folder)
    assert found.weights is finite
    assert found.where == ("" if finite else "model.safetensors weight")


@pytest.mark.parametrize(
    ("dtype", "kind"),
    [
        ("BF16", torch.bfloat16),
        ("F16", torch.float16),
        ("F32", torch.float32),
        ("F64", torch.float64),
        ("F8_E5M2", torch.float8_e5m2),
        ("F8_E4M3", torch.float8_e4m3fn),
    ],
)
def test_every_pattern_of_a_format_is_judged_as_torch_judges_it(
    folder: Path, dtype: str, kind: torch.dtype
) -> None:
    """All patterns of one and two bytes, and the highest two bytes of the wider formats."""
    size = FORMATS[dtype][0]
    for pattern in range(256 if size == 1 else 65536):
        if pattern % (1 if size == 1 else 61) and pattern not in (0x7C00, 0x7F80, 0xFF80, 0x7FF0):
            continue
        raw = pattern.to_bytes(min(size, 2), "little").rjust(size, b"\0")
        value = torch.frombuffer(bytearray(raw), dtype=kind).double()
        safetensors(folder, {"weight": (dtype, raw)})
        assert read(folder).weights is bool(torch.isfinite(value).all()), hex(pattern)


def adam(folder: Path) -> torch.optim.AdamW:
    model = torch.nn.Linear(32, 32)
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.randn(3, 32)).sum().backward()
    optimizer.step()
    torch.save(model.state_dict(), folder / "pytorch_model.bin")
    torch.save(optimizer.state_dict(), folder / "optimizer.pt")
    return optimizer


def test_files_of_torch_are_read_without_torch_s_pickle(folder: Path) -> None:
    adam(folder)
    assert read(folder) == Health(weights=True, optimizer=True)


def test_a_moment_that_is_not_finite_is_the_optimizer_s(folder: Path) -> None:
    optimizer = adam(folder)
    optimizer.state_dict()["state"][1]["exp_avg_sq"][5] = float("inf")
    torch.save(optimizer.state_dict(), folder / "optimizer.pt")
    found = read(folder)
    assert (found.weights, found.optimizer) == (True, False)
    assert found.where.startswith("optimizer.pt storage ")


def test_shards_of_a_device_mesh_lie_deeper(folder: Path) -> None:
    (folder / "actor").mkdir()
    broken = {"weight": torch.tensor([1.0, float("nan")], dtype=torch.bfloat16)}
    torch.save({"weight": torch.ones(3)}, folder / "actor" / "model_world_size_2_rank_0.pt")
    torch.save(broken, folder / "actor" / "model_world_size_2_rank_1.pt")
    found = read(folder)
    assert found.weights is False
    assert found.where.startswith("actor/model_world_size_2_rank_1.pt storage ")


def test_no_pickle_is_executed(folder: Path, tmp_path: Path) -> None:
    canary = tmp_path / "canary"

    class Evil:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return os.system, (f"touch {canary}",)

    torch.save({"evil": Evil(), "weight": torch.ones(3)}, folder / "pytorch_model.bin")
    assert read(folder).weights is True
    assert not canary.exists()


@pytest.mark.parametrize(
    ("name", "raw", "why"),
    [
        pytest.param("model.safetensors", b"", "empty", id="an empty file"),
        pytest.param("model.safetensors", b"\xff" * 8, "damaged", id="a header beyond the file"),
        pytest.param("model.safetensors", b"\2" + b"\0" * 7 + b"[]", "damaged", id="a list"),
        pytest.param("model.safetensors", header({}), "holds no tensor", id="no tensor"),
        pytest.param(
            "model.safetensors",
            header({"a": ("F32", 0, 8), "b": ("F32", 4, 12)}) + b"\0" * 12,
            "damaged",
            id="tensors that overlap",
        ),
        pytest.param(
            "model.safetensors",
            header({"a": ("F32", 0, 8)}) + b"\0" * 9,
            "damaged",
            id="bytes of no tensor",
        ),
        pytest.param(
            "model.safetensors",
            header({"a": ("C64", 0, 8)}) + b"\xff" * 8,
            "holds C64, which is not looked at",
            id="a type that nobody looks at",
        ),
        pytest.param(
            "model.safetensors",
            header({"w": ("F32", 0, 36)}) + b"\0" * 8,
            "cut short",
            id="a header that promises more",
        ),
        pytest.param("pytorch_model.bin", b"\x80\x02.", "not in torch's zip", id="an old pickle"),
        pytest.param("pytorch_model.bin", b"PK\3\4garbage", "damaged", id="half a zip"),
    ],
)
def test_what_cannot_be_read_is_told_and_passes_nothing(
    folder: Path, name: str, raw: bytes, why: str
) -> None:
    (folder / name).write_bytes(raw)
    found = read(folder)
    assert found.weights is None
    assert found.unread["weights"].startswith(f"{name}: {why}")


def test_a_shard_that_cannot_be_read_leaves_the_weights_unknown(folder: Path) -> None:
    safetensors(folder, {"w": ("F32", b"\0" * 8)}, "model-00001-of-00002")
    (folder / "model-00002-of-00002.safetensors").write_bytes(b"")
    assert read(folder).weights is None


def test_storages_that_the_zip_lacks_are_missed(folder: Path) -> None:
    torch.save({"weight": torch.ones(3)}, folder / "whole.bin")
    with (
        zipfile.ZipFile(folder / "whole.bin") as whole,
        zipfile.ZipFile(folder / "model.bin", "w") as cut,
    ):
        for name in whole.namelist():
            if "/data/" not in name:
                cut.writestr(name, whole.read(name))
    (folder / "whole.bin").unlink()
    assert read(folder).unread == {"weights": "model.bin: cut short"}


def test_nothing_but_a_folder_of_the_run_is_read(folder: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    safetensors(outside, {"w": ("F32", b"\0" * 8)})
    (folder / "model.safetensors").symlink_to(outside / "model.safetensors")
    os.mkfifo(folder / "optimizer.pt")
    assert read(folder).unread == {
        "weights": "model.safetensors: a link, not followed",
        "optimizer state": "optimizer.pt: no regular file",
    }
    shutil.rmtree(folder)
    folder.symlink_to(outside)
    found = read(folder)
    assert (found.weights, found.optimizer) == (None, None)
    assert set(found.unread.values()) == {"the folder lies outside the run's"}


def test_other_files_of_a_checkpoint_are_none_of_its_weights(folder: Path) -> None:
    for name in ("training_args.bin", "rng_state_0.pth", "scheduler.pt"):
        (folder / name).write_bytes(b"no zip")
    assert read(folder) == Health(None, None)


def test_progress_ends_with_the_whole(folder: Path) -> None:
    safetensors(folder, {"a": ("F32", b"\0" * 400), "b": ("F16", b"\0" * 40)})
    told: list[tuple[str, int, int]] = []
    run = run_of(loss_total=[1.0])
    object.__setattr__(run, "path", str(folder.parent))
    health(run, Checkpoint(1, folder.name, folder.name), lambda *seen: told.append(seen))
    assert told[-1][1] == told[-1][2] == (folder / "model.safetensors").stat().st_size
    assert [done for _, done, _ in told] == sorted(done for _, done, _ in told)


def test_a_real_checkpoint(tmp_path: Path) -> None:
    found = read(FIXTURES / "grpo_late" / "checkpoint-40")
    assert (found.weights, found.optimizer, found.unread) == (True, None, {})


def test_storages_by_reference_to_the_memo_are_found() -> None:
    import io

    file = io.BytesIO()
    torch.save([torch.ones(2), torch.ones(3).half(), torch.ones(4)], file)
    with zipfile.ZipFile(file) as packed:
        name = next(name for name in packed.namelist() if name.endswith("data.pkl"))
        found = _storages(packed.read(name))
    assert found == {"0": "FloatStorage", "1": "HalfStorage", "2": "FloatStorage"}


def test_a_pickle_of_nothing_but_opcodes_is_read_in_linear_time() -> None:
    assert _storages(b"\x80\x04" + b"N" * 300_000 + b"\x93" * 300_000 + b".") == {}
