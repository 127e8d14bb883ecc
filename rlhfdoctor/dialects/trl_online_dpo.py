"""TRL OnlineDPOTrainer (1.10.0.dev0, online_dpo_trainer.py:1244-1277)."""

from rlhfdoctor.dialects import Dialect
from rlhfdoctor.dialects._hf import together
from rlhfdoctor.dialects._trl import ONLINE, PAIRS

_OWN = (
    "objective/scores_margin",
    "objective/rlhf_reward",
    "val/contain_eos_token",
)

DIALECT = Dialect(
    name="trl_online_dpo",
    framework="TRL",
    algorithm="online DPO",
    marks=together(PAIRS, [frozenset({key}) for key in _OWN]),
    strangers=frozenset({"loss/kl", "loss/xpo", "loss/dpo"}),
    keys=ONLINE,
    log_offset=1,
)
