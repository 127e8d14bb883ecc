"""Python and JSON values inside text, read without evaluating anything.

Trainers print dicts with ``nan``, ``np.float64(0.5)``, ``tensor(0.5, device='cuda:0')`` and objects
in angle brackets, which neither ``json`` nor ``ast.literal_eval`` takes. This reader is linear in
the length of the text and bounded in depth.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

DEEPEST = 64
"""Levels of brackets that are followed."""

_TOKEN = re.compile(
    r"""\s*(?:
        (?P<string>[bBuUrR]{0,2}(?:'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*"))
      | (?P<number>[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?)(?![\w.])
      | (?P<word>[+-]?[A-Za-z_][\w.]*)
      | (?P<object><[^<>\n]{0,500}>)
      | (?P<mark>[{}\[\](),:=])
    )""",
    re.VERBOSE,
)
_BRACKET = re.compile(r"""'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*"|[{}\[\]()]""")
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|(.))", re.DOTALL)
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "0": "\0"}
_WORDS: dict[str, object] = {
    "True": True,
    "true": True,
    "False": False,
    "false": False,
    "None": None,
    "null": None,
    "nan": math.nan,
    "NaN": math.nan,
    "inf": math.inf,
    "Infinity": math.inf,
    "-inf": -math.inf,
    "-Infinity": -math.inf,
    "-nan": math.nan,
}
_WRAPPER = re.compile(r"(?:float|int|uint|bfloat|tensor|array|scalar|asarray|Decimal|bool)\d*_?")
"""Calls that print one number: ``np.float64(0.5)``, ``tensor(0.5)``, ``array(0.5)``."""


def value_at(text: str, place: int = 0) -> tuple[object, int]:
    """Return the value that begins at a place, and where it ends.

    A call with keywords, ``Namespace(lr=1e-05)``, becomes a table; any other object its text.
    Raises EOFError where the text ends inside the value, ValueError where it is none.
    """
    return _value(text, place, 0)


def depth(text: str) -> int:
    """Return how many more brackets a text opens than it closes, outside of quotes."""
    found = [match[0] for match in _BRACKET.finditer(text) if len(match[0]) == 1]
    return sum(1 if mark in "{[(" else -1 for mark in found)


def mended(text: str) -> str:
    """Return a text that ends inside tables with their brackets closed, at its last whole item."""
    open_: list[str] = []
    for match in _BRACKET.finditer(text):
        if match[0] in "{[(":
            open_.append({"{": "}", "[": "]", "(": ")"}[match[0]])
        elif len(match[0]) == 1 and open_:
            open_.pop()
    return text.rstrip().rstrip(",") + "".join(reversed(open_))


def _token(text: str, place: int) -> tuple[str, str, int]:
    found = _TOKEN.match(text, place)
    if found is None:
        left = text[place:].lstrip()
        if not left or (left[0] in "'\"<" and "\n" not in left):
            raise EOFError
        raise ValueError(f"no value at {place}")
    kind = str(found.lastgroup)
    if kind in ("number", "word") and found.end() == len(text):
        raise EOFError
    return kind, found[kind], found.end()


def _value(text: str, place: int, level: int) -> tuple[object, int]:
    if level > DEEPEST:
        raise ValueError("nested too deeply")
    kind, token, end = _token(text, place)
    if kind == "string":
        return _string(text, token, end)
    if kind == "number":
        return (float(token) if set(token) & set(".eE") else _integer(token)), end
    if kind == "object":
        return token, end
    if kind == "word":
        if text[end : end + 1] == "(":
            return _call(text, token, end + 1, level)
        return _WORDS.get(token, token), end
    if token == "{":
        return _table(text, end, level)
    if token in "[(":
        items, end = _items(text, end, "]" if token == "[" else ")", level)
        return [item for _, item in items], end
    raise ValueError(f"{token} at {place}")


def _integer(token: str) -> int | float:
    return int(token) if len(token) < 400 else math.copysign(math.inf, -1 if token[0] == "-" else 1)


def _string(text: str, token: str, end: int) -> tuple[str, int]:
    """Join strings that stand beside each other, as pprint breaks long ones."""
    parts = [_unquoted(token)]
    while True:
        found = _TOKEN.match(text, end)
        if not found or found.lastgroup != "string":
            return "".join(parts), end
        parts.append(_unquoted(found["string"]))
        end = found.end()


def _unquoted(token: str) -> str:
    body = token.lstrip("bBuUrR")[1:-1]
    return _ESCAPE.sub(_unescaped, body) if "\\" in body else body


def _unescaped(found: re.Match[str]) -> str:
    digits = found[1] or found[2]
    return chr(int(digits, 16)) if digits else _ESCAPED.get(found[3], found[3])


def _table(text: str, place: int, level: int) -> tuple[object, int]:
    table: dict[str, object] = {}
    while True:
        kind, token, end = _token(text, place)
        if token == "}" and kind == "mark":
            return table, end
        key, end = _value(text, place, level + 1)
        kind, token, end = _token(text, end)
        if token in ",}" and kind == "mark":
            table[str(key)] = None  # a set
        else:
            if token != ":":
                raise ValueError(f"no colon at {end}")
            table[str(key)], end = _value(text, end, level + 1)
            kind, token, end = _token(text, end)
        if token == "}":
            return table, end
        if token != ",":
            raise ValueError(f"no comma at {end}")
        place = end


def _items(
    text: str, place: int, closing: str, level: int
) -> tuple[list[tuple[str | None, object]], int]:
    items: list[tuple[str | None, object]] = []
    while True:
        kind, token, end = _token(text, place)
        if kind == "mark" and token == closing:
            return items, end
        name = None
        if kind == "word":
            after = _TOKEN.match(text, end)
            if after and after["mark"] == "=":
                name, place = token, after.end()
        item, end = _value(text, place, level + 1)
        items.append((name, item))
        kind, token, end = _token(text, end)
        if kind == "mark" and token == closing:
            return items, end
        if token != ",":
            raise ValueError(f"no comma at {end}")
        place = end


def _call(text: str, name: str, place: int, level: int) -> tuple[object, int]:
    start = place
    items, end = _items(text, place, ")", level)
    first = next((item for key, item in items if key is None), None)
    if _WRAPPER.fullmatch(name.rpartition(".")[2]) and first is not None:
        while isinstance(first, list) and len(first) == 1:
            first = first[0]
        return first, end
    named = {key: item for key, item in items if key is not None}
    return (named if named else f"{name}({text[start:end]}"), end


def leaves(table: dict[str, object], prefix: str = "") -> Iterator[tuple[str, object]]:
    """Yield the leaves of nested tables under keys joined by dots, as frameworks name them."""
    for key, value in table.items():
        if isinstance(value, dict):
            yield from leaves(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value
