"""TRL RLOOTrainer up to 0.21, with PPOTrainer's keys (0.12.2, rloo_trainer.py:464-472)."""

from rlhfdoctor.dialects import Dialect, Key
from rlhfdoctor.dialects._trl import PPO, PPO_MARKS

DIALECT = Dialect(
    name="trl_rloo_old",
    framework="TRL",
    algorithm="RLOO",
    marks=PPO_MARKS,
    strangers=frozenset({"objective/scores_margin"}),
    named=frozenset({"RLOO"}),
    keys={
        **PPO,
        "policy/approxkl_avg": Key("kl_old_response", "k2", "of the whole response"),
        "policy/clipfrac_avg": Key("clip_frac", reduction="share of responses"),
        "val/ratio": Key("ratio_mean", reduction="of whole responses"),
    },
    log_offset=1,
)
"""There is no value model: ``loss/value_avg`` is 0. Ratios are those of whole responses."""
