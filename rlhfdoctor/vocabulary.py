"""Canonical metric names: unit, meaning, sign. A name that carries a unit is never given another.

``kl_ref_response`` is nats per response, ``kl_ref_token`` nats per token; both measure the policy
against the reference. ``kl_old_token`` measures it against the policy that sampled, and
``kl_train_infer_token`` the rollout engine against the trainer. Where the unit cannot be known the
column is ``kl_unknown`` and no rule that needs a unit reads it.

Meanings and units are those of the frameworks' sources, listed key by key in the dialects.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


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


Kind = Literal["algorithm", "dtype", "text", "flag", "count", "positive", "amount", "whole"]
"""What a setting's value may be: a name of ``ALGORITHMS``, a floating type, a text, true or false,
a whole number above 0, a finite number above 0, one of at least 0, any whole number."""


@dataclass(frozen=True, slots=True)
class Option:
    """A configuration value: what it may be, and the keys under which the frameworks write it.

    An alias is the end of a dotted path, most specific first: ``optim.lr`` fits
    ``actor.optim.lr``. ``^steps`` fits the whole path only, since the word means other things
    deeper down. ``a*b`` is a product, of ``a`` alone where ``b`` is not told. ``key?flag`` counts
    only where the run's ``flag`` is not off.
    """

    kind: Kind
    aliases: tuple[str, ...] = ()


SETTINGS: dict[str, Option] = {
    "algorithm": Option(
        "algorithm",
        (
            "algorithm.adv_estimator",
            "advantage_estimator",
            "rlhf_type",
            "rl_algorithm",
            "^rl",
            "method.name",
            "pref_loss",
            "stage",
            "algorithm",
            "algo",
            "trainer_type",
            "trainer",
            "trainer_cls",
        ),
    ),
    "learning_rate": Option(
        "amount",
        (
            "actor_learning_rate",
            "actor_lr",
            "actor.optim.lr",
            "actor.optimizer.lr",
            "optimizer.kwargs.lr",
            "learning_rate",
            "optim.lr",
            "optimizer.lr",
            "lr",
        ),
    ),
    "lr_critic": Option(
        "amount",
        ("critic.optim.lr", "critic_learning_rate", "critic_lr", "critic.optimizer.lr"),
    ),
    "kl_coef": Option(
        "amount",
        (
            "kl_loss_coef?use_kl_loss",
            "kl_ctrl.kl_coef?use_kl_in_reward",
            "pref_beta",
            "rl_beta",
            "dpo_beta",
            "grpo_beta",
            "trl.beta",
            "loss.beta",
            "^beta",
            "reference_policy_kl_penalty",
            "initial_policy_kl_penalty",
            "ref_policy_kl_penalty",
            "init_kl_coef",
            "init_kl_coeff",
            "kl_penalty_weight",
            "kl_coef",
            "kl_coeff",
            "kl_beta",
            "kl_ctl",
            "kl_ctl_value",
        ),
    ),
    "kl_target": Option("positive", ("kl_ctrl.target_kl", "kl_target", "^target", "target_kl")),
    "kl_in_reward": Option("flag", ("use_kl_in_reward", "kl_in_reward")),
    "kl_in_loss": Option("flag", ("use_kl_loss",)),
    "vf_coef": Option("amount", ("vf_coef", "value_loss_coef", "value_loss_coeff", "vf_loss_coef")),
    "entropy_coef": Option(
        "amount", ("entropy_coeff", "entropy_coef", "entropy_loss_coef", "ent_coef")
    ),
    "clip_range": Option(
        "amount",
        (
            "^epsilon",
            "cliprange",
            "clip_range",
            "clip_ratio",
            "eps_clip",
            "clip_range_ratio",
            "ratio_eps",
            "pg_clip",
        ),
    ),
    "clip_range_low": Option("amount", ("clip_ratio_low", "eps_clip_low", "ratio_clip_min")),
    "clip_range_high": Option(
        "amount", ("epsilon_high", "clip_ratio_high", "eps_clip_high", "ratio_clip_max")
    ),
    "planned_steps": Option(
        "count",
        (
            "^max_steps",
            "ppo.max_steps",
            "total_training_steps",
            "max_num_steps",
            "max_train_steps",
            "num_train_steps",
            "total_train_steps",
            "^total_steps",
            "num_rollout",
            "^steps",
            "^train_steps",
        ),
    ),
    "planned_epochs": Option(
        "positive",
        (
            "num_train_epochs",
            "total_epochs",
            "total_train_epochs",
            "max_num_epochs",
            "num_epochs",
            "max_epochs",
        ),
    ),
    "ppo_epochs": Option(
        "count", ("num_ppo_epochs", "ppo_epochs", "num_iterations", "ppo_n_minibatches_epochs")
    ),
    "logging_steps": Option("count", ("logging_steps", "log_interval", "logging_interval")),
    "save_steps": Option(
        "count",
        (
            "save_steps",
            "save_freq",
            "save_interval",
            "save_per_step",
            "checkpoint_interval",
            "save_period",
            "^save",
        ),
    ),
    "batch_size": Option(
        "count",
        (
            "data.train_batch_size",
            "rollout_batch_size",
            "per_device_train_batch_size",
            "train_batch_size",
            "micro_train_batch_size",
            "global_batch_size",
            "num_prompts_per_step",
            "batch_size",
            "micro_batch_size",
            "^batch",
        ),
    ),
    "mini_batch_size": Option(
        "count",
        ("ppo_mini_batch_size", "mini_batch_size", "train_global_batch_size", "ppo_minibatch_size"),
    ),
    "gradient_accumulation_steps": Option(
        "count", ("gradient_accumulation_steps", "grad_accum_steps", "gradient_accumulation")
    ),
    "group_size": Option(
        "count",
        (
            "num_generations",
            "group_size",
            "rollout_n",
            "rollout.n",
            "n_samples_per_prompt",
            "num_generations_per_prompt",
            "rloo_k",
            "rollouts_per_example",
            "gconfig.n_samples",
        ),
    ),
    "max_prompt_length": Option(
        "count", ("max_prompt_length", "prompt_max_len", "max_input_length", "max_prompt_len")
    ),
    "max_response_length": Option(
        "count",
        (
            "max_completion_length",
            "max_response_length",
            "response_length",
            "rollout_max_response_len",
            "generate_max_len",
            "max_new_tokens",
            "max_response_len",
            "^maxlen",
            "^resp",
        ),
    ),
    "temperature": Option(
        "amount",
        ("rollout.temperature", "rollout_temperature", "gconfig.temperature", "temperature"),
    ),
    "top_p": Option("positive", ("rollout.top_p", "rollout_top_p", "gconfig.top_p", "top_p")),
    "dtype": Option(
        "dtype",
        (
            "bf16",
            "fp16",
            "fsdp_config.dtype",
            "mixed_precision.param_dtype",
            "mixed_precision",
            "param_dtype",
            "model_dtype",
            "precision",
            "torch_dtype",
            "dtype",
        ),
    ),
    "model": Option(
        "text",
        (
            "actor_rollout_ref.model.path",
            "actor.path",
            "policy.model_name",
            "model_name_or_path",
            "base_model_name_or_path",
            "pretrain_or_model",
            "base_model",
            "model_path",
            "model_id",
            "policy_model_path",
            "hf_checkpoint",
            "pretrain",
            "model.name",
            "model.path",
            "model_name",
            "^model",
            "^_name_or_path",
        ),
    ),
    "reference_model": Option(
        "text",
        (
            "ref_model",
            "reference_model",
            "ref_model_path",
            "ref_model_name_or_path",
            "ref.path",
            "ref_load",
            "sft_model_path",
        ),
    ),
    "reward_model": Option(
        "text",
        ("reward_model.model.path", "reward_model_path", "reward_model", "reward_pretrain"),
    ),
    "lora_rank": Option("count", ("lora_rank", "lora_r", "^r")),
    "gpus": Option(
        "count",
        (
            "n_gpus_per_node*nnodes",
            "gpus_per_node*num_nodes",
            "actor_num_gpus_per_node*actor_num_nodes",
            "world_size",
            "num_gpus",
            "n_gpus",
            "num_processes",
            "gpu_count",
        ),
    ),
    "seed": Option("whole", ("seed",)),
    "framework": Option("text"),
    "framework_version": Option("text", ("^trl", "trl_version", "swift_version", "verl_version")),
    "updates_done": Option("whole"),
    "ended_with": Option("text"),
}
"""Names of configuration values, and the keys under which the frameworks write them.

kl_coef: weight of the KL to the reference, in the reward or in the loss; of DPO and its kin, beta.
learning_rate: of the policy. clip_range: half width of the interval for the importance ratio.
batch_size: as the framework counts it (HF: sequences a device, verl: prompts a step).
mini_batch_size: of one optimizer step of PPO, as the framework counts it. group_size: responses a
prompt. Lengths in tokens; logging_steps and save_steps in updates.
framework, framework_version: as a program names itself in a banner, a file or a model card.
ended_with: the last exception that a console log shows ("RuntimeError: CUDA error").
"""

ALGORITHMS = (
    "PPO",
    "GRPO",
    "RLOO",
    "DPO",
    "KTO",
    "ORPO",
    "CPO",
    "SimPO",
    "IPO",
    "REINFORCE",
    "RM",
)
"""Algorithm names as reports print them. RM: a reward model, trained on pairs."""
