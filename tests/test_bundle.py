from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from jsonschema import Draft202012Validator

from rlhfdoctor.bundle import last_samples
from rlhfdoctor.claims import BUNDLED, IS_BUNDLE, bundled
from rlhfdoctor.cli import run_cli
from rlhfdoctor.masking import MASK
from rlhfdoctor.model import Onset
from rlhfdoctor.reports.markdown import plain
from rlhfdoctor.runs import read_runs
from tests.builders import FIXTURES, run_of, write_jsonl, write_state

SCHEMA = json.loads(files("rlhfdoctor.reports").joinpath("schema.json").read_text(encoding="utf-8"))
FILES = {
    *("README.md", "diagnosis.json", "diagnosis.md", "rollback.json", "rollback.md"),
    *("samples.jsonl", "metrics.parquet", "metrics.csv", "columns.json", "config.json"),
    "manifest.json",
}
SECRET = "hf_" + "a1" * 20


def written(
    folder: Path, *arguments: object, run: object = FIXTURES / "grpo_late", code: int = 0
) -> Path:
    command = ["diagnose", run, "--bundle", folder, *arguments]
    assert run_cli([str(item) for item in command]) == code
    return folder


@pytest.fixture(scope="module")
def late(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("bundles") / "late")


def records(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_a_bundle_holds_what_its_list_says_and_no_more(late: Path) -> None:
    assert {path.name for path in late.iterdir()} == FILES == BUNDLED
    page = (late / "README.md").read_text(encoding="utf-8")
    for name in FILES - {"README.md"}:
        assert f"| {name} |" in page
        assert f"| {(late / name).stat().st_size} | 0 |" in page
    assert [path for path in late.parent.iterdir() if path != late] == []


def test_its_documents_are_those_of_the_published_schema(late: Path) -> None:
    for name in ("diagnosis.json", "rollback.json"):
        document = json.loads((late / name).read_text(encoding="utf-8"))
        errors = [error.message for error in Draft202012Validator(SCHEMA).iter_errors(document)]
        assert errors == []


@pytest.mark.parametrize(
    ("form", "name"), [("json", "diagnosis.json"), ("markdown", "diagnosis.md")]
)
def test_the_diagnosis_is_the_one_that_is_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], form: str, name: str
) -> None:
    folder = tmp_path / "evidence"
    run_cli(["diagnose", str(FIXTURES / "grpo_late"), "--format", form, "--bundle", str(folder)])
    assert (folder / name).read_text(encoding="utf-8") == capsys.readouterr().out


def test_the_bundle_s_plan_read_the_weights(late: Path) -> None:
    found = json.loads((late / "rollback.json").read_text(encoding="utf-8"))["rollback"]
    assert found["unchecked"] == ["optimizer state: none, weights only"]


def test_the_plan_says_how_to_go_on(late: Path) -> None:
    page = (late / "rollback.md").read_text(encoding="utf-8")
    assert "\n    args = GRPOConfig(\n" in page
    assert "trainer.train(resume_from_checkpoint=" in page
    assert "| -\\> checkpoint-40 |" in page


def test_the_samples_are_the_last_fifty_before_the_onset(late: Path) -> None:
    diagnosis = json.loads((late / "diagnosis.json").read_text(encoding="utf-8"))
    low = diagnosis["onset_interval"][0]
    found = records(late / "samples.jsonl")
    assert len(found) == 50
    assert all(item["step"] + diagnosis["run"]["log_offset"] < low for item in found)
    assert all(item["prompt"] and item["token_ids"] for item in found)
    page = (late / "README.md").read_text(encoding="utf-8")
    assert "The last 50 of the" in page


def test_the_metrics_come_back_from_both_files(late: Path) -> None:
    frame = pl.read_parquet(late / "metrics.parquet")
    assert frame.height == 200
    assert pl.read_csv(late / "metrics.csv").columns == frame.columns
    columns = {
        item["column"]: item
        for item in json.loads((late / "columns.json").read_text(encoding="utf-8"))["columns"]
    }
    assert columns["kl_ref_token"]["unit"] == "nats/token"
    assert columns["kl_ref_token"]["sources"][0]["key"]
    assert set(columns) <= set(frame.columns)


def test_the_settings_say_where_they_stand(late: Path) -> None:
    settings = json.loads((late / "config.json").read_text(encoding="utf-8"))["settings"]
    rate = next(item for item in settings if item["name"] == "learning_rate")
    assert rate["value"] == 4e-4
    assert rate["where"]["file"]


def test_fewer_samples_are_kept_where_that_is_asked_for(tmp_path: Path) -> None:
    assert len(records(written(tmp_path / "a", "--keep", 3) / "samples.jsonl")) == 3
    assert records(written(tmp_path / "b", "--keep", 0) / "samples.jsonl") == []


def test_a_value_that_is_not_a_number_is_kept(tmp_path: Path) -> None:
    rows = [{"step": step, "loss": float("nan") if step > 2 else 0.5} for step in range(1, 6)]
    run = write_state(tmp_path / "run", rows).parent
    made = written(tmp_path / "bundle", run=run)
    assert pl.read_parquet(made / "metrics.parquet")["loss_total"].is_nan().sum() == 3
    assert "NaN" in (made / "metrics.csv").read_text(encoding="utf-8")


def steps(*given: int | None) -> list[dict[str, Any]]:
    return [{"step": step, "response": f"r{place}"} for place, step in enumerate(given)]


@pytest.mark.parametrize(
    ("given", "onset", "offset", "kept", "says"),
    [
        pytest.param([1, 2, 3, 4], Onset(4, 3, 4), 0, [1, 2], "2 samples drawn before", id="low"),
        pytest.param([1, 2, 3], Onset(4, 3, 4), 1, [1], "offset of 1", id="the log runs ahead"),
        pytest.param([3, 1, 2], Onset(9, 9, 9), 0, [1, 2, 3], "steps 1 to 3", id="by step"),
        pytest.param([5, None], Onset(2, 1, 2), 0, [], "None of the 2 samples", id="none before"),
        pytest.param([1, 2, 3, 4, 5], None, 0, [2, 3, 4, 5], "No onset", id="no onset"),
        pytest.param([None, None], Onset(2, 1, 2), 0, [None, None], "tell no steps", id="no steps"),
        pytest.param([], None, 0, [], "has no samples", id="no samples"),
    ],
)
def test_the_samples_that_are_kept(
    given: list[int | None], onset: Onset | None, offset: int, kept: list[int | None], says: str
) -> None:
    run = run_of(samples=steps(*given), log_offset=offset)
    taken, which = last_samples(run, onset, 4)
    assert taken["step"].to_list() == kept
    assert says in which


def test_samples_of_one_step_stay_in_the_order_of_their_file() -> None:
    taken, _ = last_samples(run_of(samples=steps(1, 1, 1)), None, 2)
    assert taken["response"].to_list() == ["r1", "r2"]


def refused(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    """Return what is said of a command that cannot do its work."""
    capsys.readouterr()
    assert run_cli([str(item) for item in arguments]) == 2
    return capsys.readouterr().err


@pytest.mark.parametrize("command", ["diagnose", "gate", "inspect", "rollback", "samples"])
def test_a_bundle_named_as_a_run_is_told_for_what_it_is(
    late: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    assert f"{late} is an evidence bundle, no run" in refused(capsys, command, late)


@pytest.mark.parametrize("where", ["evidence", "run/evidence"], ids=["beside it", "inside it"])
def test_a_bundle_is_not_read_as_a_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], where: str
) -> None:
    """Its metrics have lost their units, so that the copy of a collapse would pass as healthy."""
    run = tmp_path / "run"
    shutil.copytree(FIXTURES / "grpo_late", run, ignore=shutil.ignore_patterns("expected.json"))
    [alone] = read_runs(tmp_path)
    written(tmp_path / where, run=run / "trainer_state.json")
    capsys.readouterr()
    [found] = read_runs(tmp_path)
    assert (found.sources, found.config) == (alone.sources, alone.config)
    assert [item.text for item in found.notes if item.where == where] == [IS_BUNDLE]
    assert run_cli(["gate", str(tmp_path)]) == 1
    assert "PASS" not in capsys.readouterr().out


def test_a_run_s_own_log_cannot_be_hidden_by_the_mark(tmp_path: Path) -> None:
    run = write_state(tmp_path / "run", [{"step": 1, "loss": 0.5}]).parent
    (run / "manifest.json").write_text('{"rlhfdoctor": "bundle"}')
    [found] = read_runs(run)
    assert found.logged_steps == 1
    assert [(item.where, item.unread) for item in found.notes if item.text == IS_BUNDLE] == [
        (".", True)
    ]


@pytest.mark.parametrize(
    "mark",
    ["", "[]", "{}", '{"rlhfdoctor": "x"}', "[" * 10**5, '{"rlhfdoctor": "bundle"' + " " * 10**5],
    ids=["empty", "a list", "an object", "another kind", "deep", "large"],
)
def test_a_manifest_of_something_else_is_no_mark(tmp_path: Path, mark: str) -> None:
    (tmp_path / "manifest.json").write_text(mark)
    assert not bundled(tmp_path)


def test_each_of_several_runs_has_a_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [{"step": step, "loss": 0.5} for step in range(1, 4)]
    for name in ("a", "A", "c d&e"):
        write_state(tmp_path / "sweep" / name, rows)
    made = written(tmp_path / "bundle", run=tmp_path / "sweep")
    page = (made / "README.md").read_text(encoding="utf-8")
    assert page.startswith("# Evidence of 3 runs: 3 inconclusive\n")
    own = {"README.md", "manifest.json"}
    assert {path.name for path in made.iterdir()} == {"A", "a-2", "c_d_e"} | own
    said = refused(capsys, "inspect", made)
    assert f"error: {made} is an evidence bundle, no run\n" in said
    for name in ("A", "a-2", "c_d_e"):
        assert {path.name for path in (made / name).iterdir()} == FILES
        assert f"| {plain(name)}/ |" in page


def test_secrets_are_masked_in_every_file(tmp_path: Path) -> None:
    run = tmp_path / f"run {SECRET}"
    rows = [{"step": step, "loss": 0.5, "kl": 0.1 * step} for step in range(1, 30)]
    write_state(run, rows)
    (run / "checkpoint-10").mkdir()
    (run / "args.json").write_text(
        json.dumps({"model_name_or_path": f"https://me:pa55word@host/{SECRET}", "beta": 0.1})
    )
    write_jsonl(
        run / "samples.jsonl",
        [
            {"step": 1, "prompt": f"p {SECRET}", "response": f"password=hunter2 {place}"}
            for place in range(3)
        ],
    )
    made = written(tmp_path / "bundle", run=run)
    for path in made.iterdir():
        content = path.read_bytes()
        for part in (SECRET, SECRET[:10], "hunter2", "pa55word"):
            assert part.encode() not in content, path.name
    found = records(made / "samples.jsonl")
    assert found[0]["prompt"] == f"p {MASK}"
    assert found[0]["response"].startswith(f"password={MASK}")
    page = (made / "README.md").read_text(encoding="utf-8")
    masked = (made / "samples.jsonl").read_text(encoding="utf-8").count(MASK)
    assert masked == 6
    assert f"| {(made / 'samples.jsonl').stat().st_size} | {masked} |" in page
    diagnosis = (made / "diagnosis.md").read_text(encoding="utf-8")
    masked = diagnosis.count(MASK) + diagnosis.count(plain(MASK))
    assert masked >= 1
    assert f"| {len(diagnosis.encode())} | {masked} |" in page


def test_the_run_is_left_as_it_was(tmp_path: Path) -> None:
    run = write_state(tmp_path / "run", [{"step": 1, "loss": 0.5}]).parent
    before = sorted((path, path.stat().st_mtime_ns) for path in run.rglob("*"))
    written(tmp_path / "bundle", run=run)
    assert sorted((path, path.stat().st_mtime_ns) for path in run.rglob("*")) == before


@pytest.fixture
def run(tmp_path: Path) -> Path:
    write_state(tmp_path / "run" / "checkpoint-1", [{"step": 1, "loss": 0.5}])
    return write_state(tmp_path / "run", [{"step": 1, "loss": 0.5}]).parent


def refusals(tmp_path: Path) -> Iterator[tuple[Path, str]]:
    """Yield folders that must not be written, and what is said of each."""
    full, file, link = tmp_path / "full", tmp_path / "file", tmp_path / "link"
    full.mkdir()
    (full / "x").touch()
    file.touch()
    link.symlink_to(tmp_path / "target")
    (tmp_path / "way").symlink_to(tmp_path / "run")
    yield full, "is not empty"
    yield file, "is a file"
    yield link, "is a link"
    yield tmp_path / "none" / "x", "no such folder"
    yield tmp_path / "run" / "x", "which is only read"
    yield tmp_path / "run" / "checkpoint-1" / "x", "which is only read"
    yield tmp_path / "way" / "x", "which is only read"
    yield tmp_path / "full" / ".." / "run" / "x", "which is only read"
    yield tmp_path / "base" / "x", "which is only read"
    yield Path(".."), "there already"
    yield Path("."), "there already"
    yield tmp_path / ("n" * 300), "too long"


def test_a_folder_that_is_not_the_users_to_fill_is_refused(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "base").mkdir()
    for folder, says in refusals(tmp_path):
        before = sorted(tmp_path.rglob("*"))
        written(folder, "--reference", tmp_path / "base", run=run, code=2)
        told = capsys.readouterr()
        assert says in told.err.splitlines()[0]
        assert told.out == ""
        assert sorted(tmp_path.rglob("*")) == before


def test_an_empty_folder_is_filled(run: Path, tmp_path: Path) -> None:
    (tmp_path / "bundle").mkdir()
    assert {path.name for path in written(tmp_path / "bundle", run=run).iterdir()} == FILES


def test_a_folder_appears_whole_or_not_at_all(run: Path, tmp_path: Path) -> None:
    """No file may be larger than 4 blocks here, as on a full disk."""
    script = 'ulimit -f 4; exec "$0" -m rlhfdoctor diagnose "$1" --bundle "$2"'
    command = ["bash", "-c", script, sys.executable, str(run), str(tmp_path / "bundle")]
    before = sorted(tmp_path.iterdir())
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith(f"error: cannot write {tmp_path / 'bundle'}: File too large\n")
    assert sorted(tmp_path.iterdir()) == before


def test_hostile_names_do_nothing_in_the_pages(tmp_path: Path) -> None:
    name = "<img src=x> [a](http:b) `c` @you\x1b[31m"
    run = write_state(tmp_path / name, [{"step": step, "loss": 0.5} for step in range(9)]).parent
    made = written(tmp_path / "bundle", run=run)
    page = (made / "README.md").read_text(encoding="utf-8")
    assert "<img" not in page.replace("\\<img", "")
    assert "\x1b" not in page


def test_the_exit_code_is_that_of_the_diagnosis(tmp_path: Path) -> None:
    made = written(tmp_path / "bundle", "--fail-on", "critical", code=1)
    assert json.loads((made / "diagnosis.json").read_text())["exit_code"] == 1
