"""Run one reader on one path and sort what it yields."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from rlhfdoctor.model import Checkpoint, Note, Row, Rows, Sample, Setting
from rlhfdoctor.readers import Item, Reader


@dataclass
class Read:
    """What a reader yielded, by kind and in order."""

    rows: list[Row] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)
    settings: list[Setting] = field(default_factory=list)
    checkpoints: list[Checkpoint] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)

    @property
    def told(self) -> str:
        """Every note in one text: where, what."""
        return "\n".join(f"{note.where}: {note.text}" for note in self.notes)

    @property
    def left_out(self) -> int:
        """How many records the notes say were lost."""
        return sum(note.left_out for note in self.notes)


def read(reader: Reader, path: Path) -> Read:
    """Return everything that a reader yields for a path."""
    return sort(reader.read(path))


def sort(items: Iterable[Item]) -> Read:
    """Sort a reader's items by kind."""
    found = Read()
    for item in items:
        match item:
            case Row():
                found.rows.append(item)
            case Rows():
                found.rows.extend(single(item))
            case Sample():
                found.samples.append(item)
            case Setting():
                found.settings.append(item)
            case Checkpoint():
                found.checkpoints.append(item)
            case Note():
                found.notes.append(item)
    return found


def single(block: Rows) -> list[Row]:
    """Return the rows of a block one by one."""
    values: list[dict[str, float]] = [{} for _ in block.steps]
    for places, table in block.tables:
        for key, column in table.items():
            for place, value in zip(places, column, strict=True):
                values[place][key] = value
    return [
        Row(
            values=values[place],
            step=block.steps[place],
            epoch=block.epochs[place],
            split="eval" if block.evals and block.evals[place] else "train",
            rank=block.ranks[place] if block.ranks else None,
            line=block.lines[place],
        )
        for place in range(len(values))
    ]


def write(path: Path, text: str | bytes) -> Path:
    """Write a file as it is; lone surrogates become the bytes that no UTF-8 reader accepts."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass"))
    return path
