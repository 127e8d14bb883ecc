"""TRL OnlineDPOTrainer (1.10.0.dev0, online_dpo_trainer.py:1244-1277)."""

from rlhfdoctor.dialects import Dialect
from rlhfdoctor.dialects._trl import ONLINE

DIALECT = Dialect(
    name="trl_online_dpo",
    framework="TRL",
    algorithm="online DPO",
    marks=(
        frozenset({"rewards/chosen", "rewards/rejected", "rewards/accuracies", "objective/kl"}),
        frozenset({"rewards/chosen", "rewards/rejected", "rewards/accuracies", "val/contain_eos_token"}),
        frozenset({"rewards/chosen", "rewards/rejected", "rewards/accuracies", "objective/scores"}),
        frozenset({"rewards/chosen", "rewards/rejected", "objective/kl"}),
        frozenset({"rewards/chosen", "rewards/rejected", "objective/scores_margin"}),
        frozenset({"rewards/chosen", "rewards/rejected", "val/contain_eos_token"}),
    ),
    strangers=frozenset({"loss/kl", "loss/xpo", "loss/dpo"}),
    keys=ONLINE,
    log_offset=1,
)
