"""TRL CPOTrainer with SimPO's loss (1.10.0.dev0, cpo_trainer.py:893-902)."""

from rlhfdoctor.dialects import Dialect
from rlhfdoctor.dialects._trl import LOGPS_TOKEN, PREFERENCE_MARKS, WITHOUT_REFERENCE

DIALECT = Dialect(
    name="trl_simpo",
    framework="TRL",
    algorithm="SimPO",
    marks=PREFERENCE_MARKS,
    named=frozenset({"SimPO"}),
    keys={**WITHOUT_REFERENCE, **LOGPS_TOKEN},
    log_offset=1,
)
"""It writes DPO's keys; log-probabilities are token means, and rewards have no reference."""
