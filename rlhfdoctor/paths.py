"""Where paths lead, links followed."""

from __future__ import annotations

import os
from pathlib import Path


def inside(path: Path, folder: Path) -> bool:
    """Say whether a path leads to a folder or to what lies in it."""
    return Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder))


def same(one: Path, other: Path) -> bool:
    """Say whether two paths lead to one place, whether or not something is there."""
    try:
        return os.path.samefile(one, other)
    except (OSError, ValueError):
        return os.path.realpath(one) == os.path.realpath(other)
