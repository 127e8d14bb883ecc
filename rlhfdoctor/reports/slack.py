"""Slack's Block Kit: the body of an incoming web hook, the five lines of each run.

docs.slack.dev: blocks, text objects, formatting. What a run says stands in blocks of code, where
nothing is a mark, a link or a mention, and secrets are masked, for it leaves the machine.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rlhfdoctor.masking import masked
from rlhfdoctor.model import Diagnosis
from rlhfdoctor.reports import Document, Page, report
from rlhfdoctor.reports._gate import ORDER, counted_words, gate_rows, gated
from rlhfdoctor.reports._lines import five_lines, shown
from rlhfdoctor.reports.json import dumps

BLOCKS = 50
"""Blocks of a message."""

LONGEST = 3000
"""Characters of a text object. Of a message Slack advises 4,000."""

_ESCAPES = {"&": "&amp;", "<": "&lt;", ">": "&gt;", "`": "'"}
"""Slack's three control characters, and the mark that would end the block of code."""


@report("slack")
def slack(diagnoses: Sequence[Diagnosis], page: Page) -> str:
    """Print how many runs pass, then each run, those that fail first."""
    gate = gated(diagnoses, page)
    rows = [*gate_rows(diagnoses, gate)]
    title = f"rlhfdoctor: {counted_words(rows)}"
    texts = [[*five_lines(item), *row.lines] for item, row in zip(diagnoses, rows, strict=False)]
    texts += [[f"{row.name}: {row.why}", *row.lines] for row in rows[len(diagnoses) :]]
    told = [(row.word, lines) for row, lines in zip(rows, texts, strict=True)]
    told.sort(key=lambda pair: ORDER.index(pair[0]))
    return dumps({"text": title, "blocks": [*_blocks(title, told)]})


def _blocks(title: str, told: Sequence[tuple[str, list[str]]]) -> Iterator[Document]:
    yield {"type": "header", "text": {"type": "plain_text", "text": title, "emoji": False}}
    room = BLOCKS - 1 if len(told) < BLOCKS else BLOCKS - 2
    for word, lines in told[:room]:
        mark = f"*{word}*\n"
        yield _section(mark + code_block(lines, LONGEST - len(mark)))
    if len(told) > room:
        yield _section(f"{len(told) - room} more runs")


def _section(text: str) -> Document:
    """Return a text in which Slack looks for marks alone, for no names and no addresses."""
    return {"type": "section", "text": {"type": "mrkdwn", "text": text, "verbatim": True}}


def code_block(lines: Sequence[str], longest: int) -> str:
    """Return lines as a block of code of at most so many characters, with secrets masked.

    What is longer is cut.
    """
    parts, room = [], longest - len("```\n...\n```")
    for char in "\n".join(shown(masked(line)) for line in lines):
        part = _ESCAPES.get(char, char)
        if len(part) > room:
            parts.append("...")
            break
        parts.append(part)
        room -= len(part)
    return "```\n" + "".join(parts) + "\n```"
