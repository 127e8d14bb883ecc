"""Score a run's checkpoints against reference models: KL, entropy, perplexity, from the weights.

Each sample goes through each reference once, and through each checkpoint that it belongs to once;
of the reference, its final hidden states and three numbers a token are kept, never its logits. All
models compute in one dtype and in the same batches: half precision rounds by batch, and a KL near
zero would measure that.
"""

from __future__ import annotations

import gc
import math
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from pathlib import Path
from typing import Any

import polars as pl
import torch
from torch import Tensor

from rlhfdoctor.errors import DoctorError, first_line
from rlhfdoctor.model import Checkpoint, Note, Run
from rlhfdoctor.scorers import adapters, batches, models
from rlhfdoctor.scorers.batches import Batch
from rlhfdoctor.scorers.kernel import Head, Marginal, divergence, marginal
from rlhfdoctor.scorers.rows import Sums, paired, published, row
from rlhfdoctor.scorers.sequences import (
    Bounds,
    SampleSet,
    Specials,
    fitting,
    sample_sets,
    tokenizer,
)
from rlhfdoctor.scorers.weights import UnreadableWeights, is_adapter
from rlhfdoctor.scores import OTHER_MODEL, SCORES

DTYPES = {
    "float32": torch.float32,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
    "float64": torch.float64,
}

FLOORS = {torch.float32: 1e-5, torch.float64: 1e-9}
"""KL in nats a token that arithmetic alone makes: float32 was measured to err by 4e-6 at most."""

HALF_FLOOR = 5e-3
"""The same for half precision; bfloat16 bodies were measured at 0.0006-0.002, biased upwards."""

BUDGETS = {"cuda": 16_384, "cpu": 2_048}
"""Tokens of a batch. On a GPU more than some 200 hide the reading of the weights; on a CPU more
than 2,048 were measured to take memory and save nothing."""

ALIKE = 0.9
"""Share of a vocabulary that another must have to be the same, padded or grown by a few tokens."""

REBATCHED = 16
"""Samples that the reference scores again one by one in half precision, to measure its noise."""

SMALLEST_BUDGET = 256
"""Tokens of a batch below which memory is not what is too small."""

Progress = Callable[[str, int, int], None]
"""Called with what is scored, and how many tokens of how many are done."""


class NothingToScore(DoctorError):
    """No sample can be scored; what else there is to say of the run can still be said."""


@dataclass(frozen=True, slots=True)
class Options:
    """How to score.

    dtype, device: "auto" is bfloat16 on a GPU, float32 elsewhere. budget: tokens of a batch, None
    takes ``BUDGETS``. fixed: every sample under every checkpoint, whatever its step. most: samples
    of each set. sources: sample files to use, None for all of the run. temperature: None takes the
    run's own, else 1. cache: folder for the reference's hidden states; None keeps them in memory
    while they take less than half of it. tokenizer: where text and the vocabulary's true size come
    from, else found beside the models.
    """

    dtype: str = "auto"
    device: str = "auto"
    budget: int | None = None
    fixed: bool = False
    most: int | None = None
    sources: tuple[str, ...] | None = None
    temperature: float | None = None
    cache: Path | None = None
    tokenizer: Path | None = None


def recompute(
    run: Run,
    references: Sequence[Path],
    options: Options | None = None,
    progress: Progress = lambda what, done, total: None,
) -> Run:
    """Return the run with ``scores`` and ``references`` filled in.

    references: local model folders or GGUF files. Raises DoctorError for a reference that cannot be
    read, samples of which none can be scored, or a batch of one that does not fit into memory.
    """
    options = options or Options()
    device = _device(options.device)
    dtype = _dtype(options.dtype, device)
    for path in references:
        if not models.is_model(path):
            told = "no such file or folder" if not path.exists() else "holds no config.json"
            raise DoctorError(
                f"--reference {path}: {told}",
                "give the local folder of a model, or a .gguf file; nothing is downloaded",
            )
    references = list({os.path.realpath(path): path for path in references}.values())
    with torch.random.fork_rng(devices=[]):
        work = _prepare(run, references, options, dtype, device)
        budget = options.budget or BUDGETS.get(device.type, BUDGETS["cpu"])
        while True:
            try:
                _score(work, budget, progress)
                break
            except (MemoryError, RuntimeError) as error:
                if not _is_out_of_memory(error):
                    raise
                lowered = budget // 2
            _release(device)
            if lowered < SMALLEST_BUDGET:
                raise DoctorError(
                    f"the models do not fit into the memory of {device.type}",
                    "--device cpu, --dtype bfloat16, or a machine with more memory",
                )
            text = f"out of memory with {budget} tokens a batch; went on with {lowered}"
            work.notes.append(Note("recompute", text))
            budget = lowered
    return replace(
        run,
        scores=pl.DataFrame(work.rows, schema=SCORES),
        references=tuple(work.told),
        notes=(*run.notes, *work.notes),
    )


def _device(name: str) -> torch.device:
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError) as error:
        told = first_line(error)
        raise DoctorError(f"--device {name}: {told}", "--device cpu, or --device cuda") from error
    return device


def _dtype(name: str, device: torch.device) -> torch.dtype:
    if name == "auto":
        return torch.bfloat16 if device.type == "cuda" else torch.float32
    if name not in DTYPES:
        raise DoctorError(f"no dtype is called {name}", f"known are {', '.join(DTYPES)}")
    return DTYPES[name]


def _named(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _is_out_of_memory(error: BaseException) -> bool:
    known = isinstance(error, torch.OutOfMemoryError | MemoryError)
    return known or "can't allocate memory" in str(error)


def _release(device: torch.device) -> None:
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()


# What is scored


@dataclass(slots=True)
class _Work:
    """Everything that one call scores, and what it found so far."""

    run: Run
    root: Path
    references: Sequence[Path]
    ladder: list[Checkpoint]
    sets: list[SampleSet]
    vocabulary: int | None
    temperature: float
    dtype: torch.dtype
    device: torch.device
    cache: Path | None
    packed: bool
    base: Path | None
    notes: list[Note]
    rows: list[dict[str, Any]] = field(default_factory=list)
    told: list[dict[str, object]] = field(default_factory=list)
    finished: set[str] = field(default_factory=set)
    stored: dict[str, str] = field(default_factory=dict)

    def folder(self, checkpoint: Checkpoint) -> Path:
        """Return where a checkpoint lies."""
        return self.root / checkpoint.path


def _base(
    references: Sequence[Path], own: Sequence[Path], trusted: Path, notes: list[Note]
) -> Path | None:
    """Return the reference that the run's adapters are put on, and say which; None without any.

    The one that they name as their base, else the first. Nothing is loaded by that name.
    """
    folders = [folder for folder in own if is_adapter(folder)]
    if not folders:
        return None
    named = {adapters.base_name(folder, trusted) for folder in folders} - {None}
    base = next((path for path in references if path.name in named), references[0])
    others = ", ".join(sorted(repr(name)[:80] for name in named if name != base.name))
    told = f"adapters are scored on {base.name}"
    told += f"; they name {others} as their base" if others else ""
    notes.append(Note(", ".join(folder.name for folder in folders[:3]), told))
    return base


def _prepare(
    run: Run,
    references: Sequence[Path],
    options: Options,
    dtype: torch.dtype,
    device: torch.device,
) -> _Work:
    place = Path(run.path)
    root = place if place.is_dir() else place.parent
    ladder = [item for item in run.policies if item.loadable]
    notes = [
        Note(item.path, "not scored: " + (", ".join(item.missing) or "no weights to load"))
        for item in run.policies
        if not item.loadable
    ]
    own = [root / item.path for item in ladder]
    plain = [path for path in own if not (path / "tokenizer.json").is_symlink()]
    named = [options.tokenizer] if options.tokenizer else []
    encode, found_at = tokenizer([*named, *references, *plain])
    if options.tokenizer and (encode is None or found_at != options.tokenizer.name):
        raise DoctorError(
            f"--tokenizer {options.tokenizer}: holds no tokenizer.json", "give a tokenizer's folder"
        )
    sets, told = sample_sets(
        run,
        [item.step for item in ladder],
        options.sources,
        encode,
        _specials(references[0]),
        fixed=options.fixed,
        most=options.most,
    )
    notes += told
    if not sets:
        why = "; ".join(f"{note.where}: {note.text}" for note in told[:3])
        raise NothingToScore(
            "no samples can be scored" + (f" ({why})" if why else ""),
            "--samples FILE names responses as JSON Lines; --tokenizer DIR where they are text",
        )
    temperature = options.temperature
    if temperature is None:
        temperature = run.number("temperature") or 1.0
    if not (math.isfinite(temperature) and temperature > 0):
        raise DoctorError(f"temperature {temperature:g} cannot divide logits", "--temperature 1")
    packed = all(models.is_packable(path, None) for path in references) and all(
        models.is_packable(path, root) for path in own if not is_adapter(path)
    )
    return _Work(
        run=run,
        root=root,
        references=references,
        ladder=ladder,
        sets=sets,
        vocabulary=encode.get_vocab_size(with_added_tokens=True) if encode else None,
        temperature=temperature,
        dtype=dtype,
        device=device,
        cache=options.cache,
        packed=packed,
        base=_base(references, own, root, notes),
        notes=notes,
    )


def _specials(reference: Path) -> Specials:
    """Return the marks of a model's configuration."""
    told = models.settings(reference)

    def first(name: str) -> int | None:
        value = told.get(name)
        value = value[0] if isinstance(value, list) and value else value
        return value if isinstance(value, int) and not isinstance(value, bool) else None

    return Specials(first("bos_token_id"), first("eos_token_id"))


# The passes


@dataclass(slots=True)
class _Laid:
    """A sample set, laid out in batches.

    ids: prompt and response of each sequence. targets: the response ids of each batch, in order.
    """

    sets: SampleSet
    batches: list[Batch]
    ids: list[tuple[int, ...]]
    targets: list[Tensor]

    @property
    def tokens(self) -> int:
        """Tokens that a body computes, prompts included."""
        return sum(map(len, self.ids))

    def owners(self, number: int) -> tuple[Tensor, Tensor]:
        """Return, for each response token of a batch, its sequence's index and its position."""
        sizes = [(index, len(self.sets.sequences[index].response)) for index in self._at(number)]
        owner = torch.cat([torch.full((size,), index) for index, size in sizes])
        return owner, torch.cat([torch.arange(size) for _, size in sizes])

    def _at(self, number: int) -> tuple[int, ...]:
        return self.batches[number].indices


@dataclass(slots=True)
class _Reference:
    """What is kept of a reference: its head, and by set and batch its states and statistics."""

    name: str
    path: Path
    head: Head
    vocabulary: int
    stored: str
    floor: float
    hidden: list[list[Tensor]]
    marginals: list[list[Marginal]]
    base: models.Model | None = None


def _score(work: _Work, budget: int, progress: Progress) -> None:
    """Score every checkpoint that is not finished, in batches of ``budget`` tokens."""
    with ExitStack() as stack:
        ladder = [item for item in work.ladder if item.name not in work.finished]
        meter = _Meter(progress)
        first = models.load(
            work.references[0], dtype=work.dtype, device=work.device, packed=work.packed
        )
        sets, notes = fitting(work.sets, _bounds(work, first))
        work.notes += [note for note in notes if note not in work.notes]
        if not sets:
            raise NothingToScore(
                "no sample fits the reference's vocabulary and context",
                "is it the right model? --tokenizer names another tokenizer",
            )
        laid = [_lay(item, budget, work) for item in sets]
        meter.total = sum(item.tokens for item in laid) * len(work.references) + sum(
            item.tokens for item in laid for rung in ladder if _belongs(item.sets, rung)
        )
        known = [_reference(work, first, work.references[0], laid, meter, stack)]
        del first
        _release(work.device)
        for path in work.references[1:]:
            loaded = models.load(path, dtype=work.dtype, device=work.device, packed=work.packed)
            known.append(_reference(work, loaded, path, laid, meter, stack))
            del loaded
            _release(work.device)
        _name_apart(known)
        if not work.told:
            work.told += [_told(item, work) for item in known]
            for reference in known:
                work.rows += [published(found) for found in _own_rows(reference, laid, work)]
        _climb(work, ladder, known, laid, meter)
    _note_stored(work, known)


def _bounds(work: _Work, first: models.Model) -> Bounds:
    """Return what every reference can score; a checkpoint that cannot is left out by itself."""
    others = [models.limits(path) for path in work.references[1:]]
    rows = [vocabulary for vocabulary, _ in others if vocabulary is not None]
    positions = [
        limit for limit in (first.positions, *(limit for _, limit in others)) if limit is not None
    ]
    return Bounds(min([first.rows, *rows]), min(positions, default=None))


def _check_bounds(model: models.Model, laid: Sequence[_Laid], known: Sequence[_Reference]) -> None:
    """Raise UnreadableWeights for a checkpoint that cannot score the samples as a reference can."""
    for reference in known:
        fewer, more = sorted((model.head.rows, reference.head.rows))
        if fewer < ALIKE * more:
            raise UnreadableWeights(
                f"its vocabulary has {model.head.rows} entries, that of {reference.name} "
                f"{reference.head.rows}: another tokenizer"
            )
    ids = [each for item in laid for each in item.ids]
    highest, longest = max(map(max, ids)), max(map(len, ids))
    if highest >= model.rows:
        raise UnreadableWeights(f"its vocabulary of {model.rows} lacks token {highest} of a sample")
    if model.positions is not None and longest > model.positions:
        raise UnreadableWeights(f"its {model.positions} positions are fewer than a sample's tokens")


def _lay(item: SampleSet, budget: int, work: _Work) -> _Laid:
    ids = [scored.ids for scored in item.sequences]
    lengths = [len(each) for each in ids]
    laid = batches.packed(lengths, budget) if work.packed else batches.buckets(lengths, budget)
    targets = [
        torch.tensor([token for index in batch.indices for token in item.sequences[index].response])
        for batch in laid
    ]
    return _Laid(item, laid, ids, targets)


def _belongs(item: SampleSet, rung: Checkpoint) -> bool:
    return item.step is None or item.step == rung.step


def _states(model: models.Model, laid: _Laid, number: int) -> Tensor:
    """Return the states that predict a batch's response tokens: (tokens, hidden)."""
    sequences = laid.sets.sequences
    batch = laid.batches[number]
    found = model.hidden(batch, laid.ids)
    parts = []
    for index, states in zip(batch.indices, found, strict=True):
        begin = len(sequences[index].prompt) - 1
        parts.append(states[begin : begin + len(sequences[index].response)])
    return torch.cat(parts)


def _reference(
    work: _Work,
    model: models.Model,
    path: Path,
    laid: Sequence[_Laid],
    meter: _Meter,
    stack: ExitStack,
) -> _Reference:
    """Score every set under a reference, and keep what the checkpoints need of it."""
    head = replace(model.head, temperature=work.temperature)
    vocabulary = min(head.rows, _true_size(work, laid) or head.rows)
    shelf = _Shelf(work, laid, int(head.weight.shape[1]), stack)
    hidden: list[list[Tensor]] = []
    marginals: list[list[Marginal]] = []
    for item in laid:
        hidden.append([])
        marginals.append([])
        for number in range(len(item.batches)):
            states = _states(model, item, number)
            targets = item.targets[number].to(work.device)
            with torch.inference_mode():
                marginals[-1].append(_cpu(marginal(states, targets, head, vocabulary)))
            hidden[-1].append(shelf.keep(states))
            meter.add(f"reference {path.name}", item, number)
    return _Reference(
        name=path.name,
        path=path,
        head=head,
        vocabulary=vocabulary,
        stored=model.quantised or model.stored,
        floor=_floor(work, model, head, vocabulary, laid, hidden, marginals),
        hidden=hidden,
        marginals=marginals,
        base=model if path == work.base else None,
    )


def _true_size(work: _Work, laid: Sequence[_Laid]) -> int | None:
    """Return the tokenizer's size, or None where samples hold ids that it does not know."""
    if work.vocabulary is None:
        return None
    highest = max(int(targets.max()) for item in laid for targets in item.targets)
    if highest >= work.vocabulary:
        text = f"samples hold ids above its {work.vocabulary} entries; the whole head is used"
        note = Note("tokenizer", text)
        work.notes += [note] if note not in work.notes else []
        return None
    return work.vocabulary


class _Shelf:
    """Where hidden states are kept: in memory, or in one file where they are too many."""

    def __init__(self, work: _Work, laid: Sequence[_Laid], width: int, stack: ExitStack) -> None:
        tokens = sum(len(targets) for item in laid for targets in item.targets)
        size = tokens * width * work.dtype.itemsize
        self._file: Tensor | None = None
        self._used = 0
        if work.cache is None and size < _memory() // 2:
            return
        try:
            folder = stack.enter_context(tempfile.TemporaryDirectory(dir=work.cache))
            self._file = torch.from_file(
                str(Path(folder) / "hidden"), shared=True, size=tokens * width, dtype=work.dtype
            )
        except (OSError, RuntimeError) as error:
            told = first_line(error)
            raise DoctorError(
                f"cannot keep {size / 1e9:.1f} GB of hidden states on disk: {told}",
                "--cache names a folder with room, --max-samples scores fewer",
            ) from error

    def keep(self, states: Tensor) -> Tensor:
        """Copy states off the device and return where they lie."""
        if self._file is None:
            return states.to("cpu", copy=True)
        place = self._file[self._used : self._used + states.numel()].view(states.shape)
        self._used += states.numel()
        place.copy_(states)
        return place


def _memory() -> int:
    """Return the bytes of memory of this machine."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _cpu(found: Marginal) -> Marginal:
    entropy = None if found.entropy is None else found.entropy.cpu()
    return Marginal(found.log_normaliser.cpu(), found.logprob.cpu(), entropy)


def _floor(
    work: _Work,
    model: models.Model,
    head: Head,
    vocabulary: int,
    laid: Sequence[_Laid],
    hidden: Sequence[Sequence[Tensor]],
    marginals: Sequence[Sequence[Marginal]],
) -> float:
    """Return the KL in nats a token below which nothing can be told from zero.

    In half precision some samples are scored again one by one: the reference against itself.
    """
    if work.dtype in FLOORS:
        return FLOORS[work.dtype]
    item = laid[0]
    count = len(item.sets.sequences)
    chosen = {index * count // min(count, REBATCHED) for index in range(min(count, REBATCHED))}
    apart = tokens = 0.0
    for number, batch in enumerate(item.batches):
        begin = 0
        for index in batch.indices:
            size = len(item.sets.sequences[index].response)
            if index in chosen:
                alone = _Laid(
                    item.sets,
                    [Batch((index,), batch.packed)],
                    item.ids,
                    [item.targets[number][begin : begin + size]],
                )
                with torch.inference_mode():
                    _, kl = divergence(
                        _states(model, alone, 0),
                        alone.targets[0].to(work.device),
                        head,
                        hidden[0][number][begin : begin + size].to(work.device),
                        head,
                        marginals[0][number].at(begin, begin + size),
                        vocabulary,
                    )
                apart += float(kl.double().sum())
                tokens += size
            begin += size
    measured = apart / tokens if tokens else 0.0
    return max(HALF_FLOOR, measured)


def _climb(
    work: _Work,
    ladder: Sequence[Checkpoint],
    known: Sequence[_Reference],
    laid: Sequence[_Laid],
    meter: _Meter,
) -> None:
    """Score the checkpoints one after the other; the next is read while one is scored."""
    base = next((item.base for item in known if item.base is not None), None)
    model: models.Model | None = base
    for rung, following in zip_longest(ladder, ladder[1:]):
        inside = [item for item in laid if _belongs(item.sets, rung)]
        if not inside:
            continue
        rows: list[dict[str, Any]] = []
        why = None
        try:
            model = _loaded(work, rung, model, base)
            _check_bounds(model, inside, known)
            if following is not None:
                models.read_ahead(work.folder(following), work.root)
            for place, item in enumerate(laid):
                if item in inside:
                    rows += _policy_rows(work, rung, model, known, place, item, meter)
            work.stored[rung.name] = model.stored
        except UnreadableWeights as error:
            why = error.message.removeprefix(f"{work.folder(rung).name}: ")
        except Exception as error:  # a module that was built and cannot be run
            if _is_out_of_memory(error):
                raise
            why = f"cannot be run ({first_line(error)})"
        work.finished.add(rung.name)
        if why is not None:
            work.notes.append(Note(rung.path, f"not scored: {why}"))
            model = base
            continue
        work.rows += [published(found) for found in paired(rows, work.run)]


def _loaded(
    work: _Work, rung: Checkpoint, model: models.Model | None, base: models.Model | None
) -> models.Model:
    folder = work.folder(rung)
    if base is not None and is_adapter(folder):
        return adapters.with_adapter(base, folder, work.root)
    if model is not None and model is not base:
        again = models.refill(model, folder, work.root)
        if again is not None:
            return again
        del model
        _release(work.device)
    return models.load(
        folder, dtype=work.dtype, device=work.device, trusted=work.root, packed=work.packed
    )


def _policy_rows(
    work: _Work,
    rung: Checkpoint,
    model: models.Model,
    known: Sequence[_Reference],
    place: int,
    item: _Laid,
    meter: _Meter,
) -> list[dict[str, Any]]:
    began = time.perf_counter()
    head = replace(model.head, temperature=work.temperature)
    sums = [Sums(item.sets.sequences) for _ in known]
    for number, targets in enumerate(item.targets):
        states = _states(model, item, number)
        owner, position = item.owners(number)
        at = targets.to(work.device)
        for reference, total in zip(known, sums, strict=True):
            vocabulary = min(head.rows, reference.vocabulary)
            other = reference.hidden[place][number].to(work.device)
            there = reference.marginals[place][number]
            with torch.inference_mode():
                if vocabulary < reference.vocabulary:
                    there = _cpu(marginal(other, at, reference.head, vocabulary))
                own, kl = divergence(states, at, head, other, reference.head, there, vocabulary)
            total.add(owner, position, kl, own, there)
        meter.add(rung.name, item, number)
    seconds = time.perf_counter() - began
    if item.sets.step is not None and sums[0].compared and sums[0].gap > OTHER_MODEL:
        text = (
            f"the log-probabilities in {item.sets.source} are {sums[0].gap:.2g} nats/token from "
            "its own: other weights, another base, or another temperature drew those samples"
        )
        work.notes.append(Note(rung.path, text))
    return [
        {
            **row(item.sets, total, reference.floor),
            "reference": reference.name,
            "dtype": _named(work.dtype),
            "checkpoint": rung.name,
            "step": rung.step,
            "role": "policy",
            "stored": model.stored,
            "seconds": seconds / len(known),
        }
        for reference, total in zip(known, sums, strict=True)
    ]


def _own_rows(
    reference: _Reference, laid: Sequence[_Laid], work: _Work
) -> Iterator[dict[str, Any]]:
    """Yield the reference's own row on each fixed set, and on the samples of step 0."""
    for place, item in enumerate(laid):
        if item.sets.step not in (None, 0):
            continue
        total = Sums(item.sets.sequences)
        for number in range(len(item.batches)):
            own = reference.marginals[place][number]
            owner, position = item.owners(number)
            total.add(owner, position, torch.zeros_like(own.logprob), own, own)
        yield {
            **row(item.sets, total, reference.floor),
            "reference": reference.name,
            "dtype": _named(work.dtype),
            "checkpoint": reference.name,
            "step": 0,
            "role": "reference",
            "stored": reference.stored,
            "below_floor": False,
            "seconds": 0.0,
        }


class _Meter:
    """Counts tokens for the progress display."""

    def __init__(self, progress: Progress) -> None:
        self.total = 0
        self._done = 0
        self._progress = progress

    def add(self, what: str, item: _Laid, number: int) -> None:
        """Count one batch."""
        self._done += sum(len(item.ids[index]) for index in item.batches[number].indices)
        self._progress(what, self._done, self.total)


def _name_apart(known: Sequence[_Reference]) -> None:
    """Give references of one name their whole paths."""
    names = [item.name for item in known]
    for item in known:
        if names.count(item.name) > 1:
            item.name = str(item.path)


def _told(reference: _Reference, work: _Work) -> dict[str, object]:
    return {
        "name": reference.name,
        "path": str(reference.path),
        "stored": reference.stored,
        "dtype": _named(work.dtype),
        "device": work.device.type,
        "vocabulary": reference.vocabulary,
        "temperature": work.temperature,
        "noise_floor": reference.floor,
    }


def _note_stored(work: _Work, known: Sequence[_Reference]) -> None:
    """Say where models that are compared were stored in different precision."""
    for reference in known:
        other = sorted({kind for kind in work.stored.values() if kind != reference.stored})
        if other:
            text = (
                f"stored as {reference.stored}, checkpoints as {', '.join(other)}; both compute in "
                f"{_named(work.dtype)}, and a KL holds the difference of their rounding"
            )
            work.notes.append(Note(reference.name, text))
