"""Every key that a trainer's source writes, and the family of metrics that it belongs to.

``logged_keys.json`` lists them by dialect, from the frameworks' sources. A family becomes a metric
by what the dialect knows of it: ``kl_ref`` is one of two, by its reduction.
"""

import json
import random
from pathlib import Path

import pytest

from rlhfdoctor import registry
from rlhfdoctor.dialects import Dialect, choose
from rlhfdoctor.dialects.generic import _NAMES
from rlhfdoctor.runs import read_runs
from rlhfdoctor.sheets import bare
from rlhfdoctor.vocabulary import METRICS
from tests.builders import write_jsonl

DIALECTS = {item.name: item for item in registry.members("dialects", Dialect)}
LOGGED: dict[str, dict[str, list[str]]] = json.loads(
    (Path(__file__).parent / "logged_keys.json").read_text(encoding="utf-8")
)

FAMILIES = {
    "kl_ref": {
        "kl_ref_token",
        "kl_ref_response",
        "kl_unknown",
        "log_ratio_abs_ref_token",
    },
    "sqrt_kl_ref": {"kl_ref_response"},
    "sqrt_kl_ref_token": {"kl_ref_token_diluted"},
    "kl_old": {"kl_old_token", "kl_old_response"},
    "kl_old_negated": {"kl_old_token"},
    "kl_prox_vs_behaviour": {"kl_train_infer_token"},
    "kl_train_infer": {"kl_train_infer_token"},
    "kl_train_infer_masked": {"kl_train_infer_masked_token"},
    "kl_train_infer_kept": {"kl_train_infer_kept_token"},
    "kl_train_infer_reverse": {"kl_train_infer_reverse_token"},
    "js_train_infer": {"js_train_infer_token"},
    "kl_penalty_reward": {"kl_penalty_reward", "kl_penalty_reward_token"},
    "neg_logp_sum": {"neg_logp_response"},
    "entropy": {"entropy", "neg_logp_token"},
    "ppl_policy": {"ppl_policy", "ppl_policy_sequence"},
    "ppl_ref": {"ppl_ref", "ppl_ref_sequence"},
    "ppl_policy_broken": {"ppl_misnormalised"},
    "ppl_ref_broken": {"ppl_ref_misnormalised"},
    "reward_raw_std": {"reward_std"},
    "reward_shaped_mean": {"reward_shaped_mean", "reward_normalised_mean"},
    "reward_shaped_per_token": {"reward_shaped_token"},
    "eval_reward": {"heldout_reward"},
    "eval_score": {"heldout_score", "success_rate"},
    "eval_aux": {"heldout_score"},
    "eval_num_turns": {"heldout_turns"},
    "logp_chosen": {"logp_chosen", "logp_chosen_token"},
    "logp_rejected": {"logp_rejected", "logp_rejected_token"},
    "dpo_reward_chosen": {"dpo_reward_chosen", "log_ratio_chosen"},
    "dpo_reward_rejected": {"dpo_reward_rejected", "log_ratio_rejected"},
    "dpo_reward_std": {"dpo_reward_std", "log_ratio_std"},
    "dpo_margin": {"dpo_margin", "log_ratio_margin"},
}
"""Families that have several metrics, or a name of their own; any other is a metric itself."""

UNNAMED = {
    ("llamafactory", "accuracy"): "it is then DPO: llamafactory_dpo",
    ("llamafactory_dpo", "odds_ratio_loss"): "it is then ORPO: llamafactory_orpo",
    ("llamafactory_kto", "kl"): "a sum whose count the configuration tells",
}
"""Keys that a dialect leaves without a name, and why."""


@pytest.mark.parametrize("name", sorted(LOGGED))
def test_every_key_has_a_metric_of_its_family(name: str) -> None:
    wrong = {}
    for key, families in LOGGED[name].items():
        if (name, key) in UNNAMED:
            assert DIALECTS[name].meaning(key) is None
            continue
        found = DIALECTS[name].meaning(key) or DIALECTS[name].meaning(bare(key))
        allowed = set().union(*(FAMILIES.get(family, {family}) for family in families))
        if found is None or found[1].metric not in allowed:
            wrong[key] = (families, found and found[1].metric)
    assert not wrong


def test_no_family_is_unknown_to_the_vocabulary() -> None:
    lists = [found for keys in LOGGED.values() for found in keys.values()]
    families = set().union(*lists)
    assert set().union(*(FAMILIES.get(family, {family}) for family in families)) <= set(METRICS)


HF = ("loss", "learning_rate", "grad_norm")
PREFERENCES = ("rewards/chosen", "rewards/rejected", "rewards/margins", "logps/chosen", *HF)
PROGRESS = ("percentage", "elapsed_time", "remaining_time")
SWIFT = ("train_speed(iter/s)", "memory(GiB)", "global_step/max_steps", *PROGRESS, *HF)
FACTORY = ("current_steps", "total_steps", "loss", "lr", *PROGRESS)
GRPO = ("completions/mean_length", "reward", "reward_std", *HF)

BESIDES: dict[str, tuple[str, ...]] = {
    "trl_grpo": HF,
    "trl_dpo": HF,
    "trl_kto": HF,
    "trl_reward": HF,
    "trl_orpo": HF,
    "trl_cpo": HF,
    "trl_online_dpo": HF,
    "trl_bco": PREFERENCES,
    "trl_nash_md": ("loss/score", "objective/entropy", "mixture_coef", *PREFERENCES[2:]),
    "trl_xpo": ("loss/dpo", "loss/xpo", "rewards/accuracies", *PREFERENCES),
    "trl_rloo_old": ("val/ratio",),
    "trl_rloo": GRPO,
    "swift": SWIFT,
    "swift_grpo": SWIFT,
    "swift_dpo": SWIFT,
    "llamafactory": FACTORY,
    "llamafactory_dpo": (*FACTORY, "learning_rate"),
    "llamafactory_kto": (*FACTORY, *PREFERENCES),
    "unsloth": GRPO,
    "axolotl": (*PREFERENCES, "rewards/accuracies"),
    "axolotl_grpo": GRPO,
    "nemo_aligner_kto": ("rewards_chosen_mean", "rewards_rejected_mean", "loss"),
    "openrlhf_reward": (*LOGGED["openrlhf_dpo"],),
    "torchtune_grpo": ("ratios", "response_lengths", "loss", "policy_loss", "lr"),
}
"""Keys that a trainer writes besides those listed: those of the trainer it is built on."""

ABSENT = {"llamafactory": {"accuracy"}, "llamafactory_dpo": {"odds_ratio_loss"}}
"""Keys that the trainer writes for another algorithm."""

TOLD = {
    "trl_rloo": ("RLOO", None),
    "trl_grpo": ("GRPO", None),
    "trl_rloo_old": ("RLOO", None),
    "trl_cpo": ("CPO", None),
    "unsloth": (None, "Unsloth"),
    "axolotl": (None, "Axolotl"),
    "axolotl_grpo": (None, "Axolotl"),
}
"""Dialects that only a configuration or a banner tells: the algorithm, the framework."""

RELATIVES = {
    "trl_rloo_old": {"trl_ppo"},
    "trl_online_dpo": {"trl_dpo"},
    "trl_xpo": {"trl_dpo", "trl_online_dpo"},
    "trl_bco": {"trl_dpo"},
    "trl_orpo": {"trl_dpo"},
    "swift_grpo": {"swift", "trl_grpo", "trl_rloo", "trl_grpo|trl_rloo"},
    "swift_dpo": {"swift", "trl_dpo"},
    "llamafactory_dpo": {"llamafactory", "trl_dpo"},
    "llamafactory_kto": {"llamafactory", "trl_kto"},
    "torchtune_dpo": {"trl_dpo"},
    "nemo_aligner_dpo": {"nemo_rl_dpo"},
    "openrlhf_reward": {"openrlhf_dpo"},
}
"""Trainers whose keys are a part of another's: what is left of a log may be theirs."""


def written(name: str) -> list[str]:
    """Return the keys of a log, without prefixes of trackers and evaluations."""
    keys = [*LOGGED[name].keys() - ABSENT.get(name, set()), *BESIDES.get(name, ())]
    return sorted({bare(key) for key in keys})


def chosen(name: str, keys: list[str]) -> str:
    algorithm, framework = TOLD.get(name, (None, None))
    every = DIALECTS.values()
    generic = DIALECTS["generic"]
    return choose(every, frozenset(keys), frozenset(), algorithm, generic, framework).name


@pytest.mark.parametrize("name", sorted(LOGGED))
def test_a_trainers_keys_choose_its_dialect(name: str) -> None:
    assert chosen(name, written(name)) == name


KL_TELLS = {"trl_kto", "trl_nash_md", "llamafactory_kto", "nemo_aligner_kto"}


@pytest.mark.parametrize("name", sorted(set(LOGGED) - KL_TELLS))
def test_a_log_without_a_kl_chooses_the_same_dialect(name: str) -> None:
    """A run whose coefficient is 0 logs none; KTO and Nash-MD are told by theirs."""
    found = [(key, DIALECTS[name].meaning(key)) for key in written(name)]
    kept = [
        key
        for key, meaning in found
        if not (meaning and meaning[0].startswith(("kl_ref", "kl_unknown")))
    ]
    assert chosen(name, kept) == name


@pytest.mark.parametrize("name", sorted(LOGGED))
def test_a_part_of_a_trainers_keys_never_chooses_a_stranger(name: str) -> None:
    keys, dice = written(name), random.Random(name)
    for share in (0.9, 0.7, 0.5, 0.3):
        for _ in range(50):
            part = [key for key in keys if dice.random() < share]
            assert chosen(name, part) in {name, "generic", *RELATIVES.get(name, ())}, part


@pytest.mark.parametrize("name", sorted(set(LOGGED) - set(TOLD)))
def test_the_prefix_of_a_tracker_changes_nothing(tmp_path: Path, name: str) -> None:
    keys = [key for key in written(name) if key != "global_step/max_steps"]
    for prefix in ("", "train/"):
        row = {f"{prefix}{key}": 0.5 for key in keys}
        read = read_runs(write_jsonl(tmp_path / f"{prefix[:-1]}log.jsonl", [{"step": 1, **row}]))
        assert read[0].dialect == name


PLAIN = {name for _, names in _NAMES for name in names} | {"delta", "margin", "acc", "score"}

OPEN = {
    ("trl_kto", "delta"): "trl_bco",
    ("trl_kto", "reward_std"): "generic",
    ("llamafactory", "accuracy"): "llamafactory_dpo",
    ("llamafactory_dpo", "kl"): "llamafactory_kto",
    ("nemo_rl_dpo", "acc"): "nemo_aligner_dpo",
}
"""Keys by which a trainer's algorithms, or a trainer and its ancestor, are told apart."""


@pytest.mark.parametrize("name", sorted(LOGGED))
def test_a_plain_key_of_ones_own_beside_a_trainers_changes_nothing(name: str) -> None:
    found = {key: chosen(name, [*written(name), key]) for key in PLAIN}
    expected = {key: OPEN.get((name, key), name) for key in PLAIN}
    assert found == expected
