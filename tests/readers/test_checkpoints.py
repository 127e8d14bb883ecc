import json
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from rlhfdoctor.model import Checkpoint
from rlhfdoctor.readers.checkpoints import checkpoints, is_checkpoint
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
        "final_report",
        "epochs",
        "stepwise",
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


STATES = {"mp_rank_00_model_states.pt": "x"}


@pytest.mark.parametrize(
    ("name", "files", "expected"),
    [
        pytest.param(
            "checkpoint-7",
            {"pytorch_model_fsdp_0/.metadata": "x", "pytorch_model_fsdp_0/__0_0.distcp": "x"},
            ("fsdp_dcp", (), "accelerate merge-weights {}/pytorch_model_fsdp_0 {}-merged"),
            id="FSDP in parts",
        ),
        pytest.param(
            "checkpoint-7",
            {
                "config.json": "{}",
                "pytorch_model_fsdp_0/.metadata": "x",
                "pytorch_model_fsdp_0/__0_0.distcp": "x",
            },
            ("fsdp_dcp", (), "accelerate merge-weights {}/pytorch_model_fsdp_0 {}"),
            id="FSDP in parts beside their configuration",
        ),
        pytest.param(
            "checkpoint-7",
            {"pytorch_model_fsdp_0/__0_0.distcp": "x", "pytorch_model_fsdp_0/__2_0.distcp": ""},
            (
                "fsdp_dcp",
                (
                    "no pytorch_model_fsdp_0/.metadata, which is written last",
                    "no part of rank 1 of 3",
                    "pytorch_model_fsdp_0/__2_0.distcp is empty",
                ),
                None,
            ),
            id="FSDP without a rank",
        ),
        pytest.param(
            "checkpoint-7",
            {"pytorch_model_fsdp.bin": "x"},
            ("fsdp_bin", (), "ln -s pytorch_model_fsdp.bin {}/pytorch_model.bin"),
            id="FSDP in one file",
        ),
        pytest.param(
            "checkpoint-7",
            {
                "latest": "global_step7",
                "zero_to_fp32.py": "raise SystemExit",
                "global_step7/zero_pp_rank_0_mp_rank_00_model_states.pt": "x",
                "global_step7/zero_pp_rank_1_mp_rank_00_model_states.pt": "x",
                "global_step7/bf16_zero_pp_rank_0_mp_rank_00_optim_states.pt": "x",
            },
            (
                "deepspeed_zero",
                (),
                "python -m deepspeed.utils.zero_to_fp32 {} {}-merged --tag global_step7",
            ),
            id="ZeRO-3; the script in the folder is not what is suggested",
        ),
        pytest.param(
            "checkpoint-7",
            {
                "global_step7/zero_pp_rank_0_mp_rank_00_model_states.pt": "x",
                "global_step7/zero_pp_rank_1_mp_rank_00_optim_states.pt": "x",
            },
            ("deepspeed_zero", ("no model states of rank 1 of 2",), None),
            id="ZeRO-3 without a rank's weights",
        ),
        pytest.param(
            "global_step_7",
            {"model_world_size_2_rank_0.pt": "x", "model_world_size_2_rank_1.pt": "x"},
            (
                "fsdp_rank_pt",
                (),
                "python -m verl.model_merger merge --backend fsdp --local_dir {} "
                "--target_dir {}-merged",
            ),
            id="verl, one file a rank",
        ),
        pytest.param(
            "global_step_7",
            {"model_world_size_4_rank_0.pt": "x", "model_world_size_4_rank_2.pt": ""},
            (
                "fsdp_rank_pt",
                ("no rank 1, 3 of 4", "model_world_size_4_rank_2.pt is empty"),
                None,
            ),
            id="verl without two ranks",
        ),
        pytest.param(
            "global_step_7",
            {"dist_ckpt/.metadata": "x", "dist_ckpt/__0_0.distcp": "x"},
            (
                "megatron_dist",
                (),
                "python -m verl.model_merger merge --backend megatron --local_dir {} "
                "--target_dir {}-merged",
            ),
            id="verl on Megatron",
        ),
        pytest.param(
            "global_step_7",
            {"model/dist_ckpt/.metadata": "x", "model/dist_ckpt/__0_0.distcp": "x"},
            ("megatron_dist", ("no ckpt_contents.json, which is written last",), None),
            id="verl on Megatron, unfinished",
        ),
        pytest.param(
            "iter_0000007",
            {"common.pt": "x", ".metadata": "x", "__0_0.distcp": "x"},
            ("megatron_dist", (), None),
            id="Megatron in parts",
        ),
        pytest.param(
            "iter_0000007",
            {"mp_rank_00/model_optim_rng.pt": "x", "mp_rank_01/other": "x"},
            ("megatron_dist", ("no weights in mp_rank_01",), None),
            id="Megatron without a rank's weights",
        ),
        pytest.param(
            "megatron_gpt-step=7-consumed_samples=64-epoch=0",
            {"model_weights/metadata.json": "{}"},
            ("nemo", (), None),
            id="NeMo-Aligner",
        ),
        pytest.param(
            "tmp_step_7",
            {"policy/weights/.metadata": "x", "policy/weights/__0_0.distcp": "x"},
            ("fsdp_dcp", ("tmp_: the save was not finished",), None),
            id="NeMo-RL, unfinished",
        ),
    ],
)
def test_layouts_that_transformers_does_not_read(
    tmp_path: Path,
    name: str,
    files: dict[str, str],
    expected: tuple[str, tuple[str, ...], str | None],
) -> None:
    folder = tmp_path / "a run" / name
    trained = {"trainer_state.json": "{}"} if name.startswith("checkpoint-") else {}
    for file, content in {**files, **trained}.items():
        write(folder / file, content)
    (found,) = read(checkpoints, folder).checkpoints
    form, missing, command = expected
    assert (found.step, found.format, found.missing, found.loadable) == (7, form, missing, False)
    assert found.complete is not bool(missing)
    if command is None:
        assert (found.convert is None) or missing == ("tmp_: the save was not finished",)
    else:
        assert found.convert is not None
        assert found.convert.replace("'", "") == command.replace("{}", str(folder))
        assert "'" in found.convert, "a path with a blank in it is quoted"


def entries(tmp_path: Path, name: str, files: Mapping[str, str | bytes]) -> list[Checkpoint]:
    for file, content in files.items():
        write(tmp_path / name / file, content)
    return read(checkpoints, tmp_path / name).checkpoints


def test_actor_and_critic_are_two_checkpoints(tmp_path: Path) -> None:
    found = entries(
        tmp_path,
        "global_step_10",
        {
            "actor/model_world_size_1_rank_0.pt": "x",
            "actor/huggingface/config.json": "{}",
            "critic/model_world_size_1_rank_0.pt": "x",
            "data.pt": "x",
        },
    )
    assert [(item.name, item.role, item.step, item.complete) for item in found] == [
        ("global_step_10/actor", "policy", 10, True),
        ("global_step_10/critic", "critic", 10, True),
    ]
    assert [Path(item.path).name for item in found] == ["actor", "critic"]


@pytest.mark.parametrize(
    ("name", "place", "label"),
    [
        pytest.param("global_step_10", "actor/huggingface", "global_step_10/actor", id="verl"),
        pytest.param("checkpoint_10", "hf_model", "checkpoint_10", id="trlX"),
        pytest.param("step_10", "policy/weights", "step_10/policy", id="NeMo-RL"),
    ],
)
def test_weights_in_a_folder_of_their_own(
    tmp_path: Path, name: str, place: str, label: str
) -> None:
    trainer = {"pytorch_model.bin": "x"} if name == "checkpoint_10" else {}
    found = entries(tmp_path, name, {f"{place}/model.safetensors": tensors(), **trainer})
    assert [(item.name, item.format, item.loadable, item.convert) for item in found] == [
        (label, "safetensors", True, None)
    ]
    assert found[0].path == str(tmp_path / name / place)


@pytest.mark.parametrize(
    ("name", "role", "step", "epoch"),
    [
        ("best_global_step12", "best", 12, None),
        ("global_step12_hf", "policy", 12, None),
        ("epoch1epochstep2globalstep30", "policy", 30, 1.0),
        ("slice_12", "policy", 12, None),
        ("step60", "policy", 60, None),
        ("step-60", "policy", 60, None),
        ("ckpt-80", "policy", 80, None),
        ("ckpt_step_80", "policy", 80, None),
        ("model_step_80", "policy", 80, None),
        ("epoch_2", "policy", 5, 2.0),
        ("final", "final", 5, None),
        ("final_model", "final", 5, None),
        ("best_model", "best", 5, None),
        ("best_checkpoint", "best", 5, None),
        ("checkpoint-best", "best", 5, None),
        ("slice_end", "policy", 5, None),
        ("actor", "policy", 5, None),
        ("critic", "critic", 5, None),
        ("actor_ema", "ema", 5, None),
    ],
)
def test_names_roles_and_steps(
    tmp_path: Path, name: str, role: str, step: int, epoch: float | None
) -> None:
    state = '{"global_step": 5, "log_history": []}'
    (found,) = entries(
        tmp_path, name, {"model.safetensors": tensors(), "trainer_state.json": state}
    )
    assert (found.role, found.step, found.epoch) == (role, step, epoch)
    assert found.loadable
    assert checkpoints.claims(name, b"")
    assert is_checkpoint(tmp_path / name)


def test_the_folder_around_tells_the_role(tmp_path: Path) -> None:
    for place, role in (("_actor", "policy"), ("_critic", "critic")):
        (found,) = entries(tmp_path / place, "global_step10", STATES)
        assert (found.role, found.format, found.complete) == (role, "deepspeed_zero", True)


@pytest.mark.parametrize(
    "state", [None, "{}", '{"global_step": "x"}', "[", '{"global_step": 1.5}', "[]"]
)
def test_weights_without_a_step_are_told_of(tmp_path: Path, state: str | None) -> None:
    write(tmp_path / "final" / "model.safetensors", tensors())
    if state is not None:
        write(tmp_path / "final" / "trainer_state.json", state)
    found = read(checkpoints, tmp_path / "final")
    assert found.checkpoints == []
    assert found.told == "final: holds weights, but nothing says of which step; no checkpoint"


@pytest.mark.parametrize("name", ["final", "best", "step_3", "epoch_2", "actor"])
def test_a_folder_that_may_be_anything_is_a_checkpoint_by_its_weights(
    tmp_path: Path, name: str
) -> None:
    write(tmp_path / name / "traces.jsonl", "{}")
    found = read(checkpoints, tmp_path / name)
    assert (found.checkpoints, found.notes) == ([], [])
    assert not is_checkpoint(tmp_path / name)


@pytest.mark.parametrize(
    "files",
    [
        pytest.param({"model_world_size_999999_rank_0.pt": "x"}, id="a million ranks"),
        pytest.param({"__999999_0.distcp": "x", ".metadata": "x"}, id="a million parts"),
    ],
)
def test_names_that_promise_a_million_files_are_told_of_shortly(
    tmp_path: Path, files: dict[str, str | bytes]
) -> None:
    (found,) = entries(tmp_path, "global_step_1", files)
    assert not found.complete
    assert len(", ".join(found.missing)) < 200
