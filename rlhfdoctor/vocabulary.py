"""Canonical metric names: unit, meaning, sign. A name that carries a unit is never given another.

``kl_ref_response`` is nats per response, ``kl_ref_token`` nats per token; both measure the policy
against the reference. ``kl_old_token`` measures it against the policy that sampled, and
``kl_train_infer_token`` the rollout engine against the trainer. Where the unit cannot be known the
column is ``kl_unknown`` and no rule that needs a unit reads it.

Meanings and units are those of the frameworks' sources, listed key by key in the dialects.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Metric:
    """What a canonical name stands for. ``signed``: negative values are legitimate."""

    name: str
    unit: str
    meaning: str
    signed: bool = False
    core: bool = False


def _table(*metrics: Metric) -> dict[str, Metric]:
    return {metric.name: metric for metric in metrics}


METRICS = _table(
    # distance from the reference
    Metric(
        "kl_ref_response",
        "nats/response",
        "KL of the policy to the reference, summed over a response, batch mean",
        signed=True,
        core=True,
    ),
    Metric(
        "kl_ref_token",
        "nats/token",
        "KL of the policy to the reference, mean over response tokens",
        signed=True,
        core=True,
    ),
    Metric("kl_unknown", "unknown", "a KL whose pair or unit the log does not say", signed=True),
    Metric(
        "kl_old_token",
        "nats/token",
        "KL of the policy to the policy that sampled the batch; says nothing of the reference",
        signed=True,
    ),
    Metric(
        "kl_train_infer_token",
        "nats/token",
        "KL between trainer and rollout engine under the same weights",
        signed=True,
    ),
    Metric("kl_coef", "1", "weight of the KL penalty"),
    Metric("kl_penalty_reward", "reward", "the KL penalty as a reward: -coef x KL", signed=True),
    # entropy and perplexity
    Metric("entropy", "nats/token", "full-vocabulary entropy of the policy, token mean", core=True),
    Metric("entropy_unknown", "unknown", "an entropy whose unit the log does not say"),
    Metric(
        "neg_logp_response",
        "nats/response",
        "minus the log-probability of the sampled response, summed; not an entropy",
        signed=True,
    ),
    Metric("ppl_policy", "perplexity", "perplexity of responses under the policy", core=True),
    Metric("ppl_ref", "perplexity", "perplexity of responses under the reference", core=True),
    Metric("token_accuracy", "fraction", "share of tokens that are the argmax"),
    # lengths
    Metric("response_length_mean", "tokens", "mean response length"),
    Metric("response_length_min", "tokens", "shortest response of the batch"),
    Metric("response_length_max", "tokens", "longest response of the batch"),
    Metric(
        "response_length_terminated_mean",
        "tokens",
        "mean over finished responses; 0: none finished",
    ),
    Metric("response_length_terminated_min", "tokens", "shortest finished response; 0: none"),
    Metric("response_length_terminated_max", "tokens", "longest finished response; 0: none"),
    Metric("truncation_rate", "fraction", "share of responses cut at the length limit"),
    Metric("num_eos_tokens", "responses/batch", "finished responses in the batch, rank 0 only"),
    Metric("eos_rate", "fraction", "share of responses that end by themselves"),
    # rewards and groups
    Metric("reward_raw_mean", "reward", "reward before any KL penalty, batch mean", True, True),
    Metric("reward_shaped_mean", "reward", "reward with the KL penalty inside", signed=True),
    Metric("reward_std", "reward", "spread of the reward: over the batch or within groups"),
    Metric("reward_group_std", "reward", "mean standard deviation within a group"),
    Metric("reward_component_mean", "reward", "mean of one reward function", signed=True),
    Metric("reward_component_std", "reward", "standard deviation of one reward function"),
    Metric("frac_reward_zero_std", "fraction", "share of groups whose rewards are all equal"),
    # optimiser
    Metric("loss_total", "loss", "training loss; cosmetic under GRPO and PPO", True, True),
    Metric("policy_loss", "loss", "policy part of the loss", signed=True),
    Metric("value_loss", "reward^2", "loss of the value model"),
    Metric("sft_loss", "nats/token", "supervised part of a preference loss"),
    Metric("moe_aux_loss", "loss", "load-balancing loss"),
    Metric("grad_norm", "L2 norm", "gradient norm before clipping", core=True),
    Metric("lr", "1/step", "learning rate"),
    Metric("clip_frac", "fraction", "share of tokens whose ratio was clipped"),
    Metric("clip_frac_low", "fraction", "share clipped at the lower bound"),
    Metric("clip_frac_low_min", "fraction", "share clipped low, smallest rank"),
    Metric("clip_frac_high", "fraction", "share clipped at the upper bound"),
    Metric("clip_frac_high_max", "fraction", "share clipped high, largest rank"),
    Metric("ratio_mean", "1", "importance ratio of new to old policy"),
    Metric("ratio_var", "1", "variance of the importance ratio"),
    Metric("value_clip_frac", "fraction", "share of clipped value predictions"),
    Metric("entropy_coef", "1", "weight of an entropy bonus"),
    Metric("logp_diff_train_infer_mean", "nats/token", "|log-ratio| of trainer to rollout engine"),
    Metric("logp_diff_train_infer_max", "nats", "largest |log-ratio| of trainer to rollout engine"),
    Metric("is_ratio_train_infer_min", "1", "smallest importance ratio of trainer to engine"),
    Metric("is_ratio_train_infer_mean", "1", "mean importance ratio of trainer to engine"),
    Metric("is_ratio_train_infer_max", "1", "largest importance ratio of trainer to engine"),
    # preference training
    Metric("dpo_reward_chosen", "nats*beta", "beta x log-ratio of the chosen answers", signed=True),
    Metric("dpo_reward_rejected", "nats*beta", "beta x log-ratio of the rejected", signed=True),
    Metric("dpo_margin", "nats*beta", "chosen minus rejected reward", signed=True, core=True),
    Metric("dpo_accuracy", "fraction", "share of pairs with a positive margin", core=True),
    Metric("logp_chosen", "nats/response", "log-probability of the chosen answers", True, True),
    Metric("logp_rejected", "nats/response", "log-probability of the rejected answers", True, True),
    Metric("logit_chosen", "logit", "mean raw logit on chosen answers", signed=True),
    Metric("logit_rejected", "logit", "mean raw logit on rejected answers", signed=True),
    # bookkeeping
    Metric("num_tokens", "tokens", "tokens seen so far"),
    Metric("episodes", "episodes", "episodes seen so far"),
    Metric("episodes_per_second", "1/s", "throughput; not the clip range"),
    Metric("step_time", "s", "wall time of one step"),
    Metric("tool_calls_per_sample", "1", "tool calls a response"),
    Metric("tool_failure_rate", "fraction", "share of failed tool calls"),
)
"""Every canonical metric. ``core``: a value that is not finite here is a fault of the run."""


def metric_of(column: str) -> Metric | None:
    """Return the entry behind a column of ``Run.metrics``: ``eval_`` and ``[part]`` removed."""
    base = column.removeprefix("eval_").split("[", 1)[0]
    return METRICS.get(base)


SETTINGS: dict[str, tuple[str, ...]] = {
    "algorithm": ("algorithm", "algo", "rlhf_type", "rl_algorithm", "trainer", "trainer_type"),
    "learning_rate": ("learning_rate", "lr", "actor_learning_rate"),
    "kl_coef": ("beta", "kl_coef", "init_kl_coef", "kl_beta", "kl_loss_coef"),
    "vf_coef": ("vf_coef", "value_loss_coef"),
    "clip_range": ("epsilon", "cliprange", "clip_range", "clip_ratio"),
    "planned_steps": ("max_steps", "total_steps", "total_training_steps", "steps"),
    "planned_epochs": ("num_train_epochs", "total_epochs"),
    "logging_steps": ("logging_steps",),
    "save_steps": ("save_steps", "save_freq", "save"),
    "batch_size": ("per_device_train_batch_size", "train_batch_size", "batch_size", "batch"),
    "group_size": ("num_generations", "group_size", "rollout_n"),
    "max_response_length": (
        "max_completion_length",
        "response_length",
        "max_new_tokens",
        "max_response_length",
        "maxlen",
    ),
    "temperature": ("temperature",),
    "reference_model": ("ref_model", "reference_model", "ref_model_path", "sft_model_path"),
    "gpus": ("num_gpus", "n_gpus", "world_size"),
    "seed": ("seed",),
    "framework": (),
    "framework_version": (),
    "updates_done": (),
    "ended_with": (),
}
"""Names of configuration values, and the keys under which the frameworks write them.

framework, framework_version: as a program names itself in a banner, a file or a model card.
ended_with: the last exception that a console log shows ("RuntimeError: CUDA error").
"""

ALGORITHMS = ("PPO", "GRPO", "RLOO", "DPO", "KTO", "ORPO", "CPO", "SimPO", "IPO", "REINFORCE")
"""Algorithm names as reports print them."""
