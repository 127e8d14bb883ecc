import json
import math
import os
import signal
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from rlhfdoctor.claims import CONTAINERS, claim
from rlhfdoctor.errors import DoctorError, UnreadableRun
from rlhfdoctor.model import Location, Note, Run, Sample
from rlhfdoctor.runs import read_runs, samples_as_run
from tests.builders import FIXTURES, RUNS, log_history, write_jsonl, write_state

Record = Mapping[str, Any]


def only(path: Path, **arguments: Any) -> Run:
    found = read_runs(path, **arguments)
    assert len(found) == 1
    return found[0]


def column(run: Run, name: str) -> dict[int, float | None]:
    return dict(run.metrics.select("step", name).iter_rows())


def told(run: Run) -> str:
    notes = [f"{note.where}: {note.text}" for note in run.notes]
    notes += [
        f"{item.key}: files disagree at {item.steps} steps, first at {item.first_step}"
        for item in run.conflicts
    ]
    notes += [f"{seam.where.file}: resumed at {seam.step} after {seam.left}" for seam in run.seams]
    return "\n".join(notes)


def losses(*values: float, first: int = 1) -> list[dict[str, Any]]:
    return [{"step": step, "loss": value} for step, value in enumerate(values, start=first)]


# Several files of one run


def test_copies_in_checkpoints_are_recorded_once_and_not_noted(tmp_path: Path) -> None:
    rows = losses(1.0, 0.9, 0.8, 0.7)
    write_state(tmp_path, rows, global_step=4)
    write_state(tmp_path / "checkpoint-2", rows[:2], global_step=2)
    write_state(tmp_path / "checkpoint-4", rows, global_step=4)
    run = only(tmp_path)
    assert column(run, "loss_total") == {1: 1.0, 2: 0.9, 3: 0.8, 4: 0.7}
    assert run.observations.collect().height == 4
    assert set(run.observations.collect()["source"]) == {"trainer_state.json"}
    assert "disagree" not in told(run)
    assert {source.file for source in run.sources if source.reader == "trainer_state"} == {
        "trainer_state.json",
        "checkpoint-2/trainer_state.json",
        "checkpoint-4/trainer_state.json",
    }


def test_the_youngest_copy_wins_key_by_key(tmp_path: Path) -> None:
    write_state(
        tmp_path,
        [{"step": 1, "loss": 9.0, "grad_norm": 0.5}, {"step": 2, "loss": 8.0}],
        global_step=2,
    )
    write_state(
        tmp_path / "checkpoint-30",
        [{"step": 1, "loss": 1.0, "learning_rate": 0.1}, {"step": 3, "loss": 3.0}],
        global_step=30,
    )
    run = only(tmp_path)
    assert column(run, "loss_total") == {1: 1.0, 2: 8.0, 3: 3.0}
    assert column(run, "grad_norm") == {1: 0.5, 2: None, 3: None}
    assert column(run, "lr") == {1: 0.1, 2: None, 3: None}
    assert ("loss: files disagree at 1 steps, first at 1") in told(run).splitlines()


@pytest.mark.parametrize(
    ("old", "young", "first"),
    [
        pytest.param([1.0, 2.0, 3.0], [1.0, 2.0, 3.0], None, id="equal copies"),
        pytest.param([1.0], [1.0 + 1e-7], None, id="rounding to float32"),
        pytest.param([1e-12], [1e-12 * (1 + 1e-7)], None, id="rounding of a small number"),
        pytest.param([math.nan], [math.nan], None, id="NaN in both"),
        pytest.param([1.0, 2.0, 3.0], [1.0, 2.5, 4.0], 2, id="another number from step 2"),
        pytest.param([1.0, 2.0], [1.0, 2.00001], 2, id="a difference beyond rounding"),
        pytest.param([1.0, math.nan], [1.0, 2.0], 2, id="NaN against a number"),
        pytest.param([0.0], [1e-9], 1, id="zero against next to nothing"),
        pytest.param([-1.0], [1.0], 1, id="another sign"),
        pytest.param([1.0, math.inf], [1.0, 5.0], 2, id="infinity against a number"),
        pytest.param([5.0], [-math.inf], 1, id="a number against minus infinity"),
        pytest.param([math.inf], [-math.inf], 1, id="infinity of either sign"),
        pytest.param([math.inf], [math.nan], 1, id="infinity against NaN"),
        pytest.param([math.inf], [math.inf], None, id="infinity in both"),
        pytest.param([1e308], [-1e308], 1, id="a difference beyond any float"),
    ],
)
def test_disagreements_are_noted_with_their_first_step(
    tmp_path: Path, old: list[float], young: list[float], first: int | None
) -> None:
    write_state(tmp_path / "checkpoint-1", losses(*old), global_step=1)
    write_state(tmp_path, losses(*young), global_step=9)
    run = only(tmp_path)
    assert list(column(run, "loss_total").values()) == pytest.approx(young, nan_ok=True, rel=1e-12)
    if first is None:
        assert "disagree" not in told(run)
    else:
        assert told(run).endswith(f"first at {first}")


def test_a_state_that_was_cut_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    text = '{"log_history": [{"step": 1, "loss": 2.0}, {"step": 2, "loss": 1.0}, {"st'
    (tmp_path / "trainer_state.json").write_text(text, encoding="utf-8")
    run = only(tmp_path)
    assert column(run, "loss_total") == {1: 2.0, 2: 1.0}
    assert told(run) == "trainer_state.json: is cut or damaged; 2 records before that were read"
    assert [note.left_out for note in run.notes] == [1]


def test_the_trainers_state_wins_over_a_log_of_its_own(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "zzz_log.jsonl", losses(5.0, 6.0, 7.0))
    write_state(tmp_path, losses(1.0, 2.0), global_step=2)
    assert column(only(tmp_path), "loss_total") == {1: 1.0, 2: 2.0, 3: 7.0}


def test_two_logs_with_different_keys_are_one_table(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "a.jsonl", losses(1.0, 2.0))
    write_jsonl(tmp_path / "b.jsonl", [{"step": 2, "reward": 0.5}, {"step": 5, "reward": 0.75}])
    run = only(tmp_path)
    assert column(run, "loss_total") == {1: 1.0, 2: 2.0, 5: None}
    assert column(run, "reward_raw_mean") == {1: None, 2: 0.5, 5: 0.75}
    assert run.logged_steps == 3
    assert (run.first_step, run.last_step) == (1, 5)


@pytest.mark.parametrize(
    "names",
    [
        ("a.jsonl", "b.jsonl", "c.jsonl"),
        ("c.jsonl", "b.jsonl", "a.jsonl"),
        ("b.jsonl", "c.jsonl", "a.jsonl"),
    ],
)
def test_the_order_of_files_changes_nothing(tmp_path: Path, names: Sequence[str]) -> None:
    rows = log_history("grpo_healthy")
    thirds = (rows[:50], rows[40:90], rows[80:])
    for part, name in zip(thirds, names, strict=True):
        write_jsonl(tmp_path / name, part)
    run = only(tmp_path, dialect="trl_grpo")
    write_jsonl(tmp_path / "whole" / "log.jsonl", rows)
    whole = only(tmp_path / "whole", dialect="trl_grpo")
    assert run.metrics.equals(whole.metrics)
    assert sorted(run.columns) == sorted(whole.columns)
    assert "disagree" not in told(run)


def test_renamed_checkpoints_change_nothing(tmp_path: Path) -> None:
    rows = log_history("grpo_healthy")
    frames = []
    for number, (early, late) in enumerate(
        (("checkpoint-2", "checkpoint-9"), ("checkpoint_0009", "checkpoint_0002"))
    ):
        folder = tmp_path / str(number)
        changed = [{**row, "loss": 1.0} for row in rows]
        write_state(folder / early, rows[:40], global_step=40)
        write_state(folder / late, changed[:80], global_step=80)
        run = only(folder)
        assert "loss: files disagree at 40 steps, first at 1" in told(run)
        assert set(column(run, "loss_total").values()) == {1.0}
        frames.append(run.metrics)
    assert frames[0].equals(frames[1])


# Steps


def test_a_step_twice_in_one_file_merges_key_by_key(tmp_path: Path) -> None:
    path = write_jsonl(
        tmp_path / "log.jsonl",
        [
            {"step": 1, "loss": 1.0, "grad_norm": 0.5},
            {"step": 1, "loss": 2.0, "reward": 3.0},
            {"step": 1, "loss": None},
            {"step": 2, "loss": 4.0},
        ],
    )
    run = only(path)
    assert run.metrics.to_dicts() == [
        {"step": 1, "epoch": None, "grad_norm": 0.5, "loss_total": 2.0, "reward_raw_mean": 3.0},
        {"step": 2, "epoch": None, "grad_norm": None, "loss_total": 4.0, "reward_raw_mean": None},
    ]
    assert run.logged_steps == 2
    assert run.notes == ()


def test_a_step_that_goes_back_is_noted_and_the_later_rows_kept(tmp_path: Path) -> None:
    rows = [*losses(1.0, 2.0, 3.0), *losses(20.0, 30.0, 40.0, first=2)]
    run = only(write_jsonl(tmp_path / "log.jsonl", rows))
    assert column(run, "loss_total") == {1: 1.0, 2: 20.0, 3: 30.0, 4: 40.0}
    assert told(run) == "log.jsonl: resumed at 2 after 3"
    segments = run.observations.collect().sort("line")["segment"].to_list()
    assert segments == [0, 0, 0, 1, 1, 1]


@pytest.mark.parametrize(
    ("steps", "parts"),
    [
        pytest.param([1, 2, 3, 1, 2], [[1, 2, 3], [1, 2]], id="back to the beginning"),
        pytest.param([10, 20, 30, 5, 15], [[10, 20, 30], [5, 15]], id="back to before it"),
        pytest.param([1, 2, 1, 1, 2, 1], [[1, 2], [1, 1, 2], [1]], id="twice over"),
        pytest.param([0, 5, 0, 5, 2], [[0, 5], [0, 5, 2]], id="a resume in the second run"),
        pytest.param([1, 2, 3, 2, 3, 4], [[1, 2, 3, 2, 3, 4]], id="less far back is a resume"),
        pytest.param([5, 5, 5], [[5, 5, 5]], id="the same step again"),
    ],
)
def test_a_log_that_starts_over_holds_several_runs(
    tmp_path: Path, steps: list[int], parts: list[list[int]]
) -> None:
    rows = [{"step": step, "loss": float(index)} for index, step in enumerate(steps)]
    write_jsonl(tmp_path / "run" / "log.jsonl", rows)
    write_jsonl(tmp_path / "run" / "samples.jsonl", [{"step": 1, "response": "x"}])
    (tmp_path / "run" / "checkpoint-1").mkdir()
    (tmp_path / "run" / "args.json").write_text('{"beta": 0.5}', encoding="utf-8")
    runs = read_runs(tmp_path / "run")
    assert [run.observations.collect().sort("line")["step"].to_list() for run in runs] == parts
    assert [run.number("kl_coef") for run in runs] == [0.5] * len(parts)
    assert [run.sample_count for run in runs] == [*[0] * (len(parts) - 1), 1]
    assert [len(run.checkpoints) for run in runs] == [*[0] * (len(parts) - 1), 1]
    assert {run.path for run in runs} == {str(tmp_path / "run")}
    if len(parts) == 1:
        assert [run.name for run in runs] == ["run"]
        assert "starts over" not in told(runs[0])
        return
    assert [run.name for run in runs] == [f"run#{number}" for number in range(1, len(parts) + 1)]
    for number, run in enumerate(runs, start=1):
        note = f"log.jsonl: starts over {len(parts) - 1} times; this is run {number}"
        assert note in told(run).splitlines()
        assert {source.file for source in run.sources} >= {"log.jsonl", "args.json"}


def test_an_evaluation_that_looks_back_starts_nothing_over(tmp_path: Path) -> None:
    rows = [*losses(1.0, 2.0, 3.0), {"step": 1, "eval_loss": 4.0}, *losses(5.0, first=4)]
    run = only(write_jsonl(tmp_path / "log.jsonl", rows))
    assert column(run, "loss_total") == {1: 1.0, 2: 2.0, 3: 3.0, 4: 5.0}
    assert column(run, "eval_loss_total") == {1: 4.0, 2: None, 3: None, 4: None}
    assert run.notes == ()


def test_of_several_logs_one_that_starts_over_is_cut_and_its_later_part_believed(
    tmp_path: Path,
) -> None:
    write_jsonl(tmp_path / "a.jsonl", [*losses(1.0, 2.0), *losses(3.0, 4.0)])
    write_jsonl(tmp_path / "b.jsonl", [{"step": 1, "reward": 1.0}])
    run = only(tmp_path)
    assert column(run, "loss_total") == {1: 3.0, 2: 4.0}
    assert "a.jsonl: starts over 1 times" in told(run)


@pytest.mark.parametrize("step", [2**53, 10**19, 1e300, -(2**63) - 1025])
def test_steps_that_no_float_counts_are_absent(tmp_path: Path, step: float) -> None:
    path = write_jsonl(tmp_path / "log.jsonl", [*losses(1.0, 2.0), {"step": step, "loss": 9.0}])
    run = only(path)
    assert column(run, "loss_total") == {1: 1.0, 2: 2.0}
    assert told(run) == "log.jsonl: 1 rows carry no step and were left out"
    assert [note.left_out for note in run.notes] == [1]


def full(step: int | None, **more: float) -> Record:
    row: Record = {"loss": 1.0, "reward": 2.0, "kl": 0.1, **more}
    return row if step is None else {"step": step, **row}


@pytest.mark.parametrize(
    ("rows", "steps", "left_out"),
    [
        pytest.param([full(1), full(None)], [1, 2], 0, id="after a single step, the next"),
        pytest.param([full(10), full(20), full(None)], [10, 20, 30], 0, id="one interval later"),
        pytest.param(
            [full(10), full(20), full(None), full(40)], [10, 20, 30, 40], 0, id="in between"
        ),
        pytest.param(
            [full(1), full(2), full(None), full(3)], [1, 2, 3], 1, id="where no step is free"
        ),
        pytest.param(
            [full(1), {"train_runtime": 9.0, "train_loss": 1.0}], [1], 1, id="a summary of the run"
        ),
        pytest.param(
            [{"step": 1, "loss": 1.0, "kl": 1.0}, {"loss": 1.0, "kl": 1.0}],
            [1],
            1,
            id="rows of two keys",
        ),
        pytest.param(
            [full(1, a=1, b=2, c=3, d=4), full(None)], [1], 1, id="a row of half the keys"
        ),
        pytest.param([full(None), full(1), full(2)], [1, 2], 1, id="before the first step"),
    ],
)
def test_a_row_without_a_step_takes_the_one_that_is_due(
    tmp_path: Path, rows: list[Record], steps: list[int], left_out: int
) -> None:
    run = only(write_jsonl(tmp_path / "log.jsonl", rows))
    assert run.metrics["step"].to_list() == steps
    assert sum(note.left_out for note in run.notes) == left_out


def test_steps_that_begin_at_zero_or_jump_are_kept(tmp_path: Path) -> None:
    rows = [{"step": step, "loss": 1.0} for step in (0, 10, 500)]
    run = only(write_jsonl(tmp_path / "log.jsonl", rows))
    assert run.metrics["step"].to_list() == [0, 10, 500]
    assert run.notes == ()


@pytest.mark.parametrize(
    ("rows", "steps", "unit", "note"),
    [
        pytest.param(
            [{"loss": 1}, {"loss": 2}, {"loss": 3}],
            [1, 2, 3],
            "row",
            "no step is logged; the rows were numbered from 1",
            id="no step at all",
        ),
        pytest.param(
            [{"step": 5, "loss": 1}, {"loss": 2}, {"loss": 3}],
            [1, 2, 3],
            "row",
            "most rows carry no step; the rows were numbered from 1",
            id="a step in one row of three",
        ),
        pytest.param(
            [{"step": 5, "loss": 1}, {"loss": 2}],
            [5],
            "step",
            "1 rows carry no step and were left out",
            id="a step in half the rows",
        ),
        pytest.param([{"step": 5, "loss": 1}], [5], "step", "", id="a step in every row"),
    ],
)
def test_rows_without_a_step(
    tmp_path: Path, rows: list[Record], steps: list[int], unit: str, note: str
) -> None:
    run = only(write_jsonl(tmp_path / "log.jsonl", rows))
    assert run.metrics["step"].to_list() == steps
    assert run.step_unit == unit
    assert told(run) == (f"log.jsonl: {note}" if note else "")


def test_rows_without_a_step_are_numbered_by_the_logging_interval(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "log.jsonl", [{"loss": 1}, {"eval_loss": 5}, {"loss": 2}])
    (tmp_path / "args.json").write_text('{"logging_steps": 10}', encoding="utf-8")
    run = only(tmp_path)
    assert column(run, "loss_total") == {10: 1.0, 20: 2.0}
    assert column(run, "eval_loss_total") == {10: 5.0, 20: None}
    assert run.step_unit == "step"
    assert "numbered by logging_steps = 10" in told(run)


def test_rows_without_a_step_take_those_of_a_log_that_tells_the_same(tmp_path: Path) -> None:
    rows = [{"step": 10 * n, "loss": 1 / n, "kl": 0.1234567 * n} for n in range(1, 6)]
    write_state(tmp_path, rows, global_step=50)
    printed = [{"loss": 1 / n, "kl": 0.1234567 * n} for n in range(2, 9)]
    write_jsonl(tmp_path / "console.jsonl", printed)
    run = only(tmp_path, mapping={"kl": "kl_ref_token"})
    assert list(column(run, "kl_ref_token")) == [10, 20, 30, 40, 50, 60, 70, 80]
    assert column(run, "kl_ref_token")[20] == pytest.approx(0.2469134)
    assert column(run, "kl_ref_token")[80] == pytest.approx(0.9876536)
    assert run.step_unit == "step"
    assert "its rows are those of trainer_state.json, whose steps they take" in told(run)


def test_a_log_that_lags_by_one_is_put_right(tmp_path: Path) -> None:
    values = [0.5, 0.25, 0.75, 0.125, 0.375, 0.625]
    write_state(tmp_path, losses(*values), global_step=6)
    write_jsonl(tmp_path / "lag.jsonl", losses(*values, first=0))
    run = only(tmp_path)
    assert column(run, "loss_total") == dict(enumerate(values, start=1))
    assert run.conflicts == ()
    assert "lag.jsonl: its rows are those of trainer_state.json" in told(run)


def test_a_log_that_agrees_nowhere_keeps_its_steps(tmp_path: Path) -> None:
    write_state(tmp_path, losses(0.5, 0.25, 0.75, 0.125), global_step=4)
    write_jsonl(tmp_path / "other.jsonl", losses(9.0, 8.0, 7.0, 6.0))
    assert len(only(tmp_path).conflicts) == 1


# Several processes


def test_logs_of_ranks_are_averaged_and_are_no_disagreement(tmp_path: Path) -> None:
    for rank, values in enumerate(([1.0, 2.0], [3.0, 4.0])):
        rows = [{"step": step, "loss": value} for step, value in enumerate(values, start=1)]
        write_jsonl(tmp_path / f"log_rank{rank}.jsonl", rows)
    run = only(tmp_path)
    assert column(run, "loss_total") == {1: 2.0, 2: 3.0}
    assert run.conflicts == ()
    assert told(run) == (
        "ranks: 2 ranks were averaged with equal weight; "
        "they lie furthest apart in loss_total, by 2 at step 1"
    )
    assert sorted(run.observations.collect()["rank"]) == [0, 0, 1, 1]


def test_rows_that_name_their_rank_are_averaged_too(tmp_path: Path) -> None:
    rows = [{"step": 1, "rank": rank, "loss": float(rank)} for rank in (0, 1, 2)]
    assert column(only(write_jsonl(tmp_path / "log.jsonl", rows)), "loss_total") == {1: 1.0}


# Values


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        pytest.param("null", None, id="null stays null"),
        pytest.param("NaN", math.nan, id="NaN stays NaN"),
        pytest.param('"NaN"', math.nan, id="a NaN string becomes NaN"),
        pytest.param('"inf"', math.inf, id="an inf string becomes infinity"),
        pytest.param("Infinity", math.inf, id="infinity stays infinite"),
        pytest.param("-Infinity", -math.inf, id="minus infinity, too"),
        pytest.param("0", 0.0, id="zero stays zero"),
    ],
)
@pytest.mark.parametrize("form", ["log.jsonl", "trainer_state.json"])
def test_nothing_is_filled_in(
    tmp_path: Path, form: str, written: str, expected: float | None
) -> None:
    rows = [f'{{"step": 1, "loss": {written}, "kl": 1}}', '{"step": 2, "loss": 0.5, "kl": 1}']
    text = "\n".join(rows) if form == "log.jsonl" else f'{{"log_history": [{",".join(rows)}]}}'
    (tmp_path / form).write_text(text, encoding="utf-8")
    run = only(tmp_path)
    value = run.metrics["loss_total"].to_list()[0]
    assert value is None if expected is None else value == pytest.approx(expected, nan_ok=True)
    observed = run.observations.collect().filter(pl.col("key") == "loss")
    assert observed.height == (1 if expected is None else 2)


def test_a_key_that_is_null_throughout_is_no_column(tmp_path: Path) -> None:
    rows = [{"step": step, "loss": 1.0, "reward": None} for step in (1, 2)]
    run = only(write_jsonl(tmp_path / "log.jsonl", rows))
    assert "reward_raw_mean" not in run.columns
    assert "reward_raw_mean" not in run.metrics.columns


def test_a_key_that_first_appears_at_row_5000_is_a_column(tmp_path: Path) -> None:
    rows: list[Record] = [*losses(*[0.5] * 4999), {"step": 5000, "loss": 0.5, "kl": 0.125}]
    run = only(write_jsonl(tmp_path / "log.jsonl", rows), mapping={"kl": "kl_ref_token"})
    assert column(run, "kl_ref_token")[5000] == 0.125
    assert run.columns["kl_ref_token"].sources == (Location("log.jsonl", key="kl"),)
    assert run.logged_steps == 5000


def test_of_two_keys_with_one_meaning_one_fills_the_column(tmp_path: Path) -> None:
    rows = [
        {"step": 1, "mean_reward": 2.0, "reward": 1.0},
        {"step": 2, "mean_reward": 2.0},
    ]
    path = write_jsonl(tmp_path / "log.jsonl", rows)
    run = only(path)
    assert column(run, "reward_raw_mean") == {1: 1.0}
    assert run.columns["reward_raw_mean"].sources == (Location("log.jsonl", key="reward"),)
    assert run.unmapped == {"mean_reward": Location("log.jsonl", key="mean_reward", line=1)}
    mapped = only(path, mapping={"mean_reward": "reward_raw_mean"})
    assert column(mapped, "reward_raw_mean") == {1: 2.0, 2: 2.0}
    assert set(mapped.unmapped) == {"reward"}


def test_each_file_fills_a_column_by_its_own_key(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "a.jsonl", [{"step": 1, "reward": 1.0}])
    write_jsonl(tmp_path / "b.jsonl", [{"step": 2, "mean_reward": 2.0}])
    run = only(tmp_path)
    assert column(run, "reward_raw_mean") == {1: 1.0, 2: 2.0}
    assert run.columns["reward_raw_mean"].sources == (
        Location("a.jsonl", key="reward"),
        Location("b.jsonl", key="mean_reward"),
    )
    assert run.unmapped == {}


def test_the_mean_that_ends_a_trainers_log_is_not_the_last_loss(tmp_path: Path) -> None:
    rows = [*losses(0.5, 0.25), {"step": 2, "train_loss": 99.0, "train_runtime": 1}]
    run = only(write_state(tmp_path, rows))
    assert column(run, "loss_total") == {1: 0.5, 2: 0.25}
    assert set(run.unmapped) == {"train_loss", "train_runtime"}


def test_a_pattern_opens_two_hundred_columns(tmp_path: Path) -> None:
    rewards = {f"rewards/r{index:03}/mean": float(index) for index in range(250)}
    path = write_jsonl(tmp_path / "log.jsonl", [{"step": 1, "loss": 1.0, **rewards}])
    run = only(path, dialect="trl_grpo")
    parts = sorted(name for name in run.columns if name.startswith("reward_component_mean["))
    assert parts == [f"reward_component_mean[r{index:03}]" for index in range(200)]
    assert sorted(run.unmapped) == [f"rewards/r{index:03}/mean" for index in range(200, 250)]
    assert run.observations.collect().height == 251


def test_evaluation_rows_are_columns_of_their_own(tmp_path: Path) -> None:
    rows = [
        {"step": 1, "epoch": 0.5, "loss": 1.0},
        {"step": 2, "epoch": 1.0, "eval_loss": 3.0, "eval_reward": 0.25},
        {"step": 2, "epoch": 1.0, "loss": 2.0},
        {"step": 4, "epoch": 2.0, "eval_loss": 4.0},
    ]
    run = only(write_jsonl(tmp_path / "log.jsonl", rows))
    assert column(run, "loss_total") == {1: 1.0, 2: 2.0, 4: None}
    assert column(run, "eval_loss_total") == {1: None, 2: 3.0, 4: 4.0}
    assert column(run, "eval_reward_raw_mean") == {1: None, 2: 0.25, 4: None}
    assert column(run, "epoch") == {1: 0.5, 2: 1.0, 4: 2.0}
    assert run.columns["eval_loss_total"].metric == "loss_total"
    assert run.columns["eval_loss_total"].sources == (Location("log.jsonl", key="eval_loss"),)
    assert run.logged_steps == 2
    assert run.observations.collect().filter(pl.col("split") == "eval").height == 3


@pytest.mark.parametrize("prefix", ["eval_", "eval/"])
def test_a_mixed_row_fills_train_and_evaluation_columns(tmp_path: Path, prefix: str) -> None:
    rows = [{"step": 1, "loss": 1.0, f"{prefix}loss": 2.0, f"{prefix}own": 3.0}]
    run = only(write_jsonl(tmp_path / "log.jsonl", rows))
    assert column(run, "loss_total") == {1: 1.0}
    assert column(run, "eval_loss_total") == {1: 2.0}
    split = dict(run.observations.collect().select("key", "split").iter_rows())
    assert split == {"loss": "train", f"{prefix}loss": "eval", f"{prefix}own": "eval"}
    assert set(run.unmapped) == {f"{prefix}own"}
    assert run.logged_steps == 1


def test_a_prefix_train_is_taken_off(tmp_path: Path) -> None:
    rows = [{"train/global_step": 3, "train/epoch": 0.5, "train/grad_norm": 2.0, "train/lr": 0.1}]
    run = only(write_jsonl(tmp_path / "log.jsonl", rows))
    assert column(run, "grad_norm") == {3: 2.0}
    assert column(run, "lr") == {3: 0.1}
    assert run.columns["lr"].sources[0].key == "train/lr"


def test_columns_keep_unit_estimator_reduction_and_sources() -> None:
    found = only(FIXTURES / "grpo_late").columns["kl_ref_token"]
    assert (found.unit, found.estimator, found.reduction) == ("nats/token", "k3", "token mean")
    assert not found.derived
    assert Location("trainer_state.json", key="kl") in found.sources


def test_unmapped_keys_are_listed_with_their_first_place(tmp_path: Path) -> None:
    rows: list[Record] = [
        {"step": 1, "loss": 1.0},
        {"step": 2, "my/own": 7.0, "a": {"b": 1}},
        {"step": 3, "my/own": 8.0},
    ]
    run = only(write_jsonl(tmp_path / "log.jsonl", rows))
    assert run.unmapped == {
        "my/own": Location("log.jsonl", key="my/own", line=2),
        "a/b": Location("log.jsonl", key="a/b", line=2),
    }
    assert "my/own" in run.observations.collect()["key"].to_list()
    assert run.metrics.columns == ["step", "epoch", "loss_total"]


def test_a_row_of_unmapped_keys_is_no_logged_step(tmp_path: Path) -> None:
    run = only(write_jsonl(tmp_path / "log.jsonl", [*losses(1.0), {"step": 2, "own": 1.0}]))
    assert run.logged_steps == 1
    assert run.last_step == 1


def test_keys_called_like_index_columns_stay_apart(tmp_path: Path) -> None:
    record = {"step": 4, "loss": 1.0, "line": 9.0, "source": 8.0, "split": 7.0, "order": 6.0}
    run = only(write_jsonl(tmp_path / "log.jsonl", [record]))
    assert set(run.unmapped) == {"line", "source", "split", "order"}
    assert run.observations.collect()["line"].to_list() == [1] * 5


@pytest.mark.parametrize(
    ("run", "offset"),
    [("grpo_healthy", 1), ("rloo_healthy", 1), ("ppo_healthy", 1), ("dpo_healthy", 1)],
)
def test_trl_logs_a_step_ahead(run: str, offset: int) -> None:
    assert only(FIXTURES / run).log_offset == offset


def test_an_unknown_trainer_is_given_no_offset(tmp_path: Path) -> None:
    assert only(write_jsonl(tmp_path / "log.jsonl", losses(1.0))).log_offset == 0


# Configuration


def test_settings_are_text_that_every_encoding_carries(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "log.jsonl", losses(1.0))
    (tmp_path / "args.json").write_text('{"ref_model": "a\\ud800"}', encoding="utf-8")
    assert only(tmp_path).config["reference_model"].value == "a\ufffd"


def test_settings_come_from_the_configuration(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "log.jsonl", losses(1.0))
    (tmp_path / "args.json").write_text(
        json.dumps({"steps": 400, "beta": 0.04, "algo": "grpo"}), encoding="utf-8"
    )
    run = only(tmp_path)
    assert run.number("planned_steps") == 400.0
    assert run.number("kl_coef") == 0.04
    assert run.number("algorithm") is None
    assert run.number("seed") is None
    assert run.algorithm == "GRPO"
    assert run.config["planned_steps"].where == Location("args.json", key="steps")


@pytest.mark.parametrize("name", ["args.json", "run_config.json"])
def test_the_trainers_state_wins_over_a_script(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text('{"max_steps": 400, "beta": 0.1}', encoding="utf-8")
    write_state(tmp_path, losses(1.0), max_steps=300, global_step=1)
    run = only(tmp_path)
    assert run.number("planned_steps") == 300.0
    assert run.number("kl_coef") == 0.1
    assert run.config["planned_steps"].where.file == "trainer_state.json"


def test_of_several_states_the_youngest_tells_the_settings(tmp_path: Path) -> None:
    write_state(tmp_path / "checkpoint-50", losses(1.0), max_steps=100, global_step=50)
    write_state(tmp_path / "checkpoint-9", losses(1.0), max_steps=200, global_step=9)
    run = only(tmp_path)
    assert run.number("planned_steps") == 100.0
    assert run.number("updates_done") == 50.0


def test_a_run_that_was_killed_still_tells_what_was_planned() -> None:
    run = only(FIXTURES / "grpo_killed")
    assert run.number("planned_steps") == 400.0


def test_event_files_tell_what_died_with_the_last_checkpoint() -> None:
    run = only(FIXTURES / "grpo_killed")
    assert (run.last_step, run.logged_steps) == (60, 60)
    assert (run.conflicts, run.seams) == ((), ())
    assert {source.reader: source.rows for source in run.sources if source.dialect} == {
        "tensorboard": 60,
        "trainer_state": 30,
    }


# Where runs begin and end


def test_a_folder_of_runs_is_several_runs(tmp_path: Path) -> None:
    for name in ("b", "a", "deep/er/c"):
        write_state(tmp_path / name, losses(1.0, 2.0))
        write_jsonl(tmp_path / name / "samples.jsonl", [{"step": 1, "response": name}])
    runs = read_runs(tmp_path)
    assert [run.name for run in runs] == ["a", "b", "c"]
    assert [run.path for run in runs] == [str(tmp_path / name) for name in ("a", "b", "deep/er/c")]
    for run in runs:
        assert {source.file for source in run.sources} == {"trainer_state.json", "samples.jsonl"}
        assert run.samples.collect()["response"].to_list() == [
            run.path.removeprefix(f"{tmp_path}/")
        ]


def test_a_folder_of_runs_tells_what_is_none(tmp_path: Path) -> None:
    for name in ("a", "b"):
        write_state(tmp_path / name, losses(1.0))
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "args.json").write_text("{}", encoding="utf-8")
    runs = read_runs(tmp_path)
    assert [run.name for run in runs] == ["a", "b"]
    assert told(runs[0]) == "c: holds no log and no samples; not a run"


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        pytest.param(
            "log.jsonl",
            "hello",
            "is no log or sample file that any reader understands",
            id="a text",
        ),
        pytest.param("log.jsonl", "", "is empty", id="an empty log"),
        pytest.param("trainer_state.json", '{"log', "nothing was read", id="a state that was cut"),
        pytest.param(
            "log.jsonl", '{"step": 1, "lo', "last line is cut", id="a log of one cut line"
        ),
    ],
)
def test_of_several_runs_one_that_cannot_be_read_is_a_run_without_rows(
    tmp_path: Path, name: str, text: str, why: str
) -> None:
    for good in ("a", "c"):
        write_state(tmp_path / good, losses(1.0, 2.0))
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / name).write_text(text, encoding="utf-8")
    (tmp_path / "b" / "args.json").write_text('{"beta": 0.5}', encoding="utf-8")
    runs = read_runs(tmp_path)
    assert [(run.name, run.logged_steps) for run in runs] == [("a", 2), ("b", 0), ("c", 2)]
    assert (
        runs[1].metrics.height == runs[1].sample_count == runs[1].observations.collect().height == 0
    )
    assert why in told(runs[1])
    assert runs[1].notes[0].where.startswith(name)
    assert runs[1].number("kl_coef") == 0.5
    assert runs[0].notes == runs[2].notes == ()


def test_of_several_runs_one_before_its_first_row_is_a_run_without_rows(tmp_path: Path) -> None:
    write_state(tmp_path / "a", losses(1.0, 2.0))
    write_state(tmp_path / "b", [], max_steps=30)
    runs = read_runs(tmp_path)
    assert [(run.name, run.logged_steps) for run in runs] == [("a", 2), ("b", 0)]
    assert runs[1].number("planned_steps") == 30.0


def test_a_configuration_beside_several_runs_does_not_merge_them(tmp_path: Path) -> None:
    for name in ("a", "b"):
        write_state(tmp_path / name, losses(1.0))
    (tmp_path / "args.json").write_text('{"beta": 0.5}', encoding="utf-8")
    runs = read_runs(tmp_path)
    assert [run.name for run in runs] == ["a", "b"]
    assert [run.number("kl_coef") for run in runs] == [None, None]
    assert told(runs[0]) == ".: holds no log and no samples; not a run"


def test_samples_beside_several_runs_are_a_run_of_their_own(tmp_path: Path) -> None:
    for name in ("a", "b"):
        write_state(tmp_path / name, losses(1.0))
    write_jsonl(tmp_path / "s.jsonl", [{"step": 1, "response": "x"}])
    runs = read_runs(tmp_path)
    assert [(run.path, run.logged_steps, run.sample_count) for run in runs] == [
        (str(tmp_path), 0, 1),
        (str(tmp_path / "a"), 1, 0),
        (str(tmp_path / "b"), 1, 0),
    ]


def test_a_log_beside_several_logs_is_a_run_of_its_own(tmp_path: Path) -> None:
    write_state(tmp_path / "a", losses(1.0))
    write_jsonl(tmp_path / "b" / "log.jsonl", [{"step": 1, "reward": 1.0}])
    write_jsonl(tmp_path / "log.jsonl", [{"step": 1, "kl": 1.0}])
    runs = read_runs(tmp_path)
    assert [run.name for run in runs] == [tmp_path.name, "a", "b"]
    assert [sorted(run.columns) for run in runs] == [
        ["kl_unknown"],
        ["loss_total"],
        ["reward_raw_mean"],
    ]


def test_a_log_beside_one_other_log_is_one_run(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "own" / "log.jsonl", [{"step": 1, "reward": 1.0}])
    write_jsonl(tmp_path / "log.jsonl", [{"step": 1, "kl": 1.0}])
    assert sorted(only(tmp_path).columns) == ["kl_unknown", "reward_raw_mean"]


@pytest.mark.parametrize(
    "below",
    [
        pytest.param("runs/Nov30_07-20-10_host", id="the event folder of a Hugging Face trainer"),
        pytest.param("wandb/offline-run-20251130_072010-a1b2c3d4", id="the one run of wandb"),
    ],
)
def test_folders_that_a_tracker_names_belong_to_the_run_above(tmp_path: Path, below: str) -> None:
    for name in ("a", "b"):
        write_jsonl(tmp_path / name / "log.jsonl", losses(1.0, 2.0))
        write_jsonl(tmp_path / name / below / "more.jsonl", [{"step": 2, "reward": 0.5}])
    runs = read_runs(tmp_path)
    assert [run.name for run in runs] == ["a", "b"]
    assert all("reward_raw_mean" in run.columns for run in runs)


def test_runs_that_wandb_tracked_side_by_side_are_several(tmp_path: Path) -> None:
    for day in (1, 2):
        place = tmp_path / "wandb" / f"offline-run-2025113{day}_072010-a1b2c3d{day}"
        write_jsonl(place / "log.jsonl", losses(float(day), 2.0))
    assert [column(run, "loss_total")[1] for run in read_runs(tmp_path)] == [1.0, 2.0]


def test_samples_below_the_only_log_belong_to_its_run(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "run" / "log.jsonl", losses(1.0))
    write_jsonl(tmp_path / "drawn" / "s.jsonl", [{"step": 1, "response": "x"}])
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "args.json").write_text('{"beta": 0.5}', encoding="utf-8")
    run = only(tmp_path)
    assert (run.logged_steps, run.sample_count, run.number("kl_coef")) == (1, 1, 0.5)


def test_without_a_log_sample_files_make_the_runs(tmp_path: Path) -> None:
    for name in ("a", "b"):
        write_jsonl(tmp_path / name / "s.jsonl", [{"step": 1, "response": name}])
    assert [(run.name, run.sample_count) for run in read_runs(tmp_path)] == [("a", 1), ("b", 1)]


@pytest.mark.parametrize("container", sorted(CONTAINERS))
def test_containers_belong_to_the_run_above(tmp_path: Path, container: str) -> None:
    write_state(tmp_path, losses(1.0, 2.0))
    write_jsonl(tmp_path / container / "more.jsonl", [{"step": 2, "reward": 0.5}])
    run = only(tmp_path)
    assert run.path == str(tmp_path)
    evaluates = not {"eval", "val", "valid", "validation", "evaluation"}.isdisjoint(
        container.split("_")
    )
    name = "eval_reward_raw_mean" if evaluates else "reward_raw_mean"
    assert column(run, name) == {1: None, 2: 0.5}


def test_containers_and_checkpoints_of_several_runs(tmp_path: Path) -> None:
    for name in ("a", "b"):
        write_jsonl(tmp_path / name / "logs" / "log.jsonl", losses(1.0, 2.0))
        write_jsonl(tmp_path / name / "samples" / "s.jsonl", [{"step": 1, "response": name}])
        write_state(tmp_path / name / "checkpoints" / "checkpoint-2", losses(1.0, 2.0))
    runs = read_runs(tmp_path)
    assert [run.name for run in runs] == ["a", "b"]
    for run in runs:
        assert run.sample_count == 1
        assert [item.path for item in run.checkpoints] == ["checkpoints/checkpoint-2"]


def test_one_run_below_the_folder_is_the_folder(tmp_path: Path) -> None:
    write_state(tmp_path / "out" / "v0", losses(1.0))
    run = only(tmp_path)
    assert run.path == str(tmp_path)
    assert [source.file for source in run.sources] == ["out/v0/trainer_state.json"]


def test_hidden_folders_are_left_alone(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "log.jsonl", losses(1.0))
    write_jsonl(tmp_path / ".cache" / "log.jsonl", losses(9.0, 9.0))
    run = only(tmp_path)
    assert [source.file for source in run.sources] == ["log.jsonl"]


def test_checkpoints_are_ordered_by_step_and_dated_by_the_log() -> None:
    run = only(FIXTURES / "grpo_late")
    assert [item.step for item in run.checkpoints] == [20, 40, 60]
    assert [item.path for item in run.checkpoints] == [
        "checkpoint-20",
        "checkpoint-40",
        "checkpoint-60",
    ]
    epochs = dict(run.metrics.select("step", "epoch").iter_rows())
    assert [item.epoch for item in run.checkpoints] == [epochs[20], epochs[40], epochs[60]]


def test_two_checkpoints_of_one_step_are_told_apart(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "log.jsonl", losses(1.0))
    for name in ("checkpoint-5", "ckpts/checkpoint-5", "checkpoint-6"):
        (tmp_path / name).mkdir(parents=True)
    assert [item.name for item in only(tmp_path).checkpoints] == [
        "checkpoint-5",
        "ckpts/checkpoint-5",
        "checkpoint-6",
    ]


@pytest.mark.parametrize("name", ["global_step7", "checkpoint-7", "step_7"])
def test_a_checkpoint_inside_a_checkpoint_is_none_of_the_run(tmp_path: Path, name: str) -> None:
    write_jsonl(tmp_path / "log.jsonl", losses(1.0))
    folder = tmp_path / "checkpoint-7" / "deep" / name
    folder.mkdir(parents=True)
    (folder.parent.parent / name).mkdir()
    (folder / "zero_pp_rank_0_mp_rank_00_optim_states.pt").write_text("x", encoding="utf-8")
    run = only(tmp_path)
    assert [item.path for item in run.checkpoints] == ["checkpoint-7"]
    assert [source.file for source in run.sources] == ["checkpoint-7", "log.jsonl"]


@pytest.mark.parametrize(
    ("name", "replacement"),
    [("r_good", "r_x"), ("r_good", "\u5956\u52b1"), ("r_good", "a/b c[0]")],
)
def test_names_of_folders_and_rewards_change_nothing_else(
    tmp_path: Path, name: str, replacement: str
) -> None:
    text = (FIXTURES / "grpo_healthy" / "trainer_state.json").read_text(encoding="utf-8")
    frames = []
    for folder, content in (("first", text), ("run of tuesday", text.replace(name, replacement))):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "trainer_state.json").write_text(content, encoding="utf-8")
        frames.append(only(tmp_path / folder).metrics)
    one, other = frames
    assert f"reward_component_mean[{replacement}]" in other.columns
    renamed = one.rename(
        {
            f"reward_component_{what}[{name}]": f"reward_component_{what}[{replacement}]"
            for what in ("mean", "std")
        }
    )
    assert renamed.select(sorted(renamed.columns)).equals(other.select(sorted(other.columns)))


# Links, special files, unreadable files


def test_a_link_to_outside_is_noted_and_not_followed(tmp_path: Path) -> None:
    outside = write_jsonl(tmp_path / "outside" / "log.jsonl", losses(9.0))
    run_folder = tmp_path / "run"
    write_jsonl(run_folder / "log.jsonl", losses(1.0))
    (run_folder / "linked.jsonl").symlink_to(outside)
    (run_folder / "folder").symlink_to(outside.parent)
    (run_folder / "checkpoint-9").symlink_to(outside.parent)
    run = only(run_folder)
    assert [source.file for source in run.sources] == ["log.jsonl"]
    assert run.checkpoints == ()
    assert sorted(told(run).splitlines()) == [
        f"{name}: is a link to outside the run folder, or to nowhere; not followed"
        for name in ("checkpoint-9", "folder", "linked.jsonl")
    ]


def test_a_link_inside_the_run_is_read(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "data" / "x", losses(1.0, 2.0))
    (tmp_path / "log.jsonl").symlink_to(tmp_path / "data" / "x")
    assert column(only(tmp_path), "loss_total") == {1: 1.0, 2: 2.0}


def test_a_run_behind_a_link_is_read(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "real" / "log.jsonl", losses(1.0))
    (tmp_path / "latest").symlink_to(tmp_path / "real")
    run = only(tmp_path / "latest")
    assert run.last_step == 1
    assert run.notes == ()


def test_a_link_to_nowhere_is_noted(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "log.jsonl", losses(1.0))
    (tmp_path / "gone.jsonl").symlink_to(tmp_path / "nothing")
    assert told(only(tmp_path)) == (
        "gone.jsonl: is a link to outside the run folder, or to nowhere; not followed"
    )


def test_links_in_a_circle_are_noted(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "log.jsonl", losses(1.0))
    (tmp_path / "a.jsonl").symlink_to("b.jsonl")
    (tmp_path / "b.jsonl").symlink_to("a.jsonl")
    (tmp_path / "self").symlink_to("self")
    run = only(tmp_path)
    assert run.last_step == 1
    assert told(run).splitlines() == [
        f"{name}: is a link to outside the run folder, or to nowhere; not followed"
        for name in ("a.jsonl", "b.jsonl", "self")
    ]


def test_a_link_to_the_folder_above_ends(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "log.jsonl", losses(1.0))
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "up").symlink_to(tmp_path)
    run = only(tmp_path)
    assert [source.file for source in run.sources] == ["log.jsonl"]


def test_a_log_that_is_none_is_noted(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "log.jsonl", losses(1.0))
    for name in ("notes.jsonl", "empty.ndjson", "log_of_words.json", "plan.txt"):
        (tmp_path / name).write_text("hello" * (name != "empty.ndjson"), encoding="utf-8")
    run = only(tmp_path)
    assert sorted(told(run).splitlines()) == [
        f"{name}: is empty; nothing was read"
        if name == "empty.ndjson"
        else f"{name}: is no log or sample file that any reader understands; not read"
        for name in ("empty.ndjson", "notes.jsonl")
    ]
    assert [source.file for source in run.sources] == ["log.jsonl"]


def test_samples_behind_a_long_prompt_are_samples(tmp_path: Path) -> None:
    record = {"step": 0, "prompt": "word " * 10_000, "response": "a", "reward": 1.0}
    run = only(write_jsonl(tmp_path / "s.jsonl", [record]))
    assert [(source.reader, source.rows) for source in run.sources] == [("samples", 1)]


def test_metrics_with_a_text_beside_them_are_metrics(tmp_path: Path) -> None:
    rows = [{"step": step, "loss": 1.0, "output": "so far so good"} for step in (1, 2)]
    run = only(write_jsonl(tmp_path / "log.jsonl", rows))
    assert (run.logged_steps, run.sample_count) == (2, 0)
    assert told(run) == "log.jsonl: no numbers, so no metrics: output (2 rows)"


@pytest.mark.parametrize("name", ["log.jsonl", "trainer_state.json", "args.json"])
def test_a_table_a_thousand_deep_costs_nothing_else(tmp_path: Path, name: str) -> None:
    deep = '{"a":' * 1000 + "1" + "}" * 1000
    good = '{"step": 1, "loss": 0.5}'
    text = {
        "log.jsonl": f"{good}\n{deep}\n",
        "trainer_state.json": f'{{"log_history": [{good}, {deep}]}}',
        "args.json": deep,
    }[name]
    write_jsonl(tmp_path / "x_log.jsonl", losses(0.5, 0.25))
    (tmp_path / name).write_text(text, encoding="utf-8")
    assert column(only(tmp_path), "loss_total") == {1: 0.5, 2: 0.25}


def named_by_bytes(folder: Path, name: bytes, text: str) -> Path:
    """Write a file whose name is no UTF-8; skip where the file system refuses it."""
    path = Path(os.fsdecode(os.path.join(os.fsencode(folder), name)))
    try:
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError:
        pytest.skip("the file system takes no such names")
    return path


def test_names_that_are_no_utf_8_are_shown_escaped(tmp_path: Path) -> None:
    row = '{"step": 1, "loss": 1.0}\n'
    first = named_by_bytes(tmp_path, b"a\xff/log.jsonl", row).parent
    named_by_bytes(tmp_path, b"b/\xfe.jsonl", row)
    named_by_bytes(tmp_path, b"b/\xfd.ndjson", "hello")
    runs = read_runs(tmp_path)
    assert [run.name for run in runs] == ["a\\xff", "b"]
    assert runs[0].path == f"{tmp_path}/a\\xff"
    assert [source.file for source in runs[1].sources] == ["\\xfe.jsonl"]
    assert runs[1].columns["loss_total"].sources == (Location("\\xfe.jsonl", key="loss"),)
    assert runs[1].notes[0].where == "\\xfd.ndjson"
    assert only(first).name == "a\\xff"


@pytest.fixture
def seconds() -> Iterator[None]:
    """End a test that blocks: a FIFO without a writer would do so for ever."""

    def blocked(signum: int, frame: object) -> None:
        raise AssertionError("reading blocked")

    before = signal.signal(signal.SIGALRM, blocked)
    signal.alarm(20)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.usefixtures("seconds")
def test_a_fifo_does_not_block(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "log.jsonl", losses(1.0))
    os.mkfifo(tmp_path / "more.jsonl")
    (tmp_path / "checkpoint-1").mkdir()
    os.mkfifo(tmp_path / "checkpoint-1" / "model.safetensors")
    run = only(tmp_path)
    assert {source.file for source in run.sources} == {"log.jsonl", "checkpoint-1"}
    assert not run.checkpoints[0].complete
    assert "more.jsonl: is no regular file; not read" in told(run).splitlines()


@pytest.mark.usefixtures("seconds")
def test_a_fifo_alone_is_no_run(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "log.jsonl")
    with pytest.raises(UnreadableRun, match="is no regular file; not read"):
        read_runs(tmp_path / "log.jsonl")
    with pytest.raises(UnreadableRun, match="is no regular file; not read"):
        read_runs(tmp_path)


def test_a_file_that_cannot_be_opened_is_noted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_jsonl(tmp_path / "log.jsonl", losses(1.0))
    write_jsonl(tmp_path / "locked.jsonl", losses(9.0))
    opened = Path.open

    def refuse(self: Path, *arguments: Any, **named: Any) -> Any:
        if self.name == "locked.jsonl":
            raise PermissionError(13, "Permission denied")
        return opened(self, *arguments, **named)

    monkeypatch.setattr(Path, "open", refuse)
    run = only(tmp_path)
    assert told(run) == "locked.jsonl: cannot be opened (Permission denied); not read"
    assert column(run, "loss_total") == {1: 1.0}


def test_a_folder_that_cannot_be_listed_is_noted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_jsonl(tmp_path / "log.jsonl", losses(1.0))
    write_jsonl(tmp_path / "logs" / "log.jsonl", losses(9.0))
    listed = os.scandir

    def refuse(path: Any) -> Any:
        if Path(path).name == "logs":
            raise PermissionError(13, "Permission denied", str(path))
        return listed(path)

    monkeypatch.setattr(os, "scandir", refuse)
    run = only(tmp_path)
    assert told(run) == "logs: cannot be listed (Permission denied); not read"
    assert column(run, "loss_total") == {1: 1.0}


def test_a_checkpoint_that_cannot_be_listed_is_noted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_jsonl(tmp_path / "log.jsonl", losses(1.0))
    (tmp_path / "checkpoint-3").mkdir()

    def refuse(self: Path) -> Any:
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr(Path, "iterdir", refuse)
    run = only(tmp_path)
    assert told(run) == "checkpoint-3: cannot be read (Permission denied)"
    assert run.checkpoints == ()


# What the user states


@pytest.mark.parametrize(
    ("metric", "unit"),
    [
        ("kl_ref_token", "nats/token"),
        ("kl_ref_response", "nats/response"),
        ("kl_unknown", "unknown"),
    ],
)
def test_a_mapping_states_the_unit(tmp_path: Path, metric: str, unit: str) -> None:
    rows = [{"step": step, "kl": 0.5, "own": 2.0} for step in (1, 2)]
    path = write_jsonl(tmp_path / "log.jsonl", rows)
    run = only(path, mapping={"kl": metric})
    assert column(run, metric) == {1: 0.5, 2: 0.5}
    assert run.columns[metric].unit == unit
    assert run.columns[metric].reduction == "stated by the user"
    assert set(run.unmapped) == {"own"}


def test_a_mapping_wins_over_the_dialect(tmp_path: Path) -> None:
    path = write_state(tmp_path, log_history("grpo_healthy"))
    run = only(path, mapping={"kl": "kl_old_token", "rewards/r_good/mean": "reward_shaped_mean"})
    assert "kl_ref_token" not in run.columns
    assert run.columns["kl_old_token"].sources[0].key == "kl"
    assert run.columns["reward_shaped_mean"].unit == "reward"


def test_a_mapping_reaches_the_keys_of_evaluations(tmp_path: Path) -> None:
    path = write_jsonl(tmp_path / "log.jsonl", [{"step": 1, "loss": 1.0, "eval_own": 2.0}])
    run = only(path, mapping={"eval_own": "reward_raw_mean"})
    assert column(run, "eval_reward_raw_mean") == {1: 2.0}
    assert run.columns["eval_reward_raw_mean"].sources == (Location("log.jsonl", key="eval_own"),)


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("los", "; did you mean loss?"),
        ("own/kk", "; did you mean own/kl?"),
        ("kl_ref_token", ""),
        ("", ""),
    ],
)
def test_a_mapping_of_a_key_that_no_log_has(tmp_path: Path, key: str, meant: str) -> None:
    rows = [{"step": 1, "loss": 1.0, "own": {"kl": 2.0}}]
    for name in ("a", "b"):
        write_jsonl(tmp_path / name / "log.jsonl", rows)
    with pytest.raises(DoctorError) as caught:
        read_runs(tmp_path, mapping={key: "kl_ref_token"})
    assert caught.value.message == f"--map: no log has the key {key}{meant}"
    assert caught.value.hint == "rlhfdoctor inspect lists the keys of a run"


def test_a_mapped_key_that_one_of_several_logs_has_is_enough(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "a" / "log.jsonl", [{"step": 1, "own": 1.0}])
    write_jsonl(tmp_path / "b" / "log.jsonl", losses(1.0))
    one, other = read_runs(tmp_path, mapping={"own": "kl_ref_token"})
    assert ("kl_ref_token" in one.columns, "kl_ref_token" in other.columns) == (True, False)


@pytest.mark.parametrize(
    ("metric", "meant"),
    [
        ("kl_ref_tokens", "; did you mean kl_ref_token?"),
        ("entropi", "; did you mean entropy?"),
        ("zzzzzz", ""),
    ],
)
def test_a_mapping_to_an_unknown_metric(tmp_path: Path, metric: str, meant: str) -> None:
    path = write_jsonl(tmp_path / "log.jsonl", losses(1.0))
    with pytest.raises(DoctorError) as caught:
        read_runs(path, mapping={"loss": metric})
    assert caught.value.message == f"--map: no metric is called {metric}{meant}"
    assert "--map kl=kl_ref_token" in caught.value.hint


@pytest.mark.parametrize(
    ("name", "meant"),
    [("trl_gpro", "; did you mean trl_grpo?"), ("zzzzzz", "")],
)
def test_an_unknown_dialect(tmp_path: Path, name: str, meant: str) -> None:
    path = write_jsonl(tmp_path / "log.jsonl", losses(1.0))
    with pytest.raises(DoctorError) as caught:
        read_runs(path, dialect=name)
    assert caught.value.message == f"no dialect is called {name}{meant}"
    assert caught.value.hint.startswith("known are areal, ")
    assert "trl_dpo, trl_grpo, " in caught.value.hint


def test_a_dialect_can_be_forced(tmp_path: Path) -> None:
    path = write_jsonl(tmp_path / "log.jsonl", [{"step": 1, "kl": 0.5}])
    assert only(path).dialect == "generic"
    run = only(path, dialect="trl_rloo")
    assert (run.dialect, run.algorithm, run.framework) == ("trl_rloo", "RLOO", "TRL")
    assert run.columns["kl_ref_token"].estimator == "k1"


def test_marks_that_contradict_need_a_dialect(tmp_path: Path) -> None:
    row = {"step": 1, **log_history("grpo_healthy")[0], **log_history("ppo_healthy")[0]}
    path = write_jsonl(tmp_path / "log.jsonl", [row])
    with pytest.raises(DoctorError) as caught:
        read_runs(path)
    assert "the marks of several trainers: trl_grpo, trl_ppo, trl_rloo" in caught.value.message
    assert "--dialect" in caught.value.hint
    assert only(path, dialect="trl_ppo").algorithm == "PPO"


# Samples


def test_samples_are_a_lazy_frame_with_every_field(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "log.jsonl", losses(1.0))
    write_jsonl(
        tmp_path / "samples.jsonl",
        [
            {"step": 3, "response": "a b", "token_ids": [1, 2], "logprobs": [-1, -2], "reward": 1},
            {"step": 3, "response": "c", "rewards": {"y": 2.5, "x": 1}, "truncated": False},
        ],
    )
    run = only(tmp_path)
    assert isinstance(run.samples, pl.LazyFrame)
    frame = run.samples.collect()
    assert set(frame.columns) == {"source", *(item.name for item in fields(Sample))}
    assert run.sample_count == 2
    assert frame["source"].to_list() == ["samples.jsonl"] * 2
    assert frame["line"].to_list() == [1, 2]
    assert frame["token_ids"].to_list() == [[1, 2], None]
    assert frame["logprobs"].to_list() == [[-1.0, -2.0], None]
    assert frame["reward_components"].to_list() == [None, '{"x": 1.0, "y": 2.5}']
    assert frame["truncated"].to_list() == [None, False]


def test_further_sample_files_belong_to_every_run(tmp_path: Path) -> None:
    extra = write_jsonl(tmp_path / "elsewhere" / "x.txt", [{"step": 2, "response": "far"}])
    write_jsonl(tmp_path / "run" / "log.jsonl", losses(1.0))
    write_jsonl(tmp_path / "run" / "s.jsonl", [{"step": 1, "response": "near"}])
    frame = only(tmp_path / "run", samples=[extra]).samples.collect()
    assert dict(frame.select("source", "response").iter_rows()) == {
        str(extra): "far",
        "s.jsonl": "near",
    }


def test_a_further_sample_file_that_is_missing(tmp_path: Path) -> None:
    path = write_jsonl(tmp_path / "log.jsonl", losses(1.0))
    with pytest.raises(UnreadableRun) as caught:
        read_runs(path, samples=[tmp_path / "none.jsonl"])
    assert caught.value.message == f"no such file or folder: {tmp_path / 'none.jsonl'}"
    assert caught.value.hint


def test_a_further_sample_file_that_is_a_folder(tmp_path: Path) -> None:
    path = write_jsonl(tmp_path / "log.jsonl", losses(1.0))
    with pytest.raises(UnreadableRun) as caught:
        read_runs(path, samples=[tmp_path])
    assert caught.value.message == f"{tmp_path} is a folder"
    assert "--samples" in caught.value.hint


@pytest.mark.parametrize("beside", ["args.json", "checkpoint-3/x", "log.jsonl"])
def test_further_samples_beside_a_folder_without_a_log_are_a_run(
    tmp_path: Path, beside: str
) -> None:
    extra = write_jsonl(tmp_path / "s.jsonl", [{"step": 2, "response": "far"}])
    (tmp_path / "run" / beside).parent.mkdir(parents=True)
    (tmp_path / "run" / beside).write_text("{}", encoding="utf-8")
    run = only(tmp_path / "run", samples=[extra])
    assert (run.name, run.logged_steps, run.sample_count) == ("run", 0, 1)


def test_samples_alone_are_a_run_without_a_log(tmp_path: Path) -> None:
    run = only(write_jsonl(tmp_path / "s.jsonl", [{"step": 1, "response": "x"}]))
    assert (run.logged_steps, run.sample_count) == (0, 1)
    assert (run.first_step, run.last_step) == (None, None)
    assert (run.dialect, run.step_unit) == ("generic", "step")
    assert run.columns == {}


def test_samples_of_several_files_as_a_run() -> None:
    told = [("a.jsonl", Sample(1, response="x")), ("b.jsonl", Sample(1, response="y"))]
    run = samples_as_run("folder", told, [Note("c.jsonl", "is empty", unread=True)])
    frame = run.samples.collect()
    assert frame.select("source", "response").rows() == [("a.jsonl", "x"), ("b.jsonl", "y")]
    assert run.path == "folder"
    assert run.notes[-1].where == "c.jsonl"


def test_lone_surrogates_in_samples_reach_the_frame_as_text(tmp_path: Path) -> None:
    (tmp_path / "s.jsonl").write_text(
        '{"step": 1, "response": "a\\ud800", "prompt": "\\udfff", "group": "\\ud801"}\n',
        encoding="utf-8",
    )
    frame = only(tmp_path).samples.collect()
    for name in ("response", "prompt", "group"):
        assert frame[name].to_list() == ["a\ufffd" if name == "response" else "\ufffd"]


# Nothing to read


@pytest.mark.parametrize(
    ("files", "message", "hint"),
    [
        pytest.param(
            {}, "no log and no samples in", "a run has a trainer_state.json", id="an empty folder"
        ),
        pytest.param(
            {"readme.md": "hi"}, "no log and no samples in", "as JSON Lines", id="other files"
        ),
        pytest.param(
            {"args.json": "{}"},
            "no log and no samples in",
            "as JSON Lines",
            id="a configuration alone",
        ),
        pytest.param(
            {"trainer_state.json": '{"log_history": [{"st'},
            "nothing was read)",
            "as JSON Lines",
            id="a state that was cut",
        ),
        pytest.param(
            {"trainer_state.json": "[" * 100_000},
            "nested too deeply",
            "as JSON Lines",
            id="a state of 100,000 brackets",
        ),
        pytest.param(
            {"log.jsonl": '{"step": 1, "lo'},
            "last line is cut",
            "as JSON Lines",
            id="a log of one cut line",
        ),
        pytest.param(
            {"log.jsonl": ""}, "no log and no samples", "as JSON Lines", id="an empty log"
        ),
        pytest.param(
            {"trainer_state.json": '{"log_history": []}'},
            "no log and no samples",
            "as JSON Lines",
            id="a state before the first log",
        ),
    ],
)
def test_nothing_to_read(tmp_path: Path, files: dict[str, str], message: str, hint: str) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    with pytest.raises(UnreadableRun) as caught:
        read_runs(tmp_path)
    assert message in caught.value.message
    assert hint in caught.value.hint
    assert "\n" not in caught.value.message + caught.value.hint


@pytest.mark.parametrize("name", ["a\x00b", "x" * 5000])
def test_a_path_that_no_file_system_takes(tmp_path: Path, name: str) -> None:
    with pytest.raises(UnreadableRun) as caught:
        read_runs(tmp_path / name)
    assert caught.value.message.startswith("cannot open ")
    assert len(caught.value.message) < 300


def test_a_missing_path(tmp_path: Path) -> None:
    with pytest.raises(UnreadableRun) as caught:
        read_runs(tmp_path / "none")
    assert caught.value.message == f"no such file or folder: {tmp_path / 'none'}"
    assert caught.value.hint == "give the folder of a run, or a log"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        pytest.param("notes.txt", "hello", id="a text"),
        pytest.param("x.jsonl", "", id="an empty file"),
        pytest.param("x.jsonl", '{"name": "x"}', id="lines without numbers or text"),
    ],
)
def test_a_file_that_no_reader_understands(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8")
    with pytest.raises(UnreadableRun) as caught:
        read_runs(tmp_path / name)
    assert caught.value.message.startswith(f"no reader understands {name}")
    assert "trainer_state.json" in caught.value.hint


def test_a_damaged_file_beside_a_good_one_is_a_note(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "log.jsonl", losses(1.0, 2.0))
    (tmp_path / "trainer_state.json").write_text('{"log_history": [', encoding="utf-8")
    (tmp_path / "args.json").write_text("[]", encoding="utf-8")
    write_state(tmp_path / "checkpoint-2", losses(1.0, 2.0))
    (tmp_path / "checkpoint-2" / "trainer_state.json").write_text("{}", encoding="utf-8")
    run = only(tmp_path)
    assert column(run, "loss_total") == {1: 1.0, 2: 2.0}
    places = {note.where for note in run.notes}
    assert {"trainer_state.json", "args.json", "checkpoint-2/trainer_state.json"} <= places


def test_sources_tell_reader_dialect_and_rows() -> None:
    run = only(FIXTURES / "grpo_late")
    found = {source.file: (source.reader, source.dialect, source.rows) for source in run.sources}
    assert found["trainer_state.json"] == ("trainer_state", "trl_grpo", 201)
    assert found["checkpoint-40/trainer_state.json"] == ("trainer_state", "trl_grpo", 40)
    assert found["run_config.json"] == ("config", None, 12)
    assert found["checkpoint-40"] == ("checkpoints", None, 1)
    with (FIXTURES / "grpo_late" / "bad_samples.jsonl").open(encoding="utf-8") as lines:
        assert found["bad_samples.jsonl"] == ("samples", None, sum(1 for _ in lines))


@pytest.mark.parametrize("name", RUNS)
def test_every_fixture_is_one_run_whose_record_gives_its_table(name: str) -> None:
    run = only(FIXTURES / name)
    assert run.name == name
    assert run.metrics["step"].is_sorted()
    assert run.metrics["step"].is_unique().all()
    last = (
        run.observations.collect()
        .filter(pl.col("split") == "train")
        .drop_nulls("metric")
        .group_by("step", "metric", maintain_order=True)
        .agg(pl.col("value").last())
    )
    assert last.height > 0
    for step, metric, value in last.iter_rows():
        found = run.metrics.filter(pl.col("step") == step)[metric].to_list()
        assert found == [value]


# Files that several readers could read, and folders that may be anything


@pytest.mark.parametrize(
    ("name", "text", "reader"),
    [
        pytest.param(
            "run_config.json", '{"lr": 1, "output": "runs"}', "config", id="a text in a config"
        ),
        pytest.param(
            "my_config.json",
            '{"epoch": 1, "lr": 0.1, "sets": [{"n": 1}]}',
            "config",
            id="a list in a config",
        ),
        pytest.param(
            "train_log.json", '[{"step": 1, "loss": 2}]', "jsonl", id="an array that is called log"
        ),
        pytest.param("x.json", '[{"step": 1, "loss": 2}]', "json_tables", id="any other array"),
        pytest.param("x.json", '[{"output": "a"}]', "samples", id="an array of responses"),
    ],
)
def test_the_more_exact_name_decides(tmp_path: Path, name: str, text: str, reader: str) -> None:
    (tmp_path / name).write_text(text)
    found = claim(tmp_path / name)
    assert found is not None
    assert found.reader is not None
    assert found.reader.name == reader


def test_models_inside_a_checkpoint_are_named_and_placed(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "log.jsonl", losses(1.0, 2.0))
    for part in ("actor", "critic"):
        saved = tmp_path / "ckpts" / "global_step_1" / part / "model_world_size_1_rank_0.pt"
        saved.parent.mkdir(parents=True)
        saved.write_text("x")
    assert [(item.name, item.path, item.role) for item in only(tmp_path).checkpoints] == [
        ("global_step_1/actor", "ckpts/global_step_1/actor", "policy"),
        ("global_step_1/critic", "ckpts/global_step_1/critic", "critic"),
    ]


def test_a_folder_called_final_is_a_run_where_it_holds_no_weights(tmp_path: Path) -> None:
    for name in ("final", "first"):
        write_state(tmp_path / name, losses(1.0, 2.0))
    assert {run.name for run in read_runs(tmp_path)} == {"final", "first"}
    assert all(run.checkpoints == () for run in read_runs(tmp_path))


def test_a_model_card_alone_makes_no_run(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "a" / "log.jsonl", losses(1.0, 2.0))
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "README.md").write_text("---\nlibrary_name: peft\n---\n- TRL: 1.0.0\n")
    assert only(tmp_path).logged_steps == 2


def test_tables_under_any_name_yield_to_logs(tmp_path: Path) -> None:
    (tmp_path / "truth.json").write_text('{"a": {"1": {"kl": 0.1}, "2": {"kl": 0.2}}}')
    assert only(tmp_path).logged_steps == 2
    for name in ("one", "two"):
        write_state(tmp_path / name, losses(1.0, 2.0, 3.0))
    found = read_runs(tmp_path)
    assert [run.name for run in found] == ["one", "two"]
    assert "truth.json: may hold metrics" in told(found[0])


def test_last_values_are_left_out_where_the_history_is_told(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "log.jsonl", losses(1.0, 2.0))
    summary = tmp_path / "wandb" / "run-20251130_072010-a1b2c3d4" / "files" / "wandb-summary.json"
    summary.parent.mkdir(parents=True)
    summary.write_text(json.dumps({"loss": 9.0, "_step": 2}), encoding="utf-8")
    run = only(tmp_path)
    assert column(run, "loss_total") == {1: 1.0, 2: 2.0}
    assert run.conflicts == ()
    assert "holds only last values" in told(run)


def test_what_wandb_writes_of_itself_is_no_log(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "log.jsonl", losses(1.0, 2.0))
    (tmp_path / "wandb").mkdir()
    (tmp_path / "wandb" / "debug-internal.log").write_text("step: 1, loss: 3", encoding="utf-8")
    (tmp_path / "wandb" / "debug-core.log").symlink_to("/nowhere/core.log")
    assert only(tmp_path).notes == ()


def test_a_pickle_in_each_checkpoint_is_told_once(tmp_path: Path) -> None:
    write_state(tmp_path, losses(1.0, 2.0))
    for step in (1, 2):
        (tmp_path / f"checkpoint-{step}").mkdir()
        (tmp_path / f"checkpoint-{step}" / "training_args.bin").write_bytes(b"PK\x03\x04")
    assert told(only(tmp_path)).count("is a pickle") == 1


def test_runs_that_a_file_names_are_told_apart(tmp_path: Path) -> None:
    tables = {
        "first": {"data": {str(step): {"kl": 0.1 * step} for step in (1, 2)}},
        "second": {"data": {str(step): {"kl": 0.5} for step in (10, 20, 30)}},
    }
    (tmp_path / "kl_history.json").write_text(json.dumps(tables), encoding="utf-8")
    runs = read_runs(tmp_path)
    assert [run.name.partition("#")[2] for run in runs] == ["first/data", "second/data"]
    assert [run.metrics["step"].to_list() for run in runs] == [[1, 2], [10, 20, 30]]
    write_state(tmp_path, losses(1.0, 2.0))
    assert [sorted(run.columns) for run in read_runs(tmp_path)] == [
        ["loss_total"],
        ["kl_unknown"],
        ["kl_unknown"],
    ]


def by_field(path: Path, *parts: tuple[Mapping[str, object], Sequence[float]]) -> list[Run]:
    rows = [
        {"step": step, "loss": value, "reward": -value, **fields}
        for fields, values in parts
        for step, value in enumerate(values, start=1)
    ]
    log = write_jsonl(path / "log.jsonl", sorted(rows, key=lambda row: row["step"]))
    return list(read_runs(log))


@pytest.mark.parametrize(
    ("field", "one", "other"),
    [
        pytest.param("run", "A", "B", id="a name"),
        pytest.param("run_id", 1, 2, id="a number"),
        pytest.param("seed", 42, 43, id="a seed"),
    ],
)
def test_rows_that_name_their_run_are_of_several_runs(
    tmp_path: Path, field: str, one: object, other: object
) -> None:
    runs = by_field(tmp_path, ({field: one}, [1.0, 2.0, 3.0]), ({field: other}, [7.0, 8.0, 9.0]))
    assert [run.name for run in runs] == [f"log.jsonl#{field}={name}" for name in (one, other)]
    assert [column(run, "loss_total")[1] for run in runs] == [1.0, 7.0]


def test_rows_without_a_name_beside_named_ones_are_a_run_too(tmp_path: Path) -> None:
    named = ({"run": "A"}, [1.0, 2.0, 3.0]), ({"run": "B"}, [4.0, 5.0, 6.0])
    runs = by_field(tmp_path, *named, ({}, [7.0, 8.0, 9.0]))
    assert [run.name.partition("#")[2] for run in runs] == ["run=A", "run=B", "without a name"]
    assert sum(run.observations.collect().height for run in runs) == 18


def test_a_seed_that_is_new_at_a_resume_is_no_other_run(tmp_path: Path) -> None:
    rows = [{"step": step, "seed": 42 + step // 4, "loss": 1.0} for step in range(1, 8)]
    assert only(write_jsonl(tmp_path / "log.jsonl", rows)).logged_steps == 7


@pytest.mark.parametrize("said", ["eval", "Test", "val_unseen", "test_ood", "heldout"])
def test_rows_that_say_that_they_are_evaluations_stay_out_of_the_curve(
    tmp_path: Path, said: str
) -> None:
    rows = [
        {"step": step, "split": split, "loss": loss}
        for step in (1, 2, 3)
        for split, loss in (("train", 0.5), (said, 9.0))
    ]
    run = only(write_jsonl(tmp_path / "log.jsonl", rows))
    assert column(run, "loss_total") == {1: 0.5, 2: 0.5, 3: 0.5}
    assert column(run, "eval_loss_total") == {1: 9.0, 2: 9.0, 3: 9.0}


@pytest.mark.parametrize(
    "name", ["eval.jsonl", "val_metrics.jsonl", "test.jsonl", "validation/log.jsonl"]
)
def test_files_that_are_called_evaluations_stay_out_of_the_curve(tmp_path: Path, name: str) -> None:
    write_jsonl(tmp_path / "metrics.jsonl", losses(0.5, 0.25, 0.125))
    write_jsonl(tmp_path / name, losses(9.0, 8.0, 7.0))
    run = only(tmp_path)
    assert column(run, "loss_total") == {1: 0.5, 2: 0.25, 3: 0.125}
    assert column(run, "eval_loss_total") == {1: 9.0, 2: 8.0, 3: 7.0}


# Several runs side by side


def curve(start: float, count: int = 10, first: int = 1) -> list[dict[str, Any]]:
    return [
        {"step": first + n, "loss": start + n / 7, "reward": start * n, "kl": start / (n + 1)}
        for n in range(count)
    ]


def test_logs_that_begin_together_and_agree_nowhere_are_runs_of_their_own(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "exp_a.jsonl", curve(1.0))
    write_jsonl(tmp_path / "exp_b.jsonl", curve(2.0))
    runs = read_runs(tmp_path)
    assert sorted(run.name.partition("#")[2] for run in runs) == ["exp_a.jsonl", "exp_b.jsonl"]
    assert {column(run, "loss_total")[1] for run in runs} == {1.0, 2.0}
    assert all(run.conflicts == () for run in runs)


def test_the_state_of_an_earlier_run_does_not_win_over_the_run_that_follows(tmp_path: Path) -> None:
    write_state(tmp_path / "checkpoint-50", curve(1.0, 50), global_step=50)
    write_state(tmp_path, curve(2.0, 25), global_step=25)
    runs = {run.name.partition("#")[2]: run for run in read_runs(tmp_path)}
    assert column(runs["trainer_state.json"], "loss_total")[1] == 2.0
    assert column(runs["checkpoint-50/trainer_state.json"], "loss_total")[50] == 8.0


def test_what_a_resumed_run_logged_elsewhere_is_the_same_run_and_wins(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "z_first.jsonl", curve(1.0, 40))
    write_jsonl(tmp_path / "resume_1.jsonl", curve(3.0, 20, first=31))
    write_jsonl(tmp_path / "resume_2.jsonl", curve(5.0, 30, first=31))
    run = only(tmp_path)
    assert (run.first_step, run.last_step) == (1, 60)
    assert column(run, "loss_total")[31] == 5.0


def test_a_log_that_was_rounded_is_of_the_same_run(tmp_path: Path) -> None:
    rows = curve(1.234567)
    write_state(tmp_path, rows)
    rounded = [{key: round(value, 2) for key, value in row.items()} for row in rows]
    write_jsonl(tmp_path / "metrics.jsonl", rounded)
    assert only(tmp_path).conflicts == ()


def test_a_log_beside_others_that_starts_over_hides_no_run(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "metrics.jsonl", [*curve(1.0), *curve(2.0)])
    write_state(tmp_path, curve(2.0))
    runs = read_runs(tmp_path)
    assert {column(run, "loss_total")[1] for run in runs} == {1.0, 2.0}


@pytest.mark.parametrize(
    ("names", "averaged"),
    [
        pytest.param(("log_rank0.jsonl", "log_rank1.jsonl"), True, id="ranks"),
        pytest.param(("lora_rank8.jsonl", "lora_rank16.jsonl"), False, id="ranks of adapters"),
    ],
)
def test_names_of_ranks(tmp_path: Path, names: Sequence[str], averaged: bool) -> None:
    for name, start in zip(names, (1.0, 2.0), strict=True):
        write_jsonl(tmp_path / name, curve(start))
    assert len(read_runs(tmp_path)) == (1 if averaged else 2)


# Logs of several trainers in one folder


def verl(start: float, count: int = 10) -> str:
    return "".join(
        f"step:{n} - actor/pg_loss:{start / n:.3f} - actor/ppo_kl:{start * n / 100:.3f}"
        f" - actor/entropy:{start + n / 9:.3f} - critic/rewards/mean:{start + n / 7:.3f}"
        f" - critic/score/mean:{start + n / 7:.3f} - critic/returns/mean:{n / 7:.3f}"
        f" - actor/pg_clipfrac:{n / 999:.3f} - actor/grad_norm:{start + n / 3:.3f}\n"
        for n in range(1, count + 1)
    )


def preferences(start: float, count: int = 10, every: int = 1) -> list[dict[str, Any]]:
    return [
        {
            "step": n * every,
            "loss": start - n / 70,
            "grad_norm": start + n / 30,
            "learning_rate": 1e-6,
            "rewards/chosen": n / 7 * start,
            "rewards/rejected": -n / 9 * start,
            "rewards/margins": n / 7 * start + n / 9 * start,
            "rewards/accuracies": 0.5 + n / 100,
        }
        for n in range(1, count + 1)
    ]


def kept_apart(path: Path) -> dict[str, list[str]]:
    return {
        run.name.partition("#")[2]: sorted(source.file for source in run.sources)
        for run in read_runs(path)
    }


def minimind(count: int = 30) -> str:
    return "".join(
        f"Epoch:[1/1]({n}/{count}), Actor Loss: {0.5 / n:.4f}, Reward: {n / 13:.4f}, "
        f"KL_ref: {n / 999:.4f}, Adv Std: {0.5 + n / 99:.4f}, Adv Mean: {n / 77:.4f}, "
        f"Avg Response Len: {200 + n}.00, Learning Rate: 0.00000030\n"
        for n in range(1, count + 1)
    )


def test_logs_of_different_trainers_are_runs_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text(verl(0.5), encoding="utf-8")
    (tmp_path / "b.log").write_text(minimind(), encoding="utf-8")
    write_jsonl(tmp_path / "c.jsonl", preferences(0.7, 4, every=25))
    runs = read_runs(tmp_path)
    assert {run.framework: run.name.partition("#")[2] for run in runs} == {
        "verl": "a.log",
        "MiniMind": "b.log",
        "TRL": "c.jsonl",
    }
    assert sorted(run.logged_steps for run in runs) == [4, 10, 30]
    assert all("another trainer or algorithm than 2 logs" in told(run) for run in runs)


def test_logs_of_different_algorithms_are_runs_of_their_own(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "dpo.jsonl", preferences(0.7, 4, every=25))
    write_jsonl(tmp_path / "grpo.jsonl", log_history("grpo_healthy")[:20])
    assert {run.algorithm for run in read_runs(tmp_path)} == {"DPO", "GRPO or RLOO"}


def test_a_trainer_and_the_one_it_is_built_upon_log_one_run(tmp_path: Path) -> None:
    rows = preferences(0.7)
    write_state(tmp_path, rows)
    progress = [
        {
            "current_steps": row["step"],
            "total_steps": 10,
            "loss": round(row["loss"], 4),
            "accuracy": row["rewards/accuracies"],
            "lr": 1e-6,
            "percentage": 10.0 * row["step"],
            "elapsed_time": "0:00:01",
            "remaining_time": "0:00:09",
        }
        for row in rows
    ]
    write_jsonl(tmp_path / "trainer_log.jsonl", progress)
    assert only(tmp_path).framework == "LLaMA-Factory"
    changed = [{**row, "loss": 0.4 + n / 9, "accuracy": n / 11} for n, row in enumerate(progress)]
    write_jsonl(tmp_path / "trainer_log.jsonl", changed)
    assert len(read_runs(tmp_path)) == 2


def test_a_reward_log_belongs_to_the_only_run_that_there_is(tmp_path: Path) -> None:
    rows = [{"step": step, "reward_score": step / 7} for step in range(1, 9)]
    write_jsonl(tmp_path / "rewards.jsonl", rows)
    write_jsonl(tmp_path / "dpo.jsonl", preferences(0.7))
    assert len(only(tmp_path).sources) == 2
    (tmp_path / "verl.log").write_text(verl(0.5, 20), encoding="utf-8")
    assert kept_apart(tmp_path) == {
        name: [name] for name in ("dpo.jsonl", "rewards.jsonl", "verl.log")
    }


def test_a_table_goes_to_the_run_whose_numbers_it_tells(tmp_path: Path) -> None:
    rows = preferences(0.7)
    write_jsonl(tmp_path / "dpo.jsonl", rows)
    (tmp_path / "verl.log").write_text(verl(0.5, 20), encoding="utf-8")
    table = "".join(f"{row['step']},{row['rewards/margins']!r}\n" for row in rows[3:])
    (tmp_path / "export.csv").write_text(f"step,my margin\n{table}", encoding="utf-8")
    assert kept_apart(tmp_path) == {
        "dpo.jsonl": ["dpo.jsonl", "export.csv"],
        "verl.log": ["verl.log"],
    }


def test_a_training_of_ones_own_beside_a_trainers_log_is_another_run(tmp_path: Path) -> None:
    (tmp_path / "verl.log").write_text(verl(0.5), encoding="utf-8")
    rows = [{"step": n, "loss": 2.0 / n, "learning_rate": 1e-5} for n in range(1, 30)]
    write_jsonl(tmp_path / "sft.jsonl", rows)
    assert kept_apart(tmp_path) == {name: [name] for name in ("sft.jsonl", "verl.log")}


def test_a_log_that_begins_with_its_own_interval_resumes_no_other(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "a.jsonl", curve(1.0, 50))
    write_jsonl(tmp_path / "b.jsonl", [{**row, "step": 10 * row["step"]} for row in curve(2.0, 5)])
    assert len(read_runs(tmp_path)) == 2


# What is absurd


def test_absurd_epochs_and_intervals_are_borne(tmp_path: Path) -> None:
    write_state(tmp_path, [{"step": 1, "epoch": 0.5, "loss": 1.0}], logging_steps=2**62)
    write_jsonl(tmp_path / "log.jsonl", [{"epoch": 1e300, "loss": 2.0}, {"epoch": 5, "loss": 3.0}])
    assert read_runs(tmp_path)


@pytest.mark.parametrize("key", ["epoch", "train/epoch", "rank", "process_index", "step", "loss"])
def test_a_whole_number_beyond_any_float_harms_nothing(tmp_path: Path, key: str) -> None:
    huge = 10**400
    rows = [{"reward": 0.5 * row, "kl": 0.1, key: huge} for row in range(3)]
    run = only(write_jsonl(tmp_path / "log.jsonl", rows))
    assert column(run, "reward_raw_mean") == {1: 0.0, 2: 0.5, 3: 1.0}


@pytest.mark.parametrize(
    ("step", "epoch"),
    [
        pytest.param(20, 0.2, id="at a logged step"),
        pytest.param(25, 0.25, id="between two"),
        pytest.param(95, None, id="after the last"),
    ],
)
def test_a_checkpoint_s_epoch_is_read_off_the_log(
    tmp_path: Path, step: int, epoch: float | None
) -> None:
    rows = [{"step": at, "loss": 1.0 / at, "epoch": at / 100} for at in range(10, 91, 10)]
    write_state(tmp_path, rows)
    (tmp_path / f"checkpoint-{step}").mkdir()
    (run,) = read_runs(tmp_path)
    assert run.checkpoints[0].epoch == (None if epoch is None else pytest.approx(epoch))
