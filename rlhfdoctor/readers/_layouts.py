"""What lies in a checkpoint folder: the layout of its weights, what is missing, how to load it.

Each layout is recognised by the names of its files alone. Pickles (``.pt``, ``.bin``,
``.metadata``) are counted and measured, never opened.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

import orjson

from rlhfdoctor.readers._json import clean, loads

MOST_ENTRIES = 20_000
"""Files of one folder that are looked at; the largest run saved by rank has a tenth of them."""

_LARGEST_HEADER = 100_000_000
"""Bytes of a safetensors header; the limit of the format itself."""

_LARGEST_INDEX = 2**28
"""Bytes of an index of shards."""

_MOST_RANKS = 100_000
"""Ranks that a file name may speak of."""

_WEIGHTS = (
    ("safetensors", r"(ft-)?model.*\.safetensors"),
    ("peft", r"adapter_model\.(safetensors|bin)"),
    ("bin", r"pytorch_model(-\d+-of-\d+)?\.bin"),
    ("pt", r"(pytorch_model|model|hf_model)(?!_world_size).*\.pt"),
)
_ANY_WEIGHTS = re.compile("|".join(pattern for _, pattern in _WEIGHTS))
_RANK = re.compile(r"model_world_size_(\d{1,6})_rank_(\d{1,6})\.pt")
_ZERO = re.compile(r"(?:bf16_)?zero_pp_rank_(\d{1,6})_mp_rank_\d+_(model|optim)_states\.pt")
_STATES = re.compile(r"mp_rank_\d+_model_states\.pt")
_PART = re.compile(r"__(\d{1,6})_\d+\.distcp")
_TAG = re.compile(r"global_step\d+")


@dataclass(frozen=True, slots=True)
class Layout:
    """The weights in a folder.

    path: the folder that holds them, where they can be loaded. format: "unknown" without any.
    loadable: transformers reads ``path`` as it lies. whole: no part of the weights is missing.
    convert: a command with the names of ``places`` in braces. files, folders: what lies in the
    checkpoint's own folder.
    """

    path: Path
    format: str = "unknown"
    missing: tuple[str, ...] = ()
    loadable: bool = False
    whole: bool = False
    convert: str | None = None
    places: Mapping[str, Path] = field(default_factory=dict)
    files: Mapping[str, Path] = field(default_factory=dict)
    folders: frozenset[str] = frozenset()


def inspect(path: Path) -> Layout:
    """Return the layout of a folder; the first that its names fit, weights as they lie first."""
    files, folders = _listed(path)
    empty = [f"{name} is empty" for name, file in sorted(files.items()) if not file.stat().st_size]
    for layout in (
        _beside,
        _huggingface,
        _ranks,
        _accelerate,
        _deepspeed,
        _megatron,
        _parts,
        _nemo,
    ):
        found = layout(path, files, folders)
        if found is not None:
            told = (*found.missing, *(item for item in empty if item not in found.missing))
            return Layout(
                path=found.path,
                format=found.format,
                missing=told,
                loadable=found.loadable,
                whole=not found.missing,
                convert=found.convert,
                places=found.places,
                files=files,
                folders=folders,
            )
    return Layout(path, missing=("no weights", *empty), files=files, folders=folders)


def regular(path: Path) -> bool:
    """Say whether a path is a file and no link."""
    return path.is_file() and not path.is_symlink()


def _listed(path: Path) -> tuple[dict[str, Path], frozenset[str]]:
    entries = list(islice(path.iterdir(), MOST_ENTRIES))
    files = {clean(item.name): item for item in entries if item.is_file()}
    folders = (item.name for item in entries if item.is_dir() and not item.is_symlink())
    return files, frozenset(clean(name) for name in folders)


def _inside(
    path: Path, folders: Iterable[str], name: str
) -> tuple[dict[str, Path], frozenset[str]]:
    return _listed(path / name) if name in folders else ({}, frozenset())


def _lacking(numbers: Iterable[int], count: int, what: str) -> list[str]:
    """Return what is missing of 0 to ``count`` - 1, in one entry."""
    known = set(numbers)
    absent = [item for item in range(min(count, _MOST_RANKS)) if item not in known]
    more = f" and {len(absent) - 5} more" if len(absent) > 5 else ""
    return [f"no {what} {', '.join(map(str, absent[:5]))}{more} of {count}"] if absent else []


def _zero_bytes(files: Mapping[str, Path], folder: str = "") -> list[str]:
    return [f"{folder}{name} is empty" for name, file in files.items() if not file.stat().st_size]


# The layouts


def _beside(path: Path, files: Mapping[str, Path], folders: frozenset[str]) -> Layout | None:
    """The weights once more for transformers, beside what the trainer resumes from.

    verl's ``huggingface/`` always has a tokenizer, and weights only where they were asked for;
    trlX's ``hf_model/`` has the model without its value head.
    """
    for name in ("huggingface", "hf_model"):
        inner, deeper = _inside(path, folders, name)
        found = _huggingface(path / name, inner, deeper)
        if found is not None and found.loadable:
            return found
    return None


def _huggingface(path: Path, files: Mapping[str, Path], folders: frozenset[str]) -> Layout | None:
    """Weights that transformers or PEFT reads: whole, in shards, or an adapter."""
    weights = {name: file for name, file in sorted(files.items()) if _ANY_WEIGHTS.fullmatch(name)}
    indexes = {n: f for n, f in sorted(files.items()) if n.endswith(".index.json")}
    if not weights and not indexes:
        return None
    form = next(
        (f for f, pattern in _WEIGHTS if any(re.fullmatch(pattern, name) for name in weights)),
        "unknown",
    )
    missing = [] if weights else ["no weights"]
    for name, file in weights.items():
        if not file.stat().st_size:
            missing.append(f"{name} is empty")
        elif file.suffix == ".safetensors" and not file.is_symlink():
            fault = _safetensors_fault(file)
            missing.extend([f"{name} {fault}"] if fault else [])
    for name, file in indexes.items():
        if not file.is_symlink():
            shards = _shards(file)
            if shards is None:
                missing.append(f"{name} is damaged")
            else:
                missing.extend(f"no {shard}" for shard in sorted(shards - set(files)))
    return Layout(path, form, tuple(missing), loadable=not missing)


def _ranks(path: Path, files: Mapping[str, Path], folders: frozenset[str]) -> Layout | None:
    """One file a rank (verl on FSDP)."""
    found = [match for match in map(_RANK.fullmatch, files) if match]
    if not found:
        return None
    sizes = {int(match[1]) for match in found}
    size = max(sizes)
    ranks = {int(match[2]) for match in found if int(match[1]) == size}
    missing = _lacking(ranks, size, "rank")
    missing += _zero_bytes({match[0]: files[match[0]] for match in found})
    return _merged("fsdp_rank_pt", path, missing, "fsdp")


def _merged(form: str, path: Path, missing: Sequence[str], backend: str) -> Layout:
    return Layout(
        path,
        form,
        tuple(missing),
        convert=(
            f"python -m verl.model_merger merge --backend {backend} "
            "--local_dir {folder} --target_dir {target}"
        ),
        places={"folder": path, "target": path.with_name(f"{path.name}-merged")},
    )


def _target(path: Path, files: Mapping[str, Path]) -> Path:
    """Return where merged weights can be loaded: beside their config.json, if there is one."""
    return path if "config.json" in files else path.with_name(f"{path.name}-merged")


def _accelerate(path: Path, files: Mapping[str, Path], folders: frozenset[str]) -> Layout | None:
    """FSDP as accelerate saves it: one file, or a folder of one part a rank."""
    sharded = "pytorch_model_fsdp_0"
    if sharded in folders:
        inner, _ = _inside(path, folders, sharded)
        return Layout(
            path,
            "fsdp_dcp",
            tuple(_parts_missing(inner, f"{sharded}/")),
            convert="accelerate merge-weights {folder} {target}",
            places={"folder": path / sharded, "target": _target(path, files)},
        )
    single = "pytorch_model_fsdp.bin"
    if single not in files:
        return None
    return Layout(
        path,
        "fsdp_bin",
        tuple(_zero_bytes({single: files[single]})),
        convert="ln -s pytorch_model_fsdp.bin {link}",
        places={"link": path / "pytorch_model.bin"},
    )


def _deepspeed(path: Path, files: Mapping[str, Path], folders: frozenset[str]) -> Layout | None:
    """DeepSpeed's states: in the folder itself (OpenRLHF), or in ``global_step<N>`` inside it."""
    tags = [(path, files)] if _states(files) else []
    tags += [
        (path / name, inner)
        for name in sorted(item for item in folders if _TAG.fullmatch(item))
        for inner in [_listed(path / name)[0]]
        if _states(inner)
    ]
    if not tags:
        return None
    tag, states = tags[-1]
    parts: dict[str, list[int]] = {"model": [], "optim": []}
    for match in filter(None, map(_ZERO.fullmatch, states)):
        parts[match[2]].append(int(match[1]))
    sharded = "model" if parts["model"] else "optim"
    count = max((*parts["model"], *parts["optim"]), default=-1) + 1
    missing = _lacking(parts[sharded], count, f"{sharded} states of rank")
    inner = tag.name + "/" if tag != path else ""
    missing += _zero_bytes({n: f for n, f in states.items() if n.endswith("_states.pt")}, inner)
    return Layout(
        path,
        "deepspeed_zero",
        tuple(missing),
        convert="python -m deepspeed.utils.zero_to_fp32 {folder} {target} --tag {tag}",
        places={
            "folder": tag.parent,
            "target": _target(path, files),
            "tag": Path(tag.name),
        },
    )


def _states(files: Iterable[str]) -> bool:
    return any(_STATES.fullmatch(name) or _ZERO.fullmatch(name) for name in files)


def _megatron(path: Path, files: Mapping[str, Path], folders: frozenset[str]) -> Layout | None:
    """Megatron: ``dist_ckpt/`` (verl; ``ckpt_contents.json`` is written last), or ``mp_rank_*``."""
    _, inner = _inside(path, folders, "model")
    for place, names, marked in (
        (path / "dist_ckpt", folders, False),
        (path / "model" / "dist_ckpt", inner, True),
    ):
        if "dist_ckpt" not in names:
            continue
        saved = _beside(place.parent, {}, names)
        if saved is not None:
            return saved
        missing = _parts_missing(_listed(place)[0], "dist_ckpt/")
        if marked and "ckpt_contents.json" not in files:
            missing.append("no ckpt_contents.json, which is written last")
        return _merged("megatron_dist", path, missing, "megatron")
    ranks = sorted(name for name in folders if re.fullmatch(r"mp_rank_\d\d.*", name))
    if ranks:
        found = {name: _listed(path / name)[0] for name in ranks}
        absent = [f"no weights in {n}" for n, inner in found.items() if not any(map(_saved, inner))]
        return Layout(path, "megatron_dist", tuple(absent))
    if "common.pt" in files and any(map(_PART.fullmatch, files)):
        return Layout(path, "megatron_dist", tuple(_parts_missing(files, "")))
    return None


def _saved(name: str) -> bool:
    return name.endswith(".pt") and name.startswith("model")


def _parts(path: Path, files: Mapping[str, Path], folders: frozenset[str]) -> Layout | None:
    """Torch's distributed checkpoint: one part a rank, and ``.metadata``, which is written last."""
    for place, held in ((path, files), *((path / n, None) for n in ("weights", "model"))):
        if held is None:
            held, inner = _inside(path, folders, place.name)
            deeper = _huggingface(place, held, inner)
            if deeper is not None:
                return deeper
        if any(map(_PART.fullmatch, held)) or ".metadata" in held:
            return Layout(
                place,
                "fsdp_dcp",
                tuple(_parts_missing(held, "" if place == path else f"{place.name}/")),
                convert=(
                    "python -m torch.distributed.checkpoint.format_utils dcp_to_torch "
                    "{folder} {target}"
                ),
                places={"folder": place, "target": path.with_name(f"{path.name}-merged.pt")},
            )
    return None


def _parts_missing(files: Mapping[str, Path], folder: str) -> list[str]:
    parts = {n: int(m[1]) for n in files for m in [_PART.fullmatch(n)] if m}
    missing = [] if parts else [f"no parts in {folder or 'the folder'}"]
    if ".metadata" not in files and parts:
        missing.append(f"no {folder}.metadata, which is written last")
    missing += _lacking(parts.values(), max(parts.values(), default=-1) + 1, "part of rank")
    return missing + _zero_bytes({name: files[name] for name in sorted(parts)}, folder)


def _nemo(path: Path, files: Mapping[str, Path], folders: frozenset[str]) -> Layout | None:
    """NeMo: a ``.nemo`` archive, or the folder of a distributed checkpoint."""
    archive = [name for name in files if name.endswith(".nemo")]
    if archive or "model_weights" in folders:
        return Layout(path, "nemo", tuple(_zero_bytes({name: files[name] for name in archive})))
    return None


# What is in a file


def _safetensors_fault(file: Path) -> str | None:
    """Compare a file's size with its header: 8 bytes of length, JSON, then the tensors."""
    size = file.stat().st_size
    with file.open("rb") as opened:
        length = int.from_bytes(opened.read(8), "little")
        if size < 8 or length > min(_LARGEST_HEADER, size - 8):
            return "is cut or no safetensors file"
        try:
            header = orjson.loads(opened.read(length))
            ends = [
                entry["data_offsets"][1] for key, entry in header.items() if key != "__metadata__"
            ]
        except (orjson.JSONDecodeError, AttributeError, KeyError, IndexError, TypeError):
            return "has a damaged header"
    if not all(isinstance(end, int) for end in ends):
        return "has a damaged header"
    expected = 8 + length + max(ends, default=0)
    return None if size >= expected else f"is cut: {size} of {expected} bytes"


def _shards(index: Path) -> set[str] | None:
    if index.stat().st_size > _LARGEST_INDEX:
        return None
    try:
        record = loads(index.read_bytes())
        weight_map = record["weight_map"] if isinstance(record, dict) else None
    except (ValueError, KeyError):
        return None
    return (
        {clean(str(name)) for name in weight_map.values()} if isinstance(weight_map, dict) else None
    )
