"""TRL ORPOTrainer (1.10.0.dev0, orpo_trainer.py:803-872)."""

from rlhfdoctor.dialects import Dialect, Key
from rlhfdoctor.dialects._trl import LOGPS_TOKEN, PREFERENCE_MARKS, WITHOUT_REFERENCE

DIALECT = Dialect(
    name="trl_orpo",
    framework="TRL",
    algorithm="ORPO",
    marks=(
        *(marks | {"log_odds_chosen"} for marks in PREFERENCE_MARKS),
        *(marks | {"log_odds_ratio"} for marks in PREFERENCE_MARKS),
    ),
    keys={
        **WITHOUT_REFERENCE,
        **LOGPS_TOKEN,
        "log_odds_ratio": Key("orpo_log_sigmoid_odds"),
        "log_odds_chosen": Key("orpo_log_odds"),
    },
    log_offset=1,
)
"""Rewards are beta x the MEAN log-probability of a token, without a reference
(orpo_trainer.py:856): not comparable with DPO's."""
