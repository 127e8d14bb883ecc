import unicodedata
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlhfdoctor.text import count_ngrams, distinct, loop, ngrams, words

ALPHABET = (
    "aZ\xe9.,-1'"  # Latin
    " \t\n\r\v\f\xa0\u2003\u2028\u3000"  # white space
    "\u4e2d\u6587\u5956\u3400\uf900\U00020000\u3005\u3007"  # Han
    "\u3042\u306f\u30ab\u30fc\u31f0\uff76"  # kana
    "\ud55c\uad6d\uc5b4"  # Hangul
    "\U0001f642\u200d\u0301"  # a face, a joiner, an accent
)
TEXTS = st.text(alphabet=ALPHABET, max_size=60)


def is_word_of_its_own(character: str) -> bool:
    name = unicodedata.name(character, "")
    return (
        "HIRAGANA" in name
        or "KATAKANA" in name
        or name.startswith(("CJK UNIFIED", "CJK COMPATIBILITY IDEOGRAPH"))
        or name in ("IDEOGRAPHIC ITERATION MARK", "IDEOGRAPHIC NUMBER ZERO")
    )


def reference_words(text: str) -> list[str]:
    spaced = "".join(f" {c} " if is_word_of_its_own(c) else c for c in text)
    return spaced.split()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("", [], id="nothing"),
        pytest.param(" \t\n\u3000 ", [], id="white space alone"),
        pytest.param("The cat, the Cat.", ["The", "cat,", "the", "Cat."], id="case is kept"),
        pytest.param("a\tb\nc\u3000d\xa0e", ["a", "b", "c", "d", "e"], id="any white space"),
        pytest.param("\u6211\u7231\u4f60", ["\u6211", "\u7231", "\u4f60"], id="Chinese"),
        pytest.param("\u306f\u30ab\u30fc", ["\u306f", "\u30ab", "\u30fc"], id="Japanese"),
        pytest.param("\ud55c\uad6d \uc5b4", ["\ud55c\uad6d", "\uc5b4"], id="Korean has spaces"),
        pytest.param("GPT\u6a21\u578bv2", ["GPT", "\u6a21", "\u578b", "v2"], id="mixed"),
        pytest.param("\U00020000x", ["\U00020000", "x"], id="Han beyond the basic plane"),
        pytest.param("\uff76\uff9f", ["\uff76", "\uff9f"], id="half-width kana"),
        pytest.param("\U0001f642\U0001f642", ["\U0001f642\U0001f642"], id="faces are one word"),
    ],
)
def test_words(text: str, expected: list[str]) -> None:
    assert words(text) == expected


@given(TEXTS)
@settings(deadline=None, max_examples=300)
def test_words_agree_with_the_names_of_characters(text: str) -> None:
    assert words(text) == reference_words(text)


@given(st.lists(TEXTS, max_size=6), st.integers(1, 4))
@settings(deadline=None, max_examples=200)
def test_counts_agree_with_a_counter(texts: list[str], n: int) -> None:
    occurrences: Counter[tuple[str, ...]] = Counter()
    documents: Counter[tuple[str, ...]] = Counter()
    for text in texts:
        tokens = reference_words(text)
        seen = set()
        for start in range(len(tokens) - n + 1):
            gram = tuple(tokens[start : start + n])
            occurrences[gram] += 1
            seen.add(gram)
        for gram in seen:
            documents[gram] += 1
    assert count_ngrams([words(text) for text in texts], n) == (occurrences, documents)


def test_ngrams_never_cross_samples() -> None:
    occurrences, documents = count_ngrams([["a", "b"], ["c", "a", "b", "a", "b"], []], 2)
    assert occurrences == {("a", "b"): 3, ("c", "a"): 1, ("b", "a"): 1}
    assert documents == {("a", "b"): 2, ("c", "a"): 1, ("b", "a"): 1}
    assert ("b", "c") not in occurrences


@pytest.mark.parametrize(
    ("tokens", "n", "expected"),
    [
        pytest.param([1, 2, 3], 1, [(1,), (2,), (3,)], id="single tokens"),
        pytest.param([1, 2, 3], 3, [(1, 2, 3)], id="just long enough"),
        pytest.param([1, 2, 3], 4, [], id="too short"),
        pytest.param([], 1, [], id="nothing"),
    ],
)
def test_ngrams(tokens: list[int], n: int, expected: list[tuple[int, ...]]) -> None:
    assert list(ngrams(tokens, n)) == expected


@pytest.mark.parametrize(
    ("tokens", "n", "expected"),
    [
        pytest.param("abcd", 1, 1.0, id="all different"),
        pytest.param("aaaa", 1, 0.25, id="all the same"),
        pytest.param("aaaa", 3, 0.5, id="two 3-grams that are one"),
        pytest.param("abab", 2, 2 / 3, id="two different of three"),
        pytest.param("ab", 3, None, id="too short"),
        pytest.param("", 1, None, id="nothing"),
    ],
)
def test_distinct(tokens: str, n: int, expected: float | None) -> None:
    assert distinct(tokens, n) == expected


@pytest.mark.parametrize(
    ("tokens", "expected"),
    [
        pytest.param("", (0, 0), id="nothing"),
        pytest.param("abc", (0, 0), id="no repetition"),
        pytest.param("xaa", (0, 0), id="twice is no loop"),
        pytest.param("xaaa", (1, 3), id="three times is one"),
        pytest.param("aaa", (1, 3), id="the whole sample"),
        pytest.param("xyababab", (2, 6), id="a period of two"),
        pytest.param("xybababab", (2, 7), id="half a period more belongs to it"),
        pytest.param("abababx", (0, 0), id="a loop that was left is none"),
        pytest.param("xabcabcabc", (3, 9), id="a period of three"),
        pytest.param("aaaaaaaa", (1, 8), id="the shortest period of several"),
        pytest.param("aabaabaab", (3, 9), id="what repeats inside is not the loop"),
        pytest.param("abcabcaaa", (1, 3), id="only the end counts"),
        pytest.param("aaabaaabaaab" + "aaa", (4, 15), id="a longer loop that covers more"),
    ],
)
def test_loops(tokens: str, expected: tuple[int, int]) -> None:
    assert loop(tokens) == expected


@pytest.mark.parametrize(
    ("period", "expected"),
    [
        pytest.param(32, (32, 96), id="the longest period"),
        pytest.param(33, (0, 0), id="one token longer"),
    ],
)
def test_the_longest_period(period: int, expected: tuple[int, int]) -> None:
    assert loop(list(range(period)) * 3) == expected
    assert loop(list(range(period)) * 3, longest=40) == (period, 3 * period)


@given(st.lists(st.integers(0, 2), max_size=30), st.integers(1, 8))
@settings(deadline=None, max_examples=300)
def test_loops_agree_with_trying_every_suffix(tokens: list[int], longest: int) -> None:
    best = (0, 0)
    for period in range(1, longest + 1):
        for length in range(3 * period, len(tokens) + 1):
            suffix = tokens[len(tokens) - length :]
            if suffix[period:] == suffix[:-period] and length > best[1]:
                best = (period, length)
    assert loop(tokens, longest) == best
