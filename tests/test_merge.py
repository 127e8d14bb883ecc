import math
from pathlib import Path

import pytest

from rlhfdoctor.kinship import same
from rlhfdoctor.model import Run
from rlhfdoctor.runs import read_runs
from tests.builders import log_history, write_jsonl, write_state

GRPO = log_history("grpo_healthy")[:30]


def only(path: Path) -> Run:
    (run,) = read_runs(path)
    return run


# Whether two records are of one number


@pytest.mark.parametrize(
    ("one", "other", "printed", "equal"),
    [
        pytest.param(0.5, 0.5, False, True, id="the same"),
        pytest.param(1.0, 1.0 + 5e-7, False, True, id="rounded to float32"),
        pytest.param(1.0, 1.0 + 5e-6, False, False, id="beyond rounding"),
        pytest.param(0.0123, 0.012345, True, True, id="printed with four decimals"),
        pytest.param(0.0123, 0.012345, False, False, id="four decimals of no console"),
        pytest.param(0.0123, 0.01236, True, False, id="another number when printed"),
        pytest.param(0.042, 0.04249, True, True, id="printed with three decimals, as verl does"),
        pytest.param(0.5, 0.5004, True, True, id="trailing zeros are not seen"),
        pytest.param(0.5, 0.52, True, False, id="and do not hide two decimals"),
        pytest.param(2.6e-07, 2.64e-07, True, True, id="a printed exponent"),
        pytest.param(2.6e-07, 2.7e-07, True, False, id="another exponent's number"),
        pytest.param(0.0, 1e-5, True, True, id="printed as zero"),
        pytest.param(0.0, 1e-5, False, False, id="zero is not next to nothing"),
        pytest.param(math.nan, math.nan, False, True, id="NaN in both"),
        pytest.param(math.nan, 0.5, True, False, id="NaN in one"),
        pytest.param(math.inf, 1e300, True, False, id="infinity in one"),
    ],
)
def test_two_records_of_one_number(one: float, other: float, printed: bool, equal: bool) -> None:
    assert same(one, other, printed) is equal
    assert same(other, one, printed) is equal


# What each file speaks


def test_a_home_made_log_beside_a_trainers_gets_no_unit_of_it(tmp_path: Path) -> None:
    rows = [{key: value for key, value in row.items() if key != "kl"} for row in GRPO]
    write_state(tmp_path, rows)
    write_jsonl(tmp_path / "my_metrics.jsonl", [{"step": 1, "kl": 70.0}, {"step": 2, "kl": 80.0}])
    run = only(tmp_path)
    assert run.dialect == "trl_grpo|trl_rloo"
    assert run.columns["kl_unknown"].unit == "unknown"
    assert "kl_ref_token" not in run.columns
    assert {source.file: source.dialect for source in run.sources} == {
        "my_metrics.jsonl": "generic",
        "trainer_state.json": "trl_grpo|trl_rloo",
    }


def test_a_part_of_a_trainers_log_speaks_as_the_whole(tmp_path: Path) -> None:
    write_state(tmp_path, GRPO[:20])
    write_jsonl(tmp_path / "tail.jsonl", [{"step": r["step"], "kl": r["kl"]} for r in GRPO[10:]])
    run = only(tmp_path)
    assert run.metrics["kl_ref_token"].drop_nulls().len() == 30
    assert "kl_unknown" not in run.columns


# What a console lacks


def console(rows: list[dict[str, float]], digits: int) -> str:
    keys = (
        "loss",
        "grad_norm",
        "learning_rate",
        "reward",
        "reward_std",
        "kl",
        "completions/mean_length",
    )
    printed = [{key: round(row[key], digits) for key in keys if key in row} for row in rows]
    return "".join(f"{row}\n" for row in printed)


def test_the_digits_that_a_console_leaves_out_are_no_conflict(tmp_path: Path) -> None:
    write_state(tmp_path, GRPO[:20])
    (tmp_path / "train.log").write_text(console(GRPO, 4), encoding="utf-8")
    run = only(tmp_path)
    assert run.conflicts == ()
    assert run.metrics["step"].to_list() == [row["step"] for row in GRPO]
    kl = dict(run.metrics.select("step", "kl_ref_token").iter_rows())
    assert kl[GRPO[3]["step"]] == GRPO[3]["kl"]
    assert kl[GRPO[25]["step"]] == round(GRPO[25]["kl"], 4)
    assert run.step_unit == "step"


def test_another_number_in_a_console_is_a_conflict(tmp_path: Path) -> None:
    write_state(tmp_path, GRPO)
    changed = [{**row, "reward": row["reward"] + (0.5 if row["step"] == 7 else 0)} for row in GRPO]
    (tmp_path / "train.log").write_text(console(changed, 4), encoding="utf-8")
    (conflict,) = only(tmp_path).conflicts
    assert (conflict.key, conflict.steps, conflict.first_step) == ("reward", 1, 7)
    assert conflict.kept.file == "trainer_state.json"
    assert conflict.values[-1] == GRPO[6]["reward"]


# Several processes


def test_ranks_are_averaged_by_their_tokens(tmp_path: Path) -> None:
    marks = {"actor/pg_loss": 0.0, "actor/ppo_kl": 0.0, "actor/pg_clipfrac": 0.0}
    for rank, (tokens, entropy, longest) in enumerate(((100, 1.0, 50), (300, 2.0, 80))):
        row = {
            **marks,
            "step": 1,
            "perf/total_num_tokens": tokens,
            "actor/entropy": entropy,
            "response_length/max": longest,
        }
        write_jsonl(tmp_path / f"metrics.rank{rank}.jsonl", [row])
    run = only(tmp_path)
    assert run.metrics["entropy"].to_list() == [1.75]
    assert run.metrics["response_length_max"].to_list() == [80.0]
    assert any("2 ranks were averaged by their tokens" in note.text for note in run.notes)
