import json
import math
from pathlib import Path
from typing import Any

import pytest

from rlhfdoctor.model import Location
from rlhfdoctor.readers.config import config
from rlhfdoctor.vocabulary import ALGORITHMS, SETTINGS
from tests.readers.helpers import Read, read, write


def of(tmp_path: Path, record: Any) -> Read:
    return read(config, write(tmp_path / "run_config.json", json.dumps(record)))


def values(found: Read) -> dict[str, object]:
    return {setting.name: setting.value for setting in found.settings}


@pytest.mark.parametrize(
    ("name", "alias"),
    [
        pytest.param(name, alias, id=f"{alias} is {name}")
        for name, aliases in SETTINGS.items()
        for alias in aliases
        if name != "algorithm"
    ],
)
def test_every_alias_is_read_and_located(tmp_path: Path, name: str, alias: str) -> None:
    found = of(tmp_path, {alias: 3, "unrelated": 4})
    assert values(found) == {name: 3}
    assert found.settings[0].where == Location("run_config.json", key=alias)
    assert found.notes == []


@pytest.mark.parametrize("alias", SETTINGS["algorithm"])
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_the_algorithm_in_any_case(tmp_path: Path, alias: str, algorithm: str) -> None:
    for written in (algorithm, algorithm.lower(), f"{algorithm}Trainer"):
        assert values(of(tmp_path, {alias: written})) == {"algorithm": algorithm}


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


def test_the_first_alias_wins_and_null_is_passed_over(tmp_path: Path) -> None:
    assert values(of(tmp_path, {"lr": 1, "learning_rate": 2})) == {"learning_rate": 2}
    assert values(of(tmp_path, {"lr": 1, "learning_rate": None})) == {"learning_rate": 1}


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        pytest.param({"max_steps": -1}, {}, id="minus one plans nothing"),
        pytest.param({"max_steps": 0}, {}, id="zero plans nothing"),
        pytest.param({"max_steps": True}, {}, id="true plans nothing"),
        pytest.param({"max_steps": "100"}, {}, id="a text plans nothing"),
        pytest.param({"max_steps": -1, "steps": 5}, {"planned_steps": 5}, id="the next alias does"),
        pytest.param({"num_train_epochs": 0.5}, {"planned_epochs": 0.5}, id="half an epoch"),
        pytest.param({"beta": 0}, {"kl_coef": 0}, id="a coefficient of zero is known"),
        pytest.param({"ref_model": "../base"}, {"reference_model": "../base"}, id="a text"),
        pytest.param({"seed": [1]}, {}, id="a list is no value"),
        pytest.param({}, {}, id="an empty table"),
        pytest.param({"ref_model": "a\ud800b"}, {"reference_model": "a\ufffdb"}, id="a surrogate"),
        pytest.param({"seed": 2**53}, {"seed": 2.0**53}, id="a number that no float counts"),
        pytest.param({"seed": 10**400}, {"seed": math.inf}, id="a number beyond any float"),
        pytest.param({"seed": 10**30}, {"seed": 1e30}, id="a number beyond 64 bits"),
        pytest.param({"max_steps": math.nan}, {}, id="NaN plans nothing"),
        pytest.param({"beta": math.inf}, {"kl_coef": math.inf}, id="infinity stays infinite"),
    ],
)
def test_values(tmp_path: Path, record: Any, expected: dict[str, object]) -> None:
    assert values(of(tmp_path, record)) == expected


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
    ("name", "claimed"),
    [("run_config.json", True), ("args.json", True), ("config.json", False), ("x.json", False)],
)
def test_claims(name: str, claimed: bool) -> None:
    assert config.claims(name, b"{}") is claimed
