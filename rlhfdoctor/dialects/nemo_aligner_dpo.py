"""NeMo-Aligner DPO (af2b3bd9, megatron_gpt_dpo_model.py:504-510)."""

from rlhfdoctor.dialects import Dialect, Key
from rlhfdoctor.dialects._nemo import LOG_RATIOS, REWARDS, times_beta

DIALECT = Dialect(
    name="nemo_aligner_dpo",
    framework="NeMo-Aligner",
    algorithm="DPO",
    marks=(
        frozenset(
            {"rewards_chosen_mean", "rewards_rejected_mean", "preference_loss", "sft_loss", "acc"}
        ),
        frozenset(
            {
                "rewards_chosen_mean",
                "rewards_rejected_mean",
                "preference_loss",
                "sft_loss",
                "rewards_all_std",
            }
        ),
    ),
    keys={**LOG_RATIOS, "acc": Key("dpo_accuracy")},
    derived=(*REWARDS, times_beta("dpo_reward_std", "rewards_all_std")),
)
"""Rewards are log-ratios to the reference; beta is not in them."""
