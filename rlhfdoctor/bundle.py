"""An evidence bundle: what a colleague needs to check a diagnosis, in one new folder.

The practitioners' advice on an alarm is to keep the last 50 samples, name a checkpoint and tell the
team; after the fact the same is a folder of diagnosis, samples, metrics, settings and plan. Secrets
are masked in every file. Nothing else of the run is copied, and nothing of it is written to.
"""

from __future__ import annotations

import io
import json
import os
import platform
import re
import shutil
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import polars as pl

from rlhfdoctor import __version__
from rlhfdoctor.claims import BUNDLE, KIND
from rlhfdoctor.errors import DoctorError
from rlhfdoctor.excerpts import taken
from rlhfdoctor.masking import MASK, masked
from rlhfdoctor.measures import last_drawn
from rlhfdoctor.model import Diagnosis, Onset, Run
from rlhfdoctor.paths import inside
from rlhfdoctor.reports import Page
from rlhfdoctor.reports import json as published
from rlhfdoctor.reports._bundle import contents
from rlhfdoctor.reports._lines import five_lines, shown
from rlhfdoctor.reports.markdown import markdown, plain, rollback_markdown
from rlhfdoctor.rollback import ladder

LONGEST_NAME = 80
"""Characters of a run's name that its folder has."""


@dataclass(frozen=True, slots=True)
class Part:
    """A file of the bundle: its name, what it is, its bytes, and the secrets masked in it."""

    name: str
    what: str
    content: bytes
    masked: int


def check(folder: Path, inputs: Iterable[Path], runs: Iterable[Run]) -> None:
    """Refuse a folder that cannot be written or is not the user's to fill, before any long work.

    inputs: what the user named to be read; models and run folders. Raises DoctorError.
    """
    hint = "name a new folder outside the run"
    try:
        place = _place(folder)
        if folder.is_symlink():
            raise DoctorError(f"cannot write {folder}: it is a link", hint)
        if place.exists() and not place.is_dir():
            raise DoctorError(f"cannot write {folder}: it is a file", hint)
        if place.is_dir() and any(place.iterdir()):
            raise DoctorError(f"cannot write {folder}: it is not empty", hint)
        if not place.parent.is_dir():
            raise DoctorError(f"cannot write {folder}: no such folder", "make the folder around it")
        around = [*inputs, *(item for run in runs for item in _places(run))]
        for item in around:
            if item.is_dir() and inside(place, item):
                raise DoctorError(f"{folder} lies in {item}, which is only read", hint)
    except (OSError, ValueError) as error:
        told = error.strerror if isinstance(error, OSError) else str(error)
        raise DoctorError(f"cannot write {shown(str(folder))}: {told}", hint) from error


def write(folder: Path, diagnoses: Sequence[Diagnosis], exit_code: int, keep: int) -> None:
    """Write a new folder of evidence: of one run its files, of several a folder for each.

    keep: samples that are kept. A manifest.json marks each folder, so that it is read as no run.
    It appears whole or not at all: everything is written beside it, then it is renamed. Raises
    DoctorError where it cannot be written.
    """
    if len(diagnoses) == 1:
        parts = _parts(diagnoses[0], _masked(diagnoses[0]), exit_code, keep)
    else:
        parts = _folders(diagnoses, exit_code, keep)
    place = _place(folder)
    unfinished = place.with_name(f".{place.name[:LONGEST_NAME]}-{uuid.uuid4().hex}")
    try:
        unfinished.mkdir()
        for part in parts:
            file = unfinished / part.name
            file.parent.mkdir(exist_ok=True)
            with file.open("xb") as handle:
                handle.write(part.content)
        unfinished.rename(place)
    except OSError as error:
        raise DoctorError(
            f"cannot write {shown(str(folder))}: {error.strerror}", "name another folder"
        ) from error
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def last_samples(run: Run, onset: Onset | None, keep: int) -> tuple[pl.DataFrame, str]:
    """Return the last samples before the onset, in the order of steps, and a sentence on which.

    A sample of step s is that of log row s + ``log_offset``; it precedes the onset where that row
    lies below the low end of the onset's interval. Samples without a step are nowhere.
    """
    count = run.sample_count
    if not count:
        return taken(run, last_drawn(run, 0)), "The run has no samples."
    dated = run.samples.select(pl.col("step").count()).collect().item()
    if onset is None or not dated:
        last = last_drawn(run, keep)
        why = "No onset was found" if onset is None else "The samples tell no steps"
        which = f"{why}: these are the last {last.height} of {count} samples."
        return taken(run, last), which
    before = last_drawn(run, count, onset.low - 1)
    last = before.tail(keep)
    when = f"the onset at step {onset.step} (between {onset.low} and {onset.high})"
    if not last.height:
        return taken(run, last), f"None of the {count} samples was drawn before {when}."
    first, final = last["step"][0], last["step"][-1]
    steps = f"of step {final}" if first == final else f"of steps {first} to {final}"
    offset = f" (log rows less the offset of {run.log_offset})" if run.log_offset else ""
    kept = taken(run, last)
    files = ", ".join(kept["source"].unique(maintain_order=True).drop_nulls())
    return kept, (
        f"The last {last.height} of the {before.height} samples drawn before {when}:"
        f" {steps}{offset}, in {files}."
    )


def _place(folder: Path) -> Path:
    """Return where a folder would lie: links around it are followed, one in its place is not."""
    if folder.name in ("", ".."):
        raise DoctorError(f"cannot write {folder}: it is there already", "name a new folder")
    return Path(os.path.realpath(folder.parent)) / folder.name


def _places(run: Run) -> Iterator[Path]:
    """Yield the folders of a run that are only read."""
    folder = Path(run.path)
    yield folder
    around = folder if folder.is_dir() else folder.parent
    for checkpoint in run.checkpoints:
        yield around / checkpoint.path


def _folders(diagnoses: Sequence[Diagnosis], exit_code: int, keep: int) -> list[Part]:
    """Return the files of several runs, each in a folder of its own, and what the folders are."""
    parts: list[Part] = []
    entries: list[dict[str, object]] = []
    names: set[str] = set()
    for diagnosis in diagnoses:
        told = _masked(diagnosis)
        name = _folder_name(told.run.name, names)
        own = _parts(diagnosis, told, exit_code, keep)
        parts += [replace(part, name=f"{name}/{part.name}") for part in own]
        entries.append(
            {
                "name": f"{name}/",
                "what": five_lines(told)[0],
                "bytes": sum(len(part.content) for part in own),
                "masked": sum(part.masked for part in own),
            }
        )
    verdicts = Counter(diagnosis.verdict for diagnosis in diagnoses)
    counted = ", ".join(f"{count} {verdict}" for verdict, count in verdicts.most_common())
    mark = _mark()
    title = f"Evidence of {len(diagnoses)} runs: {counted}"
    page = contents([title], [*entries, *_entries([mark])], [], _versions())
    return [*parts, mark, _part("README.md", "this list", page)]


def _folder_name(name: str, taken: set[str]) -> str:
    """Return a run's name as a folder's, unlike those taken whatever the file system's case."""
    plain = re.sub(r"[^A-Za-z0-9._-]+", "_", name).strip("._-")[:LONGEST_NAME] or "run"
    found = next(
        item
        for number in range(1, len(taken) + 2)
        if (item := plain if number == 1 else f"{plain}-{number}").lower() not in taken
    )
    taken.add(found.lower())
    return found


def _parts(diagnosis: Diagnosis, told: Diagnosis, exit_code: int, keep: int) -> list[Part]:
    """Return the files of one run, the list of them last; told: the diagnosis without secrets."""
    run, plan = told.run, told.rollback
    rungs = masked(ladder(diagnosis.run, diagnosis.rollback))
    kept, which = last_samples(run, diagnosis.onset, keep)
    plan_told = published.envelope(exit_code, published.rollback_document(told, rungs))
    parts = [
        _json("diagnosis.json", "the diagnosis", published.published(told, exit_code)),
        _part("diagnosis.md", "the diagnosis, to read", markdown.render([told], Page(exit_code))),
        _json("rollback.json", "the plan, how to go on, and the ladder", plan_told),
        _part("rollback.md", "the plan, to read", rollback_markdown(plan, rungs)),
        _part("samples.jsonl", f"{kept.height} samples", _lines(kept)),
        _frame("metrics.parquet", run.metrics, run.metrics.write_parquet),
        _frame("metrics.csv", run.metrics, run.metrics.write_csv),
        _json("columns.json", "units and sources of the metrics", {"columns": _columns(run)}),
        _json("config.json", "settings, and where they stand", {"settings": _settings(run)}),
        _mark(),
    ]
    remarks = [which, *_missing(told)]
    page = contents(five_lines(told), _entries(parts), remarks, _versions())
    return [*parts, _part("README.md", "this list", page)]


def _masked(diagnosis: Diagnosis) -> Diagnosis:
    """Return a diagnosis without secrets, also in the frames that reports print.

    Samples stay as they are: those that are kept are masked as they are written.
    """
    told, run = masked(diagnosis), diagnosis.run
    names = _column_names(dict.fromkeys((*run.metrics.columns, *run.columns)))
    kept = replace(
        told.run,
        metrics=run.metrics.rename({name: names[name] for name in run.metrics.columns}),
        columns={names[name]: masked(column) for name, column in run.columns.items()},
        scores=_masked_frame(run.scores),
        scans=_masked_frame(run.scans),
    )
    return replace(told, run=kept)


def _masked_frame(frame: pl.DataFrame | None) -> pl.DataFrame | None:
    if frame is None:
        return None
    texts = [name for name, kind in frame.schema.items() if kind == pl.String]
    return frame.with_columns(
        pl.Series(name, [masked(value) for value in frame[name]], dtype=pl.String) for name in texts
    )


def _column_names(names: Iterable[str]) -> dict[str, str]:
    """Return the names of columns without secrets, no two alike."""
    told: dict[str, str] = {}
    taken: set[str] = set()
    for name in names:
        own = clean = masked(name)
        number = len(told)
        while own in taken:
            own, number = f"{clean} {number}", number + 1
        taken.add(own)
        told[name] = own
    return told


def _lines(samples: pl.DataFrame) -> str:
    """Return samples as JSON Lines; what a sample does not tell has no key."""
    lines = []
    for row in samples.iter_rows(named=True):
        told = {key: value for key, value in row.items() if value is not None}
        if "reward_components" in told:
            told["reward_components"] = json.loads(told["reward_components"])
        lines.append(published.dumps_line(masked(told)))
    return "".join(lines)


def _columns(run: Run) -> list[dict[str, Any]]:
    return [
        {"column": name, **asdict(column)}
        for name, column in run.columns.items()
        if name in run.metrics.columns
    ]


def _settings(run: Run) -> list[dict[str, Any]]:
    return [asdict(setting) for setting in run.config.values()]


def _missing(diagnosis: Diagnosis) -> Iterator[str]:
    """Yield a sentence for each thing that the bundle lacks because the run does."""
    run, plan = diagnosis.run, diagnosis.rollback
    if not run.metrics.height:
        yield "No metrics: the log holds none that is known."
    if not run.config:
        yield "No settings were found."
    if not run.checkpoints:
        yield "No checkpoints were found: the ladder is empty."
    if plan.resume is None and (plan.needed or plan.checkpoint is not None):
        yield f"How {run.framework} goes on from a checkpoint is not known to this version."
    if run.scores is None:
        yield "Nothing was recomputed: no reference model was given."


def _versions() -> Mapping[str, str]:
    return {
        "rlhfdoctor": __version__,
        "polars": pl.__version__,
        "Python": platform.python_version(),
    }


def _entries(parts: Iterable[Part]) -> list[dict[str, object]]:
    return [
        {"name": part.name, "what": part.what, "bytes": len(part.content), "masked": part.masked}
        for part in parts
    ]


def _mark() -> Part:
    """Return the file by which a bundle is known, so that it is never read as a run."""
    return _json(BUNDLE, "the mark of a bundle", {**KIND, "version": __version__})


def _part(name: str, what: str, text: str) -> Part:
    """Return a text as a file; in markdown the mask itself is escaped."""
    return Part(name, what, text.encode(), text.count(MASK) + text.count(plain(MASK)))


def _json(name: str, what: str, document: Mapping[str, object]) -> Part:
    return _part(name, what, published.dumps(document))


def _frame(name: str, frame: pl.DataFrame, save: Any) -> Part:
    """Return a frame as a file; only the names of its columns are text."""
    stream = io.BytesIO()
    save(stream)
    what = f"the metrics: {frame.height} rows, {frame.width} columns"
    return Part(name, what, stream.getvalue(), "".join(frame.columns).count(MASK))
