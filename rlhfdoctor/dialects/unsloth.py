"""Unsloth GRPO, a patched TRL (015bdef0 and zoo 2026.10.9, rl_replacements.py:2562-2988)."""

from rlhfdoctor.dialects import Dialect, Key
from rlhfdoctor.dialects._hf import TRAINER
from rlhfdoctor.dialects._trl import COMPLETIONS, COMPONENTS, GRPO_MARKS, PREFERENCE_KEYS

DIALECT = Dialect(
    name="unsloth",
    framework="Unsloth",
    upon=frozenset({"TRL"}),
    algorithm="GRPO",
    marks=GRPO_MARKS,
    strangers=PREFERENCE_KEYS,
    told=True,
    keys={
        **TRAINER,
        **COMPLETIONS,
        "completion_length": Key("response_length_mean", reduction="last micro-batch"),
        "kl": Key("kl_ref_token", "k3", "token mean of a response, batch mean, rank 0"),
        "sampling/rollout_kl_k1/mean": Key("kl_train_infer_token", "k1", "token mean"),
        "sampling/rollout_kl_k3/mean": Key("kl_train_infer_token", "k3", "token mean"),
    },
    patterns=COMPONENTS,
    never_negative=frozenset({"kl"}),
    log_offset=1,
)
"""``kl`` is 0 where beta is 0: not measured, not unmoved."""
