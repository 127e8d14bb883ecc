"""What a program printed, read segment by segment into rows, settings and notes.

Three passes over different things: ``_Harvest.see`` collects what each segment holds,
``_chosen`` decides which of it is the run's curve, and ``read_text`` says it.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from rlhfdoctor.model import Location, Note, Setting
from rlhfdoctor.readers import Item
from rlhfdoctor.readers import _grammars as grammars
from rlhfdoctor.readers import _marks as marks
from rlhfdoctor.readers._grammars import Bar, Record
from rlhfdoctor.readers._json import STEP_KEYS, TEXT_KEYS, number, refusals, row
from rlhfdoctor.readers._python import depth, leaves, mended, value_at
from rlhfdoctor.readers._settings import settings_of
from rlhfdoctor.readers._text import Segment

_BLOCK_LINES = 4000
_BLOCK_SIZE = 1 << 20
_CONFIGURATION = 20
"""Lines from which a printed table is a configuration; no trainer breaks a record into so many."""

_MOST_BLOCKS = 64
_FOREIGN = 20
"""Lines of something else that may stand inside a printed value of many lines."""

_MOST_BARS = 16
_MOST_TABLES = 8
"""Tables of one line that are tried; more on one line is no log."""

_BARS = 3
"""The tier of the numbers that progress bars show."""

_A_FEW = 3
"""Rows from which a way of writing is a run's curve rather than a stray line."""

_TABLE = re.compile(r"\{\s*(?=['\"])")
_BEFORE_TABLE = 160
"""Characters of text before a printed table, as in ``step 3: {...}``; more is prose."""

_COUNTED = re.compile(
    r"(?:^|[\s\]:])(?P<word>[a-z]{2,10})[ _]?(?P<count>\d{1,15})\s*[:\-]\s*$", re.I
)
_CONTINUES = re.compile(
    r"\s*(?:['\"}\])(\[{<\d.-]|\w{1,80}=|(?:None|True|False|true|false|null|nan|inf)\b|$)"
)
_AFTER_EVALUATING = 4
"""Segments within which the results of an evaluation follow its announcement."""

_CHAINS = ("During handling of", "The above exception", "ray::", "Error executing job")
"""How lines begin that stand inside a traceback, between one exception and the next."""

_NEAR = 6
"""Segments within which a frame follows the line that announces its step."""

_FRAME = re.compile(r"\s{1,8}File \"[^\"]{1,400}\", line \d")


@dataclass(slots=True)
class _Found:
    """A record, where it stood, and the progress bars around it."""

    record: Record
    line: int | None
    rank: int | None
    grammar: str
    tier: int
    clock: int
    before: Mapping[tuple[str, int], int]
    after: Mapping[tuple[str, int], int] = field(default_factory=dict)

    @property
    def evaluates(self) -> bool:
        return all(key.startswith("eval") or key == "epoch" for key in self.record)


@dataclass(slots=True)
class _Block:
    """A printed value that goes on in the next lines."""

    lines: list[str]
    line: int | None
    deep: int
    size: int
    before: str
    foreign: int = 0


@dataclass(frozen=True, slots=True)
class _Ending:
    """A line that may be how a process ended."""

    text: str
    line: int | None
    clock: int
    tag: str


@dataclass(slots=True)
class _Harvest:
    """What the segments seen so far hold."""

    name: str
    clock: int = 0
    found: list[_Found] = field(default_factory=list)
    settings: list[Setting] = field(default_factory=list)
    broken: list[int | None] = field(default_factory=list)
    summaries: list[tuple[Record, int | None]] = field(default_factory=list)
    overlong: int = 0
    overflows: int = 0
    twice: int = 0
    blocks: dict[str, _Block] = field(default_factory=dict)
    bars: dict[tuple[str, int], int] = field(default_factory=dict)
    trained: dict[tuple[str, int], int] = field(default_factory=dict)
    waiting: list[_Found] = field(default_factory=list)
    progress: int = 0
    finished: int = 0
    tracebacks: int = 0
    traces: dict[str, bool] = field(default_factory=dict)
    error: _Ending | None = None
    wrapped: _Ending | None = None
    death: _Ending | None = None
    survived: set[str] = field(default_factory=set)
    launches: list[int] = field(default_factory=list)
    frameworks: dict[str, int | None] = field(default_factory=dict)
    versions: dict[str, tuple[str, int | None]] = field(default_factory=dict)
    listing: dict[str, object] | None = None
    listed: int | None = None
    notes: list[Note] = field(default_factory=list)
    columns: list[str] | None = None
    box: Record = field(default_factory=dict)
    boxed: int | None = None
    announced: tuple[Record, int] = field(default_factory=lambda: ({}, -_NEAR))
    under: _Found | None = None
    banner: bool = False
    evaluation: tuple[float, int] = (0.0, -_AFTER_EVALUATING)

    def see(self, segment: Segment) -> None:
        """Take what one segment holds."""
        self.clock += 1
        if not segment.whole:
            self.overlong += 1
            return
        drawn, text = grammars.bars(segment.text)
        for bar in drawn:
            self._draw(bar, segment)
        if not text or text.isspace():
            if not drawn:
                self._close()
            return
        segment = replace(segment, text=text) if drawn else segment
        if self._continues(segment) or self._ends(segment):
            return
        self._tell(segment)
        if self._tables(segment) or self._drawn(segment) or self._pairs(segment):
            self._launch()
        else:
            self._list(segment)
            step = grammars.counted(segment.text)
            if step:
                self.announced = (step, self.clock)

    def end(self) -> None:
        """Take what was still open when the text ended."""
        self._close()
        for block in self.blocks.values():
            self._break(block)
        self.blocks.clear()
        self._launch()

    # progress bars

    def _draw(self, bar: Bar, segment: Segment) -> None:
        if not bar.trains:
            return
        if bar.count > self.trained.get(bar.key, -1):
            self._goes_on()
        self.trained.pop(bar.key, None)
        self.trained[bar.key] = bar.count
        if len(self.trained) > _MOST_BARS:
            del self.trained[next(iter(self.trained))]
        self.bars = dict(self.trained)
        for item in self.waiting:
            item.after = {bar.key: bar.count}
        self.waiting.clear()
        if len(bar.values) > 1 and any(map(grammars.measured, bar.values)):
            last = self.found[-1] if self.found else None
            grammar = f"bar {bar.family}"
            if last and last.grammar == grammar and last.record.get("step") == bar.count:
                self.found.pop()
            self._take(bar.values, segment, grammar, _BARS)

    # records

    def _take(self, record: Record, segment: Segment, grammar: str, tier: int) -> _Found | None:
        """Take a record; one that was printed twice in a row, step and all, is taken once."""
        last = self.found[-1] if self.found else None
        counted = any(key in record for key in (*STEP_KEYS, "epoch"))
        if last and counted and last.grammar == grammar and repr(last.record) == repr(record):
            self.twice += 1
            return None
        item = _Found(record, segment.line, segment.rank, grammar, tier, self.clock, self.bars)
        self.found.append(item)
        self.waiting.append(item)
        if tier < 3:
            self._goes_on()
        return item

    def _pairs(self, segment: Segment) -> bool:
        text = segment.text
        reward = grammars.average(text)
        if reward and self.under and segment.closed:
            self.under.record.update(reward)
            return True
        epoch = grammars.evaluating(text)
        if epoch is not None:
            self.evaluation = (epoch, self.clock)
            return True
        if self.clock - self.evaluation[1] < _AFTER_EVALUATING:
            records = grammars.evaluated(text, self.evaluation[0])
            if records:
                self._keep(records, segment, "evaluation", 1)
                self.evaluation = (0.0, -_AFTER_EVALUATING)
                return True
        counts = grammars.banner(text)
        if counts:
            self.under = self._take(counts, segment, "banner", 1)
            self.banner = True
            return True
        if self.banner and self.under:
            more = grammars.followed(text)
            if more:
                if not segment.closed:
                    more.popitem()
                self.under.record.update(more)
                return True
        likely = grammars.likely(text)
        for grammar in grammars.GRAMMARS:
            if not (likely and any(need in text for need in grammar.needs)):
                continue
            records = grammar.parse(text)
            if not records:
                continue
            self._keep(records, segment, grammar.name, grammar.tier)
            return True
        return False

    def _keep(self, records: list[Record], segment: Segment, grammar: str, tier: int) -> None:
        if not segment.closed:
            self._cut(records, segment)
        for record in records:
            taken = self._take(record, segment, grammar, tier)
            if tier < 3:
                self.under, self.banner = taken, False

    def _cut(self, records: list[Record], segment: Segment) -> None:
        """Drop the last pair of a line without end: its number may be half a number."""
        self.broken.append(segment.line)
        records[-1].popitem()
        if all(key in (*STEP_KEYS, "epoch", "max_steps") for key in records[-1]):
            records.pop()

    # values of Python and JSON

    def _tables(self, segment: Segment) -> bool:
        text, place, taken = segment.text, 0, False
        if text.startswith(("('", '("')):
            return False  # a string that pprint broke
        for _ in range(_MOST_TABLES):
            found = _TABLE.search(text, place)
            call = None if found else marks.CALLS.search(text, place)
            start = found.start() if found else call.start("call") if call else -1
            if start < 0 or start - place > _BEFORE_TABLE:
                return taken
            try:
                value, end = value_at(text, start)
            except EOFError:
                self._open(segment, place, start)
                return True
            except ValueError:
                if found and grammars.half(text[start : start + 4000]):
                    self.broken.append(segment.line)
                place = start + 1
                continue
            if isinstance(value, dict):
                taken = self._judge(value, text[place:start], segment) or taken
            place = end
        return taken

    def _judge(self, value: Record, before: str, segment: Segment) -> bool:
        """Take a printed table for a record, a summary or settings; say whether it was one."""
        if grammars.summary(value):
            self.summaries.append((value, segment.line))
            self.finished = self.clock
            return True
        counts = self._counts(before)
        if grammars.metrics(value) or (counts and all("/" in key for key in value)):
            if counts and not any(key in value for key in STEP_KEYS):
                value = {**counts, **value}
            word = "rollout" if "rollout" in counts else "table"
            value.pop("rollout", None)
            self.under, self.banner = None, False
            self._take(value, segment, word, 1)
            return True
        if grammars.sampling(value) or any(isinstance(value.get(key), str) for key in TEXT_KEYS):
            return True
        self._set(dict(leaves(value)), segment.line)
        return True

    @staticmethod
    def _counts(before: str) -> Record:
        """Return what the text before a printed table counts: ``step 3:``, ``rollout 3:``."""
        found = _COUNTED.search(before)
        word = found["word"].lower() if found else ""
        if found and word in ("step", "iter", "iteration", "update", "train", "eval"):
            return {"step": int(found["count"])}
        if found and word in ("rollout", "perf"):
            return {"step": int(found["count"]), "rollout": True}
        counts, _, place = grammars.head(before)
        counts.pop("max_steps", None)
        return counts if place >= len(before.rstrip()) else {}

    def _open(self, segment: Segment, place: int, start: int) -> None:
        text = segment.text[start:]
        block = _Block([text], segment.line, depth(text), len(text), segment.text[place:start])
        if not segment.closed or block.deep <= 0:
            self._break(block)
            return
        self.blocks[segment.tag] = block
        if len(self.blocks) > _MOST_BLOCKS:
            self._break(self.blocks.pop(next(iter(self.blocks))))

    def _continues(self, segment: Segment) -> bool:
        """Add a line to the value that is open for its process, or give that value up."""
        block = self.blocks.get(segment.tag)
        if block is None:
            return False
        text = segment.text.replace("\u2502", " ")
        full = len(block.lines) > _BLOCK_LINES or block.size > _BLOCK_SIZE
        anew = _TABLE.match(text) is not None
        foreign = anew or segment.stamped or not _CONTINUES.match(text)
        if foreign and len(block.lines) >= _A_FEW and not anew:
            block.foreign += 1
            foreign = block.foreign > _FOREIGN
            if not foreign:
                return False
        if full or foreign:
            self._break(self.blocks.pop(segment.tag))
            return False
        block.lines.append(text)
        block.size += len(text)
        block.deep += depth(text)
        if block.deep > 0:
            return True
        del self.blocks[segment.tag]
        try:
            value, _ = value_at("\n".join(block.lines))
        except (ValueError, EOFError):
            self._break(block)
            return True
        if isinstance(value, dict):
            self._judge(value, block.before, replace(segment, line=block.line))
        return True

    def _break(self, block: _Block) -> None:
        """Take the settings of a configuration that never ended; count what was half a record."""
        text = "\n".join(block.lines)
        if len(block.lines) < _CONFIGURATION:
            if grammars.half(text):
                self.broken.append(block.line)
            return
        try:
            value, _ = value_at(mended(text.rpartition("\n")[0]))
        except (ValueError, EOFError):
            return
        if isinstance(value, dict):
            self._set(dict(leaves(value)), block.line)
            note = "a printed configuration is cut; what stands before the cut was read"
            self.notes.append(Note(_where(self.name, block.line), note))

    # tables and frames

    def _drawn(self, segment: Segment) -> bool:
        """Read one line of a table: its names, its rule, its numbers, or a framed pair."""
        text = segment.text
        if text[0] not in " |\u2502\u2503\u2551+-\u2500\u250c\u251c\u2514\u2501\u2570\u256d":
            self._close()
            return False
        if grammars.ruled(text):
            if self.columns is None:
                self._close()
            return True
        pair = grammars.framed(text)
        if pair and self.columns is None:
            if not self.box:
                self.boxed = segment.line
            if segment.closed:
                self.box.setdefault(*pair)
            return True
        parts = grammars.cells(text)
        if parts is None:
            return False
        if self.columns is None:
            self.columns = grammars.columns(parts)
        elif len(parts) == len(self.columns) and segment.closed:
            record: Record = {
                name: part for name, part in zip(self.columns, parts, strict=True) if name and part
            }
            if str(record.get("step", "")).isdigit() and len(record) > 1:
                self._take(record, segment, "table of " + " ".join(self.columns), 2)
        return True

    def _close(self) -> None:
        """End a table or a frame; a frame is a record where it counts steps."""
        self.columns = None
        box, self.box = self.box, {}
        low = {key.lower(): key for key in box}
        step = next((low[key] for key in (*STEP_KEYS, "step", "episode") if key in low), None)
        if len(box) < _A_FEW or not any(map(grammars.measured, box)):
            return
        if step:
            box = {"step": box.pop(step), **box}
        elif self.clock - self.announced[1] <= _NEAR + len(box):
            box = {**self.announced[0], **box}
        else:
            return
        self._take(box, Segment("", self.boxed), "frame", 2)

    # what was said besides

    def _tell(self, segment: Segment) -> None:
        """Look for the program's name, its arguments, and words on the length of the training."""
        text = segment.text
        if len(text) <= marks.LONGEST_COMMAND and marks.named(text):
            name = marks.framework(text)
            if name:
                self.frameworks.setdefault(name, segment.line)
            told = marks.version(text)
            if told:
                self.versions[told[0]] = (told[1], segment.line)
        self.overflows += marks.overflow(text)
        for setting, value in marks.phrases(text):
            where = Location(self.name, line=segment.line)
            self.settings.append(Setting(setting, value, where))
        arguments = marks.command(text)
        if arguments:
            self._set(arguments, segment.line)

    def _list(self, segment: Segment) -> None:
        """Read a list of settings that a line announced."""
        if self.listing is not None:
            pair = marks.entry(segment.text)
            if pair:
                self.listing[pair[0]] = pair[1]
                return
            self._launch()
        if marks.opens(segment.text):
            self.listing, self.listed = {}, segment.line

    def _launch(self) -> None:
        """End a list of settings."""
        if self.listing:
            self._set(self.listing, self.listed)
        self.listing = None

    def _ends(self, segment: Segment) -> bool:
        """Follow tracebacks and other deaths; say whether the line was part of one.

        A process that goes on to write has survived its exception.
        """
        text, tag = segment.text, segment.tag
        if marks.TRACEBACK in text:
            self.tracebacks += 1
            self.traces[tag] = True
            return True
        if tag not in self.traces and _FRAME.match(text):
            self.traces[tag] = True
        if tag in self.traces:
            if marks.frame(text):
                self.traces[tag] = True
                return True
            told = marks.raised(text) if self.traces[tag] else None
            if told:
                self.traces[tag] = False
                ending = _Ending(told[0], segment.line, self.clock, tag)
                if told[1]:
                    self.wrapped = ending
                else:
                    self.error = ending
                return True
            if text.startswith(_CHAINS):
                return True
            del self.traces[tag]
        if tag and self.error and self.error.tag == tag:
            self.survived.add(self.error.text)
            self.error = None
        death = marks.died(text)
        if death:
            self.death = _Ending(death, segment.line, self.clock, tag)
        return False

    def _goes_on(self) -> None:
        """Note that the training made a step: no exception so far was its end."""
        self.progress = self.clock
        if self.error:
            self.survived.add(self.error.text)

    def _set(self, leaves: Mapping[str, object], line: int | None) -> None:
        """Take settings; several at once say that a training was launched."""
        found = list(settings_of(leaves, self.name))
        told = [item for item in found if isinstance(item, Setting)]
        self.settings.extend(replace(item, where=replace(item.where, line=line)) for item in told)
        if len(told) >= 2:
            self.launches.append(self.clock)
            self.notes.extend(item for item in found if not isinstance(item, Setting))


def read_text(segments: Iterable[Segment], name: str) -> Iterator[Item]:
    """Yield the rows, the settings and the notes of a text; ``name``: of the file it is from."""
    harvest = _Harvest(name)
    for segment in segments:
        harvest.see(segment)
    harvest.end()
    found, notes = _chosen(harvest)
    planned = _planned(harvest, found, notes)
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


# which of it is the curve


def _chosen(harvest: _Harvest) -> tuple[list[_Found], list[Note]]:
    """Return the records of the run's curve, with steps, and notes on what was left out."""
    tiers: dict[int, list[_Found]] = defaultdict(list)
    keys = Counter(tuple(item.record) for item in harvest.found if item.tier == 4)
    lines = sum(item.tier == 2 for item in harvest.found)
    for item in harvest.found:
        known = [value for key, value in item.record.items() if grammars.measured(key)]
        counted = all(str(value).lstrip("+-").isdigit() for value in known)
        if item.tier == 4 and keys[tuple(item.record)] < _A_FEW:
            continue
        if item.tier == 2 and lines < _A_FEW and len(known) < 2 and counted:
            continue
        tiers[item.tier].append(item)
    enough = (tier for tier in sorted(tiers) if len(tiers[tier]) >= _A_FEW)
    tier = next(enough, min(tiers, default=0))
    notes = []
    others = [item for at in tiers for item in tiers[at] if at != tier]
    if others:
        shown = ", ".join(list(others[0].record)[:4])
        text = f"{len(others)} other lines with numbers were left out, such as {shown}"
        notes.append(Note(_where(harvest.name, others[0].line), text))
    found = sorted(tiers.get(tier, []), key=lambda item: item.clock)
    if tier == _BARS:
        found = _one_bar(found, harvest.name, notes)
    _rollouts(found, harvest.name, notes)
    return found, notes


def _one_bar(found: list[_Found], name: str, notes: list[Note]) -> list[_Found]:
    """Return the numbers of one bar: of several the one that rises, epoch by epoch.

    A bar that begins anew in every iteration counts no steps of the run.
    """
    families: dict[str, list[_Found]] = defaultdict(list)
    for item in found:
        families[item.grammar].append(item)
    ranked = sorted(families.values(), key=lambda items: (_rises(items), len(items)))
    best = ranked[-1]
    if len(ranked) > 1:
        bars = ", ".join(repr(items[0].grammar[4:]) for items in ranked[:-1])
        text = f"{len(found) - len(best)} rows of other progress bars were left out: {bars}"
        notes.append(Note(name, text))
    if not _rises(best):
        for item in best:
            item.record = {key: value for key, value in item.record.items() if key != "step"}
    return best


def _rises(found: list[_Found]) -> bool:
    places = [
        (number(item.record.get("epoch", 0)) or 0.0, number(item.record["step"]) or 0.0)
        for item in found
    ]
    return all(former < later for former, later in pairwise(places))


def _rollouts(found: list[_Found], name: str, notes: list[Note]) -> None:
    """Count the rollouts of slime in steps where several steps train on one rollout."""
    rollouts = [item for item in found if item.grammar == "rollout"]
    steps = {item.record.get("step") for item in found if item.grammar == "table"} - {None}
    ids = {item.record["step"] for item in rollouts}
    if not rollouts or len(steps) <= len(ids):
        return
    times = round(len(steps) / len(ids))
    for item in rollouts:
        item.record["step"] = int(str(item.record["step"])) * times
    notes.append(Note(name, f"{times} steps train on one rollout; rollouts are counted in steps"))


def _planned(harvest: _Harvest, found: list[_Found], notes: list[Note]) -> Setting | None:
    """Give records without a step that of the progress bar; return the length it tells."""
    name = harvest.name
    stated = [item for item in found if "max_steps" in item.record]
    if stated:
        total = float(str(stated[-1].record["max_steps"]))
        return Setting("planned_steps", total, Location(name, line=stated[-1].line))
    loose = [item for item in found if not any(key in item.record for key in STEP_KEYS)]
    loose = [item for item in loose if "global_step/max_steps" not in item.record]
    if loose and len(loose) == len(found) and loose[0].tier != _BARS:
        bar = _by_bar(loose, name, notes) or _by_spacing(loose, name, notes)
        if bar:
            return Setting("planned_steps", float(bar), Location(name))
        _by_launch(loose, harvest.launches, name, notes)
    drawn = [key for key in harvest.trained if key[1] > 1]
    if drawn and not any("[" in title or "poch" in title for title, _ in drawn):
        longest = max(drawn, key=lambda key: key[1])
        return Setting("planned_steps", float(longest[1]), Location(name))
    return None


def _by_bar(found: list[_Found], name: str, notes: list[Note]) -> int | None:
    """Count records by the progress bar that stands before, or after, each; return its length.

    Its count must rise from record to record, at the pace of a logging interval: a bar is redrawn
    at most ten times a second, and a buffered log has its records far behind their bars. It may
    begin anew where another run begins.
    """
    trains = [item for item in found if not item.evaluates]
    for behind in (False, True) if trains else ():
        around = {id(item): item.after if behind else item.before for item in found}
        seen = Counter(key for item in trains for key in around[id(item)])
        for key in sorted(seen, key=lambda key: -key[1]):
            if seen[key] < len(trains):
                continue
            if _paced([around[id(item)][key] for item in trains], key[1]):
                for item in found:
                    count = around[id(item)].get(key, item.before.get(key))
                    if count is not None:
                        item.record = {"step": count, **item.record}
                text = f"the records carry no step; it is the progress bar's, of {key[1]}"
                notes.append(Note(name, text))
                return key[1]
    return None


def _by_spacing(found: list[_Found], name: str, notes: list[Note]) -> int | None:
    """Count records of a buffered log, whose bars run ahead of them; return the bar's length.

    Where the bar at the last record allows one logging interval alone, where no record would be
    ahead of its bar and the epochs keep the same pace, the interval is known.
    """
    trains = [item for item in found if not item.evaluates]
    count = len(trains)
    if count < _A_FEW:
        return None
    for key in sorted(trains[-1].before, key=lambda key: -key[1]):
        reached = trains[-1].before[key]
        every = reached // count
        alone = (
            every > 0
            and reached // every == count
            and (every == 1 or reached // (every - 1) != count)
        )
        ahead = any(at * every > item.before.get(key, 0) for at, item in enumerate(trains, start=1))
        if alone and not ahead and _even(trains):
            places = {id(item): at * every for at, item in enumerate(trains, start=1)}
            step = 0
            for item in found:
                step = places.get(id(item), step)
                item.record = {"step": step, **item.record}
            text = (
                f"the records carry no step and were printed late; {count} records of a progress"
                f" bar at {reached} make one every {every} steps"
            )
            notes.append(Note(name, text))
            return key[1]
    return None


_UNEVEN = 0.02
"""Share of the whole by which an epoch may be off its place: it is rounded to two digits."""


def _even(found: list[_Found]) -> bool:
    """Say whether the epochs of records, where they are logged, rise in proportion."""
    epochs = [number(item.record["epoch"]) for item in found if "epoch" in item.record]
    last = epochs[-1] if epochs else None
    if len(epochs) < len(found) or not last or any(epoch is None for epoch in epochs):
        return not epochs
    return all(
        abs(float(epoch or 0) / last - at / len(epochs)) < _UNEVEN + 0.01 / last
        for at, epoch in enumerate(epochs, start=1)
    )


def _by_launch(found: list[_Found], launches: Sequence[int], name: str, notes: list[Note]) -> None:
    """Number the records of each launch from 1, where a log holds several that made records."""
    starts = [bisect_right(launches, item.clock) for item in found]
    if len(set(starts)) < 2:
        return
    counts: Counter[int] = Counter()
    for item, start in zip(found, starts, strict=True):
        counts[start] += 1
        item.record = {"step": counts[start], **item.record}
    text = f"the records of {len(counts)} launches carry no step; each launch is numbered from 1"
    notes.append(Note(name, text))


def _paced(counts: list[int], total: int) -> bool:
    if counts[0] < 1:
        return False
    gaps = Counter(later - former for former, later in pairwise(counts) if later > former)
    pace = gaps.most_common(1)[0][0] if gaps else counts[0]
    on_time = all(count % pace == 0 or count in (1, total) for count in counts)
    return on_time and all(
        former < later or former > later <= counts[0] for former, later in pairwise(counts)
    )


# what else there is to say


def _settings(harvest: _Harvest, planned: Setting | None) -> Iterator[Setting]:
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


def _ending(harvest: _Harvest) -> tuple[str, int | None] | None:
    """Return the error after which nothing was trained any more, and its line."""
    last = max(harvest.progress, harvest.finished)
    for ending in (harvest.error, harvest.death, harvest.wrapped):
        if ending and ending.clock > last and ending.text not in harvest.survived:
            return ending.text, ending.line
    return None


def _told(harvest: _Harvest, rows: int) -> Iterator[Note]:
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
    if harvest.twice:
        yield Note(name, f"{harvest.twice} records were printed twice in a row; read once")
    for record, line in harvest.summaries[-1:]:
        told = ", ".join(f"{key} {value}" for key, value in list(record.items())[:6])
        yield Note(_where(name, line), f"the trainer's summary, no step of it: {told}")
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


def _where(name: str, line: int | None) -> str:
    return name if line is None else f"{name}:{line}"
