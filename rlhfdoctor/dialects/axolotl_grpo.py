"""Axolotl GRPO (067b021c, core/trainers/grpo/async_trainer.py:1985, 3224)."""

from rlhfdoctor.dialects import Dialect, Key
from rlhfdoctor.dialects._hf import TRAINER
from rlhfdoctor.dialects._trl import COMPLETIONS, COMPONENTS, GRPO_MARKS, PREFERENCE_KEYS

DIALECT = Dialect(
    name="axolotl_grpo",
    framework="Axolotl",
    upon=frozenset({"TRL", "Unsloth"}),
    algorithm="GRPO",
    marks=GRPO_MARKS,
    strangers=PREFERENCE_KEYS,
    told=True,
    keys={
        **TRAINER,
        **COMPLETIONS,
        "kl": Key("kl_ref_token", "k3", "token mean"),
        "ppl": Key("exp_loss"),
        "tokens/total": Key("num_tokens"),
    },
    patterns=COMPONENTS,
    never_negative=frozenset({"kl"}),
    log_offset=1,
)
"""``reward_std`` is over the batch in the asynchronous trainer, as TRL has it otherwise."""
