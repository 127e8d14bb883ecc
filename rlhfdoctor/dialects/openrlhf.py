"""OpenRLHF: PPO, REINFORCE++, GRPO, RLOO (0.6 to 0.11).

ppo_actor.py:314-380, ppo_critic.py:178-181, experience_maker.py:194-386, ppo_trainer.py:263-545,
samples_generator.py:285-290. Trackers prefix every key with ``train/``.
"""

from rlhfdoctor.dialects import Dialect, Key

DIALECT = Dialect(
    name="openrlhf",
    framework="OpenRLHF",
    algorithm="PPO or GRPO",
    marks=(
        frozenset({"ppo_clip_ratio", "response_clip_ratio", "policy_loss", "actor_lr", "return"}),
        frozenset(
            {
                "ppo_clip_ratio",
                "rollout/truncated_rate",
                "rollout/reward_mean",
                "actor_lr",
                "return",
            }
        ),
        frozenset({"ppo_clip_ratio", "vllm_kl", "policy_loss", "actor_lr", "return"}),
        frozenset(
            {"policy_loss", "actor_lr", "reward", "return", "response_length", "total_length"}
        ),
    ),
    keys={
        "kl": Key("kl_ref_token", "k1 or k2 or k3", "token mean of a response, batch mean"),
        "logprobs_diff": Key("kl_ref_token", "k1", "token mean"),
        "ppo_kl": Key("kl_old_token", "k1", "token mean"),
        "vllm_kl": Key("kl_train_infer_token", "k1", "token mean"),
        "ppo_clip_ratio": Key("clip_frac"),
        "policy_loss": Key("policy_loss"),
        "entropy_loss": Key("entropy", "full_vocab", "token mean"),
        "actor_lr": Key("lr"),
        "actor_grad_norm": Key("grad_norm", reduction="last optimiser step"),
        "critic_loss": Key("value_loss"),
        "values": Key("value_mean"),
        "critic_lr": Key("lr_critic"),
        "critic_grad_norm": Key("grad_norm_critic"),
        "reward": Key("reward_raw_mean"),
        "rollout/reward_mean": Key("reward_raw_mean"),
        "rollout/reward_std": Key("reward_std", reduction="over the batch"),
        "return": Key("reward_shaped_mean", reduction="sum over the response, baseline removed"),
        "group_reward_std": Key("reward_group_std"),
        "rollout/response_length_mean": Key("response_length_mean"),
        "response_length": Key("response_length_mean"),
        "total_length": Key("total_length_mean"),
        "rollout/truncated_rate": Key("truncation_rate"),
        "response_clip_ratio": Key("truncation_rate"),
        "score": Key("success_rate"),
        "dynamic_filtering_pass_rate": Key("dyn_filter_pass_rate", unit="unknown"),
        "timing/step_total": Key("step_time"),
    },
    patterns={"timing/{}": Key("time_stage")},
    log_offset=1,
)
"""``kl`` is the KL of the policy that sampled to the reference, k1 unless ``algo.kl.estimator``
says otherwise, without its coefficient; 0 where no reference is loaded. ``return`` is centred
near 0 by the baselines of groups. ``ppo_clip_ratio`` is a share, ``response_clip_ratio``
another: of responses at the limit."""
