"""safe-rlhf and align-anything DPO (3f9decc2, trainers/text_to_text/dpo.py:230-235)."""

from rlhfdoctor.dialects import Dialect, Key

_RATIO = ("log_ratio times beta", "response sum")

DIALECT = Dialect(
    name="safe_rlhf_dpo",
    framework="safe-rlhf",
    algorithm="DPO",
    marks=(
        frozenset(
            {"better_sample_reward", "worse_sample_reward", "reward_accuracy", "reward_margin"}
        ),
    ),
    keys={
        "loss": Key("loss_total"),
        "reward": Key("dpo_reward_sum", *_RATIO),
        "better_sample_reward": Key("dpo_reward_chosen", *_RATIO),
        "worse_sample_reward": Key("dpo_reward_rejected", *_RATIO),
        "reward_accuracy": Key("dpo_accuracy"),
        "reward_margin": Key("dpo_margin", *_RATIO),
        "lr": Key("lr"),
    },
)
"""``reward`` is the chosen plus the rejected reward, no reward of the policy."""
