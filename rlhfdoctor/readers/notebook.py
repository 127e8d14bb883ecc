"""What the cells of a Jupyter notebook printed: the grammars of a console log, and HTML tables."""

from __future__ import annotations

from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

from rlhfdoctor.model import Note
from rlhfdoctor.readers import Item, reader
from rlhfdoctor.readers._console import read_text
from rlhfdoctor.readers._json import loads
from rlhfdoctor.readers._marks import TRACEBACK
from rlhfdoctor.readers._open import contents
from rlhfdoctor.readers._text import segments_of

_LARGEST = 2**28
"""Bytes of a notebook that is read, images and all."""

_LARGEST_TABLE = 2**24
"""Characters of HTML that are looked at in one output."""


class _Tables(HTMLParser):
    """The tables of an HTML output as lines of cells: how a trainer shows its log in a notebook."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []
        self._cells: list[str] = []
        self._inside = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "tr":
            self._cells = []
        if tag in ("td", "th"):
            self._inside = True
            self._cells.append("")

    def handle_endtag(self, tag: str) -> None:
        if tag in ("td", "th"):
            self._inside = False
        if tag == "tr" and self._cells:
            self.lines.append(f"| {' | '.join(self._cells)} |")
        if tag == "table":
            self.lines.append(" ")

    def handle_data(self, data: str) -> None:
        if self._inside:
            self._cells[-1] += data.replace("|", "/").replace("\n", " ").strip()


@reader("*.ipynb", looks=lambda head: b'"cells"' in head or b'"nbformat"' in head, role="text")
def notebook(path: Path) -> Iterator[Item]:
    """Yield what the outputs of the cells hold. Nothing is executed; cells count as they stand.

    The rows carry no line numbers: a notebook is one JSON value.
    """
    if path.stat().st_size > _LARGEST:
        yield Note(path.name, "is larger than 256 MiB; not read", unread=True)
        return
    try:
        book = loads(contents(path))
    except ValueError as error:
        yield Note(path.name, f"no valid JSON ({error}); nothing was read", left_out=1)
        return
    cells = book.get("cells") if isinstance(book, dict) else None
    if not isinstance(cells, list):
        yield Note(path.name, "holds no cells; nothing was read")
        return
    yield from read_text(segments_of(_printed(cells)), path.name)


def _printed(cells: list[object]) -> Iterator[str]:
    for cell in cells:
        outputs = cell.get("outputs") if isinstance(cell, dict) else None
        for output in outputs if isinstance(outputs, list) else ():
            if isinstance(output, dict):
                yield from _texts(output)


def _texts(output: dict[str, object]) -> Iterator[str]:
    """Yield the texts of one output: a stream, an error, or what is shown."""
    if "ename" in output:
        yield TRACEBACK
        yield f"{output['ename']}: {output.get('evalue', '')}"
    yield _joined(output.get("text"))
    data = output.get("data")
    if isinstance(data, dict):
        yield _joined(data.get("text/plain"))
        html = _joined(data.get("text/html"))
        if "<table" in html:
            tables = _Tables()
            tables.feed(html[:_LARGEST_TABLE])
            yield from tables.lines


def _joined(text: object) -> str:
    if isinstance(text, list):
        return "".join(part for part in text if isinstance(part, str))
    return text if isinstance(text, str) else ""
