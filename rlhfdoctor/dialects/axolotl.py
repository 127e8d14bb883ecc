"""Axolotl preference training and SFT (067b021c, core/trainers/base.py:729, 773)."""

from rlhfdoctor.dialects import Dialect, Key
from rlhfdoctor.dialects._trl import PREFERENCE_MARKS, PREFERENCES

DIALECT = Dialect(
    name="axolotl",
    framework="Axolotl",
    upon=frozenset({"TRL", "Unsloth"}),
    algorithm="DPO",
    marks=PREFERENCE_MARKS,
    strangers=frozenset({"log_odds_chosen"}),
    rivals=frozenset({"KTO", "ORPO", "CPO", "SimPO", "IPO"}),
    told=True,
    keys={**PREFERENCES, "ppl": Key("exp_loss"), "tokens/total": Key("num_tokens")},
    log_offset=1,
)
"""``ppl`` is exp(loss): of a preference loss that is no perplexity of anything."""
