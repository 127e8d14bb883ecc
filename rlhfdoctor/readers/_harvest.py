"""What the segments of a text hold, collected one by one: records, settings, bars and endings."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from rlhfdoctor.model import Location, Note, Setting
from rlhfdoctor.readers import _grammars as grammars
from rlhfdoctor.readers import _marks as marks
from rlhfdoctor.readers._grammars import Bar, Record
from rlhfdoctor.readers._json import EPOCH_KEYS, STEP_KEYS, TEXT_KEYS, number, whole
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
    r"(?:^|[\s\]:])(?P<word>[a-z][a-z_]{1,19}?)[ _]?(?P<count>[1-9]\d{0,2}(?:,\d{3})+|\d{1,15})"
    r"\s{0,8}[:\-]\s*$",
    re.I,
)
_CONTINUES = re.compile(
    r"\s*(?:['\"}\])(\[{<\d.-]|\w{1,80}=|(?:None|True|False|true|false|null|nan|inf)\b|$)"
)
_AFTER_EVALUATING = 4
"""Segments within which the results of an evaluation follow its announcement."""

_CHAINS = ("During handling of", "The above exception", "ray::", "Error executing job")
"""How lines begin that stand inside a traceback, between one exception and the next."""

_COUNTS = ("step", "epoch", "max_steps")

_LOOK_BACK = 64
"""Records among which the last step is looked for."""

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
    tag: str = ""
    label: int | None = None
    tests: bool = False
    after: Mapping[tuple[str, int], int] = field(default_factory=dict)

    @property
    def evaluates(self) -> bool:
        """Whether it is an evaluation's."""
        counters = (*STEP_KEYS, *EPOCH_KEYS, "max_steps")
        return all(key.startswith("eval") or key in counters for key in self.record)

    @property
    def counted(self) -> bool:
        """Whether it tells a step, under whatever name."""
        return any(key in self.record for key in STEP_KEYS)

    @property
    def place(self) -> int | None:
        """The step that it tells, or None where it tells none or no whole number."""
        told = next((self.record[key] for key in STEP_KEYS if key in self.record), None)
        return whole(number(told))

    def add(self, more: Record) -> None:
        """Add what stands in the lines below it."""
        self.record.update(grammars.evaluation(more) if self.tests else more)


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
    finishes: list[int] = field(default_factory=list)
    recaps: list[int | None] = field(default_factory=list)
    recapped: int = -1
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
    banner: Found | None = None
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
        if grammars.split_told(record):
            record = grammars.evaluation(record)
        last = self.found[-1] if self.found else None
        counted = any(key in record for key in (*STEP_KEYS, "epoch"))
        same = last is not None and last.grammar == grammar and last.record.keys() == record.keys()
        if last and counted and same and repr(last.record) == repr(record):
            self.twice += 1
            return None
        item = Found(
            record,
            segment.line,
            segment.rank,
            grammar,
            tier,
            self.clock,
            self.bars,
            segment.tag,
            segment.label,
        )
        self.found.append(item)
        self.waiting.append(item)
        if tier < 3:
            self._goes_on()
        return item

    def _pairs(self, segment: Segment) -> bool:
        text = segment.text
        reward = grammars.average(text)
        if reward and self.under and segment.closed:
            self.under.add(reward)
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
        if self._banner(segment) or self._recap(text, segment.line):
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

    def _banner(self, segment: Segment) -> bool:
        """Read a banner that counts, and the headings and the pairs below it."""
        told = grammars.banner(segment.text)
        if told:
            self._begin(*told, segment)
            return True
        if not self.banner:
            return False
        heading = grammars.heading(segment.text)
        if heading == "eval":
            counts = {key: self.banner.record[key] for key in _COUNTS if key in self.banner.record}
            banner = self.banner
            self._begin(counts, True, segment)
            self.banner = banner
        elif heading:
            self.under = self.banner if heading == "train" else None
        elif self.under:
            more = grammars.followed(segment.text)
            if more and not segment.closed:
                more.popitem()
            self.under.add(more)
            return bool(more)
        return False

    def _begin(self, counts: Record, tests: bool, segment: Segment) -> None:
        """Begin a record whose pairs stand in the lines below."""
        grammar = "banner of an evaluation" if tests else "banner"
        self.under = self.banner = self._take(counts, segment, grammar, 1)
        if self.under:
            self.under.tests = tests

    def _recap(self, text: str, line: int | None) -> bool:
        """Leave aside a line that sums the run up, and the record of an earlier step below it."""
        if grammars.recap(text):
            self.recaps.append(line)
            self.recapped = self.clock
            return True
        if self.clock - self.recapped != 1:
            if text.endswith(":") and len(text) < 80 and grammars.recapped(text):
                self.recapped = self.clock
            return False
        again = grammars.stepped(text)
        places = (item.place for item in self.found[:-_LOOK_BACK:-1])
        last = next((place for place in places if place is not None), None)
        step = next((record["step"] for record in again if "step" in record), None)
        here = whole(number(step))
        if last is None or here is None or here > last:
            return False
        self.recaps.append(line)
        return True

    def _keep(self, records: list[Record], segment: Segment, grammar: str, tier: int) -> None:
        if not segment.closed:
            self._cut(records, segment)
        for record in records:
            taken = self._take(record, segment, grammar, tier)
            if tier < 3:
                self.under, self.banner = taken, None

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
            self.finishes.append(self.clock)
            return True
        counts = self._counts(before, value)
        if grammars.metrics(value) or (counts and all("/" in key for key in value)):
            if grammars.tested(before):
                value = grammars.evaluation(value)
            word = "table"
            if counts and not any(key in value for key in STEP_KEYS):
                word = "rollout" if counts.pop("rollout", None) else "table"
                value = {**counts, **value}
            self.under = self.banner = None
            self._take(value, segment, word, 1)
            return True
        if grammars.sampling(value) or any(isinstance(value.get(key), str) for key in TEXT_KEYS):
            return True
        self._set(dict(leaves(value)), segment.line)
        return True

    @staticmethod
    def _counts(before: str, value: Record) -> Record:
        """Return what the text before a printed table counts: ``step 3:``, ``rollout 3:``.

        Whatever slime does not print of a step it counts in rollouts, under the word that its keys
        begin with: ``perf 3: {'perf/rollout_time': 12.5}``.
        """
        found = _COUNTED.search(before)
        word = found["word"].lower() if found else ""
        step = int(found["count"].replace(",", "")) if found else 0
        if word in ("step", "iter", "iteration", "update", "train"):
            return {"step": step}
        prefixed = bool(value) and all(key.startswith(f"{word}/") for key in value)
        if word and (prefixed or word in ("rollout", "perf") or grammars.tested(f"{word} ")):
            return {"step": step, "rollout": True}
        counts = grammars.counting(before)
        counts.pop("max_steps", None)
        return counts

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
            named = zip(self.columns, parts, strict=True)
            record: Record = dict(grammars.percent(*pair) for pair in named if all(pair))
            if "," in str(record.get("step", "")):
                record["step"] = str(record["step"]).replace(",", "")
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
