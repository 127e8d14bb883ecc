"""Exact KL, entropy and log-probabilities from final hidden states and two output matrices.

The logits of a batch are never held: a tile of ``tokens x vocabulary`` of both models is computed,
folded into running statistics (the online softmax), and dropped. On a CPU a tile of 1,024 x 4,096
stays in the cache; on a GPU one tile spans the vocabulary, so that each product is one large GEMM.

Statistics are float32 whatever the weights are. The difference of the logits is taken before it is
weighted: ``KL = sum p (l_p - l_q) - lse_p + lse_q`` errs by some 1e-6 nats, where the difference of
two weighted sums of logits loses everything below 1e-3.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from torch import Tensor

CPU_TILE = (1024, 4096)
"""Tokens and vocabulary entries of a tile on the CPU: 16 MB of float32."""

GPU_TOKENS = 1024
"""Tokens of a tile on a GPU, where it spans the vocabulary: 0.62 GB a model at 152k entries."""


@dataclass(frozen=True, slots=True)
class Head:
    """What turns a final hidden state into logits.

    weight: (vocabulary, hidden). bias: (vocabulary,) or None. multiplier: applied to the logits
    (Granite divides, Cohere multiplies). softcap: logits become ``cap * tanh(logits / cap)``
    (Gemma 2). temperature: the logits are divided by it last, as trainers do.
    """

    weight: Tensor
    bias: Tensor | None = None
    multiplier: float = 1.0
    softcap: float | None = None
    temperature: float = 1.0

    @property
    def rows(self) -> int:
        """Entries of the vocabulary, padding included."""
        return int(self.weight.shape[0])

    def logits(self, hidden: Tensor, first: int = 0, last: int | None = None) -> Tensor:
        """Return float32 logits (tokens, last - first) of hidden states (tokens, hidden)."""
        weight = self.weight[first:last]
        if hidden.dtype == torch.float64:
            logits = hidden @ weight.T
        elif hidden.dtype == torch.float32:
            logits = hidden @ weight.T.float()
        elif hidden.is_cuda:
            logits = _accumulated(hidden, weight)
        else:
            logits = hidden.float() @ weight.T.float()
        if self.bias is not None:
            logits += self.bias[first:last]
        if self.multiplier != 1.0:
            logits *= self.multiplier
        if self.softcap is not None:
            logits.div_(self.softcap).tanh_().mul_(self.softcap)
        if self.temperature != 1.0:
            logits /= self.temperature
        return logits


def _accumulated(hidden: Tensor, weight: Tensor) -> Tensor:
    """Multiply half-precision matrices into float32, so that logits are never rounded."""
    try:
        return torch.mm(hidden, weight.T, out_dtype=torch.float32)
    except (TypeError, RuntimeError):  # torch before 2.8, or a device without such a product
        return hidden.float() @ weight.T.float()


@dataclass(frozen=True, slots=True)
class Marginal:
    """One model at each of ``tokens`` positions, in nats: (tokens,) each.

    log_normaliser: logsumexp of the logits. logprob: of the token that was sampled. entropy: over
    the vocabulary; None where it was not asked for.
    """

    log_normaliser: Tensor
    logprob: Tensor
    entropy: Tensor | None

    def at(self, first: int, last: int) -> Marginal:
        """Return the statistics of the positions ``first`` to ``last``."""
        entropy = None if self.entropy is None else self.entropy[first:last]
        return Marginal(self.log_normaliser[first:last], self.logprob[first:last], entropy)


def marginal(hidden: Tensor, targets: Tensor, head: Head, vocabulary: int) -> Marginal:
    """Return one model's statistics: hidden states (tokens, hidden), sampled ids (tokens,).

    vocabulary: rows of the head that count; the rest is padding.
    """
    return _fold(hidden, targets, head, vocabulary, None)[0]


def divergence(
    hidden: Tensor,
    targets: Tensor,
    head: Head,
    reference_hidden: Tensor,
    reference_head: Head,
    reference: Marginal,
    vocabulary: int,
) -> tuple[Marginal, Tensor]:
    """Return the policy's statistics and KL(policy || reference), nats a token: (tokens,).

    The sum runs over the whole vocabulary. ``reference`` is the reference's own ``marginal`` at the
    same positions; of its logits only their mean under the policy is computed here.
    """
    own, difference = _fold(hidden, targets, head, vocabulary, (reference_hidden, reference_head))
    kl = difference - own.log_normaliser + reference.log_normaliser.to(difference.device)
    return own, kl


def _fold(
    hidden: Tensor,
    targets: Tensor,
    head: Head,
    vocabulary: int,
    other: tuple[Tensor, Head] | None,
) -> tuple[Marginal, Tensor]:
    parts = [
        _fold_tokens(
            hidden[rows],
            targets[rows],
            head,
            vocabulary,
            None if other is None else (other[0][rows], other[1]),
        )
        for rows in _chunks(len(hidden), hidden.is_cuda)
    ]
    columns = list(zip(*parts, strict=True))
    if not columns:
        nothing = torch.zeros(0, dtype=torch.float32, device=hidden.device)
        return Marginal(nothing, nothing, nothing), nothing
    normaliser, logprob, entropy, difference = (torch.cat(column) for column in columns)
    return Marginal(normaliser, logprob, entropy), difference


def _chunks(tokens: int, cuda: bool) -> Iterator[slice]:
    size = GPU_TOKENS if cuda else CPU_TILE[0]
    for first in range(0, tokens, size):
        yield slice(first, first + size)


def _fold_tokens(
    hidden: Tensor,
    targets: Tensor,
    head: Head,
    vocabulary: int,
    other: tuple[Tensor, Head] | None,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Fold the vocabulary's tiles: normaliser, log-probability, entropy, mean difference.

    Carried with the running maximum m: sum e^(l - m), sum e^(l - m) l, sum e^(l - m) (l - l_q).
    """
    count = len(hidden)
    wide = torch.float64 if hidden.dtype == torch.float64 else torch.float32
    mass = torch.zeros(count, dtype=wide, device=hidden.device)
    weighted, apart, sampled = (torch.zeros_like(mass) for _ in range(3))
    peak = torch.full_like(mass, -math.inf)
    width = vocabulary if hidden.is_cuda else CPU_TILE[1]
    for first in range(0, vocabulary, width):
        last = min(first + width, vocabulary)
        logits = head.logits(hidden, first, last)
        inside = (targets >= first) & (targets < last)
        local = (targets - first).clamp(0, last - first - 1)
        sampled += torch.where(inside, logits.gather(1, local[:, None])[:, 0], 0.0)
        higher = torch.maximum(peak, logits.amax(1))
        shrink = torch.exp(peak - higher)
        share = torch.exp(logits - higher[:, None])
        mass = mass * shrink + share.sum(1)
        weighted = weighted * shrink + torch.linalg.vecdot(share, logits)
        if other is not None:
            logits -= other[1].logits(other[0], first, last)
            apart = apart * shrink + torch.linalg.vecdot(share, logits)
        peak = higher
    normaliser = peak + torch.log(mass)
    return normaliser, sampled - normaliser, normaliser - weighted / mass, apart / mass
