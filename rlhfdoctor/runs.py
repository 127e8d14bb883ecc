"""Read runs: read the claimed files, choose the dialect, merge sources, tell runs apart.

``read_runs`` accepts a folder or a file and returns every run in it.
"""

from __future__ import annotations

import os
import stat
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import polars as pl

from rlhfdoctor import registry
from rlhfdoctor.claims import BESIDE, Claim, by_run, claim, shown
from rlhfdoctor.dialects import Dialect, Key, choose
from rlhfdoctor.errors import DoctorError, UnreadableRun, did_you_mean
from rlhfdoctor.measures import log_fingerprint
from rlhfdoctor.model import Checkpoint, Column, Location, Note, Row, Run, Sample, Setting, Source
from rlhfdoctor.readers import Item
from rlhfdoctor.readers._json import clean
from rlhfdoctor.readers._scores import Recomputed
from rlhfdoctor.readers.samples import read_samples
from rlhfdoctor.vocabulary import METRICS

SAME = 1e-6
"""Relative difference up to which two records of one number are the same (float32 rounding)."""

MOST_PARTS = 200
"""Columns that one pattern of a dialect may open; no run has more reward functions."""

SAMPLES: dict[str, pl.DataType | type[pl.DataType]] = {
    "source": pl.String,
    "line": pl.Int64,
    "step": pl.Int64,
    "split": pl.String,
    "prompt": pl.String,
    "response": pl.String,
    "reward": pl.Float64,
    "reward_components": pl.String,
    "advantage": pl.Float64,
    "group": pl.String,
    "truncated": pl.Boolean,
    "prompt_ids": pl.List(pl.Int64),
    "token_ids": pl.List(pl.Int64),
    "logprobs": pl.List(pl.Float64),
    "ref_logprobs": pl.List(pl.Float64),
    "chosen": pl.String,
    "rejected": pl.String,
}
"""Columns of ``Run.samples``."""

OBSERVATIONS: dict[str, pl.DataType | type[pl.DataType]] = {
    "step": pl.Int64,
    "epoch": pl.Float64,
    "split": pl.String,
    "rank": pl.Int64,
    "metric": pl.String,
    "value": pl.Float64,
    "source": pl.String,
    "key": pl.String,
    "line": pl.Int64,
    "segment": pl.Int64,
    "wall_time": pl.Float64,
}
"""Columns of ``Run.observations``."""

_INDEX = ("step", "epoch", "rank", "line", "segment", "wall_time")


@dataclass(slots=True)
class _File:
    """What one file held, before it is translated."""

    name: str
    reader: str
    rows: list[Row] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)
    settings: list[Setting] = field(default_factory=list)
    checkpoints: list[Checkpoint] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)

    @property
    def updates_done(self) -> float:
        """How far the trainer was when it wrote the file; the youngest copy has the most."""
        done = [float(item.value) for item in self.settings if item.name == "updates_done"]
        return max(done, default=0.0)


def read_runs(
    path: str | Path,
    *,
    dialect: str | None = None,
    mapping: Mapping[str, str] | None = None,
    samples: Sequence[str | Path] = (),
) -> tuple[Run, ...]:
    """Read every run under a path.

    dialect: the name of the dialect, where the marks do not decide. mapping: canonical names for
    logged keys, from the user; they win over every dialect. samples: further sample files; one that
    the folder holds anyway is read once.

    A folder of several runs in which one cannot be read yields that run empty, with the reason in
    its notes: it must not vanish from a gate. Raises UnreadableRun where nothing is found,
    DoctorError for an unknown dialect or metric, or a mapped key that no log has.
    """
    root = Path(path)
    checked = _check_mapping(mapping or {})
    forced = _dialect_named(dialect) if dialect else None
    notes: list[Note] = []
    if _is_folder(root):
        found = by_run(root, notes)
        groups = {place: [_read(item) for item in claims] for place, claims in found.items()}
    else:
        groups = {root: [_read_file(root)]}
    known = {
        os.path.realpath(place / file.name)
        for place, files in groups.items()
        for file in files
        if file.samples
    }
    extra = [_read_samples(Path(item)) for item in samples if os.path.realpath(item) not in known]
    held = {place for place, files in groups.items() if _holds(files)}
    if not held and extra:
        groups, held = {root: [file for files in groups.values() for file in files]}, {root}
    if not held:
        told = [note for files in groups.values() for file in files for note in file.notes]
        why = "; ".join(f"{note.where}: {note.text}" for note in (*told, *notes)[:3])
        raise UnreadableRun(
            f"no log and no samples in {path}" + (f" ({why})" if why else ""),
            "a run has a trainer_state.json, or metrics or samples as JSON Lines",
        )
    runs: list[Run] = []
    for place, files in sorted(groups.items()):
        if place in held or any(_is_log(file) for file in files):
            runs.extend(_build(place, [*files, *extra], forced, checked))
        elif len(groups) > 1:
            where = shown(place.relative_to(root))
            notes.append(Note(where, "holds no log and no samples; not a run"))
    _check_keys(checked, runs)
    first, *rest = runs
    return (replace(first, notes=(*first.notes, *notes)), *rest)


def read_samples_as_run(path: str | Path, field: str | None = None) -> Run:
    """Read one sample file as a run without a log. ``field``: the key of the response.

    Raises UnreadableRun where the file does not exist or cannot be opened.
    """
    place = Path(path)
    if _is_folder(place):
        raise UnreadableRun(f"{path} is a folder", "give a JSON Lines file of samples")
    file = _fill(_File(shown(Path(place.name)), "samples"), read_samples(place, field))
    return _build(place, [file], None, {})[0]


def source_of(run: Run, path: Path) -> str:
    """Return the name under which a run holds a sample file that was named by its path."""
    place = Path(run.path)
    folder = place if place.is_dir() else place.parent
    for source in run.sources:
        if os.path.realpath(folder / source.file) == os.path.realpath(path):
            return source.file
    return shown(path)


def with_scores(run: Run, found: Sequence[Recomputed]) -> tuple[Run, list[Recomputed]]:
    """Return a run with what recomputations tell of it, and which of them those were.

    A recomputation belongs to the run that has one of its checkpoints, or its name where either
    has none, unless their logs began otherwise. Every run has a checkpoint-100: where one of them
    has the run's name, those of another name are another run's; where none has it, that is noted.
    """
    own = [item for item in found if _belongs(item, run)]
    named = [item for item in own if item.name == run.name]
    for item in named or own:
        run = replace(
            run,
            scores=_joined(run.scores, item.scores, _SCORED),
            scans=_joined(run.scans, item.scans, ["checkpoint"]),
            references=(*run.references, *item.references),
            notes=_noted(run.notes, (*item.notes, *_renamed(item, run))),
        )
    return run, named or own


def share(runs: Sequence[Run], found: Sequence[Recomputed]) -> list[tuple[Run, list[Recomputed]]]:
    """Return each of several runs with what recomputations tell of it, and which those were.

    One that has the name of a run is no other run's; of runs of one name the path decides. Raises
    DoctorError where one may belong to several.
    """
    names = [run.name for run in runs]
    scored = []
    takers: dict[int, list[str]] = defaultdict(list)
    for run in runs:
        known = [item for item in found if item.name == run.name or item.name not in names]
        if names.count(run.name) > 1 and any(item.path == run.path for item in known):
            known = [item for item in known if item.path == run.path]
        scored.append(with_scores(run, known))
        for item in scored[-1][1]:
            takers[id(item)].append(run.path)
    for item in found:
        if len(takers[id(item)]) > 1:
            places = ", ".join(takers[id(item)])
            raise DoctorError(
                f"--scores {item.file}: {item.name} may be any of {places}",
                "judge one run at a time, or under the name under which it was scored",
            )
    return scored


def _renamed(item: Recomputed, run: Run) -> tuple[Note, ...]:
    if item.name == run.name:
        return ()
    told = f"recomputed for a run that was called {item.name}; taken for this one"
    return (Note(shown(item.file), told),)


_SCORED = ["reference", "checkpoint", "samples_file", "part", "role"]
"""What tells two rows of ``Run.scores`` apart."""


def _belongs(item: Recomputed, run: Run) -> bool:
    policies = item.scores.filter(pl.col("role") == "policy")["checkpoint"]
    scored = {*policies, *item.scans["checkpoint"]}
    there = {checkpoint.name for checkpoint in run.checkpoints}
    log = log_fingerprint(run)
    if item.log is not None and log is not None and item.log != log:
        return False
    return bool(scored & there) or (item.name == run.name and not (scored and there))


def _noted(known: Sequence[Note], more: Sequence[Note]) -> tuple[Note, ...]:
    told = {(note.where, note.text) for note in known}
    return (*known, *(note for note in more if (note.where, note.text) not in told))


def _joined(
    known: pl.DataFrame | None, more: pl.DataFrame, by: Sequence[str]
) -> pl.DataFrame | None:
    """Put rows together; of two about the same thing the later one counts."""
    if not more.height:
        return known
    frames = [more] if known is None else [known, more]
    return pl.concat(frames).unique(list(by), keep="last", maintain_order=True)


def _is_folder(path: Path) -> bool:
    try:
        return stat.S_ISDIR(path.stat().st_mode)
    except FileNotFoundError:
        raise UnreadableRun(
            f"no such file or folder: {path}", "give the folder of a run, or a log"
        ) from None
    except (OSError, ValueError) as error:
        told = error.strerror if isinstance(error, OSError) else str(error)
        raise UnreadableRun(
            f"cannot open {str(path)[:200]}: {told}", "give the folder of a run, or a log"
        ) from error


def _holds(files: Iterable[_File]) -> bool:
    return any(file.rows or file.samples for file in files)


def _is_log(file: _File) -> bool:
    """Say whether a file was to hold rows or samples, whether or not it does."""
    return file.reader not in BESIDE


def _read(claimed: Claim) -> _File:
    if claimed.reader is None:
        return _File(claimed.name, "none", notes=[Note(claimed.name, claimed.reason, unread=True)])
    file = _File(claimed.name, claimed.reader.name)
    return _fill(file, claimed.reader.read(claimed.path), claimed.path)


def _read_file(path: Path) -> _File:
    claimed = claim(path)
    if claimed is None or claimed.reader is None:
        why = f": it {claimed.reason}" if claimed else ""
        raise UnreadableRun(
            f"no reader understands {shown(Path(path.name))[:200]}{why}",
            "known are trainer_state.json, JSON Lines of metrics or samples, run_config.json",
        )
    return _read(claimed)


def _read_samples(path: Path) -> _File:
    if _is_folder(path):
        raise UnreadableRun(f"{path} is a folder", "--samples takes a JSON Lines file of samples")
    return _fill(_File(shown(path), "samples"), read_samples(path))


def _fill(file: _File, items: Iterator[Item], place: Path | None = None) -> _File:
    """Sort what a reader yields; a file that cannot be read to its end is noted.

    place: the path that was read; a checkpoint may lie deeper inside it.
    """
    folder = file.name.rpartition("/")[0]
    try:
        for item in items:
            match item:
                case Row():
                    file.rows.append(item)
                case Sample():
                    file.samples.append(item)
                case Checkpoint():
                    _, _, below = item.path.partition(f"{place}/")
                    inside = f"{file.name}/{shown(Path(below))}" if below else file.name
                    file.checkpoints.append(replace(item, path=inside, name=clean(item.name)))
                case Setting():
                    file.settings.append(replace(item, where=replace(item.where, file=file.name)))
                case Note():
                    where = f"{folder}/{item.where}" if folder else item.where
                    file.notes.append(replace(item, where=clean(where)))
    except OSError as error:
        file.notes.append(Note(file.name, f"cannot be read ({error.strerror})", unread=True))
    return file


# What the user said


def _check_mapping(mapping: Mapping[str, str]) -> dict[str, Key]:
    for metric in mapping.values():
        if metric not in METRICS:
            raise DoctorError(
                f"--map: no metric is called {metric}{did_you_mean(metric, METRICS)}",
                "for example --map kl=kl_ref_token or --map kl=kl_ref_response",
            )
    return {key: Key(metric, reduction="stated by the user") for key, metric in mapping.items()}


def _check_keys(mapping: Mapping[str, Key], runs: Iterable[Run]) -> None:
    """Refuse a mapped key that no log has: a slip that would silence what it was to show."""
    logged = {key for run in runs for key in run.observations["key"].unique()}
    for key in mapping:
        if logged and key not in logged:
            raise DoctorError(
                f"--map: no log has the key {key}{did_you_mean(key, logged)}",
                "rlhfdoctor inspect lists the keys of a run",
            )


def _dialect_named(name: str) -> Dialect:
    dialects = {item.name: item for item in registry.members("dialects", Dialect)}
    if name not in dialects:
        raise DoctorError(
            f"no dialect is called {name}{did_you_mean(name, dialects)}",
            f"known are {', '.join(sorted(dialects))}",
        )
    return dialects[name]


# From files to runs


def _build(
    place: Path, files: list[_File], forced: Dialect | None, mapping: Mapping[str, Key]
) -> list[Run]:
    """Build the runs of one place: one, or several where its only log starts over."""
    files = sorted(files, key=lambda file: (file.updates_done, file.name))
    for file in files:
        _count_on(file)
    logs = [file for file in files if file.rows]
    parts = _restarts(logs[0].rows) if len(logs) == 1 else []
    if len(parts) < 2:
        return [_run(place, files, forced, mapping)]
    runs = []
    for number, rows in enumerate(parts, start=1):
        told = Note(logs[0].name, f"starts over {len(parts) - 1} times; this is run {number}")
        log = replace(logs[0], rows=rows, notes=[*logs[0].notes, told])
        last = number == len(parts)
        others = [file for file in files if not file.rows and (last or file.reader == "config")]
        run = _run(place, [*others, log], forced, mapping)
        runs.append(replace(run, name=f"{run.name}#{number}"))
    return runs


def _count_on(file: _File) -> None:
    """Count steps on where a log counts them anew in each epoch: the epoch goes on."""
    shift = times = 0
    last: Row | None = None
    counted: list[Row] = []
    for row in file.rows:
        if row.step is not None and row.split == "train":
            back = last is not None and last.step is not None and row.step < last.step
            if back and last and last.step and (row.epoch or 0.0) > (last.epoch or 0.0):
                shift, times = shift + last.step, times + 1
            last = row
        counted.append(
            replace(row, step=row.step + shift) if shift and row.step is not None else row
        )
    if times:
        file.rows = counted
        told = f"steps are counted anew in each epoch; put end to end {times} times"
        file.notes.append(Note(file.name, told))


def _restarts(rows: Sequence[Row]) -> list[list[Row]]:
    """Cut a log where the training step goes back to where the log began: another run."""
    parts: list[list[Row]] = [[]]
    first = last = None
    for row in rows:
        if row.step is not None and row.split == "train":
            if first is not None and last is not None and row.step < last and row.step <= first:
                parts.append([])
                first = None
            first = row.step if first is None else first
            last = row.step
        parts[-1].append(row)
    return parts


def _run(
    place: Path, files: list[_File], forced: Dialect | None, mapping: Mapping[str, Key]
) -> Run:
    notes = [note for file in files for note in file.notes]
    config = _config(files)
    spoken = forced or _choose(files, config)
    tables = [_table(file, spoken, mapping, notes) for file in files if file.rows]
    observations = _observations([long for _, long in tables])
    _note_disagreements(observations, notes)
    metrics, logged = _metrics([wide for wide, _ in tables])
    named = config.get("algorithm")
    algorithm = spoken.algorithm
    if algorithm == "unknown" and named:
        algorithm = str(named.value)
    sample_frame, sample_count = _samples(files)
    return Run(
        path=shown(place),
        name=shown(Path(Path(os.path.abspath(place)).name)),
        framework=spoken.framework,
        algorithm=algorithm,
        dialect=spoken.name,
        step_unit="row" if any(_numbered(file) for file in files) else "step",
        sources=tuple(
            Source(
                file=file.name,
                reader=file.reader,
                dialect=spoken.name if file.rows else None,
                rows=len(file.rows or file.samples or file.checkpoints or file.settings),
            )
            for file in files
            if file.reader != "none"
        ),
        observations=observations,
        metrics=metrics,
        columns=_columns(observations, metrics, spoken, mapping),
        unmapped=_first_places(observations.filter(pl.col("metric").is_null())),
        samples=sample_frame,
        sample_count=sample_count,
        logged_steps=logged,
        checkpoints=_checkpoints(files, observations),
        config=config,
        log_offset=spoken.log_offset,
        notes=tuple(notes),
    )


def _config(files: Iterable[_File]) -> dict[str, Setting]:
    """Merge settings; the trainer's own state wins over files that a script wrote."""
    ordered = sorted(files, key=lambda file: file.reader == "trainer_state")
    return {setting.name: setting for file in ordered for setting in file.settings}


def _choose(files: Iterable[_File], config: Mapping[str, Setting]) -> Dialect:
    logged: dict[str, bool] = {}
    for file in files:
        for row in file.rows:
            for key, value in row.values.items():
                bare = key.removeprefix("train/")
                logged[bare] = logged.get(bare, False) or value < 0
    keys = frozenset(logged)
    negative = frozenset(key for key, below in logged.items() if below)
    named = config.get("algorithm")
    dialects = registry.members("dialects", Dialect)
    generic = next(item for item in dialects if item.name == "generic")
    return choose(dialects, keys, negative, str(named.value) if named else None, generic)


def _split(key: str) -> str:
    return "eval" if key.startswith(("eval_", "eval/")) else "train"


def _meaning(key: str, dialect: Dialect, mapping: Mapping[str, Key]) -> tuple[str, Key] | None:
    """Return the canonical name and meaning of a logged key, trackers' prefixes aside."""
    if key in mapping:
        return mapping[key].metric, mapping[key]
    return dialect.meaning(key) or dialect.meaning(_bare(key))


def _bare(key: str) -> str:
    """Return a key without the prefixes of trackers and evaluations."""
    return key[5:] if _split(key) == "eval" else key.removeprefix("train/")


def _translate(keys: Iterable[str], dialect: Dialect, mapping: Mapping[str, Key]) -> dict[str, str]:
    """Return the column of each key of a file that has a meaning; one key a column.

    Where several keys mean the same metric, the user's wins, then the first that the dialect lists.
    """
    order = {key: rank for rank, key in enumerate(dialect.keys)}
    ranked = sorted(
        keys,
        key=lambda key: (
            key not in mapping,
            min(order.get(key, len(order)), order.get(_bare(key), len(order))),
            key,
        ),
    )
    columns: dict[str, str] = {}
    parts: Counter[str] = Counter()
    for key in ranked:
        found = _meaning(key, dialect, mapping)
        if found is None:
            continue
        column = f"eval_{found[0]}" if _split(key) == "eval" else found[0]
        if column in columns.values():
            continue
        if "[" in column:
            parts[found[1].metric] += 1
            if parts[found[1].metric] > MOST_PARTS:
                continue
        columns[key] = column
    return columns


def _table(
    file: _File, dialect: Dialect, mapping: Mapping[str, Key], notes: list[Note]
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return a file's rows wide (one column a known metric) and long (one row a value).

    Rows without a step are numbered where most of the file's rows have none, and left out
    otherwise.
    """
    rows = file.rows
    stepless = sum(row.step is None for row in rows)
    if _numbered(file):
        what = "no step is logged" if stepless == len(rows) else "most rows carry no step"
        notes.append(Note(file.name, f"{what}; the rows were numbered from 1"))
        rows = [replace(row, step=index) for index, row in enumerate(rows, start=1)]
    elif stepless:
        told = f"{stepless} rows carry no step and were left out"
        notes.append(Note(file.name, told, left_out=stepless))
        rows = [row for row in rows if row.step is not None]
    segments = _segments(rows)
    if segments[-1]:
        told = f"the step goes back {segments[-1]} times; the later rows are kept"
        notes.append(Note(file.name, told))
    index = pl.DataFrame(
        {
            "step": [row.step for row in rows],
            "epoch": [row.epoch for row in rows],
            "rank": [row.rank for row in rows],
            "line": [row.line for row in rows],
            "segment": segments,
            "wall_time": [row.wall_time for row in rows],
        },
        schema={name: OBSERVATIONS[name] for name in _INDEX},
    )
    places: dict[str, list[int]] = defaultdict(list)
    values: dict[str, list[float]] = defaultdict(list)
    for place, row in enumerate(rows):
        for key, value in row.values.items():
            places[key].append(place)
            values[key].append(value)
    columns = _translate(places, dialect, mapping)
    wide = index.with_columns(
        pl.Series(column, _spread(places[key], values[key], len(rows)), dtype=pl.Float64)
        for key, column in sorted(columns.items(), key=lambda entry: entry[1])
    )
    names = {key: columns[key].removeprefix("eval_") if key in columns else None for key in places}
    keys = sorted(places)
    long = pl.DataFrame(
        {
            "place": [place for key in keys for place in places[key]],
            "key": [key for key in keys for _ in places[key]],
            "value": [value for key in keys for value in values[key]],
        },
        schema={"place": pl.Int64, "key": pl.String, "value": pl.Float64},
    )
    told_keys = pl.DataFrame(
        {
            "key": keys,
            "metric": [names[key] for key in keys],
            "split": [_split(key) for key in keys],
        },
        schema={"key": pl.String, "metric": pl.String, "split": pl.String},
    )
    long = (
        long.join(index.with_row_index("place").cast({"place": pl.Int64}), on="place")
        .join(told_keys, on="key")
        .with_columns(source=pl.lit(file.name))
        .sort("place", "key")
    )
    return wide, long.select(*OBSERVATIONS)


def _numbered(file: _File) -> bool:
    """Say whether most of a file's rows carry no step, so that all are numbered."""
    return 2 * sum(row.step is None for row in file.rows) > len(file.rows)


def _spread(places: Sequence[int], values: Sequence[float], count: int) -> list[float | None]:
    column: list[float | None] = [None] * count
    for place, value in zip(places, values, strict=True):
        column[place] = value
    return column


def _segments(rows: Sequence[Row]) -> list[int]:
    """Number the stretches between which the training step goes back."""
    segments, segment, last = [], 0, None
    for row in rows:
        if row.split == "train" and row.step is not None:
            if last is not None and row.step < last:
                segment += 1
            last = row.step
        segments.append(segment)
    return segments


def _observations(frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """Join the long tables into the record, in order of precedence.

    The same number at the same step, copied from one file to another, is recorded once, for the
    youngest file.
    """
    if not frames:
        return pl.DataFrame(schema=OBSERVATIONS)
    return pl.concat(frames).unique(
        ["split", "step", "key", "value", "rank"], keep="last", maintain_order=True
    )


def _note_disagreements(observations: pl.DataFrame, notes: list[Note]) -> None:
    """Say where two files tell different numbers for the same step and key."""
    low, high = pl.col("low"), pl.col("high")
    apart = (high - low) > SAME * pl.max_horizontal(high.abs(), low.abs())
    infinite = (high != low) & (high.is_infinite() | low.is_infinite())
    told = (
        observations.group_by("split", "step", "key", maintain_order=True)
        .agg(
            low=pl.col("value").min(),
            high=pl.col("value").max(),
            nan=pl.col("value").is_nan().any() & pl.col("value").is_not_nan().any(),
            files=pl.col("source").n_unique(),
        )
        .filter((pl.col("files") > 1) & (pl.col("nan") | apart | infinite))
    )
    counted = told.group_by("key", maintain_order=True).agg(
        count=pl.len(), first=pl.col("step").min()
    )
    for key, count, first in counted.iter_rows():
        where = f"files disagree at {count} steps, first at {first}"
        notes.append(Note(key, f"{where}; the one with the most updates, or the last, is kept"))


def _metrics(tables: Sequence[pl.DataFrame]) -> tuple[pl.DataFrame, int]:
    """Make the wide view, one row a step, later rows last; count the steps with a train metric."""
    empty = pl.DataFrame(schema={"step": pl.Int64, "epoch": pl.Float64})
    if not tables:
        return empty, 0
    merged = pl.concat(tables, how="diagonal")
    columns = sorted(set(merged.columns) - set(_INDEX))
    if not columns:
        return empty, 0
    wide = (
        merged.filter(pl.any_horizontal(pl.col(columns).is_not_null()))
        .group_by("step", maintain_order=True)
        .agg(pl.col("epoch", *columns).drop_nulls().last())
        .sort("step")
        .select("step", "epoch", *columns)
    )
    train = [column for column in columns if not column.startswith("eval_")]
    logged = wide.select(pl.any_horizontal(pl.col(train).is_not_null()).sum()) if train else None
    return wide, int(logged.item()) if logged is not None else 0


def _columns(
    observations: pl.DataFrame,
    metrics: pl.DataFrame,
    dialect: Dialect,
    mapping: Mapping[str, Key],
) -> dict[str, Column]:
    places: dict[str, list[Location]] = defaultdict(list)
    meanings: dict[str, Key] = {}
    found = observations.drop_nulls("metric").select("split", "metric", "key", "source")
    for split, metric, key, source in found.unique(maintain_order=True).iter_rows():
        name = metric if split == "train" else f"eval_{metric}"
        meaning = _meaning(key, dialect, mapping)
        if name in metrics.columns and meaning is not None:
            places[name].append(Location(file=source, key=key))
            meanings.setdefault(name, meaning[1])
    return {
        name: Column(
            metric=name.removeprefix("eval_"),
            unit=meanings[name].unit or METRICS[meanings[name].metric].unit,
            estimator=meanings[name].estimator,
            reduction=meanings[name].reduction,
            sources=tuple(locations),
        )
        for name, locations in sorted(places.items())
    }


def _first_places(observations: pl.DataFrame) -> dict[str, Location]:
    first = observations.select("key", "source", "line").unique(
        "key", keep="first", maintain_order=True
    )
    return {key: Location(file, key=key, line=line) for key, file, line in first.iter_rows()}


def _samples(files: Iterable[_File]) -> tuple[pl.LazyFrame, int]:
    columns: dict[str, list[object]] = {name: [] for name in SAMPLES}
    for file in files:
        for sample in file.samples:
            columns["source"].append(file.name)
            for name in SAMPLES:
                if name == "source":
                    continue
                value = getattr(sample, name)
                if name == "reward_components" and value is not None:
                    value = ", ".join(f"{key}={item:g}" for key, item in sorted(value.items()))
                columns[name].append(value)
    frame = pl.DataFrame(columns, schema=SAMPLES)
    return frame.lazy(), frame.height


def _checkpoints(files: Iterable[_File], observations: pl.DataFrame) -> tuple[Checkpoint, ...]:
    """Order checkpoints by step and give each the epoch that the log tells for it."""
    found = [checkpoint for file in files for checkpoint in file.checkpoints]
    epochs: dict[int, float] = {}
    if found:
        told = observations.drop_nulls("epoch").group_by("step").agg(pl.col("epoch").last())
        epochs = dict(told.iter_rows())
    held = Counter((item.step, item.role) for item in found)
    return tuple(
        replace(
            item,
            epoch=epochs.get(item.step),
            name=item.path if held[item.step, item.role] > 1 else item.name,
        )
        for item in sorted(found, key=lambda item: (item.step, item.path))
    )
