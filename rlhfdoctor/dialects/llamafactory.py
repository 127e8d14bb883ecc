"""LLaMA-Factory, whatever it trains: PPO, reward models, and what its log does not tell apart.

ff6d4d12: train/callbacks.py:278-292 (trainer_log.jsonl), train/ppo/trainer.py:286-295.
"""

from rlhfdoctor.dialects import Dialect
from rlhfdoctor.dialects._llamafactory import LOG, MARKS

DIALECT = Dialect(
    name="llamafactory",
    framework="LLaMA-Factory",
    upon=frozenset({"TRL", "Unsloth"}),
    algorithm="unknown",
    marks=MARKS,
    strangers=frozenset({"rewards/chosen", "accuracy"}),
    keys=LOG,
)
"""No KL reaches its logs under PPO. There, the logged step is one less than the checkpoint's."""
