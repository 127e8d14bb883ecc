"""MOSS-RLHF PPO: tensorboard tags with a suffix, console lines without (4865d826).

ppo/ppo_trainer.py:306-317, 364, 497-514, 574-598, 638-654; metric.py:160-175.
"""

from rlhfdoctor.dialects import Derived, Dialect, Key

_KEYS = {
    "ref_kl": Key("kl_ref_token", "k1", "token mean of a response, mean over responses"),
    "approx_kl": Key("kl_old_token", "k3", "token mean"),
    "rewards": Key("reward_raw_mean"),
    "reward_mean": Key("reward_raw_mean", reduction="over all ranks; 0 without reward scaling"),
    "reward_std": Key("reward_std", reduction="over the batch; 0 without reward scaling"),
    "res_len": Key("response_length_mean"),
    "loss": Key("loss_total"),
    "pg_loss": Key("policy_loss"),
    "vf_loss": Key("value_loss"),
    "pg_clip": Key("clip_frac"),
    "vf_clip": Key("value_clip_frac"),
    "entro_loss": Key("entropy_target_error"),
    "values": Key("value_mean"),
    "values_clipped": Key("value_clipped_mean"),
    "returns": Key("return_mean"),
    "advantages": Key("advantage_mean"),
    "ratio": Key("ratio_mean"),
    "lr": Key("lr"),
    "global_exs": Key("episodes"),
    "ups": Key("updates_per_second"),
    "ppo_pretrain_loss": Key("sft_loss"),
    "token_acc": Key("token_accuracy", reduction="on pre-training data"),
    "ppl": Key("ppl_misnormalised"),
    "ppl_policy0": Key("ppl_ref_misnormalised"),
}


def _recovered(suffix: str) -> Derived:
    return Derived(
        Key("neg_logp_token", "recovered", "token mean over prompt and response"),
        of=(f"ppl{suffix}", f"res_len{suffix}"),
        compute=lambda ppl, length: ppl.log() * length,
        text="ppl is exp(mean NLL / response length) here, no perplexity; the mean NLL is "
        "recovered as ln(ppl) x res_len",
        estimate=True,
    )


DIALECT = Dialect(
    name="moss_rlhf",
    framework="MOSS-RLHF",
    algorithm="PPO",
    marks=(
        frozenset({"ref_kl/train", "res_len/train", "ppl_policy0/train"}),
        frozenset({"entro_loss/train", "res_len/train", "pg_clip/train"}),
        frozenset({"global_exs/train", "ups/train", "res_len/train"}),
        frozenset({"ref_kl", "res_len", "ppl_policy0"}),
        frozenset({"entro_loss", "res_len", "pg_clip"}),
        frozenset({"global_exs", "ups", "res_len"}),
    ),
    keys={
        **{f"{key}/train": meaning for key, meaning in _KEYS.items()},
        **_KEYS,
        "ppl/eval": Key("ppl_policy_sequence", reduction="over prompt and response"),
        "ppl_policy0/eval": Key("ppl_ref_sequence", reduction="over prompt and response"),
        "rewards/eval": Key("heldout_reward"),
    },
    derived=(_recovered("/train"), _recovered("")),
)
"""``ppl/train`` divides by the number of tokens twice (ppo_trainer.py:510): near 1 for every model,
so no threshold of a perplexity fits it. ``entro_loss`` is the distance of the entropy from 35."""
