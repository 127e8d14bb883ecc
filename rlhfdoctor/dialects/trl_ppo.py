"""TRL PPOTrainer since 0.12 (``objective/*``, ``policy/*_avg``, ``val/*``).

trl 1.10.0.dev0, ppo_trainer.py:882-906.
"""

from rlhfdoctor.dialects import Dialect
from rlhfdoctor.dialects._trl import PPO, PPO_MARKS

DIALECT = Dialect(
    name="trl_ppo",
    framework="TRL",
    algorithm="PPO",
    marks=PPO_MARKS,
    strangers=frozenset({"objective/scores_margin"}),
    keys=PPO,
    log_offset=1,
)
"""``objective/kl`` is the SUM of k1 over the response (ppo_trainer.py:882): nats per response. A
negative ``objective/entropy`` is the pad sentinel, not an entropy (ppo_trainer.py:69, 883)."""
