import sys
import unicodedata
import zlib
from collections import Counter
from itertools import groupby, pairwise

import pytest
import regex
from hypothesis import given, settings
from hypothesis import strategies as st

from rlhfdoctor.text import (
    COMPRESSIBLE,
    GOPHER,
    GOPHER_WORDS,
    compression,
    count_ngrams,
    distinct,
    gopher,
    graphemes,
    joined,
    longest_run,
    loop,
    ngrams,
    plain,
    scripts,
    switches,
    words,
)

ALPHABET = (
    "aZ\xe9.,-1'"  # Latin
    " \t\n\r\v\f\x1c\x85\xa0\u2003\u2028\u3000"  # white space
    "\u4e2d\u6587\u5956\u3400\uf900\U00020000\u3005\u3007"  # Han
    "\u3042\u306f\u30ab\u30fc\u31f0\uff76\uff9e\u3099"  # kana and their voice marks
    "\ud55c\uad6d\uc5b4\u1100\u1161\u11a8"  # Hangul, and the parts of a syllable
    "\u0e01\u0e33\u0e31\u0e40\u0eab\u0eb4\u1780\u17d2\u17b6\u1019\u1039\u102c"  # Thai to Myanmar
    "\u0915\u094d\u0937\u0645\u0651\u0600\u05e9\u05c1"  # Devanagari, Arabic, Hebrew
    "\U0001f642\u200d\u0301\ufe0f\U0001f3fd\U0001f1e9\U0001f468"  # faces, flags, a joiner, marks
    "\u3002\uff0c\u2019\x00\x1b\ud800"  # punctuation, controls, half a pair
)
TEXTS = st.text(alphabet=ALPHABET, max_size=60)
ANY_TEXTS = TEXTS | st.text(st.characters(exclude_categories=["Cn"]), max_size=40)
EVERY_CHARACTER = "".join(map(chr, range(sys.maxunicode + 1)))
BASE = regex.compile(
    r"(?V1)[\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}"
    r"\u3006\u309b\u309c\u30a0\u30fb\u30fc\uff70]"  # marks of length and voice that kana share
)
MARK = regex.compile(r"[\p{GCB=Extend}\p{GCB=SpacingMark}\p{GCB=ZWJ}]")


def reference_words(text: str) -> list[str]:
    """Character by character, with the properties of each."""
    found: list[str] = []
    place, open_word = 0, False
    while place < len(text):
        character = text[place]
        if BASE.match(character) and not MARK.match(character):
            found += regex.findall(r"\X", text[place:])[:1]
            place += len(found[-1]) - 1
            open_word = False
        elif character.isspace():
            open_word = False
        elif open_word:
            found[-1] += character
        else:
            found.append(character)
            open_word = True
        place += 1
    return found


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
        pytest.param("\uff76\uff9f\uff76", ["\uff76\uff9f", "\uff76"], id="half-width kana"),
        pytest.param("\u304b\u3099\u306f", ["\u304b\u3099", "\u306f"], id="a separate voice mark"),
        pytest.param("\u845b\U000e0100\u57ce", ["\u845b\U000e0100", "\u57ce"], id="a variant"),
        pytest.param(
            "\u0e44\u0e17\u0e22\u0e14\u0e35",
            ["\u0e44", "\u0e17", "\u0e22", "\u0e14\u0e35"],
            id="Thai",
        ),
        pytest.param(
            "\u0ea5\u0eb2\u0ea7\u0e94\u0eb5",
            ["\u0ea5", "\u0eb2", "\u0ea7", "\u0e94\u0eb5"],
            id="Lao",
        ),
        pytest.param(
            "\u1781\u17d2\u1798\u17c2\u179a", ["\u1781\u17d2\u1798\u17c2", "\u179a"], id="Khmer"
        ),
        pytest.param("\u1017\u1019\u102c", ["\u1017", "\u1019", "\u102c"], id="Myanmar"),
        pytest.param(
            "\u0645\u0631\u062d\u0628\u0627 \u0628\u0643",
            ["\u0645\u0631\u062d\u0628\u0627", "\u0628\u0643"],
            id="Arabic has spaces",
        ),
        pytest.param(
            "\u0928\u092e\u0938\u094d\u0924\u0947",
            ["\u0928\u092e\u0938\u094d\u0924\u0947"],
            id="Devanagari has spaces",
        ),
        pytest.param(
            "\u4f60\u597d\u3002OK", ["\u4f60", "\u597d", "\u3002OK"], id="punctuation is no Han"
        ),
        pytest.param("a\x1cb\x85c", ["a", "b", "c"], id="separators among the controls"),
        pytest.param(
            "\u4e2d\x1c\u6587\x85\u3099c", ["\u4e2d", "\u6587", "\u3099c"], id="the same beside Han"
        ),
        pytest.param("a\ud800b \u4e2d", ["a\ud800b", "\u4e2d"], id="half a surrogate pair"),
        pytest.param("\U0001f642\U0001f642", ["\U0001f642\U0001f642"], id="faces are one word"),
    ],
)
def test_words(text: str, expected: list[str]) -> None:
    assert words(text) == expected


@given(ANY_TEXTS)
@settings(deadline=None, max_examples=500)
def test_words_agree_with_the_properties_of_characters(text: str) -> None:
    assert words(text) == reference_words(text)
    bases = [one for one in BASE.findall(text) if not MARK.match(one)]
    assert plain(text) == (not bases)
    assert plain(text) <= (words(text) == text.split())


def test_words_agree_on_every_character() -> None:
    for character in filter(str.isprintable, EVERY_CHARACTER):
        text = f"a{character}b"
        assert words(text) == reference_words(text), hex(ord(character))


@given(ANY_TEXTS)
@settings(deadline=None, max_examples=500)
def test_graphemes_agree_with_regex(text: str) -> None:
    assert graphemes(text) == len(regex.findall(r"\X", text))


def test_graphemes_agree_on_every_character_that_joins_others() -> None:
    kinds = ("Extend", "SpacingMark", "ZWJ", "Prepend", "L", "V", "T", "RI")
    joining = regex.findall(
        "[" + "".join(rf"\p{{GCB={kind}}}" for kind in kinds) + "]", EVERY_CHARACTER
    )
    assert len(joining) > 2000
    for character in joining:
        text = f"e{character}\uac00{character}"
        assert graphemes(text) == len(regex.findall(r"\X", text)), hex(ord(character))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("", 0, id="nothing"),
        pytest.param("abc\n", 4, id="ASCII"),
        pytest.param("a\r\nb\n\r", 5, id="CR LF is one"),
        pytest.param("\u2019\r\n", 2, id="CR LF beside other text"),
        pytest.param("e\u0301\u0302", 1, id="marks belong to their letter"),
        pytest.param("\ud55c\uad6d", 2, id="Hangul syllables"),
        pytest.param("\u1112\u1161\u11ab", 1, id="a syllable in parts"),
        pytest.param("\U0001f468\u200d\U0001f469\u200d\U0001f467", 1, id="a family"),
        pytest.param("\U0001f44d\U0001f3fd\u2764\ufe0f", 2, id="skin and variant"),
        pytest.param("\U0001f1e9\U0001f1ea\U0001f1eb\U0001f1f7", 2, id="two flags"),
        pytest.param("\U0001f1e9" * 200_001, 100_001, id="very many flags"),
        pytest.param("\U0001f1e9\u0301\U0001f1ea\U0001f1eb", 2, id="a mark parts a flag"),
        pytest.param("\u0e01\u0e33", 1, id="Thai am"),
    ],
)
def test_graphemes(text: str, expected: int) -> None:
    assert graphemes(text) == expected


@pytest.mark.parametrize(
    ("tokens", "expected"),
    [
        pytest.param([], "", id="nothing"),
        pytest.param(["the", "cat"], "the cat", id="spaced"),
        pytest.param(["\u6211", "\u7231", "\u4f60"], "\u6211\u7231\u4f60", id="Chinese"),
        pytest.param(["\u597d", "\u3002", "\u6211"], "\u597d\u3002\u6211", id="punctuation"),
        pytest.param(["GPT", "\u6a21", "\u578b", "v2"], "GPT \u6a21\u578b v2", id="mixed"),
        pytest.param(
            ["\u0e14\u0e35", "\u0e17", "\u0e35\u0e48"],
            "\u0e14\u0e35\u0e17 \u0e35\u0e48",
            id="marks",
        ),
        pytest.param(["\ud55c\uad6d", "\uc5b4"], "\ud55c\uad6d \uc5b4", id="Korean"),
        pytest.param(
            ["\u1780\u17d2", "\u1780", "\u179a"],
            "\u1780\u17d2 \u1780\u179a",
            id="what would become one cluster stays apart",
        ),
    ],
)
def test_joined(tokens: list[str], expected: str) -> None:
    assert joined(tokens) == expected


@given(TEXTS.map(lambda text: text.replace("\u17d2", "").replace("\u1039", "")))
@settings(deadline=None, max_examples=300)
def test_what_is_joined_is_split_again(text: str) -> None:
    assert words(joined(words(text))) == words(text)


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


def brute_loop(text: str) -> tuple[int, int]:
    """Try every period."""
    best = (0, 0)
    for period in range(1, len(text) // 3 + 1):
        covered = period
        while covered < len(text) and text[-1 - covered] == text[period - 1 - covered]:
            covered += 1
        if covered >= 3 * period and covered > best[1]:
            best = (period, covered)
    return best


@pytest.mark.parametrize(
    ("text", "expected"),
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
        pytest.param(
            "So: " + "I am not. " * 40, (10, 401), id="a sentence, and the space before it"
        ),
        pytest.param("\u4e2d\u6587\u3002" * 5, (3, 15), id="Chinese"),
        pytest.param("\ud800a" * 3, (2, 6), id="half surrogate pairs"),
        pytest.param(
            "".join(map(chr, range(40, 5040))) * 3, (5000, 15000), id="a very long period"
        ),
        pytest.param("ab" * 1_000_000, (2, 2_000_000), id="two million characters"),
        pytest.param("a" * 2_000_000 + "b", (0, 0), id="two million, left at the end"),
        pytest.param("b" + "a" * 2_000_000, (1, 2_000_000), id="two million after a start"),
        pytest.param(("a" * 999 + "b") * 2000, (1000, 2_000_000), id="runs that a mark parts"),
    ],
)
def test_loops(text: str, expected: tuple[int, int]) -> None:
    assert loop(text) == expected


@given(
    st.builds(
        lambda start, unit, times, cut: start + (unit * times)[cut:],
        st.text("abc", max_size=12),
        st.text("ab", max_size=12) | st.text("abc", max_size=4).map(lambda unit: unit * 3 + "a"),
        st.integers(0, 8),
        st.integers(0, 12),
    )
)
@settings(deadline=None, max_examples=1000)
def test_loops_agree_with_trying_every_period(text: str) -> None:
    assert loop(text) == brute_loop(text)


@given(st.lists(st.sampled_from(["a", "ab", "aba", "ba", "b"]), max_size=8), st.integers(1, 4))
@settings(deadline=None, max_examples=500)
def test_nested_loops_agree_with_trying_every_period(parts: list[str], depth: int) -> None:
    text = "".join(parts)
    for _ in range(depth):
        text = text[-40:] * 3 + "".join(parts[:1])
    assert loop(text) == brute_loop(text)
    assert loop(text[:-1]) == brute_loop(text[:-1])


def test_fibonacci_words_agree_with_trying_every_period() -> None:
    before, text = "a", "ab"
    while len(text) < 1500:
        before, text = text, text + before
    for end in range(1, len(text), 7):
        assert loop(text[:end]) == brute_loop(text[:end])
        assert loop(text[:end][::-1]) == brute_loop(text[:end][::-1])


def test_a_fibonacci_word_of_millions_is_searched_through() -> None:
    before, text = "a", "ab"
    while len(text) < 3_000_000:
        before, text = text, text + before
    period, covered = loop(text * 3)
    assert (period, covered) == (len(text), 3 * len(text))


def reference_run(text: str) -> tuple[str, int]:
    runs = [(key, len(list(group))) for key, group in groupby(text) if not key.isspace()]
    return max(runs, key=lambda run: run[1], default=("", 0))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("", ("", 0), id="nothing"),
        pytest.param(" \n\n", ("", 0), id="white space alone"),
        pytest.param("ab", ("a", 1), id="no run"),
        pytest.param("  xyy     z", ("y", 2), id="white space does not count"),
        pytest.param("!" * 70 + "?" * 69, ("!", 70), id="exclamation marks"),
        pytest.param("a\u4e2d\u4e2d\u4e2d", ("\u4e2d", 3), id="Han"),
        pytest.param("\u4e2d\u4e00\u002d\u4e2d", ("\u4e2d", 1), id="characters that share a byte"),
        pytest.param("\0\0a", ("\0", 2), id="null at the start"),
        pytest.param("a\0", ("a", 1), id="null at the end"),
        pytest.param("\ud800\ud800", ("\ud800", 2), id="half surrogate pairs"),
        pytest.param("\U0001f642" * 4 + "aaa", ("\U0001f642", 4), id="faces"),
    ],
)
def test_longest_run(text: str, expected: tuple[str, int]) -> None:
    assert longest_run(text) == expected


@given(TEXTS | st.text("ab \n\0", max_size=30) | st.text("a\u0161\u4e61 ", max_size=30))
@settings(deadline=None, max_examples=500)
def test_longest_run_agrees_with_grouping(text: str) -> None:
    assert longest_run(text) == reference_run(text)


@pytest.mark.parametrize(
    ("text", "counts", "changes"),
    [
        pytest.param("", {}, 0, id="nothing"),
        pytest.param("12 + 3!", {}, 0, id="no letters"),
        pytest.param("It\u2019s caf\xe9", {"Latin": 7}, 0, id="Latin"),
        pytest.param("\u6211\u7528Python\u5199", {"Latin": 6, "Han": 3}, 2, id="Chinese and Latin"),
        pytest.param("\u79c1\u306f\u30a2\u30cb\u30e1", {"Kana": 4, "Han": 1}, 0, id="Japanese"),
        pytest.param("\u30e9\u30fc\u30e1\u30f3", {"Kana": 3}, 0, id="the long mark is shared"),
        pytest.param("\ud55c a \ud55c", {"Hangul": 2, "Latin": 1}, 2, id="Korean"),
        pytest.param(
            "\u043f\u0440\u0438\u0432\u0435\u0442 \u03b1\u03b2",
            {"Cyrillic": 6, "Greek": 2},
            1,
            id="Cyrillic and Greek",
        ),
        pytest.param(
            "\u0645 \u05e9 \u0915 \u0e01",
            {"Arabic": 1, "Hebrew": 1, "Thai": 1, "Devanagari": 1},
            3,
            id="four",
        ),
        pytest.param("\u16a0\u10330", {"other": 1}, 0, id="a script without a name here"),
        pytest.param("\U0001d400\xb5", {}, 0, id="mathematical letters are shared"),
        pytest.param("a\U0001f642b\ud800", {"Latin": 2}, 0, id="emoji and half a pair"),
    ],
)
def test_scripts(text: str, counts: dict[str, int], changes: int) -> None:
    assert scripts(text) == counts
    assert list(scripts(text).values()) == sorted(counts.values(), reverse=True)
    assert switches(text) == changes


@given(TEXTS)
@settings(deadline=None, max_examples=300)
def test_switches_agree_with_the_names_of_letters(text: str) -> None:
    def script(letter: str) -> str:
        name = unicodedata.name(letter).replace("HALFWIDTH ", "").split()[0]
        return {"HIRAGANA": "CJK", "KATAKANA": "CJK", "IDEOGRAPHIC": "CJK"}.get(name, name)

    letters = [one for one in text if one.isalpha() and one not in "\u30fc\uff9e"]
    kinds = [script(letter) for letter in letters]
    assert switches(text) == sum(a != b for a, b in pairwise(kinds))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("a" * (COMPRESSIBLE - 1), None, id="too short"),
        pytest.param("a" * COMPRESSIBLE, len(zlib.compress(b"a" * 200, 1)) / 200, id="just enough"),
        pytest.param("\u4e2d" * 66, None, id="66 Han are 198 bytes"),
        pytest.param("", None, id="nothing"),
    ],
)
def test_compression(text: str, expected: float | None) -> None:
    assert compression(text) == expected


def test_compression_takes_half_a_surrogate_pair() -> None:
    assert compression("\ud800" * 100) == pytest.approx(0.05, abs=0.02)


FILLER = [f"w{place:03}" for place in range(100)]


def reference_gopher(lines: list[str], tokens: list[str]) -> dict[str, float]:
    """Mark characters one by one; for texts whose paragraphs are their lines."""
    seen = Counter(lines)
    again = sum(count - 1 for count in seen.values())
    within = sum(len(line) * (count - 1) for line, count in seen.items())
    shares = {"lines": again / len(lines), "paragraphs": again / len(lines)}
    found = {f"duplicate {name}": share for name, share in shares.items()}
    for name in shares:
        found[f"characters in duplicate {name}"] = within / sum(map(len, lines))
    total = len("".join(tokens))
    for n in (2, 3, 4):
        counts = Counter(ngrams(tokens, n))
        most = max(counts.values())
        size = max(len("".join(gram)) for gram, count in counts.items() if count == most)
        found[f"characters in the top {n}-gram"] = min(1, most * size / total) * (most > 1)
    for n in range(5, 11):
        before, marked = set(), set()
        for place, gram in enumerate(ngrams(tokens, n)):
            if gram in before:
                marked |= set(range(place, place + n))
            before.add(gram)
        found[f"characters in duplicate {n}-grams"] = (
            sum(len(tokens[place]) for place in marked) / total
        )
    return found


@given(st.lists(st.lists(st.sampled_from(["ab", "cde", "fg", "h"]), min_size=1), min_size=9))
@settings(deadline=None, max_examples=100)
def test_gopher_agrees_with_marking_characters(parts: list[list[str]]) -> None:
    lines = [" ".join(part) for part in parts] + [" ".join(FILLER[:50])]
    tokens = " ".join(lines).split()
    assert gopher("\n\n".join(lines), tokens) == pytest.approx(reference_gopher(lines, tokens))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(" ".join(FILLER), {}, id="nothing twice"),
        pytest.param(
            "\n".join(["same line"] * 50),
            {name for name in GOPHER if "paragraph" not in name},
            id="one line fifty times",
        ),
        pytest.param(
            "\n\n".join(FILLER[:40] + ["the end"] * 30),
            {"duplicate lines", "duplicate paragraphs"}
            | {"characters in duplicate lines", "characters in duplicate paragraphs"}
            | {name for name in GOPHER if "gram" in name},
            id="paragraphs",
        ),
        pytest.param(
            " ".join([*FILLER, *FILLER[:30]]),
            {f"characters in duplicate {n}-grams" for n in range(5, 11)},
            id="thirty words said twice",
        ),
        pytest.param("\n".join(FILLER) + "\n" * 300, {}, id="empty lines are no duplicates"),
        pytest.param("no, " * (GOPHER_WORDS[0] - 1), {}, id="too short to be judged"),
        pytest.param("no, " * (GOPHER_WORDS[1] + 1), {}, id="too long to be judged"),
    ],
)
def test_gopher(text: str, expected: set[str]) -> None:
    shares = gopher(text, words(text))
    assert {name for name, limit in GOPHER.items() if shares.get(name, 0) > limit} == set(expected)


def test_gopher_judges_all_or_nothing() -> None:
    assert gopher("no, " * 49, ["no,"] * 49) == {}
    assert gopher("no, " * 50, ["no,"] * 50).keys() == GOPHER.keys()


@pytest.mark.parametrize(
    ("spaced", "judged"),
    [pytest.param(30, False, id="mostly Chinese"), pytest.param(31, True, id="half Chinese")],
)
def test_gopher_leaves_n_grams_of_unspaced_scripts_alone(spaced: int, judged: bool) -> None:
    text = "no " * spaced + "\u4e2d" * 31
    assert ("characters in the top 2-gram" in gopher(text, words(text))) == judged
    assert "duplicate lines" in gopher(text, words(text))
