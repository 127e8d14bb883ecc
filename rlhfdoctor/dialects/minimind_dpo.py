"""MiniMind DPO: console lines and tracker keys (trainer/train_dpo.py)."""

from rlhfdoctor.dialects import Dialect, Key

DIALECT = Dialect(
    name="minimind_dpo",
    framework="MiniMind",
    algorithm="DPO",
    marks=(
        frozenset({"loss", "dpo_loss", "aux_loss", "learning_rate", "epoch_time"}),
        frozenset({"loss", "dpo_loss", "aux_loss", "learning_rate", "epoch_time (min)"}),
    ),
    keys={
        "loss": Key("loss_total"),
        "dpo_loss": Key("policy_loss"),
        "aux_loss": Key("moe_aux_loss"),
        "learning_rate": Key("lr"),
    },
)
"""Neither margins nor log-probabilities are logged."""
