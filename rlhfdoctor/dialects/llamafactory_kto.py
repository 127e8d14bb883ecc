"""LLaMA-Factory KTO (ff6d4d12, train/kto/trainer.py:256-320)."""

from rlhfdoctor.dialects import Derived, Dialect, Key
from rlhfdoctor.dialects._hf import together
from rlhfdoctor.dialects._llamafactory import LOG, MARKS
from rlhfdoctor.dialects._trl import PAIRS, PREFERENCES

DIALECT = Dialect(
    name="llamafactory_kto",
    framework="LLaMA-Factory",
    algorithm="KTO",
    marks=together(MARKS, [marks | {"kl"} for marks in PAIRS]),
    keys={**PREFERENCES, **LOG},
    derived=(
        Derived(
            Key("kto_kl_baseline", "k1, clamped at 0", "response sum over mismatched pairs"),
            of=("kl",),
            settings=("gradient_accumulation_steps", "logging_steps", "gpus"),
            compute=lambda kl, accumulation, logging, gpus: kl / (accumulation * logging * gpus),
            text="kl is summed over micro-batches and ranks since the last log; divided by "
            "gradient accumulation x logging steps x GPUs",
        ),
    ),
    log_offset=1,
)
"""``kl`` alone has no name: it is a sum whose count only the configuration tells."""
