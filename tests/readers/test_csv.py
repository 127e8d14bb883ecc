from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlhfdoctor.readers import csv as module
from rlhfdoctor.readers.csv import csv, read_samples
from tests.readers.helpers import Read, read, sort, write


def of(tmp_path: Path, text: str | bytes, name: str = "log.csv") -> Read:
    return read(csv, write(tmp_path / name, text))


def rows(found: Read) -> list[tuple[int | None, dict[str, float]]]:
    return [(row.step, dict(row.values)) for row in found.rows]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("step,loss\n1,0.5\n2,-1e-3\n", id="commas"),
        pytest.param("step;loss\n1;0.5\n2;-1e-3\n", id="semicolons"),
        pytest.param("step;loss\n1;0,5\n2;-1e-3\n", id="a decimal comma"),
        pytest.param("step\tloss\n1\t0.5\n2\t-1e-3\n", id="tabs"),
        pytest.param("\ufeffstep,loss\r\n1,0.5\r\n2,-1e-3\r\n", id="as Excel writes"),
        pytest.param(",step,loss\n0,1,0.5\n1,2,-1e-3\n", id="pandas' index"),
        pytest.param("Unnamed: 0,step,loss\n0,1,0.5\n1,2,-1e-3\n", id="pandas' index, read twice"),
        pytest.param("Step,loss,kl\n1,0.5,\n2,-1e-3,\n", id="a capital and an empty column"),
        pytest.param("Global Step,loss\n1,0.5\n2,-1e-3\n", id="a step of two words"),
        pytest.param('"step","loss"\n"1","0.5"\n\n2, -1e-3 \n', id="quotes, blanks, empty lines"),
        pytest.param("step,metric,value\n1,loss,0.5\n2,loss,-1e-3\n", id="a metric a line"),
        pytest.param('Step,"run a - loss","run a - loss__MIN"\n1,0.5,0\n2,-1e-3,0\n', id="wandb"),
    ],
)
def test_metrics(tmp_path: Path, text: str) -> None:
    assert rows(of(tmp_path, text)) == [(1, {"loss": 0.5}), (2, {"loss": -1e-3})]


def test_an_epoch_an_evaluation_and_lines(tmp_path: Path) -> None:
    found = of(tmp_path, "step,epoch,loss,eval_loss\n5,0.5,1,\n5,0.5,,2\n")
    assert [(row.line, row.epoch, row.split, dict(row.values)) for row in found.rows] == [
        (2, 0.5, "train", {"loss": 1.0}),
        (3, 0.5, "eval", {"eval_loss": 2.0}),
    ]


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("run-mine-tag-train_loss.csv", "train/loss"),
        ("run-.-tag-eval_loss.csv", "eval_loss"),
        ("run-a-b-tag-objective_kl.csv", "objective/kl"),
        ("run-a-tag-train_grad_norm.csv", "train/grad_norm"),
        ("kl.csv", "kl"),
    ],
)
def test_an_export_of_tensorboard(tmp_path: Path, name: str, key: str) -> None:
    found = of(tmp_path, "Wall time,Step,Value\n1700000000.5,10,0.25\n1700000001.5,20,NaN\n", name)
    assert [(row.step, row.wall_time, *row.values) for row in found.rows] == [
        (10, 1700000000.5, key),
        (20, 1700000001.5, key),
    ]
    assert found.rows[0].values[key] == 0.25
    assert f"the tag, {key}, was read off the file's name" in found.told


def test_columns_of_several_runs_keep_their_names(tmp_path: Path) -> None:
    found = of(tmp_path, "Step,a - loss,b - loss,a - loss__MAX\n1,2,3,4\n")
    assert rows(found) == [(1, {"a/loss": 2.0, "b/loss": 3.0})]
    assert "columns of 2 runs" in found.told
    assert "__MIN and __MAX" in found.told


def test_a_text_column_is_noted_as_no_metric(tmp_path: Path) -> None:
    found = of(tmp_path, "step,loss,time\n1,0.5,soon\n")
    assert found.told == "log.csv: no numbers, so no metrics: time (1 rows)"


def test_rows_of_another_length_are_counted(tmp_path: Path) -> None:
    found = of(tmp_path, "step,loss\n1,0.5\n2\n3,1,2\n")
    assert rows(found) == [(1, {"loss": 0.5}), (2, {}), (3, {"loss": 1.0})]
    assert "2 rows have more or fewer fields" in found.told


def test_samples(tmp_path: Path) -> None:
    found = of(
        tmp_path,
        "query,response,reward,token_ids,truncated,note\n"
        '"a\nb","x, ""y""",1.5,"[1, 2]",True,"tensor([1])"\n'
        'c,"[1, 2]",nan,,false,\n'
        "d,,0,,,\n",
        "generations.csv",
    )
    assert [(item.prompt, item.response, item.truncated) for item in found.samples] == [
        ("a\nb", 'x, "y"', True),
        ("c", "[1, 2]", False),
        ("d", "", None),
    ]
    assert (found.samples[0].reward, found.samples[0].token_ids) == (1.5, (1, 2))
    assert found.rows == []


def test_the_name_of_a_sample_file_tells_the_step(tmp_path: Path) -> None:
    assert of(tmp_path, "prompt,response\na,b\n", "samples_40.csv").samples[0].step == 40


def test_conversations_in_a_field_are_understood(tmp_path: Path) -> None:
    chat = '"[{""role"": ""assistant"", ""content"": ""hi""}]"'
    assert of(tmp_path, f"prompt,completion\nq,{chat}\n").samples[0].response == "hi"


def streamed(path: Path, field: str | None = None) -> Read:
    return sort(read_samples(path, field))


@pytest.mark.parametrize(
    ("field", "expected"),
    [
        pytest.param("mine", ["a", ""], id="a column"),
        pytest.param("o.text", ["c", "d"], id="inside a column of JSON"),
        pytest.param("chat", ["hi", "hi"], id="conversations as Python prints them"),
    ],
)
def test_a_field_is_a_column_or_inside_one(tmp_path: Path, field: str, expected: list[str]) -> None:
    chat = (
        """ "[{'role': 'user', 'content': 'q'}, {'role': 'assistant', 'content': 'hi'}]" """.strip()
    )
    text = f'mine,o,chat\na,"{{""text"": ""c""}}",{chat}\n,"{{""text"": ""d""}}",{chat}\n'
    found = streamed(write(tmp_path / "x.csv", text), field)
    assert [item.response for item in found.samples] == expected


@pytest.mark.parametrize(
    "response", ["true", "False", '[{"name": "search"}]', "[1]", "{}", "[broken", "NaN"]
)
def test_a_response_that_looks_like_something_else_is_a_text(tmp_path: Path, response: str) -> None:
    quoted = response.replace('"', '""')
    path = write(tmp_path / "x.csv", f'prompt,response\nq,"{quoted}"\n')
    assert [item.response for item in streamed(path).samples] == [response]


def test_where_no_column_is_the_field_the_columns_are_told(tmp_path: Path) -> None:
    path = write(tmp_path / "x.csv", "id,mine\n1,a\n")
    for field in ("nope", None):
        assert streamed(path, field).told == "x.csv: holds no responses; its columns are id, mine"


def test_a_table_of_samples_may_be_of_any_length(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_ROWS", 2)
    path = write(tmp_path / "x.csv", "prompt,response\n" + "q,a\n" * 9)
    assert len(streamed(path).samples) == 9
    assert len(read(csv, path).samples) == 1


def test_a_line_beyond_the_bound_ends_the_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LONGEST_LINE", 50)
    path = write(tmp_path / "x.csv", "prompt,response\nq,a\nq," + "b" * 100 + "\nq,c\n")
    found = streamed(path)
    assert [item.response for item in found.samples] == ["a"]
    assert "a line is longer than 50 characters" in found.told


@pytest.mark.parametrize(
    ("text", "told"),
    [
        pytest.param("loss\n1\n", "has no columns", id="one column"),
        pytest.param("", "has no columns", id="an empty file"),
    ],
)
def test_what_is_no_table_is_a_note(tmp_path: Path, text: str, told: str) -> None:
    found = of(tmp_path, text)
    assert (found.rows, found.samples) == ([], [])
    assert told in found.told


def test_an_unclosed_quote_ends_the_file_with_a_note(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LONGEST_FIELD", 100)
    found = of(tmp_path, 'step,loss\n1,2\n2,"' + "x" * 1000)
    assert rows(found) == [(1, {"loss": 2.0})]
    assert "is cut or damaged at line" in found.told


def test_rows_beyond_the_limit_are_told_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_ROWS", 3)
    found = of(tmp_path, "step,loss\n1,1\n2,2\n3,3\n4,4\n")
    assert len(found.rows) == 2
    assert "has more than 3 rows" in found.told


@given(st.integers(0, 120), st.binary(max_size=4), st.sampled_from(["log.csv", "x-tag-kl.csv"]))
def test_damage_is_never_a_traceback(place: int, bytes_: bytes, name: str) -> None:
    texts = (
        b'step,loss,kl\n1,0.5,"0,1"\n2,nan,1e5\n' * 3,
        b'prompt,response,reward\n"a\nb",c,1\nd,"[{""role"": 1}]",2\n' * 2,
        b"Wall time,Step,Value\n1,2,3\n4,5,6\n",
    )
    with TemporaryDirectory() as folder:
        for text in texts:
            damaged = text[:place] + bytes_ + text[place + len(bytes_) :]
            path = write(Path(folder) / name, damaged)
            csv.claims(name, damaged)
            read(csv, path)
            read(csv, write(path, text[:place]))


@pytest.mark.parametrize(
    ("name", "head", "claimed"),
    [
        pytest.param("x.csv", "step,loss\n1,2\n", True, id="steps"),
        pytest.param("x.tsv", "epoch\tloss\n1\t2\n", True, id="epochs"),
        pytest.param("x.csv", "Wall time,Step,Value\n", True, id="TensorBoard"),
        pytest.param("x.csv", "prompt,response\n", True, id="responses"),
        pytest.param("x.csv", "chosen,rejected\n", True, id="pairs"),
        pytest.param("x.csv", "prompt,response\nwhat,42\n", True, id="an answer that is a number"),
        pytest.param("x.csv", "input,output\n1,2\n", False, id="outputs that are numbers"),
        pytest.param("x.csv", "city,population\n", False, id="any other table"),
        pytest.param("x.csv", "step\n1\n", False, id="one column"),
        pytest.param("x.csv", "", False, id="an empty file"),
        pytest.param("x.csv", "step,\x00\x00", False, id="null bytes"),
        pytest.param("x.txt", "step,loss\n1,2\n", False, id="another name"),
    ],
)
def test_claims(name: str, head: str, claimed: bool) -> None:
    assert csv.claims(name, head.encode()) is claimed
