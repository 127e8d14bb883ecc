import math
from typing import Any

import pytest

from rlhfdoctor.model import Note, Setting
from rlhfdoctor.readers._settings import algorithm, arguments_of, program_of, settings_of
from rlhfdoctor.vocabulary import ALGORITHMS, SETTINGS
from tests.readers.helpers import Read, sort

FIT: dict[str, tuple[Any, Any]] = {
    "text": ("some/name", "some/name"),
    "flag": (True, True),
    "count": (3, 3),
    "positive": (0.5, 0.5),
    "amount": (0.5, 0.5),
    "whole": (3, 3),
    "dtype": ("bf16", "bfloat16"),
}


def of(leaves: dict[str, Any]) -> Read:
    return sort(settings_of(leaves, "f.json"))


def values(leaves: dict[str, Any]) -> dict[str, object]:
    return {setting.name: setting.value for setting in of(leaves).settings}


@pytest.mark.parametrize(
    ("name", "alias"),
    [
        pytest.param(name, alias.split("?")[0].split("*")[0], id=f"{alias} is {name}")
        for name, option in SETTINGS.items()
        for alias in option.aliases
        if name != "algorithm"
    ],
)
def test_every_alias_is_read_and_located(name: str, alias: str) -> None:
    kind, key = SETTINGS[name].kind, alias.removeprefix("^")
    written, expected = FIT[kind]
    if key in ("bf16", "fp16"):
        written, expected = True, {"bf16": "bfloat16", "fp16": "float16"}[key]
    found = [item for item in of({key: written}).settings if item.name == name]
    assert [(item.value, item.where.file, item.where.key) for item in found] == [
        (expected, "f.json", key)
    ]


@pytest.mark.parametrize(
    ("leaves", "name", "expected"),
    [
        pytest.param({"actor/optim/lr": 1e-6, "critic/optim/lr": 1e-5}, "learning_rate", 1e-6),
        pytest.param({"actor/optim/lr": 1e-6, "critic/optim/lr": 1e-5}, "lr_critic", 1e-5),
        pytest.param({"critic.optim.lr": 1e-5}, "learning_rate", None, id="a critic's rate alone"),
        pytest.param({"lr": 1, "learning_rate": 2}, "learning_rate", 2, id="first alias wins"),
        pytest.param({"lr": 1, "learning_rate": None}, "learning_rate", 1, id="null is no value"),
        pytest.param({"a.b.seed": 1, "data.seed": 2}, "seed", 2, id="the least deep wins"),
        pytest.param({"lr_scheduler.seed": 2}, "seed", None, id="a scheduler is not the run"),
        pytest.param({"scheduler.steps": 9}, "planned_steps", None, id="another's steps"),
        pytest.param({"args.steps": 9}, "planned_steps", 9, id="steps inside a wrapper"),
        pytest.param({"env.max_steps": 9}, "planned_steps", None, id="turns of an environment"),
        pytest.param({"adam.epsilon": 1e-8}, "clip_range", None, id="an optimizer's epsilon"),
        pytest.param({"rollout.temperature": 0.7, "rollout.val_kwargs.temperature": 0.0},
                     "temperature", 0.7, id="not the temperature of validation"),
        pytest.param({"generation_config.temperature": 0.6}, "temperature", None,
                     id="a model's own temperature"),
        pytest.param({"n_gpus_per_node": 8, "nnodes": 2}, "gpus", 16, id="nodes are multiplied"),
        pytest.param({"n_gpus_per_node": 8}, "gpus", 8, id="one node where none is told"),
        pytest.param({"bf16": False, "fp16": "true"}, "dtype", "float16", id="a flag names a type"),
        pytest.param({"torch_dtype": "torch.bfloat16"}, "dtype", "bfloat16", id="torch's name"),
        pytest.param({"max_steps": "1e2"}, "planned_steps", 100, id="a number in a text"),
        pytest.param({"learning_rate": "5e-7"}, "learning_rate", 5e-7, id="as YAML leaves 5e-7"),
        pytest.param({"batch_size": "1_024"}, "batch_size", 1024, id="digits with an underscore"),
        pytest.param({"--learning-rate": 1}, "learning_rate", 1, id="as an option is written"),
        pytest.param({"num_train_epochs": 0.5}, "planned_epochs", 0.5, id="half an epoch"),
        pytest.param({"beta": 0}, "kl_coef", 0, id="a coefficient of zero is known"),
        pytest.param({"seed": 0}, "seed", 0, id="a seed of zero is a seed"),
        pytest.param({"max_steps": -1, "steps": 5}, "planned_steps", 5, id="the next alias does"),
        pytest.param({"ref_model": "a\ud800b"}, "reference_model", "a\ufffdb", id="a surrogate"),
    ],
)  # fmt: skip
def test_values(leaves: dict[str, Any], name: str, expected: object) -> None:
    assert values(leaves).get(name) == expected
    assert of(leaves).notes == []


@pytest.mark.parametrize(
    ("in_loss", "in_reward", "expected", "key"),
    [
        pytest.param(True, False, 0.02, "actor/kl_loss_coef", id="in the loss"),
        pytest.param(False, True, 0.5, "algorithm/kl_ctrl/kl_coef", id="in the reward"),
        pytest.param(False, False, 0.0, "actor/use_kl_loss", id="nowhere"),
    ],
)
def test_a_coefficient_counts_where_it_is_in_use(
    in_loss: bool, in_reward: bool, expected: float, key: str
) -> None:
    found = of(
        {
            "actor/use_kl_loss": in_loss,
            "actor/kl_loss_coef": 0.02,
            "algorithm/use_kl_in_reward": in_reward,
            "algorithm/kl_ctrl/kl_coef": 0.5,
        }
    )
    told = [item for item in found.settings if item.name == "kl_coef"]
    assert [(item.value, item.where.key) for item in told] == [(expected, key)]


@pytest.mark.parametrize(
    ("leaves", "expected"),
    [
        pytest.param({"algorithm/adv_estimator": "gae"}, "PPO", id="verl's gae"),
        pytest.param({"algorithm.adv_estimator": "grpo"}, "GRPO", id="verl's grpo"),
        pytest.param({"adv_estimator": "x", "k": "grpo"}, "GRPO", id="any value of that name"),
        pytest.param({"advantage_estimator": "group_norm"}, "GRPO", id="OpenRLHF's group norm"),
        pytest.param({"advantage_estimator": "reinforce"}, "REINFORCE", id="OpenRLHF's reinforce"),
        pytest.param({"stage": "dpo", "pref_loss": "sigmoid"}, "DPO", id="LLaMA-Factory's DPO"),
        pytest.param({"stage": "dpo", "pref_loss": "orpo"}, "ORPO", id="a loss under stage dpo"),
        pytest.param({"stage": "rm"}, "RM", id="a reward model"),
        pytest.param({"rlhf_type": "kto"}, "KTO", id="ms-swift"),
        pytest.param({"rl": "dpo"}, "DPO", id="Axolotl"),
        pytest.param({"method/name": "ppoconfig"}, "PPO", id="trlX"),
        pytest.param({"trainer": "trl.GRPOTrainer"}, "GRPO", id="a class"),
        pytest.param({"stage": 2}, None, id="a stage of ZeRO"),
        pytest.param({"stage": "sft"}, None, id="supervised training"),
        pytest.param({"output_dir": "runs/grpo"}, None, id="a path that holds the name"),
        pytest.param({"reward.kind": "rm"}, None, id="a reward's kind"),
    ],
)
def test_the_algorithm(leaves: dict[str, Any], expected: str | None) -> None:
    assert values(leaves).get("algorithm") == expected


@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_algorithm_by_name_and_by_class(name: str) -> None:
    for written in (name, name.lower(), f"{name}Trainer", f"{name}Config", f"trl.{name}Trainer"):
        assert algorithm(written) == name


@pytest.mark.parametrize(
    ("leaves", "told"),
    [
        pytest.param({"max_steps": -7}, "whole number above 0", id="a negative plan"),
        pytest.param({"max_steps": "many"}, "whole number above 0", id="a word for a count"),
        pytest.param({"max_steps": 2.5}, "whole number above 0", id="half a step"),
        pytest.param({"max_steps": math.nan}, "whole number above 0", id="a plan that is NaN"),
        pytest.param({"max_steps": 10**400}, "whole number above 0", id="beyond any float"),
        pytest.param({"seed": 2**53}, "whole number", id="a number that no float counts"),
        pytest.param({"beta": math.inf}, "finite number", id="an infinite coefficient"),
        pytest.param({"lr": -1e-5}, "finite number", id="a rate below zero"),
        pytest.param({"model_name": "x" * 5000}, "text of up to", id="prose for a name"),
    ],
)
def test_what_no_run_can_have_is_noted(leaves: dict[str, Any], told: str) -> None:
    found = of(leaves)
    assert found.settings == []
    assert [told in note.text for note in found.notes] == [True]
    assert len(found.told) < 200


@pytest.mark.parametrize("value", [None, -1, 0, "", "auto", "null", "${x.y}", "???", False])
def test_what_says_that_nothing_is_set_is_passed_over(value: object) -> None:
    found = of({"max_steps": value})
    assert (found.settings, found.notes) == ([], [])


def test_the_arguments_of_a_command_line() -> None:
    line = "python -m x.y --lr 1e-6 --bf16 --seed=3 a.b=4 +c=5 ++d.e='f' --last"
    assert arguments_of(line.split()) == {
        "lr": "1e-6",
        "bf16": True,
        "seed": "3",
        "a.b": "4",
        "c": "5",
        "d.e": "f",
        "last": True,
    }


@pytest.mark.parametrize(
    ("command", "framework"),
    [
        ("python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo", "verl"),
        ("-m openrlhf.cli.train_ppo_ray", "OpenRLHF"),
        ("llamafactory-cli train x.yaml", "LLaMA-Factory"),
        ("swift rlhf --rlhf_type grpo", "ms-swift"),
        ("axolotl train x.yml", "Axolotl"),
        ("trl grpo --config x", "TRL"),
        ("python train.py --control 3", None),
    ],
)
def test_the_program_tells_the_framework(command: str, framework: str | None) -> None:
    assert program_of(command) == framework


@pytest.mark.parametrize(
    ("leaves", "framework"),
    [
        ({"actor_rollout_ref/actor/optim/lr": 1}, "verl"),
        ({"rlhf_type": "dpo"}, "ms-swift"),
        ({"finetuning_type": "lora"}, "LLaMA-Factory"),
        ({"advantage_estimator": "gae"}, "OpenRLHF"),
        ({"trl": "1.16.0"}, "TRL"),
        ({"learning_rate": 1}, None),
    ],
)
def test_keys_that_one_framework_has_tell_it(leaves: dict[str, Any], framework: str) -> None:
    assert values(leaves).get("framework") == framework


def test_only_settings_of_the_vocabulary_and_notes_are_yielded() -> None:
    found = list(settings_of({"lr": 1, "x": 2, "seed": "y", "k": "grpo"}, "f"))
    assert all(
        isinstance(item, Note) or (isinstance(item, Setting) and item.name in SETTINGS)
        for item in found
    )
    assert len(found) == 3
