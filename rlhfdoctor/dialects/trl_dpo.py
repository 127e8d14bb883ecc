"""TRL DPOTrainer. ORPO, CPO and KTO give some of its keys other meanings: not this dialect."""

from rlhfdoctor.dialects import Dialect
from rlhfdoctor.dialects._trl import PREFERENCE_MARKS, PREFERENCES

DIALECT = Dialect(
    name="trl_dpo",
    framework="TRL",
    algorithm="DPO",
    marks=PREFERENCE_MARKS,
    strangers=frozenset(
        {
            "log_odds_ratio",
            "log_odds_chosen",
            "objective/kl",
            "objective/scores_margin",
            "objective/rlhf_reward",
            "val/contain_eos_token",
            "loss/kl",
            "loss/xpo",
            "odds_ratio_loss",
        }
    ),
    rivals=frozenset({"KTO", "ORPO", "CPO", "SimPO", "IPO"}),
    keys=PREFERENCES,
    log_offset=1,
)
"""Rewards are beta x the log-ratio to the reference, summed over the response; CPO and SimPO have
no reference at all. A ``kl`` here is none of its own: KTO, which logs one, logs no accuracies.
With IPO's loss the log-probabilities are token means up to 0.24."""
