"""One spelling of a key for the many in home-made logs."""

from __future__ import annotations

import re

LONGEST_KEY = 200
"""Characters of a key that are looked at; no name is longer."""

PERCENT = "percent"
"""The word that ``plain`` makes of a percent sign and of every name for it."""

WORDS = {
    "%": PERCENT,
    "pct": PERCENT,
    "perc": PERCENT,
    "percentage": PERCENT,
    "avg": "",
    "average": "",
    "mean": "",
    "train": "",
    "training": "",
    "metrics": "",
    "adv": "advantage",
    "advantages": "advantage",
    "acc": "accuracy",
    "accuracies": "accuracy",
    "clipfrac": "clip frac",
    "clipfraction": "clip frac",
    "coeff": "coef",
    "coefficient": "coef",
    "completion": "response",
    "completions": "response",
    "components": "component",
    "div": "divergence",
    "fraction": "frac",
    "gen": "response",
    "generated": "response",
    "generation": "response",
    "gradient": "grad",
    "gradnorm": "grad norm",
    "kld": "kl divergence",
    "len": "length",
    "lengths": "length",
    "losses": "loss",
    "lr": "learning rate",
    "margins": "margin",
    "maximum": "max",
    "minimum": "min",
    "output": "response",
    "pg": "policy",
    "rates": "rate",
    "ratios": "ratio",
    "ref": "reference",
    "resp": "response",
    "responses": "response",
    "returns": "return",
    "rewards": "reward",
    "rollout": "",
    "scores": "score",
    "stddev": "std",
    "tok": "token",
    "tokens": "token",
    "trunc": "truncated",
    "truncation": "truncated",
    "values": "value",
    "var": "variance",
    "vf": "value",
}
"""Words that mean the same; an empty one says nothing of what was measured."""

_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_WORD = re.compile(r"[a-z]+|\d+|%")


def plain(key: str) -> str:
    """Return a key's words in lower case, in one spelling, each once, sorted, joined by "_".

    ``Avg Response Len``, ``response_length`` and ``completion/mean_length`` are one name. The order
    of words is given up: ``mean_reward`` is ``reward_mean``.
    """
    words = _WORD.findall(_CAMEL.sub(" ", key[:LONGEST_KEY]).lower())
    kept = {part for word in words for part in WORDS.get(word, word).split()}
    return "_".join(sorted(kept)) or key


def shares(spelt: str) -> tuple[str, ...]:
    """Return the names of a share that ``spelt``, as ``plain`` spells it, may give in percent.

    ``percent_truncated`` may be ``truncated``, ``rate_truncated`` or ``frac_truncated``. Empty for
    a name without a percent sign.
    """
    words = spelt.split("_")
    if PERCENT not in words:
        return ()
    rest = [word for word in words if word != PERCENT]
    return tuple("_".join(sorted({*rest, *more})) for more in ((), ("rate",), ("frac",)))
