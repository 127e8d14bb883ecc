"""AReaL PPO and GRPO (4aef98d8, engine/ppo/actor.py:286-303, 440, 529-543; critic.py:133-136)."""

from rlhfdoctor.dialects import Correction, Dialect, Key
from rlhfdoctor.dialects._perplexity import perplexity

_FLIPPED = Correction("logged with the opposite sign; negated", lambda value: -value)

DIALECT = Dialect(
    name="areal",
    framework="AReaL",
    algorithm="PPO or GRPO",
    marks=(
        frozenset({"ppo_actor/task_reward/avg", "ppo_actor/update/actor_loss/avg"}),
        frozenset({"ppo_actor/update/actor_loss/avg", "ppo_actor/update/importance_weight/avg"}),
        frozenset({"ppo_actor/task_reward/avg", "ppo_actor/no_eos_ratios/avg"}),
    ),
    keys={
        "ppo_actor/task_reward/avg": Key("reward_raw_mean"),
        "ppo_actor/kl_rewards/avg": Key("kl_penalty_reward_token", "k1", "token mean"),
        "ppo_actor/final_reward/avg": Key("reward_shaped_token", reduction="token mean"),
        "ppo_actor/advantages/avg": Key("advantage_mean"),
        "ppo_actor/no_eos_ratios/avg": Key("truncation_rate"),
        "ppo_actor/seq_len/avg": Key("total_length_mean"),
        "ppo_actor/prompt_len/avg": Key("prompt_length_mean"),
        "ppo_actor/correct_seq_len/avg": Key("total_length_correct_mean"),
        "ppo_actor/incorrect_seq_len/avg": Key("total_length_incorrect_mean"),
        "ppo_actor/update/importance_weight/avg": Key("ratio_mean"),
        "ppo_actor/update/approx_kl/avg": Key(
            "kl_old_token", "k1", "token mean", correction=_FLIPPED
        ),
        "ppo_actor/update/behave_approx_kl/avg": Key(
            "kl_train_infer_token", "k1", "mean over tokens that were kept", correction=_FLIPPED
        ),
        "ppo_actor/update/behave_imp_weight/avg": Key("is_ratio_train_infer_mean"),
        "ppo_actor/update/entropy/avg": Key("entropy", "full_vocab", "token mean"),
        "ppo_actor/update/actor_loss/avg": Key("policy_loss"),
        "ppo_actor/update/clip_ratio/avg": Key("clip_frac"),
        "ppo_actor/update/dual_clip_ratio/avg": Key("dual_clip_frac"),
        "ppo_actor/update/new_logp/avg": Key("logp_policy_token"),
        "ppo_actor/update/old_logp/avg": Key("logp_old_token"),
        "ppo_actor/update/grad_norm": Key("grad_norm"),
        "ppo_actor/update/lr": Key("lr"),
        "ppo_critic/critic_loss/avg": Key("value_loss"),
        "ppo_critic/new_value/avg": Key("value_mean"),
        "ppo_critic/target_value/avg": Key("return_mean"),
    },
    derived=(perplexity("ppl_policy", "ppo_actor/update/old_logp/avg"),),
)
"""``approx_kl`` is log new - log old: minus k1. ``kl_rewards`` has the coefficient inside, and
means nothing where no reference is loaded. ``seq_len`` includes the prompt."""
