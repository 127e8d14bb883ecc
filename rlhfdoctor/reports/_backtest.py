"""A backtest, section by section, for any report: sentences and tables."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rlhfdoctor.reports._cells import curve
from rlhfdoctor.reports._tables import TextTable
from rlhfdoctor.reports._words import counted, number, share, span, whole

Row = Mapping[str, Any]

Part = str | TextTable

POINTS = 24
"""Cells of a curve; of more rows, as many are taken, evenly spread."""

SHOWN = 2
"""Recovered stretches, and ranges of samples, that are listed; the JSON has all."""

OPEN_LOOP = "open loop: under another beta this KL would have been another one"


def sections(document: Row) -> Iterator[tuple[str, list[Part]]]:
    """Yield the titles of a backtest and what stands below them."""
    yield "Alarms", [*_alarms(document["alarms"])]
    if document["rules"] is not None:
        yield "Our own rules", [*_rules(document["rules"])]
    yield "KL controllers", [*_controllers(document["controllers"], document["constants"])]
    if document["normaliser"]:
        yield "Reward normaliser", [*_normaliser(document["normaliser"], document["constants"])]
    yield "Emergency plan", [*_plan(document["plan"])]
    if document["notes"]:
        yield "Notes", [*document["notes"]]


def headline(document: Row) -> str:
    """Return what was replayed."""
    steps = "no logged row"
    if document["rows"]:
        first, last = document["first_step"], document["last_step"]
        steps = f"{counted(document['rows'], 'row')}, steps {span(first, last)}"
    return f"{document['run']['id']} . {steps}"


def alarm_line(alarm: Row) -> str:
    """Return what one alarm would have done, in a line."""
    told = f"{alarm['condition']}: "
    if alarm["unknown"]:
        return f"{told}could not look, {alarm['unknown']}"
    if alarm["fired_step"] is None:
        return f"{told}never"
    saved, over = alarm["saved_steps"], _over(alarm)
    told += f"at step {alarm['fired_step']}"
    if saved is not None:
        hours = alarm["gpu_hours_saved"]
        costs = "" if hours is None else f", {number(hours, 3)} GPU-hours"
        told += f", saves {counted(saved, 'step')} ({alarm['saved_fraction']:.0%}{costs})"
    if over:
        told += f"; {len(over)} of {counted(alarm['times'], 'time')} it was over again"
    return told + (f" ({alarm['caveat']})" if alarm["caveat"] else "")


def _over(alarm: Row) -> list[Row]:
    return [item for item in alarm["spans"] if item["over_step"] is not None]


def _alarms(alarms: Sequence[Row]) -> Iterator[Part]:
    looked = [alarm for alarm in alarms if not alarm["unknown"]]
    priced = any(alarm["gpu_hours_saved"] is not None for alarm in looked)
    if looked:
        hours = ("GPU-hours",) if priced else ()
        yield TextTable(
            "",
            ("alarm", "step", "row", "times", "saves", "share", *hours, "recovered"),
            tuple(_alarm(alarm, priced=priced) for alarm in looked),
            (*hours, "row", "times"),
            left=("alarm", "recovered"),
        )
    for alarm in alarms:
        if alarm["unknown"]:
            yield f"{alarm['condition']}: could not look, {alarm['unknown']}"
    for alarm in looked:
        if alarm["caveat"] and alarm["fired_step"] is not None:
            yield f"{alarm['condition']}: {alarm['caveat']}"


def _alarm(alarm: Row, *, priced: bool) -> tuple[str, ...]:
    if alarm["fired_step"] is None:
        return (alarm["condition"], "never", *[""] * (5 + priced))
    over = _over(alarm)
    spans = [span(item["from_step"], item["to_step"]) for item in over[:SHOWN]]
    more = [f"{len(over) - SHOWN} more"] if len(over) > SHOWN else []
    fraction = alarm["saved_fraction"]
    return (
        alarm["condition"],
        str(alarm["fired_step"]),
        whole(alarm["fired_row"]),
        str(alarm["times"]),
        whole(alarm["saved_steps"]),
        "" if fraction is None else f"{fraction:.0%}",
        *([number(alarm["gpu_hours_saved"], 3)] if priced else []),
        ", ".join((*spans, *more)) or "no",
    )


def _rules(rules: Row) -> Iterator[Part]:
    if not rules["judged"]:
        return
    yield (
        f"{counted(rules['judged'], 'beginning')} judged alone: every row to 20, then each 5% "
        f"longer, to row {rules['last_row']}"
    )
    if rules["codes"]:
        yield TextTable(
            "",
            ("critical", "step", "row", "not yet at row", "gone again at row"),
            tuple(
                (
                    item["code"],
                    *(str(item[key]) for key in ("step", "row")),
                    *(whole(item[key]) for key in ("not_at_row", "gone_at_row")),
                )
                for item in rules["codes"]
            ),
            ("gone again at row",),
        )
    at_end = f"the whole run: {', '.join(rules['at_end']) or 'nothing critical'}"
    lacking = "; ".join(rules["unanswered"])
    yield f"{at_end}; could not look at: {lacking}" if lacking else at_end


def _controllers(found: Row, constants: Row) -> Iterator[Part]:
    if found["unknown"]:
        yield f"could not look, {found['unknown']}"
        return
    target, low, high = found["target"], constants["low"], constants["high"]
    unit = "unit unknown" if found["unit"] == "unknown" else found["unit"]
    unit += f", {found['estimator']}" if found["estimator"] else ""
    inside = share(found["time_in_band"])
    yield f"{OPEN_LOOP}; one update a logged row"
    yield (
        f"KL ({unit}) within {low * target:.3g}-{high * target:.3g} of target {target:g} "
        f"in {inside} of the rows: {_drawn(found['kl'])}"
    )
    yield TextTable(
        "",
        ("controller", "start", "least", "greatest", "last", "held", "period", "ln(beta)"),
        tuple(
            (
                item["controller"],
                *(number(item[key], 3) for key in ("start", "min", "max", "last")),
                share(item["saturated"]),
                "none" if item["period_rows"] is None else f"{item['period_rows']} rows",
                _drawn([math.log(beta) for beta in item["beta"]]),
            )
            for item in found["replayed"]
        ),
        ("start", "period"),
        left=("controller", "ln(beta)"),
    )
    whence = {
        "option": "as stated",
        "configuration": "the configuration's batch size, as its framework counts it",
        "default": "--responses states how many a row has",
    }[found["responses_from"]]
    yield f"n of ziegler: {whole(found['responses'])}, {whence}"


def _drawn(values: Sequence[float]) -> str:
    """Draw a series in at most ``POINTS`` cells, evenly spread, between its own ends."""
    count = len(values)
    points = min(count, POINTS)
    taken = [values[place * (count - 1) // max(points - 1, 1)] for place in range(points)]
    return curve(taken, min(values), max(values))


def _normaliser(rows: Sequence[Row], constants: Row) -> Iterator[Part]:
    clip = constants["clip"]
    yield TextTable(
        "",
        (
            "rewards",
            "of",
            "count",
            "largest",
            f"|raw| > {clip:g}",
            f"|normalised| > {clip:g}",
        ),
        tuple(
            (
                row["subject"],
                row["of"],
                whole(row["count"]),
                number(row["largest"]),
                share(row["outside"]),
                share(row["clipped"]),
            )
            for row in rows
        ),
        ("of", "largest"),
        left=("rewards", "of"),
    )


def _plan(plan: Row | None) -> Iterator[Part]:
    if plan is None:
        yield "no alarm that counts would have rung"
        return
    yield f"at step {plan['step']}, by the alarm {plan['alarm']}"
    if plan["learning_rate"] is None:
        yield "learning rate: to a share of the present one, which is not in the log"
    else:
        yield f"learning rate {plan['learning_rate']:g} -> {plan['suggested']:g}"
    places = [
        f"{item['file']}:{span(item['first_line'], item['last_line'])}" for item in plan["places"]
    ]
    more = [f"{len(places) - SHOWN} more ranges"] if len(places) > SHOWN else []
    kept = ", ".join((*places[:SHOWN], *more))
    yield (
        f"keep {counted(plan['samples'], 'sample')}: {kept}"
        if kept
        else "no sample to keep by then"
    )
    saved = plan["checkpoint"]
    yield f"last complete checkpoint by then: {saved or 'none'}" + (
        "; an alarm rings late, rollback vets it" if saved else ""
    )
