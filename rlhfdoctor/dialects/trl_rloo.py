"""TRL RLOOTrainer since 0.22; it writes GRPO's keys with k1 as the estimator."""

from rlhfdoctor.dialects import Dialect, Key
from rlhfdoctor.dialects._trl import (
    COMPLETION_MARKS,
    COMPLETIONS,
    COMPONENTS,
    PREFERENCE_KEYS,
    TRAINER,
)

DIALECT = Dialect(
    name="trl_rloo",
    framework="TRL",
    algorithm="RLOO",
    marks=COMPLETION_MARKS,
    strangers=PREFERENCE_KEYS,
    keys={**TRAINER, **COMPLETIONS, "kl": Key("kl_ref_token", "k1", "token mean")},
    patterns=COMPONENTS,
    log_offset=1,
)
"""``frac_reward_zero_std`` is taken over KL-penalised rewards here (rloo_trainer.py:1535-1567), so
it stays near 0 whenever beta is not 0; a value of 1 means what it says."""
