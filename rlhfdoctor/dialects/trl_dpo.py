"""TRL DPOTrainer. ORPO, CPO and KTO give some of its keys other meanings: not this dialect."""

from rlhfdoctor.dialects import Dialect, Key
from rlhfdoctor.dialects._trl import TRAINER

DIALECT = Dialect(
    name="trl_dpo",
    framework="TRL",
    algorithm="DPO",
    marks=(frozenset({"rewards/chosen", "rewards/rejected", "rewards/accuracies"}),),
    strangers=frozenset({"log_odds_ratio", "log_odds_chosen", "kl", "objective/kl", "delta"}),
    rivals=frozenset({"KTO", "ORPO", "CPO", "SimPO", "IPO"}),
    keys={
        **TRAINER,
        "rewards/chosen": Key("dpo_reward_chosen", "log_ratio times beta", "response sum"),
        "rewards/rejected": Key("dpo_reward_rejected", "log_ratio times beta", "response sum"),
        "rewards/margins": Key("dpo_margin", "log_ratio times beta", "response sum"),
        "rewards/accuracies": Key("dpo_accuracy"),
        "logps/chosen": Key("logp_chosen", reduction="response sum"),
        "logps/rejected": Key("logp_rejected", reduction="response sum"),
        "logits/chosen": Key("logit_chosen"),
        "logits/rejected": Key("logit_rejected"),
        "entropy": Key("entropy", "full_vocab", "token mean"),
        "mean_token_accuracy": Key("token_accuracy"),
        "nll_loss": Key("sft_loss"),
    },
    log_offset=1,
)
"""Rewards are beta x the log-ratio to the reference, summed over the response; CPO and SimPO have
no reference at all, KTO's ``kl`` is a baseline over mismatched pairs."""
