import json
import math
from functools import cache
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from rlhfdoctor import registry
from rlhfdoctor.dialects import Correction, Dialect, Key, choose, shared
from rlhfdoctor.errors import DoctorError
from rlhfdoctor.model import Run
from rlhfdoctor.runs import read_runs
from rlhfdoctor.vocabulary import ALGORITHMS, METRICS
from tests.builders import FIXTURES, log_history, write_jsonl

DIALECTS = {item.name: item for item in registry.members("dialects", Dialect)}

HF_KEYS = ("loss", "learning_rate", "grad_norm")
GRPO_KEYS = ("completions/mean_length", "reward_std", "reward", "kl", *HF_KEYS)
OLD_GRPO_KEYS = ("completion_length", "reward_std", "reward", "kl", *HF_KEYS)
PPO_KEYS = ("objective/kl", "policy/approxkl_avg", "val/ratio", "loss/policy_avg")
DPO_KEYS = (
    "rewards/chosen",
    "rewards/rejected",
    "rewards/accuracies",
    "rewards/margins",
    *HF_KEYS,
)


def chosen(*keys: str, negative: tuple[str, ...] = (), algorithm: str | None = None) -> Dialect:
    return choose(
        DIALECTS.values(),
        frozenset(keys),
        frozenset(negative),
        algorithm,
        DIALECTS["generic"],
    )


@cache
def fixture(name: str) -> Run:
    return read_runs(FIXTURES / name)[0]


@pytest.mark.parametrize(
    ("keys", "negative", "algorithm", "name"),
    [
        pytest.param(PPO_KEYS, (), None, "trl_ppo", id="the marks of PPO"),
        pytest.param(PPO_KEYS, (), "GRPO", "trl_ppo", id="marks weigh more than a configuration"),
        pytest.param(DPO_KEYS, (), None, "trl_dpo", id="the marks of DPO"),
        pytest.param(GRPO_KEYS, (), None, "trl_grpo|trl_rloo", id="GRPO and RLOO write the same"),
        pytest.param(OLD_GRPO_KEYS, (), None, "trl_grpo", id="but not in older releases"),
        pytest.param(GRPO_KEYS, ("kl",), None, "trl_rloo", id="k3 is never negative"),
        pytest.param(GRPO_KEYS, ("reward",), None, "trl_grpo|trl_rloo", id="a reward may be"),
        pytest.param(GRPO_KEYS, (), "GRPO", "trl_grpo", id="a configuration that names GRPO"),
        pytest.param(GRPO_KEYS, (), "RLOO", "trl_rloo", id="a configuration that names RLOO"),
        pytest.param(GRPO_KEYS, ("kl",), "GRPO", "trl_rloo", id="a value weighs more than a name"),
        pytest.param(GRPO_KEYS, (), "PPO", "trl_grpo|trl_rloo", id="a name that does not fit"),
        pytest.param(("loss", "kl", "reward"), (), None, "generic", id="no marks at all"),
        pytest.param(("loss",), (), "GRPO", "generic", id="a configuration without marks"),
        pytest.param((), (), None, "generic", id="no keys at all"),
        pytest.param(PPO_KEYS[:2], (), None, "generic", id="half the marks of PPO"),
        pytest.param(DPO_KEYS[:2], (), None, "generic", id="half the marks of DPO"),
    ],
)
def test_marks_choose_the_dialect(
    keys: tuple[str, ...], negative: tuple[str, ...], algorithm: str | None, name: str
) -> None:
    assert chosen(*keys, negative=negative, algorithm=algorithm).name == name


@pytest.mark.parametrize(
    ("stranger", "name"),
    [
        pytest.param("log_odds_ratio", "trl_orpo", id="ORPO's odds ratio"),
        pytest.param("log_odds_chosen", "trl_orpo", id="ORPO's odds"),
        pytest.param("objective/scores_margin", "trl_online_dpo", id="OnlineDPO's margin"),
        pytest.param("loss/xpo", "trl_xpo", id="XPO's loss"),
        pytest.param("loss/kl", "trl_nash_md", id="Nash-MD's KL"),
        pytest.param("odds_ratio_loss", "generic", id="LLaMA-Factory's ORPO, without its own log"),
    ],
)
def test_other_preference_trainers_are_not_called_dpo(stranger: str, name: str) -> None:
    beside = {"loss/xpo": ("loss/dpo",), "loss/kl": ("loss/score",)}.get(stranger, ())
    found = chosen(*DPO_KEYS, "logps/chosen", "logps/rejected", stranger, *beside)
    assert found.name == name


@pytest.mark.parametrize(
    ("own", "name"),
    [
        pytest.param("kl", "trl_kto", id="KTO's baseline"),
        pytest.param("delta", "trl_bco", id="BCO's shift"),
    ],
)
def test_without_pairs_there_are_no_accuracies(own: str, name: str) -> None:
    unpaired = [key for key in DPO_KEYS if key != "rewards/accuracies"]
    assert chosen(*unpaired, "logps/chosen", own).name == name
    found = chosen(*DPO_KEYS, "logps/chosen", own)
    assert found.name == "trl_dpo"
    assert found.meaning(own) is None


@pytest.mark.parametrize(
    ("algorithm", "name"),
    [
        ("KTO", "generic"),
        ("ORPO", "generic"),
        ("CPO", "trl_cpo"),
        ("SimPO", "trl_simpo"),
        ("IPO", "generic"),
    ],
)
def test_a_configuration_that_names_a_rival_of_dpo_rules_it_out(algorithm: str, name: str) -> None:
    keys = (*DPO_KEYS, "logps/chosen", "logps/rejected", "nll_loss")
    assert chosen(*keys, algorithm=algorithm).name == name
    for other in ("DPO", "GRPO", "REINFORCE", None):
        assert chosen(*keys, algorithm=other).name == "trl_dpo"
    assert chosen(*PPO_KEYS, algorithm=algorithm).name == "trl_ppo"
    assert chosen(*GRPO_KEYS, algorithm=algorithm).name == "trl_grpo|trl_rloo"


def test_a_rival_leaves_the_others_to_decide() -> None:
    one = Dialect("one", "f", "A", {}, marks=(frozenset("ab"),), rivals=frozenset({"C"}))
    other = Dialect("other", "f", "B", {}, marks=(frozenset("a"),))
    generic = DIALECTS["generic"]
    keys = frozenset("ab")
    assert choose([one, other], keys, frozenset(), "A", generic) is one
    assert choose([one, other], keys, frozenset(), "C", generic) is other


@pytest.mark.parametrize("name", sorted(DIALECTS))
def test_rivals_are_algorithms_that_a_configuration_can_name(name: str) -> None:
    assert DIALECTS[name].rivals <= set(ALGORITHMS)
    assert DIALECTS[name].algorithm not in DIALECTS[name].rivals


@pytest.mark.parametrize("keys", [GRPO_KEYS, OLD_GRPO_KEYS])
def test_a_preference_log_is_no_grpo(keys: tuple[str, ...]) -> None:
    assert chosen(*keys, "rewards/chosen", "rewards/rejected").name == "generic"


def test_online_dpo_is_no_ppo() -> None:
    assert chosen(*PPO_KEYS, "objective/scores_margin").name == "generic"


def test_an_older_rloo_is_told_from_ppo_by_its_configuration_alone() -> None:
    assert chosen(*PPO_KEYS, algorithm="RLOO").name == "trl_rloo_old"
    assert chosen(*PPO_KEYS).name == "trl_ppo"


@pytest.mark.parametrize(
    ("keys", "names"),
    [
        pytest.param((*PPO_KEYS, *GRPO_KEYS), "trl_grpo, trl_ppo, trl_rloo", id="PPO and GRPO"),
        pytest.param((*PPO_KEYS, *OLD_GRPO_KEYS), "trl_grpo, trl_ppo", id="PPO and older GRPO"),
    ],
)
def test_marks_that_contradict_are_an_error_with_a_hint(keys: tuple[str, ...], names: str) -> None:
    with pytest.raises(DoctorError) as caught:
        chosen(*keys)
    assert caught.value.message == f"the log carries the marks of several trainers: {names}"
    assert caught.value.hint.startswith("say which one with --dialect, for example --dialect trl_")


def test_the_order_of_dialects_changes_nothing_but_the_order_of_names() -> None:
    backwards = choose(
        list(DIALECTS.values())[::-1],
        frozenset(GRPO_KEYS),
        frozenset(),
        None,
        DIALECTS["generic"],
    )
    assert sorted(backwards.name.split("|")) == ["trl_grpo", "trl_rloo"]
    assert backwards.keys["kl"] == chosen(*GRPO_KEYS).keys["kl"]


def test_wider_marks_win_over_narrower_ones() -> None:
    narrow = Dialect("narrow", "f", "A", {}, marks=(frozenset("a"),))
    wide = Dialect("wide", "f", "A", {}, marks=(frozenset("ab"),))
    generic = DIALECTS["generic"]
    for dialects in ([narrow, wide], [wide, narrow]):
        assert choose(dialects, frozenset("ab"), frozenset(), None, generic) is wide
        assert choose(dialects, frozenset("a"), frozenset(), None, generic) is narrow


def test_what_grpo_and_rloo_share() -> None:
    both = shared([DIALECTS["trl_grpo"], DIALECTS["trl_rloo"]])
    assert both.algorithm == "GRPO or RLOO"
    assert both.log_offset == 1
    assert both.keys["kl"] == Key("kl_ref_token", "k1 or k3", "token mean")
    assert set(both.keys) == set(DIALECTS["trl_grpo"].keys)
    assert both.keys["entropy"] == DIALECTS["trl_grpo"].keys["entropy"]


def test_what_two_dialects_do_not_agree_on_is_dropped() -> None:
    one = Dialect("one", "f", "A", {"x": Key("lr"), "y": Key("lr", "e")}, log_offset=1)
    other = Dialect("other", "f", "B", {"x": Key("loss_total"), "y": Key("lr")}, log_offset=0)
    both = shared([one, other])
    assert both.keys == {"y": Key("lr", "e or unknown")}
    assert both.log_offset == 0


def test_of_units_that_differ_none_is_known() -> None:
    one = Dialect("one", "f", "A", {"x": Key("dpo_margin")})
    other = Dialect("other", "f", "B", {"x": Key("dpo_margin", unit="unknown")})
    assert shared([one, other]).keys == {"x": Key("dpo_margin", unit="unknown")}


def test_a_correction_that_only_one_of_them_needs_leaves_the_key_without_a_name() -> None:
    negated = Key("lr", correction=Correction("negated", lambda value: -value))
    one = Dialect("one", "f", "A", {"x": negated, "y": Key("lr")}, patterns={"a{}": Key("lr")})
    other = Dialect("other", "f", "B", {"x": Key("lr"), "y": Key("lr")})
    both = shared([one, other])
    assert both.keys == {"y": Key("lr")}
    assert both.patterns == {}


@pytest.mark.parametrize(
    ("dialect", "version", "keys", "key", "meaning"),
    [
        pytest.param(
            "trl_grpo",
            "1.5.0",
            (),
            "reward_std",
            "reward_group_std",
            id="within groups before 1.6.0",
        ),
        pytest.param(
            "trl_grpo", "1.6.0", (), "reward_std", "reward_std", id="over the batch since"
        ),
        pytest.param(
            "trl_grpo", None, (), "reward_std", "reward_std", id="either, where none tells"
        ),
        pytest.param(
            "trl_grpo",
            None,
            ("completion_length",),
            "reward_std",
            "reward_group_std",
            id="a key of the older ones tells",
        ),
        pytest.param("trl_rloo", "0.24.0", (), "reward", "reward_shaped_mean", id="RLOO 0.24"),
        pytest.param("trl_rloo", "1.10.0", (), "reward", "reward_raw_mean", id="RLOO 1.10"),
        pytest.param("verl", None, (), "actor/kl_loss", "kl_unknown", id="verl, which?"),
        pytest.param("verl", "0.5.0", (), "actor/kl_loss", "kl_ref_token", id="verl 0.5"),
        pytest.param("verl", "0.7.1", (), "actor/kl_loss", "kl_unknown", id="verl 0.7.1 sums"),
        pytest.param("verl", "0.8.0", (), "actor/kl_loss", "kl_ref_token", id="verl 0.8"),
        pytest.param(
            "verl", None, ("actor/loss",), "actor/kl_loss", "kl_ref_token", id="a key of verl 0.8"
        ),
        pytest.param(
            "verl", None, ("critic/kl",), "actor/kl_loss", "kl_ref_token", id="a key of verl 0.3"
        ),
        pytest.param("minimind_ppo", None, (), "KL_ref", "kl_unknown", id="MiniMind, which?"),
        pytest.param(
            "minimind_ppo", None, ("KL",), "KL_ref", "kl_ref_response", id="a key of MiniMind 2"
        ),
        pytest.param(
            "minimind_ppo", None, ("ClipFrac",), "KL_ref", "kl_ref_token", id="a key of MiniMind 3"
        ),
    ],
)
def test_a_version_or_a_key_that_tells_it_decides(
    dialect: str, version: str | None, keys: tuple[str, ...], key: str, meaning: str
) -> None:
    assert DIALECTS[dialect].at(version, frozenset(keys)).keys[key].metric == meaning


@pytest.mark.parametrize(
    ("framework", "name"), [("LLaMA-Factory", "llamafactory_kto_state"), ("TRL", "trl_kto")]
)
def test_whose_kto_it_is_the_run_must_say(framework: str, name: str) -> None:
    keys = frozenset({*DPO_KEYS, "logps/chosen", "kl"} - {"rewards/accuracies"})
    generic = DIALECTS["generic"]
    found = choose(DIALECTS.values(), keys, frozenset(), None, generic, framework)
    assert found.name == name
    assert ("kl" in found.keys) == (framework == "TRL")


def test_a_negative_kl_leaves_the_unit_of_swift_open() -> None:
    keys = (*GRPO_KEYS, "train_speed(iter/s)", "memory(GiB)")
    assert chosen(*keys).name == "swift_grpo"
    found = chosen(*keys, negative=("kl",))
    assert found.name == "swift_grpo_kl_in_reward"
    assert found.keys["kl"].metric == "kl_unknown"


@pytest.mark.parametrize(
    ("dialect", "key", "metric", "unit", "estimator"),
    [
        ("trl_ppo", "objective/kl", "kl_ref_response", "nats/response", "k1"),
        ("trl_ppo", "policy/approxkl_avg", "kl_old_token", "nats/token", "k2"),
        ("trl_ppo", "objective/entropy", "neg_logp_response", "nats/response", "sampled_logp"),
        ("trl_ppo", "policy/entropy_avg", "entropy", "nats/token", "full_vocab"),
        ("trl_ppo", "objective/non_score_reward", "kl_penalty_reward", "reward", "k1"),
        ("trl_ppo", "eps", "episodes_per_second", "1/s", None),
        ("trl_grpo", "kl", "kl_ref_token", "nats/token", "k3"),
        ("trl_rloo", "kl", "kl_ref_token", "nats/token", "k1"),
        ("trl_dpo", "logps/chosen", "logp_chosen", "nats/response", None),
        ("trl_dpo", "rewards/chosen", "dpo_reward_chosen", "nats*beta", "log_ratio times beta"),
        ("generic", "kl", "kl_unknown", "unknown", None),
        ("generic", "objective/kl", "kl_unknown", "unknown", None),
        ("generic", "entropy", "entropy_unknown", "unknown", None),
        ("generic", "response_length", "response_length_mean", "unknown", None),
        ("generic", "rewards/margins", "dpo_margin", "unknown", None),
        ("generic", "rewards/accuracies", "dpo_accuracy", "fraction", None),
    ],
)
def test_units_and_estimators(
    dialect: str, key: str, metric: str, unit: str, estimator: str | None
) -> None:
    found = DIALECTS[dialect].meaning(key)
    assert found is not None
    name, meaning = found
    assert name == metric
    assert (meaning.unit or METRICS[meaning.metric].unit) == unit
    assert meaning.estimator == estimator


def test_dpo_knows_no_kl() -> None:
    meanings = DIALECTS["trl_dpo"].keys.values()
    assert not [key.metric for key in meanings if key.metric.startswith("kl_")]


@pytest.mark.parametrize("name", sorted(DIALECTS))
def test_every_metric_of_a_dialect_is_in_the_vocabulary(name: str) -> None:
    dialect = DIALECTS[name]
    meanings = [*dialect.keys.values(), *dialect.patterns.values()]
    assert meanings
    assert {meaning.metric for meaning in meanings} <= set(METRICS)
    for meaning in meanings:
        assert meaning.unit in (None, "unknown"), "a dialect opens a unit, it never gives another"
    for pattern in dialect.patterns:
        assert pattern.count("{}") == 1
    assert dialect.never_negative <= set(dialect.keys)


@pytest.mark.parametrize("name", sorted(set(DIALECTS) - {"generic"}))
def test_every_trainer_but_the_generic_one_has_marks_and_an_offset(name: str) -> None:
    assert all(DIALECTS[name].marks)
    assert DIALECTS[name].marks
    counted_by_a_tracker = DIALECTS[name].framework != "TRL" or name == "trl_ppo_old"
    assert DIALECTS[name].log_offset == 1 or counted_by_a_tracker


def test_a_key_outside_the_vocabulary_is_refused() -> None:
    with pytest.raises(ValueError, match="kl_ref is not in the vocabulary"):
        Key("kl_ref")


@pytest.mark.parametrize(
    ("key", "column"),
    [
        ("rewards/r_len/mean", "reward_component_mean[r_len]"),
        ("rewards/r_len/std", "reward_component_std[r_len]"),
        ("rewards/r_len", "reward_component_mean[r_len]"),
        ("rewards/a/b/mean", "reward_component_mean[a/b]"),
        ("rewards/a.b(c)/std", "reward_component_std[a.b(c)]"),
        ("rewards/mean", "reward_component_mean[mean]"),
        ("rewards/a\nb/mean", "reward_component_mean[a\nb]"),
        ("rewards/\n", "reward_component_mean[\n]"),
        ("rewards/", None),
        ("my_rewards/x/mean", None),
        ("reward", "reward_raw_mean"),
        ("something", None),
    ],
)
def test_patterns(key: str, column: str | None) -> None:
    found = DIALECTS["trl_grpo"].meaning(key)
    assert (found and found[0]) == column


ROWS = [
    ("ppo_healthy", "objective/kl", "kl_ref_response", "nats/response"),
    ("ppo_healthy", "policy/entropy_avg", "entropy", "nats/token"),
    ("ppo_healthy", "objective/scores", "reward_raw_mean", "reward"),
    ("ppo_healthy", "objective/rlhf_reward", "reward_shaped_mean", "reward"),
    ("ppo_healthy", "val/ratio", "ratio_mean", "1"),
    ("ppo_healthy", "policy/approxkl_avg", "kl_old_token", "nats/token"),
    ("grpo_healthy", "kl", "kl_ref_token", "nats/token"),
    ("grpo_healthy", "completions/mean_length", "response_length_mean", "tokens"),
    ("grpo_healthy", "completions/clipped_ratio", "truncation_rate", "fraction"),
    ("grpo_healthy", "rewards/r_good/mean", "reward_component_mean[r_good]", "reward"),
    ("grpo_healthy", "grad_norm", "grad_norm", "L2 norm"),
    ("rloo_healthy", "kl", "kl_ref_token", "nats/token"),
    ("rloo_healthy", "entropy", "entropy", "nats/token"),
    ("rloo_healthy", "frac_reward_zero_std", "frac_reward_zero_std", "fraction"),
    ("dpo_healthy", "rewards/margins", "dpo_margin", "nats*beta"),
    ("dpo_healthy", "logps/chosen", "logp_chosen", "nats/response"),
    ("dpo_healthy", "rewards/accuracies", "dpo_accuracy", "fraction"),
    ("dpo_healthy", "loss", "loss_total", "loss"),
]


@pytest.mark.parametrize(("run", "key", "column", "unit"), ROWS)
def test_real_values_arrive_under_their_canonical_name(
    run: str, key: str, column: str, unit: str
) -> None:
    found = fixture(run)
    logged = {row["step"]: row[key] for row in log_history(run) if key in row}
    assert len(logged) >= 50
    frame = found.metrics.select("step", column).drop_nulls()
    assert dict(frame.iter_rows()) == logged
    assert found.columns[column].unit == unit
    assert [place.key for place in found.columns[column].sources] == [key]


@pytest.mark.parametrize(
    ("run", "step", "column", "value"),
    [
        ("ppo_healthy", 1, "reward_raw_mean", 0.640625),
        ("ppo_healthy", 60, "kl_ref_response", 0.7750212550163269),
        ("ppo_crashed", 100, "kl_ref_response", 309.281005859375),
        ("grpo_healthy", 1, "response_length_mean", 15.90625),
        ("grpo_healthy", 1, "reward_std", 0.378012090921402),
        ("rloo_healthy", 1, "grad_norm", 7.289504051208496),
        ("dpo_healthy", 1, "logp_chosen", -71.64134979248047),
        ("dpo_healthy", 1, "loss_total", 0.6931471824645996),
    ],
)
def test_single_values_copied_from_the_files(
    run: str, step: int, column: str, value: float
) -> None:
    found = fixture(run).metrics.filter(pl.col("step") == step)[column].to_list()
    assert found == [value]


@pytest.mark.parametrize(
    ("run", "dialect", "algorithm", "estimator"),
    [
        ("ppo_healthy", "trl_ppo", "PPO", "k1"),
        ("ppo_crashed", "trl_ppo", "PPO", "k1"),
        ("grpo_healthy", "trl_grpo", "GRPO", "k3"),
        ("grpo_late", "trl_grpo", "GRPO", "k3"),
        ("grpo_killed", "trl_grpo", "GRPO", "k3"),
        ("rloo_healthy", "trl_rloo", "RLOO", "k1"),
        ("dpo_healthy", "trl_dpo", "DPO", None),
    ],
)
def test_real_runs_are_recognised(
    run: str, dialect: str, algorithm: str, estimator: str | None
) -> None:
    found = fixture(run)
    assert (found.framework, found.dialect, found.algorithm) == ("TRL", dialect, algorithm)
    kl = "kl_ref_response" if algorithm == "PPO" else "kl_ref_token"
    assert (found.columns[kl].estimator if kl in found.columns else None) == estimator


def without_config(tmp_path: Path, run: str, *, above: float = -math.inf) -> Run:
    rows = [row for row in log_history(run) if row.get("kl", 0.0) >= above]
    return read_runs(write_jsonl(tmp_path / "log.jsonl", rows))[0]


def test_without_a_configuration_the_estimator_stays_open(tmp_path: Path) -> None:
    found = without_config(tmp_path, "grpo_healthy")
    assert found.algorithm == "GRPO or RLOO"
    assert found.columns["kl_ref_token"].estimator == "k1 or k3"
    assert found.columns["kl_ref_token"].unit == "nats/token"


def test_without_a_configuration_a_negative_kl_tells_rloo(tmp_path: Path) -> None:
    assert min(row.get("kl", 0.0) for row in log_history("rloo_healthy")) < 0
    assert without_config(tmp_path, "rloo_healthy").algorithm == "RLOO"
    assert without_config(tmp_path, "rloo_healthy", above=0.0).algorithm == "GRPO or RLOO"


@pytest.mark.parametrize("run", ["grpo_healthy", "rloo_healthy", "ppo_healthy", "dpo_healthy"])
def test_marks_are_found_behind_the_prefix_of_a_tracker(tmp_path: Path, run: str) -> None:
    rows = log_history(run)
    plain = read_runs(write_jsonl(tmp_path / "plain.jsonl", rows))[0]
    prefixed = [{f"train/{key}": value for key, value in row.items()} for row in rows]
    found = read_runs(write_jsonl(tmp_path / "prefixed.jsonl", prefixed))[0]
    assert found.dialect == plain.dialect
    assert found.dialect != "generic"
    assert set(found.columns) == set(plain.columns) != set()
    for name in plain.columns:
        values = plain.metrics.select("step", name).drop_nulls()
        assert found.metrics.select("step", name).drop_nulls().equals(values)
    assert all(
        place.key == f"train/{plain.columns[name].sources[0].key}"
        for name, column in found.columns.items()
        for place in column.sources
    )


@pytest.mark.parametrize("named", ["grpo", "rloo"])
def test_a_configuration_decides(tmp_path: Path, named: str) -> None:
    rows = log_history("grpo_healthy")
    write_jsonl(tmp_path / "log.jsonl", rows)
    (tmp_path / "run_config.json").write_text(json.dumps({"k": named}), encoding="utf-8")
    found = read_runs(tmp_path)[0]
    assert found.dialect == f"trl_{named}"
    assert found.columns["kl_ref_token"].estimator == {"grpo": "k3", "rloo": "k1"}[named]


@pytest.mark.parametrize(
    ("extra", "algorithm", "unit", "logp"),
    [
        pytest.param(
            {"log_odds_ratio": -0.5, "log_odds_chosen": 1.0},
            "ORPO",
            "unknown",
            "logp_chosen_token",
            id="ORPO",
        ),
        pytest.param({"kl": 0.5}, "KTO", "nats*beta", "logp_chosen", id="KTO"),
        pytest.param({}, "CPO", "unknown", "logp_chosen", id="CPO, by its configuration alone"),
        pytest.param(
            {}, "SimPO", "unknown", "logp_chosen_token", id="SimPO, by its configuration alone"
        ),
    ],
)
def test_a_preference_log_of_another_trainer_has_units_of_its_own(
    tmp_path: Path, extra: dict[str, Any], algorithm: str, unit: str, logp: str
) -> None:
    rows = [{**row, **extra} for row in log_history("dpo_healthy")]
    if algorithm == "KTO":
        rows = [{k: v for k, v in row.items() if k != "rewards/accuracies"} for row in rows]
    write_jsonl(tmp_path / "log.jsonl", rows)
    (tmp_path / "args.json").write_text(json.dumps({"algorithm": algorithm}), encoding="utf-8")
    found = read_runs(tmp_path)[0]
    assert (found.framework, found.algorithm) == ("TRL", algorithm)
    assert found.columns["dpo_margin"].unit == unit
    assert [name for name in found.columns if name.startswith("logp_chosen")] == [logp]
    assert not {"kl_ref_token", "kl_ref_response", "kl_unknown"} & set(found.columns)
