"""Weights on disk: what is read, what is refused, and that nothing of a file runs."""

from __future__ import annotations

import json
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

from rlhfdoctor.scorers import weights
from rlhfdoctor.scorers.weights import UnreadableWeights, is_adapter, tensors, weight_files

STATE = {
    "a.weight": torch.arange(6, dtype=torch.float32).view(2, 3),
    "b.bias": torch.tensor([1.5, -2.0], dtype=torch.float16),
}


def same(found: dict[str, Tensor], want: dict[str, Tensor] = STATE) -> bool:
    return found.keys() == want.keys() and all(
        torch.equal(found[name], want[name]) and found[name].dtype == want[name].dtype
        for name in want
    )


def sharded(folder: Path, suffix: str = "safetensors", **index: Any) -> Path:
    stem = "model" if suffix == "safetensors" else "pytorch_model"
    names = [f"{stem}-0000{number}-of-00002.{suffix}" for number in (1, 2)]
    for name, (key, value) in zip(names, STATE.items(), strict=True):
        if suffix == "safetensors":
            save_file({key: value}, folder / name)
        else:
            torch.save({key: value}, folder / name)
    index = {"weight_map": dict(zip(STATE, names, strict=True)), **index}
    (folder / f"{stem}.{suffix}.index.json").write_text(json.dumps(index), encoding="utf-8")
    return folder


def safetensors(folder: Path, name: str = "model.safetensors") -> None:
    save_file(STATE, folder / name)


def pickled(wrap: Callable[[dict[str, Tensor]], Any], name: str, **options: Any) -> Any:
    def write(folder: Path) -> None:
        torch.save(wrap(dict(STATE)), folder / name, **options)

    return write


def plain(state: dict[str, Tensor]) -> Any:
    return state


def behind(prefix: str) -> Callable[[dict[str, Tensor]], Any]:
    return lambda state: {prefix + name: value for name, value in state.items()}


def under(*keys: str) -> Callable[[dict[str, Tensor]], Any]:
    def wrap(state: dict[str, Tensor]) -> Any:
        wrapped: Any = state
        for key in reversed(keys):
            wrapped = {key: wrapped, "step": 7, "args": {"lr": 0.1}}
        return wrapped

    return wrap


@pytest.mark.parametrize(
    ("write", "form"),
    [
        pytest.param(safetensors, "safetensors", id="one safetensors file"),
        pytest.param(sharded, "safetensors", id="safetensors in shards"),
        pytest.param(pickled(plain, "pytorch_model.bin"), "bin", id="one .bin file"),
        pytest.param(lambda folder: sharded(folder, "bin"), "bin", id=".bin in shards"),
        pytest.param(pickled(plain, "model.pt"), "pt", id="one .pt file"),
        pytest.param(
            pickled(plain, "pytorch_model.bin", _use_new_zipfile_serialization=False),
            "bin",
            id="a torch file from before the zip format",
        ),
        pytest.param(pickled(behind("module."), "model.pt"), "pt", id="names behind module."),
        pytest.param(pickled(behind("_orig_mod."), "model.pt"), "pt", id="names behind _orig_mod."),
        pytest.param(
            pickled(behind("module._orig_mod."), "model.pt"), "pt", id="names behind both"
        ),
        pytest.param(pickled(under("state_dict"), "model.pt"), "pt", id="in a state_dict"),
        pytest.param(pickled(under("model"), "model.pt"), "pt", id="in a dictionary's model"),
        pytest.param(
            pickled(under("state_dict", "model"), "model.pt"), "pt", id="in two dictionaries"
        ),
        pytest.param(
            lambda folder: safetensors(folder, "adapter_model.safetensors"),
            "peft",
            id="a safetensors adapter",
        ),
        pytest.param(pickled(plain, "adapter_model.bin"), "peft", id="a pickled adapter"),
    ],
)
def test_weights_are_read_as_they_were_saved(
    write: Callable[[Path], object], form: str, tmp_path: Path
) -> None:
    write(tmp_path)
    assert weight_files(tmp_path)[0] == form
    assert same(dict(tensors(tmp_path)))
    assert is_adapter(tmp_path) == (form == "peft")


def test_safetensors_are_read_before_pickles(tmp_path: Path) -> None:
    safetensors(tmp_path)
    (tmp_path / "pytorch_model.bin").write_bytes(b"never opened")
    assert same(dict(tensors(tmp_path)))


def test_full_weights_beside_an_adapter_are_no_adapter(tmp_path: Path) -> None:
    safetensors(tmp_path)
    safetensors(tmp_path, "adapter_model.safetensors")
    assert not is_adapter(tmp_path)
    assert weight_files(tmp_path)[0] == "safetensors"


def cut(name: str, keep: float) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        if name.endswith("safetensors"):
            safetensors(folder, name)
        else:
            torch.save(STATE, folder / name)
        data = (folder / name).read_bytes()
        (folder / name).write_bytes(data[: int(len(data) * keep)])

    return write


def index(text: str) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        sharded(folder)
        (folder / "model.safetensors.index.json").write_text(text, encoding="utf-8")

    return write


def recursive(folder: Path) -> None:
    loop: dict[str, Any] = {"step": 1}
    loop["model"] = loop
    torch.save(loop, folder / "pytorch_model.bin")


@pytest.mark.parametrize(
    ("write", "told"),
    [
        pytest.param(lambda folder: None, "no weights", id="an empty folder"),
        pytest.param(
            lambda folder: (sharded(folder) / "model-00002-of-00002.safetensors").unlink(),
            "no model-00002-of-00002.safetensors, which the index names",
            id="a missing shard",
        ),
        pytest.param(
            index('{"weight_map": {"a": "../x.safetensors"}}'),
            "names '../x.safetensors'",
            id="an index that leads out of the folder",
        ),
        pytest.param(
            index('{"weight_map": {"a": "/etc/passwd"}}'),
            "names '/etc/passwd'",
            id="an index that names an absolute path",
        ),
        pytest.param(
            index('{"weight_map": {"a": ".."}}'), "no .., which", id="an index that names .."
        ),
        pytest.param(index('{"weight_map": '), "is damaged", id="a cut index"),
        pytest.param(index("{}"), "is damaged", id="an index without a map"),
        pytest.param(index("[1]"), "is damaged", id="an index that is a list"),
        pytest.param(index('{"weight_map": "x"}'), "is damaged", id="a map that is a text"),
        pytest.param(index("[" * 200_000), "is damaged", id="an index nested without end"),
        pytest.param(cut("model.safetensors", 0.9), "is damaged", id="safetensors without its end"),
        pytest.param(cut("model.safetensors", 0.1), "is damaged", id="safetensors cut in its head"),
        pytest.param(cut("model.safetensors", 0), "is damaged", id="an empty safetensors file"),
        pytest.param(cut("pytorch_model.bin", 0.9), "is damaged", id="a .bin without its end"),
        pytest.param(cut("pytorch_model.bin", 0), "is damaged", id="an empty .bin"),
        pytest.param(
            pickled(lambda state: [1, 2], "pytorch_model.bin"),
            "holds no tensors by name",
            id="a list",
        ),
        pytest.param(
            pickled(lambda state: {"model": {"lr": 1.0}}, "pytorch_model.bin"),
            "holds no tensors by name",
            id="a dictionary of numbers",
        ),
        pytest.param(recursive, "holds no tensors by name", id="a dictionary that holds itself"),
    ],
)
def test_damage_is_told_in_one_line(
    write: Callable[[Path], object], told: str, tmp_path: Path
) -> None:
    write(tmp_path)
    with pytest.raises(UnreadableWeights) as caught:
        list(tensors(tmp_path))
    assert told in caught.value.message
    assert "\n" not in caught.value.message


@pytest.mark.parametrize("zipped", [True, False], ids=["zip", "legacy"])
def test_a_damaged_torch_file_never_makes_another_error(zipped: bool, tmp_path: Path) -> None:
    file = tmp_path / "pytorch_model.bin"
    torch.save(STATE, file, _use_new_zipfile_serialization=zipped)
    whole = file.read_bytes()
    refused = 0
    for place in range(0, min(len(whole), 400), 2):
        for damaged in (whole[:place], whole[:place] + b"\x8a\xff" + whole[place + 2 :]):
            file.write_bytes(damaged)
            try:
                list(tensors(tmp_path))
            except UnreadableWeights:
                refused += 1
    assert refused > 100


class Canary:
    """What a malicious file holds: it would make a folder when it is loaded."""

    def __init__(self, place: Path) -> None:
        self.place = place

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.place),)


@pytest.mark.parametrize("zipped", [True, False], ids=["zip", "legacy"])
@pytest.mark.parametrize("name", ["pytorch_model.bin", "model.pt", "adapter_model.bin"])
def test_a_file_that_would_run_code_is_refused_by_name(
    name: str, zipped: bool, tmp_path: Path
) -> None:
    place = tmp_path / "canary"
    torch.save(
        {**STATE, "x": Canary(place)},
        tmp_path / name,
        _use_new_zipfile_serialization=zipped,
    )
    with pytest.raises(UnreadableWeights) as caught:
        list(tensors(tmp_path))
    assert "holds more than tensors" in caught.value.message
    assert "not executed" in caught.value.message
    if zipped:
        assert f"{os.mkdir.__module__}.mkdir" in caught.value.message
    assert not place.exists()
    torch.load(tmp_path / name, weights_only=False)
    assert place.exists(), "the file must be able to do what it is refused for"


def test_a_bare_pickle_is_refused_too(tmp_path: Path) -> None:
    place = tmp_path / "canary"
    (tmp_path / "pytorch_model.bin").write_bytes(pickle.dumps(Canary(place)))
    with pytest.raises(UnreadableWeights):
        list(tensors(tmp_path))
    assert not place.exists()


# Links


@pytest.fixture
def linked(tmp_path: Path) -> Callable[..., Path]:
    """Return a run's checkpoint, one file of which is a link to somewhere."""

    def make(name: str, inside: bool) -> Path:
        folder = tmp_path / "run" / "checkpoint-1"
        folder.mkdir(parents=True)
        sharded(folder)
        away = tmp_path / ("run/blobs" if inside else "elsewhere")
        away.mkdir()
        (folder / name).rename(away / name)
        (folder / name).symlink_to(away / name)
        return folder

    return make


FILES = pytest.mark.parametrize(
    "name", ["model-00002-of-00002.safetensors", "model.safetensors.index.json"]
)


@FILES
def test_a_link_out_of_the_run_is_not_opened(
    name: str, linked: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = linked(name, inside=False)
    with pytest.raises(UnreadableWeights) as caught:
        list(tensors(folder, trusted=folder.parent))
    assert f"{name} is a link to outside the run folder" in caught.value.message


@FILES
def test_a_link_inside_the_run_is_followed(name: str, linked: Callable[..., Path]) -> None:
    folder = linked(name, inside=True)
    assert same(dict(tensors(folder, trusted=folder.parent)))


@FILES
def test_a_link_of_a_folder_that_the_user_named_is_followed(
    name: str, linked: Callable[..., Path]
) -> None:
    """Hugging Face's cache is made of links."""
    assert same(dict(tensors(linked(name, inside=False), trusted=None)))


def test_the_folder_itself_may_be_a_link(tmp_path: Path) -> None:
    real = tmp_path / "real"
    (real / "checkpoint-1").mkdir(parents=True)
    safetensors(real / "checkpoint-1")
    (tmp_path / "run").symlink_to(real)
    assert same(dict(tensors(tmp_path / "run" / "checkpoint-1", trusted=tmp_path / "run")))


def test_nothing_is_read_before_it_is_asked_for(tmp_path: Path) -> None:
    """A damaged last shard does not keep the first from being read."""
    sharded(tmp_path)
    (tmp_path / "model-00002-of-00002.safetensors").write_bytes(b"x")
    found = weights.tensors(tmp_path)
    assert next(found)[0] == "a.weight"
    with pytest.raises(UnreadableWeights):
        next(found)


def test_an_index_that_is_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"")
    os.mkfifo(tmp_path / "model.safetensors.index.json")
    with pytest.raises(UnreadableWeights, match="is no index of shards"):
        list(tensors(tmp_path))
