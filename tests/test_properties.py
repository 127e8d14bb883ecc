"""What holds for every input: cut, damaged, thinned and prolonged logs."""

from __future__ import annotations

import json
import math
import tempfile
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlhfdoctor.doctor import diagnose
from rlhfdoctor.errors import DoctorError
from rlhfdoctor.model import Diagnosis, Run
from rlhfdoctor.readers import Reader
from rlhfdoctor.readers.jsonl import jsonl
from rlhfdoctor.readers.samples import samples
from rlhfdoctor.runs import read_runs
from tests.builders import HEALTHY, log_history, write_jsonl, write_state
from tests.readers.helpers import read, write

QUICK = settings(deadline=None, max_examples=30)

NUMBERS = st.floats() | st.integers(-(10**40), 10**40)
METRICS = st.dictionaries(
    st.sampled_from(["loss", "kl", "reward", "\u5956\u52b1", "a b", "eval_loss"]),
    NUMBERS | st.none() | st.booleans() | st.text(max_size=5) | st.lists(NUMBERS, max_size=2),
    max_size=4,
)
SAMPLES = st.fixed_dictionaries(
    {"response": st.text(max_size=12)},
    optional={
        "prompt": st.text(max_size=5),
        "reward": NUMBERS,
        "logprobs": st.lists(st.floats(), max_size=3),
        "rewards": st.dictionaries(st.text(max_size=3), NUMBERS, max_size=2),
    },
)


def items_of(reader: Reader, data: bytes) -> tuple[list[str], list[str], int]:
    """Return what a reader makes of a JSON Lines file: items, notes, records left out."""
    with tempfile.TemporaryDirectory() as folder:
        found = read(reader, write(Path(folder) / "x.jsonl", data))
    items = [repr(item) for item in (*found.rows, *found.samples)]
    return items, [note.text for note in found.notes], found.left_out


@pytest.mark.parametrize(
    ("reader", "records"),
    [
        pytest.param(jsonl, METRICS, id="metrics"),
        pytest.param(samples, SAMPLES, id="samples"),
    ],
)
def test_a_cut_file_holds_fewer_records_and_no_other_ones(
    reader: Reader, records: st.SearchStrategy[dict[str, Any]]
) -> None:
    @given(st.lists(records, min_size=1, max_size=6), st.floats(0, 1), st.booleans(), st.booleans())
    @QUICK
    def check(rows: list[dict[str, Any]], where: float, ascii_only: bool, crlf: bool) -> None:
        end = "\r\n" if crlf else "\n"
        text = "".join(
            json.dumps({"step": step, **row}, ensure_ascii=ascii_only) + end
            for step, row in enumerate(rows)
        )
        whole = text.encode()
        cut = whole[: int(where * len(whole))]
        original, _, _ = items_of(reader, whole)
        items, notes, left_out = items_of(reader, cut)
        assert items == original[: len(items)]
        assert len(original) == len(rows)
        ended = cut.count(b"\n")
        tail = cut[cut.rfind(b"\n") + 1 :].strip()
        assert len(items) + left_out == ended + bool(tail)
        assert len(items) in (ended, ended + 1)
        assert left_out == ("last line is cut; the file ends inside a record" in notes)

    check()


NAMES = (
    "log.jsonl",
    "my_samples.json",
    "train_log.json",
    "trainer_state.json",
    "run_config.json",
    "checkpoint-3/trainer_state.json",
    "checkpoint-3/model.safetensors",
    "checkpoint-3/model.safetensors.index.json",
)
KEYS = st.sampled_from(
    [
        "step",
        "epoch",
        "loss",
        "kl",
        "reward",
        "reward_std",
        "completions/mean_length",
        "rewards/x/mean",
        "objective/kl",
        "eval_loss",
        "response",
        "chosen",
        "logprobs",
        "token_ids",
        "rewards",
        "log_history",
        "max_steps",
        "global_step",
        "weight_map",
        "algorithm",
        "ref_model",
        "",
        "\u5956",
        "x\ud800",
        "\udfff",
        "rewards/\udc00\n/mean",
    ]
)
SCALARS = (
    st.sampled_from(
        [None, True, False, 0, 1, -1, 7, 0.5, -2.25, 10**400, math.nan, math.inf, -math.inf]
    )
    | st.sampled_from([2**53 - 1, 2**53, 2**63, -(2**63) - 1025, 10**19, 1e300, -1e308])
    | st.sampled_from(["", "NaN", "inf", "3", "grpo", "word", "\u5956\u52b1 x", "a\ud800b"])
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=8,
)
TABLES = st.dictionaries(KEYS, VALUES, max_size=6)
DEEP = st.sampled_from(
    [
        opening * depth + "1" + closing * depth
        for depth in (32, 33, 1000)
        for opening, closing in (('{"a":', "}"), ("[", "]"), ('{"step":', "}"))
    ]
)
DAMAGE = st.tuples(
    st.floats(0, 1), st.integers(0, 2), st.sampled_from([b"", b"}", b"[", b'"', b",", b"\xff\x00"])
)


def documents(name: str) -> st.SearchStrategy[bytes]:
    """Draw what a file of that name might hold when it is damaged."""
    if name.endswith(".jsonl"):
        rows = TABLES.map(json.dumps) | DEEP
        text = st.lists(rows, max_size=6).map("\n".join)
    elif name.endswith("trainer_state.json"):
        rows = VALUES.map(json.dumps) | DEEP
        text = st.lists(rows, max_size=6).map(
            lambda rows: f'{{"log_history": [{",".join(rows)}], "global_step": 3}}'
        )
    else:
        text = (st.lists(TABLES, max_size=4) | TABLES).map(json.dumps) | DEEP

    def damaged(parts: tuple[str, list[tuple[float, int, bytes]]]) -> bytes:
        data = parts[0].encode()
        for where, length, instead in parts[1]:
            start = int(where * len(data))
            data = data[:start] + instead + data[start + length :]
        return data

    return st.tuples(text, st.lists(DAMAGE, max_size=3)).map(damaged) | st.binary(max_size=60)


FOLDERS = st.fixed_dictionaries({}, optional={name: documents(name) for name in NAMES})


@given(FOLDERS)
@settings(deadline=None, max_examples=50)
def test_whatever_a_folder_holds_reading_it_is_a_run_or_an_error_with_a_hint(
    files: dict[str, bytes],
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        for name, data in files.items():
            write(Path(folder) / name, data)
        error: DoctorError | None = None
        runs: tuple[Run, ...] = ()
        try:
            runs = read_runs(folder)
        except DoctorError as caught:
            error = caught
    assert bool(runs) is (error is None)
    assert error is None or (error.message and error.hint)
    if error is not None:
        f"{error.message} {error.hint}".encode()
    for run in runs:
        frame = run.samples.collect()
        assert frame.height == run.sample_count
        told = [f"{note.where} {note.text}" for note in run.notes]
        settings_told = [str(setting.value) for setting in run.config.values()]
        "\n".join([*told, *settings_told, *run.unmapped, *run.columns]).encode()
        assert run.observations.collect()["step"].null_count() == 0
        assert run.observations.collect()["step"].abs().max() is None or (
            run.observations.collect()["step"].abs().max() < 2**53  # type: ignore[operator]
        )
        assert set(run.columns) == set(run.metrics.columns) - {"step", "epoch"}


def test_a_thousand_rows_of_keys_that_nothing_else_has_stay_a_long_table(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [
        {
            "step": step,
            "loss": 1.0,
            f"own/{step}": 2.0,
            f"text/{step}": "word",
            f"rewards/{step}/mean": 3.0,
            "deep": {f"k{step}": {"x": 4.0}},
        }
        for step in range(1, 1001)
    ]
    (run,) = read_runs(write_jsonl(tmp_path / "log.jsonl", rows), dialect="generic")
    assert run.metrics.shape == (1000, 3)
    assert run.observations.collect().height == 4000
    assert run.observations.collect()["key"].n_unique() == 3001
    assert len(run.unmapped) == 3000
    assert set(run.columns) == {"loss_total"}
    assert len(run.notes) == 1
    assert len(run.notes[0].text) < 1000
    (grpo,) = read_runs(tmp_path / "log.jsonl", dialect="trl_grpo")
    assert grpo.metrics.shape == (1000, 2 + 1 + 200)
    assert grpo.observations.collect().height == 4000


def test_evaluation_keys_of_all_rows_stay_a_long_table(tmp_path: Path) -> None:
    rows = [{"step": step, "loss": 1.0, f"eval_own/{step}": 2.0} for step in range(1, 1001)]
    (run,) = read_runs(write_state(tmp_path, rows))
    assert run.metrics.shape == (1000, 3)
    assert run.observations.collect().filter(pl.col("split") == "eval").height == 1000
    assert run.observations.collect().height == 2000


PLAIN = KEYS.filter(lambda key: key != "log_history")


@given(
    st.lists(
        st.dictionaries(PLAIN, SCALARS | st.dictionaries(PLAIN, SCALARS, max_size=3), max_size=6),
        min_size=1,
        max_size=8,
    )
)
@settings(deadline=None, max_examples=50)
def test_the_record_holds_every_number_under_the_key_that_was_logged(
    rows: list[dict[str, Any]],
) -> None:
    numbered = [
        {"step": step, "loss": 1.0, **{f"k/{key}": value for key, value in row.items()}}
        for step, row in enumerate(rows, start=1)
    ]
    with tempfile.TemporaryDirectory() as folder:
        path = write_jsonl(Path(folder) / "log.jsonl", numbered)
        found = read(jsonl, path)
        (run,) = read_runs(path)
    expected = [
        (row.step, key, repr(value)) for row in found.rows for key, value in row.values.items()
    ]
    logged = run.observations.collect().select("step", "key", "value").iter_rows()
    assert sorted((step, key, repr(value)) for step, key, value in logged) == sorted(
        expected, key=lambda entry: (entry[0] or 0, *entry[1:])
    )
    assert run.metrics.height == len(rows)


def verdict(folder: Path | str, rows: list[dict[str, Any]]) -> Diagnosis:
    """Diagnose a log alone, without samples, configuration or checkpoints."""
    found = read_runs(write_state(Path(folder), rows))
    assert len(found) == 1
    return diagnose(found[0])


@given(st.integers(10, 120), st.lists(st.integers(0, 119), max_size=80))
@settings(deadline=None, max_examples=25)
def test_healthy_rows_after_a_healthy_beginning_are_never_a_collapse(
    length: int, after: list[int]
) -> None:
    healthy = log_history("grpo_healthy")[:120]
    more = [
        {**healthy[index], "step": length + number} for number, index in enumerate(after, start=1)
    ]
    with tempfile.TemporaryDirectory() as folder:
        found = verdict(folder, [*healthy[:length], *more])
    assert [item.code for item in found.findings if item.severity == "critical"] == []
    assert found.verdict != "collapsed"


@pytest.mark.parametrize("name", HEALTHY)
def test_every_beginning_of_a_healthy_run_is_healthy(tmp_path: Path, name: str) -> None:
    rows = log_history(name)
    for length in (*range(10, len(rows), max(len(rows) // 11, 1)), len(rows)):
        found = verdict(tmp_path, rows[:length])
        assert (length, found.verdict, found.headline) == (length, "healthy", found.headline)


@pytest.mark.parametrize("stride", [2, 5])
@pytest.mark.parametrize("name", HEALTHY)
def test_a_thinned_healthy_run_is_healthy(tmp_path: Path, name: str, stride: int) -> None:
    rows = log_history(name)
    for offset in range(stride):
        found = verdict(tmp_path, rows[offset::stride])
        assert (offset, found.verdict, found.headline) == (offset, "healthy", found.headline)


@pytest.mark.parametrize("name", HEALTHY)
def test_a_healthy_log_reads_the_same_as_lines_and_as_a_state(tmp_path: Path, name: str) -> None:
    rows = log_history(name)
    state = read_runs(write_state(tmp_path / "a", rows))[0]
    lines = read_runs(write_jsonl(tmp_path / "b" / "log.jsonl", rows))[0]
    assert state.metrics.equals(lines.metrics)
    assert state.dialect == lines.dialect
    assert diagnose(lines).verdict == "healthy"


def test_fewer_than_ten_rows_are_never_called_healthy(tmp_path: Path) -> None:
    rows = log_history("grpo_healthy")
    for length in range(1, 10):
        assert verdict(tmp_path, rows[:length]).verdict == "inconclusive"
