"""What differs on a GPU: half-precision products, packed attention, and the whole of it."""

from __future__ import annotations

import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from rlhfdoctor.runs import read_runs
from rlhfdoctor.scorers import batches, models
from rlhfdoctor.scorers.kernel import Head, divergence, marginal
from rlhfdoctor.scorers.recompute import Options, recompute
from tests.builders import FIXTURES
from tests.scorers.tiny import built, logits_of, model_logits, saved, sequences, truth

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device"),
]

BASE = FIXTURES / "base"
WIDE: dict[str, Any] = {
    "hidden_size": 128,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 256,
}


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32], ids=str)
@pytest.mark.parametrize("tokens", [1, 1024, 1500])
def test_the_kernel_is_what_float64_finds(tokens: int, dtype: torch.dtype) -> None:
    """The numbers that a half-precision body hands over are not rounded again."""
    generator = torch.Generator().manual_seed(1)

    def drawn(*shape: int, scale: float = 1.0) -> torch.Tensor:
        return (torch.randn(*shape, generator=generator) * scale).to("cuda", dtype)

    hidden, other = drawn(tokens, 64), drawn(tokens, 64)
    weight, other_weight = drawn(8_084, 64, scale=0.2), drawn(8_084, 64, scale=0.2)
    targets = torch.randint(8_000, (tokens,), generator=generator).cuda()
    reference = marginal(other, targets, Head(other_weight), 8_000)
    own, kl = divergence(hidden, targets, Head(weight), other, Head(other_weight), reference, 8_000)
    want = truth(
        hidden.double() @ weight[:8_000].double().T,
        other.double() @ other_weight[:8_000].double().T,
        targets,
    )
    assert own.entropy is not None
    found = (kl, own.entropy, own.logprob, reference.logprob)
    for mine, theirs in zip(found, want, strict=True):
        assert mine.dtype == torch.float32
        torch.testing.assert_close(mine.double(), theirs, atol=1e-4, rtol=1e-5)


def loaded(folder: Path, dtype: torch.dtype) -> models.Model:
    return models.load(folder, dtype=dtype, device=torch.device("cuda"))


@pytest.mark.parametrize("kind", ["llama", "qwen2", "gpt2"])
@pytest.mark.parametrize(
    ("dtype", "error"),
    [(torch.bfloat16, 4e-2), (torch.float16, 6e-3), (torch.float32, 1e-4)],
    ids=str,
)
def test_packed_attention_is_one_by_one(
    kind: str, dtype: torch.dtype, error: float, tmp_path: Path
) -> None:
    network = built(kind, seed=3, scale=0.08, **({} if kind == "gpt2" else WIDE))
    model = loaded(saved(network, tmp_path / "m"), dtype)
    assert model.packable
    ids = sequences(9, 1, 30, 17, 120, 29)
    batch = batches.Batch(tuple(range(6)), packed=True)
    exact = copy.deepcopy(network).double()
    together = model.hidden(batch, ids)
    for number, states in enumerate(together):
        (alone,) = model.hidden(batches.Batch((number,), packed=True), ids)
        want = logits_of(exact, ids[number])
        size = float(want.abs().max())
        for found in (states, alone):
            apart = (model_logits(model, found).cpu().double() - want).abs().max()
            assert float(apart) < error * size
        apart = (model_logits(model, states) - model_logits(model, alone)).abs().max()
        assert float(apart) < error * size


def test_packed_sequences_do_not_see_each_other(tmp_path: Path) -> None:
    model = loaded(saved(built("llama", seed=3, **WIDE), tmp_path / "m"), torch.bfloat16)
    batch = batches.Batch((0, 1), packed=True)
    first, other, second = *sequences(40, 40), sequences(25, seed=7)[0]
    one, two = model.hidden(batch, [first, second]), model.hidden(batch, [other, second])
    assert torch.equal(one[1], two[1])
    assert not torch.equal(one[0], two[0])


@pytest.mark.parametrize("name", ["grpo_late", "ppo_late", "dpo_collapsed"])
def test_a_run_in_float32_is_what_it_is_on_the_cpu(name: str) -> None:
    (run,) = read_runs(FIXTURES / name)
    here, there = (
        recompute(run, [BASE], Options(dtype="float32", device=device)).scores
        for device in ("cpu", "cuda")
    )
    assert here is not None
    assert there is not None
    assert len(here) == len(there) > 0
    for want, found in zip(here.to_dicts(), there.to_dicts(), strict=True):
        for key, value in want.items():
            if isinstance(value, float) and key != "seconds":
                assert abs(found[key] - value) <= 1e-5 + 1e-4 * abs(value), key


def test_a_run_in_bfloat16_errs_within_its_floor() -> None:
    (run,) = read_runs(FIXTURES / "grpo_late")
    exact = recompute(run, [BASE], Options(dtype="float32", device="cpu"))
    found = recompute(run, [BASE], Options())
    assert found.references[0]["dtype"] == "bfloat16"
    assert found.references[0]["device"] == "cuda"
    assert exact.scores is not None
    assert found.scores is not None
    for want, row in zip(exact.scores.to_dicts(), found.scores.to_dicts(), strict=True):
        kl = want["kl_ref_token_exact"]
        assert abs(row["kl_ref_token_exact"] - kl) < row["noise_floor"] + 0.02 * kl


def test_hidden_states_on_disk_change_no_bit(tmp_path: Path) -> None:
    (run,) = read_runs(FIXTURES / "grpo_late")
    options = Options()
    one, two = (
        recompute(run, [BASE], each).scores for each in (options, replace(options, cache=tmp_path))
    )
    assert one is not None
    assert two is not None
    assert one.drop("seconds").equals(two.drop("seconds"))
