"""Causal language models from local folders, split into a body and a head.

No path is ever given to transformers, so nothing is followed or downloaded and no code of a folder
runs: the configuration is read as JSON, the module is built from it, and the weights come from
``weights.tensors``. GGUF files, which transformers reads itself, are the exception: the user names
them.
"""

from __future__ import annotations

import inspect
import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
import transformers
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING

from rlhfdoctor.errors import DoctorError, first_line
from rlhfdoctor.scorers.batches import Batch
from rlhfdoctor.scorers.kernel import Head
from rlhfdoctor.scorers.weights import (
    UnreadableWeights,
    alone,
    is_adapter,
    refuse_link,
    tensors,
    weight_files,
)

if TYPE_CHECKING:
    from torch import Tensor

_LOGGING: Any = transformers.logging
_LOGGING.set_verbosity_error()
_LOGGING.disable_progress_bar()

PACKABLE = frozenset(
    {
        "gemma",
        "gpt2",
        "gpt_neox",
        "granite",
        "llama",
        "mistral",
        "olmo2",
        "phi",
        "phi3",
        "qwen2",
        "qwen3",
        "smollm3",
        "starcoder2",
    }
)
"""Model types whose every layer mixes positions by plain causal attention alone, through
transformers' attention interface. Each is compared in the tests, packed against one by one."""

PACKED = "rlhfdoctor_packed"

_SIZES = ("vocab_size", "hidden_size", "n_embd", "d_model")

MOST_LABELS = 10_000
"""Labels of a classifier that a configuration may name; each becomes an entry of two tables."""

FEWEST_PARTS = 1024
"""Layers or experts that are built whatever a file holds; fused experts share a tensor."""

_LIMITS = ("max_position_embeddings", "n_positions")

_ENDS: ContextVar[tuple[int, ...]] = ContextVar("ends")
"""Where the sequences of the packed batch in hand end."""


@dataclass(frozen=True, slots=True)
class Model:
    """A model on its device.

    dtype: what it computes in. stored: what most of its weights were saved in. positions: the
    longest sequence it takes, None where it does not say. quantised: the file's scheme where the
    weights were dequantised, else None.
    """

    name: str
    network: Any
    head: Head
    dtype: torch.dtype
    stored: str
    packable: bool
    positions: int | None
    config: Mapping[str, object]
    quantised: str | None = None

    @property
    def rows(self) -> int:
        """Token ids that it can both read and predict."""
        return min(self.head.rows, int(self.network.get_input_embeddings().weight.shape[0]))

    def hidden(self, batch: Batch, sequences: Sequence[Sequence[int]]) -> list[Tensor]:
        """Return the final hidden states (length, hidden) of each sequence of a batch, in order."""
        turn = _turn(self.config)
        if turn is not None:
            long = tuple(index for index in batch.indices if len(sequences[index]) > turn)
            short = tuple(index for index in batch.indices if len(sequences[index]) <= turn)
            if long and short:
                found = {
                    index: states
                    for part in (long, short)
                    for index, states in zip(
                        part, self.hidden(replace(batch, indices=part), sequences), strict=True
                    )
                }
                return [found[index] for index in batch.indices]
        lengths = [len(sequences[index]) for index in batch.indices]
        device = self.head.weight.device
        body: Any = self.network.base_model
        with torch.inference_mode():
            if batch.packed:
                ids = [token for index in batch.indices for token in sequences[index]]
                places = [place for length in lengths for place in range(length)]
                with _ending(lengths):
                    states = body(
                        input_ids=torch.tensor([ids], device=device),
                        position_ids=torch.tensor([places], device=device),
                        use_cache=False,
                    )[0]
                return list(torch.split(states[0], lengths))
            widest = max(lengths)
            padded = torch.zeros(len(lengths), widest, dtype=torch.long)
            for row, index in enumerate(batch.indices):
                padded[row, : lengths[row]] = torch.tensor(sequences[index])
            states = body(input_ids=padded.to(device), use_cache=False)[0]
            return [states[row, :length] for row, length in enumerate(lengths)]


def _turn(config: Mapping[str, object]) -> int | None:
    """Return the length above which LongRoPE turns a whole batch by its other set of factors."""
    rope = config.get("rope_parameters") or config.get("rope_scaling")
    if not isinstance(rope, Mapping) or rope.get("rope_type", rope.get("type")) != "longrope":
        return None
    turn = rope.get(_TRAINED) or config.get(_TRAINED)
    return turn if isinstance(turn, int) else None


_TRAINED = "original_max_position_embeddings"


@contextmanager
def _ending(lengths: Sequence[int]) -> Iterator[None]:
    end, ends = 0, []
    for length in lengths:
        end += length
        ends.append(end)
    token = _ENDS.set(tuple(ends))
    try:
        yield
    finally:
        _ENDS.reset(token)


def _packed_attention(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    **others: Any,
) -> tuple[Tensor, None]:
    """Attend causally within each sequence of a packed batch: (1, heads, tokens, head size)."""
    ends = _ENDS.get()
    varlen = _varlen() if query.is_cuda and query.dtype.itemsize == 2 else None
    if varlen is not None:
        bounds = torch.tensor((0, *ends), dtype=torch.int32, device=query.device)
        longest = max(end - begin for begin, end in zip((0, *ends), ends, strict=False))
        packed = varlen(
            query[0].transpose(0, 1).contiguous(),
            key[0].transpose(0, 1).contiguous(),
            value[0].transpose(0, 1).contiguous(),
            bounds,
            bounds,
            longest,
            longest,
            scale=scaling,
            window_size=(-1, 0),
            enable_gqa=query.shape[1] != key.shape[1],
        )
        return packed[None], None
    lengths = [end - begin for begin, end in zip((0, *ends), ends, strict=False)]
    attended, begin = [], 0
    for length, alike in groupby(lengths):
        count = len(list(alike))
        queries, keys, values = (
            states[0, :, begin : begin + count * length]
            .view(states.shape[1], count, length, states.shape[3])
            .transpose(0, 1)
            for states in (query, key, value)
        )
        out = torch.nn.functional.scaled_dot_product_attention(
            queries,
            keys,
            values,
            is_causal=True,
            scale=scaling,
            enable_gqa=query.shape[1] != key.shape[1],
        )
        attended.append(out.transpose(1, 2).flatten(0, 1))
        begin += count * length
    return torch.cat(attended)[None], None


@cache
def _varlen() -> Any:
    """Return torch's attention over packed sequences, or None where it has none that fits."""
    try:
        from torch.nn.attention.varlen import varlen_attn
    except ImportError:
        return None
    wanted = {"scale", "window_size", "enable_gqa"}
    return varlen_attn if wanted <= set(inspect.signature(varlen_attn).parameters) else None


transformers.AttentionInterface.register(PACKED, _packed_attention)


# Loading


def load(
    path: Path,
    *,
    dtype: torch.dtype,
    device: torch.device,
    trusted: Path | None = None,
    packed: bool = True,
) -> Model:
    """Load a model from a folder, or from a GGUF file (dequantised).

    trusted: a folder that the weights must lie in, for those that a run names. Raises
    UnreadableWeights where the folder holds no model that transformers knows by itself, or one
    whose logits cannot be told from its hidden states.
    """
    if path.suffix == ".gguf":
        return _load_gguf(path, dtype, device)
    config = _config(path, trusted)
    scheme = getattr(config, "quantization_config", None)
    if scheme is not None:
        method = scheme.get("quant_method") if isinstance(scheme, Mapping) else None
        raise UnreadableWeights(
            f"{path.name}: quantised by {repr(method)[:80]}",
            "give the weights before they were quantised, or a GGUF file",
        )
    try:
        build: Any = MODEL_FOR_CAUSAL_LM_MAPPING[type(config)]
    except KeyError:
        raise UnreadableWeights(
            f"{path.name}: transformers knows no causal language model of type {config.model_type}"
        ) from None
    state = dict(tensors(path, trusted))
    _check_parts(path, config, state)
    packable = packed and _is_packable(config)
    try:
        network, info = build.from_pretrained(
            None,
            config=config,
            state_dict=state,
            dtype=dtype,
            attn_implementation=PACKED if packable else _plain_attention(build),
            output_loading_info=True,
        )
    except torch.OutOfMemoryError:
        raise
    except Exception as error:  # whatever a hostile or unfitting config.json makes it raise
        told = first_line(error)
        raise UnreadableWeights(f"{path.name}: cannot be built ({told})") from error
    lacking = sorted(info["missing_keys"]) + sorted(str(key) for key in info["mismatched_keys"])
    if lacking:
        shown = ", ".join(lacking[:3]) + (", ..." if len(lacking) > 3 else "")
        raise UnreadableWeights(f"{path.name}: {len(lacking)} weights do not fit: {shown}")
    return _model(path, network, config, dtype, device, stored_as(state), packable, None)


def _check_parts(path: Path, config: Any, state: Mapping[str, Tensor]) -> None:
    """Refuse a configuration of more layers, or of larger ones, than a file's tensors can fill.

    Building a million empty layers takes hours, before anything is found to be missing.
    """
    held = len(state)
    widest = max((max(tensor.shape, default=0) for tensor in state.values()), default=0)
    for name, value in config.to_dict().items():
        if name in _SIZES and isinstance(value, int) and value > widest:
            raise UnreadableWeights(f"{path.name}: {name} is {value}, of tensors {widest} wide")
        counts = ("layer" in name or "expert" in name) and isinstance(value, int)
        if counts and value > max(held, FEWEST_PARTS):
            raise UnreadableWeights(f"{path.name}: {name} is {value}, of {held} tensors")


def _load_gguf(path: Path, dtype: torch.dtype, device: torch.device) -> Model:
    if not path.is_file():
        raise UnreadableWeights(f"no such file: {path}", "give a GGUF file or a model's folder")
    try:
        with alone(path) as folder:
            network = transformers.AutoModelForCausalLM.from_pretrained(
                folder,
                config=_gguf_config(path),
                gguf_file=path.name,
                dtype=dtype,
                local_files_only=True,
                trust_remote_code=False,
                attn_implementation="sdpa",
            )
    except (UnreadableWeights, torch.OutOfMemoryError):
        raise
    except Exception as error:  # transformers and gguf raise nearly anything for a damaged file
        told = first_line(error)
        raise UnreadableWeights(f"{path.name}: cannot be read as GGUF ({told})") from error
    packable = _is_packable(network.config)
    if packable:
        network.set_attn_implementation(PACKED)
    scheme = _gguf_scheme(path)
    return _model(path, network, network.config, dtype, device, scheme, packable, scheme)


def _gguf_scheme(path: Path) -> str:
    """Return the quantisation of most weights of a GGUF file, as ggml names it."""
    from gguf import GGUFReader

    sizes: dict[str, int] = {}
    for tensor in GGUFReader(path).tensors:
        kind = tensor.tensor_type.name
        sizes[kind] = sizes.get(kind, 0) + int(tensor.n_elements)
    return f"GGUF {max(sizes, key=lambda kind: sizes[kind])}"


def _config(path: Path, trusted: Path | None) -> Any:
    if path.suffix == ".gguf":
        return _gguf_config(path)
    file = path / "config.json"
    if not file.is_file():
        raise UnreadableWeights(f"{path.name}: no config.json")
    refuse_link(file, trusted)
    try:
        labels = json.loads(file.read_bytes()).get("num_labels")
        if isinstance(labels, int) and labels > MOST_LABELS:
            raise ValueError(f"num_labels is {labels}")
        config = transformers.AutoConfig.from_pretrained(
            str(path), local_files_only=True, trust_remote_code=False
        )
    except Exception as error:  # whatever a hostile or unknown config.json makes it raise
        told = first_line(error)
        raise UnreadableWeights(f"{path.name}: config.json cannot be used ({told})") from error
    config.return_dict = True
    inner = getattr(config, "text_config", None)
    return inner if isinstance(inner, transformers.PreTrainedConfig) else config


@lru_cache(maxsize=4)
def _gguf_config(path: Path) -> Any:
    """Read the header of a GGUF file; it holds the vocabulary, and takes seconds."""
    try:
        with alone(path) as folder:
            return transformers.AutoConfig.from_pretrained(
                folder, gguf_file=path.name, local_files_only=True, trust_remote_code=False
            )
    except Exception as error:  # transformers and gguf raise nearly anything for a damaged file
        told = first_line(error)
        raise UnreadableWeights(f"{path.name}: cannot be read as GGUF ({told})") from error


def _is_packable(config: Any) -> bool:
    kinds = set(getattr(config, "layer_types", None) or ("full_attention",))
    window = getattr(config, "sliding_window", None)
    sliding = window is not None and getattr(config, "use_sliding_window", True)
    return config.model_type in PACKABLE and kinds == {"full_attention"} and not sliding


def _plain_attention(build: Any) -> str:
    return "sdpa" if getattr(build, "_supports_sdpa", False) else "eager"


def stored_as(state: Mapping[str, Tensor]) -> str:
    """Return the dtype that most of the weights were saved in."""
    sizes: dict[str, int] = {}
    for tensor in state.values():
        kind = str(tensor.dtype).removeprefix("torch.")
        sizes[kind] = sizes.get(kind, 0) + tensor.numel()
    return max(sizes, key=lambda kind: sizes[kind])


def _model(
    path: Path,
    network: Any,
    config: Any,
    dtype: torch.dtype,
    device: torch.device,
    stored: str,
    packable: bool,
    quantised: str | None,
) -> Model:
    network = network.eval().requires_grad_(False).to(device)
    return Model(
        name=path.name,
        network=network,
        head=head_of(network, path.name),
        dtype=dtype,
        stored=stored,
        packable=packable,
        positions=_positions(config.to_dict()),
        config=config.to_dict(),
        quantised=quantised,
    )


def _positions(told: Mapping[str, Any]) -> int | None:
    found = [told.get(name) for name in _LIMITS]
    return min((each for each in found if isinstance(each, int) and each > 0), default=None)


class _States(transformers.modeling_outputs.BaseModelOutputWithPast):
    """Hidden states and nothing else, whatever else an architecture's head asks for."""

    def __getattr__(self, name: str) -> None:
        if name.startswith("__"):
            raise AttributeError(name)


class _Fixed(torch.nn.Module):
    """Stands in for a body and returns given hidden states, so that a head can be seen at work.

    OPT asks its body's decoder, and not the body.
    """

    def __init__(self, body: torch.nn.Module, hidden: Tensor) -> None:
        super().__init__()
        self.__dict__["body"], self.__dict__["states"] = body, hidden

    def __getattr__(self, name: str) -> Any:
        return self if name == "decoder" else getattr(self.__dict__["body"], name)

    def forward(self, *_: Any, **__: Any) -> Any:
        return _States(last_hidden_state=self.__dict__["states"])


def head_of(network: Any, name: str) -> Head:
    """Return the head of a model, checked against the logits that the model itself makes.

    The multiplier is measured: architectures name it alike and apply it differently. Raises
    UnreadableWeights where the logits are not what a matrix, a bias, a multiplier and a soft cap
    make of the hidden states.
    """
    weight, bias = _projection(network.get_output_embeddings())
    plain = Head(weight, bias)
    generator = torch.Generator().manual_seed(0)
    hidden = torch.randn(2, weight.shape[1], generator=generator).to(weight.device, weight.dtype)
    with torch.inference_mode():
        true = _own_logits(network, hidden).float()
        raw = plain.logits(hidden).float()
    cap = getattr(network.config, "final_logit_softcapping", None)
    if cap:
        head = replace(plain, softcap=float(cap))
    else:
        head = replace(plain, multiplier=_ratio(true, raw))
    with torch.inference_mode():
        made = head.logits(hidden).float()
    loose = {torch.float64: 1e-6, torch.float32: 1e-4}.get(weight.dtype, 3e-2)
    sound = true[torch.isfinite(true)].abs()
    largest = float(sound.max()) if sound.numel() else 1.0
    if true.shape != made.shape or not torch.allclose(
        true, made, rtol=loose, atol=loose * largest, equal_nan=True
    ):
        raise UnreadableWeights(
            f"{name}: makes its logits in a way that rlhfdoctor does not know",
            "please report the architecture",
        )
    return head


def _ratio(true: Tensor, raw: Tensor) -> float:
    """Return the least-squares multiplier between two sets of logits, 1 where it is next to it."""
    if true.shape != raw.shape or not torch.isfinite(true).all() or not raw.any():
        return 1.0
    ratio = float((true * raw).sum() / (raw * raw).sum())
    return 1.0 if abs(ratio - 1) < 1e-2 else ratio


def _own_logits(network: Any, hidden: Tensor) -> Tensor:
    prefix, body = network.base_model_prefix, network.base_model
    try:
        setattr(network, prefix, _Fixed(body, hidden[None]))
        ids = torch.zeros(1, len(hidden), dtype=torch.long, device=hidden.device)
        logits: Tensor = network(input_ids=ids, use_cache=False).logits[0]
    finally:
        setattr(network, prefix, body)
    return logits


def _projection(module: Any) -> tuple[Tensor, Tensor | None]:
    """Return weight and bias of an output matrix, with what an adapter makes of it."""
    saved = getattr(module, "modules_to_save", None)
    if saved is not None:
        return _projection(saved[module.active_adapters[0]])
    if hasattr(module, "get_delta_weight"):
        weight = module.base_layer.weight
        for adapter in module.active_adapters:
            if adapter in module.lora_A:
                weight = weight + module.get_delta_weight(adapter).to(weight.dtype)
        return weight, module.base_layer.bias
    return module.weight, getattr(module, "bias", None)


# The next checkpoint


def refill(model: Model, path: Path, trusted: Path | None = None) -> Model | None:
    """Copy another checkpoint's weights into a module that is already built.

    Returns None where it is not the same architecture under the same names; it has to be loaded.
    """
    config = _config(path, trusted).to_dict()
    if not _same_architecture(config, model.config):
        return None
    own = model.network.state_dict()
    state = dict(tensors(path, trusted))
    there = {name: own[name] for name in state if name in own}
    if len(there) != len(state) or any(there[name].shape != state[name].shape for name in state):
        return None
    filled: dict[int, str] = {}
    for name, tensor in there.items():
        twin = filled.setdefault(tensor.data_ptr(), name)
        if twin != name and not torch.equal(state[twin], state[name]):
            return None
    if any(tensor.data_ptr() not in filled for tensor in own.values()):
        return None
    with torch.inference_mode():
        for name, tensor in there.items():
            tensor.copy_(state[name])
    return replace(model, name=path.name, stored=stored_as(state))


_BOOKKEEPING = frozenset(
    {"_name_or_path", "torch_dtype", "dtype", "transformers_version", "use_cache"}
)
"""Entries of a configuration that do not change what a model computes."""


def _same_architecture(one: Mapping[str, object], other: Mapping[str, object]) -> bool:
    return all(one.get(key) == other.get(key) for key in {*one, *other} if key not in _BOOKKEEPING)


def read_ahead(path: Path, trusted: Path | None = None) -> threading.Thread:
    """Read a checkpoint's pages from disk in the background, into the system's page cache."""

    def touch() -> None:
        try:
            for file in weight_files(path, trusted)[1]:
                with file.open("rb", buffering=0) as opened:
                    while opened.read(1 << 24):
                        pass
        except (OSError, DoctorError):
            return  # whoever loads it tells what is wrong with it

    thread = threading.Thread(target=touch, daemon=True)
    thread.start()
    return thread


def is_model(path: Path) -> bool:
    """Say whether a path can be meant as a model: a folder with weights, or a GGUF file."""
    if path.suffix == ".gguf":
        return path.is_file()
    return (path / "config.json").is_file() and not is_adapter(path)


def is_packable(path: Path, trusted: Path | None) -> bool:
    """Say whether sequences can be laid end to end for a model; no if it cannot be told."""
    try:
        return _is_packable(_config(path, trusted))
    except UnreadableWeights:
        return False


def limits(path: Path) -> tuple[int | None, int | None]:
    """Return the size of the vocabulary and the positions that a model's configuration tells."""
    told = settings(path)
    size = told.get("vocab_size")
    return size if isinstance(size, int) and size > 0 else None, _positions(told)


def settings(path: Path) -> Mapping[str, Any]:
    """Return the configuration of a model that the user named."""
    found: Mapping[str, Any] = _config(path, None).to_dict()
    return found
