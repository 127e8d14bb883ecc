"""Arithmetic on one text, without thresholds: words, n-grams, loops, runs, scripts, repetition.

Words are what white space separates, but every grapheme cluster of a script that is written
without spaces is a word of its own, so that Chinese, Japanese or Thai is never one word a sentence.
Case is kept. N-grams never cross samples. Everything here takes about linear time: one text may
fill a line of many megabytes.
"""

from __future__ import annotations

import re
import zlib
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from functools import lru_cache
from itertools import accumulate, compress
from operator import ne
from typing import TypeVar

_UNSPACED = (
    "\u2e80-\u2e99\u2e9b-\u2ef3\u2f00-\u2fd5\u3005-\u3007\u3021-\u3029\u3038-\u303b"  # Han
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufad9\U00016fe2\U00016fe3\U00016ff2-\U00016ff6"
    "\U00020000-\U0003fffd"
    "\u3041-\u3096\u309b-\u30ff\u31f0-\u31ff\u32d0-\u32fe\u3300-\u3357\uff66-\uff9d"  # kana
    "\U0001aff0-\U0001affe\U0001b000-\U0001b16f\U0001f200"
    "\u0e01-\u0e30\u0e32\u0e40-\u0e46\u0e4f-\u0e5b"  # Thai
    "\u0e81-\u0eb0\u0eb2\u0ebd\u0ec0-\u0ec6\u0ed0-\u0edf"  # Lao
    "\u1780-\u17b3\u17d4-\u17dc\u17e0-\u17f9\u19e0-\u19ff"  # Khmer
    "\u1000-\u102c\u1038\u103f-\u1055\u105a-\u105d\u1061-\u1070\u1075-\u1081\u1083"  # Myanmar
    "\u1087-\u108c\u108e-\u109c\u109e\u109f\ua9e0-\ua9e4\ua9e6-\ua9fe\uaa60-\uaa7b\uaa7d-\uaa7f"
    "\U000116d0-\U000116e3"
)
"""Characters that begin a word of their own: these scripts without their combining marks, with the
marks of length and voice and the middle dot that kana share."""

_ALONE = (
    "\\0-\u02ff\u0370-\u0482\u048a-\u0590\u05d0-\u05f4\u061b-\u064a\u0660-\u066f\u0671-\u06d5"
    "\u1e00-\u200b\u200e-\u20cf\u2100-\u2cee\u2e00-\u3029\u3030-\u3098\u309b-\ua66e\uac00-\ud7a3"
    "\ud800-\ufb1d\ufb1f-\ufdff\ufe30-\uff9d\uffa0-\uffff"
    "\U0001f200-\U0001f3fa\U0001f400-\U0001faff\U00020000-\U0003ffff"
)
"""Characters that no other of them joins into one grapheme cluster, but for CR before LF. Not all
there are: those of most scripts in use."""

_TIGHT = (
    "\u3001-\u3003\u3008-\u3011\u3014-\u301f\uff01-\uff0f\uff1a-\uff20\uff3b-\uff40\uff5b-\uff65"
)
"""East Asian punctuation."""

_WORD = f"[{_UNSPACED}]|[^\\s{_UNSPACED}]+"
_CLUSTERED_WORD = f"(?=[{_UNSPACED}])\\X|[^\\s\\x1c-\\x1f{_UNSPACED}]+"
_UNSPACED_CHARACTER = f"[{_UNSPACED}]"
_JOINING = f"[^{_ALONE}]"
_FLAG = re.compile("[\U0001f1e6-\U0001f1ff]{2}")
_SPACE = (
    f"((?:^|(?<= ))[{_UNSPACED}]\\S*)(?<![\u1039\u17d2]) (?=[{_UNSPACED}{_TIGHT}])"  # viramas join
    f"|(?<=[{_TIGHT}])() (?=[{_UNSPACED}])"
)
_NOT_ASCII = re.compile(r"[^\0-\x7f]+")
_CHANGE = re.compile(rb"[^\0]")

SCRIPTS = (
    *("Latin", "Han", "Kana", "Hangul", "Cyrillic", "Greek", "Arabic", "Hebrew", "Thai", "Lao"),
    *("Khmer", "Myanmar", "Tibetan", "Devanagari", "Bengali", "Gurmukhi", "Gujarati", "Oriya"),
    *("Tamil", "Telugu", "Kannada", "Malayalam", "Sinhala", "Armenian", "Georgian", "Ethiopic"),
    "other",
)
"""Scripts that are told apart, as Unicode names them; Kana: hiragana and katakana."""

_LATIN, _HAN, _KANA = "\0\1\2"
_SCRIPT = "|".join(f"(?P<{name}>\\p{{{name}}})" for name in SCRIPTS[:-1])
_SCRIPT = _SCRIPT.replace(r"\p{Kana}", r"[\p{Hiragana}\p{Katakana}]")
_SCRIPT += r"|(?P<other>[^\p{Common}\p{Inherited}])"
_NOT_LETTERS = bytes(code for code in range(128) if not chr(code).isalpha())

GOPHER = {
    "duplicate lines": 0.30,
    "duplicate paragraphs": 0.30,
    "characters in duplicate lines": 0.20,
    "characters in duplicate paragraphs": 0.20,
    "characters in the top 2-gram": 0.20,
    "characters in the top 3-gram": 0.18,
    "characters in the top 4-gram": 0.16,
    "characters in duplicate 5-grams": 0.15,
    "characters in duplicate 6-grams": 0.14,
    "characters in duplicate 7-grams": 0.13,
    "characters in duplicate 8-grams": 0.12,
    "characters in duplicate 9-grams": 0.11,
    "characters in duplicate 10-grams": 0.10,
}
"""Shares above which Gopher's corpus dropped a document as repetitive (Rae et al. 2021,
arXiv:2112.11446, table A1)."""

GOPHER_WORDS = (50, 100_000)
"""Fewest and most words of a document that Gopher's corpus kept (the same, appendix A.1)."""

COMPRESSIBLE = 200
"""Bytes from which a compression ratio is one of the text: zlib adds 6 bytes and a table of codes.
English prose comes to 1.1 times its size at 50 bytes, 0.93 at 100, 0.77 at 200, 0.58 at 1000."""

Token = TypeVar("Token", bound=Hashable)


def plain(text: str) -> bool:
    """Tell whether white space alone separates the words: ``words(text) == text.split()``."""
    return text.isascii() or not _compiled(_UNSPACED_CHARACTER).search(text)


def words(text: str) -> list[str]:
    """Split a text on white space, and unspaced scripts into grapheme clusters.

    White space is what ``str.split`` takes for it. Unspaced: Han, hiragana, katakana, Thai, Lao,
    Khmer and Myanmar. A mark without a base of these belongs to the word that it stands in.

    Returns:
        The words in order; none is empty, and none holds white space.
    """
    if plain(text):
        return text.split()
    if _compiled(_JOINING).search(text):
        return _regex(_CLUSTERED_WORD).findall(text)
    return _compiled(_WORD).findall(text)


def words_from(text: str, start: int, count: int) -> list[str]:
    """Return some of a text's ``words``, without making all of them."""
    if plain(text):
        return text.split(None, start + count)[start : start + count]
    return words(text)[start : start + count]


def graphemes(text: str) -> int:
    r"""Count extended grapheme clusters (UAX 29): what a reader takes for characters.

    A letter with its accents is one, a flag is one, a family of faces is one, CR LF is one. Equal
    to the matches of ``\X`` in the package ``regex``, whose version says which Unicode.
    """
    if text.isascii() or not _compiled(_JOINING).search(text):
        return len(text) - text.count("\r\n")
    paired = _FLAG.sub("x", text)  # at each flag of a row regex would count back to the first
    return _regex(r"\X").subn("", paired)[1]


def joined(tokens: Iterable[str]) -> str:
    """Return an n-gram for the eye: its words, with a space where a reader expects one.

    None between two words of an unspaced script, nor between one and East Asian punctuation.
    ``words`` splits the result into the same words again.
    """
    return _compiled(_SPACE).sub(r"\1", " ".join(tokens))


def cut(said: str, most: int) -> str:
    """Return a text of at most ``most`` characters and a mark of what was cut off its end."""
    return said if len(said) <= most else said[:most] + "..."


def cut_middle(said: str, most: int) -> str:
    """Return a text of at most ``most`` characters and a mark of what was cut out of it."""
    half = most // 2
    return said if len(said) <= most else f"{said[:half]} [...] {said[-half:]}"


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


def loop(text: str) -> tuple[int, int]:
    """Find the loop at the end of a text, whatever its period.

    A loop is a suffix that repeats itself at least three times, possibly cut short at its
    beginning. Of several periods the shortest that covers the most characters is taken: exactly
    what trying every period would find.

    A suffix of m characters that has period p is found again p characters earlier. So the nearest
    earlier copy of a short suffix is the shortest candidate; how far it holds is measured; and a
    period that covers more must repeat the longer suffix that breaks it. Each such suffix has at
    least 1.5 times the length of the one two before it, so a text of 10 million characters takes
    at most some 80 searches, each linear.

    Returns:
        The period and the length of the loop in characters; (0, 0) without one.
    """
    backwards = text[::-1]
    longest = len(text) // 3
    best = (0, 0)
    size = period = 1
    while size <= len(text) - period:
        period = backwards.find(backwards[:size], period, longest + size)
        if period < 0:
            break
        covered = period + _agreement(backwards, period, size)
        if covered >= 3 * period and covered > best[1]:
            best = (period, covered)
        size = covered + 1
    return best


def longest_run(text: str) -> tuple[str, int]:
    """Find the longest run of one character other than white space, the first of equals.

    Returns:
        The character and how many of it stand side by side; ("", 0) without any character.
    """
    changes = _changes(text)
    start, first, repeats = 0, -1, 0
    while (start := changes.find(b"\0" * (repeats + 1), start)) >= 0:
        change = _CHANGE.search(changes, start)
        end = change.start() if change else len(changes)
        if not text[start].isspace():
            first, repeats = start, end - start
        start = end
    if first < 0:
        first = len(text) - len(text.lstrip())
    return text[first : first + 1], min(repeats + 1, len(text) - first)


def scripts(text: str) -> dict[str, int]:
    """Count letters by script (``SCRIPTS``), the most frequent first.

    Digits, marks, punctuation, emoji and letters that scripts share (the long mark of kana,
    mathematical letters) count for none.
    """
    latin = len(text.encode("ascii", "ignore").translate(None, _NOT_LETTERS))
    found = Counter({"Latin": latin} if latin else {})
    if not text.isascii():
        codes = _letters("".join(_NOT_ASCII.findall(text)))
        found.update({SCRIPTS[ord(code)]: codes.count(code) for code in sorted(set(codes))})
    return dict(found.most_common())


def switches(text: str) -> int:
    """Count the changes of script from one letter to the next, whatever stands between them.

    Han and kana count as one script here, since every Japanese sentence mixes them.
    """
    if text.isascii():
        return 0
    codes = _letters(text).replace(_KANA, _HAN)
    return sum(map(ne, codes, codes[1:])) if len(set(codes)) > 1 else 0


def compression(text: str) -> float | None:
    """Return the size of a text under zlib (level 1) over its size, both in bytes of UTF-8.

    Repetition within 32 KiB lowers it. It falls with length, so only texts of like lengths and of
    one script compare.

    Returns:
        The ratio, or None for texts below ``COMPRESSIBLE`` bytes.
    """
    data = text.encode("utf-8", "surrogatepass")
    return len(zlib.compress(data, 1)) / len(data) if len(data) >= COMPRESSIBLE else None


def gopher(text: str, tokens: Sequence[str]) -> dict[str, float]:
    """Measure repetition as Gopher's corpus filter does, to be held against ``GOPHER``.

    Lines and paragraphs are stripped, empty ones left out. A duplicate is the second or a later
    occurrence, as in datatrove's filter; the paper leaves open whether the first counts too.
    Characters are those of words, without white space, and as in the paper none counts twice where
    duplicates overlap (datatrove skips past each). The top n-gram must occur twice; of equally
    frequent ones the longest is taken, and its share is at most 1 where it overlaps itself.

    The thresholds were set on English web pages. Where most words are of unspaced scripts, n-grams
    are n characters in place of n words, which repeat far more often in sound text: of these texts
    lines and paragraphs alone are measured.

    Args:
        text: The sample.
        tokens: Its ``words``.

    Returns:
        A share from 0 to 1 for each name of ``GOPHER`` that is measured; none for a text whose
        words are fewer or more than ``GOPHER_WORDS``.
    """
    if not GOPHER_WORDS[0] <= len(tokens) <= GOPHER_WORDS[1]:
        return {}
    shares = {}
    for name, separator in (("lines", r"\n"), ("paragraphs", r"\n\s*\n")):
        parts = [part for part in map(str.strip, re.split(separator, text)) if part]
        repeated = list(_again(parts))
        shares[f"duplicate {name}"] = len(repeated) / len(parts)
        characters = sum(len(parts[index]) for index in repeated)
        shares[f"characters in duplicate {name}"] = characters / sum(map(len, parts))
    if len(_compiled(_UNSPACED_CHARACTER).findall(text)) > len(tokens) / 2:
        return shares
    shares = dict.fromkeys(GOPHER, 0.0) | shares
    ends = [0, *accumulate(map(len, tokens))]
    codes = {token: chr(code) for code, token in enumerate(dict.fromkeys(tokens))}
    code = "".join(map(codes.__getitem__, tokens))
    places = list(range(len(tokens)))
    for n in range(2, 11):
        grams = {place: code[place : place + n] for place in places if place + n <= len(code)}
        counts = Counter(grams.values())
        places = [place for place, gram in grams.items() if counts[gram] > 1]
        if not places:
            break
        if n < 5:
            most = max(counts.values())
            size = max(ends[at + n] - ends[at] for at in places if counts[grams[at]] == most)
            shares[f"characters in the top {n}-gram"] = min(1.0, most * size / ends[-1])
        else:
            covered = bytearray(len(tokens))
            for index in _again([grams[place] for place in places]):
                covered[places[index] : places[index] + n] = b"\1" * n
            characters = sum(compress(map(len, tokens), covered))
            shares[f"characters in duplicate {n}-grams"] = characters / ends[-1]
    return shares


def _again(items: Sequence[Hashable]) -> Iterable[int]:
    """Yield the places of items that occurred before."""
    seen: set[Hashable] = set()
    for index, item in enumerate(items):
        if item in seen:
            yield index
        seen.add(item)


def _agreement(text: str, offset: int, known: int) -> int:
    """Return how many characters from the start equal those ``offset`` later, ``known`` given."""
    count, step, growing = known, 16, True
    while step:
        end = count + step
        if offset + end <= len(text) and text[count:end] == text[offset + count : offset + end]:
            count = end
            step = step * 2 if growing else step // 2
        else:
            growing = False
            step //= 2
    return count


def _changes(text: str) -> bytes:
    """Return a byte for each character but the last: 0 where the next is the same."""
    if text.isascii():
        planes = [text.encode()]
    else:
        data = text.encode("utf-32-be", "surrogatepass")
        planes = [data[byte::4] for byte in (1, 2, 3)]
    changes = 0
    for plane in planes:
        number = int.from_bytes(plane, "big")
        changes |= number ^ number >> 8
    return changes.to_bytes(len(text), "big")[1:]


def _letters(text: str) -> str:
    """Return a character for each letter of a text that has a script: its place in ``SCRIPTS``."""
    return text.translate({ord(character): _script(character) for character in set(text)})


@lru_cache(maxsize=1 << 16)
def _script(character: str) -> str | None:
    if character.isascii():
        return _LATIN if character.isalpha() else None
    found = _regex(_SCRIPT).match(character) if character.isalpha() else None
    return chr(SCRIPTS.index(str(found.lastgroup))) if found else None


@lru_cache
def _compiled(pattern: str) -> re.Pattern[str]:
    """Compile a pattern that speaks of most scripts: 2 ms, which text in ASCII never pays."""
    return re.compile(pattern)


@lru_cache
def _regex(pattern: str) -> re.Pattern[str]:
    """Compile a pattern with the package ``regex``: 50 ms to import, which most text never pays."""
    import regex

    compiled: re.Pattern[str] = regex.compile(pattern)
    return compiled
