"""NeMo-Aligner KTO (af2b3bd9, megatron_gpt_kto_model.py:335-340)."""

from rlhfdoctor.dialects import Dialect, Key
from rlhfdoctor.dialects._nemo import LOG_RATIOS, times_beta

DIALECT = Dialect(
    name="nemo_aligner_kto",
    framework="NeMo-Aligner",
    algorithm="KTO",
    marks=(
        frozenset({"rewards_chosen_mean", "rewards_rejected_mean", "rewards_margin", "kl", "loss"}),
        frozenset(
            {
                "rewards_chosen_mean",
                "rewards_rejected_mean",
                "rewards_all_mean",
                "rewards_all_std",
                "kl",
            }
        ),
    ),
    strangers=frozenset({"rewards/chosen"}),
    keys={
        **LOG_RATIOS,
        "kl": Key("kto_kl_baseline", "k1, clamped at 0", "response sum over mismatched pairs"),
    },
    derived=(times_beta("dpo_margin", "rewards_margin"),),
)
"""``kl`` is KTO's baseline, no drift of the policy; beta is in none of its numbers."""
