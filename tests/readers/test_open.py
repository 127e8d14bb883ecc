import gzip
import io
import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from rlhfdoctor.readers import _open
from rlhfdoctor.readers._open import bare, contents, fault_of, opened, unpacked
from rlhfdoctor.runs import read_runs

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

TEXT = b"".join(b'{"step": %d, "loss": %f}\n' % (n, 1 / n) for n in range(1, 30_000))
Pack = Callable[[bytes], bytes]
PACKS = [pytest.param(gzip.compress, id="gzip"), pytest.param(zstd.compress, id="zstd")]


@pytest.mark.parametrize("pack", PACKS)
@pytest.mark.parametrize("name", ["log.jsonl", "log.jsonl.gz", "log.jsonl.zst", "log.jsonl.GZ"])
def test_the_magic_decides_and_not_the_name(tmp_path: Path, pack: Pack, name: str) -> None:
    (tmp_path / name).write_bytes(pack(TEXT))
    assert contents(tmp_path / name) == TEXT
    (run,) = read_runs(tmp_path)
    assert run.logged_steps == 29_999
    assert run.sources[0].file == name


def test_what_is_not_packed_is_read_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl.gz"
    path.write_bytes(TEXT)
    assert contents(path) == TEXT
    assert read_runs(path)[0].logged_steps == 29_999


@pytest.mark.parametrize("pack", PACKS)
def test_packed_parts_put_end_to_end_are_one_file(tmp_path: Path, pack: Pack) -> None:
    path = tmp_path / "log"
    path.write_bytes(pack(TEXT[:100]) + pack(TEXT[100:]))
    assert contents(path) == TEXT


@pytest.mark.parametrize("pack", PACKS)
def test_of_a_cut_file_the_beginning_is_read_and_the_cut_noted(tmp_path: Path, pack: Pack) -> None:
    packed = pack(TEXT)
    path = tmp_path / "log.jsonl"
    for size in range(24, len(packed) - 1, 9973):
        path.write_bytes(packed[:size])
        with opened(path) as file:
            read = file.read()
            assert TEXT.startswith(read)
            assert "is packed and damaged or cut" in (fault_of(file) or "")
    path.write_bytes(packed[: len(packed) * 3 // 4])
    (run,) = read_runs(path)
    assert 0 < run.logged_steps < 29_999
    assert any("packed and damaged" in note.text for note in run.notes)


@pytest.mark.parametrize("pack", PACKS)
def test_a_flipped_byte_ends_the_file(tmp_path: Path, pack: Pack) -> None:
    packed = bytearray(pack(TEXT))
    packed[len(packed) // 2] ^= 0xFF
    path = tmp_path / "log"
    path.write_bytes(packed)
    with opened(path) as file:
        read = file.read()
        assert fault_of(file) or read != TEXT


@pytest.mark.parametrize("pack", PACKS)
def test_a_bomb_is_unpacked_to_a_bound(
    tmp_path: Path, pack: Pack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_open, "FREE", 2**20)
    monkeypatch.setattr(_open, "MOST_TIMES", 1)
    path = tmp_path / "log"
    path.write_bytes(pack(bytes(2**24)))
    with opened(path) as file:
        assert len(file.read()) <= 2**20
        assert "unpacks to more than" in (fault_of(file) or "")


@pytest.mark.parametrize("pack", PACKS)
def test_a_packed_file_lies_unpacked_for_a_while(tmp_path: Path, pack: Pack) -> None:
    path = tmp_path / "log"
    path.write_bytes(pack(TEXT))
    with unpacked(path) as place:
        assert place != path
        assert place.read_bytes() == TEXT
    assert not place.exists()
    path.write_bytes(TEXT)
    with unpacked(path) as place:
        assert place == path


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("log.jsonl", "log.jsonl"),
        ("log.jsonl.gz", "log.jsonl"),
        ("events.zst", "events"),
        ("gz", "gz"),
    ],
)
def test_a_name_without_what_packing_added(name: str, told: str) -> None:
    assert bare(name) == told


def test_a_plain_file_has_no_fault() -> None:
    assert fault_of(io.BufferedReader(io.BytesIO(json.dumps({}).encode()))) is None
