"""Logs of no known trainer: names that mean the same everywhere, and units left open.

A KL becomes ``kl_unknown`` and an entropy ``entropy_unknown``: no band judges them. The user states
the unit with ``--map kl=kl_ref_token``. Names are compared as ``plain`` spells them:
``Avg Response Len`` is ``response_length``. A name that means two
things is no name here: ``clip_ratio`` (a share of clipped tokens, or of cut responses),
``kl_penalty`` (with its coefficient, or without), ``entropy_loss`` (often negated), ``perplexity``
(of which text?). A share in percent (``accuracy (%)``, ``truncated_pct``) is divided by 100;
anything else in percent (``reward (%)``) is no metric.
"""

from rlhfdoctor.dialects import Dialect, Key
from rlhfdoctor.dialects._spelling import plain

_TOKENS = Key("response_length_mean")
_LENGTH = Key("response_length_mean", unit="unknown")

_HELD_OUT = ("heldout", "held_out", "holdout")

_NAMES: tuple[tuple[Key, tuple[str, ...]], ...] = (
    (Key("loss_total"), ("loss", "total_loss", "grpo_loss", "ppo_loss", "dpo_loss", "rl_loss")),
    (
        Key("policy_loss"),
        ("policy_loss", "actor_loss", "policy_gradient_loss", "surrogate_loss"),
    ),
    (Key("value_loss"), ("value_loss", "critic_loss", "value_function_loss")),
    (Key("grad_norm"), ("grad_norm", "actor_grad_norm", "policy_grad_norm")),
    (Key("grad_norm_critic"), ("critic_grad_norm", "value_grad_norm")),
    (Key("lr"), ("learning_rate", "actor_lr", "policy_lr", "optim_lr")),
    (Key("lr_critic"), ("critic_lr", "value_lr")),
    (
        Key("reward_raw_mean"),
        (
            "reward",
            "raw_reward",
            "batch_reward",
            "env_reward",
            "episode_reward",
            "reward_score",
            "rm_score",
            "rm_reward",
            "reward_model_score",
            "objective_scores",
            "reward_raw_score",
        ),
    ),
    (Key("reward_std"), ("reward_std", "reward_score_std")),
    (Key("reward_min"), ("reward_min",)),
    (Key("reward_max"), ("reward_max",)),
    (Key("reward_group_std"), ("group_reward_std", "within_group_std", "reward_std_within_group")),
    (
        Key("frac_reward_zero_std"),
        (
            "frac_reward_zero_std",
            "frac_zero_std",
            "zero_std_ratio",
            "zero_std_rate",
            "reward_zero_std_ratio",
            "zero_variance_frac",
            "zero_variance_group_frac",
            "degenerate_group_frac",
        ),
    ),
    (
        Key("kl_unknown"),
        (
            "kl_ref",
            "kl_to_ref",
            "ref_kl_divergence",
            "kl_policy_ref",
            "kl",
            "kl_divergence",
            "kl_value",
            "kl_estimate",
            "objective_kl",
            "sequence_kl",
            "token_kl",
            "kl_per_token",
            "kl_loss",
            "approx_kl",
            "approx_kl_divergence",
            "policy_kl",
            "ppo_kl",
            "kl_old",
        ),
    ),
    (Key("kl_coef"), ("kl_coef", "kl_beta", "kl_coef_beta", "kl_ctl_value")),
    (
        Key("entropy_unknown"),
        ("entropy", "policy_entropy", "actor_entropy", "token_entropy", "entropy_per_token"),
    ),
    (
        _TOKENS,
        (
            "response_tokens",
            "response_tokens_per_sample",
            "num_response_tokens",
            "response_length_tokens",
        ),
    ),
    (_LENGTH, ("response_length", "length", "sequence_response_length", "answer_length")),
    (Key("response_length_max"), ("max_response_tokens",)),
    (Key("response_length_min"), ("min_response_tokens",)),
    (Key("response_length_max", unit="unknown"), ("response_length_max",)),
    (Key("response_length_min", unit="unknown"), ("response_length_min",)),
    (Key("response_length_std", unit="unknown"), ("response_length_std",)),
    (
        Key("truncation_rate"),
        (
            "truncation_rate",
            "truncated_ratio",
            "truncated_frac",
            "response_truncated_rate",
            "response_truncated_ratio",
            "response_clipped_ratio",
            "clipped_ratio",
        ),
    ),
    (Key("truncated_count"), ("truncated_count", "num_truncated", "n_truncated")),
    (Key("eos_rate"), ("eos_rate", "eos_frac", "eos_ratio", "finished_rate", "terminated_frac")),
    (
        Key("success_rate"),
        ("accuracy", "success_rate", "solve_rate", "correct", "correct_rate", "correctness"),
    ),
    (
        Key("heldout_score"),
        (
            "heldout_accuracy",
            "holdout_accuracy",
            "held_out_accuracy",
            "heldout_score",
            "heldout_success_rate",
            "heldout_pass_rate",
        ),
    ),
    (Key("heldout_reward"), ("heldout_reward", "holdout_reward", "held_out_reward")),
    (Key("format_rate"), ("format_rate", "format_ok", "fmt", "format_accuracy")),
    (
        Key("clip_frac"),
        ("clip_frac", "policy_clip_frac", "ratio_clip_frac", "ppo_clip_frac", "actor_clip_frac"),
    ),
    (Key("value_clip_frac"), ("value_clip_frac",)),
    (Key("ratio_mean"), ("ratio", "importance_ratio", "policy_ratio", "prob_ratio")),
    (Key("ratio_max"), ("ratio_max", "importance_ratio_max")),
    (Key("advantage_mean"), ("advantage",)),
    (Key("advantage_std"), ("advantage_std",)),
    (Key("advantage_min"), ("advantage_min",)),
    (Key("advantage_max"), ("advantage_max",)),
    (Key("explained_variance"), ("explained_variance", "value_explained_variance")),
    (Key("value_mean"), ("value_prediction", "value_estimate", "vpred")),
    (Key("return_mean"), ("return",)),
    (Key("dpo_reward_chosen", unit="unknown"), ("chosen_reward",)),
    (Key("dpo_reward_rejected", unit="unknown"), ("rejected_reward",)),
    (Key("dpo_margin", unit="unknown"), ("reward_margin", "dpo_margin", "chosen_rejected_margin")),
    (
        Key("dpo_accuracy"),
        ("reward_accuracy", "preference_accuracy", "pair_accuracy", "dpo_accuracy"),
    ),
    (Key("step_time"), ("step_time", "time_per_step", "seconds_per_step")),
)

DIALECT = Dialect(
    name="generic",
    framework="unknown",
    algorithm="unknown",
    normalised=True,
    patterns={f"{word}_{{}}_rate": Key("heldout_rate") for word in _HELD_OUT},
    keys={plain(name): meaning for meaning, names in _NAMES for name in names},
)
