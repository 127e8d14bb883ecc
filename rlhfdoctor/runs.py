"""Read runs: read the claimed files, choose the dialect, merge sources, tell runs apart.

``read_runs`` accepts a folder or a file and returns every run in it.
"""

from __future__ import annotations

import json
import math
import os
import stat
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import polars as pl

from rlhfdoctor import merge, registry
from rlhfdoctor.claims import Claim, check_bundle, claim, found, homes, shown
from rlhfdoctor.dialects import Dialect, Key
from rlhfdoctor.errors import DoctorError, UnreadableRun, did_you_mean
from rlhfdoctor.kinship import evaluations, families, lent_steps, nearest, ranks
from rlhfdoctor.measures import log_fingerprint
from rlhfdoctor.model import (
    Checkpoint,
    Location,
    Note,
    Row,
    Rows,
    Run,
    Sample,
    Setting,
    Source,
)
from rlhfdoctor.readers import Item, Role
from rlhfdoctor.readers._json import clean
from rlhfdoctor.readers._scores import Recomputed
from rlhfdoctor.readers.samples import read_samples
from rlhfdoctor.sheets import (
    Builder,
    Sheet,
    by_run,
    counted_between,
    counted_on,
    numbered,
    parts,
    placed_by_epoch,
    restarts,
    segmented,
)
from rlhfdoctor.vocabulary import METRICS
from rlhfdoctor.voices import UNSAID, Voice, doubtful, voice

MOST_LENDERS = 8
"""Logs whose steps are tried on a log without; the longest that no console printed first."""

NUMBERED = "numbered from 1"
"""How a note says that the steps of a log are but the numbers of its rows."""

TOTALS = ("max_steps", "total_steps")
"""Logged keys that tell how many steps were planned (ms-swift, LLaMA-Factory)."""

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
    "tokens": pl.Int64,
    "logprobs": pl.List(pl.Float64),
    "ref_logprobs": pl.List(pl.Float64),
    "chosen": pl.String,
    "rejected": pl.String,
}
"""Columns of ``Run.samples``."""


@dataclass(slots=True)
class _File:
    """What one file held, before it is translated. role: as its reader says; "log" without one."""

    name: str
    reader: str
    role: Role = "other"
    sheet: Sheet | None = None
    samples: list[Sample] = field(default_factory=list)
    settings: list[Setting] = field(default_factory=list)
    checkpoints: list[Checkpoint] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)

    @property
    def updates_done(self) -> float:
        """How far the trainer was when it wrote the file; the youngest copy has the most."""
        done = [float(item.value) for item in self.settings if item.name == "updates_done"]
        return max(done, default=0.0)

    @property
    def traced(self) -> bool:
        """Whether a file without a row is a trainer's log: it says whose, or how it ended."""
        told = {item.name for item in self.settings}
        return self.role == "tracker" or (
            self.role == "text" and not told.isdisjoint(("framework", "ended_with"))
        )

    @property
    def log(self) -> bool:
        """Whether it makes its folder a run, with or without a row."""
        return self.role in ("log", "tracker")

    @property
    def held(self) -> int:
        """How many records it holds."""
        rows = len(self.sheet) if self.sheet else 0
        return rows or len(self.samples) or len(self.checkpoints) or len(self.settings)


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
    groups = _grouped(root, notes) if _is_folder(root) else {root: [_read_file(root)]}
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
        check_bundle(root)
        told = [note for files in groups.values() for file in files for note in file.notes]
        why = "; ".join(f"{note.where}: {note.text}" for note in (*told, *notes)[:3])
        raise UnreadableRun(
            f"no log and no samples in {path}" + (f" ({why})" if why else ""),
            "a run has a trainer_state.json, event files, a console log, or metrics as JSON Lines",
        )
    runs: list[Run] = []
    for place, files in sorted(groups.items()):
        if place in held or any(file.log for file in files):
            runs.extend(_build(place, [*files, *extra], forced, checked))
        elif len(groups) > 1:
            where = shown(place.relative_to(root))
            notes.append(Note(where, "holds no log and no samples; not a run"))
    _check_keys(checked, runs)
    first, *rest = runs
    return (replace(first, notes=(*first.notes, *notes)), *rest)


def samples_as_run(
    path: str | Path, samples: Iterable[tuple[str, Sample]], notes: Iterable[Note] = ()
) -> Run:
    """Make a run without a log of samples, each with the name of its file."""
    files: dict[str, _File] = {}
    for name, sample in samples:
        files.setdefault(name, _File(name, "samples")).samples.append(sample)
    run = _build(Path(path), list(files.values()), None, {})[0]
    return replace(run, notes=(*run.notes, *notes))


def _sampled(place: Path) -> Iterator[Item]:
    """Read a sample file, whatever it is."""
    found = claim(place)
    if found and found.reader and found.reader.role == "table":
        return found.reader.read(place)
    return read_samples(place)


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
    return any(file.sheet or file.samples or file.traced for file in files)


def _grouped(root: Path, notes: list[Note]) -> dict[Path, list[_File]]:
    """Read everything under a folder, and sort it by the folder of the run it belongs to."""
    claims = found(root, notes)
    doubtful = [item for item in claims if item.reader and item.reader.role == "doubtful"]
    read = [(item.path, _read(item)) for item in claims if item not in doubtful]
    logs = [path for path, file in read if file.sheet or file.log or file.traced]
    if logs:
        told = "may hold metrics, but is not named like a log, and logs are there; not read"
        notes.extend(Note(shown(item.path.relative_to(root)), told) for item in doubtful)
    else:
        read += [(item.path, _read(item)) for item in doubtful]
        logs = [path for path, file in read if file.sheet]
    samples = [path for path, file in read if file.samples]
    placed = homes(root, logs, samples, [path for path, _ in read])
    groups: dict[Path, list[_File]] = defaultdict(list)
    for path, file in read:
        place = placed[path]
        groups[place].append(_named(file, shown(path.relative_to(place))))
    return groups


def _read(claimed: Claim) -> _File:
    if claimed.reader is None:
        note = Note(claimed.name, claimed.reason, unread=True)
        return _File(claimed.name, "none", "log", notes=[note])
    file = _File(claimed.name, claimed.reader.name, claimed.reader.role)
    return _fill(file, claimed.reader.read(claimed.path), claimed.path)


def _read_file(path: Path) -> _File:
    claimed = claim(path)
    if claimed is None or claimed.reader is None:
        why = f": it {claimed.reason}" if claimed else ""
        raise UnreadableRun(
            f"no reader understands {shown(Path(path.name))[:200]}{why}",
            "known are trainer_state.json, event files, .wandb, JSON Lines, CSV, Parquet and texts",
        )
    return _named(_read(claimed), shown(Path(path.name)))


def _read_samples(path: Path) -> _File:
    if _is_folder(path):
        raise UnreadableRun(f"{path} is a folder", "--samples takes a JSON Lines file of samples")
    return _named(_fill(_File("", "samples"), _sampled(path)), shown(path))


def _fill(file: _File, items: Iterator[Item], place: Path | None = None) -> _File:
    """Sort what a reader yields; a file that cannot be read to its end is noted.

    place: the path that was read; a checkpoint may lie deeper inside it.
    """
    built = Builder()
    try:
        for item in items:
            match item:
                case Row() | Rows():
                    built.add(item)
                case Sample():
                    file.samples.append(item)
                case Checkpoint():
                    _, _, below = item.path.partition(f"{place}/")
                    inside = shown(Path(below)) if below else ""
                    file.checkpoints.append(replace(item, path=inside, name=clean(item.name)))
                case Setting():
                    file.settings.append(item)
                case Note():
                    file.notes.append(item)
    except OSError as error:
        told = f"cannot be read ({error.strerror})"
        file.notes.append(Note(file.name, told, unread=True))
    if built.refused:
        told = f"{built.refused} values lie under more keys than any log has; left out"
        file.notes.append(Note(file.name, told, left_out=built.refused))
    file.sheet = built.sheet() if built.steps else None
    return file


def _named(file: _File, name: str) -> _File:
    """Give what a reader yielded the name of its file within the run."""
    folder = name.rpartition("/")[0]
    prefix = f"{folder}/" if folder else ""
    return replace(
        file,
        name=name,
        checkpoints=[
            replace(item, path=f"{name}/{item.path}" if item.path else name)
            for item in file.checkpoints
        ],
        settings=[replace(item, where=replace(item.where, file=name)) for item in file.settings],
        notes=[replace(item, where=clean(prefix + item.where)) for item in file.notes],
    )


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
    logged: set[str] = set()
    if mapping:
        for run in runs:
            logged.update(run.observations.select("key").unique().collect()["key"])
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
            f"known are {', '.join(sorted(dialects))}; or leave it out and name keys with --map",
        )
    return dialects[name]


# From files to runs


def _build(
    place: Path, files: list[_File], forced: Dialect | None, mapping: Mapping[str, Key]
) -> list[Run]:
    """Build the runs of one place.

    Its logs are one run, unless they contradict each other from their first step on; several where
    the only log starts over, and besides those that a file of several runs names.
    """
    named = {file.name: by_run(file.sheet) for file in files if file.sheet}
    several = [file for file in files if len(named.get(file.name, ())) > 1]
    single = [file for file in files if file not in several]
    runs: list[Run] = []
    if _holds(single) or not several:
        runs += _single(place, single, forced, mapping)
    beside = [
        file
        for file in single
        if not file.sheet and (file.role == "config" or not (runs or file.samples))
    ]
    for file in several:
        for name, sheet in named[file.name].items():
            logs = _on_one_axis([*beside, replace(file, sheet=sheet, settings=[])])
            for run in _restarted(place, logs, forced, mapping):
                own = run.name.rpartition("#")[2] if "#" in run.name else ""
                label = f"{name}#{own}" if own else name
                runs.append(replace(run, name=f"{run.name.partition('#')[0]}#{label}"))
    return runs


def _single(
    place: Path, files: list[_File], forced: Dialect | None, mapping: Mapping[str, Key]
) -> list[Run]:
    """Build the runs that the logs of a place tell of: one family of logs each.

    What lies beside the logs belongs to the nearest of them whose trainer it does not contradict;
    configurations to all that are as near, samples and checkpoints to the first. What a trainer
    of its own printed without a row is a run too.
    """
    heard = {} if forced else {file.name: _voice(file) for file in files}
    camps = _camps(files, heard)
    ready = [file for camp in camps for file in _on_one_axis(_without_summaries(camp), files)]
    ready = sorted(ready, key=_precedence) if len(camps) > 1 else ready
    several = sum(file.sheet is not None for file in ready) > 1
    cut = [(file.name, part) for file in ready for part in (_cut(file) if several else [file])]
    voices = {part.name: heard.get(name, UNSAID) for name, part in cut}
    files = [part for _, part in cut]
    logs = {file.name: file.sheet for file in files if file.sheet}
    printed = {file.name for file in files if file.role == "text"}
    groups = families(logs, printed, voices) if len(logs) > 1 else [[*logs]]
    for file in files if logs else ():
        if file.traced and file.name not in logs and not _fitting(file.name, groups, voices):
            groups.append([file.name])
    if len(groups) < 2:
        return _restarted(place, files, forced, mapping)
    held: list[list[_File]] = [[] for _ in groups]
    for file in files:
        near = [n for n, group in enumerate(groups) if file.name in group]
        if not near:
            able = _fitting(file.name, groups, voices) or range(len(groups))
            near = [able[n] for n in nearest(file.name, [groups[n] for n in able])]
        for number in near if file.role == "config" else near[:1]:
            held[number].append(file)
    runs = []
    for group, members in zip(groups, held, strict=True):
        told = Note(group[0], _why(group, groups, voices))
        for run in _restarted(place, members, forced, mapping):
            name = f"{run.name}#{group[0]}"
            runs.append(replace(run, name=name, notes=(*run.notes, told)))
    return runs


def _voice(file: _File) -> Voice:
    own = {item.name: item for item in file.settings}
    return voice(merge.speaks(file.sheet, own), file.settings)


def _fitting(
    name: str, groups: Sequence[Sequence[str]], voices: Mapping[str, Voice]
) -> Sequence[int]:
    """Return the groups of which no log contradicts what a file says of its trainer."""
    return [
        number
        for number, group in enumerate(groups)
        if not any(voices[name].contradicts(voices[other]) for other in group)
    ]


def _why(group: Sequence[str], groups: Sequence[Sequence[str]], voices: Mapping[str, Voice]) -> str:
    """Say why a group of logs is a run of its own."""
    others = [name for other in groups if other is not group for name in other]
    foreign = sum(any(voices[name].contradicts(voices[mine]) for mine in group) for name in others)
    if foreign:
        return f"is of another trainer or algorithm than {foreign} logs beside it; a run of its own"
    if not any(voices[name].named for name in group) and any(voices[n].named for n in others):
        return f"nothing ties it to one of the {len(groups) - 1} runs beside it; a run of its own"
    return f"contradicts {len(groups) - 1} other logs beside it; a run of its own"


def _camps(files: list[_File], voices: Mapping[str, Voice]) -> list[list[_File]]:
    """Sort files by trainer and algorithm, so that none takes steps or settings of another's run.

    One camp, unless the voices of two logs contradict. What names no trainer is a camp of its own.
    """
    logs = {file.name: voices[file.name] for file in files if file.sheet and file.name in voices}
    kinds = {said for said in logs.values() if said.named}
    if not any(one.contradicts(other) for one in kinds for other in kinds):
        return [files]
    unsure = doubtful(logs)
    camps: list[list[_File]] = []
    for file in files:
        said = logs.get(file.name, UNSAID)
        alike = [
            camp
            for camp in camps
            for first in [logs.get(camp[0].name, UNSAID)]
            if first == said
            or (
                first.named
                and said.named
                and not {file.name, camp[0].name} & unsure
                and not first.contradicts(said)
            )
        ]
        if alike:
            alike[0].append(file)
        else:
            camps.append([file])
    return camps


def _cut(file: _File) -> list[_File]:
    """Cut a log that stands beside others where it starts over; it may be that of several runs."""
    if file.sheet is None or not file.sheet.index["rank"].null_count():
        return [file]
    starts = restarts(file.sheet)
    if not starts:
        return [file]
    return [
        replace(
            file,
            name=f"{file.name}#{number}",
            sheet=sheet,
            settings=file.settings,
            notes=[*file.notes, Note(file.name, f"starts over {len(starts)} times")],
        )
        for number, sheet in enumerate(parts(file.sheet, starts), start=1)
    ]


def _restarted(
    place: Path, files: list[_File], forced: Dialect | None, mapping: Mapping[str, Key]
) -> list[Run]:
    """Build one run of files, or several where their only log starts over."""
    logs = [file for file in files if file.sheet]
    starts = restarts(logs[0].sheet) if len(logs) == 1 and logs[0].sheet else []
    if not starts:
        return [_run(place, files, forced, mapping)]
    runs = []
    for number, sheet in enumerate(parts(_sheet(logs[0]), starts), start=1):
        told = Note(logs[0].name, f"starts over {len(starts)} times; this is run {number}")
        log = replace(logs[0], sheet=sheet, notes=[*logs[0].notes, told])
        last = number == len(starts) + 1
        others = [file for file in files if not file.sheet and (last or file.role == "config")]
        run = _run(place, [*others, log], forced, mapping)
        runs.append(replace(run, name=f"{run.name}#{number}"))
    return runs


def _without_summaries(files: Sequence[_File]) -> list[_File]:
    """Leave out files that hold only the last values, where other files tell the history."""
    histories = [file for file in files if file.sheet and file.role != "summary"]
    told = "holds only last values; the run's history is told by other files"
    return [
        replace(file, sheet=None, notes=[*file.notes, Note(file.name, told)])
        if histories and file.sheet and file.role == "summary"
        else file
        for file in files
    ]


def _sheet(file: _File) -> Sheet:
    if file.sheet is None:
        raise ValueError(f"{file.name} holds no rows")
    return file.sheet


def _on_one_axis(files: Sequence[_File], place: Sequence[_File] = ()) -> list[_File]:
    """Put the logs of a run on one axis of steps, the one to be believed first last.

    Steps that are counted anew in each epoch are put end to end; a log without steps, or with
    others, takes those of a log that tells the same numbers; what remains without is numbered.
    place: all that lies beside them, of which configurations hold for every run.
    """
    held = {file.name for file in files}
    config = _config(
        [*files, *(file for file in place if file.role == "config" and file.name not in held)]
    )
    logs = [file.name for file in (place or files) if file.sheet]
    evaluated, processes = evaluations(logs), ranks(logs)
    made = [_counted(file, config, evaluated) if file.sheet else file for file in files]
    lenders = {
        file.name: file.sheet
        for file in sorted(made, key=lambda file: (file.role == "text", -file.held))
        if file.sheet and not _stepless(file.sheet) and file.name not in processes
    }
    lenders = dict(list(lenders.items())[:MOST_LENDERS])
    for number, file in enumerate(made):
        if file.sheet is None:
            continue
        sheet, notes = file.sheet, list(file.notes)
        others = {name: other for name, other in lenders.items() if name != file.name}
        printed = file.role == "text"
        lent = None if file.name in processes else lent_steps(sheet, others, printed)
        if lent is not None:
            sheet, lender = lent
            notes.append(Note(file.name, f"its rows are those of {lender}, whose steps they take"))
            lenders[file.name] = sheet
        elif _stepless(sheet):
            sheet = _number(file.name, sheet, config, lenders, notes)
        elif sheet.index["step"].null_count():
            sheet = _filled(file.name, sheet, notes)
        if file.name in processes:
            sheet = sheet.with_index(rank=[processes[file.name]] * len(sheet))
        made[number] = replace(file, sheet=segmented(sheet), notes=notes)
    return sorted(made, key=_precedence)


def _precedence(file: _File) -> tuple[bool, float, float, str]:
    """Order files by how far they are believed where they tell the same: the last is.

    A log made for machines before what was printed, the state of the trainer that was further
    before another, what was logged after a resume before what it began from.
    """
    steps = file.sheet.index["step"].drop_nulls() if file.sheet else None
    first = float(steps[0]) if steps is not None and steps.len() else -math.inf
    return (file.role != "text", file.updates_done, first, file.name)


def _counted(file: _File, config: Mapping[str, Setting], evaluated: Collection[str]) -> _File:
    """Put steps end to end that are counted anew in each epoch; mark a log of evaluations."""
    sheet, notes = _sheet(file), list(file.notes)
    planned = config.get("planned_steps")
    own = planned is not None and planned.where.file == file.name
    period = planned.value if planned and own and isinstance(planned.value, int | float) else None
    sheet, times = counted_on(sheet, period)
    settings = file.settings
    if times:
        told = f"steps are counted anew in each epoch; put end to end {times} times"
        notes.append(Note(file.name, told))
        settings = [item for item in settings if item.name != "planned_steps"]
    if file.name in evaluated:
        notes.append(Note(file.name, "is called a log of evaluations; read as one"))
        sheet = sheet.as_evaluation()
    return replace(file, sheet=sheet, notes=notes, settings=settings)


def _filled(name: str, sheet: Sheet, notes: list[Note]) -> Sheet:
    """Give rows without a step the one that is due; leave out those for which none is."""
    sheet, times = counted_between(sheet)
    if times:
        notes.append(
            Note(name, f"{times} rows carry no step; they were given the one that was due")
        )
    if missing := sheet.index["step"].null_count():
        told = f"{missing} rows carry no step and were left out"
        notes.append(Note(name, told, left_out=missing))
        sheet = sheet.take(sheet.index["step"].is_not_null().to_list())
    return sheet


def _stepless(sheet: Sheet) -> bool:
    """Say whether most rows carry no step, so that all are numbered."""
    return 2 * sheet.index["step"].null_count() > len(sheet)


def _number(
    name: str,
    sheet: Sheet,
    config: Mapping[str, Setting],
    lenders: Mapping[str, Sheet],
    notes: list[Note],
) -> Sheet:
    """Number rows without a step: by their epochs, by the logging interval, else from 1."""
    none = sheet.index["step"].null_count() == len(sheet)
    what = "no step is logged" if none else "most rows carry no step"
    every = config["logging_steps"].value if "logging_steps" in config else None
    known = isinstance(every, int | float) and every >= 1 and float(every).is_integer()
    interval = int(every) if known and isinstance(every, int | float) else 1
    for lender, other in lenders.items():
        placed = placed_by_epoch(sheet, other, interval)
        if placed is not None:
            notes.append(Note(name, f"{what}; the rows were placed by their epochs in {lender}"))
            return placed
    if known:
        notes.append(Note(name, f"{what}; the rows were numbered by logging_steps = {interval}"))
        return numbered(sheet, interval)
    notes.append(Note(name, f"{what}; the rows were {NUMBERED}"))
    return numbered(sheet)


def _run(
    place: Path, files: list[_File], forced: Dialect | None, mapping: Mapping[str, Key]
) -> Run:
    notes = [note for file in files for note in file.notes]
    config = _config(files)
    sheets = {file.name: file.sheet for file in files if file.sheet}
    spoken, dialects = merge.spoken(sheets, config, forced)
    tables = [
        merge.translate(
            merge.Log(file.name, file.sheet, dialects[file.name], file.role == "text"),
            mapping,
            config,
        )
        for file in files
        if file.sheet
    ]
    notes.extend(note for table in tables for note in table.notes)
    metrics, logged = merge.wide(tables, notes)
    notes.extend(merge.beyond(tables, metrics))
    observations = merge.record(tables)
    algorithm, framework = spoken.algorithm, spoken.framework
    if (algorithm == "unknown" or " or " in algorithm) and "algorithm" in config:
        algorithm = str(config["algorithm"].value)
    if framework == "unknown" and "framework" in config:
        framework = str(config["framework"].value)
    sample_frame, sample_count = _samples(files)
    return Run(
        path=shown(place),
        name=shown(Path(Path(os.path.abspath(place)).name)),
        framework=framework,
        algorithm=algorithm,
        dialect=spoken.name,
        step_unit=_step_unit(files),
        sources=tuple(
            Source(
                file=file.name,
                reader=file.reader,
                dialect=dialects[file.name].name if file.sheet else None,
                rows=file.held,
            )
            for file in files
            if file.reader != "none" and (file.held or file.log or file.traced)
        ),
        observations=observations,
        metrics=metrics,
        columns=merge.columns(tables, metrics),
        unmapped=merge.unmapped(tables),
        samples=sample_frame,
        sample_count=sample_count,
        logged_steps=logged,
        checkpoints=_checkpoints(files, metrics),
        config=config,
        log_offset=spoken.log_offset,
        conflicts=tuple(merge.conflicts(tables)),
        seams=tuple(merge.seams(tables)),
        notes=_told_once(notes),
    )


def _told_once(notes: Iterable[Note]) -> tuple[Note, ...]:
    """Leave out what a note about an earlier file says word for word of a file that is not read."""
    first: dict[tuple[str, str], Note] = {}
    for note in notes:
        pickle = note.text.startswith("is a pickle")
        first.setdefault(("", note.text) if pickle else (note.where, note.text), note)
    return tuple(first.values())


def _step_unit(files: Iterable[_File]) -> str:
    """Return "row" where rows had to be numbered, "step" where the trainer counted."""
    numbered_rows = any(NUMBERED in note.text for file in files for note in file.notes)
    return "row" if numbered_rows else "step"


def _config(files: Iterable[_File]) -> dict[str, Setting]:
    """Merge settings; the trainer's own state wins over files that a script wrote."""
    ordered = sorted(files, key=lambda file: file.reader == "trainer_state")
    config = {setting.name: setting for file in ordered for setting in file.settings}
    for file in ordered:
        for key in TOTALS if file.sheet else ():
            if "planned_steps" not in config and key in _sheet(file).series:
                total = _sheet(file).series[key][1][-1]
                config["planned_steps"] = Setting(
                    "planned_steps", total, Location(file.name, key=key)
                )
    return config


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
                    value = json.dumps(dict(sorted(value.items())), ensure_ascii=False)
                columns[name].append(value)
    frame = pl.DataFrame(columns, schema=SAMPLES)
    return frame.lazy(), frame.height


def _between(
    steps: Sequence[int], epochs: Sequence[float], step: int, otherwise: float | None
) -> float | None:
    """Return the epoch of a step: as logged, else on the line between the rows around it."""
    place = bisect_left(steps, step)
    if place < len(steps) and steps[place] == step:
        return epochs[place]
    if not 0 < place < len(steps):
        return otherwise
    share = (step - steps[place - 1]) / (steps[place] - steps[place - 1])
    return epochs[place - 1] + share * (epochs[place] - epochs[place - 1])


def _checkpoints(files: Iterable[_File], metrics: pl.DataFrame) -> tuple[Checkpoint, ...]:
    """Order checkpoints by step and give each the epoch that the log tells for it."""
    found = [checkpoint for file in files for checkpoint in file.checkpoints]
    epochs = metrics.select("step", "epoch").drop_nulls() if found else metrics.head(0)
    steps, told = epochs["step"].to_list(), epochs["epoch"].to_list()
    held = Counter((item.step, item.role) for item in found)
    return tuple(
        replace(
            item,
            epoch=_between(steps, told, item.step, item.epoch),
            name=item.path if held[item.step, item.role] > 1 else item.name,
        )
        for item in sorted(found, key=lambda item: (item.step, item.path))
    )
