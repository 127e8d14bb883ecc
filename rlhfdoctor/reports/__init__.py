"""Reports print what the doctor concluded. They compute nothing.

A report is a function from documents to text; the command line writes the text to the terminal or
to the path of ``--output FORMAT=PATH``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from rlhfdoctor.model import Diagnosis, Severity

Document = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Gated:
    """What a gate said of runs.

    fail_on: the severity from which on a finding fails it. codes: the exit code of each diagnosis,
    in their order. failed: the runs that could not be judged, as {path, exit_code, error, hint}.
    """

    fail_on: Severity
    codes: tuple[int, ...]
    failed: tuple[Document, ...] = ()


@dataclass(frozen=True, slots=True)
class Page:
    """How to print: the exit code that goes with it, the width in characters, colour or not.

    ``width`` 0 means: never break a line (a pipe, a file). gate: what the gate said, where it was
    asked. brief: one line a run, and in JSON always a list. ascii: nothing is drawn in characters
    beyond ASCII.
    """

    exit_code: int = 0
    width: int = 0
    colour: bool = False
    gate: Gated | None = None
    brief: bool = False
    ascii: bool = False


Render = Callable[[Sequence[Diagnosis], Page], str]


@dataclass(frozen=True, slots=True)
class Report:
    """One format of ``--format`` and ``--output``."""

    name: str
    render: Render


def report(name: str) -> Callable[[Render], Report]:
    """Make a function the report ``name``."""

    def made(render: Render) -> Report:
        return Report(name, render)

    return made
