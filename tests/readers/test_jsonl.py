import json
import math
from pathlib import Path

import pytest

from rlhfdoctor.readers._json import STEP_KEYS
from rlhfdoctor.readers.jsonl import jsonl
from tests.builders import write_jsonl
from tests.readers.helpers import Read, read, write


def lines(tmp_path: Path, text: str | bytes) -> Read:
    return read(jsonl, write(tmp_path / "log.jsonl", text))


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        pytest.param("NaN", math.nan, id="bare NaN stays NaN"),
        pytest.param("Infinity", math.inf, id="bare Infinity stays infinite"),
        pytest.param("-Infinity", -math.inf, id="bare minus Infinity stays infinite"),
        pytest.param('"NaN"', math.nan, id="NaN as a string is NaN"),
        pytest.param('"nan"', math.nan, id="nan as Python prints it"),
        pytest.param('"inf"', math.inf, id="inf as Python prints it"),
        pytest.param('"-inf"', -math.inf, id="minus inf as Python prints it"),
        pytest.param('"-INFINITY"', -math.inf, id="infinity in capitals"),
        pytest.param("1" + "0" * 400, math.inf, id="an integer beyond any float"),
        pytest.param("9007199254740993", 9007199254740992.0, id="an integer beyond 53 bits"),
        pytest.param("1e-320", 1e-320, id="a number below the normal ones"),
    ],
)
def test_numbers_stay_what_they_are(tmp_path: Path, written: str, expected: float) -> None:
    found = lines(tmp_path, f'{{"step": 1, "kl": {written}}}\n')
    assert found.rows[0].values["kl"] == pytest.approx(expected, rel=1e-15, abs=0, nan_ok=True)
    assert found.notes == []


@pytest.mark.parametrize(
    ("written", "noted"),
    [
        pytest.param("null", False, id="null was not logged"),
        pytest.param("{}", False, id="an empty table holds nothing"),
        pytest.param("true", True, id="true"),
        pytest.param("false", True, id="false"),
        pytest.param("[1]", True, id="a list"),
        pytest.param("[]", True, id="an empty list"),
        pytest.param('"word"', True, id="a word"),
        pytest.param('"infinit"', True, id="a word like infinity"),
        pytest.param('""', True, id="an empty text"),
    ],
)
def test_what_is_no_number_is_no_metric(tmp_path: Path, written: str, noted: bool) -> None:
    found = lines(tmp_path, f'{{"step": 1, "kl": {written}, "x": 1}}\n')
    assert found.rows[0].values == {"x": 1.0}
    told = "log.jsonl: no numbers, so no metrics: kl (1 rows)" if noted else ""
    assert found.told == told
    assert found.left_out == 0


def test_all_keys_without_numbers_are_one_note(tmp_path: Path) -> None:
    found = lines(
        tmp_path,
        '{"step": 1, "b": [1], "a": {"c": [2]}, "k": true}\n{"step": 2, "b": "word", "k": 3}\n',
    )
    assert found.told == (
        "log.jsonl: no numbers, so no metrics: a/c (1 rows), b (2 rows), k (1 rows)"
    )


@pytest.mark.parametrize(
    ("count", "more"),
    [
        pytest.param(20, "", id="twenty are all named"),
        pytest.param(21, " and 1 more keys", id="one more is counted"),
        pytest.param(500, " and 480 more keys", id="many more are counted"),
    ],
)
def test_a_note_names_twenty_keys(tmp_path: Path, count: int, more: str) -> None:
    record = {f"k{index:03}": "word" for index in range(count)}
    named = ", ".join(f"k{index:03} (1 rows)" for index in range(20))
    found = lines(tmp_path, json.dumps({"step": 1, "loss": 1, **record}) + "\n")
    assert found.told == f"log.jsonl: no numbers, so no metrics: {named}{more}"
    assert found.rows[0].values == {"loss": 1.0}


def test_a_cut_last_line_is_noted_and_the_rest_kept(tmp_path: Path) -> None:
    found = lines(tmp_path, '{"step": 1, "kl": 0.1}\n{"step": 2, "kl": 0.2}\n{"step": 3, "k')
    assert [row.step for row in found.rows] == [1, 2]
    assert found.told == "log.jsonl:3: last line is cut; the file ends inside a record"
    assert found.left_out == 1


def test_a_last_line_without_newline_that_is_whole_is_kept(tmp_path: Path) -> None:
    found = lines(tmp_path, '{"step": 1, "kl": 0.1}\n{"step": 2, "kl": 0.2}')
    assert [row.step for row in found.rows] == [1, 2]
    assert found.notes == []


@pytest.mark.parametrize(
    ("bad", "shown"),
    [
        pytest.param([3], "1 lines are no JSON and were left out: 3", id="one bad line"),
        pytest.param([1, 4], "2 lines are no JSON and were left out: 1, 4", id="the first, too"),
        pytest.param(
            list(range(2, 14)),
            "12 lines are no JSON and were left out: 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, ...",
            id="only the first ten are listed",
        ),
        pytest.param([20], "1 lines are no JSON and were left out: 20", id="a whole last line"),
    ],
)
def test_bad_lines_are_counted_and_located(tmp_path: Path, bad: list[int], shown: str) -> None:
    text = "".join(
        "{oops\n" if line in bad else f'{{"step": {line}, "kl": 1}}\n' for line in range(1, 21)
    )
    found = lines(tmp_path, text)
    assert [row.step for row in found.rows] == [n for n in range(1, 21) if n not in bad]
    assert found.told == f"log.jsonl: {shown}"
    assert found.left_out == len(bad)


def test_bad_lines_and_a_cut_end_are_two_notes(tmp_path: Path) -> None:
    found = lines(tmp_path, '{"step": 1, "kl": 1}\n{oops}\n{"step": 3, "kl": 1}\n{"st')
    assert [row.step for row in found.rows] == [1, 3]
    assert found.told.splitlines() == [
        "log.jsonl:4: last line is cut; the file ends inside a record",
        "log.jsonl: 1 lines are no JSON and were left out: 2",
    ]
    assert found.left_out == 2


def test_line_numbers_count_blank_lines(tmp_path: Path) -> None:
    found = lines(tmp_path, '\n{"step": 1, "kl": 1}\r\n   \n{"step": 2, "kl": 1}\n\n')
    assert [(row.step, row.line) for row in found.rows] == [(1, 2), (2, 4)]
    assert found.notes == []


def test_a_byte_order_mark_is_no_fault(tmp_path: Path) -> None:
    found = lines(tmp_path, b'\xef\xbb\xbf{"step": 1, "kl": 1}\n{"step": 2, "kl": 1}\n')
    assert [row.step for row in found.rows] == [1, 2]
    assert found.notes == []


def test_bytes_that_are_no_text_cost_one_line(tmp_path: Path) -> None:
    found = lines(tmp_path, b'{"step": 1, "kl": 1}\n\xff\xfe\x80\n{"step": 3, "kl": 1}\n')
    assert [row.step for row in found.rows] == [1, 3]
    assert found.left_out == 1


@pytest.mark.parametrize(
    "bad",
    [
        pytest.param("[" * 100_000, id="100,000 brackets"),
        pytest.param('{"a":' * 100_000 + "1" + "}" * 100_000, id="100,000 nested tables"),
    ],
)
def test_deep_nesting_is_a_note(tmp_path: Path, bad: str) -> None:
    found = lines(tmp_path, f'{{"step": 1, "kl": 1}}\n{bad}\n{{"step": 3, "kl": 1}}\n')
    assert [row.step for row in found.rows] == [1, 3]
    assert found.told == "log.jsonl: 1 lines are no JSON and were left out: 2"


def test_a_file_of_nothing_but_brackets_is_a_note(tmp_path: Path) -> None:
    found = lines(tmp_path, "[" * 100_000)
    assert found.rows == []
    assert found.told == "log.jsonl: no valid JSON (nested too deeply); nothing was read"


def test_an_empty_file_holds_nothing_and_says_nothing(tmp_path: Path) -> None:
    found = lines(tmp_path, "")
    assert (found.rows, found.notes) == ([], [])


def test_records_that_are_no_tables_are_counted(tmp_path: Path) -> None:
    found = lines(tmp_path, '{"step": 1, "kl": 1}\n7\nnull\n"x"\n[1]\n{"step": 2, "kl": 1}\n')
    assert [row.step for row in found.rows] == [1, 2]
    assert found.told == "log.jsonl: 4 records are no tables and were left out"
    assert found.left_out == 4


def test_one_json_array_is_read_like_lines(tmp_path: Path) -> None:
    found = lines(tmp_path, '\n [{"step": 1, "kl": NaN},\n {"step": 2, "kl": 2}, 5]')
    assert [(row.step, row.line) for row in found.rows] == [(1, 1), (2, 2)]
    assert math.isnan(found.rows[0].values["kl"])
    assert found.told == "log.jsonl: 1 records are no tables and were left out"


@pytest.mark.parametrize(
    ("text", "steps"),
    [
        pytest.param('[{"step": 1, "kl": 1}, {"step"', [1], id="inside a key"),
        pytest.param('[{"step": 1, "kl": 1}, {"step": 2, "kl": 2}', [1, 2], id="after a record"),
        pytest.param('[{"step": 1, "kl": NaN},\n {"step": 2, "kl": 2},\n', [1, 2], id="at a comma"),
        pytest.param('[{"step": 1, "kl": 1}, {oops}, {"step": 3}]', [1], id="damaged in between"),
    ],
)
def test_of_a_cut_array_the_whole_records_before_the_cut_are_kept(
    tmp_path: Path, text: str, steps: list[int]
) -> None:
    found = lines(tmp_path, text)
    assert [(row.step, row.line) for row in found.rows] == [(step, step) for step in steps]
    assert found.told == (
        f"log.jsonl: is cut or damaged; {len(steps)} records before that were read"
    )
    assert found.left_out == 1


def test_an_array_cut_inside_its_first_record_holds_nothing(tmp_path: Path) -> None:
    found = lines(tmp_path, '[{"step": 1, "kl": 1')
    assert found.rows == []
    assert "no valid JSON" in found.told
    assert "nothing was read" in found.told
    assert found.left_out == 1


def test_a_key_that_first_appears_at_row_5000_is_kept(tmp_path: Path) -> None:
    rows = [{"step": step, "loss": 0.5} for step in range(1, 5000)]
    path = write_jsonl(tmp_path / "log.jsonl", [*rows, {"step": 5000, "late": 0.125}])
    found = read(jsonl, path)
    assert len(found.rows) == 5000
    assert found.rows[-1].values == {"late": 0.125}
    assert found.rows[-1].line == 5000


def test_nested_tables_are_flattened(tmp_path: Path) -> None:
    found = lines(tmp_path, '{"train": {"global_step": 4, "loss": 1, "kl": {"mean": 2}}}\n')
    assert found.rows[0].step == 4
    assert found.rows[0].values == {"train/loss": 1.0, "train/kl/mean": 2.0}


@pytest.mark.parametrize(
    ("depth", "followed"),
    [
        pytest.param(32, True, id="32 levels are followed"),
        pytest.param(33, False, id="33 levels are not"),
        pytest.param(1000, False, id="a thousand levels are not"),
    ],
)
def test_tables_are_followed_to_a_depth(tmp_path: Path, depth: int, followed: bool) -> None:
    deep = '{"a":' * depth + "1" + "}" * depth
    found = lines(tmp_path, '{"step": 1, "loss": 2, "x": ' + deep + "}\n")
    assert found.rows[0].step == 1
    if followed:
        assert found.rows[0].values == {"loss": 2.0, "x/" + "/".join(["a"] * depth): 1.0}
        assert found.notes == []
    else:
        assert found.rows[0].values == {"loss": 2.0}
        key = "x/" + "/".join(["a"] * 32)
        assert found.told == f"log.jsonl: no numbers, so no metrics: {key} (1 rows)"


@pytest.mark.parametrize(
    ("written", "key"),
    [
        pytest.param(r"x\ud800", "x\ufffd", id="a high surrogate alone"),
        pytest.param(r"\udc00\udc00", "\ufffd\ufffd", id="two low ones"),
        pytest.param(r"\ud83d\ude00", "\U0001f600", id="a pair is the character it stands for"),
        pytest.param("\u5956", "\u5956", id="Chinese stays"),
    ],
)
@pytest.mark.parametrize("value", ["1", '"word"'])
def test_keys_are_text_that_every_encoding_carries(
    tmp_path: Path, written: str, key: str, value: str
) -> None:
    found = lines(tmp_path, f'{{"step": 1, "loss": 2, "{written}": {value}}}\n')
    if value == "1":
        assert found.rows[0].values == {"loss": 2.0, key: 1.0}
    else:
        assert found.told == f"log.jsonl: no numbers, so no metrics: {key} (1 rows)"


@pytest.mark.parametrize(
    ("written", "step"),
    [
        pytest.param("9007199254740991", 2**53 - 1, id="the largest step"),
        pytest.param("-9007199254740991", 1 - 2**53, id="the smallest step"),
        pytest.param("9007199254740992", None, id="a float cannot count on"),
        pytest.param("-9007199254740992", None, id="nor backwards"),
        pytest.param("1e300", None, id="a huge float"),
        pytest.param("1" + "0" * 400, None, id="beyond any float"),
        pytest.param('"inf"', None, id="infinity as a text"),
        pytest.param("18446744073709551616", None, id="beyond 64 bits"),
    ],
)
def test_steps_are_counted_to_a_bound(tmp_path: Path, written: str, step: int | None) -> None:
    found = lines(tmp_path, f'{{"step": {written}, "loss": 1}}\n')
    assert (found.rows[0].step, found.rows[0].values) == (step, {"loss": 1.0})


def test_a_step_of_null_is_passed_over_for_the_next_key(tmp_path: Path) -> None:
    found = lines(tmp_path, '{"step": null, "global_step": 4, "loss": 1}\n')
    assert (found.rows[0].step, found.rows[0].values) == (4, {"loss": 1.0})


@pytest.mark.parametrize("key", STEP_KEYS)
def test_every_step_key_counts_and_is_no_metric(tmp_path: Path, key: str) -> None:
    found = lines(tmp_path, json.dumps({key: 7.0, "loss": 1}) + "\n")
    assert found.rows[0].step == 7
    assert found.rows[0].values == {"loss": 1.0}


def test_the_most_explicit_step_key_wins(tmp_path: Path) -> None:
    found = lines(tmp_path, '{"iteration": 70, "global_step": 8, "_step": 9, "loss": 1}\n')
    assert found.rows[0].step == 8


@pytest.mark.parametrize(
    ("record", "split", "values"),
    [
        pytest.param('{"step": 2, "eval_loss": 1}', "eval", {"eval_loss": 1.0}, id="eval_ rows"),
        pytest.param('{"step": 2, "eval/kl": 1}', "eval", {"eval/kl": 1.0}, id="eval/ rows"),
        pytest.param('{"step": 2, "loss": 1}', "train", {"loss": 1.0}, id="training rows"),
        pytest.param(
            '{"step": 2, "loss": 1, "eval_loss": 2}',
            "train",
            {"loss": 1.0, "eval_loss": 2.0},
            id="a mixed row",
        ),
        pytest.param('{"step": 2}', "train", {}, id="a row without metrics"),
    ],
)
def test_rows_keep_the_keys_as_logged(
    tmp_path: Path, record: str, split: str, values: dict[str, float]
) -> None:
    found = lines(tmp_path, record + "\n")
    assert (found.rows[0].split, found.rows[0].values) == (split, values)


@pytest.mark.parametrize(
    ("name", "head", "claimed"),
    [
        pytest.param("x.jsonl", '{"step": 1, "kl": 0.5}', True, id="lines of numbers"),
        pytest.param("x.ndjson", '{"kl": NaN}', True, id="lines that begin with NaN"),
        pytest.param("x.jsonl", '{"kl": -Infinity}', True, id="lines that begin with infinity"),
        pytest.param("x.jsonl", '{"kl": null}', True, id="lines that begin with null"),
        pytest.param("x.jsonl", '{"kl": "NaN"}', True, id="lines that begin with a NaN string"),
        pytest.param("train_log.json", '[{"step": 1}]', True, id="a log as an array"),
        pytest.param("my_metrics_2.json", '[{"step": 1}]', True, id="metrics as an array"),
        pytest.param("history.json", '[{"step": 1}]', True, id="a history as an array"),
        pytest.param("x.json", '[{"step": 1}]', False, id="any other JSON"),
        pytest.param("x.jsonl", '{"step": 1, "response": "a"}', False, id="samples"),
        pytest.param("x.jsonl", '{"output": "a", "loss": 1}', True, id="a loss beside a text"),
        pytest.param("x.jsonl", '{"kl": "inf"}', True, id="lines that begin with an inf string"),
        pytest.param(
            "x.jsonl", '{"note": "' + "x" * 60_000 + '", "kl": 1}', True, id="a number far behind"
        ),
        pytest.param("x.jsonl", '{"name": "a"}', False, id="lines without a number"),
        pytest.param("x.jsonl", "", False, id="an empty file"),
        pytest.param("log.json", '{"log_history": [{"step": 1}]}', False, id="a trainer's state"),
        pytest.param("x.csv", '{"step": 1}', False, id="another ending"),
    ],
)
def test_claims(name: str, head: str, claimed: bool) -> None:
    assert jsonl.claims(name, head.encode()) is claimed


@pytest.mark.parametrize(
    ("name", "named", "promised"),
    [
        pytest.param("x.jsonl", True, True, id="JSON Lines promise a log"),
        pytest.param("x.ndjson", True, True, id="by their other ending, too"),
        pytest.param("train_log.json", True, False, id="a JSON file may be anything"),
        pytest.param("x.json", False, False, id="any other JSON"),
        pytest.param("x.jsonl.gz", False, False, id="another ending"),
        pytest.param("X.JSONL", False, False, id="case counts"),
    ],
)
def test_what_a_name_says(name: str, named: bool, promised: bool) -> None:
    assert (jsonl.named(name), jsonl.promises(name)) == (named, promised)


def test_the_wrapping_of_verls_file_logger_is_taken_off(tmp_path: Path) -> None:
    lines = [
        {"step": step, "data": {"actor/kl_loss": 0.5, "critic/score/mean": 1.0}} for step in (1, 2)
    ]
    found = read(jsonl, write(tmp_path / "exp.jsonl", "\n".join(map(json.dumps, lines))))
    assert [row.step for row in found.rows] == [1, 2]
    assert found.rows[1].values == {"actor/kl_loss": 0.5, "critic/score/mean": 1.0}


def test_a_record_of_arguments_is_the_configuration(tmp_path: Path) -> None:
    lines = [
        {"type": "config", "argv": ["train.py"], "args": {"beta": 0.25, "seed": 7, "lr": "1e-5"}},
        {"step": 1, "loss": 0.5, "args": {"beta": 9}},
    ]
    found = read(jsonl, write(tmp_path / "log.jsonl", "\n".join(map(json.dumps, lines))))
    told = {setting.name: setting.value for setting in found.settings}
    assert (told["kl_coef"], told["seed"], told["learning_rate"]) == (0.25, 7, 1e-5)
    assert [(row.step, row.line) for row in found.rows] == [(1, 2)]
