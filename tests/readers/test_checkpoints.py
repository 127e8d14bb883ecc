import json
import struct
from pathlib import Path
from typing import Any

import pytest

from rlhfdoctor.model import Checkpoint
from rlhfdoctor.readers.checkpoints import checkpoints
from tests.builders import FIXTURES
from tests.readers.helpers import read, write

HEADER = {
    "__metadata__": {"format": "pt"},
    "b": {"dtype": "F32", "shape": [2], "data_offsets": [8, 16]},
    "a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]},
}


def tensors(header: Any = None, data: int = 16, length: int | None = None) -> bytes:
    """Return a safetensors file: its length, its header, and so many bytes of data."""
    text = header if isinstance(header, bytes) else json.dumps(header or HEADER).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + b"\x00" * data


WHOLE: dict[str, str | bytes] = {
    "model.safetensors": tensors(),
    "trainer_state.json": "{}",
    "config.json": "{}",
}


def saved(
    tmp_path: Path, files: dict[str, str | bytes | None], name: str = "checkpoint-7"
) -> Checkpoint:
    """Read a checkpoint folder with these files beside a whole one's; None takes one away."""
    folder = tmp_path / name
    folder.mkdir(parents=True)
    for file, content in {**WHOLE, **files}.items():
        if content is not None:
            write(folder / file, content)
    found = read(checkpoints, folder)
    assert len(found.checkpoints) == 1
    checkpoint = found.checkpoints[0]
    told = [f"incomplete checkpoint: {', '.join(checkpoint.missing)}"] if checkpoint.missing else []
    assert [note.text for note in found.notes] == told
    return checkpoint


@pytest.mark.parametrize(
    ("files", "form"),
    [
        pytest.param({}, "safetensors", id="weights and trainer state, no optimizer"),
        pytest.param({"optimizer.pt": "x", "rng_state.pth": "x"}, "safetensors", id="all of it"),
        pytest.param(
            {"model.safetensors": None, "pytorch_model.bin": "x"}, "bin", id="pickled weights"
        ),
        pytest.param(
            {"model.safetensors": None, "adapter_model.safetensors": tensors()},
            "peft",
            id="an adapter",
        ),
        pytest.param(
            {"model.safetensors": None, "adapter_model.bin": "x"}, "peft", id="a pickled adapter"
        ),
        pytest.param({"model.safetensors": tensors(data=20)}, "safetensors", id="padding behind"),
        pytest.param(
            {"model.safetensors": tensors({"__metadata__": {}}, data=0)},
            "safetensors",
            id="a file without tensors",
        ),
        pytest.param(
            {
                "model.safetensors": None,
                "model-00001-of-00002.safetensors": tensors(),
                "model-00002-of-00002.safetensors": tensors(),
                "model.safetensors.index.json": json.dumps(
                    {
                        "weight_map": {
                            "a": "model-00001-of-00002.safetensors",
                            "b": "model-00002-of-00002.safetensors",
                        }
                    }
                ),
            },
            "safetensors",
            id="every shard that the index names",
        ),
    ],
)
def test_complete(tmp_path: Path, files: dict[str, str | bytes | None], form: str) -> None:
    found = saved(tmp_path, files)
    assert found.missing == ()
    assert (found.complete, found.loadable, found.format) == (True, True, form)


@pytest.mark.parametrize(
    ("files", "missing"),
    [
        pytest.param({"model.safetensors": None}, "no weights", id="no weights"),
        pytest.param(
            {"model.safetensors": None, "optimizer.bin": "x", "scheduler.pt": "x"},
            "no weights",
            id="an optimizer is no weights",
        ),
        pytest.param({"model.safetensors": b""}, "model.safetensors is empty", id="empty weights"),
        pytest.param(
            {"model.safetensors": tensors(data=15)},
            f"model.safetensors is cut: {len(tensors()) - 1} of {len(tensors())} bytes",
            id="one byte short of what the header says",
        ),
        pytest.param(
            {"model.safetensors": tensors()[:60]},
            "model.safetensors is cut or no safetensors file",
            id="cut inside the header",
        ),
        pytest.param(
            {"model.safetensors": tensors()[:5]},
            "model.safetensors is cut or no safetensors file",
            id="cut inside the length",
        ),
        pytest.param(
            {"model.safetensors": tensors(length=2**63)},
            "model.safetensors is cut or no safetensors file",
            id="an absurd length",
        ),
        pytest.param(
            {"model.safetensors": b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n"},
            "model.safetensors is cut or no safetensors file",
            id="a pointer of Git LFS",
        ),
        *(
            pytest.param(
                {"model.safetensors": tensors(header)},
                "model.safetensors has a damaged header",
                id=f"a header {what}",
            )
            for header, what in (
                (b"{nope}", "that is no JSON"),
                (b"[1]", "that is a list"),
                (b"7", "that is a number"),
                (b"\x00" * 8, "of null bytes"),
                ({"a": 1}, "whose tensor is a number"),
                ({"a": None}, "whose tensor is null"),
                ({"a": {"dtype": "F32"}}, "without offsets"),
                ({"a": {"data_offsets": []}}, "with empty offsets"),
                ({"a": {"data_offsets": [0]}}, "with half the offsets"),
                ({"a": {"data_offsets": [0, "8"]}}, "with offsets as text"),
                ({"a": {"data_offsets": [0, 8.5]}}, "with half a byte"),
            )
        ),
        pytest.param(
            {"model.safetensors.index.json": '{"weight_map": {"a": "model-2.safetensors"}}'},
            "no model-2.safetensors",
            id="a missing shard",
        ),
        pytest.param(
            {"pytorch_model.bin.index.json": '{"weight_map": {"b": "y.bin", "a": "x.bin"}}'},
            "no x.bin, no y.bin",
            id="two missing shards",
        ),
        *(
            pytest.param(
                {"model.safetensors.index.json": text},
                "model.safetensors.index.json is damaged",
                id=f"an index {what}",
            )
            for text, what in (
                ('{"weight_map": {"a"', "that is cut"),
                ("[" * 100_000, "of 100,000 brackets"),
                ("[]", "that is a list"),
                ("{}", "without a map"),
                ('{"weight_map": []}', "whose map is a list"),
                (b"\xff\xfe", "that is no text"),
            )
        ),
    ],
)
def test_what_cannot_be_loaded(
    tmp_path: Path, files: dict[str, str | bytes | None], missing: str
) -> None:
    found = saved(tmp_path, files)
    assert ", ".join(found.missing) == missing
    assert (found.complete, found.loadable) == (False, False)


def test_without_a_trainer_state_the_weights_can_still_be_loaded(tmp_path: Path) -> None:
    found = saved(tmp_path, {"trainer_state.json": None})
    assert found.missing == ("no trainer_state.json",)
    assert (found.complete, found.loadable) == (False, True)


def test_a_zero_byte_optimizer_leaves_the_weights_loadable(tmp_path: Path) -> None:
    found = saved(tmp_path, {"optimizer.pt": b""})
    assert found.missing == ("optimizer.pt is empty",)
    assert (found.complete, found.loadable) == (False, True)


def test_everything_that_is_missing_is_told(tmp_path: Path) -> None:
    found = saved(
        tmp_path, {"model.safetensors": None, "trainer_state.json": None, "optimizer.pt": b""}
    )
    assert found.missing == ("no weights", "optimizer.pt is empty", "no trainer_state.json")


def test_an_empty_folder_is_an_incomplete_checkpoint(tmp_path: Path) -> None:
    (tmp_path / "checkpoint-3").mkdir()
    found = read(checkpoints, tmp_path / "checkpoint-3").checkpoints[0]
    assert (found.complete, found.loadable, found.format) == (False, False, "unknown")
    assert found.missing == ("no weights", "no trainer_state.json")


def test_links_count_as_present_and_are_not_opened(tmp_path: Path) -> None:
    index = json.dumps({"weight_map": {"a": "model.safetensors", "b": "none.safetensors"}})
    write(tmp_path / "cache" / "weights", "no tensors at all")
    write(tmp_path / "cache" / "index", index)
    folder = tmp_path / "checkpoint-7"
    write(folder / "trainer_state.json", "{}")
    (folder / "model.safetensors").symlink_to(tmp_path / "cache" / "weights")
    (folder / "model.safetensors.index.json").symlink_to(tmp_path / "cache" / "index")
    found = read(checkpoints, folder).checkpoints[0]
    assert (found.missing, found.complete, found.format) == ((), True, "safetensors")


@pytest.mark.parametrize(
    ("content", "missing"),
    [
        pytest.param(None, "no weights", id="a link to nowhere is no file"),
        pytest.param("", "model.safetensors is empty", id="a link to an empty file"),
    ],
)
def test_a_link_does_not_stand_for_what_is_not_there(
    tmp_path: Path, content: str | None, missing: str
) -> None:
    folder = tmp_path / "checkpoint-7"
    write(folder / "trainer_state.json", "{}")
    (folder / "model.safetensors").symlink_to(tmp_path / "weights")
    if content is not None:
        write(tmp_path / "weights", content)
    found = read(checkpoints, folder).checkpoints[0]
    assert (found.missing, found.loadable) == ((missing,), False)


def test_shards_with_lone_surrogates_in_their_names_can_be_told(tmp_path: Path) -> None:
    found = saved(
        tmp_path, {"model.safetensors.index.json": '{"weight_map": {"a": "x\\ud800.bin"}}'}
    )
    assert found.missing == ("no x\ufffd.bin",)


@pytest.mark.parametrize(
    ("name", "step"),
    [
        ("checkpoint-7", 7),
        ("checkpoint-0", 0),
        ("checkpoint_0007", 7),
        ("checkpoint-000120", 120),
        ("global_step_12", 12),
        ("global_step12", 12),
        ("step_3", 3),
        ("Steps_50", 50),
        ("iter_0000040", 40),
    ],
)
def test_names_that_are_checkpoints(tmp_path: Path, name: str, step: int) -> None:
    assert checkpoints.folder
    assert checkpoints.claims(name, b"")
    found = saved(tmp_path, {}, name)
    assert (found.step, found.name, found.path) == (step, name, str(tmp_path / name))


@pytest.mark.parametrize(
    "name",
    [
        "checkpoint-best",
        "checkpoint-1234567890123456",
        "checkpoint-",
        "checkpoint-7-merged",
        "checkpoint-7.5",
        "checkpoint--7",
        "checkpoint-7 (copy)",
        "old-checkpoint-7",
        "checkpoint7",
        "checkpoints",
        "step_by_step",
        "iter_",
        "epoch_3",
        "final",
    ],
)
def test_names_that_are_no_checkpoints(tmp_path: Path, name: str) -> None:
    for file, content in WHOLE.items():
        write(tmp_path / name / file, content)
    found = read(checkpoints, tmp_path / name)
    assert (found.checkpoints, found.notes) == ([], [])


@pytest.mark.parametrize(
    ("run", "name", "missing"),
    [
        pytest.param("grpo_late", "checkpoint-40", (), id="a save that was finished"),
        pytest.param("grpo_killed", "checkpoint-30", (), id="the save before a kill"),
        pytest.param(
            "grpo_killed",
            "checkpoint-60",
            (
                "optimizer.pt is empty",
                "no trainer_state.json",
            ),
            id="the save that the kill interrupted",
        ),
    ],
)
def test_real_checkpoints(run: str, name: str, missing: tuple[str, ...]) -> None:
    found = read(checkpoints, FIXTURES / run / name).checkpoints[0]
    assert found.missing == missing
    assert found.complete is (missing == ())
