"""Checkpoint folders: step, role, format, whether the save was finished, and how to load it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from rlhfdoctor.model import Checkpoint, Note
from rlhfdoctor.readers import Item, reader
from rlhfdoctor.readers._json import loads, number, numbers_before, whole
from rlhfdoctor.readers._layouts import Layout, inspect, regular

_N = r"0*(?P<step>\d{1,15})"
_E = r"0*(?P<epoch>\d{1,9})"


@dataclass(frozen=True, slots=True)
class _Name:
    """A way to name checkpoints. ``sure``: such a folder is one even where it holds no weights."""

    pattern: re.Pattern[str]
    sure: bool = False
    role: str = "policy"
    fault: str | None = None


_TAIL = r"([-_](model|checkpoint|ckpt|policy))?"

_NAMES = (
    _Name(re.compile(rf"checkpoint[-_]{_N}"), sure=True),
    _Name(re.compile(rf"global_step_?{_N}(_hf)?"), sure=True),
    _Name(re.compile(rf"best_global_step{_N}"), sure=True, role="best"),
    _Name(re.compile(rf"Steps_{_N}"), sure=True),
    _Name(re.compile(rf"iter_{_N}"), sure=True),
    _Name(re.compile(rf"epoch{_E}epochstep\d{{1,9}}globalstep{_N}"), sure=True),
    _Name(re.compile(rf"tmp_step_{_N}"), fault="tmp_: the save was not finished"),
    _Name(re.compile(rf"step[-_]?{_N}")),
    _Name(re.compile(rf"(ckpt|(model|policy|checkpoint)[-_](step|iter))[-_]?(step[-_]?)?{_N}")),
    _Name(re.compile(rf"slice_({_N}|end)")),
    _Name(re.compile(rf"(checkpoint[-_])?epoch[-_]?{_E}")),
    _Name(re.compile(rf".*\bstep={_N}(?!\d).*")),
    _Name(re.compile(r"(checkpoint[-_])?(final|last)" + _TAIL), role="final"),
    _Name(re.compile(r"(checkpoint[-_])?best" + _TAIL), role="best"),
    _Name(re.compile(r"actor")),
    _Name(re.compile(r"actor_ema"), role="ema"),
    _Name(re.compile(r"critic"), role="critic"),
)  # fmt: skip

_PARTS = {
    "actor": "policy",
    "policy": "policy",
    "trainer": "policy",
    "critic": "critic",
    "value": "critic",
    "reward": "reward",
    "reward_model": "reward",
}
"""Folders inside a checkpoint that hold one of its models."""

_OWNERS = {"_critic": "critic", "critic": "critic", "_reward": "reward", "reward_model": "reward"}
"""Folders around checkpoints of a model that is not the policy (OpenRLHF's ``_critic``)."""

_LARGEST_STATE = 2**28
"""Bytes of a trainer_state.json that is asked for its step."""


@reader(
    "checkpoint[-_]*",
    "global_step*",
    "best_global_step*",
    "Steps_*",
    "iter_*",
    "tmp_step_*",
    "step[-_0-9]*",
    "epoch[-_0-9]*",
    "slice_*",
    "*[-_]step=*",
    "*[-_]step[-_][0-9]*",
    "*[-_]iter[-_][0-9]*",
    "ckpt*[0-9]",
    *(
        f"{word}{tail}"
        for word in ("final", "last", "best")
        for tail in ("", "[-_]model", "[-_]checkpoint", "[-_]ckpt", "[-_]policy")
    ),
    "actor",
    "actor_ema",
    "critic",
    folder=True,
)
def checkpoints(path: Path) -> Iterator[Item]:
    """Yield the checkpoints of a folder, one a model: its policy, and its critic if it has one.

    No tensor is loaded and no pickle opened. Complete means: everything that the layout promises is
    there (each shard that an index names, as long as its own header says; each rank's part; in
    Hugging Face's ``checkpoint-N`` a trainer_state.json) and no file is empty. Missing optimizer
    state does not make a checkpoint incomplete: its weights can be gone back to. Loadable means
    that transformers reads the folder ``path`` as it is; ``convert`` is the command that makes such
    a folder where it does not. Links count as present and are not opened.

    A folder whose name gives no step ("final", "best", "epoch_2") has the ``global_step`` of the
    trainer_state.json inside it; without one it is told of and left out.
    """
    named = _named(path.name)
    if named is None:
        return
    name, match = named
    found = list(_models(path, _OWNERS.get(path.parent.name, name.role)))
    if not name.sure and not any(layout.format != "unknown" for _, _, layout in found):
        return
    groups: Mapping[str, str | None] = match.groupdict()
    step, epoch = groups.get("step"), groups.get("epoch")
    count = int(step) if step is not None else _global_step(path)
    if count is None:
        yield Note(path.name, "holds weights, but nothing says of which step; no checkpoint")
        return
    for label, role, layout in found:
        missing = [*([name.fault] if name.fault else []), *layout.missing]
        if label == path.name and re.fullmatch(r"checkpoint-\d+", label):
            missing.extend(
                [] if "trainer_state.json" in layout.files else ["no trainer_state.json"]
            )
        yield Checkpoint(
            step=count,
            path=str(layout.path),
            name=label,
            epoch=None if epoch is None else float(epoch),
            role=role,
            format=layout.format,
            complete=not missing,
            loadable=layout.loadable,
            convert=None if layout.loadable or not layout.whole else _command(layout),
            missing=tuple(missing),
        )
        if missing:
            yield Note(label, f"incomplete checkpoint: {', '.join(missing)}")


def is_checkpoint(folder: Path) -> bool:
    """Say whether a folder is a checkpoint: by its name, or by its name and what it holds.

    ``final`` may be a model or the name of an experiment; it is a checkpoint where weights lie in
    it. A name that only checkpoints have is enough. OSError is raised where it cannot be listed.
    """
    named = _named(folder.name)
    if named is None:
        return False
    return named[0].sure or any(
        layout.format != "unknown" for _, _, layout in _models(folder, "policy")
    )


def _named(text: str) -> tuple[_Name, re.Match[str]] | None:
    for name in _NAMES:
        match = name.pattern.fullmatch(text)
        if match:
            return name, match
    return None


def _models(path: Path, role: str) -> Iterator[tuple[str, str, Layout]]:
    """Yield name, role and layout of each model in a checkpoint; of an empty one its own."""
    own = inspect(path)
    if own.format == "unknown":
        parts = [
            (f"{path.name}/{part}", kind if role == "policy" else role, inspect(path / part))
            for part, kind in _PARTS.items()
            if part in own.folders
        ]
        known = [item for item in parts if item[2].format != "unknown"]
        if known:
            yield from known
            return
    yield path.name, role, own


def _command(layout: Layout) -> str | None:
    """Return the command that makes a folder for transformers, with the paths filled in."""
    if layout.convert is None:
        return None
    places = {key: shlex.quote(str(place)) for key, place in layout.places.items()}
    return layout.convert.format(**places)


def _global_step(path: Path) -> int | None:
    """Return the step that a folder's trainer_state.json tells, even where that is cut."""
    state = path / "trainer_state.json"
    if not regular(state) or state.stat().st_size > _LARGEST_STATE:
        return None
    text = state.read_bytes()
    try:
        record = loads(text)
    except ValueError:
        record = numbers_before(text, "log_history", ("global_step",))
    return whole(number(record.get("global_step"))) if isinstance(record, dict) else None
