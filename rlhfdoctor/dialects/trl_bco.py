"""TRL BCOTrainer (1.10.0.dev0, bco_trainer.py:1331)."""

from rlhfdoctor.dialects import Dialect, Key
from rlhfdoctor.dialects._trl import PREFERENCES, UNPAIRED_MARKS

DIALECT = Dialect(
    name="trl_bco",
    framework="TRL",
    algorithm="BCO",
    marks=tuple(marks | {"delta"} for marks in UNPAIRED_MARKS),
    strangers=frozenset({"rewards/accuracies", "current_steps", "objective/scores_margin"}),
    keys={**PREFERENCES, "delta": Key("bco_delta", reduction="running mean")},
    log_offset=1,
)
"""``delta`` is a running mean by which all rewards are shifted."""
