from pathlib import Path

import pytest

from rlhfdoctor.readers.model_card import model_card
from tests.readers.helpers import Read, read, write

CARD = """---
base_model: org/base
library_name: transformers
model_name: mine
tags:
- generated_from_trainer
- grpo
- trl
licence: license
---

# Model Card

This model was trained with GRPO, a method introduced in a paper.

### Framework versions

- TRL: 1.16.0
- Transformers: 4.57.1
"""


def of(tmp_path: Path, text: str | bytes) -> Read:
    return read(model_card, write(tmp_path / "README.md", text))


def values(found: Read) -> dict[str, object]:
    return {setting.name: setting.value for setting in found.settings}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(
            CARD,
            {
                "framework": "TRL",
                "framework_version": "1.16.0",
                "algorithm": "GRPO",
                "model": "org/base",
            },
            id="a card of TRL",
        ),
        pytest.param(
            "---\nlibrary_name: peft\ntags:\n- axolotl\n- dpo\n---\n",
            {"framework": "Axolotl", "algorithm": "DPO"},
            id="tags alone",
        ),
        pytest.param(
            "---\nlibrary_name: peft\ntags:\n- llama-factory\n---\ntrained with love\n",
            {"framework": "LLaMA-Factory"},
            id="a word that is no algorithm",
        ),
        pytest.param("---\nlibrary_name: x\n", {}, id="a header without an end"),
        pytest.param(b"---\n\xff\xfe\x00\nbase_model: y", {}, id="bytes that are no text"),
        pytest.param("", {}, id="an empty card"),
    ],
)
def test_cards(tmp_path: Path, text: str | bytes, expected: dict[str, object]) -> None:
    assert values(of(tmp_path, text)) == expected


def test_every_value_is_located(tmp_path: Path) -> None:
    keys = {item.name: item.where.key for item in of(tmp_path, CARD).settings}
    assert keys == {
        "framework": "TRL",
        "framework_version": "TRL",
        "algorithm": "trained with",
        "model": "base_model",
    }


@pytest.mark.parametrize("cut", range(0, len(CARD), 7))
def test_a_cut_card_says_no_more_than_the_whole(tmp_path: Path, cut: int) -> None:
    found = values(of(tmp_path, CARD[:cut]))
    assert found.keys() <= values(of(tmp_path, CARD)).keys()


@pytest.mark.parametrize(
    ("name", "head", "claimed"),
    [
        pytest.param("README.md", CARD, True, id="a model card"),
        pytest.param("README.md", "# My project\n- TRL: 1.16.0\n", False, id="any other README"),
        pytest.param("README.md", "---\ntitle: x\n---\n", False, id="a header of a web page"),
        pytest.param("notes.md", CARD, False, id="another name"),
    ],
)
def test_claims(name: str, head: str, claimed: bool) -> None:
    assert model_card.claims(name, head.encode()) is claimed
