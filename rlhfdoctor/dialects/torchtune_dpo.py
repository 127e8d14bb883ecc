"""torchtune DPO (bd2a0fc7, recipes/lora_dpo_single_device.py:583-596)."""

from rlhfdoctor.dialects import Dialect, Key
from rlhfdoctor.dialects._trl import PREFERENCE_KEYS, PREFERENCES

DIALECT = Dialect(
    name="torchtune_dpo",
    framework="torchtune",
    algorithm="DPO",
    marks=(PREFERENCE_KEYS | {"rewards/accuracies", "log_probs/chosen", "log_probs/rejected"},),
    keys={
        **PREFERENCES,
        "log_probs/chosen": Key("logp_chosen", reduction="response sum"),
        "log_probs/rejected": Key("logp_rejected", reduction="response sum"),
        "lr": Key("lr"),
    },
)
"""Rewards include beta."""
