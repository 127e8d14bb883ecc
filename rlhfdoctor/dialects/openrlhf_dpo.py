"""OpenRLHF DPOTrainer (0.11.0, dpo_trainer.py:189-206)."""

from rlhfdoctor.dialects import Dialect, Key

_RATIO = ("log_ratio times beta", "response sum")

DIALECT = Dialect(
    name="openrlhf_dpo",
    framework="OpenRLHF",
    algorithm="DPO",
    marks=(
        frozenset({"chosen_reward", "reject_reward", "loss", "acc", "lr", "loss_mean", "acc_mean"}),
    ),
    strangers=frozenset({"reward_mean"}),
    keys={
        "loss_mean": Key("loss_total", reduction="mean of the accumulation window"),
        "loss": Key("loss_total", reduction="last micro-batch"),
        "acc_mean": Key("dpo_accuracy", reduction="mean of the accumulation window, rank 0"),
        "acc": Key("dpo_accuracy", reduction="last micro-batch"),
        "chosen_reward": Key("dpo_reward_chosen", *_RATIO),
        "reject_reward": Key("dpo_reward_rejected", *_RATIO),
        "nll_loss": Key("sft_loss"),
        "grad_norm": Key("grad_norm"),
        "lr": Key("lr"),
    },
)
"""Rewards and the accuracy without ``_mean`` are those of the last micro-batch alone."""
