"""TRL CPOTrainer with its own loss (1.10.0.dev0, cpo_trainer.py:842-902)."""

from rlhfdoctor.dialects import Dialect
from rlhfdoctor.dialects._trl import PREFERENCE_MARKS, WITHOUT_REFERENCE

DIALECT = Dialect(
    name="trl_cpo",
    framework="TRL",
    algorithm="CPO",
    marks=PREFERENCE_MARKS,
    named=frozenset({"CPO"}),
    keys=WITHOUT_REFERENCE,
    log_offset=1,
)
"""It writes DPO's keys; only a configuration tells that there is no reference in its rewards."""
