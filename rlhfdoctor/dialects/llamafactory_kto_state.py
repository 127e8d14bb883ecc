"""LLaMA-Factory KTO where only its trainer_state.json is there, and a configuration names it."""

from rlhfdoctor.dialects import Dialect
from rlhfdoctor.dialects._llamafactory import KTO_BASELINE
from rlhfdoctor.dialects._trl import PAIRS, PREFERENCES

DIALECT = Dialect(
    name="llamafactory_kto_state",
    framework="LLaMA-Factory",
    upon=frozenset({"TRL", "Unsloth"}),
    algorithm="KTO",
    marks=tuple(marks | {"kl"} for marks in PAIRS),
    strangers=frozenset({"current_steps"}),
    told=True,
    keys=PREFERENCES,
    derived=(KTO_BASELINE,),
    log_offset=1,
)
"""It writes TRL's keys; ``kl`` is a sum here (train/kto/trainer.py:285-320)."""
