"""TRL XPOTrainer (1.10.0.dev0, xpo_trainer.py:401)."""

from rlhfdoctor.dialects import Dialect, Key
from rlhfdoctor.dialects._trl import ONLINE

DIALECT = Dialect(
    name="trl_xpo",
    framework="TRL",
    algorithm="XPO",
    marks=(
        frozenset({"loss/xpo", "loss/dpo"}),
        frozenset({"loss/xpo", "loss/dpo", "objective/kl"}),
    ),
    keys={
        **ONLINE,
        "objective/kl": Key("kl_ref_response", "k1", "response sum; policy's and reference's data"),
        "objective/model_scores": Key("reward_raw_mean"),
    },
    log_offset=1,
)
"""``objective/kl`` is the mean over two sets: the policy's responses and the reference's."""
