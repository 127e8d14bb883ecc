import pytest

from rlhfdoctor import registry
from rlhfdoctor.dialects import PERCENT, Dialect
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
        ("Accuracy (%)", "accuracy_pct"),
        ("pct_accuracy", "accuracyPercentage"),
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
        ("reward (%)", "reward"),
        ("accuracy_pct", "accuracy"),
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
    ("key", "metric"),
    [
        ("accuracy (%)", "success_rate"),
        ("accuracy%", "success_rate"),
        ("train/accuracy_pct", "success_rate"),
        ("Success Rate (%)", "success_rate"),
        ("truncated_pct", "truncation_rate"),
        ("percent_truncated", "truncation_rate"),
        ("truncation_percentage", "truncation_rate"),
        ("clip_pct", "clip_frac"),
        ("eosPercent", "eos_rate"),
        ("zero_std_pct", "frac_reward_zero_std"),
    ],
)
def test_a_share_in_percent_is_divided_by_100(key: str, metric: str) -> None:
    found = DIALECT.meaning(key)
    assert found is not None
    name, meaning = found
    assert name == metric
    assert meaning.correction is PERCENT
    assert meaning.correction.apply(35.0) == 0.35
    assert "percent" in meaning.correction.text


@pytest.mark.parametrize(
    "key",
    ["reward (%)", "reward_pct", "kl%", "loss_percentage", "lr_pct", "response_length_pct", "%"],
)
def test_what_is_no_share_has_no_name_in_percent(key: str) -> None:
    assert DIALECT.meaning(key) is None


@pytest.mark.parametrize(
    ("key", "smallest", "largest", "doubted"),
    [
        pytest.param("accuracy", 0.0, 1.0, False, id="a fraction"),
        pytest.param("accuracy", 0.0, 1.0000001, False, id="a fraction and its rounding"),
        pytest.param("truncation_rate", 2.0, 35.0, True, id="a percentage that does not say so"),
        pytest.param("accuracy", -1.0, 0.5, True, id="below 0"),
        pytest.param("accuracy_pct", 2.0, 35.0, False, id="a percentage"),
        pytest.param("accuracy_pct", 0.0, 0.0, False, id="0 is 0 in percent"),
        pytest.param("accuracy_pct", 0.1, 0.9, True, id="a percentage, or a fraction by that name"),
        pytest.param("accuracy_pct", 2.0, 350.0, True, id="more than all"),
        pytest.param("reward", -3.0, 350.0, False, id="no share at all"),
    ],
)
def test_a_share_is_believed_between_none_and_all(
    key: str, smallest: float, largest: float, doubted: bool
) -> None:
    found = DIALECT.meaning(key)
    assert found is not None
    assert (DIALECT.doubt(found[1], smallest, largest) is not None) == doubted


def test_a_trainers_share_is_not_doubted() -> None:
    (found,) = (item for item in registry.members("dialects", Dialect) if item.name == "nemo_rl")
    assert found.doubt(found.keys["truncation_rate"], 0.0, 35.0) is None


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
