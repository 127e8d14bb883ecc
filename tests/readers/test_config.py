import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlhfdoctor.model import Note, Setting
from rlhfdoctor.readers.config import config
from tests.readers.helpers import Read, read, write


def of(tmp_path: Path, record: Any) -> Read:
    return read(config, write(tmp_path / "run_config.json", json.dumps(record)))


def values(found: Read) -> dict[str, object]:
    return {setting.name: setting.value for setting in found.settings}


@pytest.mark.parametrize(
    ("record", "key"),
    [
        pytest.param({"k": "grpo"}, "k", id="under a key that nobody knows"),
        pytest.param({"a": {"b": "GRPO"}}, "a/b", id="inside a nested table"),
        pytest.param({"algorithm": "custom", "k": "grpo"}, "k", id="beside a name nobody knows"),
        pytest.param({"trainer": 3, "k": "grpo"}, "k", id="beside a number"),
    ],
)
def test_a_value_that_is_an_algorithm_tells_it(tmp_path: Path, record: Any, key: str) -> None:
    found = of(tmp_path, record)
    assert values(found) == {"algorithm": "GRPO"}
    assert found.settings[0].where.key == key


@pytest.mark.parametrize(
    "record",
    [
        pytest.param({"output_dir": "runs/grpo"}, id="a path that holds the name"),
        pytest.param({"note": "we use grpo here"}, id="a sentence that holds the name"),
        pytest.param({"k": ["grpo"]}, id="a list"),
        pytest.param({"algorithm": "mine"}, id="an algorithm that nobody knows"),
        pytest.param({"algorithm": None}, id="null"),
    ],
)
def test_no_algorithm_is_told(tmp_path: Path, record: Any) -> None:
    assert values(of(tmp_path, record)) == {}


def test_a_table_a_thousand_deep_is_no_value(tmp_path: Path) -> None:
    text = '{"seed": 7, "x": ' + '{"a":' * 1000 + '"grpo"' + "}" * 1001
    found = read(config, write(tmp_path / "args.json", text))
    assert (values(found), found.notes) == ({"seed": 7}, [])


def test_a_lone_surrogate_in_the_key_of_the_algorithm_is_replaced(tmp_path: Path) -> None:
    found = of(tmp_path, {"k\udfff": "ppo"})
    assert values(found) == {"algorithm": "PPO"}
    assert found.settings[0].where.key == "k\ufffd"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        pytest.param("", "no valid JSON", id="an empty file"),
        pytest.param('{"beta": 0.1', "no valid JSON", id="a cut file"),
        pytest.param("[" * 100_000, "nested too deeply", id="100,000 brackets"),
        pytest.param(b"\x80\x81", "no valid JSON", id="bytes that are no text"),
        pytest.param("[1]", "is no table; nothing was read", id="a list"),
        pytest.param("null", "is no table; nothing was read", id="null"),
    ],
)
def test_what_cannot_be_read_is_a_note(tmp_path: Path, text: str | bytes, told: str) -> None:
    found = read(config, write(tmp_path / "args.json", text))
    assert found.settings == []
    assert len(found.notes) == 1
    assert told in found.told
    assert found.notes[0].where == "args.json"


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        pytest.param(
            "config.yaml",
            "wandb_version: 1\n_wandb:\n  value: {seed: 9}\n"
            "learning_rate:\n  desc: null\n  value: 1e-6\nargs:\n  value:\n    seed: 3\n",
            {"learning_rate": 1e-6, "seed": 3},
            id="wandb's table of values",
        ),
        pytest.param(
            "wandb-metadata.json",
            '{"program": "/x/openrlhf/cli/train_ppo.py", "gpu_count": 8,'
            ' "args": ["--actor_learning_rate", "5e-7", "--bf16"]}',
            {"gpus": 8, "learning_rate": 5e-7, "dtype": "bfloat16", "framework": "OpenRLHF"},
            id="wandb's metadata",
        ),
        pytest.param(
            "overrides.yaml",
            "- algorithm.adv_estimator=grpo\n- +trainer.nnodes=2\n- trainer.n_gpus_per_node=8\n",
            {"algorithm": "GRPO", "gpus": 16},
            id="hydra's overrides",
        ),
        pytest.param(
            "config.yaml",
            "actor_rollout_ref:\n  actor:\n    optim:\n      lr: 1e-06\n",
            {"learning_rate": 1e-6, "framework": "verl"},
            id="hydra's whole configuration",
        ),
        pytest.param(
            "my_dpo.yaml",
            "stage: dpo\npref_beta: 0.1\nfinetuning_type: lora\nlearning_rate: 5.0e-6\n",
            {
                "algorithm": "DPO",
                "kl_coef": 0.1,
                "learning_rate": 5e-6,
                "framework": "LLaMA-Factory",
            },
            id="LLaMA-Factory's YAML",
        ),
        pytest.param(
            "adapter_config.json",
            '{"base_model_name_or_path": "org/base", "r": 16, "peft_type": "LORA"}',
            {"model": "org/base", "lora_rank": 16},
            id="an adapter's configuration",
        ),
        pytest.param(
            "hparams.yaml",
            "lr: 0.1\nhook: !!python/object/apply:os.system ['echo']\nt: !!python/tuple [1, 2]\n",
            {"learning_rate": 0.1},
            id="tags that name code are plain data",
        ),
    ],
)
def test_formats(tmp_path: Path, name: str, text: str, expected: dict[str, object]) -> None:
    found = read(config, write(tmp_path / name, text))
    assert values(found) == expected
    assert found.notes == []
    assert config.claims(name, text.encode())


def multiplied(levels: int, times: int) -> str:
    """Return tables of which each holds the one before so many times."""
    text = "t0: &t0 {x: 1}\n"
    for level in range(1, levels + 1):
        parts = ", ".join(f"k{part}: *t{level - 1}" for part in range(times))
        text += f"t{level}: &t{level} {{{parts}}}\n"
    return text


@pytest.mark.parametrize(
    ("text", "told"),
    [
        pytest.param(multiplied(11, 10), "repeats parts of itself", id="a bomb of aliases"),
        pytest.param(
            "a: &a {x: 1}\nb:\n  <<: [" + "*a, " * 20 + "*a]\n",
            "repeats parts of itself",
            id="a bomb of merges",
        ),
        pytest.param("[" * 100_000, "nest", id="100,000 brackets"),
        pytest.param("[" * 100 + "]" * 100, "nested too deeply", id="100 brackets"),
        pytest.param("a: b: c", "no valid YAML", id="no YAML"),
        pytest.param("a: " + "1:" * 1000 + "1", "endless digits", id="a number in base 60"),
        pytest.param("seed: !!int x", "invalid literal", id="a number that is none"),
        pytest.param("seed: '\x01", "no valid YAML", id="a control character"),
        pytest.param("? [a]\n: b", "no valid YAML", id="a list for a key"),
        pytest.param(b"\xff\xfe\x00", "no valid YAML", id="bytes that are no text"),
        pytest.param("&a [*a]", "is no table", id="a list that holds itself"),
        pytest.param("x" * (2**20 + 1), "is longer than", id="a file that is too long"),
    ],
)
def test_hostile_yaml_is_a_note(tmp_path: Path, text: str | bytes, told: str) -> None:
    found = read(config, write(tmp_path / "config.yaml", text))
    assert found.settings == []
    assert told in found.told


def test_aliases_that_multiply_within_the_limit_are_cut_off(tmp_path: Path) -> None:
    found = read(config, write(tmp_path / "config.yaml", "seed: 7\n" + multiplied(12, 8)))
    assert values(found) == {"seed": 7}
    assert "more than 20000 values" in found.told


def test_a_pickle_is_told_of_and_not_opened(tmp_path: Path) -> None:
    found = read(config, tmp_path / "training_args.bin")
    assert found.told == "training_args.bin: is a pickle, which could run code; not read"


@given(st.integers(0, 400), st.binary(max_size=3))
def test_damage_is_never_a_traceback(place: int, bytes_: bytes) -> None:
    text = b"stage: dpo\nlr: &a 1e-6\nb: {<<: {x: 1}, y: *a}\nz: [1, 'two', 2020-01-01]\n" * 3
    with TemporaryDirectory() as folder:
        for name in ("config.yaml", "args.json"):
            damaged = text[:place] + bytes_ + text[place + len(bytes_) :]
            for item in config.read(write(Path(folder) / name, damaged)):
                assert isinstance(item, Setting | Note)


@pytest.mark.parametrize(
    ("name", "head", "claimed"),
    [
        pytest.param("run_config.json", "{}", True, id="the run's own"),
        pytest.param("args.json", "{}", True, id="a launcher's arguments"),
        pytest.param("training_config.json", '{"lr": 1}', True, id="any configuration"),
        pytest.param("x.json", '{"learning_rate": 1}', False, id="any other JSON"),
        pytest.param("config.json", '{"architectures": ["X"]}', False, id="a model's shape"),
        pytest.param("config.json", '{"model_type": "x"}', False, id="a model's type"),
        pytest.param(
            "generation_config.json",
            '{"temperature": 0.6, "transformers_version": "4.57"}',
            False,
            id="how a model likes to be sampled",
        ),
        pytest.param("tokenizer_config.json", '{"tokenizer_class": 1}', False, id="a tokenizer"),
        pytest.param("recipe.yml", "x: 1\nlearning_rate: 1\n", True, id="a training recipe"),
        pytest.param("environment.yml", "name: x\ndependencies:\n", False, id="other YAML"),
    ],
)
def test_claims(name: str, head: str, claimed: bool) -> None:
    assert config.claims(name, head.encode()) is claimed


@pytest.mark.parametrize("name", ["recipe.yaml", "config.yml"])
def test_the_name_of_a_yaml_promises_no_log(name: str) -> None:
    assert not config.promises(name)
