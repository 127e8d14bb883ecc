"""The kernel against whole logits in float64."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from rlhfdoctor.scorers import kernel
from rlhfdoctor.scorers.kernel import Head, Marginal, divergence, marginal
from tests.scorers.tiny import built, logits_of, moved, truth

KERNEL_ERROR = 1e-5


def drawn(
    tokens: int, width: int, vocabulary: int, seed: int = 0, scale: float = 0.3
) -> tuple[Tensor, Head]:
    """Return hidden states and a head."""
    generator = torch.Generator().manual_seed(seed)
    hidden = torch.randn(tokens, width, generator=generator)
    return hidden, Head(torch.randn(vocabulary, width, generator=generator) * scale)


def targets_of(tokens: int, vocabulary: int, seed: int = 9) -> Tensor:
    return torch.randint(vocabulary, (tokens,), generator=torch.Generator().manual_seed(seed))


def scored(
    hidden: Tensor,
    head: Head,
    other: Tensor,
    other_head: Head,
    targets: Tensor,
    vocabulary: int | None = None,
) -> tuple[Marginal, Marginal, Tensor]:
    vocabulary = vocabulary or head.rows
    reference = marginal(other, targets, other_head, vocabulary)
    own, kl = divergence(hidden, targets, head, other, other_head, reference, vocabulary)
    return own, reference, kl


def exact(hidden: Tensor, head: Head) -> Tensor:
    """Return the logits in float64, by another route than the kernel's."""
    logits = torch.einsum("th,vh->tv", hidden.double(), head.weight.double())
    if head.bias is not None:
        logits = logits + head.bias.double()
    logits = logits * head.multiplier
    if head.softcap is not None:
        logits = head.softcap * torch.tanh(logits / head.softcap)
    return logits / head.temperature


def agree(found: tuple[Marginal, Marginal, Tensor], true: tuple[Tensor, ...], error: float) -> None:
    own, reference, kl = found
    assert own.entropy is not None
    for name, mine, want in (
        ("kl", kl, true[0]),
        ("entropy", own.entropy, true[1]),
        ("policy", own.logprob, true[2]),
        ("reference", reference.logprob, true[3]),
    ):
        assert mine.shape == want.shape
        # float32 keeps seven digits: a value of -30 nats cannot be nearer than 4e-6
        apart = float(((mine.double() - want).abs() - 2e-6 * want.abs()).max())
        assert apart <= error, name


@pytest.mark.parametrize("kind", ["llama", "qwen2", "gpt2"])
@pytest.mark.parametrize("by", [0.0, 0.005, 0.1], ids=["no KL", "small KL", "large KL"])
def test_a_models_own_forward_is_matched_a_token(kind: str, by: float) -> None:
    base = built(kind, seed=1)
    policy = moved(base, seed=2, by=by)
    ids = targets_of(60, 300, seed=3).tolist()
    targets = torch.tensor(ids[1:])
    states, heads = [], []
    for network in (policy, base):
        with torch.inference_mode():
            states.append(network.base_model(torch.tensor([ids]))[0][0, :-1])
        heads.append(Head(network.get_output_embeddings().weight))
    want = truth(logits_of(policy.double(), ids)[:-1], logits_of(base.double(), ids)[:-1], targets)
    heads = [Head(head.weight.float()) for head in heads]
    agree(scored(states[0], heads[0], states[1], heads[1], targets), want, KERNEL_ERROR)
    if by == 0:
        assert float(want[0].abs().max()) == 0
    else:
        assert float(want[0].mean()) > by / 10


@pytest.mark.parametrize(
    ("tokens", "vocabulary"),
    [
        pytest.param(7, 1, id="a vocabulary of one"),
        pytest.param(7, 5, id="a vocabulary far below a tile"),
        pytest.param(7, 4095, id="one entry below a tile"),
        pytest.param(7, 4096, id="a tile exactly"),
        pytest.param(7, 4097, id="one entry above a tile"),
        pytest.param(3, 10_000, id="three tiles, the last one cut"),
        pytest.param(1, 300, id="one token"),
        pytest.param(1023, 20, id="one token below a tile"),
        pytest.param(1024, 20, id="tokens of a tile exactly"),
        pytest.param(1025, 20, id="one token above a tile"),
    ],
)
def test_every_size_is_matched(tokens: int, vocabulary: int) -> None:
    hidden, head = drawn(tokens, 16, vocabulary, seed=1)
    other, other_head = drawn(tokens, 16, vocabulary, seed=2)
    targets = targets_of(tokens, vocabulary)
    want = truth(exact(hidden, head), exact(other, other_head), targets)
    agree(scored(hidden, head, other, other_head, targets), want, KERNEL_ERROR)


def test_no_tokens_make_no_numbers() -> None:
    hidden, head = drawn(0, 16, 300)
    own, reference, kl = scored(hidden, head, hidden, head, targets_of(0, 300))
    assert own.entropy is not None
    assert [len(found) for found in (kl, own.logprob, own.entropy, reference.logprob)] == [0] * 4


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"bias": True}, id="a bias"),
        pytest.param({"multiplier": 0.125}, id="a multiplier that divides"),
        pytest.param({"multiplier": 3.0}, id="a multiplier that sharpens"),
        pytest.param({"softcap": 2.0}, id="a soft cap that bites"),
        pytest.param({"temperature": 0.7}, id="a temperature below one"),
        pytest.param({"temperature": 2.0}, id="a temperature above one"),
        pytest.param(
            {"bias": True, "multiplier": 2.0, "softcap": 3.0, "temperature": 0.5}, id="all of them"
        ),
    ],
)
def test_what_a_head_does_to_its_logits_is_matched(changes: dict[str, Any]) -> None:
    hidden, plain = drawn(40, 16, 300, seed=1)
    other, other_plain = drawn(40, 16, 300, seed=2)
    bias = torch.randn(300, generator=torch.Generator().manual_seed(3))
    changes = {**changes, "bias": bias if changes.get("bias") else None}
    head, other_head = replace(plain, **changes), replace(other_plain, **changes)
    targets = targets_of(40, 300)
    want = truth(exact(hidden, head), exact(other, other_head), targets)
    agree(scored(hidden, head, other, other_head, targets), want, KERNEL_ERROR)
    untouched = truth(exact(hidden, plain), exact(other, other_plain), targets)
    assert float((want[0] - untouched[0]).abs().max()) > 1e-2, "the change must matter"


@pytest.mark.parametrize("padded", ["the policy", "the reference", "both"])
def test_rows_behind_the_vocabulary_do_not_count(padded: str) -> None:
    hidden, head = drawn(20, 16, 300, seed=1)
    other, other_head = drawn(20, 16, 300, seed=2)
    targets = targets_of(20, 300)
    want = scored(hidden, head, other, other_head, targets)

    def pad(plain: Head) -> Head:
        huge = torch.full((84, 16), 50.0)
        return Head(torch.cat([plain.weight, huge, -huge]))

    wide = pad(head) if padded != "the reference" else head
    other_wide = pad(other_head) if padded != "the policy" else other_head
    found = scored(hidden, wide, other, other_wide, targets, vocabulary=300)
    assert torch.equal(found[2], want[2])
    assert torch.equal(found[0].logprob, want[0].logprob)
    if padded == "both":
        uncut = scored(hidden, wide, other, other_wide, targets)
        assert float((uncut[0].logprob - want[0].logprob).abs().max()) > 1, "padding must matter"


@pytest.mark.parametrize("scale", [1.0, 5.0, 40.0])
def test_a_large_kl_and_a_policy_next_to_one_hot_keep_their_digits(scale: float) -> None:
    hidden, head = drawn(50, 16, 5000, seed=1, scale=scale)
    other, other_head = drawn(50, 16, 5000, seed=2, scale=scale)
    targets = targets_of(50, 5000)
    want = truth(exact(hidden, head), exact(other, other_head), targets)
    found = scored(hidden, head, other, other_head, targets)
    assert float(want[0].mean()) > 5
    torch.testing.assert_close(found[2].double(), want[0], rtol=1e-5, atol=1e-5)
    assert found[0].entropy is not None
    # weighted / mass is a difference of logits of up to 700, of which float32 keeps 6e-5
    torch.testing.assert_close(found[0].entropy.double(), want[1], rtol=1e-5, atol=2e-6 * scale * 5)


@pytest.mark.parametrize("size", [1e4, -1e4])
def test_extreme_logits_stay_finite(size: float) -> None:
    hidden = torch.ones(3, 4)
    weight = torch.zeros(5000, 4)
    weight[4500] = size / 4
    other = torch.zeros(5000, 4)
    other[17] = -size / 4
    targets = torch.tensor([17, 4500, 0])
    want = truth(exact(hidden, Head(weight)), exact(hidden, Head(other)), targets)
    own, reference, kl = scored(hidden, Head(weight), hidden, Head(other), targets)
    assert own.entropy is not None
    for found in (own.logprob, own.entropy, reference.logprob, kl):
        assert torch.isfinite(found).all()
    torch.testing.assert_close(kl.double(), want[0], rtol=1e-6, atol=2e-3)


@pytest.mark.parametrize("by", [0.0, 1e-5, 1e-4, 1e-3])
def test_a_kl_near_zero_is_not_negative(by: float) -> None:
    hidden, head = drawn(500, 32, 9000, seed=1)
    other = hidden + torch.randn(hidden.shape, generator=torch.Generator().manual_seed(2)) * by
    _, _, kl = scored(hidden, head, other, head, targets_of(500, 9000))
    assert float(kl.min()) >= -1e-5
    if by == 0:
        assert not kl.any()


@pytest.mark.parametrize("tile", [(1, 50), (3, 7), (16, 299), (64, 300), (4096, 8192)])
def test_the_tile_changes_nothing(tile: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    hidden, head = drawn(33, 16, 300, seed=1)
    other, other_head = drawn(33, 16, 300, seed=2)
    targets = targets_of(33, 300)
    want = truth(exact(hidden, head), exact(other, other_head), targets)
    monkeypatch.setattr(kernel, "CPU_TILE", tile)
    agree(scored(hidden, head, other, other_head, targets), want, KERNEL_ERROR)


def test_float64_is_computed_in_float64() -> None:
    hidden, head = drawn(20, 16, 300, seed=1)
    other, other_head = drawn(20, 16, 300, seed=2)
    hidden, other = hidden.double(), other.double()
    head, other_head = Head(head.weight.double()), Head(other_head.weight.double())
    targets = targets_of(20, 300)
    want = truth(exact(hidden, head), exact(other, other_head), targets)
    agree(scored(hidden, head, other, other_head, targets), want, 1e-12)
    assert scored(hidden, head, other, other_head, targets)[2].dtype == torch.float64


def test_half_precision_is_rounded_by_nothing_after_the_hidden_states() -> None:
    """Of numbers that bfloat16 holds, the kernel makes what float64 makes of them."""
    hidden, head = drawn(40, 32, 5000, seed=1)
    other, other_head = drawn(40, 32, 5000, seed=2)
    half, other_half = hidden.bfloat16(), other.bfloat16()
    heads = Head(head.weight.bfloat16()), Head(other_head.weight.bfloat16())
    targets = targets_of(40, 5000)
    want = truth(exact(half, heads[0]), exact(other_half, heads[1]), targets)
    agree(scored(half, heads[0], other_half, heads[1], targets), want, KERNEL_ERROR)


@pytest.mark.parametrize("by", [0.002, 0.02, 0.1])
def test_a_bfloat16_body_errs_within_what_was_measured(by: float) -> None:
    """PERFORMANCE.md B2: a bias of 0.002 and a mean error of 0.006 at most up to 0.3 nats."""
    base = built("llama", seed=1, scale=0.1).bfloat16()
    policy = moved(base.float(), seed=2, by=by).bfloat16()
    ids = targets_of(100, 300, seed=3).tolist()
    targets = torch.tensor(ids[1:])
    states, heads = [], []
    for network in (policy, base):
        with torch.inference_mode():
            states.append(network.base_model(torch.tensor([ids]))[0][0, :-1])
        heads.append(Head(network.get_output_embeddings().weight.clone()))
    found = scored(states[0], heads[0], states[1], heads[1], targets)[2].double()
    want = truth(logits_of(policy.double(), ids)[:-1], logits_of(base.double(), ids)[:-1], targets)
    apart = found - want[0]
    assert abs(float(apart.mean())) < 2e-3 + 0.02 * float(want[0].mean())
    assert float(apart.abs().mean()) < 6e-3 + 0.03 * float(want[0].mean())


_Mode: Any = TorchDispatchMode


class Largest(_Mode):  # type: ignore[misc]
    """Records the largest tensor that any operation makes."""

    def __init__(self) -> None:
        super().__init__()
        self.numel = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        for found in out if isinstance(out, tuple | list) else [out]:
            if isinstance(found, Tensor):
                self.numel = max(self.numel, found.numel())
        return out


def test_no_tensor_of_tokens_by_vocabulary_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel, "CPU_TILE", (64, 128))
    hidden, head = drawn(200, 16, 2000, seed=1)
    other, other_head = drawn(200, 16, 2000, seed=2)
    targets = targets_of(200, 2000)
    with Largest() as seen:
        scored(hidden, head, other, other_head, targets)
    # the largest that is not a tile is a view: a slice of the hidden states, the head's transpose
    assert 64 * 128 <= seen.numel <= max(64 * 128, 128 * 16, 200 * 16)
    with Largest() as seen:
        truth(exact(hidden, head), exact(other, other_head), targets)
    assert seen.numel == 200 * 2000, "the recorder must see what it looks for"
