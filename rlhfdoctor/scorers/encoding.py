"""The tokenizer of a tokenizer.json, as the trainer's generation used it; without torch."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def load(file: Path) -> Any:
    """Return the ``tokenizers.Tokenizer`` of a file, which neither cuts, pads nor drops merges.

    Raises Exception, as the package does, for a file that it cannot parse.
    """
    from tokenizers import Tokenizer

    found: Any = Tokenizer.from_file(str(file))
    found.no_truncation()
    found.no_padding()
    if getattr(found.model, "dropout", None) is not None:
        found.model.dropout = None
    return found
