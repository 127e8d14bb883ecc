"""What is measured on every response: one row a response, a block of responses at a time."""

from __future__ import annotations

import re
from collections.abc import Sequence

import polars as pl

from rlhfdoctor import text
from rlhfdoctor.ngrams import Tokens, ids_of, words_of

MEASURES: dict[str, pl.DataType | type[pl.DataType]] = {
    "words": pl.UInt32,
    "graphemes": pl.UInt32,
    "ids": pl.UInt32,
    "last_id": pl.Int64,
    "distinct_1": pl.Float64,
    "distinct_2": pl.Float64,
    "distinct_3": pl.Float64,
    "period": pl.UInt32,
    "covered": pl.UInt32,
    "run": pl.UInt32,
    "run_of": pl.String,
    "ratio": pl.Float64,
    "gopher": pl.String,
    "script": pl.String,
    "switches": pl.UInt32,
    "marks_only": pl.Boolean,
    "digest": pl.UInt64,
    "near": pl.UInt64,
}
"""Columns of ``measure``.

words, graphemes, ids: lengths; ids is null without token ids, of which ``last_id`` is the last.
distinct_N: share of different N-grams among those of the token ids, of the words without them; null
where there is none. period, covered: characters of the loop at the end of what is ``spoken``
(``text.loop``). run, run_of: the longest run of one character. ratio: ``text.compression``. gopher:
names of the repetition thresholds exceeded, joined by commas. script: that of most letters.
switches: ``text.switches``. marks_only: no text but marks such as ``<eos>``. digest: equal for
equal texts. near: equal for texts that share nearly all their 3-grams, null for short ones.
"""

LENGTHS = ("words", "graphemes", "ids")
"""The measures that lengths need; the others cost several times as much."""

SUSPECT = {2: 0.95, 3: 0.9}
"""Shares of different word n-grams below which a text is looked at for Gopher's thresholds, by n,
as one of more than three lines is. Text that repeats no more than that exceeds none of them."""

_END = re.compile(
    r"(?:<\|[\w ]{1,30}\|>|<\uff5c[^>]{1,30}\uff5c>|</?s>"
    r"|<(?:pad|eos|bos|unk|eot|end_of_turn|endoftext)>|\[(?:PAD|EOS|BOS|SEP|CLS|UNK)\])\Z"
)
"""Such a mark as ends or pads a text, at its end; not the tags that answers hold: </answer>."""

LONGEST_MARK = 40
"""Characters at the end of a text within which its last mark begins."""


def measure(
    texts: Sequence[str],
    ids: Sequence[Sequence[int] | None],
    *,
    words: Tokens | None = None,
    lengths_only: bool = False,
) -> pl.DataFrame:
    """Measure a block of responses; one row each, with the columns of ``MEASURES``.

    ids: the token ids of each response, or None. words: the block's words where they are known
    already. lengths_only: nothing but ``LENGTHS``.
    """
    words = words or words_of(texts)
    columns: dict[str, object] = {
        "words": words.lengths,
        "graphemes": [text.graphemes(item) for item in texts],
        "ids": [None if item is None else len(item) for item in ids],
    }
    if not lengths_only:
        shares, suspect = _of_tokens(words, ids)
        columns |= _of_texts(texts) | shares
        columns["last_id"] = [item[-1] if item else None for item in ids]
        columns["gopher"] = [
            _exceeded(item)
            if (doubtful or item.count("\n") > 2) and count <= text.GOPHER_WORDS[1]
            else ""
            for doubtful, item, count in zip(suspect, texts, words.lengths, strict=True)
        ]
    wanted = LENGTHS if lengths_only else MEASURES
    schema = {name: MEASURES[name] for name in wanted}
    return pl.DataFrame({name: columns[name] for name in wanted}, schema=schema)


def spoken(text: str) -> str:
    """Return a response without the end tokens, the padding and the white space after it."""
    end, before = len(text), -1
    while end != before:
        before = end
        while end and text[end - 1].isspace():
            end -= 1
        marked = text[end - 1 : end] in (">", "]")
        mark = _END.search(text, max(0, end - LONGEST_MARK), end) if marked else None
        end = mark.start() if mark else end
    return text[:end]


def _of_texts(texts: Sequence[str]) -> dict[str, object]:
    said = [spoken(item) for item in texts]
    loops = [text.loop(item) for item in said]
    runs = [text.longest_run(item) for item in texts]
    scripts = [text.scripts(item) for item in texts]
    return {
        "period": [period for period, _ in loops],
        "covered": [covered for _, covered in loops],
        "run": [length for _, length in runs],
        "run_of": [character or None for character, _ in runs],
        "ratio": [text.compression(item) for item in texts],
        "script": [max(found, key=lambda name: found[name], default=None) for found in scripts],
        "switches": [
            text.switches(item) if len(found) > 1 else 0
            for item, found in zip(texts, scripts, strict=True)
        ],
        "marks_only": [
            bool(item.strip()) and not rest for item, rest in zip(texts, said, strict=True)
        ],
        "digest": pl.Series(texts, dtype=pl.String).hash(2),
    }


def _of_tokens(
    words: Tokens, ids: Sequence[Sequence[int] | None]
) -> tuple[dict[str, object], pl.Series]:
    """Return the distinct shares, of token ids where there are any, and which words repeat."""
    with_ids = ids_of([item or () for item in ids]) if any(ids) else None
    has = pl.Series([bool(item) for item in ids], dtype=pl.Boolean)
    suspect = pl.repeat(False, len(ids), eager=True)
    found: dict[str, object] = {}
    for n in (1, 2, 3):
        different = words.different(n)
        share = _share(words, different, n)
        suspect |= (share < SUSPECT.get(n, 0.0)).fill_null(False)
        if with_ids:
            share = _share(with_ids, with_ids.different(n), n).zip_with(has, share)
        found[f"distinct_{n}"] = share
        if n == 3:
            found["near"] = different["low"]
    return found, suspect


def _share(tokens: Tokens, different: pl.DataFrame, n: int) -> pl.Series:
    return different["different"] / tokens.counts(n).clip(1)


def _exceeded(item: str) -> str:
    found = text.gopher(item, text.words(item))
    return ",".join(name for name, limit in text.GOPHER.items() if found.get(name, 0.0) > limit)
