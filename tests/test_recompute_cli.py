"""``recompute``, and ``--reference`` and ``--scores`` where a verdict is passed."""

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rlhfdoctor.cli import run_cli
from tests.builders import FIXTURES, write_jsonl
from tests.test_cli import assert_error_lines, cli, document

BASE = FIXTURES / "base"
LATE = FIXTURES / "grpo_late"
FRESH = LATE / "samples_fresh.jsonl"
MOVING = FIXTURES / "grpo_ref_moving"


def fingerprints(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def scored_by_cli(folder: Path, name: str, *arguments: object) -> Path:
    file = folder / f"{name}.json"
    told = [FIXTURES / name, "--reference", BASE, *arguments, "--output", f"json={file}"]
    assert run_cli(["recompute", *map(str, told)]) == 0
    return file


@pytest.fixture(scope="module")
def late(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What recompute writes of grpo_late; it leaves the run and the reference as they are."""
    before = fingerprints(LATE), fingerprints(BASE)
    folder = tmp_path_factory.mktemp("late")
    file = scored_by_cli(
        folder, "grpo_late", "--samples", FRESH, "--output", f"markdown={folder / 'late.md'}"
    )
    assert (fingerprints(LATE), fingerprints(BASE)) == before
    return file


@pytest.fixture(scope="module")
def moving(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return scored_by_cli(tmp_path_factory.mktemp("moving"), "grpo_ref_moving")


# recompute


def test_the_document_is_what_the_schema_promises(
    capsys: pytest.CaptureFixture[str],
) -> None:
    told = document(
        capsys, "recompute", LATE, "--reference", BASE, "--samples", FRESH, "--max-samples", 8
    )
    assert {row["samples_file"] for row in told["rows"]} == {"samples_fresh.jsonl"}
    assert {row["checkpoint"] for row in told["rows"]} == {
        "base", "checkpoint-20", "checkpoint-40", "checkpoint-60"
    }  # fmt: skip
    assert [scan["finite"] for scan in told["scans"]] == [True] * 3
    assert {row["samples"] for row in told["rows"]} == {8}


def test_the_file_is_what_the_format_prints(late: Path) -> None:
    told = json.loads(late.read_text())
    assert (told["schema"], told["exit_code"], told["run"]["id"]) == (1, 0, "grpo_late")
    (reference,) = told["references"]
    assert reference["training_started_from_it"] is True
    assert reference["matches_logged_kl"] is True


def test_a_sample_file_of_the_run_that_is_named_is_scored_once(late: Path) -> None:
    rows = json.loads(late.read_text())["rows"]
    assert [row["checkpoint"] for row in rows] == [
        "base", "checkpoint-20", "checkpoint-40", "checkpoint-60"
    ]  # fmt: skip


def test_the_markdown_beside_it_has_the_same_ladder(late: Path) -> None:
    text = late.with_name("late.md").read_text()
    assert text.startswith("# grpo\\_late\n")
    assert "| checkpoint-60 |" in text


def test_without_a_reference_the_weights_are_scanned(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, out, err = cli(capsys, "recompute", LATE)
    assert (code, err) == (0, "")
    assert out.startswith("grpo_late: 3 checkpoints scanned, all finite\n")
    assert "Recomputed" not in out


def test_the_last_of_several_runs_is_one_document_among_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("a", "b"):
        write_jsonl(tmp_path / name / "log.jsonl", [{"step": n, "loss": 1.0} for n in range(9)])
    told = document(capsys, "recompute", tmp_path)
    assert [item["run"]["id"] for item in told["runs"]] == ["a", "b"]


# What cannot be done


@pytest.fixture
def adapter(tmp_path: Path) -> Path:
    folder = tmp_path / "adapter"
    folder.mkdir()
    (folder / "adapter_config.json").write_text('{"peft_type": "LORA"}')
    (folder / "adapter_model.safetensors").write_bytes(b"x")
    return folder


@pytest.mark.parametrize("command", ["recompute", "diagnose"])
@pytest.mark.parametrize("kind", ["missing", "a file", "an adapter", "no model", "empty config"])
def test_a_reference_that_is_no_model(
    kind: str, command: str, adapter: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    empty, damaged = tmp_path / "empty", tmp_path / "damaged"
    empty.mkdir()
    damaged.mkdir()
    (damaged / "config.json").write_text("{}")
    given = {
        "missing": tmp_path / "nowhere",
        "a file": FRESH,
        "an adapter": adapter,
        "no model": empty,
        "empty config": damaged,
    }[kind]
    code, out, err = cli(capsys, command, LATE, "--reference", given)
    assert (code, out) == (2, "")
    assert_error_lines(err)
    assert given.name in err


def test_no_sample_that_can_be_scored(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bare = tmp_path / "bare"
    shutil.copytree(LATE, bare, ignore=shutil.ignore_patterns("*samples*"))
    code, out, err = cli(capsys, "recompute", bare, "--reference", BASE)
    assert (code, out) == (2, "")
    assert_error_lines(err)
    assert "no samples can be scored" in err
    assert "--samples FILE" in err


@pytest.mark.parametrize("command", ["recompute", "diagnose"])
@pytest.mark.parametrize(
    "path",
    [
        pytest.param("nowhere/report.json", id="no such folder"),
        pytest.param(".", id="a folder"),
        pytest.param("run/samples_fresh.jsonl", id="a file of the run"),
        pytest.param("run/checkpoint-20/model.safetensors", id="the weights of a checkpoint"),
        pytest.param("run/checkpoint-20/report.json", id="a new file in a checkpoint"),
        pytest.param("base/model.safetensors", id="the weights of the reference"),
    ],
)
def test_an_output_that_cannot_be_written_is_refused_before_the_work(
    command: str,
    path: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run, base = tmp_path / "run", tmp_path / "base"
    shutil.copytree(LATE, run)
    shutil.copytree(BASE, base)
    before = fingerprints(tmp_path)
    worked: list[object] = []
    monkeypatch.setattr("rlhfdoctor.cli._recomputed", lambda *given: worked.append(given))
    told = [command, run, "--reference", base, "--output", f"json={tmp_path / path}"]
    code, out, err = cli(capsys, *told)
    assert (code, out, worked) == (2, "", [])
    assert_error_lines(err)
    assert fingerprints(tmp_path) == before


@pytest.mark.parametrize("given", ["pdf=x", "json", "json=", "=x"])
def test_an_output_that_is_none_is_refused_before_the_work(
    given: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rlhfdoctor.cli._recomputed", None)
    for command in ("recompute", "diagnose"):
        code, _, err = cli(capsys, command, LATE, "--reference", BASE, "--output", given)
        assert code == 2
        assert_error_lines(err)


def test_a_format_that_recompute_has_not(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = cli(capsys, "recompute", LATE, "--format", "slack")
    assert code == 2
    assert_error_lines(err)


# diagnose


def test_a_reference_that_moved_is_confirmed(
    moving: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told = document(capsys, "diagnose", MOVING, "--scores", moving)
    causes = {cause["name"]: cause for cause in told["causes"]}
    assert causes["the reference moved"]["confidence"] == "confirmed"
    (finding,) = [item for item in told["findings"] if item["code"] == "REF003"]
    assert finding["args"]["logged"] == pytest.approx(0.0089, abs=1e-4)
    assert finding["args"]["exact"] > 7
    code, out, _ = cli(capsys, "diagnose", MOVING, "--scores", moving)
    assert code == 0
    assert "the reference moved (confirmed)" in out.splitlines()[2]
    assert "the logged KL is not the distance to it" in out
    (header, row) = [
        line.split() for line in out.splitlines() if "logged  entropy" in line or "(k3)  " in line
    ][:2]
    assert header[0] == "checkpoint"
    assert row[:4] == ["checkpoint-30", "32", "1024", "7.236"]
    assert "0.008912" in row


def test_a_reference_is_read_in_the_same_breath(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = cli(capsys, "diagnose", MOVING, "--reference", BASE)
    assert (code, err) == (0, "")
    assert "the reference moved (confirmed)" in out


def test_an_over_optimised_run_stays_one(late: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told = document(capsys, "diagnose", LATE, "--scores", late)
    assert told["verdict"] == "collapsed"
    assert (told["causes"][0]["name"], told["causes"][0]["confidence"]) == (
        "reward over-optimisation", "probable"
    )  # fmt: skip
    assert told["rollback"]["checkpoint"] == "checkpoint-40"
    assert "confirmed by recomputation: exact KL" in told["headline"]
    assert {"KL006", "PPL003"} <= {finding["code"] for finding in told["findings"]}
    assert {"REF003", "REF004", "REF005", "REF006"} <= set(told["clear"])
    assert len(told["scores"]) == 4
    assert len(told["scans"]) == 3


@pytest.mark.parametrize("command", [("diagnose",), ("rollback", "--suggest"), ("gate",)])
def test_a_file_of_another_run_is_an_error(
    command: tuple[str, ...], moving: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, *others = command
    code, out, err = cli(capsys, first, LATE, *others, "--scores", moving)
    assert (code, out) == (2, "")
    assert_error_lines(err)
    assert "tells of no run that is judged here" in err


@pytest.mark.parametrize("command", ["diagnose", "rollback", "gate"])
@pytest.mark.parametrize("content", ["", "[]", '{"rows": [3], "run": {"id": "x"}}'])
def test_a_file_that_is_no_recomputation_is_an_error(
    command: str, content: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "scores.json").write_text(content)
    code, out, err = cli(capsys, command, LATE, "--scores", tmp_path / "scores.json")
    assert (code, out) == (2, "")
    assert_error_lines(err)


# rollback and gate


def test_rollback_takes_scores(late: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told = document(capsys, "rollback", LATE, "--scores", late)
    assert told["rollback"]["checkpoint"] == "checkpoint-40"


def test_the_gate_takes_scores_of_one_of_several_runs(
    late: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    others = [FIXTURES / "grpo_healthy", FIXTURES / "ppo_late"]
    told = document(capsys, "gate", others[0], LATE, others[1], "--scores", late)
    assert [len(run["scores"]) for run in told["runs"]] == [0, 4, 0]
    assert [run["verdict"] for run in told["runs"]] == ["healthy", "collapsed", "collapsed"]


def test_the_gate_can_require_what_only_scores_answer(
    late: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ("gate", LATE, "--require", "REF003")
    assert document(capsys, *arguments)["runs"][0]["unanswered"] == ["REF003 (required)"]
    assert document(capsys, *arguments, "--scores", late)["runs"][0]["unanswered"] == []


def test_several_files_for_several_runs(
    late: Path, moving: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told = document(capsys, "gate", LATE, MOVING, "--scores", moving, "--scores", late)
    assert [{row["checkpoint"] for row in run["scores"]} - {"base"} for run in told["runs"]] == [
        {"checkpoint-20", "checkpoint-40", "checkpoint-60"},
        {"checkpoint-30"},
    ]


# Without torch

BLOCKED = """
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("torch", "transformers", "safetensors", "tokenizers"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Blocked())
from rlhfdoctor.cli import run_cli
import json
for arguments in json.loads(sys.argv[1]):
    code = run_cli(arguments)
    print(f"<{code}>", file=sys.stderr, flush=True)
"""


def without_torch(*commands: tuple[object, ...]) -> list[str]:
    """Run commands where torch is not installed; return what each wrote to standard error."""
    told = json.dumps([[str(item) for item in command] for command in commands])
    done = subprocess.run(
        [sys.executable, "-c", BLOCKED, told], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    parts = done.stderr.split(">\n")
    assert parts.pop() == ""
    assert len(parts) == len(commands), done.stderr
    return parts


def test_what_needs_no_weights_needs_no_torch(late: Path) -> None:
    told = without_torch(
        ("diagnose", LATE),
        ("diagnose", LATE, "--scores", late),
        ("samples", FRESH),
        ("rollback", LATE, "--scores", late),
        ("gate", FIXTURES / "grpo_healthy"),
        ("inspect", LATE),
        ("explain", "REF003"),
        ("recompute", "--help"),
    )
    assert told == ["<0"] * 8


def test_what_needs_them_says_what_to_install() -> None:
    for err in without_torch(
        ("recompute", LATE, "--reference", BASE),
        ("recompute", LATE),
        ("diagnose", LATE, "--reference", BASE),
    ):
        error, hint, code = err.splitlines()
        assert error.startswith("error: recomputing KL and perplexity needs the package ")
        assert "pip install '.[recompute]'" in hint
        assert code == "<2"


# The terminal


def test_nothing_but_the_report_is_printed_into_a_pipe() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "rlhfdoctor", "recompute", str(MOVING), "--reference", str(BASE),
         "--max-samples", "4"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("grpo_ref_moving: 1 checkpoints scanned, all finite\n")
    assert "\x1b" not in done.stdout


@pytest.fixture
def interrupted(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    def interrupt(*given: Any) -> None:
        os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr("rlhfdoctor.scorers.recompute._climb", interrupt)
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, handler)


@pytest.mark.usefixtures("interrupted")
def test_a_recomputation_that_is_interrupted_exits_with_130(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "scores.json"
    code, out, err = cli(
        capsys, "recompute", MOVING, "--reference", BASE, "--max-samples", 2,
        "--output", f"json={file}", "--cache", tmp_path,
    )  # fmt: skip
    assert (code, out, err) == (130, "", "")
    assert list(tmp_path.iterdir()) == []
