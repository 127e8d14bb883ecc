"""TRL PPOTrainer up to 0.11 (the ``step`` API), and trlX of 2022, which wrote the same keys.

trl 0.7.11, ppo_trainer.py:1228-1310, 1373-1375.
"""

from rlhfdoctor.dialects import Dialect, Key

DIALECT = Dialect(
    name="trl_ppo_old",
    framework="TRL",
    algorithm="PPO",
    marks=(
        frozenset({"ppo/mean_non_score_reward", "ppo/loss/total", "ppo/returns/var"}),
        frozenset({"ppo/policy/policykl", "ppo/loss/policy", "ppo/returns/var"}),
        frozenset({"ppo/policy/advantages_mean", "ppo/loss/total", "ppo/returns/var"}),
    ),
    keys={
        "objective/kl": Key(
            "kl_ref_response",
            "abs or full_vocab or k1 or k2",
            "sum over the response, batch mean",
        ),
        "objective/kl_coef": Key("kl_coef"),
        "objective/entropy": Key("neg_logp_response", "sampled_logp", "sum over the response"),
        "ppo/mean_non_score_reward": Key("kl_penalty_reward_token", reduction="token mean"),
        "ppo/mean_scores": Key("reward_raw_mean"),
        "env/reward_mean": Key("reward_raw_mean"),
        "ppo/std_scores": Key("reward_std", reduction="over the batch"),
        "env/reward_std": Key("reward_std", reduction="over the batch"),
        "ppo/policy/policykl": Key("kl_old_token", "k1", "token mean"),
        "ppo/policy/approxkl": Key("kl_old_token", "k2", "token mean"),
        "ppo/policy/entropy": Key("entropy", "full_vocab", "token mean"),
        "ppo/policy/clipfrac": Key("clip_frac"),
        "ppo/policy/advantages_mean": Key("advantage_mean", reduction="whitened"),
        "ppo/loss/policy": Key("policy_loss"),
        "ppo/loss/value": Key("value_loss"),
        "ppo/loss/total": Key("loss_total"),
        "ppo/returns/mean": Key("return_mean"),
        "ppo/returns/var": Key("return_var"),
        "ppo/val/vpred": Key("value_mean"),
        "ppo/val/error": Key("value_mse"),
        "ppo/val/clipfrac": Key("value_clip_frac"),
        "ppo/val/mean": Key("value_old_mean"),
        "ppo/val/var": Key("value_var"),
        "ppo/val/var_explained": Key("explained_variance"),
        "ppo/learning_rate": Key("lr"),
        "tokens/responses_len_mean": Key("response_length_mean"),
        "tokens/responses_len_std": Key("response_length_std"),
        "tokens/queries_len_mean": Key("prompt_length_mean"),
        "time/ppo/total": Key("step_time"),
    },
    patterns={"time/{}": Key("time_stage")},
)
"""``kl_penalty`` chooses the estimator: kl (k1, the default), abs, mse (k2) or full. Here the
penalty in the reward is a token mean, in PPOTrainer since 0.12 a sum."""
