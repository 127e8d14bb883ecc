import math

import pytest

from rlhfdoctor.readers._python import depth, leaves, mended, value_at


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(
            "{'a': 0.5, 'b': -1e-05, 'c': 3}", {"a": 0.5, "b": -1e-5, "c": 3}, id="a dict"
        ),
        pytest.param("{'a': inf, 'b': -inf}", {"a": math.inf, "b": -math.inf}, id="infinities"),
        pytest.param("{'a': True, 'b': None}", {"a": True, "b": None}, id="Python's words"),
        pytest.param('{"a": true, "b": null}', {"a": True, "b": None}, id="JSON's words"),
        pytest.param("{'a': np.float64(0.5)}", {"a": 0.5}, id="a number of numpy"),
        pytest.param("{'a': tensor(0.5, device='cuda:0')}", {"a": 0.5}, id="a tensor"),
        pytest.param("{'a': array([0.5], dtype=float32)}", {"a": 0.5}, id="an array of one"),
        pytest.param("{'a': [1, (2, 3)]}", {"a": [1, [2, 3]]}, id="lists and tuples"),
        pytest.param("{'a': 'it''s', \"b\": \"it's\"}", {"a": "its", "b": "it's"}, id="quotes"),
        pytest.param(r"{'a': 'x\'y\n\u00e9'}", {"a": "x'y\n\u00e9"}, id="escapes"),
        pytest.param("{'a': <Kind.ONE: 'one'>}", {"a": "<Kind.ONE: 'one'>"}, id="an object"),
        pytest.param("{'a': ('long '\n      'text')}", {"a": ["long text"]}, id="a broken string"),
        pytest.param("{'a': {'b': 1},\n 'c': {}}", {"a": {"b": 1}, "c": {}}, id="nested tables"),
        pytest.param("Namespace(lr=1e-05, x='y')", {"lr": 1e-5, "x": "y"}, id="a call"),
        pytest.param("Args(\n  a=1,\n  b=B(c=2),\n)", {"a": 1, "b": {"c": 2}}, id="calls in calls"),
    ],
)
def test_values_are_read_as_they_were_printed(text: str, expected: object) -> None:
    assert value_at(text) == (expected, len(text))


def test_nan_is_a_number() -> None:
    value, _ = value_at("{'a': nan}")
    assert isinstance(value, dict)
    assert math.isnan(value["a"])


@pytest.mark.parametrize(
    "text",
    ["{'a': 0.5, 'b'", "{'a': 0.5, 'b': 0.1", "{'a': 0.5,", "{'a", "{'a': [1, 2", "Args(a=1"],
)
def test_a_value_that_is_cut_says_so(text: str) -> None:
    with pytest.raises(EOFError):
        value_at(text)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("{'a': 0.5 0.1}", id="two numbers"),
        pytest.param("{'a': 0.1x}", id="a damaged number"),
        pytest.param("{'a' 0.1}", id="no colon"),
        pytest.param("{'a': 1.2.3}", id="a version"),
        pytest.param("[" * 100 + "]" * 100, id="too deep"),
        pytest.param("{'a': 0.12\n34}", id="a number over two lines"),
        pytest.param("{'lo\nss': 1}", id="a key over two lines"),
        pytest.param("{'a': __import__('os').system('x')}", id="an expression"),
    ],
)
def test_what_is_no_value_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"no |deep"):
        value_at(text)


def test_brackets_in_quotes_do_not_count() -> None:
    assert depth("{'a': '}}', \"b\": [") == 2


def test_leaves_are_named_by_dots() -> None:
    assert dict(leaves({"a": {"b": {"c": 1}}, "d": 2})) == {"a.b.c": 1, "d": 2}


def test_a_table_that_is_cut_can_be_mended() -> None:
    assert value_at(mended("{'a': {'b': 1,\n 'c': [2,"))[0] == {"a": {"b": 1, "c": [2]}}
