"""Rules turn a run into findings: one judgement a file.

A rule is a function with a decorator that says what it needs. Its docstring is what
``rlhfdoctor explain CODE`` prints, its limits carry their units, its sentence is a template.
"""

from __future__ import annotations

import inspect
import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from rlhfdoctor.measures import (
    all_zeros,
    best,
    finite_rows,
    ladders,
    sample_fields,
    scans,
    silent_since,
)
from rlhfdoctor.model import Finding, Run, Skip

Signal = Literal[
    "kl",
    "entropy",
    "length",
    "text",
    "logp",
    "accuracy",
    "reward",
    "groups",
    "update",
    "optimiser",
    "mismatch",
    "value",
    "config",
    "numbers",
    "log",
    "checkpoint",
]
"""What a rule looks at. The first seven corroborate each other (doctor.py)."""

RECOMPUTE = "--reference MODEL"
"""The option of ``diagnose`` that reads the weights of the checkpoints."""

Judge = Callable[[Run, Any], Iterator[Finding | Skip]]


@dataclass(frozen=True, slots=True)
class Rule:
    """One judgement. ``needs``: all of these; ``any_of``: at least one of these.

    ``zeros``: a column of nothing but zeros is a measurement; otherwise it was never computed.
    """

    code: str
    name: str
    signal: Signal
    needs: tuple[str, ...]
    any_of: tuple[str, ...]
    zeros: bool
    limits: Any
    text: str
    brief: str
    doc: str
    judge: Judge

    @property
    def remedy(self) -> str:
        """The paragraph of the docstring that begins with "Remedy:"."""
        return " ".join(self.doc.partition("Remedy:")[2].split())

    def missing(self, run: Run) -> tuple[str, ...]:
        """Return what the run lacks of what the rule needs."""
        rows = self._rows(run)
        lacking = [need for need in self.needs if not available(run, need, rows)]
        if self.any_of and not any(available(run, need, rows) for need in self.any_of):
            lacking.append(" or ".join(self.any_of))
        return tuple(lacking)

    def _rows(self, run: Run) -> int:
        """Return how many rows the rule could judge: those of its scarcest column."""
        return min(
            (finite_rows(run, name) for name in self._columns(run)), default=run.logged_steps
        )

    def _columns(self, run: Run) -> list[str]:
        """Return the columns that the rule will read: all it needs, the best of the others."""
        needed = [need for need in self.needs if finite_rows(run, need)]
        either = best(run, [need for need in self.any_of if need in run.columns])
        return [*needed, either] if either else needed

    def _zeros(self, run: Run) -> tuple[str, ...]:
        """Return the columns that hold nothing but zeros, in words."""
        if self.zeros:
            return ()
        empty = [name for name in self._columns(run) if all_zeros(run, name)]
        return tuple(f"{name}: exact zeros throughout, not measured" for name in empty)

    def _went_silent(self, run: Run) -> tuple[str, ...]:
        """Return the columns that stopped being logged while the log went on, in words."""
        silent = {name: silent_since(run, name) for name in self._columns(run)}
        return tuple(f"{name} after step {at}" for name, at in silent.items() if at is not None)

    def outcome(self, run: Run, limits: Any) -> list[Finding] | Skip:
        """Judge a run: findings (none means clear), or the reason why the rule could not look."""
        missing = self.missing(run) or self._zeros(run)
        if missing:
            return Skip(self.code, missing, _command(run, missing))
        findings: list[Finding] = []
        for item in self.judge(run, limits):
            if isinstance(item, Skip):
                lacking = [need for need in item.missing if need in (*self.needs, *self.any_of)]
                command = item.command or _command(run, lacking)
                return findings or replace(item, code=self.code, command=command)
            findings.append(
                replace(
                    item,
                    args={**asdict(limits), **item.args},
                    code=self.code,
                    name=self.name,
                    signal=self.signal,
                    text=self.text,
                    brief=self.brief,
                    advice=(self.remedy,),
                )
            )
        silent = () if findings else self._went_silent(run)
        return Skip(self.code, silent) if silent else findings


@dataclass(frozen=True, slots=True)
class NoLimits:
    """For rules that compare with nothing."""


def rule(
    code: str,
    *,
    signal: Signal,
    text: str,
    brief: str = "",
    needs: Sequence[str] = (),
    any_of: Sequence[str] = (),
    zeros: bool = False,
    limits: type[Any] = NoLimits,
) -> Callable[[Judge], Rule]:
    """Make a function the rule ``code``; ``limits``: a dataclass of numbers with defaults."""

    def made(judge: Judge) -> Rule:
        return Rule(
            code=code,
            name=judge.__name__,
            signal=signal,
            needs=tuple(needs),
            any_of=tuple(any_of),
            zeros=zeros,
            limits=limits,
            text=text,
            brief=brief,
            doc=inspect.getdoc(judge) or "",
            judge=judge,
        )

    return made


def available(run: Run, need: str, rows: int) -> bool:
    """Say whether a run has what ``need`` names; ``rows`` is what it offers of the columns.

    A column of ``run.metrics`` with a finite value; ``samples.FIELD``; ``samples.steps`` (one file
    with two steps or more); ``config.NAME``; ``checkpoints``; ``scans`` (a checkpoint whose weights
    were read); ``scores`` (a recomputation); ``rows>=N`` (finite values of the columns that the
    rule needs).
    """
    kind, _, rest = need.partition(".")
    if kind == "samples":
        return bool(ladders(run, 1)) if rest == "steps" else rest in sample_fields(run)
    if kind == "config":
        return rest in run.config
    if need == "checkpoints":
        return bool(run.checkpoints)
    if need == "scans":
        return bool(scans(run))
    if need == "scores":
        return run.scores is not None and run.scores.height > 0
    if need.startswith("rows>="):
        return rows >= int(need.removeprefix("rows>="))
    return finite_rows(run, need) > 0


def _command(run: Run, missing: Sequence[str]) -> str | None:
    """Return the option that supplies what is missing: a unit that the log leaves open, weights."""
    lacking = " ".join(missing)
    for unknown, stated in (
        ("kl_unknown", "kl_ref_token"),
        ("kl_unknown", "kl_ref_response"),
        ("entropy_unknown", "entropy"),
    ):
        if stated in lacking and unknown in run.columns:
            return f"--map {shlex.quote(f'{run.columns[unknown].sources[0].key}={stated}')}"
    unread = {"scans": run.scans, "scores": run.scores}
    if run.checkpoints and any(need in missing and unread[need] is None for need in unread):
        return RECOMPUTE
    return None
