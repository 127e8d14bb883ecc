"""ms-swift GRPO with the KL penalty in the reward (3602360a, grpo_trainer.py:495-499)."""

from rlhfdoctor.dialects import Dialect, Key
from rlhfdoctor.dialects._hf import together
from rlhfdoctor.dialects._swift import GRPO, GRPO_PATTERNS, MARKS
from rlhfdoctor.dialects._trl import GRPO_MARKS

DIALECT = Dialect(
    name="swift_grpo_kl_in_reward",
    framework="ms-swift",
    upon=frozenset({"TRL", "Unsloth"}),
    algorithm="GRPO",
    marks=together(MARKS, GRPO_MARKS),
    shows_negative=frozenset({"kl"}),
    keys={
        **GRPO,
        "kl": Key("kl_unknown", "k1 or k3", "k1 is a response sum, k3 a token mean"),
        "reward": Key("reward_shaped_mean"),
    },
    patterns=GRPO_PATTERNS,
    log_offset=1,
)
"""Under one key k1 is summed over the response and k3 is a mean over tokens. A negative value says
k1, or half precision; the unit stays open."""
