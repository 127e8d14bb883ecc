"""Keys that TRL's trainers share (trl 1.10.0.dev0 f2cd5771, 0.24.0, 0.15.2)."""

from __future__ import annotations

from rlhfdoctor.dialects import Change, Key
from rlhfdoctor.dialects._hf import LOGGED, TRAINER

COMPLETIONS = {
    "reward": Key("reward_raw_mean"),
    "reward_std": Key(
        "reward_std", reduction="within groups before TRL 1.6.0, over the batch since"
    ),
    "frac_reward_zero_std": Key("frac_reward_zero_std"),
    "zero_std_ratio": Key("frac_reward_zero_std"),
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
    "vespo/phi_seq_mean": Key("ratio_weight_mean"),
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
"""Keys that GRPOTrainer and RLOOTrainer share (grpo_trainer.py)."""

COMPONENTS = {
    "rewards/{}/mean": Key("reward_component_mean"),
    "rewards/{}/std": Key("reward_component_std"),
    "rewards/{}": Key("reward_component_mean"),
}

COMPLETION_MARKS = (LOGGED | {"completions/mean_length", "reward_std"},)

GRPO_MARKS = (
    *COMPLETION_MARKS,
    LOGGED | {"completion_length", "reward_std", "reward", "grad_norm"},
)
"""Up to 0.16 GRPOTrainer wrote ``completion_length``; RLOOTrainer had no such key before 0.22."""

REWARD_STD = Change(
    since="1.6.0",
    before={"reward_std": Key("reward_group_std")},
    after={"reward_std": Key("reward_std", reduction="over the batch")},
    older=frozenset({"completion_length"}),
)
"""``reward_std`` is the mean within groups up to 1.5, over the whole batch since (commit 1c7c7f98);
``completion_length`` was its neighbour up to 0.16."""

PREFERENCE_KEYS = frozenset({"rewards/chosen", "rewards/rejected"})

PREFERENCE_MARKS = (LOGGED | PREFERENCE_KEYS | {"rewards/accuracies", "rewards/margins"},)

UNPAIRED_MARKS = (LOGGED | PREFERENCE_KEYS | {"rewards/margins", "logps/chosen"},)
"""The same of KTO and BCO, whose data are no pairs: they log no accuracies."""

PAIRS = (*UNPAIRED_MARKS, *PREFERENCE_MARKS)
"""The same, of trainers that may log accuracies."""

LOGITS = {"logits/chosen": Key("logit_chosen"), "logits/rejected": Key("logit_rejected")}

LOGPS = {
    "logps/chosen": Key("logp_chosen", reduction="response sum"),
    "logps/rejected": Key("logp_rejected", reduction="response sum"),
}

LOGPS_TOKEN = {
    "logps/chosen": Key("logp_chosen_token", reduction="token mean"),
    "logps/rejected": Key("logp_rejected_token", reduction="token mean"),
}

PREFERENCES = {
    **TRAINER,
    "rewards/chosen": Key("dpo_reward_chosen", "log_ratio times beta", "response sum"),
    "rewards/rejected": Key("dpo_reward_rejected", "log_ratio times beta", "response sum"),
    "rewards/margins": Key("dpo_margin", "log_ratio times beta", "response sum"),
    "rewards/accuracies": Key("dpo_accuracy"),
    **LOGPS,
    **LOGITS,
    "entropy": Key("entropy", "full_vocab", "token mean, of the data's answers"),
    "mean_token_accuracy": Key("token_accuracy"),
    "nll_loss": Key("sft_loss"),
}
"""Keys of DPOTrainer (dpo_trainer.py:1596-1653): rewards are beta x the log-ratio to the reference,
summed over the response."""

_WITHOUT = ("logp times beta, no reference", "token mean or response sum")

WITHOUT_REFERENCE = {
    **PREFERENCES,
    "rewards/chosen": Key("dpo_reward_chosen", *_WITHOUT, unit="unknown"),
    "rewards/rejected": Key("dpo_reward_rejected", *_WITHOUT, unit="unknown"),
    "rewards/margins": Key("dpo_margin", *_WITHOUT, unit="unknown"),
}
"""ORPO, CPO and SimPO call beta x the log-probability itself a reward: at the start it is far from
0, and no unit of a log-ratio to a reference is its unit."""

ROLLOUTS = {
    **TRAINER,
    "objective/kl": Key("kl_ref_response", "k1", "sum over the response, batch mean"),
    "objective/entropy": Key("neg_logp_response", "sampled_logp", "sum over the padded response"),
    "objective/non_score_reward": Key("kl_penalty_reward", "k1", "sum over the response"),
    "objective/rlhf_reward": Key("reward_shaped_mean"),
    "objective/scores": Key("reward_raw_mean"),
}
"""What the trainers with ``objective/*`` keys share (ppo_trainer.py:882-895)."""

PPO_MARKS = (
    frozenset({"objective/kl", "policy/approxkl_avg", "val/ratio"}),
    frozenset({"objective/rlhf_reward", "policy/clipfrac_avg", "val/ratio"}),
)

PPO = {
    **ROLLOUTS,
    "policy/approxkl_avg": Key("kl_old_token", "k2", "mean over tokens, padding included"),
    "policy/clipfrac_avg": Key("clip_frac"),
    "policy/entropy_avg": Key("entropy", "full_vocab", "mean over tokens, padding included"),
    "loss/policy_avg": Key("policy_loss"),
    "loss/value_avg": Key("value_loss"),
    "val/clipfrac_avg": Key("value_clip_frac"),
    "val/ratio": Key("ratio_mean"),
    "val/ratio_var": Key("ratio_var"),
    "val/num_eos_tokens": Key("num_eos_tokens"),
    "lr": Key("lr"),
    "episode": Key("episodes"),
    "eps": Key("episodes_per_second"),
}
"""Keys of PPOTrainer since 0.12, and of RLOOTrainer up to 0.21."""

_PADDED = "sum over the response, padding not masked"

ONLINE = {
    **PREFERENCES,
    **ROLLOUTS,
    "objective/kl": Key("kl_unknown", "k1", _PADDED),
    "objective/entropy": Key("neg_logp_response", "sampled_logp", _PADDED),
    "objective/scores_margin": Key("reward_margin"),
    "val/contain_eos_token": Key("eos_rate", reduction="rank 0 only"),
    "val/model_contain_eos_token": Key("eos_rate", reduction="rank 0 only"),
    "beta": Key("kl_coef"),
}
"""Keys of OnlineDPOTrainer, and of XPO and Nash-MD, which are built on it. ``objective/kl`` sums
over the padded width (online_dpo_trainer.py:1254): what two models say of padding is inside."""
