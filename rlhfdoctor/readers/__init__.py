"""Readers turn files into rows. One format a file; frameworks are the dialects' business.

A reader claims paths by a glob on the name and, for files, a look at the first 64 KiB; it yields
``Row`` (or ``Rows``, many at once), ``Sample``, ``Checkpoint``, ``Setting`` and ``Note``, and never
raises for content: what it cannot use becomes a note. It opens nothing but the path it was given
and executes nothing.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from rlhfdoctor.model import Checkpoint, Note, Row, Rows, Sample, Setting

HEAD_BYTES = 65536
"""How much of a file ``looks`` may see."""

Role = Literal["log", "tracker", "text", "summary", "table", "doubtful", "config", "other"]
"""What a file is in a run.

log: its folder is a run even where it holds no row. tracker: so is the file itself; nothing but a
tracker writes it. text: a program printed it; its numbers may lack digits, and it says whose run it
is and how it ended. summary: last values only. table: metrics, or samples. doubtful: a table under
any name, which yields to real logs. config: the run's configuration. Files of these and of other
roles are logs where they hold rows.
"""

Item = Row | Rows | Sample | Checkpoint | Setting | Note
Read = Callable[[Path], Iterator[Item]]


@dataclass(frozen=True, slots=True)
class Reader:
    """A format: which paths it claims, and how to read one.

    folder: it claims directories. role: what such a file is in a run (``Role``).
    """

    name: str
    globs: tuple[str, ...]
    looks: Callable[[bytes], bool] | None
    folder: bool
    role: Role
    read: Read

    def claims(self, name: str, head: bytes) -> bool:
        """Say whether a path of that name and beginning is this reader's."""
        return self.named(name) and (self.looks is None or self.looks(head))

    def named(self, name: str) -> bool:
        """Say whether a path of that name may be this reader's."""
        return any(fnmatch.fnmatchcase(name, glob) for glob in self.globs)

    def exactness(self, name: str) -> int:
        """Return how many characters of a name the most exact of the matching globs spells out."""
        fitting = (glob for glob in self.globs if fnmatch.fnmatchcase(name, glob))
        return max((len(re.sub(r"\[.*?\]|[*?]", "", glob)) for glob in fitting), default=0)

    def owns(self, name: str) -> bool:
        """Say whether a glob spells the name out, but for what stands before it."""
        fitting = (glob for glob in self.globs if fnmatch.fnmatchcase(name, glob))
        return any(re.fullmatch(r"\*?[^.*?\[][^*?\[]*", glob) for glob in fitting)

    def promises(self, name: str) -> bool:
        """Say whether the name alone tells that the file is a log.

        Its whole suffix is claimed, or the reader of logs spells it out.
        """
        if self.role == "log" and self.owns(name):
            return True
        return any(glob.startswith("*.") and fnmatch.fnmatchcase(name, glob) for glob in self.globs)


def reader(
    *globs: str,
    looks: Callable[[bytes], bool] | None = None,
    folder: bool = False,
    role: Role = "other",
) -> Callable[[Read], Reader]:
    """Make a function the reader of the paths whose names match one of the globs."""

    def made(read: Read) -> Reader:
        return Reader(
            name=read.__name__, globs=globs, looks=looks, folder=folder, role=role, read=read
        )

    return made
