"""verl: PPO, GRPO and their kin (0.3.0.post1 to 0.9).

metric_utils.py:536-687, core_algos.py:1340-1374, losses.py:119-202, ray_trainer.py:115, 734-1779,
rollout_corr_helper.py, debug/metrics.py:117-120.
"""

from rlhfdoctor.dialects import Change, Dialect, Key

_KL_LOSS = Key("kl_ref_token", "abs or k1 or k2 or k3", "loss_agg_mode; token mean by default")
_KL_REWARD = Key(
    "kl_ref_token", "abs or k1 or k2 or k3", "token mean of a response, batch mean; k1 by default"
)
_ENTROPY = Key("entropy", "full_vocab", "loss_agg_mode; token mean by default")
_SUMMED = {
    "actor/kl_loss": Key("kl_unknown", "k1 or k3", "perhaps summed over mini-batches and epochs"),
    "actor/pg_loss": Key("policy_loss", reduction="summed over mini-batches and epochs"),
}
_MEAN = {"actor/kl_loss": _KL_LOSS, "actor/pg_loss": Key("policy_loss")}

DIALECT = Dialect(
    name="verl",
    framework="verl",
    algorithm="PPO or GRPO",
    marks=(
        frozenset({"actor/pg_loss", "actor/pg_clipfrac", "actor/ppo_kl"}),
        frozenset({"critic/score/mean", "critic/rewards/mean", "critic/advantages/mean"}),
        frozenset({"critic/score/mean", "response_length/clip_ratio", "prompt_length/clip_ratio"}),
    ),
    keys={
        "actor/reward_kl_penalty": _KL_REWARD,
        "critic/kl": _KL_REWARD,
        "actor/kl_loss": _SUMMED["actor/kl_loss"],
        "actor/reward_kl_penalty_coeff": Key("kl_coef"),
        "critic/kl_coeff": Key("kl_coef"),
        "actor/kl_coef": Key("kl_coef"),
        "actor/ppo_kl": Key("kl_old_token", "k1", "token mean"),
        "actor/entropy": _ENTROPY,
        "actor/entropy_loss": _ENTROPY,
        "actor/pg_loss": Key("policy_loss"),
        "actor/loss": Key("loss_total"),
        "actor/pg_clipfrac": Key("clip_frac"),
        "actor/pg_clipfrac_lower": Key("dual_clip_frac"),
        "actor/grad_norm": Key("grad_norm", reduction="mean over mini-batches"),
        "actor/lr": Key("lr"),
        "critic/score/mean": Key("reward_raw_mean", reduction="sum over the response"),
        "critic/score/max": Key("reward_max"),
        "critic/score/min": Key("reward_min"),
        "critic/rewards/mean": Key("reward_shaped_mean", reduction="sum over the response"),
        "critic/rewards/max": Key("reward_shaped_max"),
        "critic/rewards/min": Key("reward_shaped_min"),
        "critic/advantages/mean": Key("advantage_mean", reduction="token mean"),
        "critic/advantages/max": Key("advantage_max"),
        "critic/advantages/min": Key("advantage_min"),
        "critic/returns/mean": Key("return_mean", reduction="token mean"),
        "critic/returns/max": Key("return_max"),
        "critic/returns/min": Key("return_min"),
        "critic/values/mean": Key("value_mean", reduction="token mean"),
        "critic/vpred_mean": Key("value_mean", reduction="token mean"),
        "critic/values/max": Key("value_max"),
        "critic/values/min": Key("value_min"),
        "critic/vf_explained_var": Key("explained_variance"),
        "critic/vf_loss": Key("value_loss"),
        "critic/vf_clipfrac": Key("value_clip_frac"),
        "critic/grad_norm": Key("grad_norm_critic"),
        "critic/lr": Key("lr_critic"),
        "response_length/mean": Key("response_length_mean", reduction="empty ones included"),
        "response_length/max": Key("response_length_max"),
        "response_length/min": Key("response_length_min"),
        "response_length/clip_ratio": Key("truncation_rate"),
        "response_length_non_aborted/mean": Key("response_length_nonempty_mean"),
        "response_length_non_aborted/max": Key("response_length_nonempty_max"),
        "response_length_non_aborted/min": Key("response_length_nonempty_min"),
        "response_length_non_aborted/clip_ratio": Key("truncation_rate_nonempty"),
        "response/aborted_ratio": Key("aborted_rate"),
        "prompt_length/mean": Key("prompt_length_mean"),
        "prompt_length/max": Key("prompt_length_max"),
        "prompt_length/min": Key("prompt_length_min"),
        "prompt_length/clip_ratio": Key("prompt_truncation_rate"),
        "num_turns/mean": Key("num_turns_mean"),
        "tool_call_counts/mean": Key("tool_calls_per_sample"),
        "perf/total_num_tokens": Key("batch_tokens"),
        "perf/time_per_step": Key("step_time"),
        "perf/throughput": Key("throughput", reduction="of one GPU"),
        "perf/max_memory_allocated_gb": Key("gpu_mem_allocated"),
        "perf/max_memory_reserved_gb": Key("gpu_mem_reserved"),
        "perf/mfu/actor": Key("mfu"),
        "mfu/actor": Key("mfu"),
        "variance_proxy/proxy1_signal_strength": Key("grad_signal_strength"),
        "rollout_corr/kl": Key("kl_train_infer_token", "k1", "token mean"),
        "rollout_corr/k3_kl": Key("kl_train_infer_token", "k3", "token mean"),
        "rollout_corr/training_ppl": Key("ppl_policy", reduction="mean over responses"),
        "rollout_corr/training_log_ppl": Key("log_ppl_policy"),
        "rollout_corr/rollout_ppl": Key("ppl_rollout"),
        "rollout_corr/rollout_log_ppl": Key("log_ppl_rollout"),
        "rollout_corr/log_ppl_diff": Key("log_ppl_diff_train_infer"),
        "rollout_corr/log_ppl_abs_diff": Key("log_ppl_absdiff_train_infer"),
        "rollout_corr/ppl_ratio": Key("ppl_ratio_train_infer"),
        "rollout_corr/chi2_token": Key("chi2_train_infer"),
        "rollout_corr/chi2_seq": Key("chi2_train_infer_seq"),
        "rollout_corr/rollout_is_mean": Key("is_ratio_train_infer_mean"),
        "rollout_corr/rollout_is_max": Key("is_ratio_train_infer_max"),
        "rollout_corr/rollout_is_eff_sample_size": Key("is_ess"),
        "rollout_corr/rollout_rs_masked_fraction": Key("rejection_frac"),
        "training/rollout_probs_diff_mean": Key("prob_diff_train_infer_mean"),
        "training/rollout_probs_diff_max": Key("prob_diff_train_infer_max"),
        "training/rollout_probs_diff_std": Key("prob_diff_train_infer_std"),
        "training/rollout_actor_probs_pearson_corr": Key("prob_corr_train_infer"),
        "training/off_policy/trajectory_staleness/mean": Key("staleness_mean"),
        "val-aux/num_turns/mean": Key("heldout_turns"),
    },
    patterns={
        "val-core/{}": Key("heldout_score"),
        "val-aux/{}": Key("heldout_score"),
        "val/test_score/{}": Key("heldout_score"),
        "gdpo/{}/mean": Key("reward_component_mean"),
        "timing_s/{}": Key("time_stage"),
        "timing_per_token_ms/{}": Key("time_stage_per_token"),
    },
    changes=(
        Change(
            since="0.7.0",
            before=_MEAN,
            after=_SUMMED,
            older=frozenset({"critic/kl", "critic/kl_coeff", "actor/entropy_loss"}),
        ),
        Change(since="0.8.0", before={}, after=_MEAN, newer=frozenset({"actor/loss"})),
    ),
    log_offset=1,
)
"""``clip_ratio`` is the share of responses at the length limit, no clipping of ratios.
``ppo_kl`` is the KL to the policy that sampled: near 0 on the first mini-batch. No coefficient
is in any KL. 0.7.0 and 0.7.1 sum ``kl_loss`` over mini-batches and epochs (dp_actor.py:536), so
that its unit is open where nothing tells the version; they write 0 where the KL loss is off."""
