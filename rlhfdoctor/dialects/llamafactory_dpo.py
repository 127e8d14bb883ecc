"""LLaMA-Factory DPO (ff6d4d12, train/dpo/trainer.py:305-315)."""

from rlhfdoctor.dialects import Dialect, Key
from rlhfdoctor.dialects._hf import together
from rlhfdoctor.dialects._llamafactory import LOG, MARKS
from rlhfdoctor.dialects._trl import PREFERENCE_MARKS, PREFERENCES

DIALECT = Dialect(
    name="llamafactory_dpo",
    framework="LLaMA-Factory",
    upon=frozenset({"TRL", "Unsloth"}),
    algorithm="DPO",
    marks=(*together(MARKS, PREFERENCE_MARKS), *together(MARKS, [frozenset({"accuracy"})])),
    strangers=frozenset({"kl", "odds_ratio_loss"}),
    rivals=frozenset({"KTO", "ORPO", "CPO", "SimPO", "IPO"}),
    keys={
        **PREFERENCES,
        **LOG,
        "accuracy": Key("dpo_accuracy"),
        "sft_loss": Key("sft_loss"),
    },
    log_offset=1,
)
"""``accuracy`` is the share of pairs, not of solved tasks."""
