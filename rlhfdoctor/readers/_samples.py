"""Samples out of records, whatever file the records stood in: JSON, CSV, parquet.

A record is one response, one preference pair, or a batch: a table of lists of the same length.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from rlhfdoctor.model import Note, Sample
from rlhfdoctor.readers import Item
from rlhfdoctor.readers._json import STEP_KEYS, TEXT_KEYS, clean, number, whole

MOST = 500_000
"""Samples of one file that are held; what comes behind them is counted and left out."""

MOST_TEXT = 2**31
"""Characters of one file's samples that are held."""

PROMPT_KEYS = ("prompt", "query", "input", "instruction", "question", "problem", "prompts")

_REWARD_KEYS = ("reward", "score", "rewards", "reward_score", "total_reward", "final_reward")
_COMPONENT_KEYS = ("reward_components", "rewards", "reward", "score", "reward_dict")
_TOTALS = ("total", "reward", "score", "overall", "final", "sum")
_ADVANTAGE_KEYS = ("advantage", "advantages")
_GROUP_KEYS = ("group", "group_id", "prompt_id", "uid", "task_id", "problem_id", "question_id")
_TRUNCATED_KEYS = ("truncated", "is_truncated", "clipped", "is_clipped")
_FINISH_KEYS = ("finish_reason", "stop_reason")
_STEP_KEYS = (*STEP_KEYS, "head_version")
_LOGPROB_KEYS = ("logprobs", "generation_logprobs", "prev_logprobs")
_TEXTS_KEYS = (*TEXT_KEYS, "content")
_CONTENT = ("content", "text", "value", "completion", "response")
_INT_LISTS = ("prompt_ids", "token_ids")
_BOOKKEEPING = re.compile(
    r"(?i)(^|_)(id|idx|index|steps?|epoch|length|len|tokens?|turns?|time|seed|version|count|num"
    r"|entropy|advantages?|logps?|logprobs?|kl|label|gts?|timestamp|rank|iteration|update)(_|$|s$)"
)
"""Names of numbers beside a response that are no rewards."""

_STEP_NAMED = re.compile(
    r"(?i)(?:.*(?:step|iter|iteration|completions|samples|rollouts?)[_-]?)?0*(\d{1,12})"
)


def samples_of(
    records: Iterable[tuple[int, object] | Note],
    name: str,
    field: str | None = None,
    *,
    named_step: int | None = None,
    named_split: str | None = None,
) -> Iterator[Item]:
    """Yield the samples of numbered records, and notes about what could not be used.

    field: the key of the response where the usual ones do not fit. named_step, named_split: what
    the file's name says, for records that do not say it themselves.

    Conversations (lists of ``{"role", "content"}``) are split: the last message of the assistant is
    the response, the messages before it are the prompt, one alone as it is and several as lines of
    ``role: content``; no chat template is applied, which is noted. A batch is taken apart. Of named
    rewards each is a component, and the reward is their total where one is so named. A record
    without text, and a field of the wrong shape, are counted.
    """
    state = _State(name)
    for item in records:
        if isinstance(item, Note):
            yield item
            continue
        line, record = item
        found = False
        for single in _singles(record, field):
            sample = _sample(single, line, field, state)
            if sample is None:
                continue
            found = True
            if state.full(sample):
                continue
            if sample.step is None and named_step is not None:
                sample = _with(sample, step=named_step)
            if sample.split is None and named_split is not None:
                sample = _with(sample, split=named_split)
            yield sample
        if not found:
            state.textless.append(line)
    yield from state.notes()


def step_named(stem: str) -> int | None:
    """Return the step that a file's name gives: "40", "completions_00040", "train_data_step40"."""
    match = _STEP_NAMED.fullmatch(stem)
    return whole(float(match[1])) if match else None


def split_named(stem: str) -> str | None:
    """Return "eval" where a file's name says that its samples are a validation's."""
    return "eval" if re.match(r"(?i)(val|eval|test)[_-]", stem) else None


def holds_text(keys: Iterable[str]) -> bool:
    """Say whether columns hold responses, or pairs."""
    return bool({*TEXT_KEYS, "chosen"} & set(keys))


class _State:
    """What is counted over a file, for its notes."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.textless: list[int] = []
        self.misshapen: Counter[str] = Counter()
        self.told: Counter[str] = Counter()
        self.count = 0
        self.characters = 0
        self.beyond = 0

    def full(self, sample: Sample) -> bool:
        """Count a sample; say whether the file's share of memory is used up."""
        texts = (sample.prompt, sample.response, sample.chosen, sample.rejected)
        size = sum(len(text) for text in texts if text)
        if self.count >= MOST or self.characters + size > MOST_TEXT:
            self.beyond += 1
            return True
        self.count += 1
        self.characters += size
        return False

    def notes(self) -> Iterator[Note]:
        """Yield what was left out, and what was understood in a way that must be known."""
        if self.textless:
            shown = ", ".join(map(str, self.textless[:10]))
            more = ", ..." if len(self.textless) > 10 else ""
            text = f"{len(self.textless)} records hold no response and were left out: {shown}{more}"
            yield Note(self.name, text, left_out=len(self.textless))
        for key, count in sorted(self.misshapen.items()):
            where = f"{self.name}: {key}"
            yield Note(where, f"has an unexpected shape in {count} records; left out there")
        for text, count in sorted(self.told.items()):
            yield Note(self.name, f"{count} {text}")
        if self.beyond:
            text = f"{self.beyond} samples behind the first {self.count} were left out"
            yield Note(self.name, text, left_out=self.beyond)


def _with(sample: Sample, **values: object) -> Sample:
    return replace(sample, **values)  # type: ignore[arg-type]


# From one record to one table a response


def _singles(record: object, field: str | None) -> Iterator[Mapping[str, object]]:
    """Yield the record, or the rows of a batch: where the response is a list of responses."""
    if isinstance(record, str):
        record = {TEXT_KEYS[0]: record}
    if not isinstance(record, dict):
        return
    count = _batched(record, field)
    if count is None:
        yield record
        return
    for place in range(count):
        yield {
            key: value[place] if isinstance(value, list) and len(value) == count else value
            for key, value in record.items()
        }


def _batched(record: Mapping[str, object], field: str | None) -> int | None:
    for key in (field,) if field else (*_TEXTS_KEYS, "chosen"):
        value = record.get(key) if key else None
        if isinstance(value, list) and value and not _is_chat(value):
            if key == "content":  # NeMo-RL: a line is a batch of one list of messages
                lists = all(isinstance(item, list) for item in value)
                return len(value) if lists or len(value) == 1 else None
            kinds = (str, dict) if not isinstance(value[0], list) else (list,)
            return len(value) if all(isinstance(item, kinds) for item in value) else None
    return None


def _is_chat(value: object) -> bool:
    return (
        isinstance(value, list)
        and bool(value)
        and all(isinstance(item, dict) and "role" in item and "content" in item for item in value)
    )


# From one table to one sample


def _sample(
    record: Mapping[str, object], line: int, field: str | None, state: _State
) -> Sample | None:
    keys = (field,) if field else TEXT_KEYS
    key, response, before = _answer(record, keys, state)
    chosen_key, chosen, context = _answer(record, ("chosen",), state)
    _, rejected, _ = _answer(record, ("rejected",), state)
    if response is None and chosen is None and not field:
        key, response, before = _whole_text(record, state)
    ids = _numbers(record, ("token_ids", "response_tensor"), state)
    if response is None and chosen is None and (field or not ids):
        return None
    prompt = next((_prompt(record[k], k, state) for k in PROMPT_KEYS if _told(record, k)), None)
    used = {key, chosen_key}
    components = _components(record, used)
    truncated, group = _first(record, _TRUNCATED_KEYS), _first(record, _GROUP_KEYS)
    finish = _first(record, _FINISH_KEYS)
    if truncated is None and isinstance(finish, str):
        truncated = finish.lower() in ("length", "max_tokens")
    split = record.get("split")
    return _masked(
        record,
        Sample(
            line=line,
            step=whole(number(_first(record, _STEP_KEYS))),
            split=clean(split) if isinstance(split, str) else None,
            prompt=prompt if prompt is not None else before if before is not None else context,
            response=response,
            reward=_reward(record, components),
            reward_components=components,
            advantage=number(_first(record, _ADVANTAGE_KEYS)),
            group=None if group is None else clean(str(group)),
            truncated=truncated if isinstance(truncated, bool) else None,
            prompt_ids=_whole(_numbers(record, ("prompt_ids", "query_tensor"), state)),
            token_ids=_whole(ids),
            logprobs=_numbers(record, _LOGPROB_KEYS, state),
            ref_logprobs=_numbers(record, ("ref_logprobs",), state),
            chosen=chosen,
            rejected=rejected,
        ),
        state,
    )


def _told(record: Mapping[str, object], key: str) -> bool:
    return record.get(key) is not None


def _first(record: Mapping[str, object], keys: tuple[str, ...]) -> object:
    return next((record[key] for key in keys if record.get(key) is not None), None)


def _answer(
    record: Mapping[str, object], keys: Iterable[str], state: _State
) -> tuple[str | None, str | None, str | None]:
    """Return the key of the first text, the text, and what a conversation holds before it."""
    for key in keys:
        value = record.get(key)
        if isinstance(value, str):
            return key, clean(value), None
        if isinstance(value, list) and _is_chat(value):
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
    role = str(message["role"]).lower()
    return "assistant" if role in ("assistant", "gpt", "model", "bot") else role


def _content(message: Mapping[str, object]) -> str | None:
    value = message["content"]
    if isinstance(value, list):
        parts = [part.get("text") for part in value if isinstance(part, dict)]
        value = "".join(part for part in parts if isinstance(part, str))
    return clean(value) if isinstance(value, str) else None


def _joined(messages: Sequence[Mapping[str, object]]) -> str | None:
    told = [(clean(_role(item)), _content(item) or "") for item in messages]
    if len(told) < 2:
        return told[0][1] if told else None
    return "\n".join(f"{role}: {content}" for role, content in told)


def _prompt(value: object, key: str, state: _State) -> str | None:
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, list) and _is_chat(value):
        state.told[_CHATS] += 1
        return _joined(value)
    state.misshapen[key] += 1
    return None


def _whole_text(
    record: Mapping[str, object], state: _State
) -> tuple[str | None, str | None, str | None]:
    """Take a conversation, or prompt and response in one text, apart as far as possible."""
    for key in ("messages", "conversations", "content"):
        value = record.get(key)
        if isinstance(value, list) and _is_chat(value):
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


def _reward(record: Mapping[str, object], components: Mapping[str, float] | None) -> float | None:
    plain = (number(record[key]) for key in _REWARD_KEYS if _told(record, key))
    found = next((value for value in plain if value is not None), None)
    if found is not None or not components:
        return found
    named = {key.rpartition("/")[2].lower(): value for key, value in components.items()}
    total = next((named[key] for key in _TOTALS if key in named), None)
    return next(iter(components.values())) if total is None and len(components) == 1 else total


def _components(record: Mapping[str, object], used: set[str | None]) -> dict[str, float] | None:
    """Return the named rewards of a record.

    They stand in a table of their own or, beside a response and its advantage, in columns of their
    own, one a reward function (TRL, ms-swift).
    """
    for key in _COMPONENT_KEYS:
        value = record.get(key)
        if isinstance(value, dict):
            named = {clean(str(name)): number(item) for name, item in value.items()}
            found = {name: item for name, item in named.items() if item is not None}
            if found:
                return found
    batch = any(_told(record, key) for key in _ADVANTAGE_KEYS) and "prompt" in record
    columns = {
        clean(key): number(value)
        for key, value in record.items()
        if key not in used
        and key not in _REWARD_KEYS
        and not isinstance(value, str)
        and ((batch and not _BOOKKEEPING.search(key)) or _is_reward(key))
    }
    return {key: value for key, value in columns.items() if value is not None} or None


def _is_reward(key: str) -> bool:
    return key.startswith(("reward_", "rewards/", "rewards_")) or key.endswith("_reward")


def _numbers(
    record: Mapping[str, object], keys: tuple[str, ...], state: _State
) -> tuple[float, ...] | None:
    """Return the first list of numbers under these keys; token ids must be whole."""
    key = next((key for key in keys if _told(record, key)), None)
    if key is None:
        return None
    value = record[key]
    found = [number(item) for item in value] if isinstance(value, list) else [None]
    possible = keys[0] not in _INT_LISTS or all(
        item is not None and item.is_integer() and abs(item) < 2**63 for item in found
    )
    if None in found or not possible:
        state.misshapen[key] += 1
        return None
    return tuple(item for item in found if item is not None)


def _whole(values: tuple[float, ...] | None) -> tuple[int, ...] | None:
    return None if values is None else tuple(int(value) for value in values)


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
        return _with(sample, token_ids=None, logprobs=None)
    start, end = ones[0], ones[-1] + 1
    spans = sample.logprobs is not None and len(sample.logprobs) == len(ids)
    return _with(
        sample,
        prompt_ids=ids[:start],
        token_ids=ids[start:end],
        logprobs=sample.logprobs[start:end] if spans and sample.logprobs else None,
    )
