"""A stream of responses read once: a row a response, every n-gram, and some to look at closely."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import polars as pl

from rlhfdoctor.errors import DoctorError, first_line, need
from rlhfdoctor.measures import BLOCK
from rlhfdoctor.model import Note, Sample
from rlhfdoctor.ngrams import MIX, MOST_TEXTS, Counter, Shelf, words_of
from rlhfdoctor.readers.checkpoints import is_checkpoint
from rlhfdoctor.responses import measure
from rlhfdoctor.series import LARGEST

Told = tuple[str, Sample] | Note
"""A sample with the name of its file, or what could not be used."""

Open = Callable[[], Iterable[Told]]
"""Begins a stream anew."""

Encode = Callable[[Sequence[str]], list[list[int]] | None]
"""A tokenizer: the ids of each text; None where it cannot read them."""

KEPT_SHARE = 32
"""Part of the memory that the texts of the samples kept take at most; with what is made of them
for the rules they take about four times as much."""

COUNTED_SHARE = 4
"""Part of the memory that all counts share; of each, a part exists four times over when sorted."""

NUMBER_BYTES = 48
"""What a token id or a log-probability of a kept sample takes, as a Python object and in frames."""

OBJECT_BYTES, RECORD_BYTES = 2000, 200
"""What a kept sample takes beside its texts and numbers, and what one of a block takes."""

TOGETHER = 256
"""Responses of one step that are kept together or not at all."""

MOST_OPEN = 2**16
"""Steps whose responses are being counted: a stream may have as many as responses."""

MOST_NOTES = 1000
"""Notes that are kept; a file may have a fault in every line."""

_ROW: dict[str, pl.DataType | type[pl.DataType]] = {
    "file": pl.UInt32,
    "line": pl.UInt32,
    "step": pl.Int64,
    "reward": pl.Float64,
    "truncated": pl.Boolean,
    "told": pl.UInt32,
    "prompt": pl.UInt64,
}
"""Columns of ``Corpus.rows`` beside the measures. told: tokens as the file counts them. prompt:
equal for equal prompts."""


@dataclass(frozen=True, slots=True)
class Kept:
    """A response that is looked at closely.

    measures: as in ``responses.MEASURES``, by order. run: a hash of the neighbours it is kept with.
    """

    name: str
    sample: Sample
    measures: tuple[object, ...]
    run: int = 0


@dataclass(slots=True)
class Corpus:
    """What is known of a stream of responses.

    rows: one row a response (``_ROW`` and ``responses.MEASURES``), by blocks, in order. grams: all
    n-grams, by n, by the same blocks. digests, nears: the keys of equal and of nearly equal texts.
    kept: the responses of about one in ``stride`` steps, with their measures. files: responses of
    each file, in order.
    pairs: records that hold a preference pair and no response. skipped: records that were lost.
    unnoted: notes beyond those that are kept.
    """

    rows: Shelf
    grams: Mapping[int, Counter]
    digests: Counter
    nears: Counter
    kept: list[Kept] = field(default_factory=list)
    stride: int = 1
    count: int = 0
    pairs: int = 0
    skipped: int = 0
    unnoted: int = 0
    files: dict[str, int] = field(default_factory=dict)
    notes: list[Note] = field(default_factory=list)


def read(
    stream: Iterable[Told],
    ns: Sequence[int],
    *,
    memory: int,
    folder: Path,
    lengths_only: bool = False,
    encode: Encode | None = None,
) -> Corpus:
    """Read a stream to its end. What memory (bytes) cannot hold goes into files of ``folder``.

    lengths_only: nothing of a response but its lengths and n-grams. encode: makes the token ids of
    responses that come without.
    """
    share = memory // (COUNTED_SHARE * (len(ns) + 1))
    corpus = Corpus(
        rows=Shelf(share, folder, "rows"),
        grams={n: Counter(share, folder, f"{n}-grams") for n in ns},
        digests=Counter(share // 2, folder, "digests"),
        nears=Counter(share // 2, folder, "nears"),
    )
    keep = _Keep(memory // KEPT_SHARE, corpus)
    for block in _blocks(stream, corpus):
        samples = [sample for _, sample in block]
        texts = [sample.response or "" for sample in samples]
        ids = [sample.token_ids for sample in samples]
        if encode and not all(ids):
            made = encode([item for item, own in zip(texts, ids, strict=True) if not own])
            rest = iter(made or ())
            ids = [own or (tuple(next(rest)) if made else None) for own in ids]
        words = words_of(texts)
        measured = measure(texts, ids, words=words, lengths_only=lengths_only)
        if encode and not lengths_only:  # a tokenizer adds no end token that generation had
            ends = [item.token_ids[-1] if item.token_ids else None for item in samples]
            measured = measured.with_columns(last_id=pl.Series(ends, dtype=pl.Int64))
        corpus.rows.add(pl.concat([_rows(block, corpus), measured], how="horizontal"))
        for n, counter in corpus.grams.items():
            counter.add(words.ngrams(n), words.counts(n))
        if lengths_only:
            continue
        for counter, column in ((corpus.digests, "digest"), (corpus.nears, "near")):
            keys = measured[column]
            counter.add(keys.drop_nulls(), keys.is_not_null().cast(pl.UInt32))
        for (name, sample), row in zip(block, measured.iter_rows(), strict=True):
            keep.add(Kept(name, sample, row))
    return corpus


def again(stream: Iterable[Told], wanted: Iterable[int]) -> Iterator[tuple[int, str, Sample]]:
    """Read a stream anew, up to the last of these responses; yield each with its place."""
    rest = set(wanted)
    place = -1
    for told in stream if rest else ():
        if isinstance(told, Note) or told[1].response is None:
            continue
        place += 1
        if place in rest:
            yield place, *told
            rest.remove(place)
            if not rest:
                return


def _blocks(stream: Iterable[Told], corpus: Corpus) -> Iterator[list[tuple[str, Sample]]]:
    """Gather responses into blocks; take out what is none."""
    block: list[tuple[str, Sample]] = []
    size = 0
    for told in stream:
        if isinstance(told, Note):
            corpus.skipped += told.left_out
            corpus.unnoted += len(corpus.notes) >= MOST_NOTES
            corpus.notes += [told] if len(corpus.notes) < MOST_NOTES else []
            continue
        name, sample = told
        if sample.response is None:
            corpus.pairs += sample.chosen is not None
            continue
        corpus.count += 1
        corpus.files[name] = corpus.files.get(name, 0) + 1
        block.append(told)
        size += _size(sample)
        if size >= BLOCK or len(block) == MOST_TEXTS:
            yield block
            block, size = [], 0
    if block:
        yield block
    if corpus.unnoted:
        corpus.notes.append(Note("samples", f"{corpus.unnoted} more notes are not listed"))


def _rows(block: Sequence[tuple[str, Sample]], corpus: Corpus) -> pl.DataFrame:
    places = {name: place for place, name in enumerate(corpus.files)}
    samples = [sample for _, sample in block]
    prompts = [item.prompt for item in samples]
    rewards = [sample.reward for sample in samples]
    columns = {
        "file": [places[name] for name, _ in block],
        "line": [min(sample.line, 2**32 - 1) for sample in samples],
        "step": [sample.step for sample in samples],
        "reward": [item if item is None or abs(item) < LARGEST else None for item in rewards],
        "truncated": [sample.truncated for sample in samples],
        "told": [sample.tokens for sample in samples],
        "prompt": pl.Series(prompts, dtype=pl.String).hash(3),
    }
    return pl.DataFrame(columns, schema=_ROW)


class _Keep:
    """Whole runs of ``TOGETHER`` responses of one step, so that steps and groups stay whole.

    Which, says a hash of their number: every so many-th would fall in step with the data.
    """

    def __init__(self, most: int, corpus: Corpus) -> None:
        self._most = most
        self._corpus = corpus
        self._size = 0
        self._runs = 0
        self._open: dict[tuple[str, int | None], tuple[int, int]] = {}

    def add(self, item: Kept) -> None:
        """Keep a response, unless it alone takes a sixteenth of the room."""
        corpus, size = self._corpus, OBJECT_BYTES + _size(item.sample)
        run = self._run(item)
        if run % corpus.stride == 0 and size <= self._most // 16:
            corpus.kept.append(replace(item, run=run))
            self._size += size
            while self._size > self._most:
                corpus.stride *= 2
                corpus.kept[:] = [one for one in corpus.kept if one.run % corpus.stride == 0]
                self._size = sum(OBJECT_BYTES + _size(one.sample) for one in corpus.kept)

    def _run(self, item: Kept) -> int:
        """Return the hash of the run of responses that one belongs to; 0 of the first."""
        cell = (item.name, item.sample.step)
        run, count = self._open.get(cell, (0, TOGETHER))
        if count >= TOGETHER:
            run, count = self._runs * MIX % 2**64 >> 32, 0
            self._runs += 1
            if len(self._open) >= MOST_OPEN:
                self._open.clear()
        self._open[cell] = (run, count + 1)
        return run


def _size(sample: Sample) -> int:
    """Return about the bytes of a sample's texts and numbers."""
    numbers = (sample.token_ids, sample.prompt_ids, sample.logprobs, sample.ref_logprobs)
    texts = (sample.response, sample.prompt)
    wide = sum(len(item) * (1 if item.isascii() else 4) for item in texts if item)
    return RECORD_BYTES + wide + NUMBER_BYTES * sum(len(item) for item in numbers if item)


def tokenizer_of(place: Path, named: Path | None, notes: list[Note]) -> tuple[Encode | None, str]:
    """Return the tokenizer of a run, and what it is called: (None, "") without one.

    named: the folder of the tokenizer.json, or the file, that the user gave. Otherwise one beside
    the samples, or in a checkpoint beside them, where the package ``tokenizers`` is installed.
    notes: gets one about what lies there and cannot be read. Raises DoctorError for a named one
    that cannot be read.
    """
    if named is not None:
        file = named / "tokenizer.json" if named.is_dir() else named
        if not file.is_file():
            raise DoctorError(
                f"--tokenizer {named}: holds no tokenizer.json", "give a tokenizer's folder"
            )
        need("tokenizers", extra="recompute", purpose="--tokenizer")
        return _loaded(file), str(file)
    folder = place if place.is_dir() else place.parent
    try:
        importlib.import_module("tokenizers")
    except ImportError:
        return None, ""
    saved = sorted(item for item in folder.glob("*/tokenizer.json") if is_checkpoint(item.parent))
    for file in (folder / "tokenizer.json", *saved):
        if file.is_file() and not file.is_symlink():
            name = str(file.relative_to(folder))
            try:
                return _loaded(file, notes), name
            except DoctorError as error:
                notes.append(Note(name, f"{error.message}; lengths are not in its tokens"))
    return None, ""


def _loaded(file: Path, notes: list[Note] | None = None) -> Encode:
    """Load a tokenizer; where it fails on a text, ``notes`` get one, or without them it raises."""
    from rlhfdoctor.scorers.encoding import load

    try:
        found = load(file)
    except Exception as error:  # tokenizers raises bare Exception for a file it cannot parse
        raise DoctorError(
            f"{file} cannot be read ({first_line(error)})", "--tokenizer DIR names another"
        ) from error

    def encode(texts: Sequence[str]) -> list[list[int]] | None:
        try:
            return [item.ids for item in found.encode_batch(list(texts), add_special_tokens=False)]
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # a tokenizer of Rust panics past Exception
            told = f"cannot read some responses ({first_line(error)})"
            if notes is None:
                raise DoctorError(f"{file} {told}", "--tokenizer DIR names another") from error
            if told not in {note.text for note in notes}:
                notes.append(Note(file.name, told))
            return None

    return encode
