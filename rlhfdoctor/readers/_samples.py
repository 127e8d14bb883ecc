"""Samples out of records, whatever file the records stood in: JSON, CSV, parquet.

A record is one response, one preference pair, a batch (a table of lists of the same length), or a
table around a list of such records. What the keys of a record may tell is looked up once for all
records that have the same keys in the same order.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any, NamedTuple

from rlhfdoctor.model import Note, Sample
from rlhfdoctor.readers import Item
from rlhfdoctor.readers._json import STEP_KEYS, TEXT_KEYS, clean, number, whole

MOST = 500_000
"""Samples of one file that a run holds; what comes behind them is counted and left out."""

MOST_TEXT = 2**31
"""Characters of one file's samples that a run holds."""

PROMPT_KEYS = ("prompt", "query", "input", "instruction", "question", "problem", "prompts")

_REWARD_KEYS = ("reward", "score", "rewards", "reward_score", "total_reward", "final_reward")
_COMPONENT_KEYS = ("reward_components", "rewards", "reward", "score", "reward_dict")
_TOTALS = ("total", "reward", "score", "overall", "final", "sum")
_ADVANTAGE_KEYS = ("advantage", "advantages")
_GROUP_KEYS = ("group", "group_id", "prompt_id", "uid", "task_id", "problem_id", "question_id")
_FINISH_KEYS = ("finish_reason", "stop_reason", "finish_reasons", "stop_reasons")
_TRUNCATED_KEYS = (
    *("truncated", "is_truncated", "clipped", "is_clipped", "hit_max_length", "hit_max_tokens"),
    *_FINISH_KEYS,
)
_CAPPED = frozenset(("length", "max_tokens", "max_length", "max_new_tokens", "model_length"))
_UNFINISHED = frozenset(("abort", "aborted", "error", "cancelled", "unknown", "none", ""))
_STEP_KEYS = (*STEP_KEYS, "head_version")
_LOGPROB_KEYS = ("logprobs", "generation_logprobs", "prev_logprobs")
_ID_KEYS = ("token_ids", "response_tensor")
_PROMPT_ID_KEYS = ("prompt_ids", "query_tensor")
_WHOLE_KEYS = ("messages", "conversations", "content")
_CONTENT = ("content", "text", "value", "completion", "response")
_NESTS = frozenset(
    ("samples", "rollouts", "trajectories", "episodes", "results", "records", "candidates")
)
_INHERITED = ("step", "global_step", "iteration", "split", "prompt", "question", "group")
_BOOKKEEPING = re.compile(
    r"(?i)(^|_)(id|idx|index|steps?|epoch|length|len|tokens?|turns?|time|seed|version|count|num"
    r"|entropy|advantages?|logps?|logprobs?|kl|label|gts?|timestamp|rank|iteration|update)(_|$|s$)"
)
"""Names of numbers beside a response that are no rewards."""

_COUNTS = re.compile(
    r"(num_|n_)?(generated|generation|gen|response|resp|completion|output|new)_"
    r"(num_)?(tokens?|length|len)(_count|_len|_length|s)?"
)
_BARE_COUNTS = re.compile(r"(num|n)_tokens|tokens?_count|tokens")
"""Names of the length of a response in tokens: those that say so, and those that may mean more."""

_STEP_NAMED = re.compile(
    r"(?i)(?:.*(?:step|iter|iteration|completions|samples|rollouts?)[_-]?)?0*(\d{1,12})"
)

_DEEPEST = 4
"""Levels of a document under which a list of samples is looked for."""

_MOST_SHAPES, _MOST_KEYS, _MOST_NAMED = 1024, 256, 2**14
"""Shapes of records that are remembered, their keys and the characters of these; a file may have as
many as records."""

_MOST_TOKENS = 2**32
"""Tokens from which on a count is none of a response."""

_WEIGHED = 32
"""Responses of a file by which it is told whether a count is one of tokens, ..."""

_WEIGHED_TEXT = 2**20
"""... and the characters of them after which it is told by those that were seen."""

_TOLD_KEYS = 40
"""Keys that a note names where no record holds a response."""

Records = Iterable[tuple[int, object] | Note]


def samples_of(
    records: Records,
    name: str,
    field: str | None = None,
    *,
    named_step: int | None = None,
    named_split: str | None = None,
    bounded: bool = True,
) -> Iterator[Item]:
    """Yield the samples of numbered records, and notes about what could not be used.

    A record's number is its line; 0 is one that is all its file holds: its samples are numbered.
    field: the key of the response where the usual ones do not fit; "output.text" is a key inside a
    table, "choices.0.text" one inside a list. named_step, named_split: what the file's name says,
    for records that do not say it themselves. bounded: leave out what is beyond ``MOST`` samples.

    Conversations (lists of ``{"role", "content"}``) are split: the last message of the assistant is
    the response, the messages before it are the prompt, one alone as it is and several as lines of
    ``role: content``; no chat template is applied, which is noted. A batch is taken apart. Of named
    rewards each is a component, and the reward is their total where one is so named. A record
    without text, and a field of the wrong shape, are counted; where no record has a text, the note
    names the keys that there are.
    """
    state = _State(name, field, named_step, named_split, bounded)
    yield from _weighed(_samples(records, state), state)
    yield from state.notes()


def step_named(stem: str) -> int | None:
    """Return the step that a file's name gives: "40", "completions_00040", "train_data_step40"."""
    match = _STEP_NAMED.fullmatch(stem)
    return whole(float(match[1])) if match else None


def split_named(stem: str) -> str | None:
    """Return "eval" where a file's name says that its samples are a validation's."""
    return "eval" if re.match(r"(?i)(val|eval|test)[_-]", stem) else None


def holds_text(keys: Iterable[str], field: str | None = None) -> bool:
    """Say whether columns hold responses, or pairs; ``field``: the key, or path, that is one."""
    held = set(keys)
    if field:
        return field in held or field.partition(".")[0] in held
    return not held.isdisjoint((*TEXT_KEYS, "chosen"))


def textless(name: str, columns: Sequence[str]) -> Note:
    """Return the note of a table of which no column holds responses."""
    return Note(name, f"holds no responses; its {_listed('columns', columns)}", unread=True)


def _listed(what: str, names: Sequence[str]) -> str:
    shown = ", ".join(clean(name[:80]) for name in names[:_TOLD_KEYS])
    return f"{what} are {shown}{', ...' if len(names) > _TOLD_KEYS else ''}"


class _State:
    """What is known of a file, and what is counted over it for its notes."""

    def __init__(
        self, name: str, field: str | None, step: int | None, split: str | None, bounded: bool
    ) -> None:
        self.name = name
        self.field = field
        self.step = step
        self.split = split
        self.bounded = bounded
        self.counts_tokens = True
        self.textless = 0
        self.textless_lines: list[int] = []
        self.keys: dict[str, None] = {}
        self.misshapen: Counter[str] = Counter()
        self.told: Counter[str] = Counter()
        self.count = 0
        self.characters = 0
        self.beyond = 0

    def holds(self, sample: Sample) -> bool:
        """Say whether the file's share of memory has room for a sample, which is counted."""
        self.characters += len(sample.prompt or "") + len(sample.response or "")
        self.characters += len(sample.chosen or "") + len(sample.rejected or "")
        full = self.count > MOST or self.characters > MOST_TEXT
        self.beyond += full
        self.count -= full
        return not full

    def without_text(self, record: object, line: int) -> None:
        """Count a record without text, and remember what it has instead."""
        self.textless += 1
        if len(self.textless_lines) < 10:
            self.textless_lines.append(line)
        if not self.count and isinstance(record, dict) and len(self.keys) < _TOLD_KEYS:
            self.keys.update(dict.fromkeys(islice(_paths(record), _TOLD_KEYS + 1)))

    def notes(self) -> Iterator[Note]:
        """Yield what was left out, and what was understood in a way that must be known."""
        if self.textless:
            shown = ", ".join(map(str, self.textless_lines))
            more = ", ..." if self.textless > len(self.textless_lines) else ""
            text = f"{self.textless} records hold no response and were left out: {shown}{more}"
            if not self.count and self.keys:
                text += f"; their {_listed('keys', list(self.keys))}"
            yield Note(self.name, text, left_out=self.textless)
        for key, count in sorted(self.misshapen.items()):
            where = f"{self.name}: {key}"
            yield Note(where, f"has an unexpected shape in {count} records; left out there")
        for text, count in sorted(self.told.items()):
            yield Note(self.name, f"{count} {text}")
        if self.beyond:
            text = f"{self.beyond} samples behind the first {self.count} were left out"
            yield Note(self.name, text, left_out=self.beyond)


def _paths(record: Mapping[str, object]) -> Iterator[str]:
    """Yield the keys of a record as ``field`` would name them, those inside its tables too."""
    for key, value in record.items():
        yield key
        if isinstance(value, dict):
            yield from (f"{key}.{inner}" for inner in value)


# Over a file


def _samples(records: Records, state: _State) -> Iterator[Item]:
    """Yield the samples of records, and the notes among these."""
    shapes: dict[tuple[str, ...], _Shape] = {}
    field, bounded = state.field, state.bounded
    for item in records:
        if isinstance(item, Note):
            yield item
            continue
        line, record = item
        if type(record) is not dict:
            record = _table(record)
        if record is None:
            state.without_text(record, line)
            continue
        if field and field not in record:
            _reach(record, field)
        shape = shapes.get(keys := tuple(record))
        if shape is None:
            shape = _shape(keys, field)
            if len(shapes) >= _MOST_SHAPES:
                shapes.clear()
            if len(keys) <= _MOST_KEYS and sum(map(len, keys)) <= _MOST_NAMED:
                shapes[keys] = shape
        rows = _rows(record, line, shape, field) or ((record, shape),)
        place = line
        for row, kind in rows:
            place = line or place + 1
            sample = _sample(row, place, kind, state)
            if sample is None:
                state.without_text(row, place)
                continue
            state.count += 1
            if not bounded or state.holds(sample):
                yield sample


def _weighed(samples: Iterator[Item], state: _State) -> Iterator[Item]:
    """Yield samples; without their counts of tokens where these count something else.

    A script that has no tokenizer at hand counts characters or words and calls that a length, and
    a total may hold the prompt. No tokenizer's count is exactly either over several responses, or
    beyond the bytes of most: each token but the special ones stands for at least one.
    """
    head: list[Item] = []
    size = 0
    for item in samples:
        head.append(item)
        size += len(item.response or "") if isinstance(item, Sample) else 0
        if len(head) == _WEIGHED or size > _WEIGHED_TEXT:
            break
    counted = _counted(head)
    if counted:
        state.counts_tokens = False
        state.told[f"lengths count {counted}, so none is taken for one in tokens"] = len(
            [item for item in head if isinstance(item, Sample) and item.tokens is not None]
        )
        head = [replace(item, tokens=None) if isinstance(item, Sample) else item for item in head]
    yield from head
    head.clear()
    yield from samples


def _counted(items: Iterable[Item]) -> str | None:
    """Return what the counts of samples count where that is no tokens."""
    told = [
        (item.tokens, item.response)
        for item in items
        if isinstance(item, Sample) and item.tokens is not None and item.response
    ]
    if not any(len(text) > 20 for _, text in told):
        return None
    for what, measure in _MEASURES.items():
        if all(count == measure(text) for count, text in told):
            return what
    beyond = sum(count > len(text.encode("utf-8", "replace")) + 1 for count, text in told)
    return "more than the bytes of the responses" if 2 * beyond > len(told) else None


_MEASURES: dict[str, Callable[[str], int]] = {
    "characters": len,
    "words": lambda text: len(text.split()),
    "bytes": lambda text: len(text.encode("utf-8", "replace")),
}


# From one record to one table a response


class _Shape(NamedTuple):
    """What the keys of a record may tell, as those that it has, in the order of asking.

    texts: under which a batch may stand. tables, rewards, named, counted: rewards as a table, as
    one number, by their names, and beside an advantage. masked: lists may span prompt and response.
    readers: name of a field of ``Sample``, how to read it, and from which keys.
    """

    texts: tuple[str, ...]
    responses: tuple[str, ...]
    chosen: tuple[str, ...]
    rejected: tuple[str, ...]
    wholes: tuple[str, ...]
    prompts: tuple[str, ...]
    tables: tuple[str, ...]
    rewards: tuple[str, ...]
    named: tuple[str, ...]
    counted: tuple[str, ...]
    advantages: tuple[str, ...]
    masked: bool
    readers: tuple[tuple[str, _Read, tuple[str, ...]], ...]


def _shape(keys: tuple[str, ...], field: str | None) -> _Shape:
    held = frozenset(keys)

    def of(*names: str) -> tuple[str, ...]:
        return tuple(name for name in names if name in held)

    others = [key for key in keys if key not in _REWARD_KEYS]
    named = tuple(filter(_is_reward, others))
    advantages = of(*_ADVANTAGE_KEYS)
    beside = advantages and "prompt" in held
    lengths = (*filter(_COUNTS.fullmatch, keys), *filter(_BARE_COUNTS.fullmatch, keys))
    asked = {name: of(*names) for name, (names, _) in _FIELDS.items()} | {"tokens": lengths}
    return _Shape(
        texts=of(field) if field else of(*TEXT_KEYS, "content", "chosen"),
        responses=of(field) if field else of(*TEXT_KEYS),
        chosen=of("chosen"),
        rejected=of("rejected"),
        wholes=() if field else of(*_WHOLE_KEYS),
        prompts=of(*PROMPT_KEYS),
        tables=of(*_COMPONENT_KEYS),
        rewards=of(*_REWARD_KEYS),
        named=named,
        counted=tuple(
            key for key in others if beside and (key in named or not _BOOKKEEPING.search(key))
        ),
        advantages=advantages,
        masked="token_loss_mask" in held
        or (bool(of(*_LOGPROB_KEYS)) and _LOGPROB_KEYS[0] not in held),
        readers=tuple((name, _FIELDS[name][1], told) for name, told in asked.items() if told),
    )


def _table(record: object) -> dict[str, object] | None:
    """Return as a table what stands for one: a text, a conversation's messages, or records."""
    if isinstance(record, str):
        return {TEXT_KEYS[0]: record}
    if isinstance(record, list) and is_chat(record):
        return {_WHOLE_KEYS[0]: record}
    return {"samples": record} if isinstance(record, list) else None


def _reach(record: dict[str, object], field: str) -> None:
    """Put what lies under a path into the record under the whole path, where there is something."""
    found = _dug(record, field.split("."))
    if found is not None:
        record[field] = found


def _dug(value: object, path: Sequence[str]) -> object:
    """Return what lies under keys inside keys; of a list the item of a number, else of each."""
    for depth, part in enumerate(path):
        if isinstance(value, dict):
            value = value.get(part)
        elif isinstance(value, list) and part.isdecimal():
            value = value[int(part)] if int(part) < len(value) else None
        elif isinstance(value, list):
            return [_dug(item, path[depth:]) for item in value]
        else:
            return None
    return value


_Rows = Iterable[tuple[Mapping[str, object], "_Shape"]]


def _rows(record: dict[str, object], line: int, shape: _Shape, field: str | None) -> _Rows | None:
    """Return the rows of a batch, or of a list inside the record, each with its shape.

    None where the record is a row itself.
    """
    if not (shape.texts or shape.wholes):
        within = _within(record, line, field)
        return _inner(record, within, field) if within else None
    for key in shape.texts:
        if isinstance(record[key], list):
            count = _batched(record, shape)
            return None if count is None else _batch(record, count, shape)
    return None


def _batch(record: Mapping[str, object], count: int, shape: _Shape) -> _Rows:
    lists = [key for key, v in record.items() if isinstance(v, list) and len(v) == count]
    for place in range(count):
        yield {**record, **{key: record[key][place] for key in lists}}, shape  # type: ignore[index]


def _inner(record: Mapping[str, object], within: Iterable[object], field: str | None) -> _Rows:
    inherited = {key: record[key] for key in _INHERITED if key in record}
    for inner in within:
        table = {**inherited, **inner} if isinstance(inner, dict) else {}
        if field:
            _reach(table, field)
        shape = _shape(tuple(table), field)
        yield from _rows(table, 1, shape, field) or ((table, shape),)


def _batched(record: Mapping[str, object], shape: _Shape) -> int | None:
    """Return how many responses the first list of them holds; None where there is no list."""
    for key in shape.texts:
        value = record[key]
        if isinstance(value, list) and value and not is_chat(value):
            if key == "content":  # NeMo-RL: a line is a batch of one list of messages
                lists = all(isinstance(item, list) for item in value)
                return len(value) if lists or len(value) == 1 else None
            kinds = set(map(type, value)) - {type(None)}
            return len(value) if kinds in ({list}, {str}, {dict}, {str, dict}) else None
    return None


def _within(record: Mapping[str, object], line: int, field: str | None) -> Sequence[object]:
    """Return the records with text that lie in a record without: in lists, else as tables.

    Of a line only lists that are called like samples count; in a document any may hold them. Those
    nearest to its top are its samples.
    """
    if line:
        levels = [[record[key] for key in record if key in _NESTS]]
    else:
        levels = [list(record.values())]
        while len(levels) <= _DEEPEST:
            tables = [value for value in levels[-1] if isinstance(value, dict)]
            levels.append([inner for table in tables for inner in table.values()])
    for level in levels:
        found = [item for value in level for item in _records(value, field)]
        if found:
            return found
    for level in () if line else levels:
        found = [item for item in level if isinstance(item, dict) and holds_text(item, field)]
        if found:
            return found
    return ()


def _records(value: object, field: str | None) -> Sequence[object]:
    """Return a list whose first item is a record with text."""
    if not isinstance(value, list) or not value or not isinstance(value[0], dict):
        return []
    if not holds_text(value[0], field):
        return []
    return value


def is_chat(value: object) -> bool:
    """Say whether a value is a conversation: messages with a role and a content.

    ShareGPT's calls these "from" and "value".
    """
    return (
        isinstance(value, list)
        and bool(value)
        and all(
            isinstance(item, dict)
            and (("role" in item and "content" in item) or ("from" in item and "value" in item))
            for item in value
        )
    )


# From one table to one sample


def _sample(record: Mapping[str, object], line: int, shape: _Shape, state: _State) -> Sample | None:
    key, response, before = _answer(record, shape.responses, state)
    chosen_key = chosen = rejected = context = None
    if shape.chosen:
        chosen_key, chosen, context = _answer(record, shape.chosen, state)
    if shape.rejected:
        _, rejected, _ = _answer(record, shape.rejected, state)
    if response is None and chosen is None and shape.wholes:
        key, response, before = _whole_text(record, shape.wholes, state)
    values = {name: read(record, keys, state) for name, read, keys in shape.readers}
    if response is None and chosen is None and (state.field or not values.get("token_ids")):
        return None
    if state.step is not None and values.get("step") is None:
        values["step"] = state.step
    if state.split is not None and values.get("split") is None:
        values["split"] = state.split
    prompt = _prompt(record, shape.prompts, state)
    components = _components(record, shape, (key, chosen_key))
    sample = Sample(
        line=line,
        prompt=prompt if prompt is not None else before if before is not None else context,
        response=response,
        reward=_reward(record, shape.rewards, components),
        reward_components=components,
        chosen=chosen,
        rejected=rejected,
        **values,  # type: ignore[arg-type]
    )
    return _masked(record, sample, state) if shape.masked else sample


def _told(record: Mapping[str, object], keys: Iterable[str]) -> str | None:
    """Return the first of these keys under which something stands."""
    for key in keys:
        if record[key] is not None:
            return key
    return None


def _first(record: Mapping[str, object], keys: Iterable[str]) -> object:
    key = _told(record, keys)
    return None if key is None else record[key]


def _answer(
    record: Mapping[str, object], keys: Iterable[str], state: _State
) -> tuple[str | None, str | None, str | None]:
    """Return the key of the first text, the text, and what a conversation holds before it."""
    for key in keys:
        value = record[key]
        if not value and record.get("tool_calls"):
            return key, clean(json.dumps(record["tool_calls"], ensure_ascii=False)), None
        if isinstance(value, str):
            return key, clean(value), None
        if isinstance(value, list) and is_chat(value):
            response, before = _split_chat(value)
            if response is not None:
                state.told[_CHATS] += 1
                return key, response, before
        if isinstance(value, dict):
            inner = next((value[k] for k in _CONTENT if isinstance(value.get(k), str)), None)
            if inner is not None:
                return key, clean(str(inner)), None
        if value is not None and key in ("chosen", "rejected"):
            state.misshapen[key] += 1
    return None, None, None


_CHATS = "conversations: the last answer is the response; the prompts carry no chat template"


_UNMASKED = "lists of log-probabilities span prompt and response, with no mask; left out"


def _split_chat(chat: Sequence[Mapping[str, object]]) -> tuple[str | None, str | None]:
    """Return the last message of the assistant and, joined, the messages before it."""
    last = next((i for i in reversed(range(len(chat))) if _role(chat[i]) == "assistant"), None)
    if last is None:
        return None, None
    return _content(chat[last]), _joined(chat[:last])


def _role(message: Mapping[str, object]) -> str:
    role = str(message["role"] if "role" in message else message.get("from")).lower()
    return "assistant" if role in ("assistant", "gpt", "model", "bot") else role


def _content(message: Mapping[str, object]) -> str | None:
    value = message["content"] if "content" in message else message.get("value")
    if not value and message.get("tool_calls"):
        return clean(json.dumps(message["tool_calls"], ensure_ascii=False))
    if isinstance(value, list):
        parts = [part.get("text") for part in value if isinstance(part, dict)]
        value = "".join(part for part in parts if isinstance(part, str))
    return clean(value) if isinstance(value, str) else None


def _joined(messages: Sequence[Mapping[str, object]]) -> str | None:
    told = [(clean(_role(item)), _content(item) or "") for item in messages]
    if len(told) < 2:
        return told[0][1] if told else None
    return "\n".join(f"{role}: {content}" for role, content in told)


def _prompt(record: Mapping[str, object], keys: Iterable[str], state: _State) -> str | None:
    for key in keys:
        value = record[key]
        if isinstance(value, str):
            return clean(value)
        if isinstance(value, list) and is_chat(value):
            state.told[_CHATS] += 1
            return _joined(value)
        if value is not None:
            state.misshapen[key] += 1
            return None
    return None


def _whole_text(
    record: Mapping[str, object], keys: Iterable[str], state: _State
) -> tuple[str | None, str | None, str | None]:
    """Take a conversation, or prompt and response in one text, apart as far as possible."""
    for key in keys:
        value = record[key]
        if isinstance(value, list) and is_chat(value):
            response, before = _split_chat(value)
            if response is not None:
                state.told[_CHATS] += 1
                return key, response, before
        if key == "content" and isinstance(value, list) and value:
            texts = [clean(item) for item in value if isinstance(item, str)]
            if len(texts) == len(value):
                return key, texts[-1], "\n".join(texts[:-1]) or None
        if key == "content" and isinstance(value, str) and "role" not in record:
            state.told["responses hold their prompt: both are one text in the file"] += 1
            return key, clean(value), None
    return None, None, None


def _reward(
    record: Mapping[str, object], keys: Iterable[str], components: Mapping[str, float] | None
) -> float | None:
    for key in keys:
        value = record[key]
        found = float(value) if isinstance(value, bool) else number(value)
        if found is not None:
            return found
    if not components:
        return None
    named = {key.rpartition("/")[2].lower(): value for key, value in components.items()}
    total = next((named[key] for key in _TOTALS if key in named), None)
    return next(iter(components.values())) if total is None and len(components) == 1 else total


def _components(
    record: Mapping[str, object], shape: _Shape, used: tuple[str | None, ...]
) -> dict[str, float] | None:
    """Return the named rewards of a record.

    They stand in a table of their own or, beside a response and its advantage, in columns of their
    own, one a reward function (TRL, ms-swift).
    """
    for key in shape.tables:
        value = record[key]
        if isinstance(value, dict):
            named = {clean(str(name)): number(item) for name, item in value.items()}
            found = {name: item for name, item in named.items() if item is not None}
            if found:
                return found
    batch = shape.counted and _first(record, shape.advantages) is not None
    keys = shape.counted if batch else shape.named
    if not keys:
        return None
    columns = {
        clean(key): number(value)
        for key in keys
        if key not in used and not isinstance(value := record[key], str)
    }
    return {key: value for key, value in columns.items() if value is not None} or None


def _is_reward(key: str) -> bool:
    return key.startswith(("reward_", "rewards/", "rewards_")) or key.endswith("_reward")


# From keys to the fields of a sample

_Read = Callable[[Mapping[str, object], tuple[str, ...], _State], object]


def _step(record: Mapping[str, object], keys: tuple[str, ...], _: _State) -> int | None:
    value = _first(record, keys)
    return whole(value if type(value) is int else number(value))


def _split(record: Mapping[str, object], keys: tuple[str, ...], _: _State) -> str | None:
    value = record[keys[0]]
    return clean(value) if isinstance(value, str) else None


def _number(record: Mapping[str, object], keys: tuple[str, ...], _: _State) -> float | None:
    return number(_first(record, keys))


def _group(record: Mapping[str, object], keys: tuple[str, ...], _: _State) -> str | None:
    value = _first(record, keys)
    return None if value is None else clean(str(value))


def _truncated(record: Mapping[str, object], keys: tuple[str, ...], _: _State) -> bool | None:
    """Say whether a response was cut: by a flag, else by the reason for which it ended."""
    for key in keys:
        value = record[key]
        if value is None:
            continue
        if key not in _FINISH_KEYS:
            return bool(value) if value in (0, 1) else None
        if isinstance(value, dict):  # SGLang: {"type": "length", "length": 512}
            value = value.get("type")
        word = value.lower().rpartition(".")[2] if isinstance(value, str) else "unknown"
        return None if word in _UNFINISHED else word in _CAPPED
    return None


def _tokens(record: Mapping[str, object], keys: tuple[str, ...], state: _State) -> int | None:
    """Return how long the trainer says that the response is; of a list of tokens its length."""
    if not state.counts_tokens:
        return None
    value = _first(record, keys)
    count = len(value) if isinstance(value, list) else whole(number(value))
    return count if count is not None and 0 <= count < _MOST_TOKENS else None


def _ids(
    record: Mapping[str, object], keys: tuple[str, ...], state: _State
) -> tuple[int, ...] | None:
    """Return the first list of token ids under these keys; they must be whole."""
    key = _told(record, keys)
    if key is None:
        return None
    value = record[key]
    if isinstance(value, list) and set(map(type, value)) == {int}:
        found: list[Any] = value
    else:
        numbers = _all_numbers(value) or ()
        found = [int(item) for item in numbers if item.is_integer()]
        if not isinstance(value, list) or len(found) < len(value):
            state.misshapen[key] += 1
            return None
    if found and not -(2**63) < min(found) <= max(found) < 2**63:
        state.misshapen[key] += 1
        return None
    return tuple(found)


def _numbers(
    record: Mapping[str, object], keys: tuple[str, ...], state: _State
) -> tuple[float, ...] | None:
    """Return the first list of numbers under these keys."""
    key = _told(record, keys)
    if key is None:
        return None
    found = _all_numbers(record[key])
    if found is None:
        state.misshapen[key] += 1
    return found


def _all_numbers(value: object) -> tuple[float, ...] | None:
    """Return a list of numbers, or None where it is none."""
    if not isinstance(value, list):
        return None
    if set(map(type, value)) == {float}:
        return tuple(value)
    found = tuple(number(item) for item in value)
    return None if None in found else found  # type: ignore[return-value]


_FIELDS: dict[str, tuple[tuple[str, ...], _Read]] = {
    "step": (_STEP_KEYS, _step),
    "split": (("split",), _split),
    "advantage": (_ADVANTAGE_KEYS, _number),
    "group": (_GROUP_KEYS, _group),
    "truncated": (_TRUNCATED_KEYS, _truncated),
    "prompt_ids": (_PROMPT_ID_KEYS, _ids),
    "token_ids": (_ID_KEYS, _ids),
    "tokens": ((), _tokens),
    "logprobs": (_LOGPROB_KEYS, _numbers),
    "ref_logprobs": (("ref_logprobs",), _numbers),
}
"""Fields of a sample: the keys under which they stand, the most explicit first, and how to read."""


def _masked(record: Mapping[str, object], sample: Sample, state: _State) -> Sample:
    """Cut the prompt and the padding off lists that a mask spans (NeMo-RL's ``token_loss_mask``).

    Where the mask has several stretches (an environment answered in between) they are no one
    response, and the lists are left out.
    """
    mask = record.get("token_loss_mask")
    ids = sample.token_ids
    if mask is None and sample.logprobs is not None and "logprobs" not in record:
        state.told[_UNMASKED] += 1
        return replace(sample, logprobs=None)
    if not isinstance(mask, list) or ids is None or len(mask) != len(ids):
        return sample
    ones = [place for place, item in enumerate(mask) if number(item) == 1 or item is True]
    if not ones or ones[-1] - ones[0] + 1 != len(ones):
        state.misshapen["token_loss_mask"] += 1
        return replace(sample, token_ids=None, logprobs=None)
    start, end = ones[0], ones[-1] + 1
    spans = sample.logprobs is not None and len(sample.logprobs) == len(ids)
    return replace(
        sample,
        prompt_ids=ids[:start],
        token_ids=ids[start:end],
        logprobs=sample.logprobs[start:end] if spans and sample.logprobs else None,
    )
