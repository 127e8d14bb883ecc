"""wandb-summary.json: the last value of every key that a run logged to wandb."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from rlhfdoctor.model import Note
from rlhfdoctor.readers import Item, reader
from rlhfdoctor.readers._json import loads, refusals
from rlhfdoctor.readers._open import contents
from rlhfdoctor.readers._wandb import logged, told, without_media


@reader("*wandb-summary.json", role="summary")
def wandb_summary(path: Path) -> Iterator[Item]:
    """Yield one row of last values, each from whichever step logged it last.

    Histograms and other media, of which a run may have thousands, are counted.
    """
    try:
        record = loads(contents(path))
    except ValueError as error:
        yield Note(path.name, f"no valid JSON ({error}); nothing was read", left_out=1, unread=True)
        return
    if not isinstance(record, dict):
        yield Note(path.name, "is no table; nothing was read", left_out=1, unread=True)
        return
    media: Counter[str] = Counter()
    refused: Counter[str] = Counter()
    found = logged(without_media(record, media), None, refused)
    if found.values:
        yield found
        yield Note(path.name, "holds only the last value of each key, no history")
    else:
        yield Note(path.name, "holds no numbers")
    yield from told(path.name, media)
    yield from refusals(path.name, refused)
