"""AReaL DPO (4aef98d8, engine/dpo/dpo_engine.py:199-203)."""

from rlhfdoctor.dialects import Dialect, Key

_RATIO = ("log_ratio times beta", "response sum")

DIALECT = Dialect(
    name="areal_dpo",
    framework="AReaL",
    algorithm="DPO",
    marks=(frozenset({"dpo/chosen_reward/avg", "dpo/rejected_reward/avg", "dpo/loss/avg"}),),
    keys={
        "dpo/loss/avg": Key("loss_total"),
        "dpo/chosen_reward/avg": Key("dpo_reward_chosen", *_RATIO),
        "dpo/rejected_reward/avg": Key("dpo_reward_rejected", *_RATIO),
        "dpo/reward_margin/avg": Key("dpo_margin", *_RATIO),
        "dpo/reward_accuracy/avg": Key("dpo_accuracy"),
    },
)
"""Rewards include beta."""
