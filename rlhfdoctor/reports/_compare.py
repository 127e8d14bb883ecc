"""Runs side by side as a page of a terminal and as markdown.

A page that is too narrow for a table gets its columns in several tables, none left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from rich.cells import cell_len

from rlhfdoctor.reports._cells import curve, padded
from rlhfdoctor.reports._tables import LEAST_NAME, Part, TextTable
from rlhfdoctor.reports._words import counted, number
from rlhfdoctor.reports.markdown import section_markdown
from rlhfdoctor.reports.terminal import STYLES, Line, section_lines

Row = Mapping[str, Any]

NAMED = 3
"""Runs that are named where a note is told of many."""

_NAMES = {
    "kl_ref_response": "KL",
    "kl_ref_token": "KL",
    "kl_ref_token_diluted": "KL with padding",
    "reward_raw_mean": "reward",
    "reward_shaped_mean": "reward with penalty",
    "dpo_margin": "margin",
    "response_length_mean": "length",
    "grad_norm": "gradient norm",
}
_SETTINGS = {
    "learning_rate": "learning rate",
    "kl_coef": "beta or kl_coef",
    "clip_range": "clip range",
    "batch_size": "batch",
    "group_size": "group",
    "dtype": "dtype",
}
_AXES = {"step": "steps", "kl": "the root of the KL", "epoch": "epochs"}


def compare_lines(document: Row, width: int) -> Iterator[Line]:
    """Yield the comparison section by section. width: characters of a line; 0: no limit."""
    for indent, line in section_lines(_sections(document, max(width - 2, 0)), width):
        for verdict in ("collapsed", "degraded", "healthy", "inconclusive"):
            line.highlight_regex(rf"(?<=  ){verdict}(?=  |$)", STYLES[verdict])
        yield indent, line


def compare_markdown(document: Row) -> str:
    """Print the comparison with the same tables."""
    return section_markdown(_sections(document, 0))


def _sections(document: Row, room: int) -> Iterator[tuple[str, list[Part]]]:
    yield _headline(document), [_how(document), *_database(document)]
    if document["runs"]:
        yield from _beside(document, room)
    if document["notes"]:
        yield "Notes", [*_notes(document["notes"])]


def _beside(document: Row, room: int) -> Iterator[tuple[str, list[Part]]]:
    yield "Runs", [*_verdicts(document["runs"], dated=bool(document["db"])).split(room)]
    yield (
        "First -> last",
        [
            "medians of the first and of the last five logged rows; samples: first and last step; "
            "a reward is on the scale of its own reward function",
            *_values(document).split(room),
        ],
    )
    if document["curves"]:
        yield (
            "Curves",
            [
                table
                for item in document["curves"]
                for table in _drawing(_coarser(item, room), document["scales"]).split(room)
            ],
        )
    spent = _gradients(document["runs"]).split(room)
    told = "over the logged rows; relative variance: (1.4826 MAD / median)^2"
    yield "Gradient norm and time", [told, *spent]
    settings = _settings(document["runs"])
    if len(settings.header) > 1:
        told = "a batch is of one device or of all, as the trainer counts it"
        batches = [told] if _SETTINGS["batch_size"] in settings.header else []
        yield "Settings", [*batches, *settings.split(room)]
    yield "What goes with sickness", [*_associations(document["associations"], room)]
    yield "By algorithm", [*_algorithms(document).split(room), *_claims(document)]


def _headline(document: Row) -> str:
    runs = document["runs"]
    verdicts = [run["verdict"] for run in runs]
    told = [
        f"{verdicts.count(name)} {name}"
        for name in ("collapsed", "degraded", "healthy", "inconclusive")
        if name in verdicts
    ]
    return counted(len(runs), "run") + (f": {', '.join(told)}" if told else " to compare")


def _how(document: Row) -> str:
    which = "the last value logged in it or before"
    if document["by"] == "kl":
        which = "the value logged at the largest KL in it or below"
    return (
        f"by {_AXES[document['by']]}: a column of a curve shows {which}, nothing once the run or "
        "its logging ended; | marks the onset"
    )


def _database(document: Row) -> Iterator[str]:
    found = document["db"]
    if found:
        outcomes = [f"{count} {_OUTCOMES[name]}" for name, count in found["outcomes"].items()]
        told = f"; {', '.join(outcomes)}" if outcomes else ""
        yield f"{found['path']}: {counted(found['runs'], 'run')}{told}"


_OUTCOMES = {
    "stored": "new",
    "replaced": "replaced",
    "unchanged": "unchanged",
    "kept": "left as it was, its log is longer",
}


def _verdicts(runs: Sequence[Row], *, dated: bool) -> TextTable:
    rows = tuple(
        (
            run["run"]["id"],
            " ".join(part for part in (run["framework"], run["algorithm"]) if part != "unknown"),
            run["verdict"],
            _onset(run),
            "" if run["last_step"] is None else str(run["last_step"]),
            run["cause"] or "",
            run["confidence"] or "",
            *((run["diagnosed"][:10],) if dated else ()),
        )
        for run in runs
    )
    header: tuple[str, ...] = ("run", "trainer", "verdict", "onset", "last step")
    header += ("cause", "how sure")
    header += ("diagnosed",) if dated else ()
    return TextTable("", header, rows, left=("run", "trainer", "verdict", "cause", "how sure"))


def _values(document: Row) -> TextTable:
    scales = document["scales"]
    shown_scales = [place for place, item in enumerate(scales) if item["metric"] != "grad_norm"]
    sampled = _any(document["runs"], "perplexity")
    rows = []
    for run in document["runs"]:
        values = {item["scale"]: item for item in run["values"]}
        cells = [
            _change(values[place]["first"], values[place]["last"]) if place in values else ""
            for place in shown_scales
        ]
        if sampled:
            cells.append(_change(*run["perplexity"]) if run["perplexity"] else "")
        rows.append((run["run"]["id"], *cells))
    header = ["run", *(_titled(scales[place]) for place in shown_scales)]
    header += ["perplexity of samples"] if sampled else []
    return TextTable("", (*header,), tuple(rows))


def _gradients(runs: Sequence[Row]) -> TextTable:
    rows = tuple(
        (
            run["run"]["id"],
            *(number(run["gradient"][key]) for key in _GRADIENT),
            number(run["hours"], 3),
            number(run["gpu_hours"], 3),
        )
        for run in runs
    )
    return TextTable("", ("run", *_GRADIENT.values(), "hours", "GPU-hours"), rows)


_GRADIENT = {
    "median": "median",
    "variance": "variance",
    "relative_variance": "relative variance",
}


def _settings(runs: Sequence[Row]) -> TextTable:
    known = [name for name in _SETTINGS if any(name in run["settings"] for run in runs)]
    rows = tuple(
        (run["run"]["id"], *(_value(run["settings"].get(name)) for name in known)) for run in runs
    )
    return TextTable("", ("run", *(_SETTINGS[name] for name in known)), rows)


def _coarser(item: Row, room: int) -> Row:
    """Return a drawing with as many columns taken together as ``room`` needs; 0: as it is."""
    most = max(room - LEAST_NAME - 2, 1)
    step = -(-len(item["ends"]) // most) if room else 1
    if step == 1:
        return item
    lines = []
    for line in item["lines"]:
        groups = [
            line["values"][place : place + step] for place in range(0, len(item["ends"]), step)
        ]
        known = ([value for value in group if value is not None] for group in groups)
        onset = line["onset_column"]
        lines.append(
            {
                **line,
                "values": [values[-1] if values else None for values in known],
                "onset_column": None if onset is None else onset // step,
            }
        )
    return {**item, "ends": [*item["ends"][step - 1 : -1 : step], item["ends"][-1]], "lines": lines}


def _drawing(item: Row, scales: Sequence[Row]) -> TextTable:
    axis = f"{number(item['first'])} "
    last = number(item["ends"][-1])
    across = padded(axis, len(item["ends"]) - cell_len(last)) + last
    rows = tuple((line["id"], _curved(line, item)) for line in item["lines"])
    against = f" against {item['axis']}" if item["against"] else f" over {item['axis']}s"
    estimate = item["against"] and _estimated(item["against"])
    title = f"{_titled(scales[item['scale']])}, {number(item['low'])} to {number(item['high'])},"
    title += against + (f" ({estimate})" if estimate else "")
    return TextTable(title, ("run", across), rows, left=("run", across))


def _curved(line: Row, item: Row) -> str:
    drawn, onset = curve(line["values"], item["low"], item["high"]), line["onset_column"]
    return drawn if onset is None else f"{drawn[:onset]}|{drawn[onset + 1 :]}"


def _associations(found: Row, room: int) -> Iterator[Part]:
    if found["left_out"]:
        yield f"{counted(found['left_out'], 'inconclusive run')} left out"
    if len(found["verdicts"]) < 2:
        told = f"all are {next(iter(found['verdicts']))}" if found["verdicts"] else "there are none"
        yield f"{counted(found['runs'], 'judged run')}: {told}: nothing to separate"
        return
    if found["runs"] < found["fewest"]:
        yield (
            f"{found['runs']} judged runs: with fewer than {found['fewest']} nothing can be told "
            "from chance; what follows describes these runs alone"
        )
    tried = found["correlations"]
    if tried:
        yield (
            "rank correlation (Spearman) of a setting and the verdict; p corrected for "
            f"{counted(len(tried), 'setting')} tried (Holm)"
        )
        header = ("setting", "runs", "rho", "p", "p corrected", "healthy", "sick")
        rows = tuple(
            (
                item["setting"] + (f" of {item['among']}" if item["among"] else ""),
                str(item["runs"]),
                f"{item['rho']:+.2f}",
                _probability(item["p"]),
                _probability(item["p_holm"]),
                _range(item["healthy"]),
                _range(item["sick"]),
            )
            for item in tried
        )
        yield from TextTable("", header, rows).split(room)
    else:
        yield "no numeric setting is known in three judged runs and differs between them"
    for item in found["shares"]:
        shares = [f"{each['value']} {each['sick']} of {each['runs']}" for each in item["values"]]
        yield f"sick by {item['setting']}: {', '.join(shares)}"
    yield "runs differ in more than one setting at a time: none of this is a cause"


def _algorithms(document: Row) -> TextTable:
    rows = tuple(
        (
            item["algorithm"],
            str(item["runs"]),
            *(_middle(item["gradient"][key]) for key in _GRADIENT),
            _middle(item["perplexity"]),
        )
        for item in document["algorithms"]
    )
    header = ("medians (runs)", "runs", *(f"gradient {name}" for name in _GRADIENT.values()))
    return TextTable("", (*header, "perplexity of samples"), rows)


def _claims(document: Row) -> Iterator[str]:
    """Yield a claim made elsewhere, and what these runs show, where they are of its algorithms."""
    found = document["claim"]
    sides = [(name, found[name.lower()]) for name in ("PPO", "DPO")]
    if not {name for name, _ in sides} & {run["algorithm"] for run in document["runs"]}:
        return
    if found["here"] == "unknown":
        absent = [f"no {name} run with a gradient norm" for name, side in sides if not side["runs"]]
        here = " and ".join(absent)
    else:
        told = [
            f"{number(side['median'])} in {counted(side['runs'], f'{name} run')}"
            for name, side in sides
        ]
        word = "so" if found["here"] == "yes" else "not so"
        here = f"{word} in these: {' and '.join(told)}"
    yield f"claimed, not verified: {found['claim']}; {here}"


def _notes(notes: Sequence[Row]) -> Iterator[str]:
    """Yield each note once, with the runs that it is told of."""
    where: dict[str, list[str]] = {}
    for note in notes:
        where.setdefault(note["text"], []).append(note["where"])
    for text, names in where.items():
        more = f" and {len(names) - NAMED:,} more" if len(names) > NAMED else ""
        yield f"{', '.join(names[:NAMED])}{more}: {text}"


def _titled(scale: Row) -> str:
    """Return a metric with its unit and estimator, as a column or a curve is called."""
    unit = "" if scale["unit"] in ("reward", "score", "1", "L2 norm") else scale["unit"]
    name = _NAMES.get(scale["metric"], scale["metric"])
    estimate = _estimated(scale)
    return " ".join(filter(None, (name, unit, f"({estimate})" if estimate else "")))


def _estimated(scale: Row) -> str:
    """Return the estimator; of a KL also that it is not known."""
    unsaid = "estimator unknown" if scale["quantity"] == "kl" else ""
    return ", ".join(
        filter(None, (scale["estimator"] or unsaid, "derived" if scale["derived"] else ""))
    )


def _onset(run: Row) -> str:
    if run["onset_step"] is None:
        return ""
    low, high = run["onset_interval"]
    return f"{run['onset_step']} ({low}-{high})" if low < high else str(run["onset_step"])


def _change(first: float, last: float) -> str:
    return f"{number(first, 3)} -> {number(last, 3)}"


def _middle(found: Row) -> str:
    return f"{number(found['median'])} ({found['runs']})" if found["runs"] else ""


def _probability(value: float) -> str:
    return "< 0.001" if value < 0.001 else f"{value:.3f}"


def _range(ends: Sequence[float] | None) -> str:
    if ends is None:
        return ""
    low, high = (f"{value:.3g}" for value in ends)
    return low if low == high else f"{low} to {high}"


def _value(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else "" if value is None else str(value)


def _any(rows: Iterable[Row], key: str) -> bool:
    return any(row[key] is not None for row in rows)
