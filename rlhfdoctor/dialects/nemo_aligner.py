"""NeMo-Aligner PPO and REINFORCE (af2b3bd9).

algorithms/ppo.py:247-268, 387-452; algorithms/reinforce.py:233; megatron_gpt_ppo_actor.py:171-173.
"""

from rlhfdoctor.dialects import Dialect, Key

DIALECT = Dialect(
    name="nemo_aligner",
    framework="NeMo-Aligner",
    algorithm="PPO",
    marks=(
        frozenset({"train_rollouts/rewards", "train_optim/loss"}),
        frozenset({"train_rollouts/response_lengths", "train_rollouts/generation_length"}),
        frozenset({"train_optim/ppo_ratio", "train_optim/ppo_ratio_clamped"}),
    ),
    keys={
        "train_rollouts/init_policy_kl": Key("log_ratio_abs_ref_token", "abs", "token mean"),
        "train_rollouts/rewards": Key("reward_raw_mean"),
        "train_rollouts/rewards_with_kl": Key("reward_shaped_token", reduction="token mean"),
        "train_rollouts/response_lengths": Key("total_length_mean"),
        "train_rollouts/generation_length": Key("response_length_mean"),
        "train_rollouts/prompt_lengths": Key("prompt_length_mean"),
        "train_rollouts/fraction_of_samples_properly_ended": Key("eos_rate"),
        "train_rollouts/advantages_mean": Key("advantage_mean"),
        "train_rollouts/advantages_std": Key("advantage_std"),
        "train_rollouts/returns_mean": Key("return_mean"),
        "train_rollouts/values_mean": Key("value_mean"),
        "train_rollouts/consumed_samples": Key("episodes"),
        "train_optim/grad_norm": Key("grad_norm"),
        "train_optim/lr": Key("lr"),
        "train_optim/loss": Key("policy_loss"),
        "train_optim/ppo_ratio": Key("ratio_mean"),
        "train_optim/ppo_ratio_clamped": Key("ratio_clamped_mean"),
        "train_optim/scaled_entropy": Key("entropy_scaled"),
    },
)
"""``init_policy_kl`` is the mean |log-ratio| (``use_absolute_kl`` is on by default): no KL, and far
larger than one. ``response_lengths`` include the prompt, ``generation_length`` does not."""
