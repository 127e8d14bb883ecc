"""DeepSpeed-Chat step 2: a reward model learns (45b4b715, step2_reward_model_finetuning/main.py).

Its console line is "chosen_last_scores (higher is better) : 2.8, acc (higher is better) : 0.6".
"""

from rlhfdoctor.dialects import Dialect, Key

_REMARK = " (higher is better)"

DIALECT = Dialect(
    name="deepspeed_chat_reward",
    framework="DeepSpeed-Chat",
    algorithm="reward model",
    marks=(
        frozenset({"chosen_last_scores", "acc"}),
        frozenset({f"chosen_last_scores{_REMARK}", f"acc{_REMARK}"}),
    ),
    keys={
        "chosen_last_scores": Key("rm_score_chosen"),
        f"chosen_last_scores{_REMARK}": Key("rm_score_chosen"),
        "acc": Key("rm_accuracy"),
        f"acc{_REMARK}": Key("rm_accuracy"),
        "loss": Key("loss_total"),
    },
)
"""``acc`` is the share of held-out pairs that the reward model ranks right."""
