"""Which files of a folder can be read, by which reader, and to which run each belongs.

Nothing is opened but regular files inside the folder; links that lead out of it, special files and
files that cannot be opened are told of and left alone.
"""

from __future__ import annotations

import json
import os
import re
import stat
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from rlhfdoctor import registry
from rlhfdoctor.errors import UnreadableRun
from rlhfdoctor.model import Note, Sample
from rlhfdoctor.readers import HEAD_BYTES, Reader
from rlhfdoctor.readers._open import bare, opened
from rlhfdoctor.readers._stream import in_order
from rlhfdoctor.readers.checkpoints import is_checkpoint

CONTAINERS = frozenset(
    {
        *("logs", "log", "metrics", "checkpoints", "ckpts", "samples", "completions", "outputs"),
        *("runs", "tensorboard", "tensorboard_log", "tensorboard_logs", "tb", "tb_logs", "events"),
        *("train", "training", "trainer", "orchestrator"),
        *("eval", "val", "valid", "validation", "evaluation"),
        *(
            "wandb",
            "swanlog",
            "lightning_logs",
            "files",
            "rollouts",
            "rollout_data",
            "validation_data",
            ".hydra",
        ),
    }
)
"""Folder names that belong to the run above them."""

_OF_TRACKERS = re.compile(r"debug(-internal|-core)?\.log")
"""What wandb writes about itself; it says nothing of the run, and one is a link to elsewhere."""

_SESSION = re.compile(
    r"[A-Z][a-z]{2}\d{2}_\d{2}-\d{2}-\d{2}_.+|\d{10}(\.\d+)?|(version|attempt)_\d+"
)
"""What a trainer calls the folder of one start: Nov30_07-20-10_host (Hugging Face), 1796023210.1
(TensorBoard's hparams), version_0 (Lightning), attempt_0 (torchrun, with one folder a rank)."""

_TRACKED = re.compile(r"(?:offline-)?run-\d{8}_\d{6}-(\w+)")
"""What wandb calls the folder of one run: offline-run-20251130_072010-a1b2c3d4."""


BUNDLE, KIND = "manifest.json", {"rlhfdoctor": "bundle"}
"""The file by which an evidence bundle is known, and what its object holds."""

BUNDLED = frozenset(
    {
        *("diagnosis.json", "diagnosis.md", "rollback.json", "rollback.md", "samples.jsonl"),
        *("metrics.parquet", "metrics.csv", "columns.json", "config.json", "README.md", BUNDLE),
    }
)
"""The files of an evidence bundle: copies of what a run told, none of them its log. Whatever else
lies in a folder that calls itself a bundle is read, so that the mark can hide no trainer's log."""

IS_BUNDLE = "is an evidence bundle, no run; its copies of a run's records were not read"

LARGEST_MARK = 2**16
"""Bytes of a manifest that are read [H]; a bundle's has some 100."""


@dataclass(frozen=True, slots=True)
class Claim:
    """A path and its reader, or the reason why a file whose name has one was not read."""

    path: Path
    name: str
    reader: Reader | None
    reason: str = ""


def found(root: Path, notes: list[Note]) -> list[Claim]:
    """Return what can be read under a folder; notes: what was not even looked at."""
    return list(_walk(root, notes))


def bundled(folder: Path) -> bool:
    """Say whether a folder calls itself an evidence bundle."""
    path = folder / BUNDLE
    try:
        if not stat.S_ISREG(path.lstat().st_mode):
            return False
        with path.open("rb") as file:
            told = json.loads(file.read(LARGEST_MARK))
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(told, dict) and KIND.items() <= told.items()


def check_bundle(folder: Path) -> None:
    """Say of an evidence bundle, in which no run was found, what it is. Raises UnreadableRun."""
    if bundled(folder):
        raise UnreadableRun(
            f"{folder} is an evidence bundle, no run",
            "read its README.md, name the run that it is of, or the one file that you want",
        )


def sample_files(root: Path, notes: list[Note]) -> list[Path]:
    """Return the files under a folder that hold samples, numbered ones in the order of numbers.

    notes: what was not looked at. Raises UnreadableRun for an evidence bundle.
    """
    held = []
    for item in found(root, notes):
        if item.reader is None:
            where = shown(item.path.relative_to(root))
            notes.append(Note(where, item.reason, unread=True))
        elif item.reader.name == "samples" or (item.reader.role == "table" and _sampled(item)):
            held.append(item.path)
    if not held:
        check_bundle(root)
    return in_order(held)


def _sampled(item: Claim) -> bool:
    """Say whether what a table holds first is a sample."""
    read = item.reader.read(item.path) if item.reader else ()
    return isinstance(next((row for row in read if not isinstance(row, Note)), None), Sample)


def homes(
    root: Path, logs: Iterable[Path], samples: Iterable[Path], every: Iterable[Path]
) -> dict[Path, Path]:
    """Return for every path the folder of the run it belongs to.

    Logs make the runs: a folder whose logs all belong to one place, or to it and one place below,
    is one run with everything in it. Sample files make runs where there is no log. Of several runs
    that wandb tracked side by side each is one, unless the folder above has a log of its own.
    """
    logs, every = list(logs), list(every)
    tracked = {place for path in logs for place in path.parents if _TRACKED.fullmatch(place.name)}
    beside = Counter(parent for parent, _ in {(x.parent, _tracked_id(x)) for x in tracked})
    untracked = {_home(path, root) for path in logs if tracked.isdisjoint(path.parents)}
    apart = {
        place
        for place in tracked
        if beside[place.parent] > 1 and _home(place, root) not in untracked
    }
    made = {_home(path, root, apart) for path in logs}
    made = made or {_home(path, root) for path in samples}
    single = len(made - {root}) <= 1
    placed = {}
    for path in every:
        own = _home(path, root, apart)
        above = next((place for place in (own, *own.parents) if place in made), own)
        placed[path] = root if single else above
    return placed


def claim(path: Path) -> Claim | None:
    """Look at one path; None where its name is no reader's business.

    A special file, or one that cannot be opened, is never touched.
    """
    name = shown(Path(path.name))
    try:
        mode = path.stat().st_mode
        folder = stat.S_ISDIR(mode)
        called = path.name if folder else bare(path.name)
        named = [item for item in _readers() if item.folder == folder and item.named(called)]
        if not named or (folder and not _is_checkpoint(path)):
            return None
        if not folder and not stat.S_ISREG(mode):
            return Claim(path, name, None, "is no regular file; not read")
        head = b""
        if not folder:
            with opened(path) as file:
                head = file.read(HEAD_BYTES)
    except OSError as error:
        return _broken(path, f"cannot be opened ({error.strerror}); not read")
    if not folder and not head.strip(b"\0"):
        told = "holds NUL bytes where it should begin" if head else "is empty"
        return _broken(path, f"{told}; nothing was read")
    claiming = [item for item in named if item.claims(called, head)]
    exact = max((item.exactness(called) for item in claiming), default=0)
    claiming = [item for item in claiming if item.exactness(called) == exact]
    if len(claiming) == 1:
        return Claim(path, name, claiming[0])
    if claiming:
        names = ", ".join(item.name for item in claiming)
        return Claim(path, name, None, f"claimed by several readers ({names}); not read")
    told = "is no log or sample file that any reader understands; not read"
    return _broken(path, told, head.lstrip(b"\xef\xbb\xbf \t\r\n"))


def is_log(where: str) -> bool:
    """Say whether a file is called what only a trainer calls its log."""
    name = bare(where.rpartition("/")[2])
    return any(item.role == "log" and item.owns(name) for item in _readers())


def shown(path: Path) -> str:
    """Return a path as text that every encoding can carry."""
    return os.fsencode(path.as_posix()).decode("utf-8", "backslashreplace")


def _readers() -> tuple[Reader, ...]:
    return registry.members("readers", Reader)


def _promised(path: Path) -> bool:
    return any(reader.promises(bare(path.name)) for reader in _readers())


def _broken(path: Path, reason: str, held: bytes = b"") -> Claim | None:
    """Return a claim without a reader where the name tells that the file should have had one.

    held: how it begins. Of a file of which nothing is known the name of a log or a table is enough;
    JSON under the name of a configuration may be another program's.
    """
    name = bare(path.name)
    told = _promised(path)
    if not told and held[:1] not in (b"{", b"["):
        told = any(
            item.owns(name) or (not held and item.role in ("log", "table") and item.named(name))
            for item in _readers()
        )
    return Claim(path, shown(Path(path.name)), None, reason) if told else None


def _walk(root: Path, notes: list[Note]) -> Iterator[Claim]:
    """Yield a claim for each file and checkpoint folder that is named like something readable."""

    def unlistable(error: OSError) -> None:
        where = shown(Path(error.filename).relative_to(root))
        notes.append(Note(where, f"cannot be listed ({error.strerror}); not read", unread=True))

    inside = os.path.realpath(root)
    bundles: set[Path] = set()
    for folder, folders, files in os.walk(root, followlinks=False, onerror=unlistable):
        folders[:] = sorted(name for name in folders if name[0] != "." or name in CONTAINERS)
        here = Path(folder)
        inside_root = here.relative_to(root).parts
        places = (root.joinpath(*inside_root[: n + 1]) for n in range(len(inside_root)))
        saved = any(_is_checkpoint(place) for place in places)
        if BUNDLE in files and bundled(here):
            bundles.add(here)
            if here.parent not in bundles:
                notes.append(Note(shown(here.relative_to(root)), IS_BUNDLE, unread=True))
            files = [name for name in files if name not in BUNDLED]
        for name in (*folders, *sorted(files)):
            path = here / name
            if (name in folders and saved) or _OF_TRACKERS.fullmatch(name):
                continue
            if path.is_symlink() and not _within(path, inside):
                told = "is a link to outside the run folder, or to nowhere; not followed"
                claimed: Claim | None = Claim(path, shown(Path(name)), None, told)
            else:
                claimed = claim(path)
            if claimed and (claimed.reader or _promised(path)):
                yield claimed
            elif claimed:
                where = shown(path.relative_to(root))
                notes.append(Note(where, claimed.reason, unread=True))


def _within(path: Path, inside: str) -> bool:
    """Say whether a link ends inside the run folder."""
    target = os.path.realpath(path)
    return os.path.exists(target) and os.path.commonpath([inside, target]) == inside


def _home(path: Path, root: Path, runs: Collection[Path] = ()) -> Path:
    """Return the folder of the run that a file belongs to: out of checkpoints and containers."""
    place = path.parent
    while place != root and place not in runs and _belongs_above(place):
        place = place.parent
    return place


def _tracked_id(folder: Path) -> str:
    match = _TRACKED.fullmatch(folder.name)
    return match[1] if match else folder.name


def _belongs_above(folder: Path) -> bool:
    name = folder.name
    session = bool(_SESSION.fullmatch(name) or _TRACKED.fullmatch(name))
    session = session or (name.isdigit() and folder.parent.name.startswith("attempt_"))
    return session or name in CONTAINERS or _is_checkpoint(folder)


def _is_checkpoint(folder: Path) -> bool:
    try:
        return is_checkpoint(folder)
    except OSError:
        return False
