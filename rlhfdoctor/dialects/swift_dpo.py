"""ms-swift DPO (3602360a, trainers/rlhf_trainer/dpo_trainer.py:393-407)."""

from rlhfdoctor.dialects import Dialect
from rlhfdoctor.dialects._hf import together
from rlhfdoctor.dialects._swift import LOG, MARKS
from rlhfdoctor.dialects._trl import PREFERENCE_MARKS, PREFERENCES

DIALECT = Dialect(
    name="swift_dpo",
    framework="ms-swift",
    upon=frozenset({"TRL", "Unsloth"}),
    algorithm="DPO",
    marks=together(MARKS, PREFERENCE_MARKS),
    strangers=frozenset({"log_odds_chosen"}),
    rivals=frozenset({"KTO", "ORPO", "CPO", "SimPO", "IPO"}),
    keys={**PREFERENCES, **LOG},
    log_offset=1,
)
"""As in TRL: beta is inside, sums are over the response."""
