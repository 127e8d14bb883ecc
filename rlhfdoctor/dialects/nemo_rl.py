"""NeMo-RL GRPO (7ea279ab).

loss_functions.py:771-784; algorithms/grpo.py:2441-2443, 3433-3463; rollouts.py:1070-1080.
"""

from rlhfdoctor.dialects import PERCENT, Dialect, Key

DIALECT = Dialect(
    name="nemo_rl",
    framework="NeMo-RL",
    algorithm="GRPO",
    marks=(
        frozenset({"gen_kl_error", "token_mult_prob_error"}),
        frozenset({"probs_ratio", "probs_ratio_clamped", "num_valid_samples"}),
        frozenset({"mean_gen_tokens_per_sample", "natural_termination_rate"}),
    ),
    keys={
        "kl_penalty": Key(
            "kl_ref_token", "k1 or k2 or k3", "token or sequence mean; k3 by default"
        ),
        "gen_kl_error": Key("kl_train_infer_token", "k3", "token mean"),
        "policy_kl_error": Key("kl_train_infer_reverse_token", "k3", "token mean"),
        "js_divergence_error": Key("js_train_infer_token", "k3", "token mean"),
        "token_mult_prob_error": Key("prob_mult_error_train_infer", "exp_abs_log_ratio"),
        "sampling_importance_ratio": Key("is_ratio_train_infer_mean"),
        "approx_entropy": Key("neg_logp_token", "importance_weighted_sample", "token mean"),
        "probs_ratio": Key("ratio_mean"),
        "probs_ratio_clamped": Key("ratio_clamped_mean"),
        "probs_ratio_min": Key("ratio_min"),
        "probs_ratio_max": Key("ratio_max"),
        "num_valid_samples": Key("num_samples"),
        "loss": Key("loss_total"),
        "reward": Key("reward_raw_mean"),
        "filtered_reward": Key("reward_filtered_mean"),
        "grad_norm": Key("grad_norm", reduction="last optimiser step"),
        "mean_prompt_length": Key("prompt_length_mean"),
        "advantages/mean": Key("advantage_mean", reduction="token mean"),
        "advantages/max": Key("advantage_max"),
        "advantages/min": Key("advantage_min"),
        "baseline_reward/pct_0": Key("frac_group_all_zero", correction=PERCENT),
        "baseline_reward/pct_1": Key("frac_group_all_one", correction=PERCENT),
        "baseline_reward/pct_mixed": Key("frac_group_mixed", correction=PERCENT),
        "mean_gen_tokens_per_sample": Key("response_length_mean"),
        "max_gen_tokens_per_sample": Key("response_length_max"),
        "truncation_rate": Key("truncation_rate"),
        "natural_termination_rate": Key("eos_rate"),
        "lr": Key("lr"),
    },
)
"""``kl_penalty`` is 0 where beta is 0: not measured. ``approx_entropy`` is estimated from sampled
tokens, no full-vocabulary entropy."""
