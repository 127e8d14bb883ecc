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
    """What a canonical name stands for.

    signed: negative values are legitimate. beware: what it must not be taken for, first the other
    names of this table, then why.
    """

    name: str
    unit: str
    meaning: str
    signed: bool = False
    core: bool = False
    beware: str = ""


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
        beware="kl_ref_token: smaller by the response length",
    ),
    Metric(
        "kl_ref_token",
        "nats/token",
        "KL of the policy to the reference, mean over response tokens",
        signed=True,
        core=True,
        beware="kl_ref_response: larger by the response length; kl_old_token: another pair",
    ),
    Metric(
        "kl_unknown",
        "unknown",
        "a KL whose pair or unit the log does not say",
        signed=True,
        beware="any KL with a unit; --map states it",
    ),
    Metric(
        "kl_ref_token_diluted",
        "nats/token",
        "KL of the policy to the reference, mean over all positions, padding included",
        beware="kl_ref_token: the padding thins it out by an unknown share",
    ),
    Metric(
        "log_ratio_abs_ref_token",
        "nats/token",
        "mean |log-ratio| of policy to reference; no KL",
        beware="kl_ref_token: far larger than it near the reference",
    ),
    Metric(
        "kto_kl_baseline",
        "nats/response",
        "KTO's baseline: log-ratio over mismatched pairs, clamped at 0",
        beware="kl_ref_response: says nothing of the policy's own responses",
    ),
    Metric("kl_coef", "1", "weight of the KL penalty"),
    Metric(
        "kl_penalty_reward",
        "reward",
        "the KL penalty as a reward: -coef x KL, summed over a response",
        signed=True,
        beware="kl_ref_response: the coefficient and the sign are inside",
    ),
    Metric(
        "kl_penalty_reward_token",
        "reward/token",
        "the KL penalty as a reward: -coef x KL, mean over tokens",
        signed=True,
        beware="kl_ref_token: the coefficient and the sign are inside",
    ),
    # distance from the policy that sampled
    Metric(
        "kl_old_token",
        "nats/token",
        "KL of the policy to the policy that sampled the batch; says nothing of the reference",
        signed=True,
        beware="kl_ref_token: near 0 in every run whose updates are small",
    ),
    Metric(
        "kl_old_response",
        "nats/response",
        "KL of the policy to the policy that sampled the batch, of whole responses",
        signed=True,
        beware="kl_ref_response: says nothing of the reference",
    ),
    Metric("ratio_mean", "1", "importance ratio of new to old policy"),
    Metric("ratio_min", "1", "smallest importance ratio of new to old policy"),
    Metric("ratio_max", "1", "largest importance ratio of new to old policy"),
    Metric("ratio_var", "1", "variance of the importance ratio"),
    Metric("ratio_clamped_mean", "1", "importance ratio after clipping"),
    Metric("ratio_weight_mean", "1", "mean weight that an algorithm gives its ratios"),
    Metric(
        "clip_frac",
        "fraction",
        "share of tokens whose ratio was clipped",
        beware="truncation_rate: some trainers call that clip_ratio",
    ),
    Metric("clip_frac_low", "fraction", "share clipped at the lower bound"),
    Metric("clip_frac_low_min", "fraction", "share clipped low, smallest rank"),
    Metric("clip_frac_high", "fraction", "share clipped at the upper bound"),
    Metric("clip_frac_high_max", "fraction", "share clipped high, largest rank"),
    Metric("dual_clip_frac", "fraction", "share that hit the second bound of dual clipping"),
    # distance between trainer and rollout engine
    Metric(
        "kl_train_infer_token",
        "nats/token",
        "KL between trainer and rollout engine under the same weights",
        signed=True,
        beware="kl_ref_token: precision and staleness, no drift",
    ),
    Metric(
        "kl_train_infer_reverse_token",
        "nats/token",
        "the same, the other way round",
        signed=True,
    ),
    Metric("kl_train_infer_masked_token", "nats/token", "the same over masked tokens", signed=True),
    Metric("kl_train_infer_kept_token", "nats/token", "the same over kept tokens", signed=True),
    Metric("js_train_infer_token", "nats/token", "Jensen-Shannon divergence of the two"),
    Metric("logp_diff_train_infer_mean", "nats/token", "|log-ratio| of trainer to rollout engine"),
    Metric("logp_diff_train_infer_max", "nats", "largest |log-ratio| of trainer to rollout engine"),
    Metric("log_ppl_diff_train_infer", "nats/token", "difference of log-perplexities", signed=True),
    Metric("log_ppl_absdiff_train_infer", "nats/token", "its absolute value"),
    Metric("ppl_ratio_train_infer", "1", "ratio of perplexities of trainer and engine"),
    Metric("is_ratio_train_infer_min", "1", "smallest importance ratio of trainer to engine"),
    Metric("is_ratio_train_infer_mean", "1", "mean importance ratio of trainer to engine"),
    Metric("is_ratio_train_infer_max", "1", "largest importance ratio of trainer to engine"),
    Metric("is_ess", "fraction", "effective sample size of the importance weights"),
    Metric("chi2_train_infer", "1", "chi-square divergence of the two, over tokens", signed=True),
    Metric("chi2_train_infer_seq", "1", "chi-square divergence, over sequences", signed=True),
    Metric("prob_diff_train_infer_mean", "probability", "mean difference of probabilities"),
    Metric("prob_diff_train_infer_max", "probability", "largest difference of probabilities"),
    Metric("prob_diff_train_infer_std", "probability", "spread of those differences"),
    Metric("prob_corr_train_infer", "1", "correlation of the two probabilities", signed=True),
    Metric("prob_mult_error_train_infer", "1", "mean exp |log-ratio|; 1 is perfect"),
    Metric("rejection_frac", "fraction", "share of tokens rejected for the mismatch"),
    Metric("kl_entropy_ratio", "1", "trainer-engine KL over entropy"),
    Metric("staleness_mean", "versions", "weight versions between generation and training"),
    # entropy and perplexity
    Metric(
        "entropy",
        "nats/token",
        "full-vocabulary entropy of the policy, token mean",
        core=True,
        beware="neg_logp_token: estimated from the sampled tokens alone",
    ),
    Metric("entropy_min", "nats/token", "lowest entropy of a response"),
    Metric("entropy_max", "nats/token", "highest entropy of a response"),
    Metric(
        "entropy_unknown",
        "unknown",
        "an entropy whose unit the log does not say",
        beware="entropy: it may be a sum, a bonus or negated; --map states it",
    ),
    Metric("entropy_coef", "1", "weight of an entropy bonus"),
    Metric(
        "entropy_scaled",
        "nats/token*coef",
        "entropy times its coefficient; 0 where there is no bonus",
        beware="entropy",
    ),
    Metric(
        "entropy_target_error",
        "nats",
        "distance of the entropy from a target",
        beware="entropy: it falls where the entropy rises",
    ),
    Metric(
        "neg_logp_response",
        "nats/response",
        "minus the log-probability of the sampled response, summed; not an entropy",
        signed=True,
        beware="entropy: longer responses alone make it grow",
    ),
    Metric(
        "neg_logp_token",
        "nats/token",
        "minus the log-probability of the sampled tokens, token mean",
        beware="entropy: equal to it in expectation, on the policy's own samples only",
    ),
    Metric("logp_policy_token", "nats/token", "log-probability of sampled tokens", signed=True),
    Metric("logp_old_token", "nats/token", "the same under the policy that sampled", signed=True),
    Metric("logp_ref_token", "nats/token", "the same under the reference", signed=True),
    Metric(
        "ppl_policy",
        "perplexity",
        "perplexity of responses under the policy",
        core=True,
        beware="ppl_policy_sequence: with the prompt",
    ),
    Metric("ppl_ref", "perplexity", "perplexity of responses under the reference", core=True),
    Metric(
        "ppl_policy_sequence",
        "perplexity",
        "perplexity of prompt and response together under the policy",
        beware="ppl_policy: the prompt's own perplexity thins it out",
    ),
    Metric(
        "ppl_ref_sequence",
        "perplexity",
        "perplexity of prompt and response together under the reference",
        beware="ppl_ref",
    ),
    Metric("ppl_rollout", "perplexity", "perplexity of responses under the rollout engine"),
    Metric("log_ppl_policy", "nats/token", "logarithm of the policy's perplexity"),
    Metric("log_ppl_rollout", "nats/token", "logarithm of the rollout engine's perplexity"),
    Metric(
        "ppl_misnormalised",
        "unknown",
        "called a perplexity and divided twice: near 1 for every model",
        beware="ppl_policy",
    ),
    Metric("ppl_ref_misnormalised", "unknown", "the same of the reference", beware="ppl_ref"),
    Metric(
        "exp_loss",
        "exp(loss)",
        "exp of the loss",
        beware="ppl_policy: means nothing where the loss is no likelihood",
    ),
    Metric("token_accuracy", "fraction", "share of tokens that are the argmax"),
    # lengths
    Metric(
        "response_length_mean",
        "tokens",
        "mean response length",
        beware="total_length_mean: with the prompt",
    ),
    Metric("response_length_min", "tokens", "shortest response of the batch"),
    Metric("response_length_max", "tokens", "longest response of the batch"),
    Metric("response_length_std", "tokens", "spread of response lengths"),
    Metric(
        "response_length_terminated_mean",
        "tokens",
        "mean over finished responses; 0: none finished",
    ),
    Metric("response_length_terminated_min", "tokens", "shortest finished response; 0: none"),
    Metric("response_length_terminated_max", "tokens", "longest finished response; 0: none"),
    Metric("response_length_nonempty_mean", "tokens", "mean over responses that are not empty"),
    Metric("response_length_nonempty_min", "tokens", "shortest response that is not empty"),
    Metric("response_length_nonempty_max", "tokens", "longest response that is not empty"),
    Metric(
        "total_length_mean",
        "tokens",
        "mean length of prompt and response together",
        beware="response_length_mean: some trainers call it a response length",
    ),
    Metric("total_length_correct_mean", "tokens", "the same over rewarded sequences"),
    Metric("total_length_incorrect_mean", "tokens", "the same over unrewarded sequences"),
    Metric("prompt_length_mean", "tokens", "mean prompt length"),
    Metric("prompt_length_min", "tokens", "shortest prompt"),
    Metric("prompt_length_max", "tokens", "longest prompt"),
    Metric("prompt_truncation_rate", "fraction", "share of prompts at their length limit"),
    Metric(
        "truncation_rate",
        "fraction",
        "share of responses cut at the length limit",
        beware="clip_frac: a share of tokens whose ratio was clipped",
    ),
    Metric("truncation_rate_nonempty", "fraction", "the same over responses that are not empty"),
    Metric("truncated_count", "responses/batch", "responses cut at the length limit, a count"),
    Metric("num_eos_tokens", "responses/batch", "finished responses in the batch, rank 0 only"),
    Metric("num_terminated", "responses/batch", "finished responses in the batch"),
    Metric("eos_rate", "fraction", "share of responses that end by themselves"),
    Metric("aborted_rate", "fraction", "share of empty responses"),
    Metric("padding_frac", "fraction", "share of padding in the batch"),
    Metric("repetition_rate", "fraction", "share of responses flagged as repetitive"),
    # rewards and groups
    Metric(
        "reward_raw_mean",
        "reward",
        "reward before any KL penalty, batch mean",
        signed=True,
        core=True,
        beware="reward_shaped_mean",
    ),
    Metric("reward_std", "reward", "spread of the reward: over the batch or within groups"),
    Metric("reward_min", "reward", "lowest reward of the batch", signed=True),
    Metric("reward_max", "reward", "highest reward of the batch", signed=True),
    Metric("reward_ema", "reward", "moving average of the reward", signed=True),
    Metric("reward_running_mean", "reward", "running mean of the reward", signed=True),
    Metric("reward_running_std", "reward", "running spread of the reward"),
    Metric("reward_filtered_mean", "reward", "reward of the samples that were kept", signed=True),
    Metric("reward_margin", "reward", "best minus worst answer of a prompt", signed=True),
    Metric(
        "reward_shaped_mean",
        "reward",
        "reward with the KL penalty inside",
        signed=True,
        beware="reward_raw_mean: it falls where the KL rises",
    ),
    Metric("reward_shaped_min", "reward", "lowest reward with the KL penalty", signed=True),
    Metric("reward_shaped_max", "reward", "highest reward with the KL penalty", signed=True),
    Metric(
        "reward_shaped_token",
        "reward/token",
        "reward with the KL penalty, mean over tokens; longer responses lower it",
        signed=True,
        beware="reward_shaped_mean",
    ),
    Metric(
        "reward_normalised_mean",
        "z",
        "reward after normalisation within its group: 0 by construction",
        signed=True,
        beware="reward_raw_mean",
    ),
    Metric("reward_group_std", "reward", "mean standard deviation within a group"),
    Metric("reward_component_mean", "reward", "mean of one reward function", signed=True),
    Metric("reward_component_std", "reward", "standard deviation of one reward function"),
    Metric("frac_reward_zero_std", "fraction", "share of groups whose rewards are all equal"),
    Metric("zero_std_groups", "groups/batch", "groups whose rewards are all equal, a count"),
    Metric("frac_group_all_zero", "fraction", "share of groups with reward 0 throughout"),
    Metric("frac_group_all_one", "fraction", "share of groups with reward 1 throughout"),
    Metric("frac_group_mixed", "fraction", "share of groups with a learning signal"),
    Metric("dyn_filter_pass_rate", "fraction", "share of prompts that dynamic sampling kept"),
    Metric("success_rate", "fraction", "share of responses that solve their task"),
    Metric("format_rate", "fraction", "share of responses in the asked format"),
    Metric("error_rate", "fraction", "share of responses that failed"),
    Metric("heldout_reward", "reward", "mean reward on held-out prompts", signed=True),
    Metric("heldout_score", "score", "score on held-out prompts", signed=True),
    Metric(
        "heldout_rate",
        "fraction",
        "share of the answers to held-out prompts that are of some kind, good or bad",
        beware="heldout_score: whether more of it is better is not known",
    ),
    Metric("heldout_turns", "turns", "turns a conversation, on held-out prompts"),
    # costs (PPO-Lag)
    Metric("cost_mean", "cost", "score of the cost model", signed=True),
    Metric("cost_shaped_mean", "cost", "cost with the KL penalty", signed=True),
    Metric("cost_advantage_mean", "cost", "advantage of the cost", signed=True),
    Metric("cost_return_mean", "cost", "return of the cost", signed=True),
    Metric("cost_value_mean", "cost", "predicted cost", signed=True),
    Metric("cost_value_loss", "cost^2", "loss of the cost's value model"),
    Metric("lagrange_multiplier", "1", "weight of the cost"),
    Metric("log_lagrange", "1", "its logarithm", signed=True),
    # advantages and values
    Metric("advantage_mean", "reward or z", "mean advantage; whitened: 0", signed=True),
    Metric("advantage_std", "reward or z", "spread of the advantages"),
    Metric("advantage_min", "reward or z", "smallest advantage", signed=True),
    Metric("advantage_max", "reward or z", "largest advantage", signed=True),
    Metric("return_mean", "reward", "mean return", signed=True),
    Metric("return_min", "reward", "smallest return", signed=True),
    Metric("return_max", "reward", "largest return", signed=True),
    Metric("return_var", "reward^2", "variance of the returns"),
    Metric("value_mean", "reward", "mean prediction of the value model", signed=True),
    Metric("value_old_mean", "reward", "the same at rollout", signed=True),
    Metric("value_clipped_mean", "reward", "the same after clipping", signed=True),
    Metric("value_min", "reward", "smallest prediction", signed=True),
    Metric("value_max", "reward", "largest prediction", signed=True),
    Metric("value_var", "reward^2", "variance of the predictions"),
    Metric("value_mse", "reward^2", "squared error of the predictions"),
    Metric("value_clip_frac", "fraction", "share of clipped value predictions"),
    Metric("explained_variance", "1", "1 - var(error)/var(return); very negative early", True),
    # losses and optimiser
    Metric("loss_total", "loss", "training loss; cosmetic under GRPO and PPO", True, True),
    Metric("policy_loss", "loss", "policy part of the loss", signed=True),
    Metric(
        "policy_loss_sum",
        "loss",
        "policy loss summed over inner steps",
        signed=True,
        beware="policy_loss",
    ),
    Metric("value_loss", "reward^2", "loss of the value model"),
    Metric("value_loss_sum", "reward^2", "the same summed over inner steps", beware="value_loss"),
    Metric("sft_loss", "nats/token", "supervised part of a preference loss"),
    Metric("moe_aux_loss", "loss", "load-balancing loss"),
    Metric("grad_norm", "L2 norm", "gradient norm before clipping", core=True),
    Metric("grad_norm_critic", "L2 norm", "gradient norm of the value model"),
    Metric("grad_signal_strength", "1", "squared norm of the mean gradient, a proxy"),
    Metric("lr", "1/step", "learning rate"),
    Metric("lr_critic", "1/step", "learning rate of the value model"),
    # preference training
    Metric(
        "dpo_reward_chosen",
        "nats*beta",
        "beta x log-ratio of the chosen answers",
        signed=True,
        beware="log_ratio_chosen: without beta; reward_raw_mean: a reward model's",
    ),
    Metric(
        "dpo_reward_rejected",
        "nats*beta",
        "beta x log-ratio of the rejected",
        signed=True,
        beware="log_ratio_rejected: without beta",
    ),
    Metric("dpo_reward_std", "nats*beta", "spread of those rewards"),
    Metric(
        "dpo_reward_sum",
        "nats*beta",
        "chosen plus rejected reward: falls where both log-probabilities fall",
        signed=True,
        beware="reward_raw_mean",
    ),
    Metric(
        "dpo_margin",
        "nats*beta",
        "chosen minus rejected reward",
        signed=True,
        core=True,
        beware="log_ratio_margin: without beta; rm_margin: of a reward model",
    ),
    Metric("dpo_accuracy", "fraction", "share of pairs with a positive margin", core=True),
    Metric(
        "log_ratio_chosen",
        "nats/response",
        "log-ratio of the chosen answers to the reference, without beta",
        signed=True,
        beware="dpo_reward_chosen",
    ),
    Metric(
        "log_ratio_rejected",
        "nats/response",
        "log-ratio of the rejected answers to the reference, without beta",
        signed=True,
        beware="dpo_reward_rejected",
    ),
    Metric(
        "log_ratio_margin",
        "nats/response",
        "their difference, without beta",
        signed=True,
        beware="dpo_margin",
    ),
    Metric(
        "log_ratio_std",
        "nats/response",
        "spread of the log-ratios, without beta",
        beware="dpo_reward_std",
    ),
    Metric(
        "logp_chosen",
        "nats/response",
        "log-probability of the chosen answers",
        signed=True,
        core=True,
        beware="logp_chosen_token: mean over tokens",
    ),
    Metric(
        "logp_rejected",
        "nats/response",
        "log-probability of the rejected answers",
        signed=True,
        core=True,
        beware="logp_rejected_token: mean over tokens",
    ),
    Metric("logp_chosen_token", "nats/token", "the same a token, chosen", True, True),
    Metric("logp_rejected_token", "nats/token", "the same a token, rejected", True, True),
    Metric("logit_chosen", "logit", "mean raw logit on chosen answers", signed=True),
    Metric("logit_rejected", "logit", "mean raw logit on rejected answers", signed=True),
    Metric("orpo_log_sigmoid_odds", "nats", "log sigmoid of the log-odds; at most 0", signed=True),
    Metric("orpo_log_odds", "nats", "log-odds of chosen against rejected", signed=True),
    Metric("orpo_odds_loss", "nats", "the odds part of ORPO's loss"),
    Metric("bco_delta", "nats*beta", "BCO's running shift of the reward", signed=True),
    # reward-model training
    Metric(
        "rm_accuracy",
        "fraction",
        "share of pairs that the reward model ranks right",
        beware="dpo_accuracy: of a policy",
    ),
    Metric("rm_margin", "reward", "chosen minus rejected score", signed=True, beware="dpo_margin"),
    Metric("rm_score_chosen", "reward", "score of the chosen answers", signed=True),
    # bookkeeping
    Metric("num_tokens", "tokens", "tokens seen so far"),
    Metric("batch_tokens", "tokens", "tokens of the step"),
    Metric("num_samples", "samples", "samples of the step"),
    Metric("episodes", "episodes", "episodes seen so far"),
    Metric("episodes_per_second", "1/s", "throughput; not the clip range"),
    Metric("updates_per_second", "1/s", "updates a second"),
    Metric("step_time", "s", "wall time of one step"),
    Metric("time_stage", "s", "wall time of one stage"),
    Metric("time_stage_per_token", "ms/token", "the same a token"),
    Metric("throughput", "tokens/s", "tokens a second"),
    Metric("mfu", "fraction", "floating-point operations against the hardware's peak"),
    Metric("progress", "percent", "share of the run that is done"),
    Metric("gpu_mem_allocated", "GiB", "peak GPU memory in use"),
    Metric("gpu_mem_reserved", "GiB", "peak GPU memory reserved"),
    Metric("num_turns_mean", "turns", "turns a conversation"),
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
    "top_k": Option(
        "count",
        (
            "rollout.top_k",
            "rollout_top_k",
            "gconfig.top_k",
            "generation.top_k",
            "generation_kwargs.top_k",
            "gen_kwargs.top_k",
            "sampling_params.top_k",
        ),
    ),
    "min_response_length": Option(
        "count",
        (
            "min_new_tokens",
            "min_response_length",
            "generation_kwargs.min_length",
            "gen_kwargs.min_length",
        ),
    ),
    "no_repeat_ngram_size": Option("count", ("no_repeat_ngram_size",)),
    "repetition_penalty": Option("positive", ("repetition_penalty",)),
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
top_k: never the bare key, under which trackers keep the model's own default of 50.
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
