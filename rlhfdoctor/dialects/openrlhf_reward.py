"""OpenRLHF RewardModelTrainer: a reward model learns (0.11.0, rm_trainer.py:298-300)."""

from rlhfdoctor.dialects import Dialect, Key

DIALECT = Dialect(
    name="openrlhf_reward",
    framework="OpenRLHF",
    algorithm="reward model",
    marks=(
        frozenset(
            {
                "chosen_reward",
                "reject_reward",
                "loss",
                "acc",
                "lr",
                "loss_mean",
                "acc_mean",
                "reward_mean",
                "reward_std",
            }
        ),
    ),
    keys={
        "reward_mean": Key("reward_raw_mean", reduction="over the evaluation"),
        "reward_std": Key("reward_std", reduction="over the evaluation"),
        "acc_mean": Key("rm_accuracy"),
        "acc": Key("rm_accuracy", reduction="last micro-batch"),
        "chosen_reward": Key("rm_score_chosen", reduction="last micro-batch"),
        "loss_mean": Key("loss_total", reduction="mean of the accumulation window"),
        "loss": Key("loss_total", reduction="last micro-batch"),
        "lr": Key("lr"),
    },
)
"""Training rows look like those of its DPO trainer; only the evaluation tells them apart."""
