"""Keys of ms-swift's logging.jsonl (3602360a, trainers/patcher.py:29-30)."""

from rlhfdoctor.dialects import Key
from rlhfdoctor.dialects._hf import TRAINER
from rlhfdoctor.dialects._trl import COMPLETIONS, COMPONENTS

MARKS = (
    frozenset({"memory(GiB)", "train_speed(iter/s)"}),
    frozenset({"memory(GiB)", "train_speed(s/it)"}),
    frozenset({"global_step/max_steps", "train_speed(iter/s)"}),
    frozenset({"global_step/max_steps", "train_speed(s/it)"}),
    frozenset({"memory(GiB)", "global_step/max_steps"}),
    frozenset({"memory(GiB)", "iteration", "elapsed_time"}),
)

LOG = {
    "memory(GiB)": Key("gpu_mem_reserved"),
    "train_speed(s/it)": Key("step_time"),
    "train_speed(iter/s)": Key("updates_per_second"),
    "token_acc": Key("token_accuracy"),
}

GRPO = {
    **TRAINER,
    **COMPLETIONS,
    **LOG,
    "kl": Key("kl_ref_token", "k3", "token mean"),
    "reward_std": Key("reward_group_std"),
    "entropy/mean": Key("entropy", "full_vocab", "token mean of a response, batch mean"),
    "entropy/max": Key("entropy_max"),
    "entropy/min": Key("entropy_min"),
    "rollout_correction/kl": Key("kl_train_infer_token", "k1", "token mean"),
    "rollout_correction/k3_kl": Key("kl_train_infer_token", "k3", "token mean"),
    "rollout_correction/training_ppl": Key("ppl_policy"),
    "rollout_correction/rollout_ppl": Key("ppl_rollout"),
}
"""``reward_std`` is the mean within groups in every version (grpo_trainer.py:496)."""

GRPO_PATTERNS = COMPONENTS
