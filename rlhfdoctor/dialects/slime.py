"""slime (624b824a).

backends/megatron_utils/loss.py:1143-1226, model.py:886-897; ray/rollout_metrics.py:48-270;
utils/train_metric_utils.py:179-189.
"""

from rlhfdoctor.dialects import Derived, Dialect, Key
from rlhfdoctor.dialects._perplexity import perplexity

DIALECT = Dialect(
    name="slime",
    framework="slime",
    algorithm="GRPO",
    marks=(
        frozenset(
            {"rollout/response_len/mean", "rollout/truncated_ratio", "rollout/repetition_frac"}
        ),
        frozenset(
            {"rollout/log_probs", "rollout/raw_reward", "rollout/rewards", "rollout/advantages"}
        ),
        frozenset({"pg_clipfrac", "ppo_kl", "lr-pg_0"}),
        frozenset({"pg_clipfrac", "pg_loss", "train_rollout_logprob_abs_diff"}),
    ),
    keys={
        "kl_loss": Key("kl_ref_token", "k1 or k2 or k3", "token mean of a response, batch mean"),
        "ppo_kl": Key("kl_old_token", "k1", "token mean of a response, batch mean"),
        "entropy_loss": Key("entropy", "full_vocab", "token mean of a response, batch mean"),
        "loss": Key("loss_total"),
        "pg_loss": Key("policy_loss"),
        "pg_clipfrac": Key("clip_frac"),
        "train_rollout_logprob_abs_diff": Key("logp_diff_train_infer_mean", "abs_log_ratio"),
        "ois": Key("ratio_mean"),
        "value_loss": Key("value_loss"),
        "value_clipfrac": Key("value_clip_frac"),
        "grad_norm": Key("grad_norm"),
        "lr-pg_0": Key("lr"),
        "rollout/response_len/mean": Key("response_length_mean"),
        "rollout/response_len/max": Key("response_length_max"),
        "rollout/response_len/min": Key("response_length_min"),
        "rollout/truncated_ratio": Key("truncation_rate"),
        "rollout/repetition_frac": Key("repetition_rate"),
        "rollout/log_probs": Key("logp_policy_token", reduction="token mean"),
        "rollout/ref_log_probs": Key("logp_ref_token", reduction="token mean"),
        "rollout/advantages": Key("advantage_mean"),
        "rollout/returns": Key("return_mean"),
        "rollout/values": Key("value_mean"),
        "rollout/raw_reward": Key("reward_raw_mean"),
        "rollout/rewards": Key("reward_normalised_mean"),
    },
    patterns={
        "rollout/zero_std/count_{}": Key("zero_std_groups"),
        "eval/{}": Key("heldout_score"),
    },
    derived=(
        Derived(
            Key("kl_ref_token", "k1", "token mean"),
            of=("rollout/log_probs", "rollout/ref_log_probs"),
            compute=lambda policy, reference: policy - reference,
            text="no KL is logged; rollout/log_probs - rollout/ref_log_probs is k1 of it",
        ),
        perplexity("ppl_policy", "rollout/log_probs"),
        perplexity("ppl_ref", "rollout/ref_log_probs"),
    ),
)
"""``rollout/rewards`` are normalised within groups: near 0 by construction. Rollouts and training
count their steps apart."""
