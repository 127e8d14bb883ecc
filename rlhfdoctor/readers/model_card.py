"""The model card that a trainer leaves as README.md: what trained the model, and with what."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from rlhfdoctor.model import Location, Setting
from rlhfdoctor.readers import Item, reader
from rlhfdoctor.readers._json import clean
from rlhfdoctor.readers._open import opened
from rlhfdoctor.readers._settings import LONGEST, algorithm

LARGEST = 2**18
"""Bytes of a card that are read."""

_VERSION = re.compile(r"^\s*[-*]\s*(TRL|Axolotl|LLaMA-Factory|MS-Swift)\s*:\s*v?(\d[\w.+]*)", re.M)
_VERSION_UNDER = {"axolotl": "Axolotl", "trl": "TRL", "ms-swift": "ms-swift"}
_METHOD = re.compile(r"\btrained with ([A-Za-z+]{2,12})\b")
_HEADER = re.compile(r"\A\ufeff?---\s*\n(.*?)\n---", re.S)
_FIELD = re.compile(r"^(base_model|tags)\s*:\s*(.*?)\s*$((?:\n\s*- .*)*)", re.M)


@reader(
    "README[.]md",
    looks=lambda head: bool(
        re.match(rb"(\xef\xbb\xbf)?---\s*\n", head)
        and re.search(rb"(?m)^(library_name|base_model|model_name)\s*:", head[:8192])
    ),
    role="config",
)
def model_card(path: Path) -> Iterator[Item]:
    """Yield the framework, its version, the algorithm and the base model, as the card says them.

    A card is generated text beside the weights: "This model was trained with GRPO", a list of
    versions ("- TRL: 1.16.0"), and a YAML header with tags. Nothing else of it is read.
    """
    with opened(path) as file:
        text = clean(file.read(LARGEST).decode("utf-8", "replace"))
    header = _HEADER.match(text)
    fields = {field[1]: field for field in _FIELD.finditer(header[1] if header else "")}
    tags = re.findall(r"-\s*([\w+.-]+)", fields["tags"][0]) if "tags" in fields else []
    versions = {match[1]: match[2] for match in _VERSION.finditer(text)}
    for name in ("Axolotl", "LLaMA-Factory", "MS-Swift", "TRL"):
        if name in versions:
            known = _VERSION_UNDER.get(name.lower(), name)
            yield Setting("framework", known, Location(path.name, key=name))
            yield Setting("framework_version", versions[name], Location(path.name, key=name))
            break
    else:
        tagged = next((tag for tag in tags if tag in ("trl", "axolotl", "llama-factory")), None)
        if tagged:
            known = {"llama-factory": "LLaMA-Factory"}.get(tagged) or _VERSION_UNDER[tagged]
            yield Setting("framework", known, Location(path.name, key="tags"))
    method = _METHOD.search(text)
    found = algorithm(method[1]) if method else next(filter(None, map(algorithm, tags)), None)
    if found:
        key = "trained with" if method else "tags"
        yield Setting("algorithm", found, Location(path.name, key=key))
    base = fields["base_model"][2].strip("'\"") if "base_model" in fields else ""
    if 0 < len(base) <= LONGEST:
        yield Setting("model", base, Location(path.name, key="base_model"))
