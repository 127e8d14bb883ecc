"""Tiny random models, and what a plain computation in float64 says of them."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import transformers
from torch import Tensor

from rlhfdoctor.scorers import batches, models
from rlhfdoctor.scorers.models import Model

AUTO: Any = transformers.AutoModelForCausalLM
CPU = torch.device("cpu")
VOCABULARY = 300

_GPT2 = {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 128}
_SHARED: dict[str, Any] = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 128,
    "sliding_window": None,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
_OWN: dict[str, dict[str, Any]] = {
    "gpt2": _GPT2,
    "gemma": {"head_dim": 8},
    "gemma2": {"head_dim": 8, "sliding_window": 8, "query_pre_attn_scalar": 8},
    "granite": {"logits_scaling": 4.0, "attention_multiplier": 0.2, "residual_multiplier": 0.5},
    "cohere": {"logit_scale": 0.25},
    "qwen3": {"head_dim": 8},
    "mixtral": {"num_local_experts": 4},
    "mamba": {"state_size": 8, "num_hidden_layers": 2, "hidden_size": 32},
}
_ALONE = {"gpt2", "mamba"}
"""Types that do not take the shared names."""


def configured(kind: str, **changes: Any) -> Any:
    shared = {} if kind in _ALONE else _SHARED
    fields = {"vocab_size": VOCABULARY, **shared, **_OWN.get(kind, {}), **changes}
    return transformers.AutoConfig.for_model(kind, **fields)


def built(kind: str = "llama", seed: int = 0, scale: float = 0.15, **changes: Any) -> Any:
    """Return a network whose every matrix is drawn anew; ``scale`` makes it more or less sure."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = AUTO.from_config(configured(kind, **changes))
        with torch.no_grad():
            for parameter in network.parameters():
                if parameter.dim() > 1:
                    parameter.normal_(0, scale)
                else:
                    parameter.add_(torch.randn_like(parameter) * 0.05)
    return network.eval().requires_grad_(False)


def saved(network: Any, folder: Path, **options: Any) -> Path:
    network.save_pretrained(str(folder), **options)
    return folder


def saved_bin(network: Any, folder: Path, name: str = "pytorch_model.bin") -> Path:
    """Save a folder with pickled weights, as transformers did before safetensors."""
    folder.mkdir(parents=True)
    network.config.save_pretrained(str(folder))
    torch.save(network.state_dict(), folder / name)
    return folder


def moved(network: Any, seed: int, by: float = 0.02) -> Any:
    """Return a copy with every matrix a little off, as training leaves it."""
    other = copy.deepcopy(network)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in other.parameters():
            if parameter.dim() > 1:
                parameter.add_(torch.randn(parameter.shape, generator=generator) * by)
    return other


def sequences(*lengths: int, vocabulary: int = VOCABULARY, seed: int = 0) -> list[tuple[int, ...]]:
    generator = torch.Generator().manual_seed(seed)
    return [
        tuple(torch.randint(3, vocabulary, (length,), generator=generator).tolist())
        for length in lengths
    ]


def logits_of(network: Any, ids: Sequence[int]) -> Tensor:
    """Return the logits (length, vocabulary) that a network's own forward makes of one sequence."""
    with torch.inference_mode():
        device = next(network.parameters()).device
        found: Tensor = network(
            input_ids=torch.tensor([ids], device=device), use_cache=False
        ).logits
    return found[0]


def model_logits(model: Model, states: Tensor) -> Tensor:
    with torch.inference_mode():
        return model.head.logits(states)


def truth(
    policy: Tensor, reference: Tensor, targets: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return KL, entropy and both log-probabilities a token, in float64 over whole logits."""
    p, q = (logits.double().log_softmax(-1) for logits in (policy, reference))
    at = targets[:, None]
    return (
        (p.exp() * (p - q)).sum(-1),
        -(p.exp() * p).sum(-1),
        p.gather(1, at)[:, 0],
        q.gather(1, at)[:, 0],
    )


@contextmanager
def counted(monkeypatch: Any) -> Iterator[list[tuple[int, int]]]:
    """Collect (sequences, tokens) of every pass through a body, padding left out."""
    passes: list[tuple[int, int]] = []
    whole = Model.hidden

    def hidden(self: Model, batch: Any, ids: Sequence[Sequence[int]]) -> list[Tensor]:
        seen: list[tuple[int, ...]] = []
        body: Any = self.network.base_model
        hook = body.register_forward_hook(
            lambda module, args, options, out: seen.append(tuple(options["input_ids"].shape)),
            with_kwargs=True,
        )
        try:
            found = whole(self, batch, ids)
        finally:
            hook.remove()
        assert len(seen) == 1, "a batch goes through the body once"
        lengths = [len(ids[index]) for index in batch.indices]
        wide = (1, sum(lengths)) if batch.packed else (len(lengths), max(lengths))
        assert seen[0] == wide
        passes.append((len(lengths), sum(lengths)))
        return found

    with monkeypatch.context() as patch:
        patch.setattr(Model, "hidden", hidden)
        yield passes


def edited(folder: Path, **changes: Any) -> Path:
    """Change entries of a config.json; None takes one away."""
    file = folder / "config.json"
    config = {**json.loads(file.read_text(encoding="utf-8")), **changes}
    text = json.dumps({name: value for name, value in config.items() if value is not None})
    file.write_text(text, encoding="utf-8")
    return folder


IDS = sequences(9, 1, 30, 17, 2, 29)
ERROR = 1e-5


def loaded(path: Path, **options: Any) -> Model:
    return models.load(path, dtype=torch.float32, device=CPU, **options)


def apart(model: Model, network: Any, ids: list[tuple[int, ...]] = IDS, budget: int = 50) -> float:
    """Return the largest difference of any logit from a network's own forward, one by one."""
    lengths = [len(each) for each in ids]
    layout = batches.packed if model.packable else batches.buckets
    seen, worst = [], 0.0
    for batch in layout(lengths, budget):
        for index, states in zip(batch.indices, model.hidden(batch, ids), strict=True):
            want = logits_of(network, ids[index])
            found = model_logits(model, states)
            assert found.shape == want.shape
            worst = max(worst, float((found - want).abs().max()))
            seen.append(index)
    assert sorted(seen) == list(range(len(ids)))
    return worst
