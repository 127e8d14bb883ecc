"""Several numbers that leave their whole range in the last rows of the log."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from typing import NamedTuple

from rlhfdoctor.measures import Track, logged, metric_evidence, track
from rlhfdoctor.model import Evidence, Finding, Onset, Run, Severity, Skip
from rlhfdoctor.rules import rule
from rlhfdoctor.rules._kl import KLS, may_be_distance
from rlhfdoctor.series import noise


@dataclass(frozen=True, slots=True)
class Limits:
    """How many rows, and how far beyond everything before them each quantity must be."""

    least: int = 2  # logged rows at the end; a single one may be a batch of another size
    longest: int = 4  # logged rows at the end; from five on the other rules alarm
    before: int = 6  # logged rows before those, since the last resume
    lost: float = 0.5  # of the size of the reward's median before
    noises: float = 2.0  # standard deviations of the reward's row-to-row noise below that median
    low: float = 0.3  # of the entropy's median before
    high: float = 2.0  # times the median before: entropy, response length
    short: float = 0.25  # of the response length's median before
    cut: float = 0.5  # share of responses cut at the length limit
    whole: float = 0.25  # the same before, median; where more were cut they tell nothing new
    times: float = 5.0  # times the largest KL before
    token: float = 0.3  # nats per token, KL
    response: float = 5.0  # nats per response, KL


Bounds = Callable[[Sequence[float], Track, Limits], tuple[float, float]]


def _reward(before: Sequence[float], item: Track, limits: Limits) -> tuple[float, float]:
    level = median(before)
    return level - max(limits.lost * abs(level), limits.noises * noise(before)), math.inf


def _entropy(before: Sequence[float], item: Track, limits: Limits) -> tuple[float, float]:
    level = median(before)
    return (limits.low * level, limits.high * level) if level > 0.0 else (-math.inf, math.inf)


def _length(before: Sequence[float], item: Track, limits: Limits) -> tuple[float, float]:
    level = median(before)
    return limits.short * level, limits.high * level


def _cut(before: Sequence[float], item: Track, limits: Limits) -> tuple[float, float]:
    return -math.inf, limits.cut if median(before) < limits.whole else math.inf


def _kl(before: Sequence[float], item: Track, limits: Limits) -> tuple[float, float]:
    if not may_be_distance(item.column):
        return -math.inf, math.inf
    far = {"kl_ref_token": limits.token, "kl_ref_response": limits.response}.get(item.metric)
    most = max(before)
    if far is None:
        return -math.inf, limits.times * most if most > 0.0 else math.inf
    return -math.inf, max(limits.times * most, far)


class _Quantity(NamedTuple):
    """What is compared: its class of evidence, its name, its columns, and how far is far."""

    signal: str
    words: str
    metrics: tuple[str, ...]
    bounds: Bounds


QUANTITIES = (
    _Quantity("kl", "KL", KLS, _kl),
    _Quantity("entropy", "entropy", ("entropy", "entropy_unknown"), _entropy),
    _Quantity("length", "response length", ("response_length_mean",), _length),
    _Quantity("length", "share cut at the limit", ("truncation_rate",), _cut),
    _Quantity("reward", "reward", ("reward_raw_mean",), _reward),
)
"""The quantities by class of evidence; KL and entropy are compared with themselves alone where
their unit is unknown."""

COLUMNS = tuple(name for quantity in reversed(QUANTITIES) for name in quantity.metrics)


@rule(
    "RWD011",
    signal="reward",
    needs=["rows>=8"],
    any_of=COLUMNS,
    limits=Limits,
    text="the last logged rows ({rows}) lie far beyond all rows before them: {changes}{meaning}",
    brief="in the last {rows} logged rows {changes}",
)
def breaks_at_the_end(run: Run, limits: Limits) -> Iterator[Finding | Skip]:
    """The run broke in its last rows, and the log ends before any other alarm can ring.

    Whoever watches a run stops it when it breaks, so that a log may hold two to four rows of a
    collapse, while alarms wait for five. In their place stand several witnesses: at least two
    classes of evidence (reward, entropy, length, KL) must have left everything that the run showed
    since its start or its last resume, in at least two rows up to the end, and must be far off:
    half of the reward lost, entropy or length doubled or all but gone, answers that no longer end,
    a KL of five times its largest and far in its unit. One row alone may be a last batch of another
    size. A curriculum, a new stage or a switch of the data moves the reward or the length of the
    answers at once, and may move both; so length beside the reward or the entropy is a warning,
    and any other pair a collapse. A KL or an entropy of unknown unit is told by its ratio to its
    own past; where no witness has a known unit it is a warning. [H]

    Remedy: go back to the last checkpoint before these rows; read the responses of the last row;
    lower the learning rate, and look at the batch of the first of them. If the data changed there
    on purpose, let the run go on for five rows more and judge again.
    """
    since = max((seam.step for seam in run.seams), default=None)
    found = [
        (quantity, item)
        for quantity in QUANTITIES
        if any(logged(run, name) for name in quantity.metrics)
        and len(item := _since(track(run, *quantity.metrics), since))
        >= limits.before + limits.least
        and not item.placeholder
    ]
    if len({quantity.signal for quantity, _ in found}) < 2:
        yield Skip("", (f"two of {', '.join(dict.fromkeys(q.signal for q in QUANTITIES))}",))
        return
    broken = [
        one for quantity, item in found if (one := _broken(quantity, item, limits)) is not None
    ]
    signals = {one.quantity.signal for one in broken}
    if len(signals) < 2:
        return
    earliest = min(broken, key=lambda one: one.steps[0])
    if max(one.steps[0] for one in broken) > min(one.steps[-1] for one in broken):
        return
    doubt = _doubt(broken, signals)
    severity: Severity = "warning" if doubt else "critical"
    yield Finding(
        severity,
        tuple(_evidence(run, one) for one in broken),
        {
            "rows": len(earliest.steps),
            "changes": ", ".join(one.words for one in broken),
            "meaning": doubt,
        },
        onset=Onset(earliest.steps[0], earliest.after + 1, earliest.steps[0]),
        alone=not doubt,
    )


def _since(item: Track, step: int | None) -> Track:
    """Return the rows of a track from a step on."""
    if step is None:
        return item
    first = next((place for place, at in enumerate(item.steps) if at >= step), len(item))
    return Track(item.metric, item.column, item.steps[first:], item.values[first:])


class _Broken(NamedTuple):
    """A quantity beyond its bounds in its last rows. ``after``: the step of the row before them."""

    quantity: _Quantity
    item: Track
    before: float
    level: float
    low: float
    high: float
    after: int
    steps: list[int]

    @property
    def words(self) -> str:
        """What the sentence says of it."""
        unit = {"unknown": " (unit unknown)", "reward": "", "fraction": ""}.get(
            self.item.column.unit, f" {self.item.column.unit}"
        )
        return f"{self.quantity.words} {self.before:.3g} -> {self.level:.3g}{unit}"


def _broken(quantity: _Quantity, item: Track, limits: Limits) -> _Broken | None:
    """Look for the most rows at the end that all lie beyond everything before them, and far."""
    for rows in range(limits.longest, limits.least - 1, -1):
        before, last = item.values[:-rows], item.values[-rows:]
        if len(before) < limits.before:
            continue
        least, most = min(before), max(before)
        if not (max(last) < least or min(last) > most):
            continue
        low, high = quantity.bounds(before, item, limits)
        if max(last) < low or min(last) > high:
            return _Broken(
                quantity,
                item,
                median(before),
                median(last),
                min(low, least),
                max(high, most),
                item.steps[-rows - 1],
                item.steps[-rows:],
            )
    return None


def _doubt(broken: Sequence[_Broken], signals: set[str]) -> str:
    """Say why it may be no collapse; nothing where it must be one."""
    if all(one.item.column.unit == "unknown" for one in broken):
        return "; the units are unknown"
    data = len(signals) == 2 and "length" in signals and "kl" not in signals
    return "; other data could do so too" if data else ""


def _evidence(run: Run, one: _Broken) -> Evidence:
    first, last = len(one.item) - len(one.steps), len(one.item) - 1
    down = one.level < one.before
    return metric_evidence(
        run,
        one.item,
        first,
        last,
        one.level,
        limit_low=one.low if down else None,
        limit_high=None if down else one.high,
    )
