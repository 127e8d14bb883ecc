"""NeMo-RL DPO (7ea279ab, loss_functions.py:1100-1104)."""

from rlhfdoctor.dialects import Dialect, Key
from rlhfdoctor.dialects._nemo import LOG_RATIOS, REWARDS

DIALECT = Dialect(
    name="nemo_rl_dpo",
    framework="NeMo-RL",
    algorithm="DPO",
    marks=(
        frozenset({"rewards_chosen_mean", "rewards_rejected_mean", "preference_loss", "sft_loss"}),
    ),
    strangers=frozenset({"acc", "rewards_all_std"}),
    keys={**LOG_RATIOS, "accuracy": Key("dpo_accuracy")},
    derived=REWARDS,
)
"""Rewards are log-ratios to the reference; beta is not in them."""
