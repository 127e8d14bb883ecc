"""Keys of LLaMA-Factory's trainer_log.jsonl (ff6d4d12, train/callbacks.py:278-292)."""

from rlhfdoctor.dialects import Key
from rlhfdoctor.dialects._hf import TRAINER

MARKS = (frozenset({"current_steps", "total_steps", "percentage"}),)

LOG = {
    **TRAINER,
    "lr": Key("lr"),
    "reward": Key("reward_raw_mean", reduction="mean since the last log"),
    "throughput": Key("throughput"),
    "percentage": Key("progress"),
}
