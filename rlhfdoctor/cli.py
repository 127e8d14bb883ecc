"""The command line: parse, call, print, exit. No judgement is made here.

Exit codes: 0 healthy or done, 1 a finding at or above ``--fail-on``, 2 bad arguments or an
unreadable run, 3 a required rule could not look, 4 a bug of ours, 130 interrupted.
"""

from __future__ import annotations

import enum
import gc
import os
import shutil
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import fields, replace
from datetime import date
from functools import partial, wraps
from inspect import Parameter, Signature, signature
from itertools import chain, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from rlhfdoctor import __version__
from rlhfdoctor.errors import DoctorError, bug
from rlhfdoctor.paths import inside, same
from rlhfdoctor.replay import KEEP, Constants

if TYPE_CHECKING:
    from rlhfdoctor.backtest import Judge
    from rlhfdoctor.gate import Terms
    from rlhfdoctor.model import Diagnosis, Finding, Note, Run, Sample
    from rlhfdoctor.profile import Profile
    from rlhfdoctor.reports import Page
    from rlhfdoctor.rollback import Vet
    from rlhfdoctor.summaries import Summary

UsageError: Any = typer.BadParameter.__base__

_NO_LINK = getattr(os, "O_NOFOLLOW", 0)

NARROWEST = 40
"""Columns below which a terminal's width is not obeyed: words would be cut."""

KEEP_PAGES = ("_RJEM_MALLOC_CONF", "dirty_decay_ms:2000,muzzy_decay_ms:2000")
"""What the allocator of polars reads when polars is imported: keep the pages that one block of
samples has freed for the next. By default they are given back at once and faulted in again: twice
the page faults and half as much CPU time again over 200 MB."""

FEW_COLLECTIONS = (50_000, 20, 20)
"""Thresholds of the garbage collector: imports make hundreds of thousands of objects that stay, and
the usual 700 looks at them again and again, 20 ms of CPU time."""

LEAST_MEMORY = 128 * 2**20
"""Bytes below which not even one block of samples can be counted."""

app = typer.Typer(
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Post-mortems of RLHF and preference-tuning runs.",
    epilog="Exit codes: 0 fine, 1 unhealthy, 2 error, 3 could not look, 4 bug, 130 interrupted.",
)

profiles = typer.Typer(help="The limits that a judgement rests on.", rich_markup_mode=None)
app.add_typer(profiles, name="profile")


class FailOn(str, enum.Enum):
    """Severities of ``--fail-on``."""

    critical = "critical"
    warning = "warning"
    info = "info"


class By(str, enum.Enum):
    """What ``samples --by`` breaks down by."""

    step = "step"


class Target(str, enum.Enum):
    """What ``export --to`` makes."""

    grafana = "grafana"
    openmetrics = "openmetrics"
    parquet = "parquet"
    csv = "csv"


class Axis(str, enum.Enum):
    """What ``compare --by`` aligns runs by."""

    step = "step"
    kl = "kl"
    epoch = "epoch"


RunPath = Annotated[
    Path, typer.Argument(metavar="RUN", readable=False, help="Run folder or log file; - is stdin.")
]
RunPaths = Annotated[
    list[Path] | None,
    typer.Argument(metavar="RUN...", readable=False, help="Run folders or log files."),
]
Samples = Annotated[
    list[Path] | None,
    typer.Option("--samples", metavar="FILE", help="Further sample file (repeatable)."),
]
DialectName = Annotated[
    str | None, typer.Option("--dialect", help="Trainer that wrote the log, where marks conflict.")
]
Maps = Annotated[
    list[str] | None,
    typer.Option("--map", metavar="KEY=METRIC", help="What a logged key means (repeatable)."),
]
ProfileName = Annotated[
    str | None,
    typer.Option(
        "--profile", metavar="NAME|TOML", help="Limits; chosen by the run's algorithm if left out."
    ),
]
Config = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="TOML",
        help="How runs are judged; rlhfdoctor.toml or pyproject.toml of the working directory.",
    ),
]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="CODE.LIMIT=VALUE", help="One limit (repeatable)."),
]
RunNumber = Annotated[
    int | None, typer.Option("--run", min=1, help="Which run, where the input holds several.")
]
Fail = Annotated[
    FailOn | None, typer.Option("--fail-on", help="Exit with 1 from this severity up.")
]
Format = Annotated[
    str,
    typer.Option(
        "--format",
        help="What is printed: terminal, json, markdown, html, junit, sarif, github or slack.",
    ),
]
TableFormat = Annotated[
    str, typer.Option("--format", help="What is printed: terminal, json or markdown.")
]
Outputs = Annotated[
    list[str] | None,
    typer.Option("--output", metavar="FORMAT=PATH", help="Also write a report (repeatable)."),
]
References = Annotated[
    list[Path] | None,
    typer.Option("--reference", metavar="MODEL", help="Local model to compare with (repeatable)."),
]
Scores = Annotated[
    list[Path] | None,
    typer.Option("--scores", metavar="FILE", help="What recompute wrote as JSON (repeatable)."),
]
DtypeName = Annotated[
    str, typer.Option("--dtype", help="auto, float32, bfloat16, float16 or float64.")
]
DeviceName = Annotated[str, typer.Option("--device", help="auto, cpu, cuda, cuda:1, ...")]
MaxSamples = Annotated[
    int | None, typer.Option("--max-samples", min=1, help="Samples scored of each set.")
]
Temperature = Annotated[
    float | None, typer.Option("--temperature", help="Divides logits; the run's own, else 1.")
]
GpuHourCost = Annotated[
    float | None,
    typer.Option(
        "--gpu-hour-cost",
        min=0,
        max=1e9,
        help="The price of one GPU-hour: what was lost is told in money.",
    ),
]
CrashStep = Annotated[
    int | None, typer.Option("--crash-step", min=0, help="The crash step, where it is known.")
]
NotifyUrl = Annotated[
    str | None,
    typer.Option("--notify-url", metavar="URL", help="Post the five lines to this web hook."),
]


def _version(asked: bool) -> None:
    if asked:
        _print(f"rlhfdoctor {__version__}\n")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of a bug.")] = False,
) -> None:
    pass


@app.command()
def diagnose(
    run: RunPath = Path(),
    samples: Samples = None,
    dialect: DialectName = None,
    mapping: Maps = None,
    profile: ProfileName = None,
    settings: Settings = None,
    config: Config = None,
    run_number: RunNumber = None,
    reference: References = None,
    max_samples: MaxSamples = None,
    temperature: Temperature = None,
    dtype: DtypeName = "auto",
    device: DeviceName = "auto",
    scores: Scores = None,
    fail_on: Fail = None,
    crash_step: CrashStep = None,
    gpu_hour_cost: GpuHourCost = None,
    bundle: Annotated[
        Path | None,
        typer.Option("--bundle", metavar="DIR", help="Also write the evidence to a new folder."),
    ] = None,
    keep: Annotated[
        int, typer.Option("--keep", min=0, max=10**6, help="Samples in the bundle.")
    ] = KEEP,
    notify_url: NotifyUrl = None,
    form: Format = "terminal",
    output: Outputs = None,
) -> int:
    """Say what happened, when, why, and what to do."""
    from rlhfdoctor.gate import concluded
    from rlhfdoctor.policy import accept
    from rlhfdoctor.reports import Page

    _report(form)
    _check_hook(notify_url)
    _check_targets(_targets(output), [run])
    limits = _limits(profile, settings, [run], config)
    policy = limits if fail_on else replace(limits, policy=replace(limits.policy, baseline=""))
    terms = _terms(policy, fail_on)
    found = _read(run, samples, dialect, mapping, run_number)
    _check_outputs(output, _report, found, reference)
    if bundle is not None:
        from rlhfdoctor.bundle import check

        check(bundle, [run, *(reference or ())], found)
    if reference:
        options = _scoring(dtype=dtype, device=device, most=max_samples, temperature=temperature)
        found = [_recomputed(item, reference, options, needed=False) for item in found]
    with _vetting(bundle is not None) as vet:
        diagnoses = _diagnoses(
            _with_scores(found, scores),
            limits,
            crash_step=crash_step,
            gpu_hour_cost=gpu_hour_cost,
            vet=vet,
        )
    diagnoses = [
        accept(item, limits.policy.ignores, terms.baseline, terms.today) for item in diagnoses
    ]
    gated, code = concluded(diagnoses, terms) if fail_on else (None, 0)
    page = replace(_page(code), gate=gated)
    _write_outputs(diagnoses, output, Page(code, gate=gated))
    if bundle is not None:
        from rlhfdoctor.bundle import write

        write(bundle, diagnoses, code, keep)
    _print(_report(form)(diagnoses, page))
    _step_summary(form, output, diagnoses, page)
    _notify(notify_url, diagnoses)
    return code


def _check_hook(url: str | None) -> None:
    if url is not None:
        from rlhfdoctor.notify import check

        check(url)


def _notify(url: str | None, diagnoses: Sequence[Diagnosis], failed: Sequence[str] = ()) -> None:
    """Post the five lines to a web hook; one that fails is warned of and does no other harm."""
    if url is None:
        return
    from rlhfdoctor.notify import host, message, post

    why = post(url, message(diagnoses, failed))
    if why is not None and sys.stderr is not None:
        print(f"warning: could not post to {host(url)}: {why}", file=sys.stderr)


@app.command()
def samples(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="Sample file, or a folder of them; - is stdin.")
    ],
    ngrams: Annotated[
        list[int] | None,
        typer.Option("--ngrams", metavar="N", min=1, max=20, help="Which n (repeatable)."),
    ] = None,
    top: Annotated[
        int, typer.Option("--top", min=0, max=10**6, help="n-grams listed for each n.")
    ] = 20,
    field: Annotated[
        str | None, typer.Option("--field", help="Key of the response, where it is unusual.")
    ] = None,
    by: Annotated[By | None, typer.Option("--by", help="Break down by step.")] = None,
    only: Annotated[
        str | None, typer.Option("--only", metavar="SECTIONS", help="lengths, ngrams or both.")
    ] = None,
    tokenizer: Annotated[
        Path | None, typer.Option("--tokenizer", metavar="DIR", help="Folder of tokenizer.json.")
    ] = None,
    memory: Annotated[
        str, typer.Option("--memory", metavar="SIZE", help="What it may take: 512M, 1G, ...")
    ] = "1G",
    form: TableFormat = "terminal",
    output: Outputs = None,
) -> int:
    """Survey samples: lengths, n-grams, loops, rewards."""
    os.environ.setdefault(*KEEP_PAGES)
    from rlhfdoctor.corpus import tokenizer_of
    from rlhfdoctor.errors import UnreadableRun
    from rlhfdoctor.readers._stream import stream
    from rlhfdoctor.survey import Asked, sections, survey

    _table_format(form)
    asked = Asked(tuple(ngrams or (3,)), top, sections(only), _size(memory))
    notes: list[Note] = []
    with _input(file) as path:
        files = _sample_files(path, notes)
        for _, place in _outputs(output, _table_format):
            if any(same(Path(place), item) for item in files):
                raise DoctorError(f"{place} is a file of samples", "name another file")
            _check_writable(Path(place), ())
        encode, name = tokenizer_of(path, tokenizer, notes)
        with _reading(files) as begin:
            document, run = survey(
                lambda: stream(begin(), field),
                replace(asked, tokenizer=name),
                lambda told, beside: _samples_as_run(file, told, beside),
                encode,
            )
    if not document["samples"]:
        raise UnreadableRun(f"no responses in {file}", _no_responses(document))
    document = {"file": str(file), "field": field, **document, "findings": _judged(run)}
    beside = [{"where": note.where, "text": note.text} for note in notes]
    document["notes"] = [*beside, *document["notes"]]
    _give(form, output, lambda report: _samples_text(report, document, by is not None), ())
    return 0


def _sample_files(path: Path, notes: list[Note]) -> list[Path]:
    """Return a file, or those of a folder that hold samples; notes: what could not be looked at."""
    try:
        folder = path.is_dir()
        path.stat()
    except (OSError, ValueError) as error:
        from rlhfdoctor.errors import UnreadableRun

        told = error.strerror if isinstance(error, OSError) else str(error)
        hint = "give a file of samples, or a folder of them"
        raise UnreadableRun(f"cannot open {str(path)[:200]}: {told}", hint) from error
    if not folder:
        return [path]
    from rlhfdoctor.claims import sample_files

    return sample_files(path, notes)


def _samples_as_run(file: Path, told: Sequence[tuple[str, Sample]], notes: Sequence[Note]) -> Run:
    from rlhfdoctor.runs import samples_as_run

    return samples_as_run(file, told, notes)


def _judged(run: Run | None) -> list[Mapping[str, object]]:
    """Return the findings on samples; none where they were only counted."""
    if run is None:
        return []
    from rlhfdoctor.doctor import diagnose as judge
    from rlhfdoctor.reports.json import finding

    return [finding(item) for item in judge(run).findings]


@contextmanager
def _reading(files: Sequence[Path]) -> Iterator[Callable[[], Sequence[Path]]]:
    """Show how far files are read; give a function that begins to read them anew."""
    from rlhfdoctor.readers._open import watched
    from rlhfdoctor.reports._progress import progress

    total, done = sum(path.stat().st_size for path in files), 0
    told = files[0].name if len(files) == 1 else f"{len(files)} files"
    with progress("bytes") as advance:

        def seen(count: int) -> None:
            nonlocal done
            done += count
            advance(told, min(done, total), total)

        def begin() -> Sequence[Path]:
            nonlocal done
            done = 0
            return files

        with watched(seen):
            yield begin


def _samples_text(form: str, document: dict[str, Any], by_step: bool) -> str:
    from rlhfdoctor.reports._samples import samples_lines, samples_markdown
    from rlhfdoctor.reports.json import dumps, envelope
    from rlhfdoctor.reports.terminal import write

    if form == "json":
        return dumps(envelope(0, document))
    if form == "markdown":
        return samples_markdown(document, by_step=by_step)
    page = _page(0)
    return write(samples_lines(document, by_step=by_step, width=page.width), page)


def _no_responses(document: dict[str, Any]) -> str:
    """Return the hint for a file without responses: what it holds instead, where that is known."""
    if document["pairs"]:
        return "it holds preference pairs; --field chosen or --field rejected surveys one side"
    keys = next((note["text"] for note in document["notes"] if "keys" in note["text"]), None)
    return keys or "a sample is a record that holds a response; --field names its key"


def _size(text: str) -> int:
    """Return a number of bytes: "1G", "512M", "2000000000"."""
    import re

    match = re.fullmatch(r"(\d{1,15}(?:\.\d{1,6})?) ?([KMGT]?)i?B?", text.strip(), re.IGNORECASE)
    size = float(match[1]) * 1024 ** " KMGT".index(match[2].upper() or " ") if match else 0.0
    if size < LEAST_MEMORY:
        raise DoctorError(f"--memory {text}: expected 128M or more", "--memory 1G")
    return int(size)


@app.command()
def rollback(
    run: RunPath = Path(),
    suggest: Annotated[
        bool, typer.Option("--suggest", help="What to change and how to go on, not the ladder.")
    ] = False,
    samples: Samples = None,
    dialect: DialectName = None,
    mapping: Maps = None,
    profile: ProfileName = None,
    settings: Settings = None,
    config: Config = None,
    run_number: RunNumber = None,
    scores: Scores = None,
    crash_step: CrashStep = None,
    table_only: Annotated[
        bool, typer.Option("--table-only", help="Ask the step/epoch table and no evidence.")
    ] = False,
    read_weights: Annotated[
        bool,
        typer.Option(
            "--weights/--no-weights",
            help="Read the suggested checkpoint's numbers: are all finite?",
        ),
    ] = True,
    form: TableFormat = "terminal",
    output: Outputs = None,
) -> int:
    """Say which checkpoint to go back to, and what to do next."""
    _table_format(form)
    limits = _limits(profile, settings, [run], config)
    found = _with_scores(_read(run, samples, dialect, mapping, run_number), scores)
    _check_outputs(output, _table_format, found, None)
    with _vetting(read_weights and not table_only) as vet:
        diagnoses = _diagnoses(found, limits, crash_step=crash_step, table_only=table_only, vet=vet)
    _give(form, output, lambda report: _rollback_text(report, diagnoses, suggest), found)
    return 0


@contextmanager
def _vetting(wanted: bool) -> Iterator[Vet | None]:
    """Give what reads a checkpoint's numbers, with progress; None where that is not wanted."""
    from rlhfdoctor.finite import health
    from rlhfdoctor.reports._progress import progress

    with progress("bytes") as advance:
        yield partial(health, told=advance) if wanted else None


def _rollback_text(form: str, diagnoses: Sequence[Diagnosis], suggest: bool) -> str:
    from rlhfdoctor.reports.json import one_or_runs, rollback_document
    from rlhfdoctor.reports.markdown import rollback_markdown
    from rlhfdoctor.reports.terminal import rollback_lines, write
    from rlhfdoctor.rollback import ladder

    ladders = [ladder(item.run, item.rollback) for item in diagnoses]
    told = list(zip(diagnoses, ladders, strict=True))
    if form == "json":
        return one_or_runs(0, [rollback_document(item, rungs) for item, rungs in told])
    if form == "markdown":
        return "\n".join(rollback_markdown(item.rollback, rungs) for item, rungs in told)
    page, several = _page(0), len(told) > 1
    return "".join(
        write(
            rollback_lines(
                item.rollback,
                rungs,
                suggest=suggest,
                name=item.run.name if several else None,
                width=page.width,
            ),
            page,
        )
        for item, rungs in told
    )


@app.command()
def gate(
    runs: RunPaths = None,
    fail_on: Annotated[
        FailOn | None,
        typer.Option("--fail-on", help="Exit with 1 from this severity up; critical if left out."),
    ] = None,
    require: Annotated[
        list[str] | None,
        typer.Option("--require", metavar="CODE", help="A rule that must have looked."),
    ] = None,
    allow_inconclusive: Annotated[
        bool | None,
        typer.Option(
            "--allow-inconclusive/--no-allow-inconclusive",
            help="Let runs pass that nobody could judge (not those that --require speaks of).",
        ),
    ] = None,
    config: Config = None,
    baseline: Annotated[
        Path | None,
        typer.Option("--baseline", metavar="FILE", help="Findings that are known and pass."),
    ] = None,
    write_baseline: Annotated[
        Path | None,
        typer.Option("--write-baseline", metavar="FILE", help="Write what is found as known."),
    ] = None,
    jobs: Annotated[
        int | None, typer.Option("--jobs", min=1, max=256, help="Processes; by paths and cores.")
    ] = None,
    samples: Samples = None,
    dialect: DialectName = None,
    mapping: Maps = None,
    profile: ProfileName = None,
    settings: Settings = None,
    scores: Scores = None,
    notify_url: NotifyUrl = None,
    form: Format = "terminal",
    output: Outputs = None,
) -> int:
    """Judge runs for CI: one line a run, an exit code."""
    from rlhfdoctor import gate as gating
    from rlhfdoctor.policy import Baseline, accept, read_baseline
    from rlhfdoctor.profile import check_codes
    from rlhfdoctor.reports._progress import progress
    from rlhfdoctor.reports._words import counted

    _report(form)
    _check_hook(notify_url)
    codes = check_codes(require or ())
    paths = runs or [Path()]
    limits = _limits(profile, settings, paths, config)
    written = _targets(output, write_baseline)
    named = [*(samples or ()), *(scores or ()), *([config] if config else [])]
    _check_targets(written, [*paths, *named])
    _check_targets(_targets(output), [baseline] if baseline else [])
    terms = replace(
        _terms(limits, fail_on, allow_inconclusive, baseline, write_baseline),
        require=codes,
        samples=tuple(samples or ()),
        dialect=dialect,
        mapping=tuple(_pairs(mapping)),
        whole="html" in _wanted(form, output),
    )
    diagnoses: list[Diagnosis] = []
    failed: list[dict[str, Any]] = []
    with ExitStack() as stack:
        given = [gating.Given(stack.enter_context(_input(path)), path) for path in paths]
        advance = stack.enter_context(progress("runs"))
        score = partial(_with_scores, files=scores) if scores else None
        count = gating.processes(len(paths), jobs)
        for outcome in gating.judged(given, terms, score, count, advance):
            diagnoses += outcome.diagnoses
            if outcome.error is not None:
                failed.append(_failure(outcome.path, outcome.error, outcome.exit_code))
    for text in gating.idle(limits.policy.ignores, diagnoses, terms.today):
        _warn(text)
    _check_unread(written, [item.run for item in diagnoses], [item["path"] for item in failed])
    if write_baseline is not None:
        empty = Baseline(str(write_baseline.parent))
        old = read_baseline(write_baseline) if write_baseline.is_file() else empty
        new = old.renewed(diagnoses)
        _write(write_baseline, new.text(), [item.run for item in diagnoses])
        _warn(f"wrote {write_baseline}: {counted(len(new.known), 'finding')}", "note")
        diagnoses = [accept(item, (), new, terms.today) for item in diagnoses]
    gated, code = gating.concluded(diagnoses, terms, failed)
    page = replace(_page(code), gate=gated, brief=True)
    _write_outputs(diagnoses, output, replace(page, width=0, colour=False))
    _print(_report(form)(diagnoses, page))
    _step_summary(form, output, diagnoses, page)
    _notify(notify_url, diagnoses, [f"{item['path']}: {item['error']}" for item in failed])
    return code


def _terms(
    limits: Profile,
    fail_on: FailOn | None,
    allow_inconclusive: bool | None = None,
    baseline: Path | None = None,
    written: Path | None = None,
) -> Terms:
    """Return how a gate judges: what was asked, else what the configuration says."""
    from rlhfdoctor.gate import Terms
    from rlhfdoctor.policy import NOTHING, read_baseline

    policy = limits.policy
    known = baseline or (Path(policy.baseline) if policy.baseline else None)
    if known is None or (written and not known.exists() and same(written, known)):
        known = written if written and written.is_file() else None
    return Terms(
        limits,
        fail_on=fail_on.value if fail_on else policy.fail_on or "critical",
        allow_inconclusive=bool(
            policy.allow_inconclusive if allow_inconclusive is None else allow_inconclusive
        ),
        baseline=NOTHING if known is None else read_baseline(known),
        today=date.today(),
    )


def _targets(output: Sequence[str] | None, more: Path | None = None) -> list[Path]:
    """Return what will be written; no path twice, and none that is no path."""
    found = [Path(path) for _, path in _outputs(output, _report)] + ([more] if more else [])
    for place, path in enumerate(found):
        if str(path) == "-":
            raise DoctorError("--output writes files; - is none", "--format prints a report")
        if any(same(path, other) for other in found[:place]):
            raise DoctorError(f"{path} would be written twice", "name a file for each report")
    return found


def _check_targets(targets: Sequence[Path], paths: Sequence[Path]) -> None:
    """Refuse to write over what is to be judged, before any work."""
    for target in targets:
        _check_writable(target, ())
        if any(same(target, path) for path in paths):
            raise DoctorError(f"{target} is to be read", "name another file for the report")


def _check_unread(targets: Sequence[Path], runs: Sequence[Run], lost: Sequence[str]) -> None:
    """Refuse to write over files of runs, and over any in a run that could not be read."""
    for target in targets:
        _check_writable(target, runs)
        if target.exists() and any(inside(target, Path(path)) for path in lost):
            raise DoctorError(f"{target} lies in a run that could not be read", "name another file")


def _failure(path: Path, error: DoctorError, code: int) -> dict[str, Any]:
    """Complain about a run that cannot be judged, and return it as JSON tells it."""
    _complain(error, "terminal", code)
    return {"path": str(path), "exit_code": code, "error": error.message, "hint": error.hint}


def _wanted(form: str, output: Sequence[str] | None) -> list[str]:
    """Return the formats that are printed or written."""
    return [form, *(name for name, _ in _outputs(output, _report))]


def _step_summary(
    form: str, output: Sequence[str] | None, diagnoses: Sequence[Diagnosis], page: Page
) -> None:
    """Append the summary of a job to the file that GitHub names, where its format is asked for."""
    place = os.environ.get("GITHUB_STEP_SUMMARY")
    if not place or "github" not in _wanted(form, output):
        return
    from rlhfdoctor.reports.github import summary

    try:
        with open(place, "a", encoding="utf-8") as file:
            file.write(summary(diagnoses, page))
    except OSError as error:
        _warn(f"cannot write the job summary {place}: {error.strerror}")


@contextmanager
def _complaining(path: Path, failed: list[dict[str, Any]]) -> Iterator[None]:
    """Complain about a run that cannot be judged, and go on: it must not hide the others."""
    try:
        yield
    except DoctorError as error:
        told, code = error, 2
    except Exception as error:  # a bug met in one run leaves the verdicts of the others standing
        told, code = bug(error), 4
    else:
        return
    failed.append(_failure(path, told, code))


@app.command()
def compare(
    runs: RunPaths = None,
    by: Annotated[
        Axis, typer.Option("--by", help="Shared axis; kl: the root of the KL, against reward.")
    ] = Axis.step,
    metric: Annotated[
        list[str] | None,
        typer.Option("--metric", metavar="NAME", help="What is drawn (repeatable)."),
    ] = None,
    points: Annotated[
        int, typer.Option("--points", min=2, max=128, help="Columns of a curve.")
    ] = 40,
    db: Annotated[
        Path | None,
        typer.Option("--db", metavar="FILE", help="Keep runs here; compare with those kept."),
    ] = None,
    dialect: DialectName = None,
    mapping: Maps = None,
    profile: ProfileName = None,
    settings: Settings = None,
    config: Config = None,
    form: TableFormat = "terminal",
    output: Outputs = None,
) -> int:
    """Set runs side by side: tables, curves, what the sick share."""
    from rlhfdoctor import compare as comparison
    from rlhfdoctor import ledger, policy, summaries

    _table_format(form)
    asked = comparison.drawn(metric or (), by.value)
    _check_outputs(output, _table_format, (), None)
    if db is not None:
        ledger.check(db, create=bool(runs))
        ledger.check_outside(db, runs or ())
    limits = _limits(profile, settings, runs or [Path()], config)
    failed: list[dict[str, Any]] = []
    paths = runs or ([] if db else [Path()])

    def judged() -> Iterator[Summary]:
        for run in _each(paths, failed, lambda path: _read(path, None, dialect, mapping, None)):
            _check_outputs(output, _table_format, [run], None)
            if db is not None and _is_source(db, run):
                raise DoctorError(f"--db {db}: it is a file of the run", "name another file")
            made: list[Summary] = []
            with _complaining(Path(run.path), failed):
                made.append(summaries.summary(_diagnoses([run], limits)[0], asked))
            yield from made

    kept = ledger.keep(db, judged()) if db else ledger.Kept([*judged()])
    code = policy.worst([0, *(item["exit_code"] for item in failed)])
    told = {"path": str(db), "runs": len(kept.runs), "outcomes": {**kept.outcomes}}
    document = {
        "db": told if db else None,
        **comparison.compare(
            kept.given,
            beside=kept.runs,
            by=by.value,
            metrics=asked,
            points=points,
            notes=kept.notes,
        ),
        "failed": failed,
    }
    _give(form, output, lambda report: _compare_text(report, document, code), ())
    return code


def _each(
    paths: Sequence[Path], failed: list[dict[str, Any]], read: Callable[[Path], list[Run]]
) -> Iterator[Run]:
    """Yield runs one by one, and hold none that was used; complain about what cannot be read."""
    from rlhfdoctor.reports._progress import progress

    with progress("paths") as advance:
        for done, path in enumerate(paths):
            advance(str(path), done, len(paths))
            found: list[Run] = []
            with _complaining(path, failed):
                found = read(path)
            while found:
                yield found.pop(0)


def _compare_text(form: str, document: dict[str, Any], code: int) -> str:
    from rlhfdoctor.reports._compare import compare_lines, compare_markdown
    from rlhfdoctor.reports.json import dumps, envelope
    from rlhfdoctor.reports.terminal import write

    if form == "json":
        return dumps(envelope(code, document))
    if form == "markdown":
        return compare_markdown(document)
    page = _page(code)
    return write(compare_lines(document, page.width), page)


@app.command()
def recompute(
    run: RunPath = Path(),
    reference: References = None,
    samples: Annotated[
        list[Path] | None,
        typer.Option("--samples", metavar="FILE", help="What to score; the run's own if left out."),
    ] = None,
    dialect: DialectName = None,
    mapping: Maps = None,
    run_number: RunNumber = None,
    dtype: DtypeName = "auto",
    device: DeviceName = "auto",
    max_samples: MaxSamples = None,
    fixed: Annotated[
        bool, typer.Option("--fixed", help="Every sample under every checkpoint.")
    ] = False,
    temperature: Temperature = None,
    tokenizer: Annotated[
        Path | None, typer.Option("--tokenizer", metavar="DIR", help="Folder of tokenizer.json.")
    ] = None,
    batch_tokens: Annotated[
        int | None, typer.Option("--batch-tokens", min=1, help="Tokens of a batch; by device.")
    ] = None,
    cache: Annotated[
        Path | None, typer.Option("--cache", metavar="DIR", help="Keep hidden states on disk here.")
    ] = None,
    form: TableFormat = "terminal",
    output: Outputs = None,
) -> int:
    """Score checkpoints against references: KL, perplexity.

    Without --reference the weights are scanned and nothing is scored. --output json=FILE writes
    what diagnose, rollback and gate take as --scores FILE.
    """
    from rlhfdoctor import measures, scores
    from rlhfdoctor.reports.json import recomputed

    _table_format(form)
    documents, found = [], _read(run, samples, dialect, mapping, run_number)
    _check_outputs(output, _table_format, found, reference)
    for item in found:
        options = _scoring(
            dtype=dtype,
            device=device,
            most=max_samples,
            fixed=fixed,
            temperature=temperature,
            tokenizer=tokenizer,
            budget=batch_tokens,
            cache=cache,
            sources=_sources(item, samples),
        )
        done = _recomputed(item, reference or (), options)
        log = measures.log_fingerprint(done)
        documents.append(recomputed(done, scores.references(done), log))
    _give(form, output, lambda report: _recompute_text(report, documents), found)
    return 0


def _scoring(**given: Any) -> Any:
    from rlhfdoctor.scorers import ready

    ready()
    from rlhfdoctor.scorers.recompute import Options

    return Options(**given)


def _sources(run: Run, samples: Sequence[Path] | None) -> tuple[str, ...] | None:
    """Return the names under which a run holds the sample files that the user named."""
    if not samples:
        return None
    from rlhfdoctor.runs import source_of

    return tuple(source_of(run, path) for path in samples)


def _recompute_text(form: str, documents: Sequence[Any]) -> str:
    from rlhfdoctor.reports.json import one_or_runs
    from rlhfdoctor.reports.markdown import recompute_markdown
    from rlhfdoctor.reports.terminal import recompute_lines, write

    if form == "json":
        return one_or_runs(0, documents)
    if form == "markdown":
        return "\n".join(recompute_markdown(document) for document in documents)
    page = _page(0)
    return "".join(write(recompute_lines(item, page.width), page) for item in documents)


def _with_constants(command: Callable[..., int]) -> Callable[..., int]:
    """Put an option for each field of ``Constants`` in the place of the parameter ``constants``."""
    types = get_type_hints(Constants)
    options = [
        Parameter(
            item.name,
            Parameter.KEYWORD_ONLY,
            default=item.default,
            annotation=Annotated[
                types[item.name],
                typer.Option(f"--{item.name.replace('_', '-')}", help=item.metadata["help"]),
            ],
        )
        for item in fields(Constants)
    ]

    @wraps(command)
    def stated(**given: Any) -> int:
        constants = Constants(**{item.name: given.pop(item.name) for item in options})
        return command(**given, constants=constants)

    own = signature(command, eval_str=True).parameters.values()
    parts = [options if item.name == "constants" else [item] for item in own]
    vars(stated)["__signature__"] = Signature([*chain.from_iterable(parts)])
    return stated


@app.command()
@_with_constants
def backtest(
    run: RunPath = Path(),
    samples: Samples = None,
    dialect: DialectName = None,
    mapping: Maps = None,
    profile: ProfileName = None,
    settings: Settings = None,
    config: Config = None,
    run_number: RunNumber = None,
    rules: Annotated[
        bool,
        typer.Option(
            "--rules/--no-rules",
            help="Replay our own rules too, on some 80 beginnings of a log of 200 rows and 150 of "
            "one of 5,000: five to ten seconds, more with many samples.",
        ),
    ] = True,
    *,
    constants: Constants,
    form: TableFormat = "terminal",
    output: Outputs = None,
) -> int:
    """Replay alarms and KL controllers: what they would have saved.

    Forward in time, without looking ahead; constants are those of field articles. The KL alarm and
    the controllers have numbers for nats a response alone: where the KL is logged a token (GRPO) or
    its unit is unknown, --kl-ceiling and --target state them in the unit of the log. Our own rules
    take five to ten seconds, more with many samples; --no-rules leaves them out.
    """
    _table_format(form)
    from rlhfdoctor.backtest import backtest as replayed
    from rlhfdoctor.reports._progress import progress

    limits = _limits(profile, settings, [run], config)
    found = _read(run, samples, dialect, mapping, run_number)
    _check_outputs(output, _table_format, found, None)
    with progress("beginnings") as advance:
        documents = [
            replayed(item, constants, _judge(limits, advance) if rules else None) for item in found
        ]
    _give(form, output, lambda report: _backtest_text(report, documents), found)
    return 0


def _judge(limits: Profile, advance: Callable[[str, int, int], None]) -> Judge:
    """Return what judges the beginnings of a run, and shows how many it has judged."""
    from rlhfdoctor.doctor import judge
    from rlhfdoctor.profile import choose

    count = 0

    def judged(run: Run) -> tuple[Sequence[Finding], Sequence[str]]:
        nonlocal count
        count += 1
        advance(f"{run.name}, row {run.metrics.height}", count, 0)
        found = judge(run, choose(run, limits))
        return found.findings, found.unanswered

    return judged


def _backtest_text(form: str, documents: Sequence[Any]) -> str:
    from rlhfdoctor.reports.json import one_or_runs
    from rlhfdoctor.reports.markdown import backtest_markdown
    from rlhfdoctor.reports.terminal import backtest_lines, write

    if form == "json":
        return one_or_runs(0, documents)
    if form == "markdown":
        return "\n".join(map(backtest_markdown, documents))
    page = _page(0)
    return "\n".join(write(backtest_lines(item, page.width), page) for item in documents)


@app.command()
def export(
    run: RunPath = Path(),
    to: Annotated[Target, typer.Option("--to", help="What it is for.")] = Target.csv,
    long: Annotated[
        bool, typer.Option("--long", help="csv, parquet: everything as it was logged.")
    ] = False,
    samples: Samples = None,
    dialect: DialectName = None,
    mapping: Maps = None,
    profile: ProfileName = None,
    settings: Settings = None,
    config: Config = None,
    run_number: RunNumber = None,
    output: Annotated[
        Path | None, typer.Option("--output", metavar="PATH", help="Write here, not to the screen.")
    ] = None,
) -> int:
    """Give a run to other tools: Grafana, Prometheus, tables.

    csv and parquet: one row a step, columns under the names that inspect lists, null where nothing
    was logged. openmetrics: for promtool tsdb create-blocks-from openmetrics; grafana: a dashboard
    that shows it.
    """
    if to is Target.parquet and output is None and sys.stdout is not None and sys.stdout.isatty():
        raise DoctorError("parquet is no text", "--output run.parquet, or a pipe")
    limits = _limits(profile, settings, [run], config)
    if output is not None:
        _check_writable(output, ())
    found = _read(run, samples, dialect, mapping, run_number)
    data = _exported(to, found, limits, long=long)
    if output is not None:
        _write(output, data, found)
        return 0
    for part in data:
        _print(part)
    return 0


def _exported(
    to: Target, found: Sequence[Run], limits: Profile, *, long: bool
) -> Iterable[str | bytes]:
    from rlhfdoctor import export as exporting

    if to is Target.grafana:
        return [exporting.dashboard(_diagnoses(found, limits))]
    if to is Target.openmetrics:
        return exporting.openmetrics(_diagnoses(found, limits))
    return [exporting.tables(found, to.value, long=long)]


@app.command()
def inspect(
    run: RunPath = Path(),
    samples: Samples = None,
    dialect: DialectName = None,
    mapping: Maps = None,
    form: TableFormat = "terminal",
    output: Outputs = None,
) -> int:
    """Say how files and keys were understood, and what is missing."""
    from rlhfdoctor.inspection import inspection
    from rlhfdoctor.reports._inspection import inspect_lines, inspect_markdown

    _table_format(form)
    found = _read(run, samples, dialect, mapping, None)
    _check_outputs(output, _table_format, found, None)
    documents = [inspection(item) for item in found]
    _give(
        form,
        output,
        lambda report: _pages(report, documents, inspect_lines, inspect_markdown),
        found,
    )
    return 0


def _pages(
    form: str,
    documents: Sequence[Any],
    lines: Callable[[Any], Any],
    markdown: Callable[[Any], str],
) -> str:
    """Return documents as a page each, or as JSON."""
    from rlhfdoctor.reports.json import one_or_runs
    from rlhfdoctor.reports.terminal import write

    if form == "json":
        return one_or_runs(0, documents)
    if form == "markdown":
        return "\n".join(map(markdown, documents))
    return "\n".join(write(lines(item), _page(0)) for item in documents)


@app.command()
def explain(
    code: Annotated[
        str | None, typer.Argument(metavar="[CODE]", help="A rule or a family; all if left out.")
    ] = None,
    tree: Annotated[bool, typer.Option("--tree", help="Print the decision tree instead.")] = False,
    form: TableFormat = "terminal",
) -> int:
    """Print a rule: what it sees, its sources, its limits."""
    from rlhfdoctor.profile import check_codes, explanation, rules
    from rlhfdoctor.reports.json import dumps, envelope
    from rlhfdoctor.reports.markdown import rules_markdown
    from rlhfdoctor.reports.terminal import explain_lines, list_lines, write

    if tree:
        return _explain_tree(form)
    _table_format(form)
    asked = (code or "").upper()
    found = [rule for rule in rules() if rule.code.startswith(asked)]
    if not found:
        check_codes([asked])
    documents = [explanation(rule) for rule in found]
    if form == "json":
        _print(dumps(envelope(0, {"rules": documents})))
    elif form == "markdown":
        _print(rules_markdown(documents))
    elif len(found) == 1 and found[0].code == asked:
        _print(write(explain_lines(documents[0]), _page(0)))
    else:
        _print(write(list_lines(documents), _page(0)))
    return 0


def _explain_tree(form: str) -> int:
    from dataclasses import asdict

    from rlhfdoctor.reports.json import dumps, envelope
    from rlhfdoctor.reports.terminal import tree_text
    from rlhfdoctor.tree import TREE

    _plain_format(form)
    roots = [asdict(root) for root in TREE]
    _print(dumps(envelope(0, {"tree": roots})) if form == "json" else tree_text(roots, _page(0)))
    return 0


@profiles.command("show")
def show_profile(
    run: Annotated[
        Path | None, typer.Argument(metavar="[RUN]", help="Run whose profile would be chosen.")
    ] = None,
    dialect: DialectName = None,
    mapping: Maps = None,
    profile: ProfileName = None,
    settings: Settings = None,
    config: Config = None,
    changed: Annotated[
        bool, typer.Option("--changed", help="Only limits that a profile or --set states.")
    ] = False,
    form: TableFormat = "terminal",
    output: Outputs = None,
) -> int:
    """Print every limit as it holds: value, unit, where it came from."""
    from rlhfdoctor.profile import built_in, choose, document
    from rlhfdoctor.reports._inspection import profile_lines, profile_markdown

    _table_format(form)
    stated = _limits(profile, settings, [run] if run else (), config)
    found = [] if run is None else _read(run, None, dialect, mapping, None)
    _check_outputs(output, _table_format, found, None)
    if run is None:
        chosen = stated if stated.name else stated.over(built_in()["default"])
        documents = [document(chosen)]
    else:
        documents = [document(choose(item, stated), item.name) for item in found]
    for item in documents if changed else ():
        item["limits"] = [limit for limit in item["limits"] if limit["origin"] != "rule default"]
    _give(
        form,
        output,
        lambda report: _pages(report, documents, profile_lines, profile_markdown),
        found,
    )
    return 0


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit with its code; a signal to end leaves no temporary files.

    What lives at the end is frozen: the interpreter would search all of it for cycles, 60 ms of
    CPU time.
    """
    for asked in (signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGTERM)):
        signal.signal(asked, lambda number, frame: sys.exit(128 + number))
    gc.set_threshold(*FEW_COLLECTIONS)
    code = run_cli(list(sys.argv[1:] if arguments is None else arguments))
    gc.freeze()
    sys.exit(code)


def run_cli(arguments: list[str]) -> int:
    """Run the command line and return the exit code; nothing but ``--debug`` shows a traceback."""
    debug = "--debug" in arguments
    arguments = [argument for argument in arguments if argument != "--debug"]
    form = "json" if _asks_for_json(arguments) else "terminal"
    try:
        if any(not one and before[:2] != "--" for before, one in pairwise(("", *arguments))):
            raise DoctorError("an argument is empty", "is a variable of the shell unset?")
        code = app(arguments or ["--help"], prog_name="rlhfdoctor", standalone_mode=False)
    except DoctorError as error:
        _complain(error, form, 2)
        return 2
    except UsageError as error:
        hint = f"{error.ctx.command_path} --help" if error.ctx else "rlhfdoctor --help"
        told = error.format_message().replace("\n", " ").replace(": Value error, ", ": ")
        _complain(DoctorError(told, hint), form, 2)
        return 2
    except (KeyboardInterrupt, typer.Abort):
        return 130
    except Exception as error:  # the one place where a bug becomes an exit code
        if debug:
            traceback.print_exc()
        _complain(bug(error), form, 4)
        return 4
    return int(code or 0)


def _asks_for_json(arguments: Sequence[str]) -> bool:
    return "--format=json" in arguments or ("--format", "json") in pairwise(arguments)


def _complain(error: DoctorError, form: str, code: int) -> None:
    from rlhfdoctor.reports._lines import shown

    if form == "json":
        from rlhfdoctor.reports.json import failure

        _print(failure(code, error.message, error.hint))
    if sys.stderr is not None:
        print(f"error: {shown(error.message)}\nhint: {shown(error.hint)}", file=sys.stderr)


def _read(
    path: Path,
    samples: Sequence[Path] | None,
    dialect: str | None,
    mapping: Sequence[str] | None,
    number: int | None,
) -> list[Run]:
    from rlhfdoctor.runs import read_runs

    pairs = dict(_pairs(mapping))
    with _input(path) as place:
        found = list(read_runs(place, dialect=dialect, mapping=pairs, samples=samples or ()))
    if place != path:
        found = [replace(run, path="-", name="standard input") for run in found]
    if number is None:
        return found
    if number > len(found):
        raise DoctorError(
            f"--run {number}: the input holds {len(found)} runs", "rlhfdoctor inspect lists them"
        )
    return [found[number - 1]]


def _limits(
    profile: str | None,
    settings: Sequence[str] | None,
    runs: Sequence[Path] = (),
    config: Path | None = None,
) -> Profile:
    """Return the limits that were asked for, laid over the configuration of the project.

    That is the file that was named, else the one in the working directory, which must not be part
    of a run: a run has no say in how it is judged.
    """
    from rlhfdoctor.profile import configuration, load

    if config is None:
        config, why_not = configuration(Path(), runs)
        if why_not:
            _warn(f"{why_not}; --config FILE obeys it")
    return load(profile, settings or (), config)


def _warn(text: str, kind: str = "warning") -> None:
    from rlhfdoctor.reports._lines import shown

    if sys.stderr is not None:
        print(f"{kind}: {shown(text)}", file=sys.stderr)


def _diagnoses(runs: Sequence[Run], limits: Profile, **options: Any) -> list[Diagnosis]:
    """Judge runs; options: as ``doctor.diagnose`` takes them."""
    from rlhfdoctor import doctor

    return [doctor.diagnose(run, limits, **options) for run in runs]


def _with_scores(runs: Sequence[Run], files: Sequence[Path] | None) -> list[Run]:
    """Give each run what files of ``recompute`` tell of it; a file must tell of one of them."""
    if not files:
        return list(runs)
    from rlhfdoctor.readers._scores import HINT, read_scores
    from rlhfdoctor.runs import share

    found = [item for file in files for item in read_scores(file)]
    scored = share(runs, found)
    used = {item.file for _, own in scored for item in own}
    for file in files:
        if file not in used:
            raise DoctorError(f"--scores {file}: tells of no run that is judged here", HINT)
    return [run for run, _ in scored]


def _recomputed(
    run: Run, references: Sequence[Path], options: Any = None, *, needed: bool = True
) -> Run:
    """Scan a run's checkpoints and score them against references, with progress.

    needed: that nothing can be scored is an error, not a note.
    """
    from rlhfdoctor.scorers import ready

    ready()
    from rlhfdoctor.reports._progress import progress
    from rlhfdoctor.scorers.recompute import recompute as score
    from rlhfdoctor.scorers.scan import scan

    with progress("bytes") as advance:
        scanned = scan(run, advance)
    if not references:
        return scanned
    from rlhfdoctor.model import Note
    from rlhfdoctor.scorers.recompute import NothingToScore

    with progress("tokens") as advance:
        try:
            return score(scanned, references, options, advance)
        except NothingToScore as error:
            if needed:
                raise
            told = Note("recompute", f"{error.message}; {error.hint}")
            return replace(scanned, notes=(*scanned.notes, told))


@contextmanager
def _input(path: Path) -> Iterator[Path]:
    """Give a path to read: the path itself, or a temporary copy of what can be read only once.

    That is standard input for "-", and a pipe: ``<(zcat samples.gz)``.
    """
    if str(path) != "-" and not _is_pipe(path):
        yield path
        return
    if str(path) == "-" and sys.stdin is None:
        raise DoctorError("standard input is closed", "give a file instead of -")
    signal.siginterrupt(signal.SIGINT, True)  # polars' own handler lets a waiting read go on
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / STDIN[0]
        with copy.open("wb") as file:
            if str(path) == "-":
                shutil.copyfileobj(sys.stdin.buffer, file)
            else:
                with path.open("rb") as pipe:
                    shutil.copyfileobj(pipe, file)
        yield _understood(copy)


def _is_pipe(path: Path) -> bool:
    try:
        return path.is_fifo() and os.access(path, os.R_OK)
    except (OSError, ValueError):
        return False


STDIN = (
    *("stdin.jsonl", "stdin.json", "stdin.csv", "stdin.parquet"),
    *("stdin.ipynb", "stdin.log", "run-stdin.wandb", "events.out.tfevents.stdin"),
)
"""Names under which standard input is tried: it has none, and readers ask for one."""


def _understood(copy: Path) -> Path:
    """Give a file the first of the names of ``STDIN`` under which a reader understands it."""
    from rlhfdoctor.claims import claim
    from rlhfdoctor.readers._open import opened

    with opened(copy) as file:
        head = file.read(2**20)
    state, events = b'"log_history"' in head, b"brain.Event:" in head[:64]
    for name in ("stdin-trainer_state.json",) if state else STDIN:
        if "tfevents" in name and not events:
            continue
        copy = copy.rename(copy.with_name(name))
        found = claim(copy)
        if found is not None and found.reader is not None:
            return copy
    return copy.rename(copy.with_name(STDIN[0]))


def _pairs(mapping: Sequence[str] | None) -> list[tuple[str, str]]:
    return [_pair(item, "--map", "kl=kl_ref_token") for item in mapping or ()]


def _pair(text: str, option: str, example: str) -> tuple[str, str]:
    left, equals, right = text.rpartition("=")
    if not equals or not left or not right:
        raise DoctorError(f"{option} {text}: expected two names around =", f"{option} {example}")
    return left, right


def _report(form: str) -> Callable[[Sequence[Diagnosis], Page], str]:
    from rlhfdoctor import registry
    from rlhfdoctor.reports import Report

    known = {item.name: item for item in registry.members("reports", Report)}
    if form not in known:
        raise DoctorError(f"no report is called {form}", f"known are {', '.join(sorted(known))}")
    return known[form].render


def _table_format(form: str) -> None:
    if form not in ("terminal", "json", "markdown"):
        raise DoctorError(
            f"this command has no report called {form}", "known are json, markdown, terminal"
        )


def _plain_format(form: str) -> None:
    if form not in ("terminal", "json"):
        raise DoctorError(f"this command has no report called {form}", "known are json, terminal")


def _outputs(output: Sequence[str] | None, known: Callable[[str], object]) -> list[tuple[str, str]]:
    """Return the formats and paths of ``--output``; ``known`` refuses a format that is none."""
    found = []
    for item in output or ():
        form, equals, path = item.partition("=")
        if not equals or not path:
            raise DoctorError(f"--output {item}: expected FORMAT=PATH", "--output json=report.json")
        known(form)
        found.append((form, path))
    return found


def _give(
    form: str, output: Sequence[str] | None, text: Callable[[str], str], runs: Sequence[Run]
) -> None:
    """Write the reports of ``--output``, then print the one of ``--format``."""
    for report, path in _outputs(output, _table_format):
        _write(Path(path), text(report), runs)
    _print(text(form))


def _write_outputs(
    diagnoses: Sequence[Diagnosis], output: Sequence[str] | None, page: Page
) -> None:
    for form, path in _outputs(output, _report):
        text = _report(form)(diagnoses, page)
        _write(Path(path), text, [diagnosis.run for diagnosis in diagnoses])


def _write(path: Path, data: str | Iterable[str | bytes], runs: Sequence[Run]) -> None:
    """Write a report, never over a file of a run and never through a link."""
    parts = [data] if isinstance(data, str) else data
    _check_writable(path, runs)
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | _NO_LINK, 0o666)
        with open(handle, "wb") as file:
            for part in parts:
                file.write(part.encode("utf-8") if isinstance(part, str) else part)
    except OSError as error:
        told = "it is a link" if path.is_symlink() else error.strerror
        raise DoctorError(
            f"cannot write {path}: {told}", "name a file that can be written"
        ) from error


def _check_outputs(
    output: Sequence[str] | None,
    known: Callable[[str], object],
    runs: Sequence[Run],
    models: Sequence[Path] | None,
) -> None:
    """Refuse reports that cannot be written, or would lie in a model, before any long work."""
    for _, path in _outputs(output, known):
        _check_writable(Path(path), runs)
        if any(inside(Path(path), model) for model in models or ()):
            raise DoctorError(f"{path} lies in a reference", "name another file for the report")


def _check_writable(path: Path, runs: Sequence[Run]) -> None:
    """Refuse a path that a report could not be written to, before any long work."""
    if any(_is_source(path, run) for run in runs):
        raise DoctorError(f"{path} is a file of the run", "name another file for the report")
    if path.is_dir():
        raise DoctorError(f"cannot write {path}: it is a folder", "name a file in it")
    if not path.parent.is_dir():
        raise DoctorError(f"cannot write {path}: no such folder", "name a file in a folder")


def _is_source(path: Path, run: Run) -> bool:
    """Say whether a path is one of the files that a run was read from, or lies in a checkpoint."""
    folder = Path(run.path) if Path(run.path).is_dir() else Path(run.path).parent
    return any(same(folder / item.file, path) for item in run.sources) or any(
        inside(path, folder / item.path) for item in run.checkpoints
    )


def _page(code: int) -> Page:
    """Return how standard output shows a page.

    NO_COLOR, FORCE_COLOR, CLICOLOR_FORCE and TERM are what no-color.org, force-color.org and
    bixense.com/clicolors say.
    """
    from rlhfdoctor.reports import Page

    told = os.environ
    forced = bool(told.get("FORCE_COLOR")) or told.get("CLICOLOR_FORCE", "0") not in ("", "0")
    terminal = sys.stdout is not None and sys.stdout.isatty()
    dumb = terminal and told.get("TERM") == "dumb"
    return Page(
        code,
        width=max(shutil.get_terminal_size().columns, NARROWEST) if terminal else 0,
        colour=not told.get("NO_COLOR") and (forced or (terminal and not dumb)),
        ascii=dumb or not _draws(sys.stdout),
    )


def _draws(stream: Any) -> bool:
    """Say whether a stream can encode what curves are drawn with."""
    try:
        "\u2588\u2500".encode(getattr(stream, "encoding", None) or "utf-8")
    except (LookupError, UnicodeEncodeError):
        return False
    return True


def _print(text: str | bytes) -> None:
    """Write to standard output; a reader that went away is no reason to complain."""
    if sys.stdout is None:
        return
    try:
        if isinstance(text, bytes):
            sys.stdout.buffer.write(text)
        else:
            sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except UnicodeEncodeError:
        encoding = sys.stdout.encoding or "ascii"
        sys.stdout.write(str(text).encode(encoding, "backslashreplace").decode(encoding))
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise DoctorError(
            f"cannot write to standard output: {error.strerror}", "is the disk full?"
        ) from error
