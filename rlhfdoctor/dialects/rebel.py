"""REBEL and NPG scripts built on summarize_from_feedback_details (``rebel/*``, ``npg/*``)."""

from rlhfdoctor.dialects import Dialect, Key


def _named(prefix: str) -> dict[str, Key]:
    old = Key("kl_old_response", "k2", "of the whole response")
    return {
        f"{prefix}/policy/approxkl_avg": old,
        f"{prefix}/policy/approxkl": old,
        f"{prefix}/policy/entropy_avg": Key("entropy", "full_vocab", "mean over padding too"),
        f"{prefix}/policy/entropy": Key("entropy", "full_vocab", "mean over padding too"),
        f"{prefix}/loss/policy_avg": Key("policy_loss"),
        f"{prefix}/loss/policy": Key("policy_loss"),
        f"{prefix}/val/ratio": Key("ratio_mean", reduction="of whole responses"),
        f"{prefix}/val/ratio_var": Key("ratio_var"),
        f"{prefix}/val/num_eos_tokens": Key("num_eos_tokens"),
        f"{prefix}/lr": Key("lr"),
        f"{prefix}/episode": Key("episodes"),
        f"{prefix}/eps": Key("episodes_per_second"),
    }


DIALECT = Dialect(
    name="rebel",
    framework="REBEL",
    upon=frozenset({"summarize_from_feedback_details"}),
    algorithm="REBEL",
    marks=(
        frozenset({"rebel/policy/approxkl", "rebel/loss/policy"}),
        frozenset({"npg/policy/approxkl", "npg/loss/policy"}),
    ),
    keys={
        "objective/kl": Key("kl_ref_response", "k1", "sum over the response, batch mean"),
        "objective/kl_coef": Key("kl_coef"),
        "objective/entropy": Key("neg_logp_response", "sampled_logp", "sum over the response"),
        "objective/non_score_reward": Key("kl_penalty_reward", "k1", "sum over the response"),
        "objective/score_total": Key("reward_shaped_mean"),
        "objective/scores": Key("reward_raw_mean"),
        "objective/validation_score": Key("heldout_reward"),
        **_named("rebel"),
        **_named("npg"),
    },
)
"""Log-probabilities are summed over the response before anything is made of them: ratios and the
approximate KL are those of whole responses."""
