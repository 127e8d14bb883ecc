"""Logs of no known trainer: names that mean the same everywhere, and units left open.

A KL becomes ``kl_unknown`` and an entropy ``entropy_unknown``: no band judges them. The user states
the unit with ``--map kl=kl_ref_token``.
"""

from rlhfdoctor.dialects import Dialect, Key

_REWARD = Key("reward_raw_mean")
_KL = Key("kl_unknown")
_LENGTH = Key("response_length_mean", unit="unknown")
_ENTROPY = Key("entropy_unknown")

DIALECT = Dialect(
    name="generic",
    framework="unknown",
    algorithm="unknown",
    keys={
        "loss": Key("loss_total"),
        "train_loss": Key("loss_total"),
        "train/loss": Key("loss_total"),
        "total_loss": Key("loss_total"),
        "policy_loss": Key("policy_loss"),
        "pg_loss": Key("policy_loss"),
        "value_loss": Key("value_loss"),
        "critic_loss": Key("value_loss"),
        "grad_norm": Key("grad_norm"),
        "train/grad_norm": Key("grad_norm"),
        "learning_rate": Key("lr"),
        "lr": Key("lr"),
        "train/learning_rate": Key("lr"),
        "reward": _REWARD,
        "mean_reward": _REWARD,
        "reward_mean": _REWARD,
        "reward/mean": _REWARD,
        "rewards/mean": _REWARD,
        "train/reward": _REWARD,
        "reward_std": Key("reward_std"),
        "frac_reward_zero_std": Key("frac_reward_zero_std"),
        "kl": _KL,
        "kl_div": _KL,
        "kl_divergence": _KL,
        "mean_kl": _KL,
        "kl_loss": _KL,
        "train/kl": _KL,
        "objective/kl": _KL,
        "entropy": _ENTROPY,
        "mean_entropy": _ENTROPY,
        "policy/entropy": _ENTROPY,
        "train/entropy": _ENTROPY,
        "response_length": _LENGTH,
        "mean_length": _LENGTH,
        "completion_length": _LENGTH,
        "response_length_mean": _LENGTH,
        "avg_gen_tokens": Key("response_length_mean"),
        "clipped_ratio": Key("truncation_rate"),
        "truncation_rate": Key("truncation_rate"),
        "rewards/chosen": Key("dpo_reward_chosen", unit="unknown"),
        "rewards/rejected": Key("dpo_reward_rejected", unit="unknown"),
        "rewards/margins": Key("dpo_margin", unit="unknown"),
        "rewards/accuracies": Key("dpo_accuracy"),
    },
)
