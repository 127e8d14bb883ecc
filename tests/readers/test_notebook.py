import json
from pathlib import Path

import pytest

from rlhfdoctor.readers.notebook import notebook
from tests.readers.helpers import Read, read, write

Output = dict[str, object]


def book(tmp_path: Path, *outputs: Output) -> Read:
    cells = [{"cell_type": "code", "source": "train()", "outputs": [item]} for item in outputs]
    text = json.dumps({"cells": [{"cell_type": "markdown"}, *cells], "nbformat": 4})
    return read(notebook, write(tmp_path / "train.ipynb", text))


def stream(*lines: str) -> Output:
    return {"output_type": "stream", "name": "stdout", "text": list(lines)}


TABLE = (
    "<div><progress></progress><table border='1'><thead><tr><th>Step</th><th>Training Loss</th>"
    "<th>reward</th></tr></thead><tbody><tr><td>10</td><td>0.500000</td><td>nan</td></tr>"
    "<tr><td>20</td><td>0.250000</td><td>1.5</td></tr></tbody></table><p>done</p>"
)


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        pytest.param(
            stream("{'loss': 0.5, 'kl': 0.25}\n", "text\n"), [(None, "loss", 0.5)], id="a stream"
        ),
        pytest.param(
            {"output_type": "stream", "text": "step 3 | loss 0.5 | kl 0.25"},
            [(3, "loss", 0.5)],
            id="a stream in one text, whose last line is no cut one",
        ),
        pytest.param(
            {"output_type": "display_data", "data": {"text/html": [TABLE]}},
            [(10, "Training Loss", 0.5), (20, "Training Loss", 0.25)],
            id="the table of a trainer",
        ),
        pytest.param(
            {"output_type": "execute_result", "data": {"text/plain": "{'loss': 0.5, 'kl': 1}"}},
            [(None, "loss", 0.5)],
            id="a value that was shown",
        ),
    ],
)
def test_what_cells_printed_is_read(
    tmp_path: Path, output: Output, expected: list[tuple[int | None, str, float]]
) -> None:
    found = book(tmp_path, output)
    assert [
        (row.step, key, row.values[key])
        for row, (_, key, _) in zip(found.rows, expected, strict=True)
    ] == expected
    assert {row.line for row in found.rows} == {None}


def test_an_error_is_how_it_ended(tmp_path: Path) -> None:
    error: Output = {"output_type": "error", "ename": "RuntimeError", "evalue": "CUDA error"}
    found = book(tmp_path, stream("{'loss': 0.5, 'kl': 0.25}\n"), error)
    assert [(item.name, item.value) for item in found.settings] == [
        ("ended_with", "RuntimeError: CUDA error")
    ]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        pytest.param('{"cells": [', "no valid JSON", id="a cut notebook"),
        pytest.param('{"cells": 3}', "holds no cells", id="no list of cells"),
        pytest.param("[]", "holds no cells", id="no notebook"),
        pytest.param(
            '{"cells": [3, {"outputs": 3}, {"outputs": [3, {}]}]}', "no metric rows", id="odd"
        ),
        pytest.param(
            '{"cells": [{"outputs": [{"text": 3, "data": {"text/html": ["<table><td", 3]}}]}]}',
            "no metric rows",
            id="odd outputs",
        ),
    ],
)
def test_a_notebook_that_is_none_is_told_of(tmp_path: Path, text: str, told: str) -> None:
    found = read(notebook, write(tmp_path / "train.ipynb", text))
    assert found.rows == []
    assert told in found.told


def test_notebooks_are_claimed_by_their_cells() -> None:
    assert notebook.claims("a.ipynb", b'{"cells": []}')
    assert not notebook.claims("a.ipynb", b"text")
