"""Settings of a run, whatever wrote them: flat keys and values in, canonical names out.

A configuration file, a command line, a console dump and a tracker's record all end here, so that a
framework's name for a value is written down once, in ``vocabulary.SETTINGS``.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from rlhfdoctor.model import Location, Note, Setting
from rlhfdoctor.readers._json import LARGEST_STEP, clean, number
from rlhfdoctor.vocabulary import ALGORITHMS, SETTINGS, Kind

LONGEST = 1000
"""Characters of a text that is still a value: a name or a path, no prose."""

Value = float | int | str | bool

_WRAPPERS = frozenset((
    "args", "arguments", "config", "cfg", "hparams", "params", "hyperparameters", "train",
    "training", "train_config", "training_args", "training_arguments", "training_config",
    "script_args", "trainer", "method", "rlhf", "ppo", "grpo", "rloo", "dpo", "kto", "algo",
    "settings",
))  # fmt: skip
"""Sections around a run's own values: ``args.steps`` is the run's ``steps``."""

_FOREIGN = frozenset((
    "critic", "reward", "reward_model", "rm", "value_model", "ref", "reference", "judge",
    "teacher", "val", "val_kwargs", "eval", "evaluation", "eval_config", "validation", "env",
    "environment", "tokenizer", "generation_config", "model_config", "text_config",
    "vision_config", "quantization_config", "scheduler", "lr_scheduler", "lr_scheduler_kwargs",
    "draft", "dataset",
))  # fmt: skip
"""Sections about something else than the policy's training, where an alias does not name them."""

_ALGORITHM_WORDS = {
    **{name.lower(): name for name in ALGORITHMS},
    "gae": "PPO",
    "ppo_ray": "PPO",
    "ppov2": "PPO",
    "dr_grpo": "GRPO",
    "dapo": "GRPO",
    "grpo_vectorized": "GRPO",
    "group_norm": "GRPO",
    "rloo_vectorized": "RLOO",
    "rloov2": "RLOO",
    "reinforce_plus_plus": "REINFORCE",
    "reinforce_plus_plus_baseline": "REINFORCE",
    "reinforce++": "REINFORCE",
    "reinforce_baseline": "REINFORCE",
    "reward": "RM",
    "reward_model": "RM",
}
"""What the frameworks call an algorithm, or the advantage estimator that makes it what it is."""

_PREFERENCE = {"ORPO", "SimPO", "IPO", "CPO", "KTO"}
"""What LLaMA-Factory's ``pref_loss`` may turn stage ``dpo`` into; sigmoid and hinge stay DPO."""

_DTYPES = {
    "bf16": "bfloat16",
    "bfloat16": "bfloat16",
    "fp16": "float16",
    "float16": "float16",
    "half": "float16",
    "fp32": "float32",
    "float32": "float32",
    "float": "float32",
    "fp8": "float8",
}

_FRAMEWORKS: tuple[tuple[str, str], ...] = (
    ("verl", r"actor_rollout_ref(\.|$)"),
    ("ms-swift", r"^(rlhf_type|swift_version)$"),
    ("OpenRLHF", r"^(advantage_estimator|actor_num_gpus_per_node|init_kl_coef_schedule)$"),
    ("LLaMA-Factory", r"^(finetuning_type|pref_loss|pref_beta|dataset_dir)$"),
    ("Axolotl", r"^(axolotl_config_path|micro_batch_size_axolotl|dataset_prepared_path)$"),
    ("NeMo-RL", r"^(grpo|dpo)\.(num_prompts_per_step|reference_policy_kl_penalty)$"),
    ("trlX", r"^(method\.)(init_kl_coef|chunk_size|num_rollouts)$"),
    ("AReaL", r"^(gconfig|actor\.use_decoupled_loss)(\.|$)"),
    ("TRL", r"^(trl|trl_version)$"),
)
"""Keys that only one framework's configuration has."""

_PROGRAMS: tuple[tuple[str, str], ...] = (
    ("verl", r"\bverl[./](trainer|\w+[./]main_ppo)|\bmain_ppo\b"),
    ("OpenRLHF", r"\bopenrlhf\b"),
    ("LLaMA-Factory", r"\bllamafactory\b|\bllama_factory\b|LLaMA-Factory"),
    ("ms-swift", r"\bswift[./](cli|llm)\b|\bswift (rlhf|sft|pt)\b|\bms-swift\b"),
    ("Axolotl", r"\baxolotl\b"),
    ("NeMo-RL", r"\bnemo_rl\b|\bnemo-rl\b"),
    ("trlX", r"\btrlx\b"),
    ("TRL", r"\btrl[./]scripts\b|(^|\s|/)trl (dpo|grpo|kto|ppo|rloo|reward|sft)\b"),
)
"""What the command of a run holds where a framework's own program was started."""

_ABSENT = frozenset(("", "none", "null", "auto", "default", "???", "~", "[]", "{}"))


def settings_of(leaves: Mapping[str, object], file: str) -> Iterator[Setting | Note]:
    """Yield what is known of a configuration; ``file``: where it stands, for the evidence.

    leaves: values under dotted keys, or keys joined by "/"; nested tables are flattened before.
    The first alias of ``vocabulary.SETTINGS`` that has a usable value counts, at the least depth
    where several paths end in it. A value that its setting cannot have becomes a note.
    """
    paths = _by_end(leaves)
    for name, option in SETTINGS.items():
        if name == "algorithm":
            yield from _algorithm_of(paths, leaves, file)
        elif option.aliases:
            yield from _setting(name, option.kind, option.aliases, paths, leaves, file)
    if program := framework_of(leaves):
        yield Setting("framework", program[0], Location(file, key=program[1]))


def framework_of(leaves: Mapping[str, object]) -> tuple[str, str] | None:
    """Return the framework whose configuration this is, and the key that tells it."""
    for key in leaves:
        path = _path(key)
        for name, pattern in _FRAMEWORKS:
            if re.search(pattern, path):
                return name, clean(key)
    return None


def program_of(command: str) -> str | None:
    """Return the framework whose program a command line starts, or None where it is another."""
    return next((name for name, mark in _PROGRAMS if re.search(mark, command[:LONGEST])), None)


def arguments_of(words: Sequence[str]) -> dict[str, object]:
    """Return the arguments of a command line: ``--key value``, ``--key=value``, ``+a.b=value``.

    An option without a value is true; a word that belongs to no option is left alone.
    """
    found: dict[str, object] = {}
    waiting: str | None = None
    for word in words:
        match = re.fullmatch(r"(?:--|\+{0,2}|~)([A-Za-z_][\w./-]*)=(.*)", word, re.DOTALL)
        if match:
            found[match[1]] = match[2].strip("'\"")
            waiting = None
        elif word.startswith("--") and len(word) > 2:
            waiting = word[2:]
            found[waiting] = True
        elif waiting is not None:
            found[waiting] = word.strip("'\"")
            waiting = None
    return found


def value_of(kind: Kind, value: object) -> Value | None:
    """Return a value as its kind, or None where it is not of it; numbers may stand in texts."""
    if kind == "algorithm":
        return algorithm(value)
    if kind == "flag":
        return _flag(value)
    if kind == "text":
        return value if isinstance(value, str) and 0 < len(value) <= LONGEST else None
    if kind == "dtype":
        return _DTYPES.get(str(value).lower().removeprefix("torch.").removesuffix("-mixed"))
    found = number(value.strip().replace("_", "") if isinstance(value, str) else value)
    if found is None or not math.isfinite(found):
        return None
    if kind == "amount":
        return _narrow(value, found) if found >= 0 else None
    if kind == "positive":
        return _narrow(value, found) if found > 0 else None
    if not found.is_integer() or abs(found) >= LARGEST_STEP or (kind == "count" and found <= 0):
        return None
    return int(found)


def algorithm(value: object) -> str | None:
    """Return the algorithm that a value names: "grpo", "GRPOTrainer", "trl.DPOConfig", "gae"."""
    if not isinstance(value, str) or len(value) > LONGEST:
        return None
    word = value.strip().lower().rpartition(".")[2]
    for suffix in ("trainer", "config", "arguments"):
        word = word.removesuffix(suffix)
    return _ALGORITHM_WORDS.get(word.replace("-", "_").strip("_"))


def _by_end(leaves: Mapping[str, object]) -> dict[str, list[tuple[int, str, str]]]:
    """Return the paths that end in each word, the least deep first: depth, path, key."""
    found: dict[str, list[tuple[int, str, str]]] = defaultdict(list)
    for key in leaves:
        path = _path(key)
        found[path.rpartition(".")[2]].append((path.count("."), path, key))
    for paths in found.values():
        paths.sort()
    return found


def _path(key: str) -> str:
    """Return a key as a dotted path in lower case: "--lr", "+a.b" and "a/b" are written alike."""
    return key.lstrip("-+~").replace("/", ".").replace("-", "_").lower()


def _keys(alias: str, paths: Mapping[str, list[tuple[int, str, str]]]) -> Iterator[str]:
    """Yield the keys that an alias fits, the least deep first."""
    whole = alias.startswith("^")
    alias = alias.removeprefix("^").lower()
    for _, path, key in paths.get(alias.rpartition(".")[2], ()):
        if path != alias and not path.endswith(f".{alias}"):
            continue
        around = path[: -len(alias)].rstrip(".").split(".") if path != alias else []
        if _FOREIGN & set(around) or (whole and not _WRAPPERS.issuperset(around)):
            continue
        yield key


def _setting(
    name: str,
    kind: Kind,
    aliases: Iterable[str],
    paths: Mapping[str, list[tuple[int, str, str]]],
    leaves: Mapping[str, object],
    file: str,
) -> Iterator[Setting | Note]:
    refused: list[Note] = []
    off: dict[str, str] = {}
    for alias in aliases:
        spelled, _, flag = alias.partition("?")
        spelled, _, factor = spelled.partition("*")
        for key in _keys(spelled, paths):
            if closed := _closed(flag, paths, leaves):
                off[key] = closed
            if key in off:
                continue
            value = leaves[key]
            found = value_of(kind, value)
            if kind == "dtype" and spelled in _DTYPES:
                found = _DTYPES[spelled] if _flag(value) else None
            if found is None:
                if not _absent(kind, value):
                    told = f"{repr(value)[:42]} is no {_WANTED[kind]}; left out"
                    refused.append(Note(f"{file}: {clean(key)}", clean(told)))
                continue
            if factor:
                others = (value_of(kind, leaves[other]) for other in _keys(factor, paths))
                times = next((item for item in others if item is not None), 1)
                found = int(found) * int(times)
            yield Setting(name, clean(found) if isinstance(found, str) else found, _at(file, key))
            return
    for closed in off.values():
        yield Setting(name, 0.0, _at(file, closed))
        return
    yield from refused


_WANTED: Mapping[str, str] = {
    "count": "whole number above 0",
    "positive": "finite number above 0",
    "amount": "finite number of at least 0",
    "whole": "whole number",
    "flag": "true or false",
    "text": f"text of up to {LONGEST} characters",
    "dtype": "floating type",
}


def _closed(
    flag: str, paths: Mapping[str, list[tuple[int, str, str]]], leaves: Mapping[str, object]
) -> str | None:
    """Return the key of a flag that is off: what depends on it is not in use."""
    if not flag:
        return None
    return next((key for key in _keys(flag, paths) if _flag(leaves[key]) is False), None)


def _absent(kind: Kind, value: object) -> bool:
    """Say whether a value that fits no kind only means "not set"."""
    if kind == "dtype" or value is None or isinstance(value, bool):
        return True
    if isinstance(value, str):
        bare = value.strip().lower()
        return bare in _ABSENT or bare.startswith("${") or number(bare) in (0, -1)
    return value in (0, -1)


def _flag(value: object) -> bool | None:
    if isinstance(value, bool):
        return value
    return {"true": True, "false": False}.get(str(value).strip().lower())


def _narrow(value: object, found: float) -> float | int:
    return value if isinstance(value, int) and abs(value) < LARGEST_STEP else found


def _algorithm_of(
    paths: Mapping[str, list[tuple[int, str, str]]], leaves: Mapping[str, object], file: str
) -> Iterator[Setting]:
    """Yield the algorithm that a key tells, or else any value that is nothing but such a name."""
    for alias in SETTINGS["algorithm"].aliases:
        for key in _keys(alias, paths):
            found = algorithm(leaves[key])
            if found and (alias != "pref_loss" or found in _PREFERENCE):
                yield Setting("algorithm", found, _at(file, key))
                return
    known = {name.lower(): name for name in ALGORITHMS if name != "RM"}
    for key, value in leaves.items():
        word = value.strip().lower().removesuffix("trainer") if isinstance(value, str) else ""
        if word in known and not _FOREIGN & set(_path(key).split(".")):
            yield Setting("algorithm", known[word], _at(file, key))
            return


def _at(file: str, key: str) -> Location:
    return Location(file, key=clean(key))
