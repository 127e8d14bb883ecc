"""trainer_state.json of the Hugging Face trainers, at the root and inside checkpoint-N/."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

from rlhfdoctor.model import Location, Note, Setting
from rlhfdoctor.readers import Item, reader
from rlhfdoctor.readers._json import (
    BLOCK_ROWS,
    cut,
    loads,
    number,
    numbers_before,
    refusals,
    rows,
    salvage,
)
from rlhfdoctor.readers._open import contents

_SETTINGS = {
    "max_steps": "planned_steps",
    "num_train_epochs": "planned_epochs",
    "logging_steps": "logging_steps",
    "save_steps": "save_steps",
    "global_step": "updates_done",
}


@reader("*trainer_state.json", looks=lambda head: head.lstrip()[:1] in (b"{", b"["), role="log")
def trainer_state(path: Path) -> Iterator[Item]:
    """Yield the log history, and the trainer's own arguments as settings.

    ``updates_done`` (the file's ``global_step``) tells which of several copies is the youngest:
    modification times do not survive a clone. The rows carry no line numbers: the whole file is
    usually one record. Of a file that was cut, the rows before the cut are kept.
    """
    text = contents(path)
    try:
        state = loads(text)
    except ValueError as error:
        saved = list(salvage(text, "log_history"))
        yield cut(path.name, error, len(saved))
        known = numbers_before(text, "log_history", _SETTINGS) if saved else {}
        state = {"log_history": saved, **known}
    if not isinstance(state, dict) or not isinstance(state.get("log_history"), list):
        damaged = not isinstance(state, dict) or "log_history" in state
        yield Note(path.name, "holds no log_history; nothing was read", unread=damaged)
        return
    for key, name in _SETTINGS.items():
        value = number(state.get(key))
        if value is not None and (value > 0 or name == "updates_done"):
            yield Setting(name, value, Location(path.name, key=key))
    refused: Counter[str] = Counter()
    history: list[Mapping[str, object]] = []
    for index, record in enumerate(state["log_history"]):
        if isinstance(record, dict):
            history.append(record)
        else:
            yield Note(f"{path.name}: log_history[{index}]", "is no table; left out", left_out=1)
    for start in range(0, len(history), BLOCK_ROWS):
        block = history[start : start + BLOCK_ROWS]
        yield rows([None] * len(block), block, refused)
    yield from refusals(path.name, refused)
