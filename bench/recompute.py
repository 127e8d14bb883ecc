"""Measure recomputation: CPU time, peak memory and batches against the plain ways of doing it.

    python bench/recompute.py                 # all of it; about five minutes on two cores
    python bench/recompute.py --repeats 1     # a look

Every figure is the median over repeats, each in a process of its own, the ways taken in turn. CPU
seconds are of the whole process while it scores (one thread); memory is the peak above what the
process held once both models were loaded. Weights are random: arithmetic does not care.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

VOCABULARY = 152_064
"""Rows of Qwen2.5's output matrix."""

SHAPE = {"hidden_size": 576, "intermediate_size": 1536, "num_attention_heads": 9}
"""Width of SmolLM-135M, with three key-value heads."""

PROMPT, RESPONSE = 219, 293
"""Two sequences of 512 tokens, 586 of them of responses."""

BUDGET = 4096
"""Tokens of a batch, whatever its layout."""

KERNELS = ("naive", "ours")
LAYOUTS = ("padded", "buckets", "packed")


def main() -> None:
    """Run every way in turn, or one of them where asked by the parent process."""
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--repeats", type=int, default=5)
    arguments.add_argument("--way", help=argparse.SUPPRESS)
    given = arguments.parse_args()
    if given.way:
        print(json.dumps(_measured(given.way)))
        return
    for ways in (KERNELS, LAYOUTS):
        found: dict[str, list[dict[str, float]]] = {way: [] for way in ways}
        for _ in range(given.repeats):
            for way in ways:
                found[way].append(_child(way))
        _print(found)
    print(_gpu())


def _child(way: str) -> dict[str, float]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, __file__, "--way", way],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    measured: dict[str, float] = json.loads(done.stdout)
    return measured


def _print(found: dict[str, list[dict[str, float]]]) -> None:
    first = next(iter(found))
    middle = {
        way: {name: statistics.median(run[name] for run in runs) for name in runs[0]}
        for way, runs in found.items()
    }
    for way, values in middle.items():
        spread = [run["cpu_s"] for run in found[way]]
        line = f"{way:<8} CPU {values['cpu_s']:7.2f} s ({min(spread):.2f}-{max(spread):.2f})"
        line += f"  peak {values['peak_mb']:8.1f} MB  tokens {values['tokens']:.0f}"
        if way != first:
            line += f"  {middle[first]['cpu_s'] / values['cpu_s']:.2f}x less CPU"
            if "kl" in values:
                line += f", {middle[first]['peak_mb'] / values['peak_mb']:.1f}x less memory"
                line += f", KL apart by {abs(values['kl'] - middle[first]['kl']):.1e}"
        print(line, flush=True)


def _measured(way: str) -> dict[str, float]:
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(0)
    work = {
        "naive": _naive,
        "ours": _ours,
        "padded": lambda: _layout("padded"),
        "buckets": lambda: _layout("buckets"),
        "packed": lambda: _layout("packed"),
    }[way]()
    Path("/proc/self/clear_refs").write_text("5")  # the peak is counted from here on
    before, began = _resident(), time.process_time()
    result = work()
    cpu = time.process_time() - began
    return {"cpu_s": cpu, "peak_mb": (_peak() - before) / 1e6, **result}


def _resident() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def _peak() -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * int(next(line.split()[1] for line in lines if line.startswith("VmHWM")))


def _network(layers: int, vocabulary: int) -> Any:
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=vocabulary,
        num_hidden_layers=layers,
        num_key_value_heads=3,
        max_position_embeddings=1024,
        attn_implementation="sdpa",
        **SHAPE,
    )
    return LlamaForCausalLM(config).eval().requires_grad_(False)


def _pair() -> tuple[Any, Any, Any]:
    """Return policy, reference (the policy's weights, moved a little), and ids (2, 512)."""
    import torch

    policy, reference = _network(4, VOCABULARY), _network(4, VOCABULARY)
    with torch.no_grad():
        for own, other in zip(policy.parameters(), reference.parameters(), strict=True):
            own.normal_(0, 0.02) if own.ndim > 1 else own.fill_(1.0)
            other.copy_(own)
            if own.ndim > 1:
                for rows in other.split(4096):
                    rows.add_(torch.randn_like(rows), alpha=0.004)
    return policy, reference, torch.randint(0, 151_000, (2, PROMPT + RESPONSE))


def _naive() -> Callable[[], dict[str, float]]:
    """Both models' logits over every position, and the formula that practitioners paste."""
    import torch
    from torch.distributions import Categorical, kl_divergence

    policy, reference, ids = _pair()

    def work() -> dict[str, float]:
        with torch.inference_mode():
            logits, other = policy(input_ids=ids).logits, reference(input_ids=ids).logits
            own, held = Categorical(logits=logits), Categorical(logits=other)
            kl = kl_divergence(own, held)[:, PROMPT - 1 : -1]
            own.entropy()
            own.log_prob(ids)
            held.log_prob(ids)
        return {"kl": float(kl.mean()), "tokens": ids.numel()}

    return work


def _ours() -> Callable[[], dict[str, float]]:
    """The scorers' own functions: hidden states of the responses, then tiles."""
    import torch

    from rlhfdoctor.scorers.kernel import Head, divergence, marginal

    policy, reference, ids = _pair()

    def states(network: Any) -> Any:
        return network.model(input_ids=ids, use_cache=False)[0][:, PROMPT - 1 : -1].flatten(0, 1)

    def work() -> dict[str, float]:
        targets = ids[:, PROMPT:].flatten()
        with torch.inference_mode():
            held = states(reference)
            head = Head(reference.lm_head.weight)
            known = marginal(held, targets, head, VOCABULARY)
            own = Head(policy.lm_head.weight)
            _, kl = divergence(states(policy), targets, own, held, head, known, VOCABULARY)
        return {"kl": float(kl.double().mean()), "tokens": ids.numel()}

    return work


def _layout(way: str) -> Callable[[], dict[str, float]]:
    """One body over 160 sequences of log-normal lengths, 24 to 512 tokens.

    padded: to the longest, eight at a time, with the mask that a tokenizer gives with it.
    """
    import torch

    from rlhfdoctor.scorers import batches, models
    from rlhfdoctor.scorers.kernel import Head

    generator = random.Random(0)
    lengths = [min(512, max(24, int(generator.lognormvariate(5.1, 0.7)))) for _ in range(160)]
    lengths[0] = 512
    sequences = [[generator.randrange(1000) for _ in range(length)] for length in lengths]
    network = _network(3, 1000)
    if way == "packed":
        network.set_attn_implementation(models.PACKED)
    model = models.Model(
        name="bench",
        network=network,
        head=Head(network.lm_head.weight),
        dtype=torch.float32,
        stored="float32",
        packable=way == "packed",
        positions=1024,
        config={},
    )
    laid = {"buckets": batches.buckets, "packed": batches.packed}.get(way, _eights)(lengths, BUDGET)

    def padded() -> dict[str, float]:
        for batch in laid:
            ids = torch.zeros(len(batch.indices), 512, dtype=torch.long)
            mask = torch.zeros_like(ids)
            for row, index in enumerate(batch.indices):
                ids[row, : lengths[index]] = torch.tensor(sequences[index])
                mask[row, : lengths[index]] = 1
            with torch.inference_mode():
                network.model(input_ids=ids, attention_mask=mask, use_cache=False)
        return {"tokens": 512 * len(lengths)}

    def work() -> dict[str, float]:
        for batch in laid:
            model.hidden(batch, sequences)
        return {"tokens": sum(lengths) / (1 - batches.waste(lengths, laid))}

    return padded if way == "padded" else work


def _eights(lengths: list[int], budget: int) -> list[Any]:
    from rlhfdoctor.scorers.batches import Batch

    order = range(len(lengths))
    return [
        Batch(tuple(order[at : at + budget // 512]), packed=False) for at in order[:: budget // 512]
    ]


def _gpu() -> str:
    """Score a random 1.5B-shaped pair in bfloat16 on a GPU: tokens/s, memory, share of the bound.

    The bound is the rate of one large bfloat16 product on the same device, measured beside it.
    """
    import torch

    if not torch.cuda.is_available():
        return "GPU      not run: no GPU"
    from transformers import Qwen2Config, Qwen2ForCausalLM

    from rlhfdoctor.scorers import batches, models
    from rlhfdoctor.scorers.kernel import Head, divergence, marginal

    config = Qwen2Config(
        vocab_size=VOCABULARY,
        hidden_size=1536,
        intermediate_size=8960,
        num_hidden_layers=28,
        num_attention_heads=12,
        num_key_value_heads=2,
        attn_implementation=models.PACKED,
    )
    with torch.device("cuda"):
        torch.set_default_dtype(torch.bfloat16)
        networks = [Qwen2ForCausalLM(config).eval().requires_grad_(False) for _ in range(2)]
        torch.set_default_dtype(torch.float32)
    sequences = [[(7 * at + place) % 151_000 for place in range(512)] for at in range(256)]
    laid = batches.packed([512] * 256, 16_384)
    heads = [Head(network.lm_head.weight) for network in networks]
    loaded = [
        models.Model("bench", network, head, torch.bfloat16, "bfloat16", True, None, {})
        for network, head in zip(networks, heads, strict=True)
    ]

    def score(count: int) -> None:
        for batch in laid[:count]:
            found = [torch.cat(model.hidden(batch, sequences)) for model in loaded]
            targets = torch.zeros(len(found[0]), dtype=torch.long, device="cuda")
            with torch.inference_mode():
                known = marginal(found[1], targets, heads[1], VOCABULARY)
                divergence(found[0], targets, heads[0], found[1], heads[1], known, VOCABULARY)

    score(2)
    torch.cuda.synchronize()
    held = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    began = time.perf_counter()
    score(len(laid))
    torch.cuda.synchronize()
    seconds = time.perf_counter() - began
    tokens = 256 * 512
    body = sum(parameter.numel() for parameter in networks[0].model.layers.parameters())
    flops = tokens * (2 * 2 * body + 3 * 2 * 1536 * VOCABULARY)
    share = flops / seconds / _bound()
    peak = (torch.cuda.max_memory_allocated() - held) / 1e6
    return (
        f"GPU      {torch.cuda.get_device_name()}: {tokens / seconds:,.0f} tokens/s through both "
        f"models, peak {peak:,.0f} MB over the weights, {share:.0%} of the bfloat16 bound"
    )


def _bound() -> float:
    """Return the FLOP/s of a product of two 8,192 x 8,192 bfloat16 matrices."""
    import torch

    one = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
    for _ in range(3):
        one @ one
    torch.cuda.synchronize()
    began = time.perf_counter()
    for _ in range(20):
        one @ one
    torch.cuda.synchronize()
    return 20 * 2 * 8192**3 / (time.perf_counter() - began)


if __name__ == "__main__":
    main()
