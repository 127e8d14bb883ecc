"""DeepSpeed-Chat step 3, PPO: its console lines, and its tensorboard tags.

DeepSpeedExamples 45b4b715, step3_rlhf_finetuning/main.py:577-611; the words of April 2023 as well.
"""

from rlhfdoctor.dialects import Dialect, Key

DIALECT = Dialect(
    name="deepspeed_chat",
    framework="DeepSpeed-Chat",
    algorithm="PPO",
    marks=(
        frozenset({"Actor Loss", "Critic Loss", "Unsupervised Loss"}),
        frozenset({"act_loss", "cri_loss", "unsuper_loss"}),
        frozenset({"reward", "actor_loss", "actor_loss_sum", "critic_loss", "critic_loss_sum"}),
    ),
    keys={
        "Average reward score": Key("reward_raw_mean"),
        "average reward score": Key("reward_raw_mean"),
        "reward": Key("reward_raw_mean"),
        "EMA reward score": Key("reward_ema"),
        "Actor Loss": Key("policy_loss", reduction="mean over inner steps"),
        "act_loss": Key("policy_loss", reduction="mean over inner steps"),
        "actor_loss": Key("policy_loss", reduction="last inner step"),
        "actor_loss_sum": Key("policy_loss_sum"),
        "Critic Loss": Key("value_loss", reduction="mean over inner steps"),
        "cri_loss": Key("value_loss", reduction="mean over inner steps"),
        "critic_loss": Key("value_loss", reduction="last inner step"),
        "critic_loss_sum": Key("value_loss_sum"),
        "Unsupervised Loss": Key("sft_loss"),
        "unsuper_loss": Key("sft_loss"),
    },
)
"""No KL is logged anywhere; its coefficient 0.1 and a clipping of rewards at 5 are in the code
(ppo_trainer.py:66-67). In tensorboard the step starts anew with each epoch."""
