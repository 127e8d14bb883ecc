"""Golden runs: what the doctor says of each fixture. ``pytest --bless`` rewrites them."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from rlhfdoctor.doctor import diagnose
from rlhfdoctor.model import Diagnosis
from rlhfdoctor.runs import read_runs
from tests.builders import FIXTURES, HEALTHY, RUNS, log_history, write_state

LIMIT_BYTES = 20_000_000


def told(diagnosis: Diagnosis) -> dict[str, Any]:
    plan, onset = diagnosis.rollback, diagnosis.onset
    return {
        "verdict": diagnosis.verdict,
        "headline": diagnosis.headline,
        "onset": [onset.step, onset.low, onset.high] if onset else None,
        "causes": {cause.name: list(cause.path) for cause in diagnosis.causes},
        "findings": {
            finding.code: [finding.severity, finding.onset_step] for finding in diagnosis.findings
        },
        "unanswered": list(diagnosis.unanswered),
        "rollback": {
            "checkpoint": plan.checkpoint.name if plan.checkpoint else None,
            "table": [plan.table.row, plan.table.checkpoint] if plan.table else None,
            "overruled": plan.overruled,
            "reason": plan.reason,
            "changes": {change.parameter: change.suggested for change in plan.changes},
        },
        "notes": [note.text for note in diagnosis.notes],
    }


def diagnosed(folder: Path) -> Diagnosis:
    (run,) = read_runs(folder)
    return diagnose(run)


@pytest.mark.parametrize("name", RUNS)
def test_a_fixture_is_diagnosed_as_expected(name: str, bless: bool) -> None:
    expected = FIXTURES / name / "expected.json"
    found = told(diagnosed(FIXTURES / name))
    if bless:
        expected.write_text(json.dumps(found, indent=2, ensure_ascii=False) + "\n")
    assert found == json.loads(expected.read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("name", "low", "high", "checkpoint"),
    [
        pytest.param("grpo_late", 42, 60, "checkpoint-40", id="grpo_late"),
        pytest.param("ppo_late", 22, 33, "checkpoint-20", id="ppo_late"),
        pytest.param("ppo_crashed", 1, 11, None, id="ppo_crashed, nothing precedes it"),
        pytest.param("grpo_length", 8, 18, None, id="grpo_length"),
        pytest.param("grpo_killed", 18, 20, None, id="grpo_killed"),
        pytest.param("grpo_ref_moving", 20, 23, None, id="grpo_ref_moving"),
        pytest.param("grpo_zero_std", 1, 1, None, id="grpo_zero_std"),
        pytest.param("dpo_collapsed", 4, 8, None, id="dpo_collapsed"),
    ],
)
def test_a_collapse_is_dated_where_it_was_made(
    name: str, low: int, high: int, checkpoint: str | None
) -> None:
    diagnosis = diagnosed(FIXTURES / name)
    assert diagnosis.verdict == "collapsed"
    assert diagnosis.onset is not None
    assert low <= diagnosis.onset.step <= high
    chosen = diagnosis.rollback.checkpoint
    assert (chosen.name if chosen else None) == checkpoint


@pytest.mark.parametrize(
    ("name", "family"),
    [("grpo_zero_std", "GRP"), ("grpo_length", "LEN"), ("dpo_collapsed", "DPO")],
)
def test_the_first_cause_is_of_the_family_that_was_planted(name: str, family: str) -> None:
    diagnosis = diagnosed(FIXTURES / name)
    assert diagnosis.causes[0].path[0].startswith(family)
    assert diagnosis.findings[0].family == family


def test_a_cut_log_never_leads_over_a_collapse_before_the_cut() -> None:
    diagnosis = diagnosed(FIXTURES / "grpo_killed")
    assert diagnosis.run.last_step == 60
    assert diagnosis.causes[0].name != "interrupted"
    assert "LOG001" in {finding.code for finding in diagnosis.findings}


@pytest.mark.parametrize("name", HEALTHY)
def test_a_healthy_run_has_nothing_above_information(name: str) -> None:
    diagnosis = diagnosed(FIXTURES / name)
    assert diagnosis.verdict == "healthy"
    assert {finding.severity for finding in diagnosis.findings} <= {"info"}


@pytest.mark.parametrize("name", RUNS)
def test_names_and_configuration_change_no_verdict(name: str, tmp_path: Path) -> None:
    """Folder renamed to a letter, run_config.json deleted, reward functions renamed."""
    copy = tmp_path / "a"
    shutil.copytree(FIXTURES / name, copy)
    (copy / "run_config.json").unlink(missing_ok=True)
    (copy / "expected.json").unlink()
    for state in copy.rglob("trainer_state.json"):
        text = state.read_text(encoding="utf-8")
        state.write_text(text.replace('"rewards/r_', '"rewards/zz_'), encoding="utf-8")
    known, found = diagnosed(FIXTURES / name), diagnosed(copy)
    assert found.verdict == known.verdict
    if known.onset is None:
        assert found.onset is None
    else:
        assert found.onset is not None
        assert found.onset.low <= known.onset.step <= found.onset.high
    assert [cause.name for cause in found.causes] == [cause.name for cause in known.causes]
    assert found.rollback.checkpoint == known.rollback.checkpoint


@pytest.mark.parametrize(
    ("factor", "row", "named"),
    [
        pytest.param(50, "1000-5000", "kl_coef", id="x 50: the middle row"),
        pytest.param(200, "> 5000", "reward_model", id="x 200: the last row"),
    ],
)
def test_later_updates_ask_other_rows_of_the_table(
    factor: int, row: str, named: str, tmp_path: Path
) -> None:
    """The same run with its updates relabelled: log row s + 1 belongs to update s x factor."""
    rows = [
        {**entry, "step": (entry["step"] - 1) * factor + 1} for entry in log_history("grpo_late")
    ]
    write_state(tmp_path, rows, global_step=200 * factor)
    for step in (20, 40, 60):
        shutil.copytree(
            FIXTURES / "grpo_late" / f"checkpoint-{step}", tmp_path / f"checkpoint-{step * factor}"
        )
        (tmp_path / f"checkpoint-{step * factor}" / "trainer_state.json").write_text("{}")
    diagnosis = diagnosed(tmp_path)
    assert diagnosis.verdict == "collapsed"
    assert diagnosis.onset is not None
    assert 42 * factor <= diagnosis.onset.step <= 60 * factor
    plan = diagnosis.rollback
    assert plan.checkpoint is not None
    assert plan.checkpoint.name == f"checkpoint-{40 * factor}"
    assert plan.table is not None
    assert plan.table.row.startswith(row)
    assert named in {change.parameter for change in plan.changes}


def test_the_fixtures_stay_small() -> None:
    sizes = [path.stat().st_size for path in FIXTURES.rglob("*") if path.is_file()]
    assert sum(sizes) < LIMIT_BYTES
