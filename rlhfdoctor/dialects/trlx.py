"""trlX PPO (3340c2f3).

accelerate_ppo_trainer.py:373-376, 509-519; modeling_ppo.py:221-235; accelerate_base_trainer.py:447.
"""

from rlhfdoctor.dialects import Correction, Dialect, Key

_SQUARED = Correction("the logged number is the square root of a KL; squared", lambda root: root**2)

DIALECT = Dialect(
    name="trlx",
    framework="trlX",
    upon=frozenset({"TRL"}),
    algorithm="PPO",
    marks=(
        frozenset({"policy/sqrt_kl", "kl_ctl_value"}),
        frozenset({"losses/total_loss", "losses/policy_loss", "values/values_error"}),
        frozenset({"losses/policy_loss", "padding_percentage", "values/values_error"}),
        frozenset({"rollout_scores/running_mean", "rollout_scores/running_std"}),
    ),
    keys={
        "policy/sqrt_kl": Key(
            "kl_ref_response", "k3", "sum over prompt and response, batch mean", correction=_SQUARED
        ),
        "policy/kl_per_token": Key(
            "kl_ref_token_diluted", "k3", "mean over prompt and padding too", correction=_SQUARED
        ),
        "policy/approx_kl": Key("kl_old_token", "k3", "mean over padding too"),
        "kl_ctl_value": Key("kl_coef"),
        "rollout_scores/mean": Key("reward_raw_mean"),
        "rollout_scores/std": Key("reward_std", reduction="over the batch"),
        "rollout_scores/running_mean": Key("reward_running_mean"),
        "rollout_scores/running_std": Key("reward_running_std"),
        "losses/total_loss": Key("loss_total"),
        "losses/policy_loss": Key("policy_loss"),
        "losses/value_loss": Key("value_loss"),
        "policy/clipfrac": Key("clip_frac"),
        "ratio": Key("ratio_mean"),
        "values/values_error": Key("value_mse"),
        "values/clipfrac": Key("value_clip_frac"),
        "returns/mean": Key("return_mean"),
        "padding_percentage": Key("padding_frac"),
        "reward/mean": Key("heldout_reward"),
        "learning_rate_group_0": Key("lr"),
    },
    patterns={"time/{}": Key("time_stage")},
)
"""Both KL keys are square roots, the second in spite of its name. ``padding_percentage`` is a
fraction; ``reward/mean`` is measured at evaluations."""
