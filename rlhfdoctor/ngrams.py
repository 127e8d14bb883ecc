"""Words and n-grams of many texts at once, counted exactly and in bounded memory.

A word is its 64-bit hash, an n-gram a mix of n hashes: 8 bytes each, whatever the words are. That
one of twenty n-grams shares its key with any of a billion others has a probability of 1e-9.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from rlhfdoctor import text

SEED = 1

MIX = 0x9E3779B97F4A7C15
"""2^64 over the golden ratio: odd, so that multiplying by it loses nothing."""

MOST_TEXTS = 2**16
"""Texts of one block: their places fit into the upper bits of a key."""

FILE = 2**25
"""Bytes of frames that are written at once: few files, so that all can be open together."""

SCANS = 6
"""Parts of the keys for which all of them are gone through; for more they are sorted into files."""

SMALL = 16
"""The part of its memory that a counter gives to how many keys each text has."""

TIES = 2**18
"""Equally frequent keys that are kept: of texts that never repeat, all are."""

_PLACE = 2**48
_SPACES = "\t\n\x0b\x0c\r\x1c\x1d\x1e\x1f"
"""White space of ASCII beside the blank, as ``str.split`` has it."""
_SPACE = r"[\t-\r\x1c-\x1f]"


@dataclass(frozen=True, slots=True)
class Tokens:
    """The tokens of a block of texts in order, one 64-bit code each.

    lengths: the number of tokens of each text (UInt32), at most ``MOST_TEXTS`` texts.
    """

    codes: pl.Series
    lengths: pl.Series

    def counts(self, n: int) -> pl.Series:
        """Return the number of n-grams of each text (UInt32)."""
        return (self.lengths.cast(pl.Int64) - (n - 1)).clip(0).cast(pl.UInt32)

    def ngrams(self, n: int) -> pl.Series:
        """Return the key of every n-gram in order (UInt64). None crosses texts."""
        if n == 1:
            return self.codes
        keys = self.codes
        for offset in range(1, n):
            keys = keys * MIX + self.codes.shift(-offset)
        ends = pl.DataFrame({"count": self.lengths}).select("count", end=pl.col("count").cum_sum())
        crossing = [
            ends.filter(pl.col("count") >= offset).select(pl.col("end") - offset)["end"]
            for offset in range(1, n)
        ]
        inside = pl.repeat(True, keys.len(), eager=True).scatter(pl.concat(crossing), False)
        return keys.filter(inside)

    def different(self, n: int) -> pl.DataFrame:
        """Return for each text how many different n-grams it has (``different``), and ``low``.

        low: a hash of the four smallest keys, null below four: equal for texts that share nearly
        all their n-grams, with a probability of about J^4 where J is the share (Broder's
        resemblance). 48 bits tell the n-grams of one text apart.
        """
        frame = pl.DataFrame({"key": self.ngrams(n), "place": spread(self.counts(n))})
        place = pl.col("place").cast(pl.UInt64) * _PLACE
        packed = frame.select(key=place + pl.col("key") // 2**16)["key"].sort()
        packed = packed.filter(packed.ne_missing(packed.shift(1)))
        found = (packed // _PLACE).cast(pl.UInt32).rle().struct.unnest()
        found = found.rename({"value": "place", "len": "different"}).with_columns(
            start=pl.col("different").cum_sum() - pl.col("different")
        )
        low = pl.lit(0, pl.UInt64)
        for offset in range(4):
            at = (pl.col("start") + offset).clip(0, max(packed.len() - 1, 0))
            low = low * pl.lit(MIX, pl.UInt64) + pl.lit(packed).gather(at) % _PLACE
        found = found.with_columns(low=pl.when(pl.col("different") >= 4).then(low)).drop("start")
        every = pl.DataFrame({"place": pl.arange(self.lengths.len(), dtype=pl.UInt32, eager=True)})
        return every.join(found, on="place", how="left", maintain_order="left").drop("place")


def spread(lengths: pl.Series) -> pl.Series:
    """Return the place of each text once for each of its ``lengths`` (UInt32)."""
    every = pl.DataFrame({"count": lengths}).with_row_index("place").filter(pl.col("count") > 0)
    return every.select(pl.col("place").repeat_by("count").explode())["place"]


def words_of(texts: Sequence[str]) -> Tokens:
    """Split texts into words, as ``text.words`` does each."""
    column = pl.Series("word", [_spaced(item) for item in texts], dtype=pl.String)
    if column.str.contains(_SPACE).any():
        column = column.str.replace_many(list(_SPACES), [" "] * len(_SPACES))
    parted = column.str.split(" ")
    words, lengths = _flat(parted), parted.list.len()
    there = words.str.len_bytes() > 0
    if not there.all():
        kept = pl.DataFrame({"place": spread(lengths), "there": there})
        counted = kept.group_by("place", maintain_order=True).agg(pl.col("there").sum())
        words, lengths = words.filter(there), counted["there"].cast(pl.UInt32)
    return Tokens(words.hash(SEED), lengths)


def _spaced(item: str) -> str:
    """Return a text whose words are what white space of ASCII separates."""
    return item if item.isascii() else " ".join(text.words(item))


def ids_of(ids: Sequence[Sequence[int]]) -> Tokens:
    """Take token ids as tokens."""
    column = pl.Series("id", ids, dtype=pl.List(pl.Int64)).list.drop_nulls()
    return Tokens(_flat(column).hash(SEED), column.list.len())


def _flat(lists: pl.Series) -> pl.Series:
    """Return the elements of lists one after another; of an empty list none."""
    return lists.filter(lists.list.len() > 0).explode()


class Shelf:
    """Frames in the order in which they came: in memory up to a number of bytes, then on disk."""

    def __init__(self, memory: int, folder: Path, name: str) -> None:
        self._free = memory
        self._folder = folder
        self._name = name
        self._held: list[pl.DataFrame] = []
        self._files: list[tuple[Path, list[int]]] = []
        self._rest: list[pl.DataFrame] = []
        self._size = 0

    def add(self, frame: pl.DataFrame) -> None:
        """Put a frame behind the others. Raises OSError where the disk is full."""
        size = int(frame.estimated_size())
        if size <= self._free and not self._files and not self._rest:
            self._free -= size
            self._held.append(frame)
            return
        self._rest.append(frame)
        self._size += size
        if self._size >= FILE:
            path = self._folder / f"{self._name}-{len(self._files)}.arrow"
            pl.concat(self._rest).write_ipc(path, compression="uncompressed")
            self._files.append((path, [part.height for part in self._rest]))
            self._rest, self._size = [], 0

    def __iter__(self) -> Iterator[pl.DataFrame]:
        """Yield the frames."""
        yield from self._held
        for path, heights in self._files:
            frame, start = pl.read_ipc(path), 0
            for height in heights:
                yield frame.slice(start, height)
                start += height
        yield from self._rest

    def scan(self) -> pl.LazyFrame:
        """Return all frames as one, to be read where it is used."""
        files = [pl.scan_ipc(path) for path, _ in self._files]
        return pl.concat(
            [*(frame.lazy() for frame in self._held), *files, *(one.lazy() for one in self._rest)]
        )


class Counter:
    """How often each key of a stream of texts occurs, exactly."""

    def __init__(self, memory: int, folder: Path, name: str) -> None:
        self.total = 0
        self._memory = memory
        self._folder = folder
        self._name = name
        self._keys = Shelf(memory, folder, name)
        self._counts = Shelf(memory // SMALL, folder, f"{name}-counts")

    def add(self, keys: pl.Series, counts: pl.Series) -> None:
        """Take the keys of the next block of texts (UInt64), and how many each text has."""
        self.total += keys.len()
        self._keys.add(keys.to_frame("key"))
        self._counts.add(counts.to_frame("count"))

    def parts(self, least: int = 1) -> Iterator[pl.DataFrame]:
        """Yield ``key`` and ``count`` of all keys that occur ``least`` times or more.

        The range of keys is gone through in as many parts as memory demands.
        """
        parts = max(-(-2 * 8 * self.total // self._memory), 1)
        if parts > SCANS:
            yield from self._parted(parts, least)
            return
        width = -(-(2**64) // parts)
        for part in range(parts if self.total else 0):
            inside = pl.col("key").is_between(part * width, min((part + 1) * width, 2**64) - 1)
            frames = (frame.filter(inside) if parts > 1 else frame for frame in self._keys)
            yield self._counted(frames).filter(pl.col("count") >= least)

    def _parted(self, parts: int, least: int) -> Iterator[pl.DataFrame]:
        """Write all keys once more, sorted, and read each part of their range out of every file."""
        width = -(-(2**64) // parts)
        cuts = pl.Series([part * width for part in range(1, parts)], dtype=pl.UInt64)
        files: list[tuple[pl.LazyFrame, list[int]]] = []
        for held in _gathered(self._keys, self._memory // 2):
            keys = pl.concat(held).sort()
            path = self._folder / f"{self._name}-sorted-{len(files)}.arrow"
            keys.to_frame("key").write_ipc(path, compression="uncompressed")
            starts = [0, *keys.search_sorted(cuts).to_list(), keys.len()]
            files.append((pl.scan_ipc(path), starts))
        for part in range(parts):
            slices = (
                file.slice(starts[part], starts[part + 1] - starts[part]).collect()
                for file, starts in files
            )
            yield self._counted(slices).filter(pl.col("count") >= least)

    def _counted(self, frames: Iterable[pl.DataFrame]) -> pl.DataFrame:
        """Count keys; those of a part that is too full for memory, as equal ones are, by and by."""
        counted = [_runs(held) for held in _gathered(frames, self._memory)]
        if len(counted) == 1:
            return counted[0]
        return pl.concat(counted).group_by("key").agg(pl.col("count").sum())

    def commonest(self, most: int) -> pl.DataFrame:
        """Return the ``most`` most frequent keys and those that occur as often as the last of them.

        Columns ``key`` and ``count``, most frequent first; of more than ``TIES`` that are equally
        frequent some are left out.
        """
        best = pl.DataFrame(schema={"key": pl.UInt64, "count": pl.UInt32})
        for counted in self.parts():
            best = pl.concat([best, counted])
            if best.height > most:
                best = best.filter(pl.col("count") >= best["count"].top_k(max(most, 1)).min())
            best = best.sort("count", "key", descending=[True, False]).head(most + TIES)
        return best

    def first(self, keys: pl.Series, most: int) -> pl.Series:
        """Return those ``most`` of these keys that come first, or some more."""
        found: list[pl.Series] = []
        for frame in self._keys:
            seen = (
                frame["key"].filter(frame["key"].is_in(keys.implode())).unique(maintain_order=True)
            )
            seen = seen.filter(~seen.is_in(pl.concat(found).implode())) if found else seen
            found.append(seen)
            if sum(map(len, found)) >= most:
                break
        return pl.concat(found) if found else keys

    def where(self, keys: pl.Series) -> Iterator[pl.DataFrame]:
        """Yield for each block which of its texts hold these keys.

        Columns ``place``, ``key``, ``count``, and ``first``: the place of the first among all keys
        of the block.
        """
        for frame, counts in zip(self._keys, self._counts, strict=True):
            held = frame.with_row_index("first").filter(pl.col("key").is_in(keys.implode()))
            ends = counts["count"].cum_sum()
            place = ends.search_sorted(held["first"], side="right")
            held = held.with_columns(place=place.cast(pl.UInt32))
            yield held.group_by("place", "key").agg(count=pl.len(), first=pl.col("first").min())


def _gathered(frames: Iterable[pl.DataFrame], most: int) -> Iterator[list[pl.Series]]:
    """Gather the keys of frames until they take more than ``most`` bytes."""
    held: list[pl.Series] = []
    size = 0
    for frame in frames:
        held.append(frame["key"])
        size += 8 * frame.height
        if size > most:
            yield held
            held, size = [], 0
    if held:
        yield held


def _runs(keys: Sequence[pl.Series]) -> pl.DataFrame:
    """Count equal keys."""
    counted = pl.concat(keys).sort().rle().struct.unnest()
    return counted.select(key="value", count="len")
