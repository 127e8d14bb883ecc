"""Models from folders: each equals what transformers and PEFT themselves make of it."""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from rlhfdoctor.scorers import batches, models
from rlhfdoctor.scorers.weights import UnreadableWeights
from tests.scorers.tiny import (
    AUTO,
    ERROR,
    IDS,
    apart,
    built,
    edited,
    loaded,
    model_logits,
    moved,
    saved,
    saved_bin,
    sequences,
)


@pytest.mark.parametrize("kind", sorted(models.PACKABLE))
def test_a_packable_type_equals_its_own_forward_packed_and_in_buckets(
    kind: str, tmp_path: Path
) -> None:
    network = built(kind, seed=3)
    saved(network, tmp_path / "m")
    packed = loaded(tmp_path / "m")
    assert packed.packable
    assert apart(packed, network) < ERROR
    bucketed = loaded(tmp_path / "m", packed=False)
    assert not bucketed.packable
    assert apart(bucketed, network) < ERROR


@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        pytest.param("mistral", {"sliding_window": 4}, id="a sliding window"),
        pytest.param(
            "qwen2",
            {"use_sliding_window": True, "sliding_window": 4, "max_window_layers": 1},
            id="a sliding window in some layers",
        ),
        pytest.param("gemma2", {}, id="a soft cap and a window"),
        pytest.param("cohere", {}, id="a multiplier"),
        pytest.param("mamba", {}, id="a state space"),
        pytest.param("mixtral", {}, id="experts"),
        pytest.param("bloom", {}, id="alibi"),
        pytest.param("opt", {"word_embed_proj_dim": 32, "ffn_dim": 48}, id="a decoder in a body"),
    ],
)
def test_any_other_type_goes_through_buckets(
    kind: str, changes: dict[str, Any], tmp_path: Path
) -> None:
    network = built(kind, seed=3, **changes)
    model = loaded(saved(network, tmp_path / "m"))
    assert not model.packable
    assert not models.is_packable(tmp_path / "m", None)
    assert apart(model, network) < ERROR


@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        pytest.param("gpt2", {"scale_attn_by_inverse_layer_idx": True}, id="gpt2 scaled by layer"),
        pytest.param("gpt2", {"scale_attn_weights": False}, id="gpt2 not scaled"),
        pytest.param("llama", {"attention_bias": True, "mlp_bias": True}, id="biases"),
        pytest.param("gpt_neox", {"use_parallel_residual": False}, id="neox one after the other"),
        pytest.param("phi", {"qk_layernorm": True}, id="phi with norms of queries"),
        pytest.param("qwen2", {"use_sliding_window": False, "sliding_window": 4}, id="window off"),
    ],
)
def test_variants_of_packable_types_equal_their_own_forward(
    kind: str, changes: dict[str, Any], tmp_path: Path
) -> None:
    network = built(kind, seed=3, **changes)
    model = loaded(saved(network, tmp_path / "m"))
    assert model.packable
    assert apart(model, network) < ERROR


@pytest.mark.parametrize("packed", [True, False], ids=["packed", "buckets"])
def test_longrope_turns_each_sequence_by_its_own_length(packed: bool, tmp_path: Path) -> None:
    rope = {
        "rope_type": "longrope",
        "rope_theta": 10_000.0,
        "short_factor": [1.0] * 4,
        "long_factor": [5.0] * 4,
        "original_max_position_embeddings": 16,
    }
    network = built("phi3", seed=3, rope_parameters=rope, original_max_position_embeddings=16)
    model = loaded(saved(network, tmp_path / "m"), packed=packed)
    ids = sequences(17, 16, 30, 2, 29)
    if not packed:
        lengths = [len(each) for each in ids]
        assert {0, 1} <= set(batches.buckets(lengths, 500)[1].indices), "one bucket has both"
    assert apart(model, network, ids, budget=500) < ERROR


def test_sequences_of_a_packed_batch_do_not_see_each_other(tmp_path: Path) -> None:
    network = built("llama", seed=3)
    model = loaded(saved(network, tmp_path / "m"))
    batch = batches.Batch((0, 1), packed=True)
    one = model.hidden(batch, sequences(9, 8, seed=0))
    other = model.hidden(batch, [sequences(9, 8, seed=1)[0], sequences(9, 8, seed=0)[1]])
    assert torch.equal(one[1], other[1])
    assert not torch.equal(one[0], other[0])


# Heads


@pytest.mark.parametrize(
    ("kind", "changes", "multiplier", "softcap"),
    [
        pytest.param("llama", {}, 1.0, None, id="llama has none"),
        pytest.param("granite", {"logits_scaling": 4.0}, 0.25, None, id="granite divides"),
        pytest.param("granite", {"logits_scaling": 1.0}, 1.0, None, id="granite by one"),
        pytest.param("cohere", {"logit_scale": 0.0625}, 0.0625, None, id="cohere multiplies"),
        pytest.param("gemma2", {"final_logit_softcapping": 5.0}, 1.0, 5.0, id="gemma2 caps"),
        pytest.param("gemma2", {"final_logit_softcapping": None}, 1.0, None, id="gemma2 without"),
    ],
)
def test_what_is_done_to_the_logits_is_found(
    kind: str, changes: dict[str, Any], multiplier: float, softcap: float | None, tmp_path: Path
) -> None:
    network = built(kind, seed=3, **changes)
    model = loaded(saved(network, tmp_path / "m"))
    assert model.head.multiplier == pytest.approx(multiplier, rel=1e-5)
    assert model.head.softcap == softcap
    assert apart(model, network) < ERROR


def test_logits_made_another_way_are_refused(tmp_path: Path) -> None:
    """BERT's head has a layer before its matrix."""
    network = built("bert", is_decoder=True)
    with pytest.raises(UnreadableWeights, match="in a way that rlhfdoctor does not know"):
        loaded(saved(network, tmp_path / "m"))


def twin(folder: Path, file_tie: bool) -> Path:
    """Give a tied model's file an lm_head of its own."""
    network = built("llama", seed=3, tie_word_embeddings=True)
    saved(network, folder)
    state = load_file(folder / "model.safetensors")
    assert "lm_head.weight" not in state
    embedding = state["model.embed_tokens.weight"]
    state["lm_head.weight"] = embedding.clone() if file_tie else embedding.flip(0).contiguous()
    save_file(state, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


@pytest.mark.parametrize(
    "write",
    [
        pytest.param(
            lambda folder: saved(built("llama", seed=3, tie_word_embeddings=True), folder),
            id="tied, one matrix in the file",
        ),
        pytest.param(lambda folder: twin(folder, True), id="tied, two equal matrices in the file"),
        pytest.param(
            lambda folder: twin(folder, False), id="tied, two different matrices in the file"
        ),
        pytest.param(
            lambda folder: edited(twin(folder, False), tie_word_embeddings=False),
            id="untied, two different matrices in the file",
        ),
    ],
)
def test_the_head_is_the_one_that_transformers_uses(
    write: Callable[[Path], Path], tmp_path: Path
) -> None:
    """Where the file of a tied model holds a head that differs, transformers unties it."""
    folder = write(tmp_path / "m")
    own = AUTO.from_pretrained(str(folder), dtype=torch.float32)
    assert apart(loaded(folder), own.eval()) < ERROR


# Files


@pytest.mark.parametrize(
    "write",
    [
        pytest.param(lambda network, folder: saved(network, folder), id="safetensors"),
        pytest.param(
            lambda network, folder: saved(network, folder, max_shard_size="20KB"), id="shards"
        ),
        pytest.param(saved_bin, id="pytorch_model.bin"),
        pytest.param(lambda network, folder: saved_bin(network, folder, "model.pt"), id="model.pt"),
    ],
)
def test_every_form_of_file_is_the_same_model(
    write: Callable[[Any, Path], Path], tmp_path: Path
) -> None:
    network = built("llama", seed=3)
    folder = write(network, tmp_path / "m")
    model = loaded(folder)
    assert apart(model, network) < ERROR
    assert model.stored == "float32"
    assert model.positions == 128


def test_the_shards_are_several(tmp_path: Path) -> None:
    folder = saved(built("llama", seed=3), tmp_path / "m", max_shard_size="20KB")
    assert len(list(folder.glob("model-*.safetensors"))) > 2


def rounded(network: Any, dtype: torch.dtype) -> Any:
    """Round the weights, and not what is computed from the configuration."""
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.copy_(parameter.to(dtype))
    return network


@pytest.mark.parametrize("kind", ["bfloat16", "float16", "float32"])
def test_what_the_weights_were_stored_in_is_told(kind: str, tmp_path: Path) -> None:
    network = rounded(built("llama", seed=3), getattr(torch, kind))
    model = loaded(saved(copy.deepcopy(network).to(getattr(torch, kind)), tmp_path / "m"))
    assert model.stored == kind
    assert model.head.weight.dtype == torch.float32
    assert apart(model, network) < ERROR


def lacking(folder: Path) -> None:
    state = load_file(folder / "model.safetensors")
    del state["model.layers.0.mlp.up_proj.weight"]
    save_file(state, folder / "model.safetensors", metadata={"format": "pt"})


def misshapen(folder: Path) -> None:
    state = load_file(folder / "model.safetensors")
    state["model.norm.weight"] = torch.ones(7)
    save_file(state, folder / "model.safetensors", metadata={"format": "pt"})


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        pytest.param(lacking, "1 weights do not fit: model.layers.0.mlp.up_proj", id="one missing"),
        pytest.param(misshapen, "m: ", id="one of another shape"),
        pytest.param(
            lambda folder: (folder / "config.json").unlink(), "no config.json", id="no config"
        ),
        pytest.param(
            lambda folder: (folder / "config.json").write_text("{"),
            "config.json cannot be used",
            id="a config that is no JSON",
        ),
        pytest.param(
            lambda folder: (folder / "config.json").write_text("[]"),
            "config.json cannot be used",
            id="a config that is a list",
        ),
        pytest.param(
            lambda folder: edited(folder, model_type="no_such_model"),
            "config.json cannot be used",
            id="an unknown type",
        ),
        pytest.param(
            lambda folder: edited(folder, model_type="t5", architectures=None),
            "no causal language model",
            id="a type that is no causal language model",
        ),
        pytest.param(
            lambda folder: edited(folder, num_attention_heads=0), "m: ", id="a model of no heads"
        ),
        pytest.param(
            lambda folder: edited(folder, hidden_size=10**9), "m: ", id="a model beyond all memory"
        ),
        pytest.param(
            lambda folder: edited(folder, quantization_config={"quant_method": "gptq", "bits": 4}),
            "quantised by 'gptq'",
            id="weights quantised by a package that is not there",
        ),
        pytest.param(
            lambda folder: edited(folder, quantization_config={"quant_method": "x\ny"}),
            "quantised by 'x",
            id="weights quantised in an unknown way",
        ),
    ],
)
def test_a_model_that_cannot_be_built_is_refused_in_one_line(
    damage: Callable[[Path], object], told: str, tmp_path: Path
) -> None:
    folder = saved(built("llama", seed=3), tmp_path / "m")
    damage(folder)
    with pytest.raises(UnreadableWeights) as caught:
        loaded(folder)
    assert told in caught.value.message
    assert "\n" not in caught.value.message


@pytest.mark.parametrize(
    ("name", "count"),
    [
        pytest.param("num_hidden_layers", 1_000_000, id="a million layers"),
        pytest.param("num_hidden_layers", 1025, id="more layers than any model has"),
    ],
)
def test_layers_that_no_tensor_fills_are_not_built(name: str, count: int, tmp_path: Path) -> None:
    saved(built("llama"), tmp_path)
    edited(tmp_path, **{name: count})
    with pytest.raises(UnreadableWeights, match=f"{name} is {count}, of"):
        loaded(tmp_path)


@pytest.mark.parametrize("known", [True, False], ids=["of a known type", "of its own type"])
def test_code_that_lies_beside_a_model_is_never_run(known: bool, tmp_path: Path) -> None:
    network = built("llama", seed=3)
    folder = saved(network, tmp_path / "m")
    canary = tmp_path / "canary"
    text = f"import pathlib\npathlib.Path({str(canary)!r}).touch()\n"
    for name in ("modeling_evil.py", "configuration_evil.py", "quantizer.py"):
        (folder / name).write_text(text, encoding="utf-8")
    edited(
        folder,
        trust_remote_code=True,
        auto_map={
            "AutoConfig": "configuration_evil.EvilConfig",
            "AutoModelForCausalLM": "modeling_evil.EvilModel",
        },
        **({} if known else {"model_type": "evil"}),
    )
    if known:
        assert apart(loaded(folder), network) < ERROR
    else:
        with pytest.raises(UnreadableWeights, match=r"config\.json cannot be used"):
            loaded(folder)
    assert not canary.exists()
    assert not any("evil" in name for name in sys.modules)


def test_a_config_that_is_a_link_out_of_the_run_is_refused(tmp_path: Path) -> None:
    folder = saved(built("llama", seed=3), tmp_path / "run" / "checkpoint-1")
    (folder / "config.json").rename(tmp_path / "config.json")
    (folder / "config.json").symlink_to(tmp_path / "config.json")
    with pytest.raises(UnreadableWeights, match=r"config\.json is a link to outside"):
        loaded(folder, trusted=tmp_path / "run")
    assert loaded(folder).packable


# The next checkpoint


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({}, id="untied"),
        pytest.param({"tie_word_embeddings": True}, id="tied"),
        pytest.param({"attention_bias": True}, id="biases"),
    ],
)
def test_a_refilled_model_is_a_freshly_loaded_one(changes: dict[str, Any], tmp_path: Path) -> None:
    first = built("llama", seed=3, **changes)
    second = rounded(moved(first, seed=4), torch.float16)
    model = loaded(saved(first, tmp_path / "one"))
    folder = saved(copy.deepcopy(second).half(), tmp_path / "two", max_shard_size="20KB")
    again = models.refill(model, folder)
    assert again is not None
    assert again.network is model.network
    assert (again.name, again.stored) == ("two", "float16")
    fresh = loaded(tmp_path / "two")
    for name, tensor in fresh.network.state_dict().items():
        assert torch.equal(again.network.state_dict()[name], tensor), name
    assert torch.equal(again.head.weight, fresh.head.weight)
    assert apart(again, second) < ERROR


@pytest.mark.parametrize(
    "write",
    [
        pytest.param(lambda folder: saved(built("qwen2"), folder), id="another architecture"),
        pytest.param(
            lambda folder: saved(built("llama", intermediate_size=64), folder), id="another shape"
        ),
        pytest.param(
            lambda folder: saved(built("llama", num_hidden_layers=3), folder), id="more layers"
        ),
        pytest.param(
            lambda folder: edited(saved(built("llama"), folder), rms_norm_eps=1e-3),
            id="another constant",
        ),
        pytest.param(
            lambda folder: saved(built("llama", tie_word_embeddings=False), folder),
            id="heads that are tied no more",
        ),
        pytest.param(lambda folder: twin(folder, False), id="tied twins that differ"),
    ],
)
def test_another_model_is_not_poured_into_this_one(
    write: Callable[[Path], Path], tmp_path: Path
) -> None:
    network = built("llama", seed=3, tie_word_embeddings=True)
    model = loaded(saved(network, tmp_path / "one"))
    assert models.refill(model, write(tmp_path / "two")) is None
    assert apart(model, network) < ERROR, "nothing was poured before that was seen"


def test_tied_twins_that_are_equal_are_poured(tmp_path: Path) -> None:
    model = loaded(saved(built("llama", seed=9, tie_word_embeddings=True), tmp_path / "one"))
    again = models.refill(model, twin(tmp_path / "two", True))
    assert again is not None
    assert apart(again, built("llama", seed=3, tie_word_embeddings=True)) < ERROR


def test_a_file_that_lacks_a_weight_is_not_poured(tmp_path: Path) -> None:
    network = built("llama", seed=3)
    model = loaded(saved(network, tmp_path / "one"))
    lacking(saved(moved(network, seed=4), tmp_path / "two"))
    assert models.refill(model, tmp_path / "two") is None
    assert apart(model, network) < ERROR


def test_a_damaged_file_leaves_the_model_as_it_was(tmp_path: Path) -> None:
    network = built("llama", seed=3)
    model = loaded(saved(network, tmp_path / "one"))
    folder = saved(moved(network, seed=4), tmp_path / "two", max_shard_size="20KB")
    last = max(folder.glob("model-*.safetensors"))
    last.write_bytes(last.read_bytes()[:50])
    with pytest.raises(UnreadableWeights):
        models.refill(model, folder)
    assert apart(model, network) < ERROR


# GGUF


def permuted(weight: Tensor, heads: int) -> Tensor:
    """Order the rows of queries and keys as llama.cpp's rotary embedding wants them."""
    return (
        weight.view(heads, 2, weight.shape[0] // heads // 2, weight.shape[1])
        .swapaxes(1, 2)
        .reshape(weight.shape)
    )


def gguf_of(network: Any, file: Path, half: bool) -> Path:
    """Write a Llama as llama.cpp's converter does."""
    import gguf

    config = network.config
    writer = gguf.GGUFWriter(str(file), "llama")
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(10_000.0)
    writer.add_rope_dimension_count(config.hidden_size // config.num_attention_heads)
    writer.add_vocab_size(config.vocab_size)
    names = {
        "model.embed_tokens": "token_embd",
        "model.norm": "output_norm",
        "lm_head": "output",
    }
    parts = {
        "input_layernorm": "attn_norm",
        "post_attention_layernorm": "ffn_norm",
        "self_attn.q_proj": "attn_q",
        "self_attn.k_proj": "attn_k",
        "self_attn.v_proj": "attn_v",
        "self_attn.o_proj": "attn_output",
        "mlp.gate_proj": "ffn_gate",
        "mlp.up_proj": "ffn_up",
        "mlp.down_proj": "ffn_down",
    }
    for layer in range(config.num_hidden_layers):
        for part, name in parts.items():
            names[f"model.layers.{layer}.{part}"] = f"blk.{layer}.{name}"
    for key, tensor in network.state_dict().items():
        name = key.removesuffix(".weight")
        if name.endswith("q_proj"):
            tensor = permuted(tensor, config.num_attention_heads)
        if name.endswith("k_proj"):
            tensor = permuted(tensor, config.num_key_value_heads)
        kept = tensor.half() if half and tensor.dim() > 1 else tensor
        writer.add_tensor(f"{names[name]}.weight", kept.contiguous().numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return file


@pytest.mark.parametrize(
    ("half", "scheme"), [(False, "GGUF F32"), (True, "GGUF F16")], ids=["F32", "F16"]
)
def test_a_gguf_file_is_the_model_that_it_was_made_of(
    half: bool, scheme: str, tmp_path: Path
) -> None:
    network = built("llama", seed=3)
    if half:
        network = rounded(network, torch.float16)
    file = gguf_of(network, tmp_path / "tiny.gguf", half)
    assert models.is_model(file)
    model = loaded(file)
    assert model.quantised == scheme
    assert model.packable
    assert apart(model, network) < 1e-3


@pytest.mark.parametrize(
    "content", [b"", b"GGUF", b"GGUF" + bytes(100), b"x" * 1000], ids=["empty", "4", "0", "x"]
)
def test_a_damaged_gguf_file_is_refused(content: bytes, tmp_path: Path) -> None:
    file = tmp_path / "tiny.gguf"
    file.write_bytes(content)
    with pytest.raises(UnreadableWeights, match="cannot be read as GGUF"):
        loaded(file)


def test_the_logits_of_a_head_follow_its_temperature(tmp_path: Path) -> None:
    model = loaded(saved(built("llama", seed=3), tmp_path / "m"))
    states = model.hidden(batches.Batch((0,), model.packable), IDS)[0]
    warm = replace(model, head=replace(model.head, temperature=2.0))
    torch.testing.assert_close(model_logits(warm, states) * 2, model_logits(model, states))


@pytest.mark.parametrize("value", [float("nan"), float("inf")], ids=str)
@pytest.mark.parametrize("rows", [1, 300], ids=["a row", "all rows"])
def test_a_head_that_is_not_finite_is_loaded_all_the_same(
    value: float, rows: int, tmp_path: Path
) -> None:
    network = built("llama")
    with torch.no_grad():
        network.get_output_embeddings().weight[:rows] = value
    assert loaded(saved(network, tmp_path)).head.rows == 300


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"num_labels": 10**9}, id="labels"),
        pytest.param({"vocab_size": 10**9}, id="a vocabulary"),
        pytest.param({"hidden_size": 10**9}, id="a width"),
    ],
)
def test_what_no_tensor_fills_is_not_built(changes: dict[str, Any], tmp_path: Path) -> None:
    saved(built("llama"), tmp_path)
    edited(tmp_path, **changes)
    with pytest.raises(UnreadableWeights, match=f"{next(iter(changes))} is 1000000000"):
        loaded(tmp_path)


@pytest.mark.parametrize("inner", [{"model_type": "llama"}, "x"], ids=["a table", "a text"])
def test_a_config_within_a_config_that_is_none_is_refused(inner: object, tmp_path: Path) -> None:
    edited(saved(built("llama"), tmp_path), text_config=inner)
    with pytest.raises(UnreadableWeights, match="cannot be built"):
        loaded(tmp_path)


def test_a_config_that_asks_for_tuples_is_loaded(tmp_path: Path) -> None:
    network = built("llama")
    edited(saved(network, tmp_path), return_dict=False)
    assert apart(loaded(tmp_path), network) < ERROR
