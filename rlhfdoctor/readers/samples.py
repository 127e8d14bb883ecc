"""Samples as JSON Lines or one JSON array: one response, or one preference pair, a record."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

from rlhfdoctor.model import Note, Sample
from rlhfdoctor.readers import Item, reader
from rlhfdoctor.readers._json import (
    STEP_KEYS,
    TEXT_KEYS,
    clean,
    kind,
    number,
    records,
    whole,
)

_PROMPT_KEYS = ("prompt", "query", "input", "instruction", "question")
_REWARD_KEYS = ("reward", "score", "rewards")
_GROUP_KEYS = ("group", "group_id", "prompt_id", "uid")
_TRUNCATED_KEYS = ("truncated", "is_truncated")
_FLOAT_LISTS = ("logprobs", "ref_logprobs")
_INT_LISTS = ("prompt_ids", "token_ids")


@reader(
    "*.jsonl", "*.ndjson", "*samples*.json", "*pairs*.json", looks=lambda h: kind(h) == "samples"
)
def samples(path: Path) -> Iterator[Item]:
    """Yield one sample a record, with every field that it carries."""
    return read_samples(path)


def read_samples(path: Path, field: str | None = None) -> Iterator[Item]:
    """Yield samples; ``field`` names the key of the response where the usual ones do not fit.

    A record without text, and a field of the wrong shape, are counted in notes.
    """
    textless: list[int] = []
    misshapen: Counter[str] = Counter()
    for item in records(path):
        if isinstance(item, Note):
            yield item
            continue
        line, record = item
        sample = _sample(record, line, field, misshapen) if isinstance(record, dict) else None
        if sample is None:
            textless.append(line)
        else:
            yield sample
    if textless:
        shown = ", ".join(map(str, textless[:10])) + (", ..." if len(textless) > 10 else "")
        text = f"{len(textless)} records hold no response and were left out: {shown}"
        yield Note(path.name, text, left_out=len(textless))
    for key, count in sorted(misshapen.items()):
        yield Note(
            f"{path.name}: {key}", f"has an unexpected shape in {count} records; left out there"
        )


def _sample(
    record: Mapping[str, object], line: int, field: str | None, misshapen: Counter[str]
) -> Sample | None:
    response = _text(record, (field,) if field else TEXT_KEYS)
    chosen, rejected = _text(record, ("chosen",)), _text(record, ("rejected",))
    if response is None and chosen is None:
        return None
    for key in (*_PROMPT_KEYS, "chosen", "rejected"):
        if record.get(key) is not None and not isinstance(record[key], str):
            misshapen[key] += 1
    components = record.get("reward_components") or record.get("rewards")
    truncated, group = _first(record, _TRUNCATED_KEYS), _first(record, _GROUP_KEYS)
    split = record.get("split")
    lists = {key: _numbers(record, key, misshapen) for key in (*_FLOAT_LISTS, *_INT_LISTS)}
    ids = {
        key: None if lists[key] is None else tuple(int(value) for value in lists[key] or ())
        for key in _INT_LISTS
    }
    return Sample(
        line=line,
        step=whole(number(_first(record, STEP_KEYS))),
        split=clean(split) if isinstance(split, str) else None,
        prompt=_text(record, _PROMPT_KEYS),
        response=response,
        reward=number(_first(record, _REWARD_KEYS)),
        reward_components=_components(components),
        advantage=number(record.get("advantage")),
        group=None if group is None else clean(str(group)),
        truncated=truncated if isinstance(truncated, bool) else None,
        prompt_ids=ids["prompt_ids"],
        token_ids=ids["token_ids"],
        logprobs=lists["logprobs"],
        ref_logprobs=lists["ref_logprobs"],
        chosen=chosen,
        rejected=rejected,
    )


def _text(record: Mapping[str, object], keys: tuple[str, ...]) -> str | None:
    for key in keys:
        value = record.get(key)
        if isinstance(value, str):
            return clean(value)
    return None


def _first(record: Mapping[str, object], keys: tuple[str, ...]) -> object:
    return next((record[key] for key in keys if record.get(key) is not None), None)


def _numbers(
    record: Mapping[str, object], key: str, misshapen: Counter[str]
) -> tuple[float, ...] | None:
    value = record.get(key)
    if value is None:
        return None
    found = [number(item) for item in value] if isinstance(value, list) else [None]
    possible = key not in _INT_LISTS or all(
        item is not None and item.is_integer() and abs(item) < 2**63 for item in found
    )
    if None in found or not possible:
        misshapen[key] += 1
        return None
    return tuple(item for item in found if item is not None)


def _components(value: object) -> dict[str, float] | None:
    if not isinstance(value, dict):
        return None
    found = {clean(str(key)): number(item) for key, item in value.items()}
    return {key: item for key, item in found.items() if item is not None} or None
