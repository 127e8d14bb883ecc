"""MiniMind PPO: console lines and tracker keys (trainer/train_ppo.py)."""

from rlhfdoctor.dialects import Change, Dialect, Key

_TOKEN = Key("kl_ref_token", "k3", "token mean, mean over mini-batches")
_RESPONSE = Key("kl_ref_response", "k1", "sum over the response, batch mean")
_OPEN = Key("kl_unknown", "k1 or k3", "token mean or response sum")
_OLD = Key("kl_old_token", "k2", "token mean, mean over mini-batches")

DIALECT = Dialect(
    name="minimind_ppo",
    framework="MiniMind",
    algorithm="PPO",
    marks=(
        frozenset({"KL_ref", "Approx KL", "ClipFrac", "Critic Loss", "Avg Response Len"}),
        frozenset({"KL_ref", "KL", "Critic Loss", "Avg Response Len", "Actor LR"}),
        frozenset(
            {
                "reward",
                "kl_ref",
                "approx_kl",
                "clipfrac",
                "critic_loss",
                "avg_response_len",
                "actor_lr",
                "critic_lr",
            }
        ),
    ),
    strangers=frozenset(
        {"loss", "actor_loss", "policy_loss", "entropy", "grad_norm", "reward_std"}
    ),
    keys={
        "KL_ref": _OPEN,
        "kl_ref": _OPEN,
        "Approx KL": _OLD,
        "approx_kl": _OLD,
        "ClipFrac": Key("clip_frac"),
        "clipfrac": Key("clip_frac"),
        "Reward": Key("reward_raw_mean"),
        "reward": Key("reward_raw_mean"),
        "Actor Loss": Key("policy_loss"),
        "actor_loss": Key("policy_loss"),
        "Critic Loss": Key("value_loss"),
        "critic_loss": Key("value_loss"),
        "Aux Loss": Key("moe_aux_loss"),
        "aux_loss": Key("moe_aux_loss"),
        "Avg Response Len": Key("response_length_mean"),
        "avg_response_len": Key("response_length_mean"),
        "Actor LR": Key("lr"),
        "actor_lr": Key("lr"),
        "Critic LR": Key("lr_critic"),
        "critic_lr": Key("lr_critic"),
    },
    changes=(
        Change(
            since="3",
            before={
                "KL_ref": _RESPONSE,
                "kl_ref": _RESPONSE,
                "KL": Key("kl_old_response", "k1", "sum over the response"),
                "kl": Key("kl_old_response", "k1", "sum over the response"),
            },
            after={"KL_ref": _TOKEN, "kl_ref": _TOKEN},
            newer=frozenset({"Approx KL", "approx_kl", "ClipFrac", "clipfrac"}),
            older=frozenset({"KL", "kl"}),
        ),
    ),
)
"""Up to MiniMind 2 the log-probabilities of a response are summed first; since 3 ``KL_ref`` is k3 a
token. The keys beside it tell which. Those of its tracker (lower case) could be anyone's: they are
MiniMind's where all are there, and no loss of the policy."""
