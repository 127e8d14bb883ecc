"""trainer_state.json of the Hugging Face trainers, at the root and inside checkpoint-N/."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from rlhfdoctor.model import Location, Note, Setting
from rlhfdoctor.readers import Item, reader
from rlhfdoctor.readers._json import loads, number, row

_SETTINGS = {
    "max_steps": "planned_steps",
    "num_train_epochs": "planned_epochs",
    "logging_steps": "logging_steps",
    "save_steps": "save_steps",
    "global_step": "updates_done",
}


@reader("*trainer_state.json", looks=None)
def trainer_state(path: Path) -> Iterator[Item]:
    """Yield the log history, and the trainer's own arguments as settings.

    ``updates_done`` (the file's ``global_step``) tells which of several copies is the youngest:
    modification times do not survive a clone. The rows carry no line numbers: the whole file is
    usually one record.
    """
    try:
        state = loads(path.read_bytes())
    except ValueError as error:
        yield Note(path.name, f"no valid JSON ({error}); nothing was read")
        return
    if not isinstance(state, dict) or not isinstance(state.get("log_history"), list):
        yield Note(path.name, "holds no log_history; nothing was read")
        return
    for key, name in _SETTINGS.items():
        value = number(state.get(key))
        if value is not None and (value > 0 or name == "updates_done"):
            yield Setting(name, value, Location(path.name, key=key))
    refused: Counter[str] = Counter()
    for index, record in enumerate(state["log_history"]):
        if not isinstance(record, dict):
            yield Note(f"{path.name}: log_history[{index}]", "is no table; left out")
            continue
        logged, not_numbers = row(record, line=None)
        refused.update(not_numbers)
        yield logged
    for key, count in sorted(refused.items()):
        yield Note(f"{path.name}: {key}", f"holds no number in {count} rows; left out")
