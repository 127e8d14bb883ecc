import json
import math
from pathlib import Path
from typing import Any

import pytest

from rlhfdoctor.readers.trainer_state import trainer_state
from tests.builders import write_state
from tests.readers.helpers import Read, read, write


def state_of(tmp_path: Path, *rows: Any, **state: Any) -> Read:
    return read(trainer_state, write_state(tmp_path, rows, **state))


def state_with(tmp_path: Path, value: str) -> Read:
    """Read a state whose second row holds this JSON text as ``kl``."""
    text = f'{{"log_history": [{{"step": 1, "kl": 0.5}}, {{"step": 2, "kl": {value}, "x": 7}}]}}'
    return read(trainer_state, write(tmp_path / "trainer_state.json", text))


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        pytest.param("NaN", math.nan, id="bare NaN stays NaN"),
        pytest.param("Infinity", math.inf, id="bare Infinity stays infinite"),
        pytest.param("-Infinity", -math.inf, id="bare minus Infinity stays infinite"),
        pytest.param('"NaN"', math.nan, id="NaN as a string is NaN"),
        pytest.param('"Infinity"', math.inf, id="Infinity as a string is infinite"),
        pytest.param('"-Infinity"', -math.inf, id="minus Infinity as a string is infinite"),
        pytest.param('"nan"', math.nan, id="nan as Python prints it"),
        pytest.param('"-inf"', -math.inf, id="minus inf as Python prints it"),
        pytest.param('"+INF"', math.inf, id="infinity with a sign and in capitals"),
        pytest.param('"1.5e-3"', 0.0015, id="a number as a string is a number"),
        pytest.param('"-.5"', -0.5, id="a number as a string may begin with a point"),
        pytest.param("0", 0.0, id="zero is a number and not an absence"),
        pytest.param("1" + "0" * 30, 1e30, id="an integer beyond 64 bits"),
        pytest.param("1" + "0" * 400, math.inf, id="an integer beyond any float"),
        pytest.param("-1" + "0" * 400, -math.inf, id="a negative integer beyond any float"),
    ],
)
def test_numbers_stay_what_they_are(tmp_path: Path, written: str, expected: float) -> None:
    found = state_with(tmp_path, written)
    assert found.rows[0].values == {"kl": 0.5}
    assert found.rows[1].values["kl"] == pytest.approx(expected, rel=1e-15, nan_ok=True)
    assert found.notes == []


@pytest.mark.parametrize(
    ("written", "noted"),
    [
        pytest.param("null", False, id="null was not logged"),
        pytest.param("{}", False, id="an empty table holds nothing"),
        pytest.param("true", True, id="true is not one"),
        pytest.param("false", True, id="false is not zero"),
        pytest.param("[1.0]", True, id="a list is no number"),
        pytest.param('"cosine"', True, id="a word is no number"),
        pytest.param('"1_000"', True, id="underscores are Python and not JSON"),
        pytest.param('" 1"', True, id="a padded number is a text"),
        pytest.param('"nano"', True, id="a word that begins like NaN"),
        pytest.param('""', True, id="an empty text is no number"),
    ],
)
def test_what_is_no_number_is_no_metric(tmp_path: Path, written: str, noted: bool) -> None:
    found = state_with(tmp_path, written)
    assert found.rows[1].step == 2
    assert found.rows[1].values == {"x": 7.0}
    told = "trainer_state.json: no numbers, so no metrics: kl (1 rows)" if noted else ""
    assert found.told == told


def test_a_key_that_holds_lists_is_noted_with_the_number_of_rows(tmp_path: Path) -> None:
    found = state_of(
        tmp_path,
        *({"step": step, "hist": [1, 2], "loss": 0.5} for step in (1, 2, 3)),
        {"step": 4, "hist": 2.0, "gone": None},
    )
    assert found.told == "trainer_state.json: no numbers, so no metrics: hist (3 rows)"
    assert found.rows[3].values == {"hist": 2.0}


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        pytest.param(3, 3, id="a whole number"),
        pytest.param(3.0, 3, id="a whole float"),
        pytest.param("3", 3, id="a number as a string"),
        pytest.param(0, 0, id="zero"),
        pytest.param(3.5, None, id="half a step is no step"),
        pytest.param(math.nan, None, id="NaN is no step"),
        pytest.param(math.inf, None, id="infinity is no step"),
        pytest.param(None, None, id="null is no step"),
        pytest.param(True, None, id="true is no step"),
        pytest.param([3], None, id="a list is no step"),
        pytest.param(2**53 - 1, 2**53 - 1, id="the largest step"),
        pytest.param(2**53, None, id="a step that no float can count"),
        pytest.param(10**19, None, id="a step beyond 64 bits"),
        pytest.param(-(10**19), None, id="a step beyond 64 bits below zero"),
    ],
)
def test_steps(tmp_path: Path, written: Any, expected: int | None) -> None:
    found = state_of(tmp_path, {"step": written, "loss": 0.5})
    assert found.rows[0].step == expected
    assert found.rows[0].values == {"loss": 0.5}


def test_epoch_and_step_are_no_metrics_and_rows_have_no_line(tmp_path: Path) -> None:
    row = state_of(tmp_path, {"step": 4, "epoch": 0.25, "loss": 1}).rows[0]
    assert (row.step, row.epoch, row.split, row.line) == (4, 0.25, "train", None)
    assert row.values == {"loss": 1.0}


@pytest.mark.parametrize(
    ("record", "split", "values"),
    [
        pytest.param(
            {"eval_loss": 1, "eval_r": 2}, "eval", {"eval_loss": 1, "eval_r": 2}, id="eval_ rows"
        ),
        pytest.param({"eval/loss": 1}, "eval", {"eval/loss": 1}, id="eval/ rows"),
        pytest.param({"eval": {"loss": 1}}, "eval", {"eval/loss": 1}, id="a nested eval table"),
        pytest.param(
            {"eval_loss": 1, "loss": 2}, "train", {"eval_loss": 1, "loss": 2}, id="a mixed row"
        ),
        pytest.param({"evaluation": 1}, "train", {"evaluation": 1}, id="a word that begins so"),
        pytest.param({}, "train", {}, id="a row without metrics"),
    ],
)
def test_rows_of_nothing_but_eval_keys_are_evaluations(
    tmp_path: Path, record: dict[str, Any], split: str, values: dict[str, float]
) -> None:
    row = state_of(tmp_path, {"step": 5, "epoch": 1.0, **record}).rows[0]
    assert row.split == split
    assert row.values == values


def test_nested_tables_are_flattened(tmp_path: Path) -> None:
    record = {"step": 1, "objective": {"kl": 2.5, "deep": {"er": 1}}, "reward": {}}
    assert state_of(tmp_path, record).rows[0].values == {
        "objective/kl": 2.5,
        "objective/deep/er": 1,
    }


def test_a_key_that_first_appears_at_row_5000_is_kept(tmp_path: Path) -> None:
    rows = [{"step": step, "loss": 0.5} for step in range(1, 5000)]
    found = state_of(tmp_path, *rows, {"step": 5000, "loss": 0.5, "kl": 0.125})
    assert len(found.rows) == 5000
    assert found.rows[-1].values == {"loss": 0.5, "kl": 0.125}


def test_records_that_are_no_tables_are_noted_one_by_one(tmp_path: Path) -> None:
    found = state_of(tmp_path, {"step": 1, "loss": 1}, 7, None, [], "x", {"step": 2, "loss": 2})
    assert [row.step for row in found.rows] == [1, 2]
    assert [note.where for note in found.notes] == [
        f"trainer_state.json: log_history[{index}]" for index in (1, 2, 3, 4)
    ]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        pytest.param("", "no valid JSON", id="an empty file"),
        pytest.param('{"log_history": [{"step": 1', "no valid JSON", id="cut in the first row"),
        pytest.param('{"global_step": 3, "log', "no valid JSON", id="cut before the log"),
        pytest.param("[" * 100_000, "nested too deeply", id="100,000 brackets"),
        pytest.param('{"a":' * 100_000, "nested too deeply", id="100,000 nested tables"),
        pytest.param(b"\xff\xfe\x00garbage", "no valid JSON", id="bytes that are no text"),
        pytest.param("{}", "holds no log_history", id="a table without a log"),
        pytest.param('{"log_history": {}}', "holds no log_history", id="a log that is no list"),
        pytest.param('{"log_history": null}', "holds no log_history", id="a log that is null"),
        pytest.param("[]", "holds no log_history", id="a list"),
        pytest.param("7", "holds no log_history", id="a number"),
    ],
)
def test_what_cannot_be_read_is_a_note(tmp_path: Path, text: str | bytes, told: str) -> None:
    found = read(trainer_state, write(tmp_path / "trainer_state.json", text))
    assert found.rows == []
    assert found.settings == []
    assert told in found.told
    assert "nothing was read" in found.told
    assert len(found.notes) == 1


@pytest.mark.parametrize(
    ("text", "unread"),
    [
        pytest.param('{"log_history": null}', True, id="a log that is null"),
        pytest.param("[]", True, id="a list"),
        pytest.param('{"best": 7}', False, id="another trainer's state"),
    ],
)
def test_a_state_without_its_log_is_unread(tmp_path: Path, text: str, unread: bool) -> None:
    (note,) = read(trainer_state, write(tmp_path / "trainer_state.json", text)).notes
    assert note.unread is unread


@pytest.mark.parametrize(
    ("tail", "steps"),
    [
        pytest.param("{", [1, 2], id="at the beginning of a row"),
        pytest.param('{"step": 3, "loss": Na', [1, 2], id="inside a number"),
        pytest.param('{"step": 3, "loss": 1}', [1, 2, 3], id="after a row"),
        pytest.param('{"step": 3, "loss": 1}], "max_st', [1, 2, 3], id="after the log"),
        pytest.param('{"step": 3, "l\xff": ', [1, 2], id="inside a key"),
        pytest.param("[" * 100_000, [1, 2], id="at 100,000 brackets"),
    ],
)
def test_of_a_cut_state_the_whole_rows_before_the_cut_are_kept(
    tmp_path: Path, tail: str, steps: list[int]
) -> None:
    rows = '{"step": 1, "loss": NaN}, {"step": 2, "loss": 1, "hist": [1]}, '
    text = f'{{"best": [7], "log_history": [{rows}{tail}'
    found = read(trainer_state, write(tmp_path / "trainer_state.json", text.encode("latin-1")))
    assert [row.step for row in found.rows] == steps
    assert math.isnan(found.rows[0].values["loss"])
    assert found.told.splitlines() == [
        f"trainer_state.json: is cut or damaged; {len(steps)} records before that were read",
        "trainer_state.json: no numbers, so no metrics: hist (1 rows)",
    ]
    assert found.left_out == 1


def test_the_trainers_arguments_are_settings(tmp_path: Path) -> None:
    found = state_of(
        tmp_path,
        max_steps=400,
        num_train_epochs=2,
        logging_steps=5,
        save_steps=50,
        global_step=60,
        train_batch_size=16,
    )
    assert {setting.name: setting.value for setting in found.settings} == {
        "planned_steps": 400.0,
        "planned_epochs": 2.0,
        "logging_steps": 5.0,
        "save_steps": 50.0,
        "updates_done": 60.0,
    }
    where = {setting.name: setting.where for setting in found.settings}
    assert where["planned_steps"].file == "trainer_state.json"
    assert where["planned_steps"].key == "max_steps"


@pytest.mark.parametrize(
    ("key", "value", "kept"),
    [
        pytest.param("max_steps", -1, False, id="max_steps -1 plans nothing"),
        pytest.param("max_steps", 0, False, id="max_steps 0 plans nothing"),
        pytest.param("max_steps", None, False, id="max_steps null plans nothing"),
        pytest.param("max_steps", True, False, id="max_steps true plans nothing"),
        pytest.param("save_steps", 0.1, True, id="a share of the run between saves"),
        pytest.param("global_step", 0, True, id="no update yet is known, not absent"),
    ],
)
def test_settings_that_say_nothing_are_absent(
    tmp_path: Path, key: str, value: Any, kept: bool
) -> None:
    assert bool(state_of(tmp_path, {"step": 1, "loss": 1}, **{key: value}).settings) is kept


@pytest.mark.parametrize(
    ("name", "claimed"),
    [
        pytest.param("trainer_state.json", True, id="the trainer's own name"),
        pytest.param("run7_trainer_state.json", True, id="a copy with a prefix"),
        pytest.param("trainer_state.json.bak", False, id="a backup"),
        pytest.param("trainer_state_old.json", False, id="another name"),
    ],
)
def test_names_claimed(name: str, claimed: bool) -> None:
    assert trainer_state.claims(name, json.dumps({"log_history": []}).encode()) is claimed
