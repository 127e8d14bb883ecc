"""torchtune GRPO (bd2a0fc7, recipes/dev/grpo_full_finetune_distributed.py:927-935)."""

from rlhfdoctor.dialects import Dialect, Key

DIALECT = Dialect(
    name="torchtune_grpo",
    framework="torchtune",
    algorithm="GRPO",
    marks=(
        frozenset(
            {"successes", "rewards", "approx_policy_kl", "clipfrac", "ratios", "response_lengths"}
        ),
    ),
    keys={
        "kl_loss": Key("kl_ref_token", "k3", "token mean"),
        "rewards": Key("reward_raw_mean"),
        "successes": Key("success_rate"),
        "approx_policy_kl": Key("kl_old_token", "k2", "token mean"),
        "clipfrac": Key("clip_frac"),
        "ratios": Key("ratio_mean"),
        "loss": Key("loss_total"),
        "policy_loss": Key("policy_loss"),
        "lr": Key("lr"),
        "response_lengths": Key("response_length_mean"),
    },
    never_negative=frozenset({"kl_loss"}),
)
"""``kl_loss`` carries no coefficient."""
