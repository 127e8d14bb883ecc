"""prime-rl: trainer and orchestrator (559b4477).

trainer/rl/train.py:484-680, loss.py:152-156; orchestrator/metrics.py:179-255,
orchestrator.py:719-735.
"""

from rlhfdoctor.dialects import Dialect, Key

DIALECT = Dialect(
    name="prime_rl",
    framework="prime-rl",
    algorithm="GRPO",
    marks=(
        frozenset({"mismatch_kl/all/mean", "entropy/all/mean"}),
        frozenset({"entropy/all/mean", "optim/lr", "optim/grad_norm"}),
        frozenset({"is_masked_low/mean", "is_masked_high/mean"}),
        frozenset({"off_policy/mean", "progress/total_tokens"}),
    ),
    keys={
        "mismatch_kl/all/mean": Key("kl_train_infer_token", "k3", "token mean"),
        "masked_mismatch_kl/mean": Key("kl_train_infer_masked_token", "k3", "token mean"),
        "unmasked_mismatch_kl/mean": Key("kl_train_infer_kept_token", "k3", "token mean"),
        "kl_ent_ratio/mean": Key("kl_entropy_ratio"),
        "entropy/all/mean": Key("entropy", "full_vocab", "token mean"),
        "loss/mean": Key("loss_total"),
        "optim/lr": Key("lr"),
        "optim/grad_norm": Key("grad_norm"),
        "perf/throughput": Key("throughput"),
        "time/step": Key("step_time"),
        "is_masked/mean": Key("clip_frac", reduction="share masked by the trust region"),
        "is_masked_low/mean": Key("clip_frac_low"),
        "is_masked_high/mean": Key("clip_frac_high"),
        "off_policy/mean": Key("staleness_mean"),
        "progress/total_tokens": Key("num_tokens"),
    },
    patterns={
        "{}/reward/mean": Key("reward_raw_mean"),
        "{}/num_output_tokens/mean": Key("response_length_mean"),
        "{}/is_truncated/mean": Key("truncation_rate"),
        "{}/solved_none": Key("frac_group_all_zero"),
        "{}/solved_all": Key("frac_group_all_one"),
        "{}/has_error/mean": Key("error_rate"),
    },
)
"""There is no reference: every KL here is between trainer and inference engine. Values that are not
finite are dropped before they are written."""
