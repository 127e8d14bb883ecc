"""MiniMind GRPO: console lines and tracker keys (trainer/train_grpo.py).

``kl_ref_val = ((ref_per_token_logps - per_token_logps) * mask).sum() / mask.sum()``.
"""

from rlhfdoctor.dialects import Correction, Dialect, Key

_KL = Key(
    "kl_ref_token",
    "k1",
    "token mean",
    correction=Correction("logged as reference less policy, minus k1; negated", lambda kl: -kl),
)

DIALECT = Dialect(
    name="minimind_grpo",
    framework="MiniMind",
    algorithm="GRPO",
    marks=(
        frozenset({"KL_ref", "Adv Std", "Adv Mean", "Avg Response Len"}),
        frozenset(
            {
                "reward",
                "kl_ref",
                "advantages_std",
                "advantages_mean",
                "policy_loss",
                "avg_response_len",
                "learning_rate",
            }
        ),
    ),
    strangers=frozenset({"loss", "entropy", "grad_norm", "reward_std"}),
    keys={
        "KL_ref": _KL,
        "kl_ref": _KL,
        "Reward": Key("reward_raw_mean"),
        "reward": Key("reward_raw_mean"),
        "Adv Std": Key("advantage_std"),
        "advantages_std": Key("advantage_std"),
        "Adv Mean": Key("advantage_mean"),
        "advantages_mean": Key("advantage_mean"),
        "Actor Loss": Key("policy_loss", reduction="last micro-batch"),
        "policy_loss": Key("policy_loss", reduction="last micro-batch"),
        "Avg Response Len": Key("response_length_mean"),
        "avg_response_len": Key("response_length_mean"),
        "Learning Rate": Key("lr"),
        "learning_rate": Key("lr"),
    },
)
"""The loss uses k3; what is logged is minus k1, and falls below 0 where the policy drifts."""
