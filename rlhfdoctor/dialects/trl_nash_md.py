"""TRL NashMDTrainer (1.10.0.dev0, nash_md_trainer.py:407)."""

from rlhfdoctor.dialects import Dialect, Key
from rlhfdoctor.dialects._trl import ONLINE

DIALECT = Dialect(
    name="trl_nash_md",
    framework="TRL",
    algorithm="Nash-MD",
    marks=(frozenset({"loss/kl", "loss/score", "rewards/margins", "logps/chosen"}),),
    keys={
        **ONLINE,
        "loss/kl": Key("kl_ref_response", "k1", "response sum"),
        "loss/score": Key("policy_loss"),
    },
    log_offset=1,
)
"""``loss/kl`` carries no coefficient."""
