"""Responses that a filter of training corpora would throw away as repetitive."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from statistics import fmean

from rlhfdoctor.measures import Batch
from rlhfdoctor.model import Finding, Run, Skip
from rlhfdoctor.rules import rule
from rlhfdoctor.rules._ladder import too_few
from rlhfdoctor.rules._shares import File, each, files, graded, told


@dataclass(frozen=True, slots=True)
class Limits:
    """How many responses must have become repetitive."""

    share: float = 0.25  # share of responses
    fewest: int = 8  # responses a sampled step


@rule(
    "SMP007",
    signal="text",
    needs=["samples.response", "samples.steps"],
    limits=Limits,
    text="{level:.0%} of the responses in {source} exceed a repetition threshold of Gopher's "
    "corpus filter, most often {name} ({before}){packed}",
    brief="{level:.0%} of responses exceed Gopher's thresholds",
)
def repetition_thresholds(run: Run, limits: Limits) -> Iterator[Finding | Skip]:
    """Responses become such as filters of training corpora throw away, or compress much better.

    Gopher's filter (Rae et al. 2021, table A1) judges duplicate lines and paragraphs, the most
    frequent 2- to 4-grams and duplicate 5- to 10-grams of web pages. Code, tables and proofs exceed
    it on purpose and longer answers exceed it sooner, so it says nothing by itself and is
    information where far more responses exceed it than at the run's own start; it catches
    repetition that is no loop: the same paragraphs in another order. [H]

    Remedy: read those responses beside the first ones; if SMP001 or SMP002 agrees, act on them.
    """
    known = files(run, limits.fewest, each(lambda item: bool(item.gopher)))
    if not known:
        yield too_few(limits.fewest, "to compare")
    yield from told(run, known, graded(limits.share), limits.share, _told)


def _told(file: File) -> dict[str, str]:
    names = Counter(name for _, item in file.showing() for name in item.gopher)
    first, last = _packed(file.steps[0]), _packed(file.steps[-1])
    packed = "" if first is None or last is None else f"; zlib leaves {last:.0%}, {first:.0%} then"
    return {"name": names.most_common(1)[0][0] if names else "", "packed": packed}


def _packed(batch: Batch) -> float | None:
    """Return the mean compressed size of a step's responses, as a share of their bytes."""
    known = [item.ratio for item in batch.items if item.ratio is not None]
    return fmean(known) if known else None
