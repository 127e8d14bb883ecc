"""ms-swift GRPO (3602360a, trainers/rlhf_trainer/grpo_trainer.py:446-499, 820-831, 1242-1274)."""

from rlhfdoctor.dialects import Dialect
from rlhfdoctor.dialects._hf import together
from rlhfdoctor.dialects._swift import GRPO, GRPO_PATTERNS, MARKS
from rlhfdoctor.dialects._trl import GRPO_MARKS

DIALECT = Dialect(
    name="swift_grpo",
    framework="ms-swift",
    upon=frozenset({"TRL", "Unsloth"}),
    algorithm="GRPO",
    marks=together(MARKS, GRPO_MARKS),
    keys=GRPO,
    patterns=GRPO_PATTERNS,
    never_negative=frozenset({"kl"}),
    log_offset=1,
)
"""``kl`` is k3 a token unless the penalty is in the reward."""
