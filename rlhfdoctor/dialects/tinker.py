"""Tinker cookbook (rl/metrics.py: compute_kl_sample_train, incorporate_kl_penalty)."""

from rlhfdoctor.dialects import Dialect, Key

DIALECT = Dialect(
    name="tinker",
    framework="Tinker",
    algorithm="GRPO",
    marks=(
        frozenset({"optim/kl_sample_train_v1", "optim/kl_sample_train_v2"}),
        frozenset({"kl_sample_train_v1", "kl_sample_train_v2"}),
        frozenset({"progress/done_frac", "optim/lr", "time/total"}),
        frozenset({"env/all/reward/total", "progress/done_frac"}),
    ),
    keys={
        "kl_policy_base": Key("kl_ref_token", "k1", "token mean"),
        "optim/kl_sample_train_v1": Key("kl_train_infer_token", "k1", "token mean"),
        "kl_sample_train_v1": Key("kl_train_infer_token", "k1", "token mean"),
        "optim/kl_sample_train_v2": Key("kl_train_infer_token", "k2", "token mean"),
        "kl_sample_train_v2": Key("kl_train_infer_token", "k2", "token mean"),
        "kl_pre_post_v1": Key("kl_old_token", "k1", "token mean"),
        "kl_pre_post_v2": Key("kl_old_token", "k2", "token mean"),
        "optim/entropy": Key("neg_logp_token", "sampled_logp", "token mean"),
        "policy/entropy": Key("entropy_unknown"),
        "env/all/reward/total": Key("reward_raw_mean"),
        "reward/total": Key("reward_raw_mean"),
        "reward/mean": Key("reward_raw_mean"),
        "test/env/all/reward/total": Key("heldout_reward"),
        "env/all/ac_tokens_per_turn": Key("response_length_mean", reduction="of a turn"),
        "env/all/by_group/frac_mixed": Key("frac_group_mixed"),
        "optim/is_ratio/mean": Key("is_ratio_train_infer_mean"),
        "optim/is_ratio/max": Key("is_ratio_train_infer_max"),
        "optim/lr": Key("lr"),
        "time/total": Key("step_time"),
    },
    patterns={
        "env/{}/reward/total": Key("reward_component_mean"),
        "reward/{}": Key("reward_component_mean"),
    },
)
"""``kl_sample_train`` holds the sampler to the trainer, ``kl_policy_base`` (logged where there
is a penalty) to the base model. ``optim/entropy`` is minus the mean log-probability of sampled
tokens."""
