"""YAML of a run folder, parsed as plain data: no tag makes an object, no alias makes a bomb."""

from __future__ import annotations

import re
from typing import Any

import yaml

DEEPEST = 64
"""Levels of nesting that are followed."""

MOST_ALIASES = 100
"""Repeated parts of a document. With merges (``<<``), which copy, a fifth of them."""

LONGEST_NUMBER = 400
"""Characters of a number that is parsed: digits in base 60 cost the square of their count."""

_DIGITS = re.compile(r"[-+\d_:.]+")

_Base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Plain(_Base):  # type: ignore[misc]
    """The safe loader, for which a tag that it does not know is no more than its content."""


def _untagged(loader: Any, suffix: str, node: yaml.Node) -> Any:
    if isinstance(node, yaml.MappingNode):
        return loader.construct_mapping(node, deep=True)
    if isinstance(node, yaml.SequenceNode):
        return loader.construct_sequence(node, deep=True)
    return loader.construct_scalar(node)


_Plain.add_multi_constructor("", _untagged)


def load(text: bytes) -> object:
    """Return what a YAML document holds: tables, lists, texts, numbers, true, false, None.

    Raises ValueError, with the reason, for what is no YAML, too deep or repeats itself too often.
    """
    try:
        _refuse_bombs(text)
        return yaml.load(text, Loader=_Plain)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f" in line {mark.line + 1}" if mark else ""
        problem = getattr(error, "problem", None) or "bytes that are no text"
        raise ValueError(f"no valid YAML: {problem}{where}") from None
    except (RecursionError, TypeError, OverflowError, AttributeError) as error:
        raise ValueError(f"no valid YAML: {error}") from None


def _refuse_bombs(text: bytes) -> None:
    aliases = merges = depth = 0
    for event in yaml.parse(text, Loader=_Base):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        elif isinstance(event, yaml.AliasEvent):
            aliases += 1
        elif isinstance(event, yaml.ScalarEvent):
            merges += event.value == "<<"
            if len(event.value) > LONGEST_NUMBER and _DIGITS.fullmatch(event.value):
                raise ValueError("holds a number of endless digits")
        if depth > DEEPEST:
            raise ValueError("nested too deeply")
        if aliases > (MOST_ALIASES // 5 if merges else MOST_ALIASES):
            raise ValueError("repeats parts of itself too often")
