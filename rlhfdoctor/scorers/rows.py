"""From statistics of tokens to the rows of ``Run.scores``."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from rlhfdoctor.model import Run
from rlhfdoctor.scorers.kernel import Marginal
from rlhfdoctor.scorers.sequences import SampleSet, Scored
from rlhfdoctor.scores import SCORES
from rlhfdoctor.series import ratio_interval


class Sums:
    """Sums over the tokens of each sequence and of each position, in float64."""

    def __init__(self, sequences: Sequence[Scored]) -> None:
        self.sequences = sequences
        self.tokens = torch.tensor([len(item.response) for item in sequences]).double()
        count = len(sequences)
        self.by_sequence = {
            name: torch.zeros(count, dtype=torch.float64)
            for name in ("kl", "k1", "k3", "entropy", "policy", "reference")
        }
        longest = max((len(item.response) for item in sequences), default=0)
        self.bins = _bins(longest)
        self.by_position = {
            name: torch.zeros(len(self.bins), dtype=torch.float64)
            for name in ("tokens", "kl", "policy", "reference")
        }
        self.apart = 0.0
        self.compared = 0

    def add(
        self, owner: Tensor, position: Tensor, kl: Tensor, own: Marginal, other: Marginal
    ) -> None:
        """Add a batch's tokens; ``owner``: the sequence of each, ``position``: in its response."""
        policy, reference = own.logprob.double().cpu(), other.logprob.double().cpu()
        k1 = policy - reference
        values = {
            "kl": kl.double().cpu(),
            "k1": k1,
            "k3": torch.expm1(-k1) + k1,
            "policy": policy,
            "reference": reference,
        }
        if own.entropy is not None:
            values["entropy"] = own.entropy.double().cpu()
        for name, found in values.items():
            self.by_sequence[name].index_add_(0, owner, found)
        place = torch.floor(torch.log2(position.double() + 1)).long()
        for name in ("kl", "policy", "reference"):
            self.by_position[name].index_add_(0, place, values[name])
        self.by_position["tokens"].index_add_(0, place, torch.ones_like(k1))
        self._compare(owner, position, policy)

    def _compare(self, owner: Tensor, position: Tensor, policy: Tensor) -> None:
        """Compare with the log-probabilities that the file tells for the same tokens."""
        for index in dict.fromkeys(owner.tolist()):
            told = self.sequences[index].logprobs
            if told is not None:
                mine = policy[owner == index]
                self.apart += float((torch.tensor(told, dtype=torch.float64) - mine).abs().sum())
                self.compared += len(told)

    @property
    def gap(self) -> float:
        """Mean distance of the file's own log-probabilities, nats a token; ask ``compared``."""
        return self.apart / self.compared

    def mean(self, name: str) -> float:
        """Return the mean a token."""
        return float(self.by_sequence[name].sum() / self.tokens.sum())

    def a_response(self, name: str) -> float:
        """Return the mean over responses of the sum over a response."""
        return float(self.by_sequence[name].mean())

    def interval(self, name: str) -> tuple[float, float] | None:
        """Return the 95 % interval of the mean a token; samples of one prompt count as one.

        None with fewer than two of them.
        """
        return ratio_interval(
            self.by_sequence[name].tolist(),
            self.tokens.tolist(),
            [item.cluster for item in self.sequences],
        )


def _bins(longest: int) -> list[tuple[int, int]]:
    """Return ranges of positions, counted from 1, each twice as long as the one before."""
    ranges, first = [], 1
    while first <= longest:
        ranges.append((first, min(2 * first - 1, longest)))
        first *= 2
    return ranges


def row(item: SampleSet, sums: Sums, floor: float) -> dict[str, Any]:
    """Return what the sums of a sample set tell, under the names of ``SCORES``.

    floor: KL in nats a token that cannot be told from zero. ``ratios`` and ``lines``, of each
    sequence, are what ``paired`` needs beside.
    """
    count = len(item.sequences)
    interval, spread, likely = (sums.interval(name) for name in ("kl", "entropy", "policy"))
    kl = sums.mean("kl")
    return {
        "samples_file": item.source,
        "part": item.part,
        "samples": count,
        "on_policy": item.step is not None,
        "tokens": int(sums.tokens.sum()),
        "mean_length": float(sums.tokens.mean()),
        "kl_ref_token_exact": kl,
        "interval_low": None if interval is None else interval[0],
        "interval_high": None if interval is None else interval[1],
        "kl_ref_response_exact": sums.a_response("kl"),
        "kl_k1_token": sums.mean("k1"),
        "kl_k3_token": sums.mean("k3"),
        "kl_k1_response": sums.a_response("k1"),
        "entropy_token": sums.mean("entropy"),
        "entropy_low": None if spread is None else spread[0],
        "entropy_high": None if spread is None else spread[1],
        "perplexity_policy": _perplexity(sums.mean("policy")),
        "perplexity_low": None if likely is None else _perplexity(likely[1]),
        "perplexity_high": None if likely is None else _perplexity(likely[0]),
        "perplexity_reference": _perplexity(sums.mean("reference")),
        "logprob_response_policy": sums.a_response("policy"),
        "logprob_response_reference": sums.a_response("reference"),
        "logprob_gap": sums.gap if sums.compared else None,
        "kl_k1_file": _file_k1(item.sequences),
        "noise_floor": floor,
        "below_floor": bool(abs(kl) < floor),
        "perplexity_by_position": [
            {
                "first": first,
                "last": last,
                "tokens": int(sums.by_position["tokens"][place]),
                "policy": _perplexity(_share(sums, "policy", place)),
                "reference": _perplexity(_share(sums, "reference", place)),
                "kl": _share(sums, "kl", place),
            }
            for place, (first, last) in enumerate(sums.bins)
        ],
        "ratios": sums.by_sequence["policy"] - sums.by_sequence["reference"],
        "lines": [scored.line for scored in item.sequences],
    }


def published(found: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row with the columns of ``SCORES`` and no others."""
    return {name: found.get(name) for name in SCORES}


def _share(sums: Sums, name: str, place: int) -> float:
    return float(sums.by_position[name][place] / sums.by_position["tokens"][place])


def _perplexity(mean_logprob: float) -> float:
    try:
        return math.exp(-mean_logprob)
    except OverflowError:
        return math.inf


def _file_k1(sequences: Sequence[Scored]) -> float | None:
    """Return k1 a token from the log-probabilities that the file tells for both models."""
    told = [
        (item.logprobs, item.ref_logprobs)
        for item in sequences
        if item.logprobs is not None and item.ref_logprobs is not None
    ]
    tokens = sum(len(logprobs) for logprobs, _ in told)
    total = math.fsum(
        own - other
        for logprobs, ref_logprobs in told
        for own, other in zip(logprobs, ref_logprobs, strict=True)
    )
    return total / tokens if tokens else None


def paired(rows: list[dict[str, Any]], run: Run) -> list[dict[str, Any]]:
    """Give the rows of chosen and rejected answers their rewards, margin and accuracy.

    reward: beta x log-ratio, nats x beta, None where the run's beta is not known.
    """
    beta = run.number("kl_coef")
    by_part = {(row["reference"], row["samples_file"], row["part"]): row for row in rows}
    for row in rows:
        if row["part"] == "response":
            continue
        row["reward"] = None if beta is None else beta * float(row["ratios"].mean())
        chosen = by_part.get((row["reference"], row["samples_file"], "chosen"))
        rejected = by_part.get((row["reference"], row["samples_file"], "rejected"))
        if chosen is None or rejected is None:
            continue
        others = dict(zip(rejected["lines"], rejected["ratios"].tolist(), strict=True))
        margins = [
            ratio - others[line]
            for line, ratio in zip(chosen["lines"], chosen["ratios"].tolist(), strict=True)
            if line in others
        ]
        if margins:
            row["margin_nats"] = math.fsum(margins) / len(margins)
            row["margin"] = None if beta is None else beta * row["margin_nats"]
            row["accuracy"] = sum(margin > 0 for margin in margins) / len(margins)
    return rows
