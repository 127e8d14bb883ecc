"""Which token sequences are scored under which checkpoint, and how text becomes tokens."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from rlhfdoctor.errors import DoctorError, first_line
from rlhfdoctor.model import Note, Run
from rlhfdoctor.scorers.encoding import load
from rlhfdoctor.scorers.weights import alone

Part = Literal["response", "chosen", "rejected"]
Encode = Any
"""A ``tokenizers.Tokenizer``."""


@dataclass(frozen=True, slots=True)
class Scored:
    """One response in its context, as token ids.

    cluster: what it shares with other responses to the same prompt; they are not independent.
    logprobs, ref_logprobs: of the response's tokens, as the file tells them.
    """

    prompt: tuple[int, ...]
    response: tuple[int, ...]
    line: int
    cluster: object
    logprobs: tuple[float, ...] | None = None
    ref_logprobs: tuple[float, ...] | None = None

    @property
    def ids(self) -> tuple[int, ...]:
        """Prompt and response."""
        return self.prompt + self.response


@dataclass(frozen=True, slots=True)
class SampleSet:
    """Sequences that are scored together.

    step: of the policy that drew them, where they are scored under that checkpoint alone; None for
    a fixed set, scored under every checkpoint.
    """

    source: str
    part: Part
    step: int | None
    sequences: tuple[Scored, ...]


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a sequence must fit into: the vocabulary, and the longest context of every model."""

    vocabulary: int
    positions: int | None = None


@dataclass(frozen=True, slots=True)
class Specials:
    """Ids of the marks that text does not carry; None where the model has none."""

    begin: int | None = None
    end: int | None = None


def sample_sets(
    run: Run,
    steps: Iterable[int],
    sources: Sequence[str] | None,
    encode: Encode | None,
    specials: Specials,
    *,
    fixed: bool = False,
    most: int | None = None,
) -> tuple[list[SampleSet], list[Note]]:
    """Return what is to be scored, and notes about what is not.

    steps: of the checkpoints. sources: the sample files to use, None for all of them. A file with
    responses of a checkpoint's step is scored on policy, each checkpoint on its own responses, and
    those of step 0 under the reference; any other is a fixed set. most: responses a set.
    """
    known = set(steps)
    groups: dict[tuple[str, Part], list[tuple[int | None, Scored]]] = defaultdict(list)
    notes: list[Note] = []
    told: Counter[tuple[str, str]] = Counter()
    for source, part, step, scored in _sequences(run, sources, encode, specials, told):
        groups[source, part].append((step, scored))
    notes += [Note(source, f"{count} {what}") for (source, what), count in sorted(told.items())]
    sets: list[SampleSet] = []
    for (source, part), found in groups.items():
        by_step: dict[int, list[Scored]] = defaultdict(list)
        for step, scored in found:
            if step is not None:
                by_step[step].append(scored)
        drawn = known & set(by_step) or (not known and 0 in by_step)
        if fixed or not drawn:
            sets.append(SampleSet(source, part, None, tuple(item for _, item in found)))
            continue
        used = sorted(step for step in by_step if step in known or step == 0)
        sets += [SampleSet(source, part, step, tuple(by_step[step])) for step in used]
        notes += _unused(source, by_step, used, known)
        bare = sum(step is None for step, _ in found)
        if bare:
            text = f"{bare} samples name no step, where others do; not scored"
            notes.append(Note(source, text, left_out=bare))
    if most is not None:
        for source in dict.fromkeys(item.source for item in sets if len(item.sequences) > most):
            sizes = [len(item.sequences) for item in sets if item.source == source]
            kept = sum(min(size, most) for size in sizes)
            text = f"{kept} of {sum(sizes)} samples are scored (--max-samples)"
            notes.append(Note(source, text))
        sets = [replace(item, sequences=_evenly(item.sequences, most)) for item in sets]
    return sets, notes


def fitting(sets: Sequence[SampleSet], bounds: Bounds) -> tuple[list[SampleSet], list[Note]]:
    """Leave out sequences that no model can score, and say so."""
    kept: list[SampleSet] = []
    told: Counter[tuple[str, str]] = Counter()
    for item in sets:
        inside = []
        for scored in item.sequences:
            longest = len(scored.prompt) + len(scored.response)
            if not all(0 <= token < bounds.vocabulary for token in scored.ids):
                what = f"samples hold token ids outside the vocabulary of {bounds.vocabulary}"
                told[item.source, what] += 1
            elif bounds.positions is not None and longest > bounds.positions:
                what = f"samples are longer than the model's {bounds.positions} positions"
                told[item.source, what] += 1
            else:
                inside.append(scored)
        if inside:
            kept.append(replace(item, sequences=tuple(inside)))
    notes = [
        Note(source, f"{count} {what}; left out", left_out=count)
        for (source, what), count in sorted(told.items())
    ]
    return kept, notes


def _unused(
    source: str, by_step: Mapping[int, Sequence[Scored]], used: Sequence[int], known: set[int]
) -> Iterator[Note]:
    left = sorted(set(by_step) - set(used))
    if left:
        count = sum(len(by_step[step]) for step in left)
        yield Note(source, f"{count} samples of {_listed(left)} have no checkpoint; not scored")
    bare = sorted(known - set(by_step))
    if bare:
        yield Note(source, f"no samples of {_listed(bare)}; those checkpoints are not scored on it")


def _listed(steps: Sequence[int]) -> str:
    shown = ", ".join(map(str, steps[:8])) + (", ..." if len(steps) > 8 else "")
    return f"step{'s' if len(steps) > 1 else ''} {shown}"


def _evenly(items: Sequence[Scored], most: int) -> tuple[Scored, ...]:
    """Return at most ``most`` of the items, evenly spaced: files are often sorted."""
    if len(items) <= most:
        return tuple(items)
    return tuple(items[index * len(items) // most] for index in range(most))


def _sequences(
    run: Run,
    sources: Sequence[str] | None,
    encode: Encode | None,
    specials: Specials,
    told: Counter[tuple[str, str]],
) -> Iterator[tuple[str, Part, int | None, Scored]]:
    """Yield every response and every answer of a pair; ``told`` counts what was left out."""
    for row in run.samples.collect().iter_rows(named=True):
        source = row["source"]
        if sources is not None and source not in sources:
            continue
        parts: list[tuple[Part, str | None, Sequence[int] | None]] = []
        if row["chosen"] is not None and row["rejected"] is not None:
            parts += [("chosen", row["chosen"], None), ("rejected", row["rejected"], None)]
        if row["token_ids"] is not None or row["response"] is not None:
            parts.append(("response", row["response"], row["token_ids"]))
        prompt = row["prompt_ids"]
        if prompt is None and row["prompt"] is None:
            told[source, "samples carry no prompt that could be read; left out"] += 1
            continue
        if prompt is None and encode is None and row["prompt"]:
            told[source, _NO_TOKENIZER] += 1
            continue
        if prompt is None and row["prompt"]:
            prompt = _ids(encode, row["prompt"])
            told[source, _PROMPT] += 1
        if not prompt:
            if specials.begin is None:
                told[source, "prompts are empty and the model has no begin mark; left out"] += 1
                continue
            prompt = [specials.begin]
            told[source, "prompts are empty; scored after the model's begin mark"] += 1
        for part, text, ids in parts:
            if ids is None:
                if encode is None:
                    told[source, _NO_TOKENIZER] += 1
                    continue
                ended = part != "response" or row["truncated"] is False
                ids = _ended(_ids(encode, text or ""), specials.end if ended else None)
                told[source, _ENDED if ended else _TOKENIZED] += 1
            if not ids:
                told[source, "samples are empty; left out"] += 1
                continue
            whole = part == "response"
            yield (
                source,
                part,
                row["step"],
                Scored(
                    prompt=tuple(prompt),
                    response=tuple(ids),
                    line=row["line"],
                    cluster=tuple(prompt),
                    logprobs=_matching(row["logprobs"], ids) if whole else None,
                    ref_logprobs=_matching(row["ref_logprobs"], ids) if whole else None,
                ),
            )


_NO_TOKENIZER = "texts carry no token ids and no tokenizer was found (--tokenizer); left out"
_PROMPT = "prompts carry no token ids; their text was tokenized as it stands, without a template"
_TOKENIZED = (
    "responses carry no token ids; their text was tokenized apart from the prompt, and no end mark "
    "is scored, since text does not tell whether they ended"
)
_ENDED = "answers carry no token ids; their text was tokenized apart and the end mark put behind it"


def _ids(encode: Encode, text: str) -> list[int]:
    try:
        ids: list[int] = encode.encode(text, add_special_tokens=False).ids
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # a tokenizer of Rust panics past Exception
        told = first_line(error)
        raise DoctorError(
            f"the tokenizer cannot read a sample ({told})", "--tokenizer DIR names another"
        ) from error
    return ids


def _ended(ids: list[int], end: int | None) -> list[int]:
    return ids if end is None or (ids and ids[-1] == end) else [*ids, end]


def _matching(values: Sequence[float] | None, ids: Sequence[int]) -> tuple[float, ...] | None:
    return None if values is None or len(values) != len(ids) else tuple(values)


def tokenizer(folders: Iterable[Path]) -> tuple[Encode | None, str | None]:
    """Return the first tokenizer found, and where: a tokenizer.json, or the one of a GGUF file."""
    for folder in folders:
        if folder.suffix == ".gguf":
            from transformers import AutoTokenizer

            with alone(folder) as place:
                loaded: Any = AutoTokenizer.from_pretrained(
                    place, gguf_file=folder.name, local_files_only=True, trust_remote_code=False
                )
            return loaded.backend_tokenizer, folder.name
        file = folder / "tokenizer.json"
        if file.is_file():
            try:
                return load(file), folder.name
            except Exception:  # tokenizers raises bare Exception for a file it cannot parse
                continue
    return None, None
