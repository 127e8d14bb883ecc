"""LLaMA-Factory ORPO and SimPO, by its DPO trainer (ff6d4d12, train/dpo/trainer.py:305-315)."""

from rlhfdoctor.dialects import Dialect, Key
from rlhfdoctor.dialects._hf import together
from rlhfdoctor.dialects._llamafactory import LOG, MARKS
from rlhfdoctor.dialects._trl import LOGPS_TOKEN, PREFERENCE_MARKS, WITHOUT_REFERENCE

DIALECT = Dialect(
    name="llamafactory_orpo",
    framework="LLaMA-Factory",
    upon=frozenset({"TRL", "Unsloth"}),
    algorithm="ORPO or SimPO",
    marks=(*together(MARKS, PREFERENCE_MARKS), *together(MARKS, [frozenset({"accuracy"})])),
    named=frozenset({"ORPO", "SimPO"}),
    keys={
        **WITHOUT_REFERENCE,
        **LOGPS_TOKEN,
        **LOG,
        "accuracy": Key("dpo_accuracy"),
        "sft_loss": Key("sft_loss"),
        "odds_ratio_loss": Key("orpo_odds_loss"),
    },
    log_offset=1,
)
"""There is no reference, and log-probabilities are token means."""
