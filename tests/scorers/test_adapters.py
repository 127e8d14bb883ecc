"""Adapters: each equals what PEFT itself makes of it, and leaves its base alone."""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import peft
import pytest
import torch
from safetensors.torch import load_file, save_file

from rlhfdoctor.scorers import adapters
from rlhfdoctor.scorers.weights import UnreadableWeights
from tests.scorers.tiny import (
    ERROR,
    apart,
    built,
    loaded,
    saved,
)

QV = {"r": 4, "target_modules": ["q_proj", "v_proj"]}


def adapted(network: Any, folder: Path, seed: int, config: Any) -> Any:
    """Save an adapter that moves the network, and return PEFT's own model with it on."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        wrapped: Any = peft.get_peft_model(copy.deepcopy(network), config)
        with torch.no_grad():
            for parameter in wrapped.parameters():
                if parameter.requires_grad:
                    parameter.add_(torch.randn_like(parameter) * 0.05)
    wrapped.save_pretrained(str(folder))
    return wrapped.eval()


def lora(**options: Any) -> Any:
    return peft.LoraConfig(task_type="CAUSAL_LM", **options)


QUIET = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning")
"""PEFT warns of what is tied where a test trains with it, and of its own use of transformers."""


@QUIET
@pytest.mark.parametrize("tied", [False, True], ids=["untied", "tied"])
@pytest.mark.parametrize(
    "config",
    [
        pytest.param(lambda: lora(**QV), id="q_proj and v_proj"),
        pytest.param(lambda: lora(**QV, use_rslora=True, lora_alpha=32), id="rank-stabilised"),
        pytest.param(lambda: lora(r=4, target_modules=["q_proj", "lm_head"]), id="with lm_head"),
        pytest.param(lambda: lora(**QV, modules_to_save=["lm_head"]), id="a whole lm_head"),
        pytest.param(lambda: lora(**QV, use_dora=True), id="DoRA"),
        pytest.param(lambda: lora(r=4, target_modules=["embed_tokens"]), id="the embedding"),
        pytest.param(lambda: lora(**QV, trainable_token_indices=[5, 6]), id="single tokens"),
    ],
)
def test_an_adapter_equals_pefts_own_forward_and_leaves_its_base(
    config: Callable[[], Any], tied: bool, tmp_path: Path
) -> None:
    network = built("llama", seed=3, tie_word_embeddings=tied)
    one = adapted(network, tmp_path / "one", 1, config())
    two = adapted(network, tmp_path / "two", 2, config())
    base = loaded(saved(network, tmp_path / "base"))
    before = {name: tensor.clone() for name, tensor in base.network.state_dict().items()}
    with_one = adapters.with_adapter(base, tmp_path / "one")
    assert with_one.name == "one"
    assert apart(with_one, one) < ERROR
    assert apart(with_one, network) > 1e-2, "the adapter must matter"
    assert apart(adapters.with_adapter(base, tmp_path / "two"), two) < ERROR
    assert apart(adapters.with_adapter(base, tmp_path / "one"), one) < ERROR
    adapters.without_adapter(base)
    after = base.network.state_dict()
    assert after.keys() == before.keys()
    assert all(torch.equal(after[name], before[name]) for name in before)
    assert apart(base, network) < ERROR


def prompt_tuning(network: Any, folder: Path) -> None:
    config = peft.PromptTuningConfig(task_type="CAUSAL_LM", num_virtual_tokens=4)
    wrapped: Any = peft.get_peft_model(copy.deepcopy(network), config)
    wrapped.save_pretrained(str(folder))


def changed(**entries: Any) -> Callable[[Any, Path], None]:
    """Write an adapter whose adapter_config.json says something else."""

    def write(network: Any, folder: Path) -> None:
        adapted(network, folder, 1, lora(**QV))
        file = folder / "adapter_config.json"
        config = {**json.loads(file.read_text(encoding="utf-8")), **entries}
        file.write_text(json.dumps(config), encoding="utf-8")

    return write


def cut_short(network: Any, folder: Path) -> None:
    adapted(network, folder, 1, lora(**QV))
    state = load_file(folder / "adapter_model.safetensors")
    state.pop(sorted(state)[0])
    save_file(state, folder / "adapter_model.safetensors")


def resized(network: Any, folder: Path) -> None:
    """Write an adapter with an embedding that was trained with it."""
    wrapped = adapted(network, folder, 1, lora(**QV))
    with torch.no_grad():
        wrapped.get_input_embeddings().weight.add_(0.1)
    wrapped.save_pretrained(str(folder), save_embedding_layers=True)


@QUIET
@pytest.mark.parametrize(
    ("write", "told"),
    [
        pytest.param(prompt_tuning, "adapters are not scored", id="prompt tuning"),
        pytest.param(
            changed(init_lora_weights="pissa"), "pissa adapters change their base", id="PiSSA"
        ),
        pytest.param(
            changed(init_lora_weights="olora"), "olora adapters change their base", id="OLoRA"
        ),
        pytest.param(
            changed(layer_replication=[[0, 2], [1, 2]]), "replicates layers", id="more layers"
        ),
        pytest.param(
            changed(target_modules=["q_proj"]), "does not fit", id="tensors for more modules"
        ),
        pytest.param(
            changed(target_modules=["q_proj", "v_proj", "k_proj"]),
            "does not fit",
            id="modules without tensors",
        ),
        pytest.param(changed(r=8), "does not fit", id="another rank"),
        pytest.param(changed(r=10**9), "rank 1000000000, of tensors", id="a rank beyond memory"),
        pytest.param(
            changed(rank_pattern={"q_proj": 10**9}), "rank 1000000000", id="such a rank in part"
        ),
        pytest.param(
            changed(target_modules="(.*a.*)+$"), "is not matched", id="a pattern without end"
        ),
        pytest.param(
            changed(alpha_pattern={"(a+)*b": 3}), "is not matched", id="one among the factors"
        ),
        pytest.param(changed(target_modules=["nothing"]), "does not fit", id="unknown modules"),
        pytest.param(changed(peft_type="NONE"), "are not scored", id="an unknown kind of adapter"),
        pytest.param(changed(peft_type="IA3"), "are not scored", id="another kind of adapter"),
        pytest.param(
            changed(peft_type="SHADOW", shadow_model="elsewhere"),
            "are not scored",
            id="one that names a model to load",
        ),
        pytest.param(changed(r="four"), "does not fit", id="a rank that is no number"),
        pytest.param(cut_short, "does not fit", id="a tensor missing"),
        pytest.param(resized, "changes its base (", id="a trained embedding beside it"),
        pytest.param(
            lambda network, folder: adapted(network, folder, 1, lora(**QV, bias="all")),
            "changes its base (",
            id="trained biases",
        ),
        pytest.param(
            lambda network, folder: adapted(network, folder, 1, lora(**QV, bias="lora_only")),
            "changes its base (",
            id="trained biases of its modules",
        ),
        pytest.param(
            lambda network, folder: adapted(
                network, folder, 1, lora(r=4, target_modules=["lm_head"], use_dora=True)
            ),
            "in a way that rlhfdoctor does not know",
            id="DoRA on the head",
        ),
    ],
)
def test_an_adapter_that_is_refused_leaves_its_base(
    write: Callable[[Any, Path], object], told: str, tmp_path: Path
) -> None:
    network = built("llama", seed=3, attention_bias=True)
    write(network, tmp_path / "bad")
    good = adapted(network, tmp_path / "good", 2, lora(**QV))
    base = loaded(saved(network, tmp_path / "base"))
    before = {name: tensor.clone() for name, tensor in base.network.state_dict().items()}
    with pytest.raises(UnreadableWeights) as caught:
        adapters.with_adapter(base, tmp_path / "bad")
    assert told in caught.value.message
    assert "\n" not in caught.value.message
    assert apart(adapters.with_adapter(base, tmp_path / "good"), good) < ERROR
    adapters.without_adapter(base)
    after = base.network.state_dict()
    assert after.keys() == before.keys()
    assert all(torch.equal(after[name], before[name]) for name in before)


@QUIET
def test_copies_of_the_base_in_an_adapters_file_do_no_harm(tmp_path: Path) -> None:
    network = built("llama", seed=3)
    wrapped = adapted(network, tmp_path / "one", 1, lora(**QV))
    wrapped.save_pretrained(str(tmp_path / "one"), save_embedding_layers=True)
    state = load_file(tmp_path / "one" / "adapter_model.safetensors")
    assert any("embed_tokens" in name for name in state)
    base = loaded(saved(network, tmp_path / "base"))
    assert apart(adapters.with_adapter(base, tmp_path / "one"), wrapped) < ERROR


@QUIET
@pytest.mark.parametrize("name", ["adapter_config.json", "adapter_model.safetensors"])
def test_an_adapters_files_may_not_be_links_out_of_the_run(name: str, tmp_path: Path) -> None:
    network = built("llama", seed=3)
    folder = tmp_path / "run" / "checkpoint-1"
    wrapped = adapted(network, folder, 1, lora(**QV))
    base = loaded(saved(network, tmp_path / "base"))
    (folder / name).rename(tmp_path / name)
    (folder / name).symlink_to(tmp_path / name)
    with pytest.raises(UnreadableWeights, match="is a link to outside the run folder"):
        adapters.with_adapter(base, folder, tmp_path / "run")
    assert apart(adapters.with_adapter(base, folder), wrapped) < ERROR


@QUIET
def test_no_module_that_an_adapter_names_is_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    canary = tmp_path / "ran"
    package = tmp_path / "megatron"
    package.mkdir()
    (package / "__init__.py").write_text(f"open({str(canary)!r}, 'w')")
    monkeypatch.syspath_prepend(str(tmp_path))
    network = built("llama", seed=3, attention_bias=True)
    changed(megatron_config={"a": 1}, megatron_core="megatron.core")(network, tmp_path / "one")
    base = loaded(saved(network, tmp_path / "base"))
    assert adapters.with_adapter(base, tmp_path / "one").name == "one"
    assert not canary.exists()


def test_an_adapter_config_that_is_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "adapter_config.json")
    assert adapters.base_name(tmp_path) is None
