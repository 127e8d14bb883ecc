"""safe-rlhf and align-anything: PPO, and PPO-Lag with its costs (align-anything 3f9decc2).

trainers/text_to_text/ppo.py:386-407, saferlhf.py:656-668. Trackers prefix keys with ``train/``.
"""

from rlhfdoctor.dialects import Dialect, Key

DIALECT = Dialect(
    name="safe_rlhf",
    framework="safe-rlhf",
    algorithm="PPO",
    marks=(
        frozenset({"reward_with_kl_penalty", "reward_critic_loss", "mean_generated_length"}),
        frozenset({"reward_with_kl_penalty", "reward_critic_loss", "reward_advantage"}),
    ),
    keys={
        "kl_divergence": Key("kl_ref_response", "k1", "sum over the response, batch mean"),
        "reward": Key("reward_raw_mean"),
        "reward_with_kl_penalty": Key("reward_shaped_mean", reduction="sum over the response"),
        "reward_advantage": Key("advantage_mean"),
        "reward_return": Key("return_mean"),
        "reward_value": Key("value_mean"),
        "actor_loss": Key("policy_loss"),
        "reward_critic_loss": Key("value_loss"),
        "ptx_loss": Key("sft_loss"),
        "actor_lr": Key("lr"),
        "reward_critic_lr": Key("lr_critic"),
        "mean_generated_length": Key("response_length_mean"),
        "max_generated_length": Key("response_length_max"),
        "cost": Key("cost_mean"),
        "lambda": Key("lagrange_multiplier"),
        "log_lambda": Key("log_lagrange"),
        "cost_with_kl_penalty": Key("cost_shaped_mean"),
        "cost_advantage": Key("cost_advantage_mean"),
        "cost_return": Key("cost_return_mean"),
        "cost_value": Key("cost_value_mean"),
        "cost_critic_loss": Key("cost_value_loss"),
    },
)
"""``kl_divergence`` is a sum over the response, without its coefficient."""
