"""Make one record of what several files logged: dialects, steps, translation, disagreements.

The record keeps every number as it was logged. The wide view takes, of several files that tell the
same metric at the same step, the last in order of precedence.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import polars as pl

from rlhfdoctor import registry
from rlhfdoctor.dialects import Derived, Dialect, Key, choose
from rlhfdoctor.errors import DoctorError
from rlhfdoctor.kinship import by_step, coarseness, same
from rlhfdoctor.model import Column, Conflict, Location, Note, Seam, Setting
from rlhfdoctor.readers._json import split_of
from rlhfdoctor.sheets import Sheet, bare
from rlhfdoctor.vocabulary import METRICS

MOST_PARTS = 200
"""Columns that one pattern of a dialect may open; no run has more reward functions."""

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


@dataclass(frozen=True, slots=True, eq=False)
class Log:
    """One file's rows and the dialect they are written in.

    printed: its numbers may lack digits (a console).
    """

    file: str
    sheet: Sheet
    dialect: Dialect
    printed: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """A translated log: wide (a column a known metric), and what became of each key."""

    log: Log
    wide: pl.DataFrame
    columns: Mapping[str, Column]
    keys: Mapping[str, tuple[str | None, str]] = field(default_factory=dict)
    notes: tuple[Note, ...] = ()


# Dialects


def spoken(
    sheets: Mapping[str, Sheet], config: Mapping[str, Setting], forced: Dialect | None
) -> tuple[Dialect, dict[str, Dialect]]:
    """Return the dialect of a run, and that of each of its files.

    The keys of all files together decide where they can; a file with marks of its own speaks its
    own dialect. A file without marks speaks the run's where it only repeats keys of files with
    marks; a home-made log beside a trainer's may mean anything by "kl".
    """
    if forced is not None:
        return forced, dict.fromkeys(sheets, forced)
    fallback = next(item for item in _dialects() if item.name == "generic")
    told = _named(config, "framework")
    own = {file: _chosen([sheet], config, fallback, told) for file, sheet in sheets.items()}
    marked = {file for file, dialect in own.items() if dialect is not fallback}
    frameworks = {own[file].framework for file in marked}
    for name in sorted(frameworks) if len(frameworks) > 1 and told is None else ():
        again = {file: _chosen([sheets[file]], config, fallback, name) for file in marked}
        if {dialect.framework for dialect in again.values()} == {name}:
            own.update(again)
    try:
        main = _chosen(list(sheets.values()), config, fallback, told)
    except DoctorError:
        if not marked:
            raise
        main = fallback
    frameworks = {own[file].framework for file in marked}
    if marked and (main is fallback or main.framework not in frameworks):
        main = own[max(marked, key=lambda file: (len(sheets[file].series), file))]
    spread = main.matched(frozenset().union(*map(_keys, sheets.values())))
    for file in marked:
        keys = _keys(sheets[file])
        part = own[file].matched(keys) <= spread
        if part or (own[file].framework == main.framework and main.matched(keys)):
            own[file] = main
    repeated = frozenset().union(*(map(bare, sheets[file].series) for file in marked))
    for file in own.keys() - marked:
        known = {key for key in map(bare, sheets[file].series) if main.meaning(key)}
        own[file] = main if not marked or known <= repeated else fallback
    return main, own


def speaks(sheet: Sheet | None, config: Mapping[str, Setting]) -> tuple[Dialect, ...]:
    """Return the dialects that a log may speak, by its own keys and settings; none where unknown.

    Several where trainers write the same keys; none where the marks contradict.
    """
    fallback = next(item for item in _dialects() if item.name == "generic")
    try:
        told = _named(config, "framework")
        found = _chosen([sheet] if sheet else [], config, fallback, told)
    except DoctorError:
        return ()
    names = found.name.split("|")
    return tuple(item for item in _dialects() if item.name in names and item is not fallback)


def _dialects() -> tuple[Dialect, ...]:
    return registry.members("dialects", Dialect)


def _named(config: Mapping[str, Setting], name: str) -> str | None:
    setting = config.get(name)
    return str(setting.value) if setting else None


def _chosen(
    sheets: Sequence[Sheet], config: Mapping[str, Setting], fallback: Dialect, told: str | None
) -> Dialect:
    keys = frozenset().union(*map(_keys, sheets))
    negative = frozenset(
        bare(key)
        for sheet in sheets
        for key, (_, values) in sheet.series.items()
        if (values < 0).any()
    )
    algorithm = _named(config, "algorithm")
    found = choose(_dialects(), keys, negative, algorithm, fallback, told)
    version = _named(config, "framework_version") if told in (None, found.framework) else None
    return found.at(version, keys) if found.changes else found


def _keys(sheet: Sheet) -> frozenset[str]:
    return frozenset(map(bare, (*sheet.series, *sheet.others)))


def _meaning(key: str, dialect: Dialect, mapping: Mapping[str, Key]) -> tuple[str, Key] | None:
    """Return the canonical name and meaning of a logged key, trackers' prefixes aside."""
    if key in mapping:
        return mapping[key].metric, mapping[key]
    return dialect.meaning(key) or dialect.meaning(bare(key))


# Translation


def translate(log: Log, mapping: Mapping[str, Key], config: Mapping[str, Setting]) -> Table:
    """Return a log's rows wide, under canonical names and corrected, and what each key became."""
    sheet, dialect = log.sheet, log.dialect
    named, notes = _translate(sheet, dialect, mapping)
    columns: dict[str, Column] = {}
    series: dict[str, pl.Series] = {}
    for key, (name, meaning) in named.items():
        values = sheet.column(key)
        corrections: tuple[str, ...] = ()
        if meaning.correction:
            values = meaning.correction.apply(values)
            corrections = (meaning.correction.text,)
        series[name] = values.alias(name)
        column = _column(name, meaning, (Location(log.file, key=key),), corrections)
        columns[name] = replace(column, printed=log.printed)
    bare_keys = {bare(key): key for key in sheet.series if split_of(key) == "train"}
    for derived in dialect.derived:
        name = derived.meaning.metric
        made = _derive(derived, sheet, bare_keys, config) if name not in series else None
        if made is not None:
            series[name] = made.alias(name)
            places = tuple(Location(log.file, key=bare_keys[key]) for key in derived.of)
            column = _column(name, derived.meaning, places, (derived.text,))
            columns[name] = replace(column, derived=derived.estimate)
    wide = sheet.index.drop("evaluation", "run").with_columns(
        series[name] for name in sorted(series)
    )
    keys = {
        key: (named[key][0].removeprefix("eval_") if key in named else None, split_of(key))
        for key in sheet.series
    }
    told = tuple(Note(f"{log.file}: {key}", why) for key, why in notes.items())
    return Table(log, wide, columns, keys, told)


def _column(
    name: str, meaning: Key, places: tuple[Location, ...], corrections: tuple[str, ...]
) -> Column:
    return Column(
        metric=name.removeprefix("eval_"),
        unit=meaning.unit or METRICS[meaning.metric].unit,
        estimator=meaning.estimator,
        reduction=meaning.reduction,
        corrections=corrections,
        sources=places,
    )


def _derive(
    derived: Derived, sheet: Sheet, keys: Mapping[str, str], config: Mapping[str, Setting]
) -> pl.Series | None:
    if not all(key in keys for key in derived.of):
        return None
    numbers = []
    for name in derived.settings:
        value = config[name].value if name in config else None
        if not isinstance(value, int | float) or not math.isfinite(value):
            return None
        numbers.append(float(value))
    made = derived.compute(*(sheet.column(keys[key]) for key in derived.of), *numbers)
    return pl.Series(made, dtype=pl.Float64)


def _translate(
    sheet: Sheet, dialect: Dialect, mapping: Mapping[str, Key]
) -> tuple[dict[str, tuple[str, Key]], dict[str, str]]:
    """Return the column and meaning of each key that has one, and why others are doubted.

    One key fills a column: where several mean the same metric, the user's wins, then the first that
    the dialect lists.
    """
    order = {key: rank for rank, key in enumerate(dialect.keys)}
    ranked = sorted(
        sheet.series,
        key=lambda key: (
            key not in mapping,
            min(order.get(dialect.spelling(item), len(order)) for item in (key, bare(key))),
            dialect.spelling(bare(key)) != bare(key),
            key,
        ),
    )
    columns: dict[str, tuple[str, Key]] = {}
    doubts: dict[str, str] = {}
    taken: set[str] = set()
    parts: Counter[str] = Counter()
    for key in ranked:
        found = _meaning(key, dialect, mapping)
        if found is None:
            continue
        column = f"eval_{found[0]}" if split_of(key) == "eval" else found[0]
        if column in taken:
            continue
        doubt = None if key in mapping else _doubt(sheet, key, dialect, found[1])
        if doubt:
            doubts[key] = doubt
            continue
        if "[" in column:
            parts[found[1].metric] += 1
            if parts[found[1].metric] > MOST_PARTS:
                continue
        columns[key] = (column, found[1])
        taken.add(column)
    return columns, doubts


def _doubt(sheet: Sheet, key: str, dialect: Dialect, meaning: Key) -> str | None:
    """Say why the values of a key cannot be what its name says; None where they can."""
    values = sheet.series[key][1]
    finite = values.filter(values.is_finite()) if dialect.normalised else values.head(0)
    if not finite.len():
        return None
    return dialect.doubt(meaning, _number(finite.min()), _number(finite.max()))


# The record


def record(tables: Sequence[Table]) -> pl.LazyFrame:
    """Return the long record of everything logged, in order of precedence.

    The same number at the same step, copied from one file to another, is recorded once, for the
    youngest file.
    """
    if not tables:
        return pl.LazyFrame(schema=OBSERVATIONS)
    frames = [_long(table) for table in tables]
    if len(frames) == 1:
        return frames[0]
    by = ["split", "step", "key", "value", "rank"]
    return pl.concat(frames).unique(by, keep="last", maintain_order=True)


def _long(table: Table) -> pl.LazyFrame:
    keys = list(table.keys)
    held = [table.log.sheet.series[key] for key in keys]
    series = pl.LazyFrame(
        {
            "key": keys,
            "metric": [table.keys[key][0] for key in keys],
            "split": [table.keys[key][1] for key in keys],
            "place": [places for places, _ in held],
            "value": [values for _, values in held],
        },
        schema_overrides={
            "key": pl.String,
            "metric": pl.String,
            "split": pl.String,
            **({} if held else {"place": pl.List(pl.UInt32), "value": pl.List(pl.Float64)}),
        },
    )
    index = table.log.sheet.index.lazy().drop("evaluation", "run").with_row_index("place")
    return (
        series.explode("place", "value")
        .join(index, on="place", maintain_order="left")
        .with_columns(source=pl.lit(table.log.file))
        .select(*OBSERVATIONS)
    )


def columns(tables: Sequence[Table], metrics: pl.DataFrame) -> dict[str, Column]:
    """Merge what the files tell of each column: the first file's meaning, every file's place."""
    found: dict[str, Column] = {}
    for table in tables:
        for name, column in table.columns.items():
            if name in metrics.columns:
                known = found.get(name, replace(column, sources=()))
                found[name] = replace(
                    known,
                    sources=(*known.sources, *column.sources),
                    printed=known.printed and column.printed,
                )
    return dict(sorted(found.items()))


def unmapped(tables: Sequence[Table]) -> dict[str, Location]:
    """Return the first place of each key that no file's dialect knows."""
    first: dict[str, Location] = {}
    for table in tables:
        lines = table.log.sheet.index["line"]
        for key, (metric, _) in table.keys.items():
            if metric is None and key not in first:
                place = table.log.sheet.series[key][0].min()
                line = lines[int(place)] if isinstance(place, int) else None
                first[key] = Location(table.log.file, key=key, line=line)
    return dict(sorted(first.items()))


def wide(tables: Sequence[Table], notes: list[Note]) -> tuple[pl.DataFrame, int]:
    """Make the wide view, one row a step, later rows last; count the steps with a train metric."""
    empty = pl.DataFrame(schema={"step": pl.Int64, "epoch": pl.Float64})
    names = sorted({name for table in tables for name in table.columns})
    if not names:
        return empty, 0
    merged = pl.concat([table.wide for table in tables], how="diagonal")
    merged = merged.filter(pl.any_horizontal(pl.col(names).is_not_null()))
    if merged["rank"].drop_nulls().n_unique() > 1:
        merged = _averaged(merged, names, notes)
    steps = merged["step"]
    if not bool((steps.diff().drop_nulls() > 0).all()):
        merged = (
            merged.group_by("step", maintain_order=True)
            .agg(pl.col("epoch", *names).drop_nulls().last())
            .sort("step")
        )
    made = merged.select("step", "epoch", *names)
    train = [name for name in names if not name.startswith("eval_")]
    logged = made.select(pl.any_horizontal(pl.col(train).is_not_null()).sum()) if train else None
    return made, int(logged.item()) if logged is not None else 0


def beyond(tables: Sequence[Table], metrics: pl.DataFrame) -> Iterator[Note]:
    """Yield where a log goes on behind the last step at which any known metric was logged."""
    last = int(metrics["step"][-1]) if metrics.height else None
    for table in tables:
        index = table.log.sheet.training
        count = index.filter(pl.col("step") > last).height if last is not None else 0
        if count:
            told = f"goes on for {count} rows behind step {last} without a key of known meaning"
            yield Note(table.log.file, told, left_out=count)


def _averaged(merged: pl.DataFrame, names: Sequence[str], notes: list[Note]) -> pl.DataFrame:
    """Average the processes of a run by their tokens; say where they lie furthest apart.

    Rows without a rank are the run's own average, and are left alone.
    """
    last = (
        merged.drop_nulls("rank")
        .group_by("step", "rank", maintain_order=True)
        .agg(pl.col("epoch", *names).drop_nulls().last())
    )
    weight = pl.col("batch_tokens").fill_null(1.0) if "batch_tokens" in names else pl.lit(1.0)
    told = {name: weight.filter(pl.col(name).is_not_null()).sum() for name in names}
    means = [
        pl.col(name).max()
        if name.endswith("_max")
        else pl.col(name).min()
        if name.endswith("_min")
        else pl.when(pl.col(name).count() > 0).then((pl.col(name) * weight).sum() / told[name])
        for name in names
    ]
    by_step = last.group_by("step", maintain_order=True)
    spread = by_step.agg((pl.col(name).max() - pl.col(name).min()) for name in names)
    size = last.select((pl.col(name).abs().median()) for name in names).row(0, named=True)
    relative = {
        name: _number(spread[name].max()) / size[name]
        for name in names
        if size[name] and spread[name].max() is not None
    }
    count = last["rank"].n_unique()
    by_what = "by their tokens" if "batch_tokens" in names else "with equal weight"
    text = f"{count} ranks were averaged {by_what}"
    if relative:
        name = max(relative, key=lambda item: (relative[item], item))
        step = spread["step"][int(spread[name].arg_max() or 0)]
        apart = _number(spread[name].max())
        text += f"; they lie furthest apart in {name}, by {apart:.3g} at step {step}"
    notes.append(Note("ranks", text))
    averaged = by_step.agg(pl.col("epoch").drop_nulls().last(), *means)
    whole = merged.filter(pl.col("rank").is_null()).select("step", "epoch", *names)
    return pl.concat([whole, averaged.select("step", "epoch", *names)]).sort(
        "step", maintain_order=True
    )


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else 0.0


# Several files about the same steps


def conflicts(tables: Sequence[Table]) -> Iterator[Conflict]:
    """Yield where files tell different numbers for the same step and key.

    Processes of one run are no conflict, nor are the digits that a console leaves out.
    """
    told: dict[str, list[Table]] = defaultdict(list)
    for table in tables:
        if table.log.sheet.index["rank"].null_count():
            for key in table.keys:
                told[key].append(table)
    for key, several in sorted(told.items()):
        if len(several) > 1:
            found = _conflict(key, several)
            if found is not None:
                yield found


def _conflict(key: str, tables: Sequence[Table]) -> Conflict | None:
    frames = [
        by_step(table.log.sheet, key).with_columns(file=pl.lit(table.log.file)) for table in tables
    ]
    found = (
        pl.concat(frames)
        .group_by("step", maintain_order=True)
        .agg(pl.col("value"), pl.col("file"))
        .filter(pl.col("value").list.n_unique() > 1)
        .sort("step")
    )
    printed = {table.log.file for table in tables if table.log.printed}
    coarse = max(coarseness(frame["value"].to_list()) for frame in frames)
    first: tuple[int, list[float], list[str]] | None = None
    count = 0
    for step, values, where in found.iter_rows():
        shortened = not printed.isdisjoint(where)
        if not all(
            abs(values[-1] - value) <= coarse or same(values[-1], value, shortened)
            for value in values[:-1]
        ):
            count += 1
            first = first or (step, values, where)
    if first is None:
        return None
    return Conflict(
        key=key,
        steps=count,
        first_step=first[0],
        values=tuple(first[1]),
        files=tuple(first[2]),
        kept=Location(tables[-1].log.file, key=key),
    )


def seams(tables: Sequence[Table]) -> Iterator[Seam]:
    """Yield where a log goes back to an earlier step: the run was resumed; once for each place."""
    told: set[tuple[int, int]] = set()
    for table in tables:
        index = table.log.sheet.training
        places = index.select("step", "segment", "line", before=pl.col("step").shift())
        for step, line, before in (
            places.filter(pl.col("segment").diff() > 0).select("step", "line", "before").iter_rows()
        ):
            if (before, step) not in told:
                told.add((before, step))
                yield Seam(before, step, Location(table.log.file, line=line))
