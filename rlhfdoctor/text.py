"""Arithmetic on text, without thresholds: words, n-grams, loops, distinct shares.

Words are what white space separates; every Han ideograph and kana is a word of its own, so that
Chinese and Japanese are never one word a sentence. Case is kept. N-grams never cross samples.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from typing import TypeVar

_CHARACTERS = (
    "\u3005-\u3007"  # ideographic iteration, closing and zero marks
    "\u3040-\u30ff"  # hiragana, katakana
    "\u31f0-\u31ff"  # katakana extensions
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"  # Han: extension A, unified, compatibility
    "\uff66-\uff9f"  # half-width katakana
    "\U0001b000-\U0001b16f"  # kana supplement
    "\U00020000-\U000323af"  # Han: extensions B to H
)
_WORD = re.compile(rf"[{_CHARACTERS}]|[^\s{_CHARACTERS}]+")

Token = TypeVar("Token", bound=Hashable)


def words(text: str) -> list[str]:
    """Split a text on white space, and Han and kana into single characters."""
    return _WORD.findall(text)


def ngrams(tokens: Sequence[Token], n: int) -> Iterable[tuple[Token, ...]]:
    """Return the n-grams of one sample, in order; none where it is shorter than n."""
    return zip(*(tokens[offset:] for offset in range(n)), strict=False)


def count_ngrams(
    samples: Iterable[Sequence[str]], n: int
) -> tuple[Counter[tuple[str, ...]], Counter[tuple[str, ...]]]:
    """Count n-grams over samples: occurrences, and the number of samples that hold each."""
    occurrences: Counter[tuple[str, ...]] = Counter()
    documents: Counter[tuple[str, ...]] = Counter()
    for tokens in samples:
        found = list(ngrams(tokens, n))
        occurrences.update(found)
        documents.update(set(found))
    return occurrences, documents


def distinct(tokens: Sequence[Token], n: int) -> float | None:
    """Return the share of different n-grams among a sample's n-grams, or None where it has none."""
    found = list(ngrams(tokens, n))
    return len(set(found)) / len(found) if found else None


def loop(tokens: Sequence[Token], longest: int = 32) -> tuple[int, int]:
    """Find the loop at the end of a sample: (period, tokens inside the loop); (0, 0) without one.

    A loop is a suffix that repeats itself with a period of at most ``longest`` tokens, at least
    three times over. Of several periods the shortest that covers the most tokens is taken.
    """
    best = (0, 0)
    count = len(tokens)
    for period in range(1, min(longest, count // 3) + 1):
        matched = 0
        while (
            matched + period < count
            and tokens[count - 1 - matched] == tokens[count - 1 - matched - period]
        ):
            matched += 1
        covered = matched + period
        if covered >= 3 * period and covered > best[1]:
            best = (period, covered)
    return best
