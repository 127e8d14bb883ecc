import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlhfdoctor.masking import MASK
from rlhfdoctor.model import Diagnosis
from rlhfdoctor.reports import Page
from rlhfdoctor.reports._lines import five_lines
from rlhfdoctor.reports.slack import BLOCKS, LONGEST, code_block, slack
from tests.reports.gates import EVIL, FAILED, blind, gate, sick

MARK = re.compile(r"\*[A-Z]+\*\n```\n[^`]*\n```|\d+ more runs")
"""All that a section may be: our word, and a block of code that nothing in it ends."""


def blocks(diagnoses: list[Diagnosis], page: Page) -> list[dict[str, Any]]:
    """Return the blocks of a message that keeps to Slack's limits (docs.slack.dev)."""
    message = json.loads(slack.render(diagnoses, page))
    assert {*message} == {"text", "blocks"}
    header, *sections = message["blocks"]
    assert len(sections) < BLOCKS
    assert header["text"] == {"type": "plain_text", "text": message["text"], "emoji": False}
    assert 0 < len(message["text"]) <= 150
    for section in sections:
        assert section["type"] == "section"
        assert {**section["text"], "text": ""} == {"type": "mrkdwn", "text": "", "verbatim": True}
        text = section["text"]["text"]
        assert 0 < len(text) <= LONGEST
        assert MARK.fullmatch(text)
        assert not re.search(r"[<>]|&(?!amp;|lt;|gt;)", text)
    return [dict(section) for section in sections]


def test_a_gate_is_printed_as_it_was(
    gated: tuple[list[Diagnosis], Page], golden: Callable[[str, str], None]
) -> None:
    blocks(*gated)
    golden("gate.slack.json", slack.render(*gated))


def test_each_run_has_its_five_lines_and_what_fails_comes_first(
    gated: tuple[list[Diagnosis], Page],
) -> None:
    texts = [block["text"]["text"] for block in blocks(*gated)]
    assert [text.split("*")[1] for text in texts] == ["FAIL", "UNKNOWN", "UNKNOWN", "PASS", "PASS"]
    late = next(item for item in gated[0] if item.run.name == "grpo_late")
    assert texts[0].count("\n") == len(five_lines(late)) + 2
    assert "GRP001 accepted (ignore, until 2027-01-31): a smoke test" in texts[-1]


@pytest.mark.parametrize(("runs", "shown", "more"), [(49, 49, ""), (50, 49, "2 more runs")])
def test_more_runs_than_blocks_are_counted(runs: int, shown: int, more: str) -> None:
    found = blocks([blind()] * runs, gate([blind()] * runs))
    assert len(found) == shown
    assert (found[-1]["text"]["text"] == more) is bool(more)


@pytest.mark.parametrize("text", ["&" * 5000, "a" * 5000, "\u4e2d" * 5000, "<" * 5000])
def test_what_is_too_long_is_cut_between_characters(text: str) -> None:
    (block,) = blocks([sick(text)], gate([sick(text)]))
    assert block["text"]["text"].endswith("...\n```")


@pytest.mark.parametrize("text", EVIL)
def test_what_a_run_says_mentions_nobody(text: str) -> None:
    failed = {**FAILED, "path": text, "error": text, "hint": text}
    assert len(blocks([sick(text)], gate([sick(text)], failed=[failed]))) == 2


@given(st.text(st.integers(0, 0x10FFFF).map(chr)))
def test_whatever_a_run_says_is_a_block_of_code(text: str) -> None:
    blocks([sick(text)], gate([sick(text)]))


def test_secrets_stay_here() -> None:
    (block,) = blocks([sick("hf_" + "a1" * 20)], gate([sick("x")]))
    assert MASK in block["text"]["text"]
    assert "a1a1" not in block["text"]["text"]


@given(st.text(), st.integers(20, 200))
def test_a_block_of_code_keeps_its_length(text: str, longest: int) -> None:
    block = code_block([text], longest)
    assert len(block) <= longest
    assert block.startswith("```\n")
    assert block.endswith("\n```")
