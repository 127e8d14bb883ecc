"""TRL PPOTrainer since 0.12 (``objective/*``, ``policy/*_avg``, ``val/*``)."""

from rlhfdoctor.dialects import Dialect, Key
from rlhfdoctor.dialects._trl import TRAINER

DIALECT = Dialect(
    name="trl_ppo",
    framework="TRL",
    algorithm="PPO",
    marks=(frozenset({"objective/kl", "policy/approxkl_avg", "val/ratio"}),),
    strangers=frozenset({"objective/scores_margin"}),
    keys={
        **TRAINER,
        "objective/kl": Key("kl_ref_response", "k1", "sum over the response, batch mean"),
        "objective/entropy": Key(
            "neg_logp_response", "sampled_logp", "sum over the padded response"
        ),
        "objective/non_score_reward": Key("kl_penalty_reward", "k1", "sum over the response"),
        "objective/rlhf_reward": Key("reward_shaped_mean"),
        "objective/scores": Key("reward_raw_mean"),
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
    },
    log_offset=1,
)
"""``objective/kl`` is the SUM of k1 over the response (ppo_trainer.py:882): nats per response. A
negative ``objective/entropy`` is the pad sentinel, not an entropy (ppo_trainer.py:69, 883)."""
