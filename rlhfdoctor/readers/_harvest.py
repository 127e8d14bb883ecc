"""What the segments of a text hold, collected one by one: records, settings, bars and endings."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from rlhfdoctor.model import Location, Note, Setting
from rlhfdoctor.readers import _grammars as grammars
from rlhfdoctor.readers import _marks as marks
from rlhfdoctor.readers._grammars import Bar, Record
from rlhfdoctor.readers._json import STEP_KEYS, TEXT_KEYS
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

BARS = 3
"""The tier of the numbers that progress bars show."""

A_FEW = 3
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
class Found:
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
        """Whether it is an evaluation's."""
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
class Harvest:
    """What the segments seen so far hold."""

    name: str
    clock: int = 0
    found: list[Found] = field(default_factory=list)
    settings: list[Setting] = field(default_factory=list)
    broken: list[int | None] = field(default_factory=list)
    summaries: list[tuple[Record, int | None]] = field(default_factory=list)
    overlong: int = 0
    overflows: int = 0
    twice: int = 0
    blocks: dict[str, _Block] = field(default_factory=dict)
    bars: dict[tuple[str, int], int] = field(default_factory=dict)
    trained: dict[tuple[str, int], int] = field(default_factory=dict)
    waiting: list[Found] = field(default_factory=list)
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
    under: Found | None = None
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
            self._take(bar.values, segment, grammar, BARS)

    # records

    def _take(self, record: Record, segment: Segment, grammar: str, tier: int) -> Found | None:
        """Take a record; one that was printed twice in a row, step and all, is taken once."""
        last = self.found[-1] if self.found else None
        counted = any(key in record for key in (*STEP_KEYS, "epoch"))
        if last and counted and last.grammar == grammar and repr(last.record) == repr(record):
            self.twice += 1
            return None
        item = Found(record, segment.line, segment.rank, grammar, tier, self.clock, self.bars)
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
            possible = grammar.tier == 1 or likely
            if not (possible and any(need in text for need in grammar.needs)):
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
        if foreign and len(block.lines) >= A_FEW and not anew:
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
            self.notes.append(Note(where_of(self.name, block.line), note))

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
        if len(box) < A_FEW or not any(map(grammars.measured, box)):
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


def where_of(name: str, line: int | None) -> str:
    """Return a file and a line of it, where the line is known."""
    return name if line is None else f"{name}:{line}"
