"""Keys of LLaMA-Factory's trainer_log.jsonl (ff6d4d12, train/callbacks.py:278-292)."""

from rlhfdoctor.dialects import Derived, Key
from rlhfdoctor.dialects._hf import TRAINER

MARKS = (
    frozenset({"current_steps", "total_steps", "percentage", "elapsed_time", "remaining_time"}),
)

LOG = {
    **TRAINER,
    "lr": Key("lr"),
    "reward": Key("reward_raw_mean", reduction="mean since the last log"),
    "throughput": Key("throughput"),
    "percentage": Key("progress"),
}

KTO_BASELINE = Derived(
    Key("kto_kl_baseline", "k1, clamped at 0", "response sum over mismatched pairs"),
    of=("kl",),
    settings=("gradient_accumulation_steps", "logging_steps", "gpus"),
    compute=lambda kl, accumulation, logging, gpus: kl / (accumulation * logging * gpus),
    text="kl is summed over micro-batches and ranks since the last log; divided by "
    "gradient accumulation x logging steps x GPUs",
)
"""ff6d4d12, train/kto/trainer.py:285-320."""
