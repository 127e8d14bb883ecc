"""N-grams counted by polars equal those that plain Python counts."""

import collections
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlhfdoctor import ngrams, text
from rlhfdoctor.ngrams import Counter, Shelf, Tokens, ids_of, words_of

TEXTS = [
    "the cat sat on the mat the cat sat",
    "模型崩溃了，模型崩溃了。reward hacking又来了",
    "これはテストです。カタカナ ひらがな 漢字",
    "한국어는 단어로 센다 한국어는",
    "ภาษาไทยไม่มีช่องว่าง น้ำ",
    "مرحبا بالعالم مرحبا",
    "\U0001f600\U0001f600 \U0001f469\u200d\U0001f469\u200d\U0001f467 ok",
    "Mixed 中文 and English,全角\u3000空格\tand\nlines\x0b\x1c\x85\xa0end",
    "",
    " \n\t ",
    "one",
    "a \x00 null",
]

texts = st.lists(st.text(alphabet="ab 中\n\u3000ก", max_size=30), max_size=12)


def plain(found: list[str], n: int) -> dict[tuple[str, ...], int]:
    return dict(collections.Counter(gram for t in found for gram in text.ngrams(text.words(t), n)))


def by_key(tokens: Tokens, n: int) -> list[int]:
    return sorted(tokens.ngrams(n).value_counts()["count"].to_list())


@given(texts, st.integers(1, 5))
def test_counts_are_those_of_plain_python(found: list[str], n: int) -> None:
    tokens = words_of(found)
    assert tokens.lengths.to_list() == [len(text.words(item)) for item in found]
    assert by_key(tokens, n) == sorted(plain(found, n).values())


@pytest.mark.parametrize("n", [1, 2, 3, 4, 7])
def test_every_script_and_white_space_is_split_as_plain_python_does(n: int) -> None:
    assert by_key(words_of(TEXTS), n) == sorted(plain(TEXTS, n).values())


def test_a_text_has_the_same_words_alone_and_in_a_block() -> None:
    together = words_of(TEXTS)
    for place, item in enumerate(TEXTS):
        alone = words_of([item])
        start = int(together.lengths.head(place).sum())
        assert together.codes.slice(start, alone.codes.len()).equals(alone.codes)
        assert together.lengths[place] == alone.codes.len()


def test_token_ids_are_tokens_and_a_missing_id_is_none() -> None:
    tokens = ids_of([[5, 5, 7], [], [5]])
    assert tokens.lengths.to_list() == [3, 0, 1]
    assert tokens.codes[0] == tokens.codes[1] == tokens.codes[3] != tokens.codes[2]


@given(texts, st.integers(1, 4))
def test_different_ngrams_of_each_text(found: list[str], n: int) -> None:
    different = words_of(found).different(n)["different"].fill_null(0).to_list()
    assert different == [len(set(text.ngrams(text.words(item), n))) for item in found]


def test_texts_that_share_nearly_all_their_ngrams_have_one_low() -> None:
    words = [f"w{number}" for number in range(200)]
    same = [" ".join(words), " ".join([*words, "more"]), " ".join(reversed(words)), "a b c d"]
    low = words_of(same).different(3)["low"].to_list()
    assert low[0] == low[1] != low[2]
    assert low[3] is None, "two 3-grams are too few to compare"


@pytest.mark.parametrize("memory", [10**9, 4096, 64], ids=["in memory", "in parts", "by keys"])
def test_counting_in_parts_and_on_disk_changes_nothing(
    memory: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ngrams, "FILE", 1000)
    blocks = [[number % 7 * 2**61 + number % 50 for number in range(500)] for _ in range(4)]
    blocks.append([2**64 - 1, 0, 0])
    counter = Counter(memory, tmp_path, "keys")
    for block in blocks:
        keys = pl.Series(block, dtype=pl.UInt64)
        counter.add(keys, pl.Series([1] * len(block), dtype=pl.UInt32))
    expected = collections.Counter(key % 2**64 for block in blocks for key in block)
    counted = pl.concat(counter.parts())
    assert dict(counted.iter_rows()) == expected
    assert (counter.total, bool(list(tmp_path.iterdir()))) == (2003, memory < 10**9)
    top = counter.commonest(3)["count"].to_list()
    assert top == [count for _, count in expected.most_common(len(top))]
    assert counted.height - pl.concat(counter.parts(least=2)).height == 1, "one key occurs once"


def test_all_that_are_as_frequent_as_the_last_one_are_returned(tmp_path: Path) -> None:
    counter = Counter(2**20, tmp_path, "keys")
    counts = pl.Series([3, 0, 2], dtype=pl.UInt32)
    counter.add(pl.Series([1, 1, 2, 3, 4], dtype=pl.UInt64), counts)
    assert counter.commonest(2).rows() == [(1, 2), (2, 1), (3, 1), (4, 1)]
    (held,) = counter.where(pl.Series([1, 4], dtype=pl.UInt64))
    assert sorted(held.rows()) == [(0, 1, 2, 0), (2, 4, 1, 4)]


def test_nothing_was_counted(tmp_path: Path) -> None:
    counter = Counter(2**20, tmp_path, "keys")
    assert counter.commonest(5).height == 0


def test_a_shelf_keeps_the_order_in_memory_and_on_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ngrams, "FILE", 100)
    shelf = Shelf(50, tmp_path, "rows")
    for number in range(20):
        shelf.add(pl.DataFrame({"x": [number, number]}))
    expected = [number for number in range(20) for _ in range(2)]
    assert [x for frame in shelf for x in frame["x"]] == expected
    assert shelf.scan().collect()["x"].to_list() == expected
    assert len(list(tmp_path.iterdir())) == 2


def test_equal_keys_beyond_memory_are_counted_by_and_by(tmp_path: Path) -> None:
    counter = Counter(64, tmp_path, "keys")
    for _ in range(20):
        counter.add(pl.Series([7] * 50, dtype=pl.UInt64), pl.Series([50], dtype=pl.UInt32))
    assert counter.commonest(3).rows() == [(7, 1000)]


def test_of_equally_frequent_keys_those_that_come_first_are_found(tmp_path: Path) -> None:
    counter = Counter(2**20, tmp_path, "keys")
    for block in ([9, 3, 9], [5, 3], [1]):
        keys = pl.Series(block, dtype=pl.UInt64)
        counter.add(keys, pl.Series([len(block)], dtype=pl.UInt32))
    asked = pl.Series([1, 3, 5], dtype=pl.UInt64)
    assert counter.first(asked, 2).to_list() == [3, 5]
