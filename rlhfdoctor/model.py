"""The nouns as frozen, slotted dataclasses. This module imports nothing of the package.

Two invariants hold everywhere: ``None`` (null) means "not logged", NaN means "logged as NaN".
Steps are the trainer's own logged steps; ``Run.log_offset`` says how far they are ahead of the
number of updates that produced the weights.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import polars as pl

Severity = Literal["critical", "warning", "info"]
Verdict = Literal["collapsed", "degraded", "healthy", "inconclusive"]
Reply = Literal["yes", "no", "unknown"]
Confidence = Literal["confirmed", "probable", "possible"]
Split = Literal["train", "eval"]

POLICY_ROLES = ("policy", "best", "final")
"""Roles of checkpoints that one can go back to."""

SEVERITIES: tuple[Severity, ...] = ("critical", "warning", "info")
"""From the gravest to the mildest."""


# What a reader yields


@dataclass(frozen=True, slots=True)
class Location:
    """Where a number can be looked up: a file of the run and a key, a line or a tensor in it."""

    file: str
    key: str | None = None
    line: int | None = None
    tensor: str | None = None


@dataclass(frozen=True, slots=True)
class Note:
    """What a reader could not use, and why. Nothing is dropped without one.

    ``left_out``: how many records were lost entirely. ``unread``: a whole file or folder was.
    """

    where: str
    text: str
    left_out: int = 0
    unread: bool = False


@dataclass(frozen=True, slots=True)
class Row:
    """One logged row, under the keys that the trainer wrote.

    others: keys that the row carried besides its values: those of the step and the epoch, and
    those without a number. They tell trainers apart. run: the name of the run that the row belongs
    to, where a file holds several.
    """

    values: Mapping[str, float]
    step: int | None
    epoch: float | None = None
    split: Split = "train"
    rank: int | None = None
    line: int | None = None
    wall_time: float | None = None
    others: tuple[str, ...] = ()
    run: str | None = None


@dataclass(frozen=True, slots=True)
class Rows:
    """Many logged rows at once, by column: what a reader of long files yields.

    steps, epochs, lines: one entry a row. ranks, evals, runs: likewise, or empty where no row names
    a process, is an evaluation, names a run. tables: rows that carry the same keys, as (places
    among the rows, numbers of each key at those places). others: as in ``Row``, of all rows.
    """

    steps: Sequence[int | None]
    epochs: Sequence[float | None]
    ranks: Sequence[int | None]
    lines: Sequence[int | None]
    evals: Sequence[bool]
    tables: Sequence[tuple[Sequence[int], Mapping[str, Sequence[float]]]]
    others: frozenset[str] = frozenset()
    runs: Sequence[str | None] = ()


@dataclass(frozen=True, slots=True)
class Sample:
    """One response of the policy, or one preference pair; ``None`` where the file is silent.

    tokens: the response's length in the trainer's own tokens, as the file tells it.
    """

    line: int
    step: int | None = None
    split: str | None = None
    prompt: str | None = None
    response: str | None = None
    reward: float | None = None
    reward_components: Mapping[str, float] | None = None
    advantage: float | None = None
    group: str | None = None
    truncated: bool | None = None
    prompt_ids: tuple[int, ...] | None = None
    token_ids: tuple[int, ...] | None = None
    tokens: int | None = None
    logprobs: tuple[float, ...] | None = None
    ref_logprobs: tuple[float, ...] | None = None
    chosen: str | None = None
    rejected: str | None = None


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A saved policy. ``complete``: weights and trainer state present, no zero-byte file."""

    step: int
    path: str
    name: str
    epoch: float | None = None
    role: str = "policy"
    format: str = "unknown"
    complete: bool = False
    loadable: bool = False
    convert: str | None = None
    missing: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Setting:
    """One value of the run's configuration, under a name of ``vocabulary.SETTINGS``."""

    name: str
    value: float | int | str | bool
    where: Location


# What a run is


@dataclass(frozen=True, slots=True)
class Conflict:
    """Files that tell different numbers for one key at ``steps`` steps; the last of them is kept.

    values, files: what each tells at the first of these steps.
    """

    key: str
    steps: int
    first_step: int
    values: tuple[float, ...]
    files: tuple[str, ...]
    kept: Location


@dataclass(frozen=True, slots=True)
class Seam:
    """A place where the log goes back from step ``left`` to ``step``: the run was resumed."""

    left: int
    step: int
    where: Location


@dataclass(frozen=True, slots=True)
class Source:
    """One file that was read, and how it was understood."""

    file: str
    reader: str
    dialect: str | None
    rows: int


@dataclass(frozen=True, slots=True)
class Column:
    """What is known about a column of ``Run.metrics``.

    ``unit`` is "unknown" where neither the framework nor the user said it; no band judges such a
    column. ``derived`` columns are shown and never judged by a band. ``printed``: no source but a
    console, which may have rounded a small number to 0.
    """

    metric: str
    unit: str
    estimator: str | None = None
    reduction: str | None = None
    derived: bool = False
    corrections: tuple[str, ...] = ()
    sources: tuple[Location, ...] = ()
    printed: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """One training run, read and translated.

    observations: long lazy frame, the record of everything logged, as it was logged (step, epoch,
    split, rank, metric, value, source, key, line, segment, wall_time). metrics: wide frame derived
    from it, one row a step, train columns under their vocabulary name, evaluation columns behind
    ``eval_``, corrected where ``columns`` says so.
    samples: lazy frame with one column for each field of ``Sample``, plus source.
    logged_steps: training rows that hold at least one known metric. scores: what was recomputed
    (scores.SCORES), against ``references``. scans: what the checkpoints' weights are like.
    conflicts, seams: where files contradict each other, and where the log was begun again.
    """

    path: str
    name: str
    framework: str
    algorithm: str
    dialect: str
    step_unit: str
    sources: tuple[Source, ...]
    observations: pl.LazyFrame
    metrics: pl.DataFrame
    columns: Mapping[str, Column]
    unmapped: Mapping[str, Location]
    samples: pl.LazyFrame
    sample_count: int
    logged_steps: int
    checkpoints: tuple[Checkpoint, ...] = ()
    config: Mapping[str, Setting] = field(default_factory=dict)
    log_offset: int = 0
    scores: pl.DataFrame | None = None
    references: tuple[Mapping[str, object], ...] = ()
    scans: pl.DataFrame | None = None
    conflicts: tuple[Conflict, ...] = ()
    seams: tuple[Seam, ...] = ()
    notes: tuple[Note, ...] = ()

    @property
    def first_step(self) -> int | None:
        """First logged step, or None where nothing was logged."""
        return int(self.metrics["step"][0]) if self.metrics.height else None

    @property
    def last_step(self) -> int | None:
        """Last logged step, or None where nothing was logged."""
        return int(self.metrics["step"][-1]) if self.metrics.height else None

    @property
    def policies(self) -> tuple[Checkpoint, ...]:
        """The checkpoints that hold the policy: no critic, no reward model."""
        return tuple(item for item in self.checkpoints if item.role in POLICY_ROLES)

    def number(self, setting: str) -> float | None:
        """Return a configuration value as a finite number, or None where it is none."""
        found = self.config.get(setting)
        if found is None or isinstance(found.value, bool | str) or not math.isfinite(found.value):
            return None
        return float(found.value)


# What a rule finds


@dataclass(frozen=True, slots=True)
class Acceptance:
    """Why a finding fails no gate: somebody looked at it and said so.

    by: where that was said. reason: in their words. until: the last day on which it holds, as ISO
    8601 writes it; None without end.
    """

    by: Literal["ignore", "baseline"]
    reason: str
    until: str | None = None


@dataclass(frozen=True, slots=True)
class Onset:
    """The step where something began, and the interval that the data allow for it."""

    step: int
    low: int
    high: int


@dataclass(frozen=True, slots=True)
class Evidence:
    """One observation behind a finding: what was seen, against which limit, and where."""

    kind: Literal["metric", "samples", "config", "checkpoint", "log"]
    subject: str
    observed: float | str
    where: Location
    limit_low: float | None = None
    limit_high: float | None = None
    unit: str | None = None
    estimator: str | None = None
    first_step: int | None = None
    last_step: int | None = None


@dataclass(frozen=True, slots=True)
class Finding:
    """What a rule saw. It cannot exist without evidence.

    A rule fills the first block; the rule decorator stamps the second with what belongs to every
    finding of that rule. ``alone``: critical without another class of evidence that agrees.
    ``weak``: what a critical finding is worth where nothing agrees.
    ``accepted``: set by whoever gates the run, where a finding is known and borne.
    """

    severity: Severity
    evidence: tuple[Evidence, ...]
    args: Mapping[str, object] = field(default_factory=dict)
    onset: Onset | None = None
    recovered_at: int | None = None
    alone: bool = False
    weak: Severity = "warning"

    code: str = ""
    name: str = ""
    signal: str = ""
    text: str = ""
    brief: str = ""
    advice: tuple[str, ...] = ()

    accepted: Acceptance | None = None

    def __post_init__(self) -> None:
        """Refuse a finding that rests on nothing."""
        if not self.evidence:
            raise ValueError(f"finding {self.code or self.name or '?'} has no evidence")

    @property
    def onset_step(self) -> int | None:
        """The step where it began, or None where it has no beginning (a configuration)."""
        return self.onset.step if self.onset else None

    @property
    def family(self) -> str:
        """The letters of the code: KL, LEN, GRP."""
        return self.code.rstrip("0123456789")

    @property
    def message(self) -> str:
        """The rule's sentence with this finding's numbers."""
        return self.text.format(**self.args)

    @property
    def summary(self) -> str:
        """The few words that the headline uses."""
        return (self.brief or self.text).format(**self.args)

    @property
    def fingerprint(self) -> str:
        """Twelve hex digits that stay the same while the same rule accuses the same subjects."""
        subjects = "|".join(sorted({item.subject for item in self.evidence}))
        return hashlib.sha256(f"{self.code}|{subjects}".encode()).hexdigest()[:12]


@dataclass(frozen=True, slots=True)
class Skip:
    """A rule could not look: for want of what, and the command that would supply it."""

    code: str
    missing: tuple[str, ...]
    command: str | None = None


# What the doctor concludes


@dataclass(frozen=True, slots=True)
class Answer:
    """The reply to one question of the decision tree, and what it rests on."""

    code: str
    question: str
    reply: Reply
    why: str
    findings: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Rival:
    """Another cause that would look the same, and the test that tells the two apart.

    reply: yes where the test speaks for the rival, no where it rules it out, unknown where it was
    not run. why: the rules that tell so, or what they lacked. command: what would run the test.
    """

    name: str
    test: str
    reply: Reply
    why: str
    command: str = ""


@dataclass(frozen=True, slots=True)
class Cause:
    """One end of the tree: a name, how sure, what to do, and the rules that led there."""

    name: str
    confidence: Confidence
    remedy: str
    path: tuple[str, ...]
    answers: tuple[str, ...] = ()
    onset: Onset | None = None
    caveat: str = ""
    rivals: tuple[Rival, ...] = ()


@dataclass(frozen=True, slots=True)
class Change:
    """One parameter to change before the next attempt."""

    parameter: str
    current: float | str | None
    suggested: float | str | None
    why: str


@dataclass(frozen=True, slots=True)
class TableRow:
    """One row of the rollback table: crash steps up to ``last`` (None: without end).

    name: as it is shown ("< 1000"). checkpoint: where to go, one of ``TABLE_PLACES``. change: what
    to change, in words.
    """

    name: str
    last: int | None
    checkpoint: str
    change: str


TABLE_PLACES = ("initial", "last epoch", "last stable point")
"""Where a row of the rollback table can lead."""


@dataclass(frozen=True, slots=True)
class TableAnswer:
    """What the step/epoch table alone says, before the evidence is asked."""

    row: str
    checkpoint: str
    change: str


@dataclass(frozen=True, slots=True)
class Rejection:
    """A checkpoint that was not chosen, and why."""

    checkpoint: str
    why: str


@dataclass(frozen=True, slots=True)
class Resume:
    """How to go on from a checkpoint with a plan's changes: printed to be copied, never run.

    text: a command, or the lines of a script or a configuration that change. caveats: what that
    framework does on a resume that this run would trip over, a sentence each.
    """

    kind: Literal["shell", "python", "yaml"]
    text: str
    caveats: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Reading:
    """One quantity at a checkpoint, beside what it is held against.

    value, low, high: the estimate and its 95 % interval, None where nothing tells how sure it is.
    base: the same at the start of the run; of the KL, at the onset. source: what it was read from.
    """

    value: float
    low: float | None
    high: float | None
    base: float | None
    unit: str
    source: str

    @property
    def share(self) -> float | None:
        """The value as a share of the base; None where there is none above 0."""
        return self.value / self.base if self.base is not None and self.base > 0.0 else None

    @property
    def lacks(self) -> str:
        """What is missing to hold it against a bound, in words; empty where nothing is."""
        if self.low is None or self.high is None:
            return "nothing tells how sure that is"
        if self.base is None:
            return "nothing to hold it against"
        return "" if self.base > 0.0 else f"what it is held against is {self.base:.4g}"

    def outside(self, least: float, most: float) -> bool:
        """Say whether the whole interval lies outside these shares of the base."""
        if self.lacks or self.low is None or self.high is None or self.base is None:
            return False
        return self.high < least * self.base or self.low > most * self.base


@dataclass(frozen=True, slots=True)
class Rung:
    """One checkpoint on the ladder.

    readings: by name, those that could be made. outside: bounds that it breaks, in words. unknown:
    what could not be looked at, in words.
    """

    checkpoint: Checkpoint
    readings: Mapping[str, Reading]
    outside: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RollbackPlan:
    """Where to go back to. ``checkpoint`` is None where only the initial model is left.

    cause: what it undoes, and that cause's remedy; empty where nothing is. perplexity: of the
    responses drawn from the checkpoint. unchecked: what nobody looked at of it, in words. resume:
    how to go on from there, where that is known of the framework. ladder: every checkpoint.
    """

    checkpoint: Checkpoint | None
    table: TableAnswer | None
    overruled: bool
    reason: str
    changes: tuple[Change, ...] = ()
    rejected: tuple[Rejection, ...] = ()
    needed: bool = True
    cause: str = ""
    perplexity: float | None = None
    unchecked: tuple[str, ...] = ()
    resume: Resume | None = None
    ladder: tuple[Rung, ...] = ()


@dataclass(frozen=True, slots=True)
class Cost:
    """What was computed for nothing.

    steps_after_onset, fraction, hours, gpu_hours: after the onset of a collapse; of all steps; wall
    clock; times the GPUs of the configuration. silent_fraction, silent_gpu_hours: in groups whose
    rewards were all equal, before the onset. money: all GPU-hours named here at the price that the
    user gave. unpriced: why a price made no money. None where the log does not tell.
    """

    steps_after_onset: int = 0
    fraction: float = 0.0
    hours: float | None = None
    gpu_hours: float | None = None
    silent_fraction: float | None = None
    silent_gpu_hours: float | None = None
    money: float | None = None
    unpriced: str = ""


@dataclass(frozen=True, slots=True)
class StatedLimit:
    """A limit that a user set: its value, the rule's own, and where that was said."""

    code: str
    limit: str
    value: float
    default: float
    origin: str


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Everything the doctor concluded about one run.

    profile_reason: why the doctor chose the profile; empty where the user named it. stated: limits
    that somebody set otherwise than the rules and the built-in profiles do.
    """

    run: Run
    profile: str
    limits: Mapping[str, Mapping[str, object]]
    verdict: Verdict
    headline: str
    next_step: str
    onset: Onset | None
    findings: tuple[Finding, ...]
    clear: tuple[str, ...]
    skipped: tuple[Skip, ...]
    unanswered: tuple[str, ...]
    answers: tuple[Answer, ...]
    causes: tuple[Cause, ...]
    rollback: RollbackPlan
    cost: Cost | None = None
    references: tuple[Mapping[str, object], ...] = ()
    backtest: tuple[Mapping[str, object], ...] = ()
    notes: tuple[Note, ...] = ()
    profile_reason: str = ""
    stated: tuple[StatedLimit, ...] = ()
