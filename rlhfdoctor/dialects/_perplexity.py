"""Perplexities out of mean log-probabilities."""

from __future__ import annotations

from rlhfdoctor.dialects import Derived, Key


def perplexity(metric: str, key: str) -> Derived:
    """Return exp(-x) of the mean log-probability of a token that ``key`` holds."""
    return Derived(
        Key(metric, reduction="exp of minus the token mean"),
        of=(key,),
        compute=lambda logp: (-logp).exp(),
        text=f"no perplexity is logged; it is exp(-{key})",
    )
