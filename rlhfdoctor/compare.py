"""Several runs side by side: the same quantities on one axis, and what the sick ones share.

A run becomes a ``Summary`` of bounded size, so that one run is held at a time. Quantities stand
together where metric, unit, estimator and whether they were derived are the same, and nowhere else.
Nothing is interpolated: a column of a curve shows the last value logged in it or before it, and
nothing where the run, or the logging of that metric, had ended.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import pairwise
from statistics import median
from typing import Any, Literal

from rlhfdoctor.errors import DoctorError, did_you_mean
from rlhfdoctor.series import finite, holm, rank_correlation, rank_test
from rlhfdoctor.summaries import QUANTITIES, Curve, Scale, Summary
from rlhfdoctor.vocabulary import METRICS, SETTINGS, metric_of

By = Literal["step", "kl", "epoch"]

DRAWN: dict[By, tuple[str, ...]] = {
    "step": ("kl", "reward", "entropy", "length", "gradient"),
    "epoch": ("kl", "reward", "entropy", "length", "gradient"),
    "kl": ("reward", "heldout"),
}
"""Quantities that are drawn where the user names none. Reward against sqrt(KL) is how Gao et al.
(2210.10760) draw over-optimisation."""

SICKNESS = {"healthy": 0, "degraded": 1, "collapsed": 2}
"""Verdicts in their order; an inconclusive run has no place in it."""

FEWEST_KNOWN = 3
"""Runs that must tell a setting for it to be tried."""

FEWEST_RUNS = 8
"""Runs below which no setting can be told from chance: of two verdicts, four runs each, a perfect
separation has p = 2/70; with seven runs, 2/35 = 0.057."""

BOOKKEEPING = (
    *("seed", "planned_steps", "planned_epochs", "updates_done", "logging_steps", "save_steps"),
    "gpus",
)
"""Settings that say how long, where and how often, and nothing of how a policy is updated; each
further one that is tried would weaken what can be said of the others."""

NUMBERS = tuple(
    name
    for name, option in SETTINGS.items()
    if option.kind in ("count", "positive", "amount", "whole") and name not in BOOKKEEPING
)
"""Settings that are tried against the verdict."""

MEANT_BY = {"kl_coef": "algorithm", "batch_size": "framework", "mini_batch_size": "framework"}
"""Settings that mean one thing only among runs of one algorithm (beta of DPO, weight of a penalty)
or of one framework (of one device, or of all)."""

CATEGORIES = ("framework", "algorithm", "dtype")
"""What runs are counted by."""

GRADIENT = ("median", "variance", "relative_variance")
"""What ``series.spread`` tells of the gradient norm, in its order."""

CLAIM = "the gradient-norm variance of PPO exceeds that of DPO"
"""Told in field articles that compare the two; no source with numbers was found."""


def drawn(metrics: Sequence[str], by: By) -> tuple[str, ...]:
    """Return the quantities and metrics to draw; an unknown name is an error."""
    for name in metrics:
        if name not in QUANTITIES and metric_of(name) is None:
            close = did_you_mean(name, (*QUANTITIES, *METRICS))
            raise DoctorError(
                f"--metric {name}: no such metric{close}",
                f"{', '.join(QUANTITIES)}, or a column that inspect lists",
            )
    return (*dict.fromkeys(metrics),) or DRAWN[by]


# Side by side


def compare(
    given: Sequence[Summary],
    *,
    beside: Sequence[Summary] = (),
    by: By = "step",
    metrics: Sequence[str] = (),
    points: int = 40,
    notes: Sequence[Mapping[str, str]] = (),
) -> dict[str, Any]:
    """Return runs side by side: tables, curves on a shared axis, and what the sick ones share.

    beside: runs that were stored; of one that is also given the longer reading counts. metrics:
    what to draw, see ``drawn``. points: columns of a curve. notes: what is known of the runs
    already; each has a place and a text.
    """
    once = _distinct(given)
    summaries = _distinct((*once, *beside))
    labels = _labels(summaries)
    scales = _scales(summaries)
    told = [
        *map(dict, notes),
        *(
            {"where": label, "text": note}
            for label, item in zip(labels, summaries, strict=True)
            for note in item.notes
        ),
    ]
    if len(once) < len(given):
        more = len(given) - len(once)
        told.append({"where": "runs", "text": f"{more} given again, the same log and name: once"})
    observed = _observed(summaries, labels, told)
    algorithms = _algorithms(observed)
    return {
        "by": by,
        "runs": [_row(label, item, scales) for label, item in zip(labels, summaries, strict=True)],
        "scales": [asdict(scale) for scale in scales],
        "curves": _drawings(summaries, labels, scales, by, drawn(metrics, by), points, told),
        "associations": associations(observed),
        "algorithms": algorithms,
        "claim": _claim(algorithms),
        "notes": told,
    }


def _distinct(summaries: Iterable[Summary]) -> list[Summary]:
    """Return runs without those that occur again; of two readings of a log the longer counts."""
    found: dict[tuple[str, str], Summary] = {}
    for item in summaries:
        known = found.get(item.key)
        if known is None or item.rows > known.rows:
            found[item.key] = item
    return [*found.values()]


def _observed(
    summaries: Sequence[Summary], labels: Sequence[str], notes: list[dict[str, str]]
) -> list[Summary]:
    """Return the runs that count in a statistic: of one log under several names the longest.

    A copy is no second observation. Runs without a log are told apart by path and name.
    """
    logs: dict[tuple[str, ...], list[int]] = {}
    for place, item in enumerate(summaries):
        logs.setdefault((item.log,) if item.logged else item.key, []).append(place)
    found = []
    for places in logs.values():
        first = max(places, key=lambda place: summaries[place].rows)
        found.append(first)
        notes += [
            {"where": labels[place], "text": f"same log as {labels[first]}: counted once"}
            for place in places
            if place != first
        ]
    return [summaries[place] for place in sorted(found)]


def _labels(summaries: Sequence[Summary]) -> list[str]:
    """Return a name for each run: its own, its path where several are called so, else numbered."""
    names = Counter(item.name for item in summaries)
    paths = Counter(item.path for item in summaries)
    found: dict[str, None] = {}
    again: Counter[str] = Counter()
    for item in summaries:
        label = item.name if names[item.name] == 1 else item.path
        if names[item.name] > 1 < paths[item.path]:
            label = f"{item.path} {item.name}"
        numbered = label
        while numbered in found:
            again[label] += 1
            numbered = f"{label} #{again[label] + 1}"
        found[numbered] = None
    return [*found]


def _scales(summaries: Sequence[Summary]) -> list[Scale]:
    """Return every scale of the runs, in the order of ``QUANTITIES`` and of their metrics."""
    there = dict.fromkeys(curve.scale for item in summaries for curve in item.curves)
    order = {name: place for place, name in enumerate(QUANTITIES)}
    return sorted(there, key=lambda scale: order.get(scale.quantity, len(order)))


def _row(label: str, item: Summary, scales: Sequence[Scale]) -> dict[str, Any]:
    return {
        "run": {"id": label, "name": item.name, "path": item.path},
        "framework": item.framework,
        "algorithm": item.algorithm,
        "verdict": item.verdict,
        "onset_step": item.onset[0] if item.onset else None,
        "onset_interval": list(item.onset[1:]) if item.onset else None,
        "cause": item.cause,
        "confidence": item.confidence,
        "step_unit": item.step_unit,
        "first_step": item.first_step,
        "last_step": item.last_step,
        "logged_steps": item.rows,
        "values": [
            {"scale": scales.index(curve.scale), "rows": curve.rows}
            | {"first": curve.first, "last": curve.last}
            for curve in item.curves
        ],
        "perplexity": list(item.perplexity) if item.perplexity else None,
        "gradient": dict(zip(GRADIENT, item.gradient or [None] * len(GRADIENT), strict=True)),
        "hours": item.hours,
        "gpu_hours": item.gpu_hours,
        "settings": dict(item.settings),
        "diagnosed": item.diagnosed,
    }


# Curves


@dataclass(frozen=True, slots=True)
class _Line:
    """A curve on its axis: (x, value) by x, where it ends, and where the onset lies."""

    run: str
    points: list[tuple[float, float]]
    until: float
    onset: float | None


def _drawings(
    summaries: Sequence[Summary],
    labels: Sequence[str],
    scales: Sequence[Scale],
    by: By,
    metrics: Sequence[str],
    points: int,
    notes: list[dict[str, str]],
) -> list[dict[str, Any]]:
    """Return the curves of each asked scale that share an axis, on the columns of that axis."""
    groups: dict[tuple[Scale, str, Scale | None], list[_Line]] = {}
    least = min((item.log_offset for item in summaries), default=0)
    for label, item in zip(labels, summaries, strict=True):

        def told(text: str, label: str = label) -> None:
            notes.append({"where": label, "text": text})

        asked = [curve for curve in item.curves if {curve.quantity, curve.metric} & {*metrics}]
        for name in metrics:
            if not any(name in (curve.quantity, curve.metric) for curve in item.curves):
                told(f"no {name} to draw")
        for axis, against, place in _axes(item, item.log_offset - least, by, told):
            for curve in asked:
                if by == "kl" and curve.quantity == "kl":
                    continue
                line = _line(label, item, curve, place)
                if line.points:
                    groups.setdefault((curve.scale, axis, against), []).append(line)
    order = sorted(groups, key=lambda key: (scales.index(key[0]), key[1]))
    return [
        {
            "scale": scales.index(scale),
            "axis": axis,
            "against": None if against is None else asdict(against),
            **_drawing(groups[scale, axis, against], points, counted=axis in ("step", "row")),
        }
        for scale, axis, against in order
    ]


Place = Callable[[int], float | None]
"""Where a logged step stands on an axis; None where it has no place there."""


def _axes(
    item: Summary, shift: int, by: By, told: Callable[[str], None]
) -> Iterator[tuple[str, Scale | None, Place]]:
    """Yield the axes that a run stands on: a name, the scale of the KL that it is a root of.

    shift: how much further this run's logged steps are ahead of its updates than another's.
    """
    if by == "step":
        if shift:
            told(
                f"its logged steps are {shift} further ahead of its updates than others': its "
                "curves are moved by that"
            )
        yield item.step_unit, None, lambda step: step - shift
    elif by == "epoch":
        if item.epochs:
            yield "epoch", None, lambda step: _epoch(item.epochs, step)
        else:
            told("logs no epoch: not drawn")
    else:
        distances = [curve for curve in item.curves if curve.quantity == "kl"]
        if not distances:
            told("has no KL of a known unit: not drawn")
        for curve in distances:
            below = sum(value < 0 for value in curve.values)
            if below:
                told(
                    f"{curve.metric} is negative in {below} of {len(curve.values)} rows kept, "
                    "which have no root: left out"
                )
            yield f"sqrt({curve.unit})", curve.scale, partial(_distance, curve)


def _epoch(epochs: Sequence[tuple[int, float]], step: int) -> float | None:
    """Return the last epoch logged at or before a step."""
    place = bisect_right(epochs, (step, math.inf)) - 1
    return epochs[place][1] if place >= 0 else None


def _distance(curve: Curve, step: int) -> float | None:
    """Return the root of the KL logged last at or before a step; a negative one has none."""
    value = curve.at(step)
    return None if value is None or value < 0 else math.sqrt(value)


def _line(label: str, item: Summary, curve: Curve, place: Place) -> _Line:
    there = [(place(step), value) for step, value in zip(curve.steps, curve.values, strict=True)]
    known = [(x, value) for x, value in there if x is not None]
    ends = [x for x in (place(curve.until), *(x for x, _ in known)) if x is not None]
    # a stable sort: of equal places the later row stands last
    return _Line(
        label,
        sorted(known, key=lambda point: point[0]),
        max(ends, default=-math.inf),
        place(item.onset[0]) if item.onset else None,
    )


def _ends(lines: Sequence[_Line], points: int, *, counted: bool) -> dict[str, Any]:
    """Return where an axis that holds all lines begins, and where each of its columns ends.

    counted: in whole steps.
    """
    last = max(line.until for line in lines)
    if not counted:
        ends = [last * place / points for place in range(1, points)]
        return {"first": 0.0, "ends": [*ends, last]}
    first = int(min(line.points[0][0] for line in lines))
    count = int(last) - first + 1
    columns = min(points, count)
    whole = [first - 1 + round(count * place / columns) for place in range(1, columns + 1)]
    return {"first": first, "ends": whole}


STRAY = 0.1
"""Share of a run's columns, at either end of their order, that do not widen the scale: single rows
of k3 reach ten times the level of their run [H]. Its last column does."""


def _drawing(lines: Sequence[_Line], points: int, *, counted: bool) -> dict[str, Any]:
    """Return the lines on the columns of their axis, and the ends of their common scale."""
    axis = _ends(lines, points, counted=counted)
    drawings = [{"id": line.run, **_columned(line, axis["ends"])} for line in lines]
    lows, highs = [], []
    for item in drawings:
        known = [value for value in item["values"] if value is not None]
        stray = int(STRAY * len(known))
        kept = (*sorted(known)[stray : len(known) - stray], known[-1])
        lows.append(min(kept))
        highs.append(max(kept))
    return {**axis, "low": min(lows), "high": max(highs), "lines": drawings}


def _columned(line: _Line, ends: Sequence[float]) -> dict[str, Any]:
    """Return the value of each column, and the column in which the onset lies."""
    xs = [x for x, _ in line.points]
    values: list[float | None] = []
    onset = None
    for index, (low, high) in enumerate(pairwise((-math.inf, *ends))):
        place = bisect_right(xs, high) - 1
        values.append(line.points[place][1] if place >= 0 and line.until > low else None)
        if line.onset is not None and low < line.onset <= high:
            onset = index
    return {"values": values, "onset_column": onset}


# What the sick ones share


def associations(summaries: Sequence[Summary]) -> dict[str, Any]:
    """Return which settings go with sickness: rank correlations, and shares by value.

    A numeric setting is tried where ``FEWEST_KNOWN`` judged runs tell it and it is not the same in
    all, one of ``MEANT_BY`` among the most runs in which it means the same: Spearman's rho of its
    value and the verdict (healthy 0, degraded 1, collapsed 2) with ``series.rank_test``, corrected
    for the number of settings tried. Inconclusive runs are left out. Runs differ in more than one
    setting at a time, so nothing here is a cause.
    """
    judged = [item for item in summaries if item.verdict in SICKNESS]
    tried = [told for name in NUMBERS if (told := _correlated(name, judged))]
    corrected = holm([item["p"] for item in tried])
    found: list[dict[str, Any]] = [
        {**item, "p_holm": p} for item, p in zip(tried, corrected, strict=True)
    ]
    return {
        "runs": len(judged),
        "left_out": len(summaries) - len(judged),
        "verdicts": dict(Counter(item.verdict for item in judged)),
        "fewest": FEWEST_RUNS,
        "correlations": sorted(found, key=lambda item: (item["p"], -abs(item["rho"]))),
        "shares": [told for name in CATEGORIES if (told := _shares(name, judged))],
    }


def _correlated(name: str, judged: Sequence[Summary]) -> dict[str, Any] | None:
    telling = [item for item in judged if name in item.settings]
    among = None
    if name in MEANT_BY:
        kinds = [getattr(item, MEANT_BY[name]) for item in telling]
        among = max(sorted({*kinds}), key=kinds.count, default=None)
        telling = [item for item, kind in zip(telling, kinds, strict=True) if kind == among]
    known = [
        (float(value), SICKNESS[item.verdict])
        for item in telling
        if isinstance(value := item.settings[name], int | float)
        and not isinstance(value, bool)
        and finite(value)
    ]
    xs, ys = [x for x, _ in known], [y for _, y in known]
    rho = rank_correlation(xs, ys) if len(known) >= FEWEST_KNOWN else None
    if rho is None:
        return None
    healthy, sick = [x for x, y in known if not y], [x for x, y in known if y]
    return {
        "setting": name,
        "among": among,
        "runs": len(known),
        "rho": rho,
        "p": rank_test(xs, ys),
        "healthy": [min(healthy), max(healthy)] if healthy else None,
        "sick": [min(sick), max(sick)] if sick else None,
    }


def _shares(name: str, judged: Sequence[Summary]) -> dict[str, Any] | None:
    known = [
        (str(value), item.verdict != "healthy")
        for item in judged
        if (value := getattr(item, name, None) or item.settings.get(name)) is not None
    ]
    runs, sick = Counter(value for value, _ in known), Counter(value for value, bad in known if bad)
    if len(runs) < 2:
        return None
    values = [{"value": value, "runs": runs[value], "sick": sick[value]} for value in sorted(runs)]
    return {"setting": name, "values": values}


def _algorithms(summaries: Sequence[Summary]) -> list[dict[str, Any]]:
    """Return, for each algorithm, medians over its runs, each with the number of runs behind it."""
    names = sorted({item.algorithm for item in summaries})
    return [
        {
            "algorithm": name,
            "runs": len(own),
            "verdicts": dict(Counter(item.verdict for item in own)),
            "gradient": {
                key: _middle(item.gradient and item.gradient[place] for item in own)
                for place, key in enumerate(GRADIENT)
            },
            "perplexity": _middle(item.perplexity and item.perplexity[1] for item in own),
        }
        for name in names
        for own in ([item for item in summaries if item.algorithm == name],)
    ]


def _middle(values: Iterable[float | None]) -> dict[str, Any]:
    known = [value for value in values if value is not None]
    middle = median(known) if known else None
    return {"runs": len(known), "median": middle if middle is not None and finite(middle) else None}


def _claim(algorithms: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Set the claim against these runs: the medians of both sides, how many runs, and which way."""
    variances = {item["algorithm"]: item["gradient"]["variance"] for item in algorithms}
    ppo, dpo = (variances.get(name) or _middle(()) for name in ("PPO", "DPO"))
    here = "unknown"
    if ppo["median"] is not None and dpo["median"] is not None:
        here = "yes" if ppo["median"] > dpo["median"] else "no"
    return {"claim": CLAIM, "here": here, "ppo": ppo, "dpo": dpo}
