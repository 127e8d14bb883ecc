"""LLaMA-Factory KTO (ff6d4d12, train/kto/trainer.py:256-320)."""

from rlhfdoctor.dialects import Dialect
from rlhfdoctor.dialects._hf import together
from rlhfdoctor.dialects._llamafactory import KTO_BASELINE, LOG, MARKS
from rlhfdoctor.dialects._trl import PAIRS, PREFERENCES

DIALECT = Dialect(
    name="llamafactory_kto",
    framework="LLaMA-Factory",
    upon=frozenset({"TRL", "Unsloth"}),
    algorithm="KTO",
    marks=together(MARKS, [marks | {"kl"} for marks in PAIRS]),
    keys={**PREFERENCES, **LOG},
    derived=(KTO_BASELINE,),
    log_offset=1,
)
"""``kl`` alone has no name: it is a sum whose count only the configuration tells."""
