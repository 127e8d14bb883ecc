"""Alarms, KL controllers and a reward normaliser, replayed over plain lists of finite numbers.

Lists are oldest first, one number a logged row. What is said of a row rests on that row and those
before it, so that nothing already said changes when rows are appended; only ``oscillation``
describes a whole series. Every constant is a field of ``Constants``. [H] marks a heuristic without
a published source.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from itertools import pairwise
from statistics import median
from typing import Any, NamedTuple

from rlhfdoctor.errors import DoctorError

BETA_RANGE = (1e-30, 1e30)
"""Where a beta is held that nothing else bounds: floats end. [H]"""

LAGS = 200
"""Rows up to which a period is looked for: longer ones no run shows three times. [H]"""

KEEP = 50
"""Samples kept: the practitioners' emergency advice, "the last 50 samples"."""

REGULAR = 0.3
"""Autocorrelation from which a series is called periodic, if it is also ``CLEAR``. [H]"""

CLEAR = 4.0
"""Standard errors of the autocorrelation of noise, 1 / sqrt(rows), that a period stands out by.
Four, since ``LAGS`` of them are tried."""


def _constant(default: Any, low: float, high: float, meaning: str) -> Any:
    """Return a field of ``Constants``: its default, the range it is held to, and its help."""
    return field(default=default, metadata={"low": low, "high": high, "help": meaning})


def _plain(value: float) -> str:
    """Return a number as it may be typed: whole where it is."""
    return f"{value:.0f}" if value == int(value) else f"{value:g}"


@dataclass(frozen=True, slots=True)
class Constants:
    """What alarms, controllers, normaliser and plan are replayed with.

    Defaults are those of the field articles on PPO and DPO monitoring that KL002 and its kin cite;
    horizon: verl's (``core_algos``, after Ziegler et al., 1909.08593). warmup, exponent: [H]. None:
    there is no such number unless the user states one, and what needs it does not look.

    Raises:
        DoctorError: one of them lies outside its range, or is NaN; or start outside the bounds.
    """

    kl_ceiling: float | None = _constant(
        None, 1e-9, 1e9, "KL alarm: KL above this, in the log's unit. [default: 5 nats/response]"
    )
    kl_rows: int = _constant(10, 1, 10**6, "KL alarm: for so many logged rows in a row.")
    sigmas: float = _constant(
        3.0, 0, 1e6, "Length alarm: above its mean plus so many standard deviations."
    )
    warmup: int = _constant(10, 2, 10**6, "Length alarm: rows before it is judged.")
    perplexity_share: float = _constant(
        0.5, 1e-6, 1, "Perplexity alarm: it, or exp(entropy), below this share of its start."
    )
    loss_variance: float = _constant(0.5, 0, 1e9, "Loss alarm: its variance above this.")
    window: int = _constant(10, 2, 10**4, "Loss alarm: over so many logged rows.")
    target: float | None = _constant(
        None, 1e-9, 1e9, "Controllers: KL aimed at, in the log's unit. [default: 2 nats/response]"
    )
    start: float = _constant(0.01, 1e-12, 1e6, "Controllers: beta, the weight of the KL, at first.")
    eta: float = _constant(0.2, 1e-6, 100, "Exponential controller: beta * exp(eta * (KL-target)).")
    exponent: float = _constant(1.0, 1e-6, 100, "Exponential controller: greatest exponent.")
    low: float = _constant(0.8, 0, 1, "Adaptive controller: its band begins at so many targets.")
    high: float = _constant(1.2, 1, 1e6, "Adaptive controller: its band ends at so many targets.")
    down: float = _constant(0.9, 1e-6, 1, "Adaptive controller: beta times this below the band.")
    up: float = _constant(1.1, 1, 1e6, "Adaptive controller: beta times this above the band.")
    beta_low: float = _constant(0.01, 1e-12, 1e6, "Adaptive controller: least beta.")
    beta_high: float = _constant(1.0, 1e-12, 1e6, "Adaptive controller: greatest beta.")
    horizon: int = _constant(
        10_000, 1, 10**9, "Ziegler's controller: beta * (1 + clip(KL/target-1, +-0.2) * n/horizon)."
    )
    responses: int | None = _constant(
        None, 1, 10**9, "Ziegler's controller: n. [default: batch size of the run, else 1]"
    )
    clip: float = _constant(5.0, 1e-6, 1e9, "Reward normaliser: clips rewards to +- this.")
    keep: int = _constant(KEEP, 1, 10**6, "Emergency plan: samples that are kept.")
    lr_share: float = _constant(0.1, 1e-9, 1, "Emergency plan: the learning rate times this.")

    def __post_init__(self) -> None:
        """Refuse what lies outside its range."""
        for item in fields(self):
            value, bounds = getattr(self, item.name), item.metadata
            if value is not None and not bounds["low"] <= value <= bounds["high"]:
                raise DoctorError(
                    f"--{item.name.replace('_', '-')} {value}: out of range",
                    f"from {_plain(bounds['low'])} to {_plain(bounds['high'])}",
                )
        if self.beta_low > self.beta_high:
            low, high = _plain(self.beta_low), _plain(self.beta_high)
            raise DoctorError(
                f"--beta-low {low} lies above --beta-high {high}", "beta is held between the two"
            )
        if not self.beta_low <= self.start <= self.beta_high:
            start, low, high = map(_plain, (self.start, self.beta_low, self.beta_high))
            raise DoctorError(
                f"--start {start} lies outside --beta-low {low} to --beta-high {high}",
                "the adaptive controller holds beta between the two: move one of the three",
            )


CEILING, TARGET = 5.0, 2.0
"""KL ceiling and target, nats per response. The articles give 5.0 and 1.5-2.5 without a unit; in
nats per token 3.96 was already a diverged model, so they are applied to sums alone."""

START_ROWS = 5
"""Rows whose median is the start of a logged series. [H]"""

Seen = list["float | None"]
"""What an alarm saw at each row where its condition holds; None where it does not."""


def above_for(values: Sequence[float], ceiling: float, rows: int) -> Seen:
    """Return the values that stand above a ceiling, and stood so for ``rows`` rows."""
    seen: Seen = []
    streak = 0
    for value in values:
        streak = streak + 1 if value > ceiling else 0
        seen.append(value if streak >= rows else None)
    return seen


def above_spread(values: Sequence[float], sigmas: float, warmup: int) -> Seen:
    """Return the values above mean + ``sigmas`` sample standard deviations of those before them.

    Looks once there are ``warmup`` rows before. A row that rings enters neither mean nor deviation:
    else an explosion would soon be its own mean, and seem to be over.
    """
    seen: Seen = []
    moments = Moments()
    for value in values:
        count, mean, squares = moments.count, moments.mean, moments.squares
        limit = math.inf
        if count >= warmup:
            limit = mean + sigmas * math.sqrt(squares / (count - 1))
        seen.append(value if value > limit else None)
        if value <= limit:
            moments.add(value)
    return seen


def below_start(values: Sequence[float], fall: Callable[[float], float], rows: int) -> Seen:
    """Return the values below ``fall(start)``, the start being the median of the first ``rows``."""
    start = values[:rows]
    limit = fall(median(start)) if start else 0.0
    later = (value if value < limit else None for value in values[rows:])
    return [*[None] * len(start), *later]


def spread_over(values: Sequence[float], most: float, window: int) -> Seen:
    """Return the population variance of the last ``window`` values where it exceeds ``most``.

    Population, for that is what the published numbers are. A variance is at most a quarter of the
    squared range: most windows need no more than that.
    """
    seen: Seen = []
    for end in range(1, len(values) + 1):
        part = values[max(end - window, 0) : end]
        reach = max(part) - min(part)
        found = variance(part) if len(part) == window and reach * reach > 4 * most else 0.0
        seen.append(found if found > most else None)
    return seen


def variance(values: Sequence[float]) -> float:
    """Return the population variance."""
    mean = math.fsum(values) / len(values)
    return math.fsum((value - mean) ** 2 for value in values) / len(values)


class Curve(NamedTuple):
    """What a controller would have done: beta after each row, and the rows at which it was held.

    saturated: rows at which its exponent, its error or beta itself was. bounds: least and greatest
    beta.
    """

    beta: list[float]
    saturated: int
    bounds: tuple[float, float] = BETA_RANGE


def rounded(value: float) -> float:
    """Return a setting to three digits, as people write them."""
    return float(f"{value:.3g}")


def pushed(beta: float, kl: float, target: float, constants: Constants) -> float:
    """Return beta after one row of ``exponential``, the exponent held to +-``exponent``."""
    asked = constants.eta * (kl - target)
    return beta * math.exp(min(max(asked, -constants.exponent), constants.exponent))


def exponential(kl: Sequence[float], target: float, constants: Constants) -> Curve:
    """Replay ``beta * exp(eta * (KL - target))``, called PID-like where it is published.

    It has no bounds of its own: one row of KL 300 at eta 0.1-0.3 would multiply beta by e**30 or
    more. The exponent is held to +-``exponent``; such rows are counted as saturated, and so are
    those at which beta itself is held to ``BETA_RANGE``.
    """
    beta = constants.start
    curve: list[float] = []
    saturated = 0
    for value in kl:
        moved = pushed(beta, value, target, constants)
        beta = min(max(moved, BETA_RANGE[0]), BETA_RANGE[1])
        saturated += abs(constants.eta * (value - target)) > constants.exponent or beta != moved
        curve.append(beta)
    return Curve(curve, saturated)


def adaptive(kl: Sequence[float], target: float, constants: Constants) -> Curve:
    """Replay beta x ``up`` above the band and x ``down`` below it, held to [beta_low, beta_high].

    A published demonstration has KL 0.04 at a target of 0.05, and beta falling there. In exact
    arithmetic 0.04 is 0.8 x 0.05 and inside the band; in binary floating point 0.8 x 0.05 is
    0.04000000000000001 and 0.04 lies below it. That demonstration's beta ends below its start
    through this rounding alone; it is kept, for every trainer has it.
    """
    beta, low, high = constants.start, constants.low * target, constants.high * target
    curve: list[float] = []
    saturated = 0
    for value in kl:
        moved = beta * constants.up if value > high else beta
        moved = beta * constants.down if value < low else moved
        beta = min(max(moved, constants.beta_low), constants.beta_high)
        saturated += beta != moved
        curve.append(beta)
    return Curve(curve, saturated, (constants.beta_low, constants.beta_high))


ZIEGLER_CLIP = 0.2
"""Relative error at which Ziegler et al. (1909.08593) and all who follow them clip."""


def ziegler(kl: Sequence[float], target: float, constants: Constants) -> Curve:
    """Replay beta x ``1 + clip(KL / target - 1, -0.2, 0.2) * n / horizon`` (verl ``core_algos``).

    n: what verl, OpenRLHF and old TRL pass as ``n_steps``: the responses of one update. Rows at
    which the error is clipped are saturated. n / horizon is held to 1: theirs is not, and above 5
    it would turn beta negative.
    """
    beta = constants.start
    share = min((constants.responses or 1) / constants.horizon, 1.0)
    curve: list[float] = []
    saturated = 0
    for value in kl:
        error = value / target - 1
        clipped = min(max(error, -ZIEGLER_CLIP), ZIEGLER_CLIP)
        moved = beta * (1 + clipped * share)
        beta = min(max(moved, BETA_RANGE[0]), BETA_RANGE[1])
        saturated += clipped != error or beta != moved
        curve.append(beta)
    return Curve(curve, saturated)


CONTROLLERS = {"exponential": exponential, "adaptive": adaptive, "ziegler": ziegler}
"""By the names they are reported under."""


def in_band(kl: Sequence[float], target: float, constants: Constants) -> float:
    """Return the share of rows whose KL lies in the band: a property of the run alone."""
    low, high = constants.low * target, constants.high * target
    return sum(low <= value <= high for value in kl) / len(kl)


def oscillation(beta: Sequence[float]) -> tuple[int, float] | None:
    """Return the period of a controller's moves in rows, and how regular they are; None: no period.

    The moves are the changes of ln(beta). Their autocorrelation must first fall below 0, and its
    greatest value after that, at most a third of the rows away, is the period: it must reach
    ``REGULAR`` and ``CLEAR`` standard errors. A steady climb never does.
    """
    moves = [math.log(after / before) for before, after in pairwise(beta)]
    count = len(moves)
    mean = math.fsum(moves) / count if count else 0.0
    moves = [move - mean for move in moves]
    power = math.fsum(move * move for move in moves)
    if power <= 1e-12 * count:
        return None
    related = [
        sum(a * b for a, b in zip(moves, moves[lag:], strict=False)) / power
        for lag in range(1, min(count // 3, LAGS) + 1)
    ]
    dip = next((lag for lag, value in enumerate(related, start=1) if value < 0.0), None)
    if dip is None:
        return None
    period, found = max(enumerate(related[dip:], start=dip + 1), key=_height, default=(0, 0.0))
    return (period, found) if found >= max(REGULAR, CLEAR / math.sqrt(count)) else None


def _height(entry: tuple[int, float]) -> float:
    return entry[1]


class Moments:
    """Count, mean and sum of squared deviations of the numbers so far, by Welford's recurrence."""

    def __init__(self) -> None:
        self.count, self.mean, self.squares = 0, 0.0, 0.0

    def add(self, value: float) -> None:
        """Take one number more."""
        self.count += 1
        before = value - self.mean
        self.mean += before / self.count
        self.squares += before * (value - self.mean)


def normalised(values: Sequence[float]) -> list[float]:
    """Return each value less the running mean, over the running standard deviation.

    Both are of all values so far, this one included, as trainers update before they normalise; 0
    while all were equal. n values lie at most sqrt(n - 1) deviations out, so nothing is
    ever clipped at 5 before the 27th.
    """
    moments = Moments()
    found = []
    for value in values:
        moments.add(value)
        spread = math.sqrt(max(moments.squares, 0.0) / moments.count)
        found.append((value - moments.mean) / spread if spread > 0.0 else 0.0)
    return found
