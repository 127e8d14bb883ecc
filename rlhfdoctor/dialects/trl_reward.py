"""TRL RewardTrainer: a reward model learns (1.10.0.dev0, reward_trainer.py:203, 766-772)."""

from rlhfdoctor.dialects import Dialect, Key
from rlhfdoctor.dialects._hf import TRAINER

DIALECT = Dialect(
    name="trl_reward",
    framework="TRL",
    algorithm="reward model",
    marks=(
        frozenset(
            {
                "accuracy",
                "margin",
                "min_reward",
                "mean_reward",
                "max_reward",
                "loss",
                "learning_rate",
                "grad_norm",
            }
        ),
    ),
    keys={
        **TRAINER,
        "accuracy": Key("rm_accuracy"),
        "margin": Key("rm_margin"),
        "min_reward": Key("reward_min"),
        "mean_reward": Key("reward_raw_mean", reduction="over chosen and rejected"),
        "max_reward": Key("reward_max"),
    },
    log_offset=1,
)
"""Scores of a reward model that is being trained; nothing here is a policy's reward."""
