import pytest

from rlhfdoctor.dialects._spelling import LONGEST_KEY, WORDS, plain
from rlhfdoctor.dialects.generic import DIALECT


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Avg Response Len", "response_length"),
        ("completions/mean_length", "response_length"),
        ("mean_reward", "reward/mean"),
        ("meanReward", "rewards.mean"),
        ("KL_ref", "kl-reference"),
        ("KLDiv", "kl_divergence"),
        ("Adv Std", "advantages_std"),
        ("LR", "learning_rate"),
        ("pg_clipfrac", "policy_clip_fraction"),
        ("train/loss", "loss"),
    ],
)
def test_spellings_of_one_name(one: str, other: str) -> None:
    assert plain(one) == plain(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("reward_std", "reward"),
        ("clip_ratio", "clip_frac"),
        ("total_reward", "reward"),
        ("entropy_loss", "entropy"),
        ("prompt_length", "response_length"),
        ("test_accuracy", "accuracy"),
        ("val_loss", "loss"),
        ("reward_max", "reward"),
    ],
)
def test_names_that_stay_apart(one: str, other: str) -> None:
    assert plain(one) != plain(other)


@pytest.mark.parametrize("key", ["mean", "train", "", "///", "损失"])
def test_a_key_without_a_word_of_its_own_stays_as_it_is(key: str) -> None:
    assert plain(key) == key


def test_of_a_key_without_end_only_the_beginning_is_read() -> None:
    assert plain("loss" + "x" * LONGEST_KEY * 10) == "loss" + "x" * (LONGEST_KEY - 4)


def test_a_word_is_spelt_once_and_for_all() -> None:
    parts = {part for word in WORDS.values() for part in word.split()}
    assert not parts & WORDS.keys()


@pytest.mark.parametrize(
    ("key", "metric"),
    [
        ("avg_gen_tokens", "response_length_mean"),
        ("max_gen_tokens", "response_length_max"),
        ("group_reward_std", "reward_group_std"),
        ("zero_std_ratio", "frac_reward_zero_std"),
        ("truncated_rate", "truncation_rate"),
        ("truncated_count", "truncated_count"),
        ("accuracy", "success_rate"),
        ("rewards/accuracies", "dpo_accuracy"),
        ("policy_kl", "kl_unknown"),
        ("approx_kl", "kl_unknown"),
        ("vf_loss", "value_loss"),
        ("mean total loss", "loss_total"),
    ],
)
def test_home_made_names(key: str, metric: str) -> None:
    found = DIALECT.meaning(key)
    assert found is not None
    assert found[0] == metric


@pytest.mark.parametrize(
    "key",
    ["clip_ratio", "kl_penalty", "entropy_loss", "perplexity", "ppl", "score", "value", "total"],
)
def test_a_name_that_may_mean_two_things_has_none(key: str) -> None:
    assert DIALECT.meaning(key) is None


def test_the_unit_of_a_kl_an_entropy_and_a_length_is_never_guessed() -> None:
    for key, meaning in DIALECT.keys.items():
        assert not meaning.metric.startswith(("kl_ref", "kl_old", "kl_train")), key
        assert meaning.metric != "entropy", key
        if meaning.metric.startswith("response_length"):
            assert meaning.unit == "unknown" or "token" in key


def test_every_name_is_spelt_as_a_log_is_read() -> None:
    assert all(plain(key) == key for key in DIALECT.keys)
