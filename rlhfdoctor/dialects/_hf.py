"""Keys that every Hugging Face trainer writes (transformers 5.24.0, trainer.py:2262-2266, 4202).

Their loss leaves out steps that were not finite (``logging_nan_inf_filter``, trainer.py:1920).
"""

from __future__ import annotations

from collections.abc import Iterable

from rlhfdoctor.dialects import Key

Marks = tuple[frozenset[str], ...]

TRAINER = {
    "loss": Key("loss_total", reduction="mean since the last log; non-finite steps are filtered"),
    "grad_norm": Key("grad_norm", reduction="last step of the window"),
    "learning_rate": Key("lr"),
    "num_tokens": Key("num_tokens"),
    "num_input_tokens_seen": Key("num_tokens"),
    "step_time": Key("step_time"),
    "aux_loss": Key("moe_aux_loss"),
}

LOGGED = frozenset({"loss", "learning_rate"})
"""What it writes in every training row beside the keys of a trainer that is built on it; a loop of
one's own that borrows a key or two seldom spells both so."""


def together(some: Iterable[frozenset[str]], others: Iterable[frozenset[str]]) -> Marks:
    """Return marks for a trainer that writes its own keys besides another's."""
    rest = tuple(others)
    return tuple(one | other for one in some for other in rest)
