"""A backtest, section by section, for any report: sentences and tables."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rlhfdoctor.reports._cells import curve
from rlhfdoctor.reports._tables import Part, TextTable
from rlhfdoctor.reports._words import counted, number, share, span, whole

Row = Mapping[str, Any]

POINTS, LEAST_POINTS = 24, 8
"""Cells of a curve, as many as the page has room for; of more rows, as many are taken, evenly
spread. For the least of them columns give way."""

SHOWN = 2
"""Recovered stretches, and ranges of samples, that are listed; the JSON has all."""

OPEN_LOOP = (
    "replayed over the logged KL, one update a row: open loop, for under another beta the KL "
    "would have been another one"
)


def backtest_sections(document: Row, width: int = 0) -> Iterator[tuple[str, list[Part]]]:
    """Yield the titles of a backtest and what stands below them, for a page; 0: no limit."""
    yield _headline(document), []
    yield "Alarms", [*alarm_parts(document["alarms"])]
    if document["rules"] is not None:
        yield "Our own rules", [*_rules(document["rules"])]
    yield "KL controllers", [*_controllers(document["controllers"], document["constants"], width)]
    if document["normaliser"]:
        yield "Reward normaliser", [*_normaliser(document["normaliser"], document["constants"])]
    yield "Emergency plan", [*_plan(document["plan"])]
    if document["notes"]:
        yield "Notes", [*document["notes"]]


def _headline(document: Row) -> str:
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


def alarm_parts(alarms: Sequence[Row]) -> Iterator[Part]:
    """Yield alarms as a table, then those that could not look, then what to mind of the others."""
    looked = [alarm for alarm in alarms if not alarm["unknown"]]
    priced = any(alarm["gpu_hours_saved"] is not None for alarm in looked)
    if looked:
        hours = ("GPU-hours",) if priced else ()
        yield TextTable(
            "",
            ("alarm", "step", "row", "times", "saves", "share", *hours, "recovered"),
            tuple(_alarm(alarm, priced=priced) for alarm in looked),
            ("row", "times", *hours, "share", "recovered"),
            left=("alarm", "recovered"),
        )
        if any(alarm["fired_step"] is not None for alarm in looked):
            yield (
                "step: where it first rang; times: how often it began to; saves: steps from there "
                "to the end; recovered: steps of a ring that was over before the end"
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
        f"{counted(rules['judged'], 'beginning')} of the log, each judged as if it ended there: "
        f"every row to 20, then each 5% longer, to row {whole(rules['last_row'])}"
    )
    if rules["codes"]:
        yield TextTable(
            "",
            ("critical", "step", "row", "not at row", "no more at row"),
            tuple(
                (
                    item["code"],
                    *(str(item[key]) for key in ("fired_step", "fired_row")),
                    *(whole(item[key]) for key in ("not_at_row", "gone_at_row")),
                )
                for item in rules["codes"]
            ),
        )
        yield (
            "step, row: the end of the first beginning in which it is critical; not at row: of the "
            "one judged before; no more at row: of the first one later in which it is not"
        )
    at_end = f"the whole run: {', '.join(rules['at_end']) or 'nothing critical'}"
    lacking = "; ".join(rules["unanswered"])
    yield f"{at_end}; could not look at: {lacking}" if lacking else at_end


def _controllers(found: Row, constants: Row, width: int) -> Iterator[Part]:
    if found["unknown"]:
        yield f"could not look, {found['unknown']}"
        return
    target, low, high = found["target"], constants["low"], constants["high"]
    unit = "unit unknown" if found["unit"] == "unknown" else found["unit"]
    unit += f", {found['estimator']}" if found["estimator"] else ""
    yield OPEN_LOOP
    yield (
        f"KL ({unit}) is within {low * target:.3g}-{high * target:.3g}, around the target "
        f"{target:g}, in {share(found['time_in_band'])} of the rows"
    )
    narrow = _curves(found, LEAST_POINTS).within(width)
    room = width - sum(narrow.widths()) - 2 * len(narrow.header) if width else POINTS
    yield _curves(found, min(LEAST_POINTS + max(room, 0), POINTS))
    yield (
        "beta after each row; held: share of rows at which its step or beta met a bound; period: "
        "where it swings regularly; curve: KL, and ln(beta), each from its least to its greatest"
    )
    for item in found["replayed"]:
        low, high = item["held_to"]
        met = " and ".join(f"{end:g}" for end in (low, high) if end in (item["min"], item["max"]))
        if met and low < constants["beta_low"]:
            yield (
                f"{item['controller']} has no bounds: its beta ran to {met}, where the replay "
                "holds it"
            )
    whence = {
        "option": "as stated",
        "configuration": "the configuration's batch size, as its framework counts it",
        "default": "--responses states how many a row has",
    }[found["responses_from"]]
    yield f"responses a row, for ziegler: {whole(found['responses'])}, {whence}"


def _curves(found: Row, points: int) -> TextTable:
    """Return the table of the KL and of each controller's beta, with curves of ``points`` cells."""
    kl = found["kl"]
    rows = [("KL", kl[0], min(kl), max(kl), kl[-1], "", "", kl)]
    rows += [
        (
            item["controller"],
            *(item[key] for key in ("start", "min", "max", "last")),
            share(item["saturated"]),
            "none" if item["period_rows"] is None else f"{item['period_rows']} rows",
            [math.log(beta) for beta in item["beta"]],
        )
        for item in found["replayed"]
    ]
    return TextTable(
        "",
        ("", "start", "least", "greatest", "last", "held", "period", "curve"),
        tuple(
            (name, *(number(level, 3) for level in levels), held, period, _drawn(values, points))
            for name, *levels, held, period, values in rows
        ),
        ("start", "period", "held", "least"),
        left=("", "curve"),
    )


def _drawn(values: Sequence[float], points: int) -> str:
    """Draw a series in at most ``points`` cells, evenly spread, between its own ends."""
    count = len(values)
    points = min(count, points)
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
    yield (
        f"shares that a clip to +-{clip:g} would cut, of the rewards as logged, and less their "
        "running mean over their running deviation; batch means vary less than rewards do"
    )


def _plan(plan: Row | None) -> Iterator[Part]:
    if plan is None:
        yield "no alarm that counts would have rung"
        return
    yield f"at step {plan['fired_step']}, by the alarm {plan['alarm']}"
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
