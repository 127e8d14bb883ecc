"""What NeMo's preference trainers share: log-ratios without beta, and how they become rewards."""

from __future__ import annotations

from rlhfdoctor.dialects import Derived, Key

_SUM = "response sum, or token mean with preference_average_log_probs"
_PLAIN = ("log_ratio, without beta", _SUM)

LOG_RATIOS = {
    "rewards_chosen_mean": Key("log_ratio_chosen", *_PLAIN, unit="unknown"),
    "rewards_rejected_mean": Key("log_ratio_rejected", *_PLAIN, unit="unknown"),
    "rewards_all_std": Key("log_ratio_std", *_PLAIN, unit="unknown"),
    "rewards_margin": Key("log_ratio_margin", *_PLAIN, unit="unknown"),
    "preference_loss": Key("policy_loss"),
    "sft_loss": Key("sft_loss", unit="unknown"),
    "loss": Key("loss_total"),
    "grad_norm": Key("grad_norm"),
    "lr": Key("lr"),
}

_TEXT = "logged without beta; multiplied by the configuration's"
_INSIDE = ("log_ratio times beta", _SUM)


def times_beta(metric: str, *keys: str) -> Derived:
    """Return the reward that a log-ratio stands for, or the first key's less the second's."""
    return Derived(
        Key(metric, *_INSIDE),
        of=keys,
        settings=("kl_coef",),
        compute=(lambda one, beta: one * beta)
        if len(keys) == 1
        else (lambda one, other, beta: (one - other) * beta),
        text=_TEXT,
    )


REWARDS = (
    times_beta("dpo_reward_chosen", "rewards_chosen_mean"),
    times_beta("dpo_reward_rejected", "rewards_rejected_mean"),
    times_beta("dpo_margin", "rewards_chosen_mean", "rewards_rejected_mean"),
)
