"""Samples surveyed: lengths, n-grams, repetition, duplicates, rewards, drift by step.

A stream is read twice: once for all numbers (``corpus.read``), and once more, as far as needed, for
the few texts that are shown.
"""

from __future__ import annotations

import math
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import polars as pl

from rlhfdoctor import corpus as corpora
from rlhfdoctor import examination, text
from rlhfdoctor.corpus import Corpus, Encode, Open
from rlhfdoctor.errors import DoctorError
from rlhfdoctor.measures import LOOP, end_token
from rlhfdoctor.model import Note, Run, Sample
from rlhfdoctor.phrases import Phrase, Steps, follow, said_in, steps_of
from rlhfdoctor.responses import MEASURES
from rlhfdoctor.series import SURE

BUCKETS = 20
"""Bars of the length histogram."""

FOLLOWED = 300
"""N-grams of each n, the most frequent ones, that are followed from step to step."""

TEMPLATE = 0.5
"""Share of the responses that hold an n-gram from which it is a template."""

PILE, FEWEST = 0.02, 3
"""Share of the responses, and their number, that make the greatest length a limit."""

LOST = "?"
"""What stands for a text that is no longer there when the stream is read again."""

LISTED = 8
"""Templates, and phrases that grew or are paid for, that are listed."""

GREW = 0.25
"""Gain in the share of responses, first to last steps, from which an n-gram is listed."""

PAID = 0.3
"""Pearson's r of an n-gram's count and the reward from which it is listed.

It must also follow the reward as closely as length does: a reward for length pays for every word.
"""

SAME = 0.02
"""Difference of two correlations that is none: a phrase that is paid makes answers longer, too."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What of a survey is wanted.

    ngrams: the n that are listed. top: n-grams listed for each. only: sections of ``SECTIONS``, and
    nothing else; None for all. memory: bytes that the whole may take. tokenizer: what ``encode`` is
    called; empty without one.
    """

    ngrams: tuple[int, ...] = (3,)
    top: int = 20
    only: frozenset[str] | None = None
    memory: int = 2**30
    tokenizer: str = ""


SECTIONS = ("lengths", "ngrams")
"""Sections that can be asked for alone; the others need every response looked at closely."""

_SECTIONS = (
    *("length", "lengths", "ngrams", "ngrams_total", "templates", "grew", "repetition"),
    *("duplicates", "rewards", "positions", "steps"),
)
"""What a survey has of responses; null where there are none or it was not asked for."""


def sections(only: str | None) -> frozenset[str] | None:
    """Return the sections that "lengths,ngrams" names; raises DoctorError for others."""
    if only is None:
        return None
    asked = frozenset(name.strip() for name in only.split(","))
    if asked - set(SECTIONS):
        unknown = ", ".join(sorted(asked - set(SECTIONS)))
        raise DoctorError(f"--only {only}: no section is called {unknown}", "--only lengths,ngrams")
    return asked


RunOf = Callable[[Sequence[tuple[str, Sample]], Sequence[Note]], Run]
"""Makes a run of samples, each with the name of its file, in the order of the files."""


def survey(
    stream: Open,
    asked: Asked,
    run_of: RunOf,
    encode: Encode | None = None,
) -> tuple[dict[str, Any], Run | None]:
    """Return the survey under its published keys, and a run of samples for the rules.

    run_of: makes a run of samples. encode: the tokenizer for responses without token ids. The
    samples of the run are all of them, or those of some steps; None where only sections are asked
    for.
    """
    try:
        return _surveyed(stream, asked, run_of, encode)
    except OSError as error:
        raise DoctorError(
            f"cannot keep counts in {tempfile.gettempdir()}: {error.strerror or error}",
            "TMPDIR=DIR names another folder for temporary files",
        ) from error


def _surveyed(
    stream: Open, asked: Asked, run_of: RunOf, encode: Encode | None
) -> tuple[dict[str, Any], Run | None]:
    whole = asked.only is None
    listed = asked.ngrams if whole or "ngrams" in (asked.only or ()) else ()
    with tempfile.TemporaryDirectory(prefix="rlhfdoctor-") as folder:
        found = corpora.read(
            stream(),
            sorted({*listed, *((1, 2, 3) if whole else ())}),
            memory=asked.memory,
            folder=Path(folder),
            lengths_only=not whole,
            encode=encode,
        )
        run = _run(found, run_of) if whole else None
        document: dict[str, Any] = {
            "files": [{"file": name, "samples": count} for name, count in found.files.items()],
            "samples": found.count,
            "pairs": found.pairs,
            "skipped_lines": found.skipped,
            "only": None if asked.only is None else sorted(asked.only),
            "steps_known": 0,
            "limits": {"run": examination.RUN, "loop": LOOP, "listed": LISTED},
            **dict.fromkeys(_SECTIONS),
        }
        if found.count:
            document |= _sections(found, run, stream, asked, listed)
    document["judged"] = {"samples": len(found.kept), "of": found.count}
    lost = sum(gram["text"] == LOST for gram in document["ngrams"] or ())
    if lost:
        told = f"{lost} n-grams could not be found again: it changed while it was read"
        found.notes.append(Note("samples", told, unread=True))
    document["notes"] = [{"where": note.where, "text": note.text} for note in found.notes]
    return document, run


def _run(found: Corpus, run_of: RunOf) -> Run:
    """Make a run of the responses that were kept, with what was measured of them."""
    run = run_of([(item.name, item.sample) for item in found.kept], found.notes)
    rows = [(item.name, *item.measures) for item in found.kept]
    measured = pl.DataFrame(rows, schema={"source": pl.String, **MEASURES}, orient="row")
    by_source = measured.sort("source", maintain_order=True).drop("source")
    samples = run.samples.collect().sort("source", maintain_order=True)
    return replace(run, samples=pl.concat([samples, by_source], how="horizontal").lazy())


def _sections(
    found: Corpus, run: Run | None, stream: Open, asked: Asked, listed: Sequence[int]
) -> dict[str, Any]:
    steps = steps_of(found)
    rows, units = _with_length(found, asked)
    most = asked.top if run is None else max(asked.top, FOLLOWED)
    phrases = {n: follow(found, n, most, steps) for n in found.grams}
    top = [phrase for n in listed for phrase in phrases[n][: asked.top]]
    document: dict[str, Any] = {"steps_known": steps.known}
    if asked.only is None or "lengths" in asked.only:
        document |= _lengths(rows, units, run)
    if run is None:
        texts = _shown(stream, top, {}, [])[0]
    else:
        every = [phrase for group in phrases.values() for phrase in group]
        looked, texts = _looked(found, run, stream, rows, steps, every, top)
        document |= looked
    if listed:
        document["ngrams"] = _ngrams(top, texts, found.count)
        document["ngrams_total"] = [{"n": n, "count": found.grams[n].total} for n in listed]
    return document


def _looked(
    found: Corpus,
    run: Run,
    stream: Open,
    rows: pl.LazyFrame,
    steps: Steps,
    phrases: Sequence[Phrase],
    top: Sequence[Phrase],
) -> tuple[dict[str, Any], dict[Phrase, str]]:
    """Return what needs every response looked at, and the words of all phrases that are shown."""
    finite = rows.drop_nulls("reward")
    by_length = examination.within(finite, pl.col("length").cast(pl.Float64))
    sure = SURE / math.sqrt(max(steps.rewarded, 1))
    least = max(PAID, sure, (by_length or 0.0) - SAME)
    common, longest = max(TEMPLATE * found.count, FEWEST), max(found.grams)
    named = {
        "templates": _most(_of(longest, common, phrases), lambda phrase: float(phrase.samples)),
        "grew": _most((p for p in phrases if p.grew > SURE and _gain(p) > GREW), _gain),
        "paid": _most((p for p in phrases if p.r is not None and p.r > least), _r),
    }
    worst, copied = examination.worst(rows), examination.copied(found, rows)
    every = {*top, *(phrase for group in named.values() for phrase in group)}
    texts, examples = _shown(stream, every, worst, copied)
    listed = {name: _apart(group, texts)[:LISTED] for name, group in named.items()}
    return {
        "templates": _ngrams(listed["templates"], texts, found.count),
        "grew": [_growth(phrase, texts) for phrase in listed["grew"]],
        "repetition": examination.repetition(rows, steps, examples),
        "duplicates": examination.duplicates(found, copied),
        "rewards": examination.rewards(finite, steps, run, by_length, listed["paid"], texts),
        "positions": examination.positions(run, steps),
        "steps": examination.steps(found, rows, run) if steps.known > 1 else [],
    }, texts


def _shown(
    stream: Open,
    phrases: Iterable[Phrase],
    worst: Mapping[int, Mapping[str, Any]],
    copied: Sequence[dict[str, Any]],
) -> tuple[dict[Phrase, str], list[dict[str, Any]]]:
    """Read the stream again for what is shown: the words of phrases, and the worst responses.

    copied: each gets its ``text`` for its ``row``.
    """
    held: dict[int, list[Phrase]] = defaultdict(list)
    for phrase in phrases:
        held[phrase.row].append(phrase)
    copies = {item.pop("row"): item for item in copied}
    texts: dict[Phrase, str] = {}
    examples = {}
    for item in copied:
        item["text"] = LOST
    for place, name, sample in corpora.again(stream(), {*held, *worst, *copies}):
        texts |= said_in(sample, held.get(place, ()))
        if place in worst:
            examples[place] = examination.example(worst[place], name, sample)
        if place in copies:
            copies[place]["text"] = text.cut(sample.response or "", examination.SHOWN)
    return texts, [examples[place] for place in worst if place in examples]


def _of(n: int, samples: float, phrases: Iterable[Phrase]) -> Iterator[Phrase]:
    return (phrase for phrase in phrases if phrase.n == n and phrase.samples >= samples)


# Lengths


def _with_length(found: Corpus, asked: Asked) -> tuple[pl.LazyFrame, dict[str, str]]:
    """Return the rows with the column ``length``, and the units that are known, the best first.

    Tokens count where at least half of the responses have them.
    """
    rows = found.rows.scan()
    known = rows.select(
        ids=pl.col("ids").is_not_null().mean(), told=pl.col("told").is_not_null().mean()
    )
    shares = known.collect(engine="streaming").row(0, named=True)
    units = {"words": "text", "graphemes": "text"}
    if shares["told"] >= 0.5:
        units = {"told": "the file's own count", **units}
    if shares["ids"] >= 0.5:
        units = {"ids": asked.tokenizer or "token ids", **units}
    return rows.with_columns(length=pl.col(next(iter(units))).cast(pl.Int64)), units


def _lengths(rows: pl.LazyFrame, units: Mapping[str, str], run: Run | None) -> dict[str, Any]:
    summaries = []
    for column, source in units.items():
        counted = rows.group_by(column).len().sort(column).drop_nulls().collect(engine="streaming")
        values, counts = counted[column].to_list(), counted["len"].to_list()
        unit = "tokens" if column in ("ids", "told") else column
        summaries.append((values, counts, {"unit": unit, "source": source}))
    values, counts, named = summaries[0]
    total = sum(counts)
    differ = len(values) > 1 or named["unit"] == "tokens"
    piled = counts[-1] >= max(FEWEST, PILE * total) and differ
    first = {
        **named,
        **_moments(values, counts),
        "cap": values[-1] if piled else None,
        "at_cap": counts[-1] if piled else 0,
        "at_cap_share": counts[-1] / total if piled else 0.0,
        "truncated": _truncated(rows, run),
        "histogram": _histogram(values, counts),
    }
    return {
        "length": first,
        "lengths": [{**named, **_moments(*counted)} for *counted, named in summaries],
    }


def _moments(values: Sequence[int], counts: Sequence[int]) -> dict[str, Any]:
    total = sum(counts)
    mean = math.fsum(v * c for v, c in zip(values, counts, strict=True)) / total
    squares = math.fsum((v - mean) ** 2 * c for v, c in zip(values, counts, strict=True))
    spread = math.sqrt(squares / total)
    pairs = list(zip(values, counts, strict=True))
    return {
        "min": values[0],
        "max": values[-1],
        "mean": mean,
        "std": spread,
        **{f"p{share}": _percentile(pairs, share / 100 * total) for share in (50, 90, 99)},
        "over_3_sigma": sum(count for value, count in pairs if value > mean + 3 * spread),
    }


def _percentile(pairs: Iterable[tuple[int, int]], rank: float) -> int:
    """Return the smallest value that at least ``rank`` of the values do not exceed."""
    below = 0
    for value, count in pairs:
        below += count
        if below >= rank:
            return value
    return 0


def _histogram(values: Sequence[int], counts: Sequence[int]) -> list[dict[str, int]]:
    low, high = values[0], values[-1]
    width = max(math.ceil((high - low + 1) / BUCKETS), 1)
    bars: Counter[int] = Counter()
    for value, count in zip(values, counts, strict=True):
        bars[(value - low) // width] += count
    return [
        {
            "low": low + index * width,
            "high": min(low + (index + 1) * width - 1, high),
            "count": bars[index],
        }
        for index in range((high - low) // width + 1)
    ]


def _truncated(rows: pl.LazyFrame, run: Run | None) -> dict[str, Any] | None:
    """Return the share of cut responses: by their own field, else by the end token they lack."""
    known = (
        rows.select(known=pl.col("truncated").count(), count=pl.col("truncated").sum())
        .collect(engine="streaming")
        .row(0, named=True)
    )
    how = "the file's own field"
    if not known["known"]:
        end = end_token(run.samples.select("token_ids").collect()) if run else None
        if end is None:
            return None
        last = pl.col("last_id")
        known = (
            rows.select(known=last.count(), count=(last != end).sum()).collect().row(0, named=True)
        )
        how = f"no end token (id {end})"
    return {**known, "share": known["count"] / known["known"], "how": how}


# N-grams


def _ngrams(
    phrases: Iterable[Phrase], texts: Mapping[Phrase, str], samples: int
) -> list[dict[str, Any]]:
    return [
        {
            "n": phrase.n,
            "text": texts.get(phrase, LOST),
            "count": phrase.count,
            "samples": phrase.samples,
            "share": phrase.samples / samples,
        }
        for phrase in phrases
    ]


def _gain(phrase: Phrase) -> float:
    return (
        phrase.late - phrase.early if phrase.late is not None and phrase.early is not None else 0.0
    )


def _r(phrase: Phrase) -> float:
    return phrase.r or 0.0


def _most(phrases: Iterable[Phrase], by: Callable[[Phrase], float]) -> list[Phrase]:
    """Return more than are listed: some say the same as others."""
    return sorted(phrases, key=lambda phrase: (-by(phrase), -phrase.n))[: 8 * LISTED]


def _apart(phrases: Sequence[Phrase], texts: Mapping[Phrase, str]) -> list[Phrase]:
    """Leave out what says the same as a phrase before it, unless it began earlier.

    It stands inside that phrase or around it.
    """
    found: list[Phrase] = []
    for phrase in phrases:
        said = texts.get(phrase)
        alike = [one for one in found if said and (said in texts[one] or texts[one] in said)]
        if said and not any(not _earlier(phrase, one) for one in alike):
            found.append(phrase)
    return found


def _earlier(phrase: Phrase, other: Phrase) -> bool:
    return bool(phrase.since and other.since and phrase.since.step < other.since.step)


def _growth(phrase: Phrase, texts: Mapping[Phrase, str]) -> dict[str, Any]:
    return {
        "n": phrase.n,
        "text": texts[phrase],
        "count": phrase.count,
        "early_share": phrase.early,
        "late_share": phrase.late,
        **phrase.dated(),
    }
