"""PPO scripts in the style of summarize_from_feedback_details and lm_human_preference_details.

Single-file scripts: ``objective/*``, ``ppo/*_avg`` in tensorboard, one line an epoch in the
console.
"""

from rlhfdoctor.dialects import Dialect, Key

_OLD = Key("kl_old_token", "k2", "mean over padding too")
_ENTROPY = Key("entropy", "full_vocab", "mean over padding too")

DIALECT = Dialect(
    name="summarize_details",
    framework="summarize_from_feedback_details",
    algorithm="PPO",
    marks=(
        frozenset({"objective/score_total", "ppo/policy/approxkl_avg"}),
        frozenset({"ppo/policy/approxkl_avg", "ppo/loss/policy_avg"}),
        frozenset({"ppo_epoch_idx", "approxkl", "pg_loss", "pg_clipfrac", "ratio"}),
    ),
    keys={
        "objective/kl": Key("kl_ref_response", "k1", "sum over the response, batch mean"),
        "objective/kl_coef": Key("kl_coef"),
        "objective/entropy": Key(
            "neg_logp_response", "sampled_logp", "sum over the padded response"
        ),
        "objective/non_score_reward": Key("kl_penalty_reward", "k1", "sum over the response"),
        "objective/score_total": Key("reward_shaped_mean"),
        "objective/scores": Key("reward_raw_mean"),
        "objective/validation_score": Key("heldout_reward"),
        "ppo/policy/approxkl_avg": _OLD,
        "ppo/policy/approxkl": _OLD,
        "approxkl": _OLD,
        "ppo/policy/entropy_avg": _ENTROPY,
        "ppo/policy/entropy": _ENTROPY,
        "ppo/policy/clipfrac_avg": Key("clip_frac"),
        "ppo/policy/clipfrac": Key("clip_frac"),
        "pg_clipfrac": Key("clip_frac"),
        "ppo/loss/policy_avg": Key("policy_loss"),
        "ppo/loss/policy": Key("policy_loss"),
        "pg_loss": Key("policy_loss"),
        "ppo/loss/value_avg": Key("value_loss"),
        "ppo/loss/value": Key("value_loss"),
        "ppo/loss/total": Key("loss_total"),
        "ppo/val/clipfrac_avg": Key("value_clip_frac"),
        "ppo/val/ratio": Key("ratio_mean"),
        "ppo/val/ratio_avg": Key("ratio_mean"),
        "ratio": Key("ratio_mean"),
        "ppo/val/ratio_var": Key("ratio_var"),
        "ppo/val/num_eos_tokens": Key("num_eos_tokens"),
        "ppo/val/vpred": Key("value_mean"),
        "ppo/val/mean": Key("value_old_mean"),
        "ppo/val/var": Key("value_var"),
        "ppo/val/error": Key("value_mse"),
        "ppo/val/advantage": Key("advantage_mean"),
        "ppo/returns/mean": Key("return_mean"),
        "ppo/returns/var": Key("return_var"),
        "ppo/lr": Key("lr"),
        "ppo/episode": Key("episodes"),
        "ppo/eps": Key("episodes_per_second"),
    },
)
"""``mean_kl = kl.sum(1).mean()``: nats per response. Padding positions are inside the means, so
that they are thinner than means over tokens."""
