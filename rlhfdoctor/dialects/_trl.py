"""Keys that every Hugging Face trainer writes (transformers 5.24.0, trainer.py:2262-2266, 4202)."""

from rlhfdoctor.dialects import Key

TRAINER = {
    "loss": Key("loss_total", reduction="mean since the last log; non-finite steps are filtered"),
    "grad_norm": Key("grad_norm", reduction="last step of the window"),
    "learning_rate": Key("lr"),
    "num_tokens": Key("num_tokens"),
    "num_input_tokens_seen": Key("num_tokens"),
    "step_time": Key("step_time"),
    "aux_loss": Key("moe_aux_loss"),
}

COMPLETIONS = {
    "reward": Key("reward_raw_mean"),
    "reward_std": Key(
        "reward_std", reduction="within groups before TRL 1.6.0, over the batch since"
    ),
    "frac_reward_zero_std": Key("frac_reward_zero_std"),
    "entropy": Key("entropy", "full_vocab", "token mean"),
    "completions/mean_length": Key("response_length_mean"),
    "completion_length": Key("response_length_mean"),
    "completions/min_length": Key("response_length_min"),
    "completions/max_length": Key("response_length_max"),
    "completions/clipped_ratio": Key("truncation_rate"),
    "completions/mean_terminated_length": Key("response_length_terminated_mean"),
    "completions/min_terminated_length": Key("response_length_terminated_min"),
    "completions/max_terminated_length": Key("response_length_terminated_max"),
    "clip_ratio/region_mean": Key("clip_frac"),
    "clip_ratio": Key("clip_frac"),
    "clip_ratio/low_mean": Key("clip_frac_low"),
    "clip_ratio/low_min": Key("clip_frac_low_min"),
    "clip_ratio/high_mean": Key("clip_frac_high"),
    "clip_ratio/high_max": Key("clip_frac_high_max"),
    "cispo_clip_ratio": Key("clip_frac_high"),
    "policy_loss": Key("policy_loss"),
    "entropy_coef": Key("entropy_coef"),
    "sampling/sampling_logp_difference/mean": Key("logp_diff_train_infer_mean", "abs_log_ratio"),
    "sampling/sampling_logp_difference/max": Key("logp_diff_train_infer_max", "abs_log_ratio"),
    "sampling/importance_sampling_ratio/min": Key("is_ratio_train_infer_min"),
    "sampling/importance_sampling_ratio/mean": Key("is_ratio_train_infer_mean"),
    "sampling/importance_sampling_ratio/max": Key("is_ratio_train_infer_max"),
    "tools/call_frequency": Key("tool_calls_per_sample"),
    "tools/failure_frequency": Key("tool_failure_rate"),
}
"""Keys that GRPOTrainer and RLOOTrainer share (trl 1.16.0 and 0.15.2, grpo_trainer.py)."""

COMPONENTS = {
    "rewards/{}/mean": Key("reward_component_mean"),
    "rewards/{}/std": Key("reward_component_std"),
    "rewards/{}": Key("reward_component_mean"),
}

COMPLETION_MARKS = (
    frozenset({"completions/mean_length", "reward_std"}),
    frozenset({"completion_length", "reward_std"}),
)

PREFERENCE_KEYS = frozenset({"rewards/chosen", "rewards/rejected"})
