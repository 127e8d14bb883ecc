"""What a program printed, read segment by segment into rows, settings and notes.

``_harvest`` collects what each segment holds, ``_curve`` decides which of it is the run's curve and
at which steps, and ``read_text`` says it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace

from rlhfdoctor.model import Location, Note, Setting
from rlhfdoctor.readers import Item
from rlhfdoctor.readers import _marks as marks
from rlhfdoctor.readers._curve import curve
from rlhfdoctor.readers._harvest import Harvest, where_of
from rlhfdoctor.readers._json import refusals, row
from rlhfdoctor.readers._text import Segment


def read_text(segments: Iterable[Segment], name: str) -> Iterator[Item]:
    """Yield the rows, the settings and the notes of a text; ``name``: of the file it is from."""
    harvest = Harvest(name)
    for segment in segments:
        harvest.see(segment)
    harvest.end()
    found, planned, notes = curve(harvest)
    refused: Counter[str] = Counter()
    rows = 0
    for item in found:
        record = {key: value for key, value in item.record.items() if key != "max_steps"}
        made = row(record, item.line, refused)
        if made.values:
            rows += 1
            yield made if item.rank is None else replace(made, rank=item.rank)
    yield from _settings(harvest, planned)
    yield from notes
    yield from refusals(name, refused)
    yield from _told(harvest, rows)


# what else there is to say


def _settings(harvest: Harvest, planned: Setting | None) -> Iterator[Setting]:
    """Yield the settings, of several launches the last; the bar's length where none is told."""
    last = {setting.name: setting for setting in harvest.settings}
    if planned and "planned_steps" not in last:
        last["planned_steps"] = planned
    name = harvest.name
    configured = last.pop("framework", None)
    yield from last.values()
    programs = harvest.frameworks
    if configured:
        programs.setdefault(str(configured.value), configured.where.line)
    if programs:
        program = min(programs, key=marks.rank_of)
        yield Setting("framework", program, Location(name, line=programs[program]))
        version = harvest.versions.get(program.lower())
        if version:
            yield Setting("framework_version", version[0], Location(name, line=version[1]))
    ending = _ending(harvest)
    if ending:
        yield Setting("ended_with", ending[0], Location(name, line=ending[1]))


def _ending(harvest: Harvest) -> tuple[str, int | None] | None:
    """Return the error after which nothing was trained any more, and its line."""
    last = max(harvest.progress, *harvest.finishes[-1:], 0)
    for ending in (harvest.error, harvest.death, harvest.wrapped):
        if ending and ending.clock > last and ending.text not in harvest.survived:
            return ending.text, ending.line
    return None


def _told(harvest: Harvest, rows: int) -> Iterator[Note]:
    """Yield what is to be said of a text besides its rows and settings."""
    name = harvest.name
    yield from dict.fromkeys(harvest.notes)
    if harvest.broken:
        lines = [str(line) for line in harvest.broken if line is not None]
        shown = ", ".join(lines[:10]) + (", ..." if len(lines) > 10 else "")
        count = len(harvest.broken)
        text = f"{count} records are cut or broken and were left out, whole or in part"
        yield Note(name, f"{text}{': lines ' if shown else ''}{shown}", left_out=count)
    if harvest.overlong:
        text = f"{harvest.overlong} stretches of more than 1 MiB without a line end are unread"
        yield Note(name, text)
    if harvest.recaps:
        where = where_of(name, harvest.recaps[0])
        text = (
            f"{len(harvest.recaps)} lines sum the run up, as its best or its last; no steps of it"
        )
        yield Note(where, text)
    if harvest.twice:
        yield Note(name, f"{harvest.twice} records were printed twice in a row; read once")
    for record, line in harvest.summaries[-1:]:
        told = ", ".join(f"{key} {value}" for key, value in list(record.items())[:6])
        yield Note(where_of(name, line), f"the trainer's summary, no step of it: {told}")
    if harvest.tracebacks:
        text = f"holds {harvest.tracebacks} tracebacks"
        error = harvest.error or harvest.wrapped
        yield Note(name, f"{text}, the last ends with {error.text}" if error else text)
    if harvest.overflows:
        yield Note(name, f"{harvest.overflows} lines tell of updates skipped on overflow")
    if not rows:
        drawn = [key for key in harvest.trained if key[1] > 1]
        text = "no metric rows in this text"
        if drawn:
            longest = max(drawn, key=lambda key: key[1])
            text += f"; the progress bar reached {harvest.trained[longest]} of {longest[1]}"
        yield Note(name, text)
