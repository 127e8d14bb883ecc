"""PEFT adapters on one base: put into its module and taken out again, the base left as it was."""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from rlhfdoctor.errors import first_line
from rlhfdoctor.scorers.models import Model, head_of, stored_as
from rlhfdoctor.scorers.weights import UnreadableWeights, refuse_link, tensors, weight_files

if TYPE_CHECKING:
    from torch import Tensor


ALLOWED = (
    "r",
    "lora_alpha",
    "target_modules",
    "exclude_modules",
    "fan_in_fan_out",
    "bias",
    "use_rslora",
    "modules_to_save",
    "layers_to_transform",
    "layers_pattern",
    "rank_pattern",
    "alpha_pattern",
    "use_dora",
    "lora_bias",
    "trainable_token_indices",
)
"""What is taken over of an adapter_config.json. Other kinds of adapters name models and modules
that PEFT would load or import by itself; so no such file is ever given to it."""


def _config(path: Path, trusted: Path | None) -> Any:
    """Return a LoRA configuration of our own with what a file says of the arithmetic."""
    from peft import LoraConfig

    told = _told(path, trusted)
    kind = told.get("peft_type")
    if kind != "LORA":
        raise UnreadableWeights(f"{path.name}: {repr(kind)[:60]} adapters are not scored")
    begun = told.get("init_lora_weights", True)
    if isinstance(begun, str) and begun not in ("gaussian", "eva", "orthogonal"):
        raise UnreadableWeights(
            f"{path.name}: {begun[:60]} adapters change their base; merge it first"
        )
    if told.get("layer_replication"):
        raise UnreadableWeights(f"{path.name}: replicates layers of its base; merge it first")
    known = {name: told[name] for name in ALLOWED if told.get(name) is not None}
    _check_patterns(path, known)
    try:
        return LoraConfig(**known, init_lora_weights=True, inference_mode=True)
    except Exception as error:  # whatever values that fit nothing make it raise
        why = first_line(error)
        raise UnreadableWeights(
            f"{path.name}: adapter_config.json cannot be used ({why})"
        ) from error


def _told(path: Path, trusted: Path | None) -> Mapping[str, Any]:
    """Read an adapter_config.json; nothing but a regular file is opened."""
    file = path / "adapter_config.json"
    if not file.is_file():
        raise UnreadableWeights(f"{path.name}: no adapter_config.json")
    refuse_link(file, trusted)
    try:
        told = json.loads(file.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise UnreadableWeights(f"{path.name}: adapter_config.json cannot be used") from error
    if not isinstance(told, dict):
        raise UnreadableWeights(f"{path.name}: adapter_config.json cannot be used")
    return told


def base_name(path: Path, trusted: Path | None = None) -> str | None:
    """Return the last part of what an adapter names as its base; nothing is looked up by it."""
    try:
        named = _told(path, trusted).get("base_model_name_or_path")
    except UnreadableWeights:
        return None
    return named.rstrip("/").rpartition("/")[2] if isinstance(named, str) and named else None


def with_adapter(base: Model, path: Path, trusted: Path | None = None) -> Model:
    """Put a PEFT adapter into the module of ``base``; the base's own weights are not changed.

    The module is shared: after this, ``base`` computes with the adapter too. Raises
    UnreadableWeights for one that changes its base, or that does not live inside the layers.
    """
    from peft import get_peft_model, set_peft_model_state_dict

    weight_files(path, trusted)
    config: Any = _config(path, trusted)
    state = dict(tensors(path, trusted))
    try:
        _check_ranks(path, config, state)
        plain = without_adapter(base)
        state = _apart_from(plain, state, getattr(config, "modules_to_save", None) or (), path.name)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of training with it
            wrapped = get_peft_model(plain, config)
            outcome: Any = set_peft_model_state_dict(wrapped, state)
        lacking = [key for key in outcome.missing_keys if _is_adapted(key)]
        if outcome.unexpected_keys or lacking:
            shown = ", ".join([*outcome.unexpected_keys, *lacking][:3])
            raise UnreadableWeights(f"{path.name}: adapter does not fit the base: {shown}")
    except (UnreadableWeights, torch.OutOfMemoryError):
        raise
    except Exception as error:  # whatever an adapter of another base makes PEFT raise
        told = first_line(error)
        raise UnreadableWeights(f"{path.name}: adapter does not fit the base ({told})") from error
    wrapped.eval().requires_grad_(False)
    network = wrapped.get_base_model()
    device = base.head.weight.device
    network.to(device)
    with torch.inference_mode():
        head = head_of(network, path.name)
    return replace(base, name=path.name, network=network, head=head, stored=stored_as(state))


def _check_ranks(path: Path, config: Any, state: Mapping[str, Tensor]) -> None:
    """Refuse ranks that the tensors cannot have: matrices of them would be made first."""
    widest = max((max(tensor.shape, default=0) for tensor in state.values()), default=0)
    for rank in (config.r, *config.rank_pattern.values()):
        if isinstance(rank, int) and rank > widest:
            raise UnreadableWeights(f"{path.name}: rank {rank}, of tensors {widest} wide")


def _check_patterns(path: Path, told: Mapping[str, Any]) -> None:
    """Refuse names that PEFT would match as patterns, and that could take forever."""
    texts: list[object] = []
    for value in told.values():
        texts += [value] if isinstance(value, str) else list(value) if _is_several(value) else []
    for text in texts:
        if isinstance(text, str) and (len(text) > LONGEST or _NESTED.search(text)):
            raise UnreadableWeights(f"{path.name}: the pattern {text[:60]!r} is not matched")


def _is_several(value: object) -> bool:
    return isinstance(value, list | dict)


LONGEST = 4096
"""Characters of a pattern of module names."""

_NESTED = re.compile(r"\)[*+{]")
"""A repeated group: what matches for ever does so by repeating what repeats."""


def _apart_from(
    plain: Any, state: Mapping[str, Tensor], own_modules: Iterable[str], name: str
) -> dict[str, Tensor]:
    """Return an adapter's tensors without copies of the base's own.

    Trained biases and resized embeddings are saved under the base's names, and would be written
    over it. Raises UnreadableWeights where they differ from the base.
    """
    base = plain.state_dict()
    modules = set(own_modules)
    kept: dict[str, Tensor] = {}
    changed = []
    for key, tensor in state.items():
        bare = key.removeprefix("base_model.model.").replace(".base_layer.", ".")
        own = base.get(bare)
        if own is None or modules & set(bare.split(".")):
            kept[key] = tensor
        elif own.shape != tensor.shape or not torch.equal(own, tensor.to(own)):
            changed.append(bare)
    if changed:
        shown = ", ".join(changed[:3]) + (", ..." if len(changed) > 3 else "")
        raise UnreadableWeights(f"{name}: changes its base ({shown}); merge it first")
    return kept


def _is_adapted(key: str) -> bool:
    return "lora_" in key or "modules_to_save" in key


def without_adapter(model: Model) -> Any:
    """Return the model's module as it was before an adapter was put into it."""
    from peft.tuners.tuners_utils import BaseTunerLayer

    network = model.network
    wrappers = {
        name: module
        for name, module in network.named_modules()
        if isinstance(module, BaseTunerLayer) or hasattr(module, "original_module")
    }
    for name, module in wrappers.items():
        if any(name.startswith(f"{outer}.") for outer in wrappers):
            continue
        while isinstance(module, BaseTunerLayer) or hasattr(module, "original_module"):
            inner = getattr(module, "original_module", None)
            module = module.get_base_layer() if inner is None else inner
        _put(network, name, module)
    if hasattr(network, "peft_config"):
        del network.peft_config
    return network


def _put(network: Any, name: str, module: Any) -> None:
    parent, _, leaf = name.rpartition(".")
    setattr(network.get_submodule(parent), leaf, module)
