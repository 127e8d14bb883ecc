"""Judge many runs for a pipeline: each path on its own, in several processes where it pays.

A run that cannot be judged must not hide the others: what went wrong with it is a result too.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import date
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from rlhfdoctor.errors import DoctorError, bug
from rlhfdoctor.model import Diagnosis, Run, Severity
from rlhfdoctor.policy import NOTHING, Baseline, Ignore, accept, exit_code, worst
from rlhfdoctor.profile import Profile
from rlhfdoctor.reports import Document, Gated

if TYPE_CHECKING:
    from concurrent.futures import Future

FEWEST_EACH = 4
"""Paths a process from which another one pays: to start one costs what judging two logs of 5,000
rows does."""


@dataclass(frozen=True, slots=True)
class Given:
    """A path to read, and what the user called it: standard input is read from a copy."""

    place: Path
    called: Path


@dataclass(frozen=True, slots=True)
class Terms:
    """How runs are read and judged.

    require: codes that must have looked beside the profile's. whole: keep samples, for a report
    that shows some.
    """

    profile: Profile
    fail_on: Severity = "critical"
    allow_inconclusive: bool = False
    require: tuple[str, ...] = ()
    baseline: Baseline = NOTHING
    today: date = date.max
    samples: tuple[Path, ...] = ()
    dialect: str | None = None
    mapping: tuple[tuple[str, str], ...] = ()
    whole: bool = False


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one path: diagnoses, or what went wrong and the exit code of that."""

    path: Path
    diagnoses: tuple[Diagnosis, ...] = ()
    error: DoctorError | None = None
    exit_code: int = 0


def processes(paths: int, asked: int | None) -> int:
    """Return how many processes judge so many paths; asked: by the user, None where not."""
    if asked is not None:
        return max(min(asked, paths), 1)
    return max(min(_processors(), paths // FEWEST_EACH), 1)


def _processors() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def judged(
    paths: Sequence[Given],
    terms: Terms,
    score: Callable[[Sequence[Run]], Sequence[Run]] | None = None,
    jobs: int = 1,
    advance: Callable[[str, int, int], None] = lambda told, done, total: None,
) -> Iterator[Outcome]:
    """Yield what comes of each path, in their order.

    score: gives runs their recomputations; it must see all of them at once, so they are read first
    and in one process. jobs: processes. advance: called with a path, the number of those that are
    done, and that of all.
    """
    if score is not None:
        found = _scored(paths, terms, score)
    elif jobs > 1:
        found = _in_processes(paths, terms, jobs)
    else:
        found = (_of_path(given, terms) for given in paths)
    for done, given in enumerate(paths):
        advance(str(given.called), done, len(paths))
        yield next(found)


def concluded(
    diagnoses: Sequence[Diagnosis], terms: Terms, failed: Sequence[Document] = ()
) -> tuple[Gated, int]:
    """Return what the gate says of these runs and of those that failed, and its exit code."""
    required = (*(terms.profile.require or ()), *terms.require)
    codes = tuple(
        exit_code(
            item,
            terms.fail_on,
            allow_inconclusive=terms.allow_inconclusive,
            require=required,
        )
        for item in diagnoses
    )
    lost = [int(str(item["exit_code"])) for item in failed]
    return Gated(terms.fail_on, codes, (*failed,)), worst((*codes, *lost))


def idle(ignores: Sequence[Ignore], diagnoses: Sequence[Diagnosis], today: date) -> Iterator[str]:
    """Yield what an engineer should know of ignores that accept nothing: ended, or of no run."""
    names = [item.run.name for item in diagnoses]
    for item in ignores:
        if item.until < today:
            yield f"the ignore of {item.code} ended on {item.until} and accepts nothing any more"
        elif not any(fnmatchcase(name, item.run) for name in names):
            yield f"the ignore of {item.code} for run {item.run} matched none by its name"


def _of_path(given: Given, terms: Terms) -> Outcome:
    return _attempt(given.called, lambda: _all(_read(given, terms), terms))


def _attempt(path: Path, work: Callable[[], Sequence[Diagnosis]]) -> Outcome:
    try:
        return Outcome(path, tuple(work()))
    except DoctorError as error:
        return Outcome(path, error=error, exit_code=2)
    except Exception as error:  # a bug met in one run leaves the verdicts of the others standing
        return Outcome(path, error=bug(error), exit_code=4)


def _read(given: Given, terms: Terms) -> list[Run]:
    from rlhfdoctor.runs import read_runs

    found = read_runs(
        given.place, dialect=terms.dialect, mapping=dict(terms.mapping), samples=terms.samples
    )
    if given.place == given.called:
        return list(found)
    return [replace(run, path="-", name="standard input") for run in found]


def _judged(run: Run, terms: Terms) -> Diagnosis:
    """Judge a run; what no report of a gate shows of it is let go."""
    from rlhfdoctor.doctor import diagnose

    diagnosis = diagnose(run, terms.profile, require=terms.require)
    accepted = accept(diagnosis, terms.profile.policy.ignores, terms.baseline, terms.today)
    kept = run.samples if terms.whole else run.samples.clear()
    return replace(accepted, run=replace(run, observations=run.observations.clear(), samples=kept))


def _scored(
    paths: Sequence[Given], terms: Terms, score: Callable[[Sequence[Run]], Sequence[Run]]
) -> Iterator[Outcome]:
    read: list[tuple[Outcome, list[Run]]] = []
    for given in paths:
        runs: list[Run] = []

        def take(given: Given = given, runs: list[Run] = runs) -> Sequence[Diagnosis]:
            runs.extend(_read(given, terms))
            return ()

        read.append((_attempt(given.called, take), runs))
    scored = iter(score([run for _, runs in read for run in runs]))
    for outcome, runs in read:
        own = [next(scored) for _ in runs]
        yield outcome if outcome.error else _attempt(outcome.path, partial(_all, own, terms))


def _all(runs: Sequence[Run], terms: Terms) -> list[Diagnosis]:
    return [_judged(run, terms) for run in runs]


def _in_processes(paths: Sequence[Given], terms: Terms, jobs: int) -> Iterator[Outcome]:
    """Yield outcomes of processes; a path whose process was killed is one that was not judged."""
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    with ExitStack() as stack:
        pool = ProcessPoolExecutor(jobs, get_context("spawn"))
        stack.callback(pool.shutdown, wait=True, cancel_futures=True)
        with _deaf():
            futures = [pool.submit(_of_path, given, terms) for given in paths]
        for given, future in zip(paths, futures, strict=True):
            yield _result(given.called, future)


def _result(path: Path, future: Future[Outcome]) -> Outcome:
    from concurrent.futures.process import BrokenProcessPool

    try:
        return future.result()
    except BrokenProcessPool:
        told = DoctorError(
            f"{path} was not judged: a process was killed, out of memory perhaps",
            "--jobs 1 judges one run at a time",
        )
        return Outcome(path, error=told, exit_code=2)


@contextmanager
def _deaf() -> Iterator[None]:
    """Ignore interrupts, which processes that are started meanwhile go on to do.

    They are for the process that started them: it ends the others. Elsewhere than in the main
    thread nothing is changed.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
