"""TRL GRPOTrainer, and the trainers built on it that say nothing of themselves."""

from rlhfdoctor.dialects import Dialect, Key
from rlhfdoctor.dialects._hf import TRAINER
from rlhfdoctor.dialects._trl import (
    COMPLETIONS,
    COMPONENTS,
    GRPO_MARKS,
    PREFERENCE_KEYS,
    REWARD_STD,
)

DIALECT = Dialect(
    name="trl_grpo",
    framework="TRL",
    algorithm="GRPO",
    marks=GRPO_MARKS,
    strangers=PREFERENCE_KEYS,
    keys={**TRAINER, **COMPLETIONS, "kl": Key("kl_ref_token", "k3", "token mean")},
    patterns=COMPONENTS,
    never_negative=frozenset({"kl"}),
    changes=(REWARD_STD,),
    log_offset=1,
)
"""``kl`` is k3 a token (grpo_trainer.py:3238), logged only where beta is not 0."""
