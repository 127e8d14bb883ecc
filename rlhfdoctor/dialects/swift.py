"""ms-swift, whatever its log does not tell apart (3602360a)."""

from rlhfdoctor.dialects import Dialect
from rlhfdoctor.dialects._hf import TRAINER
from rlhfdoctor.dialects._swift import LOG, MARKS

DIALECT = Dialect(
    name="swift",
    framework="ms-swift",
    upon=frozenset({"TRL", "Unsloth"}),
    algorithm="unknown",
    marks=MARKS,
    strangers=frozenset({"rewards/chosen"}),
    keys={**TRAINER, **LOG},
    log_offset=1,
)
"""Values are rounded to eight digits: a learning rate of 5e-9 is logged as 1e-8."""
