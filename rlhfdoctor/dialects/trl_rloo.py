"""TRL RLOOTrainer since 0.22; it writes GRPO's keys with k1 as the estimator."""

from rlhfdoctor.dialects import Change, Dialect, Key
from rlhfdoctor.dialects._hf import TRAINER
from rlhfdoctor.dialects._trl import (
    COMPLETION_MARKS,
    COMPLETIONS,
    COMPONENTS,
    PREFERENCE_KEYS,
    REWARD_STD,
)

DIALECT = Dialect(
    name="trl_rloo",
    framework="TRL",
    algorithm="RLOO",
    marks=COMPLETION_MARKS,
    strangers=PREFERENCE_KEYS,
    keys={**TRAINER, **COMPLETIONS, "kl": Key("kl_ref_token", "k1", "token mean")},
    patterns=COMPONENTS,
    changes=(
        REWARD_STD,
        Change(
            since="0.25.0",
            before={"reward": Key("reward_shaped_mean")},
            after={"reward": Key("reward_raw_mean")},
        ),
    ),
    log_offset=1,
)
"""``frac_reward_zero_std`` is taken over KL-penalised rewards here (rloo_trainer.py:1535-1567),
so it stays near 0 whenever beta is not 0; a value of 1 means what it says. Up to 0.24
(rloo_trainer.py: 1491) ``reward`` has the KL penalty inside."""
