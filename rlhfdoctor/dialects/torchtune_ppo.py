"""torchtune PPO (bd2a0fc7, recipes/ppo_full_finetune_single_device.py:1180-1192)."""

from rlhfdoctor.dialects import Dialect, Key

DIALECT = Dialect(
    name="torchtune_ppo",
    framework="torchtune",
    algorithm="PPO",
    marks=(frozenset({"num_stop_tokens", "rlhf_reward", "approx_policy_kl"}),),
    keys={
        "kl": Key("kl_ref_response", "k1", "sum over the response, batch mean"),
        "kl_reward": Key("kl_penalty_reward", "k1", "sum over the response"),
        "rlhf_reward": Key("reward_shaped_mean"),
        "scores": Key("reward_raw_mean"),
        "num_stop_tokens": Key("num_terminated"),
        "loss": Key("loss_total"),
        "policy_loss": Key("policy_loss"),
        "value_loss": Key("value_loss"),
        "clipfrac": Key("clip_frac"),
        "ratios": Key("ratio_mean", reduction="padding included"),
        "approx_policy_kl": Key("kl_old_token", "k2", "mean over padding too"),
        "response_lengths": Key("response_length_mean"),
        "lr": Key("lr"),
    },
)
"""``kl`` is a sum over the response; its GRPO recipe's ``kl_loss`` is a mean over tokens."""
