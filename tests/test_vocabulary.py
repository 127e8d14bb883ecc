import re

import pytest

from rlhfdoctor import registry
from rlhfdoctor.dialects import Dialect
from rlhfdoctor.vocabulary import METRICS, metric_of

USED = {
    meaning.metric
    for dialect in registry.members("dialects", Dialect)
    for meanings in (
        dialect.keys.values(),
        dialect.patterns.values(),
        (item.meaning for item in dialect.derived),
        (key for change in dialect.changes for key in change.before.values()),
        (key for change in dialect.changes for key in change.after.values()),
    )
    for meaning in meanings
}


@pytest.mark.parametrize("name", sorted(METRICS))
def test_every_metric_says_what_it_is_and_in_what(name: str) -> None:
    metric = METRICS[name]
    assert metric.name == name
    assert metric.unit
    assert metric.meaning
    assert re.fullmatch(r"[a-z][a-z0-9_]*", name)


@pytest.mark.parametrize("name", sorted(METRICS))
def test_every_metric_is_written_by_some_trainer(name: str) -> None:
    assert name in USED


@pytest.mark.parametrize("name", sorted(name for name in METRICS if METRICS[name].beware))
def test_what_a_metric_must_not_be_taken_for_is_another_metric(name: str) -> None:
    named = {word for word in re.findall(r"\b\w+\b", METRICS[name].beware) if word in METRICS}
    spelt = set(re.findall(r"\b[a-z]+(?:_[a-z0-9]+)+\b", METRICS[name].beware))
    assert name not in named
    assert named or "KL" in METRICS[name].beware
    assert spelt - METRICS.keys() <= {"clip_ratio"}


@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("kl_ref_token", "kl_ref_response"),
        ("kl_ref_token", "kl_old_token"),
        ("kl_old_token", "kl_ref_token"),
        ("neg_logp_response", "entropy"),
        ("clip_frac", "truncation_rate"),
        ("truncation_rate", "clip_frac"),
        ("response_length_mean", "total_length_mean"),
        ("dpo_reward_chosen", "log_ratio_chosen"),
        ("kto_kl_baseline", "kl_ref_response"),
        ("rm_accuracy", "dpo_accuracy"),
    ],
)
def test_pairs_that_are_often_confused_name_each_other(name: str, other: str) -> None:
    assert other in METRICS[name].beware


@pytest.mark.parametrize("name", sorted(METRICS))
def test_a_unit_a_token_or_a_response_is_in_the_name_of_every_kl(name: str) -> None:
    if name.startswith(("kl_ref", "kl_old", "kl_train")):
        part = "response" if "_response" in name else "token"
        assert METRICS[name].unit == f"nats/{part}"
        assert f"_{part}" in name


@pytest.mark.parametrize(
    ("column", "name"),
    [
        ("kl_ref_token", "kl_ref_token"),
        ("eval_dpo_accuracy", "dpo_accuracy"),
        ("reward_component_mean[format]", "reward_component_mean"),
        ("nothing", None),
    ],
)
def test_the_metric_behind_a_column(column: str, name: str | None) -> None:
    found = metric_of(column)
    assert (found.name if found else None) == name
