"""Read runs: claim files, choose the dialect, merge sources, keep apart what belongs to others.

``read_runs`` accepts a folder or a file and returns every run in it. Files are read from inside
the given path only; links that point elsewhere and special files are noted and left alone.
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
from rlhfdoctor.dialects import Dialect, Key, choose
from rlhfdoctor.errors import DoctorError, UnreadableRun
from rlhfdoctor.model import Checkpoint, Column, Location, Note, Row, Run, Sample, Setting, Source
from rlhfdoctor.readers import HEAD_BYTES, Item, Reader
from rlhfdoctor.readers.samples import read_samples
from rlhfdoctor.vocabulary import METRICS

SAME = 1e-6
"""Relative difference up to which two records of one number are the same (float32 rounding)."""

CONTAINERS = frozenset(
    {"logs", "log", "metrics", "checkpoints", "ckpts", "samples", "completions", "outputs", "runs"}
)
"""Folder names that belong to the run above them."""

_SAMPLE_SCHEMA: dict[str, pl.DataType | type[pl.DataType]] = {
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
_OBSERVATION_SCHEMA: dict[str, pl.DataType | type[pl.DataType]] = {
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
_INDEX = ("step", "epoch", "split", "rank", "line", "segment", "wall_time", "order")


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
        return max(
            (float(item.value) for item in self.settings if item.name == "updates_done"),
            default=0.0,
        )


def read_runs(
    path: str | Path,
    *,
    dialect: str | None = None,
    mapping: Mapping[str, str] | None = None,
    samples: Sequence[str | Path] = (),
) -> tuple[Run, ...]:
    """Read every run under a path.

    dialect: the name of the dialect, where the marks do not decide. mapping: canonical names for
    logged keys, from the user; they win over every dialect. samples: further sample files.

    Raises UnreadableRun where nothing is found, DoctorError for an unknown dialect or metric.
    """
    root = Path(path)
    if not root.exists():
        raise UnreadableRun(f"no such file or folder: {path}", "give the folder of a run, or a log")
    checked = _check_mapping(mapping or {})
    forced = _dialect_named(dialect) if dialect else None
    notes: list[Note] = []
    groups: dict[Path, list[_File]] = {}
    if root.is_dir():
        groups = _read_folder(root, notes)
    else:
        claimed = _claim(root, root.name)
        if claimed is None:
            raise UnreadableRun(
                f"no reader understands {root.name}",
                "known are trainer_state.json, JSON Lines of metrics or samples, run_config.json",
            )
        groups[root] = [_read(root, root.name, claimed)]
    extra = [_read_samples(Path(item)) for item in samples]
    runs = []
    for place, files in sorted(groups.items()):
        if not any(file.rows or file.samples for file in files):
            if len(groups) > 1:
                shown = place.relative_to(root).as_posix()
                notes.append(Note(shown, "holds no log and no samples; not a run"))
            continue
        runs.append(_build(place, [*files, *extra], forced, checked))
    if not runs:
        told = "; ".join(
            note.text for group in groups.values() for file in group for note in file.notes[:1]
        )
        raise UnreadableRun(
            f"no log and no samples in {path}" + (f" ({told})" if told else ""),
            "a run has a trainer_state.json, or metrics or samples as JSON Lines",
        )
    first, *rest = runs
    return (replace(first, notes=(*first.notes, *notes)), *rest)


def read_samples_as_run(path: str | Path, field: str | None = None) -> Run:
    """Read one sample file as a run without a log. ``field``: the key of the response.

    Raises UnreadableRun where the file does not exist.
    """
    place = Path(path)
    if not place.is_file():
        raise UnreadableRun(f"no such file: {path}", "give a JSON Lines file of samples")
    file = _sort(_File(place.name, "samples"), read_samples(place, field))
    return _build(place, [file], None, {})


def _read_folder(root: Path, notes: list[Note]) -> dict[Path, list[_File]]:
    """Read what is under a folder, grouped by the run that it belongs to."""
    claimed = list(_claims(root, notes))
    homes = {_home(path, root) for path, reader in claimed if not reader.folder}
    single = root in homes or len(homes) <= 1
    groups: dict[Path, list[_File]] = defaultdict(list)
    for path, reader in claimed:
        place = root if single else _home(path, root)
        groups[place].append(_read(path, path.relative_to(place).as_posix(), reader))
    return groups


def _claims(root: Path, notes: list[Note]) -> Iterator[tuple[Path, Reader]]:
    inside = root.resolve()
    for folder, folders, files in os.walk(root, followlinks=False):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        here = Path(folder)
        for name in (*folders, *sorted(files)):
            path = here / name
            shown = path.relative_to(root).as_posix()
            if path.is_symlink() and not path.resolve().is_relative_to(inside):
                notes.append(Note(shown, "is a link to outside the run folder; not followed"))
                continue
            reader = _claim(path, shown, notes)
            if reader:
                yield path, reader


def _claim(path: Path, shown: str, notes: list[Note] | None = None) -> Reader | None:
    """Return the reader that claims a path; a file that two claim is noted and left unread."""
    head = b""
    folder = False
    try:
        mode = path.stat().st_mode
        folder = stat.S_ISDIR(mode)
        if not folder and not stat.S_ISREG(mode):
            return None
        readers = [item for item in registry.members("readers", Reader) if item.folder == folder]
        readers = [item for item in readers if item.claims(path.name, b"") or item.looks]
        if not folder and readers:
            with path.open("rb") as file:
                head = file.read(HEAD_BYTES)
    except OSError as error:
        if notes is not None:
            notes.append(Note(shown, f"cannot be opened ({error.strerror}); not read"))
        return None
    claiming = [item for item in readers if item.claims(path.name, head)]
    if len(claiming) > 1 and notes is not None:
        names = ", ".join(item.name for item in claiming)
        notes.append(Note(shown, f"claimed by several readers ({names}); not read"))
    return claiming[0] if len(claiming) == 1 else None


def _home(path: Path, root: Path) -> Path:
    """Return the folder of the run that a file belongs to: out of checkpoints and containers."""
    place = path.parent
    while place != root and (place.name in CONTAINERS or _is_checkpoint(place)):
        place = place.parent
    return place


def _is_checkpoint(folder: Path) -> bool:
    return any(
        reader.folder and reader.claims(folder.name, b"")
        for reader in registry.members("readers", Reader)
    )


def _read(path: Path, name: str, reader: Reader) -> _File:
    return _sort(_File(name, reader.name), reader.read(path))


def _read_samples(path: Path) -> _File:
    if not path.is_file():
        raise UnreadableRun(f"no such file: {path}", "--samples takes a JSON Lines file of samples")
    return _sort(_File(str(path), "samples"), read_samples(path))


def _sort(file: _File, items: Iterable[Item]) -> _File:
    for item in items:
        match item:
            case Row():
                file.rows.append(item)
            case Sample():
                file.samples.append(item)
            case Checkpoint():
                file.checkpoints.append(replace(item, path=file.name))
            case Setting():
                where = replace(item.where, file=file.name)
                file.settings.append(replace(item, where=where))
            case Note():
                folder = file.name.rpartition("/")[0]
                where_text = f"{folder}/{item.where}" if folder else item.where
                file.notes.append(replace(item, where=where_text))
    return file


def _check_mapping(mapping: Mapping[str, str]) -> dict[str, Key]:
    for metric in mapping.values():
        if metric not in METRICS:
            raise DoctorError(
                f"--map: no metric is called {metric}{did_you_mean(metric, METRICS)}",
                "for example --map kl=kl_ref_token or --map kl=kl_ref_response",
            )
    return {key: Key(metric, reduction="stated by the user") for key, metric in mapping.items()}


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return "; did you mean X?" where a known word is close, else nothing."""
    import difflib

    close = difflib.get_close_matches(word, list(known), n=1)
    return f"; did you mean {close[0]}?" if close else ""


def _dialect_named(name: str) -> Dialect:
    dialects = {item.name: item for item in registry.members("dialects", Dialect)}
    if name not in dialects:
        raise DoctorError(
            f"no dialect is called {name}{did_you_mean(name, dialects)}",
            f"known are {', '.join(sorted(dialects))}",
        )
    return dialects[name]


def _build(
    place: Path, files: list[_File], forced: Dialect | None, mapping: Mapping[str, Key]
) -> Run:
    files = sorted(files, key=lambda file: (file.updates_done, file.name))
    notes = [note for file in files for note in file.notes]
    config = _config(files)
    keys = frozenset(key for file in files for row in file.rows for key in row.values)
    negative = frozenset(
        key for file in files for row in file.rows for key, value in row.values.items() if value < 0
    )
    named = config.get("algorithm")
    dialects = registry.members("dialects", Dialect)
    generic = next(item for item in dialects if item.name == "generic")
    spoken = forced or choose(
        dialects, keys, negative, str(named.value) if named else None, generic
    )
    raw = _raw(files, notes)
    meanings = {key: _meaning(key, spoken, mapping) for key in keys}
    known = {key: found for key, found in meanings.items() if found and _column(key) in raw.columns}
    observations = _observations(raw, {key: column for key, (column, _) in known.items()})
    _note_disagreements(observations, notes)
    metrics, logged = _metrics(raw, known, spoken)
    algorithm = spoken.algorithm
    if algorithm == "unknown" and named:
        algorithm = str(named.value)
    sample_frame, sample_count = _samples(files)
    return Run(
        path=str(place),
        name=place.resolve().name,
        framework=spoken.framework,
        algorithm=algorithm,
        dialect=spoken.name,
        step_unit="row" if any("rows were numbered" in note.text for note in notes) else "step",
        sources=tuple(
            Source(
                file=file.name,
                reader=file.reader,
                dialect=spoken.name if file.rows else None,
                rows=len(file.rows or file.samples or file.checkpoints or file.settings),
            )
            for file in files
        ),
        observations=observations,
        metrics=metrics,
        columns=_columns(known, observations, metrics),
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
    config: dict[str, Setting] = {}
    for file in sorted(files, key=lambda file: file.reader == "trainer_state"):
        for setting in file.settings:
            config[setting.name] = setting
    return config


def _meaning(key: str, dialect: Dialect, mapping: Mapping[str, Key]) -> tuple[str, Key] | None:
    if key in mapping:
        return mapping[key].metric, mapping[key]
    for name in (key, key.removeprefix("train/")):
        found = dialect.meaning(name)
        if found:
            return found
    return None


def _raw(files: Sequence[_File], notes: list[Note]) -> pl.DataFrame:
    """Put the rows of every file under their own keys; later rows are the truth.

    One row a logged row, in order of precedence; columns: the index, "source", and the keys. Rows
    without a step are numbered where most of the file's rows have none, and left out otherwise.
    """
    frames = []
    for file in files:
        if not file.rows:
            continue
        rows = file.rows
        stepless = sum(row.step is None for row in rows)
        if 2 * stepless > len(rows):
            what = "no step is logged" if stepless == len(rows) else "most rows carry no step"
            notes.append(Note(file.name, f"{what}; the rows were numbered from 1"))
            rows = [replace(row, step=index) for index, row in enumerate(rows, start=1)]
        elif stepless:
            notes.append(Note(file.name, f"{stepless} rows carry no step and were left out"))
            rows = [row for row in rows if row.step is not None]
        segments = _segments(rows)
        if segments[-1]:
            notes.append(
                Note(file.name, f"the step goes back {segments[-1]} times; the later rows are kept")
            )
        index = pl.DataFrame(
            {
                "step": [row.step for row in rows],
                "epoch": [row.epoch for row in rows],
                "split": [row.split for row in rows],
                "rank": [row.rank for row in rows],
                "line": [row.line for row in rows],
                "segment": segments,
                "wall_time": [row.wall_time for row in rows],
            },
            schema={name: _OBSERVATION_SCHEMA[name] for name in _INDEX[:-1]},
        )
        keys = sorted({key for row in rows for key in row.values})
        values = pl.DataFrame(
            {_column(key): [row.values.get(key) for row in rows] for key in keys},
            schema={_column(key): pl.Float64 for key in keys},
        )
        frames.append(
            pl.concat([index, values], how="horizontal").with_columns(
                source=pl.lit(file.name), order=pl.int_range(pl.len(), dtype=pl.Int64)
            )
        )
    if not frames:
        empty = {**{name: _OBSERVATION_SCHEMA[name] for name in _INDEX[:-1]}, "source": pl.String}
        return pl.DataFrame(schema={**empty, "order": pl.Int64})
    merged = pl.concat(frames, how="diagonal")
    return merged.with_columns(order=pl.int_range(pl.len(), dtype=pl.Int64))


def _column(key: str) -> str:
    """Keep logged keys apart from the index columns, whatever they are called."""
    return f"key:{key}"


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


def _observations(raw: pl.DataFrame, names: Mapping[str, str]) -> pl.DataFrame:
    """Melt the raw rows into the record; a key without a canonical name keeps a null metric.

    The same number at the same step, copied from one file to another, is recorded once, for the
    youngest file.
    """
    keys = [name for name in raw.columns if name.startswith("key:")]
    if not keys:
        return pl.DataFrame(schema=_OBSERVATION_SCHEMA)
    return (
        raw.unpivot(on=keys, index=[*_INDEX, "source"], variable_name="key", value_name="value")
        .drop_nulls("value")
        .with_columns(pl.col("key").str.strip_prefix("key:"))
        .unique(["split", "step", "key", "value", "rank"], keep="last", maintain_order=True)
        .with_columns(
            metric=pl.col("key").replace_strict(names, default=None, return_dtype=pl.String)
        )
        .sort("order", maintain_order=True)
        .select(*_OBSERVATION_SCHEMA)
    )


def _note_disagreements(observations: pl.DataFrame, notes: list[Note]) -> None:
    """Say where two files tell different numbers for the same step and key."""
    told = (
        observations.group_by("split", "step", "key", maintain_order=True)
        .agg(
            low=pl.col("value").min(),
            high=pl.col("value").max(),
            nan=pl.col("value").is_nan().any() & pl.col("value").is_not_nan().any(),
            files=pl.col("source").n_unique(),
        )
        .filter(
            (pl.col("files") > 1)
            & (
                pl.col("nan")
                | (
                    (pl.col("high") - pl.col("low"))
                    > SAME * pl.max_horizontal(pl.col("high").abs(), pl.col("low").abs())
                )
            )
        )
    )
    for key, count, first in (
        told.group_by("key", maintain_order=True)
        .agg(count=pl.len(), first=pl.col("step").min())
        .iter_rows()
    ):
        notes.append(
            Note(
                f"{key}",
                f"files disagree at {count} steps, first at {first}; the youngest file is kept",
            )
        )


def _metrics(
    raw: pl.DataFrame, known: Mapping[str, tuple[str, Key]], dialect: Dialect
) -> tuple[pl.DataFrame, int]:
    """Make the wide view: one row a step, train columns by name, evaluation behind ``eval_``."""
    order = {key: rank for rank, key in enumerate(dialect.keys)}
    by_column: dict[str, list[str]] = defaultdict(list)
    for key in sorted(known, key=lambda key: (order.get(key, len(order)), key)):
        by_column[known[key][0]].append(_column(key))
    named = raw.select(
        "step",
        "epoch",
        "split",
        *(pl.coalesce(keys).alias(column) for column, keys in sorted(by_column.items())),
    )
    columns = sorted(by_column)
    latest = [pl.col(column).drop_nulls().last() for column in columns]
    parts = []
    for split, prefix in (("train", ""), ("eval", "eval_")):
        part = (
            named.filter(pl.col("split") == split)
            .filter(pl.any_horizontal(pl.col(columns).is_not_null()) if columns else pl.lit(False))
            .group_by("step", maintain_order=True)
            .agg(pl.col("epoch").drop_nulls().last(), *latest)
        )
        present = [column for column in columns if part[column].null_count() < part.height]
        parts.append(
            part.select("step", "epoch", *(pl.col(name).alias(prefix + name) for name in present))
        )
    train, evaluation = parts
    wide = train.join(evaluation, on="step", how="full", coalesce=True, suffix="_eval")
    if "epoch_eval" in wide.columns:
        wide = wide.with_columns(pl.coalesce("epoch", "epoch_eval").alias("epoch"))
        wide = wide.drop("epoch_eval")
    return wide.sort("step"), train.height


def _columns(
    known: Mapping[str, tuple[str, Key]], observations: pl.DataFrame, metrics: pl.DataFrame
) -> dict[str, Column]:
    places: dict[tuple[str, str], list[Location]] = defaultdict(list)
    meanings: dict[str, Key] = {}
    found = (
        observations.drop_nulls("metric")
        .select("split", "metric", "key", "source")
        .unique(maintain_order=True)
    )
    for split, metric, key, source in found.iter_rows():
        name = metric if split == "train" else f"eval_{metric}"
        places[name, metric].append(Location(file=source, key=key))
        meanings.setdefault(name, known[key][1])
    return {
        name: Column(
            metric=metric,
            unit=meanings[name].unit or METRICS[meanings[name].metric].unit,
            estimator=meanings[name].estimator,
            reduction=meanings[name].reduction,
            sources=tuple(locations),
        )
        for (name, metric), locations in sorted(places.items())
        if name in metrics.columns
    }


def _first_places(observations: pl.DataFrame) -> dict[str, Location]:
    first = observations.select("key", "source", "line").unique("key", maintain_order=True)
    return {key: Location(file, key=key, line=line) for key, file, line in first.iter_rows()}


def _samples(files: Iterable[_File]) -> tuple[pl.LazyFrame, int]:
    columns: dict[str, list[object]] = {name: [] for name in _SAMPLE_SCHEMA}
    for file in files:
        for sample in file.samples:
            columns["source"].append(file.name)
            for name in _SAMPLE_SCHEMA:
                if name == "source":
                    continue
                value = getattr(sample, name)
                if name == "reward_components" and value is not None:
                    value = ", ".join(f"{key}={item:g}" for key, item in sorted(value.items()))
                columns[name].append(value)
    frame = pl.DataFrame(columns, schema=_SAMPLE_SCHEMA)
    return frame.lazy(), frame.height


def _checkpoints(files: Iterable[_File], observations: pl.DataFrame) -> tuple[Checkpoint, ...]:
    """Order checkpoints by step and give each the epoch that the log tells for it."""
    found = [checkpoint for file in files for checkpoint in file.checkpoints]
    epochs: dict[int, float] = {}
    if found:
        told = observations.drop_nulls("epoch").group_by("step").agg(pl.col("epoch").last())
        epochs = dict(told.iter_rows())
    twice = {step for step, count in Counter(item.step for item in found).items() if count > 1}
    return tuple(
        replace(
            item,
            epoch=epochs.get(item.step),
            name=item.path if item.step in twice else item.name,
        )
        for item in sorted(found, key=lambda item: (item.step, item.path))
    )
