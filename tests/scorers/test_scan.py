"""Weights on disk in every format, scanned without running a model."""

import json
import math
import os
import pickle
import shutil
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from rlhfdoctor.errors import DoctorError
from rlhfdoctor.measures import SCANS
from rlhfdoctor.model import Checkpoint, Run
from rlhfdoctor.runs import read_runs
from rlhfdoctor.scorers import scan as module
from rlhfdoctor.scorers.scan import scan
from tests.builders import FIXTURES, run_of

Weights = dict[str, torch.Tensor]
Save = Callable[[Weights, Path], None]


def made(dtype: torch.dtype = torch.float32, seed: int = 0) -> Weights:
    """Three matrices, a vector, a scalar and an integer buffer."""
    torch.manual_seed(seed)
    matrices = {f"layers.{index}.weight": torch.randn(6, 4) for index in range(3)}
    floating = {**matrices, "norm.weight": torch.ones(4), "scale": torch.tensor(2.0)}
    return {**{name: each.to(dtype) for name, each in floating.items()}, "ids": torch.arange(5)}


def lora(b: float = 0.0, prefix: str = "base_model.model.q_proj") -> Weights:
    return {
        f"{prefix}.lora_A.weight": torch.randn(2, 4),
        f"{prefix}.lora_B.weight": torch.full((6, 2), b),
    }


def whole(weights: Weights, folder: Path) -> None:
    save_file(weights, folder / "model.safetensors", {"format": "pt"})


def sharded(weights: Weights, folder: Path) -> None:
    names = list(weights)
    index: dict[str, str] = {}
    for place, part in enumerate((names[::2], names[1::2]), start=1):
        shard = f"model-{place:05}-of-00002.safetensors"
        save_file({name: weights[name] for name in part}, folder / shard)
        index.update(dict.fromkeys(part, shard))
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": index}))


def torch_bin(weights: Weights, folder: Path) -> None:
    torch.save(weights, folder / "pytorch_model.bin")


def old_torch_bin(weights: Weights, folder: Path) -> None:
    torch.save(weights, folder / "pytorch_model.bin", _use_new_zipfile_serialization=False)


def torch_pt(weights: Weights, folder: Path) -> None:
    wrapped = {f"module.{name}": each for name, each in weights.items()}
    torch.save({"state_dict": wrapped, "step": 3}, folder / "model.pt")


def adapter(weights: Weights, folder: Path) -> None:
    save_file(weights, folder / "adapter_model.safetensors")
    (folder / "adapter_config.json").write_text("{}")


def saved(root: Path, step: int, weights: Weights, save: Save = whole) -> Path:
    folder = root / f"checkpoint-{step}"
    folder.mkdir(parents=True)
    save(weights, folder)
    return folder


def scanned(root: Path) -> Run:
    """Scan every checkpoint folder under a path."""
    names = sorted((path.name for path in root.glob("checkpoint-*")), key=lambda name: name[11:])
    found = [Checkpoint(int(name[11:]), name, name, missing=("x",)) for name in names]
    return scan(replace(run_of(checkpoints=found), path=str(root)))


def rows(root: Path) -> list[dict[str, Any]]:
    run = scanned(root)
    assert run.scans is not None
    assert dict(run.scans.schema) == SCANS
    return run.scans.to_dicts()


def row(root: Path) -> dict[str, Any]:
    (only,) = rows(root)
    return only


@pytest.mark.parametrize(
    ("save", "form"),
    [
        (whole, "safetensors"),
        (sharded, "safetensors"),
        (torch_bin, "bin"),
        (old_torch_bin, "bin"),
        (torch_pt, "pt"),
    ],
)
def test_every_format_tells_the_same(save: Save, form: str, tmp_path: Path) -> None:
    saved(tmp_path / "a", 10, made())
    saved(tmp_path / "b", 10, made(), save)
    expected = row(tmp_path / "a")
    assert row(tmp_path / "b") == {**expected, "format": form}
    assert expected["error"] is None
    assert (expected["checkpoint"], expected["step"]) == ("checkpoint-10", 10)
    assert (expected["tensors"], expected["parameters"]) == (6, 3 * 24 + 4 + 1 + 5)
    assert (expected["dtype"], expected["finite"], expected["non_finite"]) == ("float32", True, 0)
    assert (expected["zero_rows"], expected["first_zero_row"]) == (0, None)
    assert (expected["adapter"], expected["adapter_zero"]) == (False, None)
    assert expected["missing"] == ["x"]
    squares = sum(float(each.double().square().sum()) for each in made().values())
    assert expected["norm"] == pytest.approx(math.sqrt(squares - sum(n * n for n in range(5))))


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"norm.weight": torch.tensor([1.0, 1.0, 1.0, 1.0 + 2**-23])}, id="one bit"),
        pytest.param({"norm.weight": torch.ones(4, dtype=torch.float64)}, id="another dtype"),
        pytest.param({"norm.weight": torch.ones(2, 2)}, id="another shape"),
        pytest.param({"scale": torch.tensor(-2.0)}, id="a sign"),
        pytest.param({"ids": torch.arange(5) + 1}, id="an integer buffer"),
        pytest.param({"more": torch.ones(1)}, id="one tensor more"),
    ],
)
def test_any_change_of_the_weights_changes_the_hash(change: Weights, tmp_path: Path) -> None:
    saved(tmp_path, 10, made())
    saved(tmp_path, 20, {**made(), **change})
    first, second = rows(tmp_path)
    assert first["hash"] != second["hash"]
    assert len(first["hash"]) == 64


def test_a_name_belongs_to_the_hash(tmp_path: Path) -> None:
    saved(tmp_path, 10, {"a": torch.ones(2), "b": torch.zeros(2)})
    saved(tmp_path, 20, {"b": torch.ones(2), "a": torch.zeros(2)})
    first, second = rows(tmp_path)
    assert first["hash"] != second["hash"]


def test_metadata_and_other_files_do_not(tmp_path: Path) -> None:
    saved(tmp_path, 10, made())
    folder = saved(tmp_path, 20, {})
    save_file(made(), folder / "model.safetensors", {"format": "pt", "step": "20"})
    (folder / "trainer_state.json").write_text("{}")
    first, second = rows(tmp_path)
    assert first["hash"] == second["hash"]


@pytest.mark.parametrize("chunk", [1, 3, 4, 5, 8, 1000])
def test_the_size_of_the_working_copy_changes_nothing(
    chunk: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    weights = made()
    weights["layers.1.weight"][5] = 0.0
    saved(tmp_path, 10, weights)
    expected = row(tmp_path)
    assert expected["first_zero_row"] == "layers.1.weight[5]"
    monkeypatch.setattr(module, "CHUNK", chunk)
    found = row(tmp_path)
    assert found.pop("norm") == pytest.approx(expected.pop("norm"))
    if chunk < 4:  # a row no longer fits
        expected.update(zero_rows=0, first_zero_row=None)
    assert found == expected


@pytest.mark.parametrize(
    "dtype",
    [torch.float64, torch.bfloat16, torch.float16, torch.float8_e4m3fn, torch.float8_e5m2],
    ids=str,
)
def test_every_floating_dtype_is_read(dtype: torch.dtype, tmp_path: Path) -> None:
    weights = made(dtype)
    weights["layers.0.weight"][2] = 0.0
    saved(tmp_path, 10, weights)
    found = row(tmp_path)
    assert found["error"] is None
    assert found["dtype"] == str(dtype).removeprefix("torch.")
    assert (found["finite"], found["first_zero_row"]) == (True, "layers.0.weight[2]")
    wide = [each.double() for name, each in weights.items() if name != "ids"]
    assert found["norm"] == pytest.approx(math.sqrt(sum(float((w * w).sum()) for w in wide)))


@pytest.mark.parametrize(
    "dtype", [torch.int8, torch.uint8, torch.int32, torch.bool, torch.complex64], ids=str
)
def test_packed_and_other_numbers_are_hashed_only(dtype: torch.dtype, tmp_path: Path) -> None:
    saved(tmp_path, 10, {"packed": torch.zeros(50, 3, dtype=dtype), "scale": torch.ones(2)})
    found = row(tmp_path)
    assert (found["error"], found["zero_rows"], found["finite"]) == (None, 0, True)
    assert found["norm"] == pytest.approx(math.sqrt(2))
    assert found["parameters"] == 152


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize(
    "dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float8_e5m2], ids=str
)
def test_what_is_not_finite_is_counted_and_named(
    value: float, dtype: torch.dtype, tmp_path: Path
) -> None:
    weights = made(torch.float32)
    weights["layers.1.weight"][2, 1] = weights["layers.1.weight"][3, 3] = value
    weights["norm.weight"][0] = value
    weights = {name: each if name == "ids" else each.to(dtype) for name, each in weights.items()}
    saved(tmp_path, 10, weights)
    found = row(tmp_path)
    assert (found["error"], found["finite"], found["non_finite"]) == (None, False, 3)
    assert found["first_non_finite"] == "layers.1.weight"
    assert found["norm"] is None


def test_numbers_too_large_to_square_are_finite(tmp_path: Path) -> None:
    saved(tmp_path, 10, {"w": torch.full((2, 2), 1e200, dtype=torch.float64)})
    found = row(tmp_path)
    assert (found["finite"], found["norm"]) == (True, None)


def test_the_norm_does_not_lose_small_weights(tmp_path: Path) -> None:
    """In float32, 1 + 1e-8 is 1: a million small squares would vanish."""
    saved(tmp_path, 10, {"a": torch.ones(1), "b": torch.full((1000, 1000), 1e-4)})
    assert row(tmp_path)["norm"] == pytest.approx(math.sqrt(1.01), rel=1e-6)


def test_rows_of_zeros_are_counted_in_floating_matrices(tmp_path: Path) -> None:
    weights = made()
    weights["layers.1.weight"][4] = 0.0
    weights["layers.2.weight"][0] = -0.0
    weights["layers.2.weight"][1] = 0.0
    weights |= {"bias": torch.zeros(3), "conv": torch.zeros(2, 2, 2), "none": torch.zeros(4, 0)}
    saved(tmp_path, 10, weights)
    found = row(tmp_path)
    assert (found["zero_rows"], found["first_zero_row"]) == (3, "layers.1.weight[4]")


@pytest.mark.parametrize(
    ("weights", "zero"),
    [
        pytest.param(lora(0.0), True, id="lora_B is zero"),
        pytest.param(lora(1e-30), False, id="lora_B moved a little"),
        pytest.param(lora(0.0) | lora(1.0, "x.v_proj"), False, id="one of two moved"),
        pytest.param(
            {"e.lora_embedding_A": torch.zeros(2, 9), "e.lora_embedding_B": torch.ones(4, 2)},
            True,
            id="of an embedding, A starts at zero",
        ),
        pytest.param(
            lora(0.0) | {"x.lm_head.weight": torch.ones(3, 3)}, False, id="a layer beside it"
        ),
        pytest.param({"x.ia3_l": torch.ones(4, 1)}, None, id="no LoRA"),
    ],
)
def test_an_adapter_that_adds_nothing_is_told(
    weights: Weights, zero: bool | None, tmp_path: Path
) -> None:
    saved(tmp_path, 10, weights, adapter)
    found = row(tmp_path)
    assert (found["error"], found["format"], found["adapter"]) == (None, "peft", True)
    assert found["adapter_zero"] is zero
    assert found["zero_rows"] == 0


# what cannot be read


class Bomb:
    """Unpickling it writes a file."""

    def __init__(self, canary: Path) -> None:
        self.canary = canary

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.canary),)


@pytest.mark.parametrize("zipped", [True, False], ids=["torch zip", "plain pickle"])
def test_a_malicious_pickle_is_refused_and_not_executed(zipped: bool, tmp_path: Path) -> None:
    canary = tmp_path / "canary"
    payload = {"w": torch.ones(2), "evil": Bomb(canary)}
    folder = saved(tmp_path, 10, {}, lambda weights, folder: None)
    if zipped:
        torch.save(payload, folder / "pytorch_model.bin")
    else:
        (folder / "pytorch_model.bin").write_bytes(pickle.dumps(Bomb(canary)))
    saved(tmp_path, 20, made())
    refused, sound = rows(tmp_path)
    assert not canary.exists()
    assert "pytorch_model.bin" in refused["error"]
    assert sound["error"] is None
    if zipped:
        assert "not executed" in refused["error"]


def cut(folder: Path) -> None:
    file = folder / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-40])


def no_shard(folder: Path) -> None:
    weight_map = {"w": "model-00001-of-00001.safetensors"}
    index = {"weight_map": weight_map}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))


def link_out(folder: Path) -> None:
    outside = folder.parents[1] / "outside.safetensors"
    (folder / "model.safetensors").rename(outside)
    (folder / "model.safetensors").symlink_to(outside)


def larger_than_stored(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    torch.save({"w": torch.ones(1).expand(10**12)}, folder / "pytorch_model.bin")


def sparse(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    torch.save({"w": torch.eye(3).to_sparse()}, folder / "pytorch_model.bin")


def empty(folder: Path) -> None:
    save_file({}, folder / "model.safetensors")


@pytest.mark.parametrize(
    ("damage", "why"),
    [
        pytest.param(cut, "model.safetensors is damaged", id="a file that is cut"),
        pytest.param(no_shard, "no model-00001-of-00001", id="a shard that is missing"),
        pytest.param(link_out, "a link to outside", id="a link out of the run"),
        pytest.param(shutil.rmtree, "no weights", id="a folder that is gone"),
        pytest.param(larger_than_stored, "more values than are stored", id="values out of nothing"),
        pytest.param(sparse, "no dense tensor", id="a sparse tensor"),
        pytest.param(empty, "no tensor", id="no tensor at all"),
    ],
)
def test_what_cannot_be_read_is_told_and_stops_nothing(
    damage: Callable[[Path], None], why: str, tmp_path: Path
) -> None:
    root = tmp_path / "run"
    folders = [saved(root, step, made(seed=step)) for step in (10, 20, 30)]
    found = [Checkpoint(step, f"checkpoint-{step}", f"checkpoint-{step}") for step in (10, 20, 30)]
    damage(folders[1])
    run = scan(replace(run_of(checkpoints=found), path=str(root), notes=()))
    assert run.scans is not None
    first, broken, last = run.scans.to_dicts()
    assert (first["error"], last["error"]) == (None, None)
    assert why in broken["error"]
    assert not broken["error"].startswith("checkpoint-20")
    kept = {"checkpoint", "step", "missing", "error"}
    assert {name for name, value in broken.items() if value is not None} == kept
    (note,) = run.notes
    assert (note.where, note.unread) == ("checkpoint-20", True)
    assert broken["error"] in note.text


def test_a_name_that_is_no_text_stops_nothing(tmp_path: Path) -> None:
    folder = saved(tmp_path, 10, {}, lambda weights, folder: None)
    torch.save({"w\ud800": torch.tensor([math.nan])}, folder / "pytorch_model.bin")
    assert row(tmp_path)["first_non_finite"] == "w\\ud800"


# the whole run


def test_a_run_without_checkpoints_has_an_empty_scan() -> None:
    found = scan(run_of(loss_total=[1.0])).scans
    assert found is not None
    assert found.height == 0


def test_a_run_that_is_a_file_is_scanned_beside_it(tmp_path: Path) -> None:
    saved(tmp_path, 10, made())
    log = tmp_path / "log.jsonl"
    log.write_text("{}\n")
    run = run_of(checkpoints=[Checkpoint(10, "checkpoint-10", "checkpoint-10")])
    found = scan(replace(run, path=str(log))).scans
    assert found is not None
    assert found["error"].to_list() == [None]


def test_progress_ends_at_the_bytes_of_all_weights(tmp_path: Path) -> None:
    saved(tmp_path, 10, made())
    cut(saved(tmp_path, 20, made()))
    saved(tmp_path, 30, made())
    names = [f"checkpoint-{step}" for step in (10, 20, 30)]
    found = [Checkpoint(step, name, name) for step, name in zip((10, 20, 30), names, strict=True)]
    told: list[tuple[str, int, int]] = []
    run = replace(run_of(checkpoints=found), path=str(tmp_path))
    scan(run, lambda what, done, total: told.append((what, done, total)))
    sizes = [(tmp_path / name / "model.safetensors").stat().st_size for name in names]
    assert {total for _, _, total in told} == {sum(sizes)}
    assert told == sorted(told)
    assert [name for name in names if name in {what for what, _, _ in told}] == names
    assert told[-1][1] == sum(sizes)


def test_without_torch_the_user_is_told_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved(tmp_path, 10, made())
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(DoctorError, match="torch") as caught:
        scanned(tmp_path)
    assert "rlhfdoctor[recompute]" in caught.value.hint


@pytest.mark.parametrize(("name", "count"), [("grpo_late", 3), ("ppo_late", 2)])
def test_real_checkpoints_are_sound_and_differ(name: str, count: int) -> None:
    (run,) = read_runs(FIXTURES / name)
    found = scan(run)
    assert found.scans is not None
    assert found.scans.height == count
    assert found.scans["error"].null_count() == count
    assert found.scans["finite"].all()
    assert found.scans["hash"].n_unique() == count
    assert found.scans["dtype"].unique().to_list() == ["float16"]
    assert found.scans["zero_rows"].sum() == 0
    assert found.notes == run.notes
