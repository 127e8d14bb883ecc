"""DeepSpeed-Chat DPO (step2_dpo_finetuning/main.py, ``evaluation``).

Its console line is "chosen: -3.2, rejected: -3.4, loss: 0.66".
"""

from rlhfdoctor.dialects import Dialect, Key

_LAST = ("log_ratio times beta", "response sum, last batch of the evaluation")

DIALECT = Dialect(
    name="deepspeed_chat_dpo",
    framework="DeepSpeed-Chat",
    algorithm="DPO",
    marks=(frozenset({"chosen", "rejected", "loss"}),),
    told=True,
    keys={
        "chosen": Key("dpo_reward_chosen", *_LAST),
        "rejected": Key("dpo_reward_rejected", *_LAST),
        "loss": Key("loss_total", reduction="mean over the evaluation"),
    },
)
"""The loss is that of the whole evaluation, the rewards are those of its last batch alone."""
