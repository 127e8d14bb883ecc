"""TRL KTOTrainer (1.10.0.dev0, kto_trainer.py:1450-1606)."""

from rlhfdoctor.dialects import Dialect, Key
from rlhfdoctor.dialects._trl import PREFERENCES, UNPAIRED_MARKS

DIALECT = Dialect(
    name="trl_kto",
    framework="TRL",
    algorithm="KTO",
    marks=tuple(marks | {"kl"} for marks in UNPAIRED_MARKS),
    strangers=frozenset(
        {"rewards/accuracies", "log_odds_ratio", "objective/kl", "delta", "reward_std"}
    ),
    keys={
        **PREFERENCES,
        "kl": Key("kto_kl_baseline", "k1, clamped at 0", "response sum over mismatched pairs"),
    },
    log_offset=1,
)
"""``kl`` is the baseline z0: the log-ratio of completions to prompts that are not theirs,
clamped at 0. It is no drift of the policy. Chosen and rejected are unpaired, so margins are
differences of two means, and a batch without one of them logs NaN for it."""
