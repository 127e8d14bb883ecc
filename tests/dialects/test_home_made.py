"""Logs of a loop of one's own: their names may be any trainer's, their units are nobody's."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlhfdoctor import registry
from rlhfdoctor.dialects import Dialect, choose
from rlhfdoctor.dialects.generic import _NAMES
from rlhfdoctor.sheets import bare

DIALECTS = {item.name: item for item in registry.members("dialects", Dialect)}
NAMES = sorted({name for _, names in _NAMES for name in names})


def chosen(keys: list[str]) -> str:
    found = frozenset(map(bare, keys))
    return choose(DIALECTS.values(), found, frozenset(), None, DIALECTS["generic"]).name


@pytest.mark.parametrize(
    "keys",
    [
        pytest.param("loss loss/kl loss/policy loss/value reward", id="a loss by its parts"),
        pytest.param(
            "loss reward return response_length total_length kl values lr", id="lengths and returns"
        ),
        pytest.param(
            "loss lr reward reward_std completion_length kl", id="GRPO with a completion length"
        ),
        pytest.param(
            "loss learning_rate reward_std completion_length kl", id="the same, without a norm"
        ),
        pytest.param("loss kl rewards_margin reward", id="a margin beside a KL"),
        pytest.param("loss reward_mean reward_std acc_mean kl", id="means and a deviation"),
        pytest.param("loss rewards successes clipfrac kl_loss ratios", id="successes"),
        pytest.param(
            "loss approxkl pg_clipfrac pg_loss ratio kl entropy", id="a PPO loop after CleanRL"
        ),
        pytest.param("policy_loss ppo_kl ppo_clip_ratio kl reward", id="ratios of PPO"),
        pytest.param(
            "policy_loss actor_lr critic_lr ppo_kl ppo_clip_ratio kl reward values",
            id="two rates of learning",
        ),
        pytest.param("loss kl rewards/chosen rewards/rejected step_time", id="a KTO loop"),
        pytest.param(
            "loss lr kl rewards/chosen rewards/rejected rewards/margins rewards/accuracies",
            id="a preference loop after TRL",
        ),
        pytest.param("loss chosen_reward reject_reward acc lr", id="a DPO loop"),
        pytest.param(
            "loss rewards_chosen_mean rewards_rejected_mean acc", id="a DPO loop with means"
        ),
        pytest.param("loss chosen rejected", id="chosen and rejected"),
        pytest.param("loss dpo_loss aux_loss epoch_time", id="losses and a time"),
        pytest.param("kl_ref advantages_std avg_response_len reward", id="deviating advantages"),
        pytest.param("kl_ref approx_kl clipfrac avg_response_len actor_loss", id="a PPO loop"),
        pytest.param("loss policy_loss kl_divergence reward_with_kl_penalty", id="a penalty"),
        pytest.param("min_reward max_reward mean_reward margin loss kl", id="extremes"),
        pytest.param("actor_loss critic_loss actor_loss_sum critic_loss_sum kl", id="sums"),
        pytest.param("pg_clip vf_clip res_len approx_kl ref_kl rewards", id="short names"),
        pytest.param("current_steps total_steps percentage loss reward kl", id="progress"),
        pytest.param("rollout/reward_mean rollout/truncated_rate kl loss", id="rollouts"),
        pytest.param(
            "rollout/response_len/mean rollout/truncated_ratio pg_clipfrac kl_loss", id="rollouts/2"
        ),
        pytest.param("losses/total_loss policy/approx_kl ratio kl", id="slashes"),
        pytest.param(
            "actor/pg_loss actor/kl_loss actor/entropy critic/loss", id="actor and critic"
        ),
        pytest.param("progress/done_frac optim/lr kl reward", id="progress and an optimiser"),
        pytest.param("objective/kl policy/entropy val/ratio loss", id="an objective"),
    ],
)
@pytest.mark.parametrize("prefix", ["", "train/"])
def test_names_that_anyone_would_choose_are_no_trainers(keys: str, prefix: str) -> None:
    assert chosen([prefix + key for key in keys.split()]) == "generic"


@given(st.sets(st.sampled_from(NAMES)), st.sampled_from(["", "train/", "eval_"]))
def test_no_choice_of_plain_names_is_a_trainers(keys: set[str], prefix: str) -> None:
    assert chosen([prefix + key for key in keys]) == "generic"


def test_all_plain_names_together_are_no_trainers() -> None:
    assert chosen(NAMES) == "generic"


@pytest.mark.parametrize("name", sorted(set(DIALECTS) - {"generic"}))
def test_no_single_key_makes_a_trainer(name: str) -> None:
    assert all(len(marks) >= 2 for marks in DIALECTS[name].marks)
