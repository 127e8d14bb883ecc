"""The run's configuration: JSON and YAML of trainers, launchers and trackers."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path

from rlhfdoctor.model import Location, Note, Setting
from rlhfdoctor.readers import Item, reader
from rlhfdoctor.readers._json import clean, flatten, loads
from rlhfdoctor.readers._open import fault_of, opened
from rlhfdoctor.readers._settings import arguments_of, program_of, settings_of

LARGEST = 2**20
"""Bytes of a configuration that are read; none is so long."""

MOST_LEAVES = 20_000
"""Values of one configuration that are looked at."""

_MODELS_OWN = re.compile(
    rb'"(architectures|model_type|tokenizer_class|added_tokens_decoder|_from_model_config|'
    rb'image_processor_type|processor_class|quant_method|transformers_version)"\s*:'
)
"""Keys of the files that describe a model, whose temperature is not the run's."""

_TRAINING = re.compile(
    rb"(?im)^[\s\"'{,-]*(\+{0,2}[\w.]*\b)?"
    rb"(learning_rate|lr|num_train_epochs|max_steps|total_epochs|total_steps|rlhf_type|stage|"
    rb"adv_estimator|kl_coef|init_kl_coef|beta|rl|per_device_train_batch_size|train_batch_size|"
    rb"batch_size|base_model|model_name_or_path|algorithm|num_generations|save_steps|seed)"
    rb"[\"']?\s*[:=]"
)
"""Keys that a training configuration has at the beginning of a line."""


def _looks(head: bytes) -> bool:
    start = head.lstrip(b"\xef\xbb\xbf \t\r\n")[:1]
    if head[:2] in (b"PK", b"\x80\x02", b"\x80\x04"):
        return True
    if start in (b"{", b"["):
        return not _MODELS_OWN.search(head) or bool(re.search(rb'"learning_rate"\s*:', head))
    return bool(_TRAINING.search(head))


@reader(
    "run_config.json",
    "args.json",
    "*config*.json",
    "*config*.yaml",
    "*config*.yml",
    "*args*.yaml",
    "hparams.y*ml",
    "arguments.y*ml",
    "overrides.y*ml",
    "*[a-z0-9].yaml",
    "*[a-z0-9].yml",
    "wandb-metadata.json",
    "training_args[.]bin",
    looks=_looks,
    role="config",
)
def config(path: Path) -> Iterator[Item]:
    """Yield the settings that ``vocabulary.SETTINGS`` knows.

    Understood are nested tables, wandb's ``{key: {value: ...}}``, the ``args`` and ``program`` of
    wandb-metadata.json, and hydra's lists of ``key=value``. The files that describe a model, not
    its training, are left alone. training_args.bin is a pickle, which could run code: it is told
    of and never opened. Without a key that tells the algorithm, any value that is nothing but an
    algorithm's name does.
    """
    if path.suffix == ".bin":
        yield Note(path.name, "is a pickle, which could run code; not read")
        return
    with opened(path) as file:
        text = file.read(LARGEST + 1)
        fault = fault_of(file)
    if fault or len(text) > LARGEST:
        told = fault or f"is longer than {LARGEST} bytes; no configuration is; not read"
        yield Note(path.name, told, unread=True)
        return
    try:
        record = _parsed(text, path.name)
    except ValueError as error:
        yield Note(path.name, f"{error}; nothing was read")
        return
    if isinstance(record, list) and record and all(isinstance(item, str) for item in record):
        record = arguments_of(record)
    if not isinstance(record, dict):
        yield Note(path.name, "is no table; nothing was read")
        return
    leaves = _leaves(record)
    if len(leaves) >= MOST_LEAVES:
        yield Note(path.name, f"has more than {MOST_LEAVES} values; the rest was not looked at")
    yield from settings_of(leaves, path.name)
    yield from _command(record, path.name)


def _parsed(text: bytes, name: str) -> object:
    if name.endswith("json"):
        try:
            return loads(text)
        except ValueError as error:
            raise ValueError(f"no valid JSON ({error})") from None
    from rlhfdoctor.readers import _yaml

    return _yaml.load(text)


def _leaves(record: Mapping[object, object]) -> dict[str, object]:
    """Return the values of nested tables under joined keys; wandb's ``value`` level is left out."""
    found: dict[str, object] = {}
    named = {str(key): value for key, value in record.items()}
    for key, value in islice(flatten(_unwrapped(named)), MOST_LEAVES):
        if isinstance(value, str | int | float):
            found[key] = clean(value) if isinstance(value, str) else value
    return found


def _unwrapped(record: Mapping[str, object]) -> dict[str, object]:
    """Return wandb's ``{key: {"value": x, "desc": ...}}`` as ``{key: x}``, any other as it is."""
    return {
        key: value["value"]
        if isinstance(value, dict) and "value" in value and value.keys() <= {"value", "desc"}
        else value
        for key, value in record.items()
        if key != "_wandb"
    }


def _command(record: Mapping[str, object], file: str) -> Iterator[Item]:
    """Yield what the command line of a run tells, as wandb-metadata.json keeps it."""
    words = record.get("args")
    if isinstance(words, list):
        leaves = arguments_of([clean(word) for word in words if isinstance(word, str)])
        yield from settings_of(leaves, file)
    told = [item for item in (record.get("program"), record.get("codePath")) if item]
    program = program_of(" ".join(item for item in told if isinstance(item, str)))
    if program:
        yield Setting("framework", program, Location(file, key="program"))
