"""A diagnosed run in few numbers: what a comparison needs, and what can be stored."""

from __future__ import annotations

import hashlib
import os
import shlex
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime, timezone
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from rlhfdoctor import __version__
from rlhfdoctor.cost import spent
from rlhfdoctor.curves import ENTROPY, GRADIENT, KL, LENGTH, REWARD
from rlhfdoctor.measures import batches, log_fingerprint, logged, silent_since, track
from rlhfdoctor.model import Diagnosis, Run
from rlhfdoctor.rules._heldout import held_out, rewarding
from rlhfdoctor.series import end_level, finite, spread, start_level
from rlhfdoctor.vocabulary import SETTINGS

QUANTITIES: dict[str, tuple[str, ...]] = {
    "kl": KL,
    "reward": REWARD,
    "heldout": (),
    "entropy": ENTROPY,
    "length": LENGTH,
    "gradient": GRADIENT,
}
"""What is compared, and under which metrics it is logged. Of the held-out scores the first of
which more is better; of the rewards the first."""

MEASURED = ("kl", "entropy")
"""Quantities that are exactly 0 throughout only where nobody computed them."""

MOST_ROWS = 128
"""Rows of a curve that are kept, evenly, the first and the last among them: thrice as many as a
page has columns [H]."""

NO_LOG = "path:"
"""Before the path that stands for the log of a run without one."""

KEPT = tuple(name for name, option in SETTINGS.items() if option.kind not in ("algorithm", "text"))
"""Settings that a summary keeps: no names and no paths."""


@dataclass(frozen=True, slots=True)
class Curve:
    """One logged metric of a run, thinned to at most ``MOST_ROWS`` of its finite rows.

    first, last: medians of the first and of the last five logged rows. until: the last step at
    which it counts: that of the log, or the last logged one where logging stopped before the end.
    """

    quantity: str
    metric: str
    unit: str
    estimator: str | None
    derived: bool
    rows: int
    first: float
    last: float
    until: int
    steps: tuple[int, ...]
    values: tuple[float, ...]

    @property
    def scale(self) -> Scale:
        """What it may be compared with: the same scale and no other."""
        return Scale(self.quantity, self.metric, self.unit, self.estimator, self.derived)

    def at(self, step: int) -> float | None:
        """Return the last value kept at or before a step, None before and after its rows."""
        place = bisect_right(self.steps, step) - 1
        return self.values[place] if place >= 0 and step <= self.until else None


@dataclass(frozen=True, slots=True)
class Scale:
    """A metric with its unit and estimator: curves of one scale may share an axis."""

    quantity: str
    metric: str
    unit: str
    estimator: str | None
    derived: bool


@dataclass(frozen=True, slots=True)
class Summary:
    """What is kept of a diagnosed run.

    log: ``measures.log_fingerprint``; the path of a run without a log. onset: step, low, high.
    rows: logged steps. epochs: pairs of a step and its epoch, thinned as curves are. perplexity: of
    the samples by their own log-probabilities, at their first and last step. gradient: ``spread``
    of the gradient norm's logged rows; the relative variance is None where it is infinite. hours,
    gpu_hours: of the whole log. judged: the profile, and a hash of all limits and units. notes:
    what cannot be compared, and why. diagnosed: when, UTC.
    """

    name: str
    path: str
    log: str
    framework: str
    algorithm: str
    step_unit: str
    log_offset: int
    verdict: str
    onset: tuple[int, int, int] | None
    cause: str | None
    confidence: str | None
    first_step: int | None
    last_step: int | None
    rows: int
    settings: Mapping[str, float | int | str | bool]
    curves: tuple[Curve, ...]
    epochs: tuple[tuple[int, float], ...]
    perplexity: tuple[float, float] | None
    gradient: tuple[float, float, float | None] | None
    hours: float | None
    gpu_hours: float | None
    judged: str
    tool: str
    notes: tuple[str, ...]
    diagnosed: str

    @property
    def key(self) -> tuple[str, str]:
        """By what a run is known again: its log and its name."""
        return self.log, self.name

    @property
    def logged(self) -> bool:
        """Whether it has a log, by which a copy under another name is known."""
        return not self.log.startswith(NO_LOG)


def summary(diagnosis: Diagnosis, metrics: Sequence[str] = ()) -> Summary:
    """Keep of a diagnosed run what a comparison needs; ``metrics``: further ones than usual."""
    run, onset = diagnosis.run, diagnosis.onset
    cause = diagnosis.causes[0] if diagnosis.causes else None
    notes: list[str] = []
    curves = tuple(_curves(run, metrics, notes))
    now = datetime.now(timezone.utc)
    hours, gpu_hours = spent(run)
    return Summary(
        name=run.name,
        path=run.path,
        log=log_fingerprint(run) or f"{NO_LOG}{os.path.abspath(run.path)}",
        framework=run.framework,
        algorithm=run.algorithm,
        step_unit=run.step_unit,
        log_offset=run.log_offset,
        verdict=diagnosis.verdict,
        onset=(onset.step, onset.low, onset.high) if onset else None,
        cause=cause.name if cause else None,
        confidence=cause.confidence if cause else None,
        first_step=run.first_step,
        last_step=run.last_step,
        rows=run.logged_steps,
        settings=_settings(run, notes),
        curves=curves,
        epochs=_epochs(run),
        perplexity=_perplexity(run),
        gradient=_gradient(run),
        hours=_number(hours),
        gpu_hours=_number(gpu_hours),
        judged=_judged(diagnosis),
        tool=__version__,
        notes=(*notes,),
        diagnosed=now.isoformat(timespec="seconds"),
    )


def _curves(run: Run, metrics: Sequence[str], notes: list[str]) -> Iterator[Curve]:
    """Yield the curves of a run, and note what has no unit or was never computed."""
    told: set[str] = set()
    for quantity in dict.fromkeys((*QUANTITIES, *metrics)):
        for name in _columns(run, quantity):
            if name in told:
                continue
            told.add(name)
            found = track(run, name)
            if found.column.unit == "unknown":
                key = next((place.key for place in found.column.sources if place.key), name)
                stated = shlex.quote(f"{key}=METRIC")
                notes.append(f"{key} has no known unit: not compared; --map {stated} states it")
                continue
            if quantity in MEASURED and found.placeholder:
                notes.append(f"{name} is 0 in every row: not measured, not compared")
                continue
            first, last = start_level(found.values), end_level(found.values)
            if not finite(first) or not finite(last):
                notes.append(f"{name} is too large to be compared")
                continue
            stopped = silent_since(run, name)
            kept = _kept(len(found))
            yield Curve(
                quantity,
                name,
                found.column.unit,
                found.column.estimator,
                found.column.derived,
                rows=len(found),
                first=first,
                last=last,
                until=run.last_step or 0 if stopped is None else stopped,
                steps=tuple(found.steps[place] for place in kept),
                values=tuple(found.values[place] for place in kept),
            )


def _columns(run: Run, quantity: str) -> list[str]:
    """Return the columns of a run that tell a quantity, or are called so."""
    if quantity == "heldout":
        return [found.metric for found in rewarding(held_out(run))[:1]]
    there = [name for name in QUANTITIES.get(quantity, (quantity,)) if logged(run, name)]
    return there[:1] if quantity == "reward" else there


def _kept(count: int) -> list[int]:
    """Return which of ``count`` rows are kept: all, or ``MOST_ROWS`` spread evenly over them."""
    if count <= MOST_ROWS:
        return [*range(count)]
    return [round(place * (count - 1) / (MOST_ROWS - 1)) for place in range(MOST_ROWS)]


def _epochs(run: Run) -> tuple[tuple[int, float], ...]:
    told = run.metrics.select("step", "epoch").drop_nulls()
    kept = told[_kept(told.height)]
    return tuple((step, epoch) for step, epoch in kept.iter_rows() if finite(epoch))


def _settings(run: Run, notes: list[str]) -> dict[str, float | int | str | bool]:
    found = {
        name: value
        for name in KEPT
        if name in run.config
        and (isinstance(value := run.config[name].value, str) or finite(value))
    }
    if "learning_rate" not in found and logged(run, "lr"):
        found["learning_rate"] = max(track(run, "lr").values)
        notes.append("its learning rate is the largest one logged: no configuration tells it")
    return found


def _number(value: float | None) -> float | None:
    """Return a number that is finite, else None."""
    return value if value is not None and finite(value) else None


def _perplexity(run: Run) -> tuple[float, float] | None:
    """Return the perplexity of the first and of the last scored step of the largest file."""
    known = [item for item in batches(run) if item.step is not None and item.perplexity]
    size: Counter[str] = Counter()
    for item in known:
        size[item.source] += len(item.items)
    if not size:
        return None
    source = max(size, key=lambda name: (size[name], name))
    own = [item.perplexity for item in known if item.source == source]
    return (own[0] or 0.0, own[-1] or 0.0)


def _gradient(run: Run) -> tuple[float, float, float | None] | None:
    if not logged(run, "grad_norm"):
        return None
    middle, variance, relative = spread(track(run, "grad_norm").values)
    if not finite(middle) or not finite(variance):
        return None
    return middle, variance, _number(relative)


def _judged(diagnosis: Diagnosis) -> str:
    """Return what decided the verdict beside the run: the profile, and a hash of all limits."""
    limits = repr(sorted((code, sorted(own.items())) for code, own in diagnosis.limits.items()))
    maps = repr(sorted((name, item.unit) for name, item in diagnosis.run.columns.items()))
    told = hashlib.sha256(f"{limits}|{maps}".encode("utf-8", "backslashreplace")).hexdigest()
    return f"{diagnosis.profile} {told[:12]}"


def restored(document: object) -> Summary:
    """Return the summary that ``asdict`` made a document of; ValueError says why it is none."""
    curves = document.get("curves") if isinstance(document, dict) else None
    if not isinstance(document, dict) or not isinstance(curves, list):
        raise ValueError("it is no run")
    made: Summary = _made(
        Summary, {**document, "curves": tuple(_made(Curve, item) for item in curves)}
    )
    return made


def _made(kind: type[Any], told: object) -> Any:
    """Make a dataclass of a document, every field checked against its type."""
    hints = get_type_hints(kind)
    if not isinstance(told, dict) or told.keys() != {item.name for item in fields(kind)}:
        raise ValueError(f"not the fields of a {kind.__name__.lower()} in this release")
    whole: dict[str, Any] = {name: _tuples(value) for name, value in told.items()}
    for name, value in whole.items():
        if not _fits(value, hints[name]):
            raise ValueError(f"{name} is not what this release writes")
    if kind is Curve and not len(whole["steps"]) == len(whole["values"]) > 0:
        raise ValueError("a curve without a value for each step")
    return kind(**whole)


def _tuples(value: object) -> object:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


def _fits(value: object, hint: Any) -> bool:
    """Say whether a value is of a type; a float is finite, a whole number one of 64 bits."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return any(_fits(value, item) for item in inner)
    if origin is tuple:
        if not isinstance(value, tuple):
            return False
        if inner[-1:] == (...,):
            return all(_fits(item, inner[0]) for item in value)
        return len(value) == len(inner) and all(map(_fits, value, inner))
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return isinstance(value, dict) and all(_fits(item, inner[1]) for item in value.values())
    if hint is float:
        return isinstance(value, int | float) and not isinstance(value, bool) and finite(value)
    if hint is int:
        return type(value) is int and abs(value) < 2**63
    return type(value) is hint
