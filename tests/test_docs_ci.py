"""The pipelines of docs/ci.md are valid, and the page shows them as they are."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from rlhfdoctor import registry
from rlhfdoctor.cli import run_cli
from rlhfdoctor.reports import Report
from tests.builders import FIXTURES

ROOT = FIXTURES.parent
PAGE = (ROOT / "docs" / "ci.md").read_text(encoding="utf-8")
SHOWN = re.findall(r"<!-- (\S+) -->\n```yaml\n(.*?)```", PAGE, re.DOTALL)
DOCS = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "docs").rglob("*.*"))
FILES = {
    ".github/workflows/ci.yml": "vendor.github-workflows",
    "docs/ci/github-gate.yml": "vendor.github-workflows",
    "docs/ci/gitlab-ci.yml": "vendor.gitlab-ci",
}


def check(path: Path, schema: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", schema, str(path)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(("name", "schema"), FILES.items(), ids=FILES)
def test_a_pipeline_has_the_shape_that_its_host_wants(name: str, schema: str) -> None:
    done = check(ROOT / name, schema)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("text", "schema"),
    [
        pytest.param("on: push\njobs: {a: {steps: []}}\n", "vendor.github-workflows", id="github"),
        pytest.param(
            "a: {script: ls, artifacts: {when: never}}\n", "vendor.gitlab-ci", id="gitlab"
        ),
    ],
)
def test_a_wrong_pipeline_is_refused(tmp_path: Path, text: str, schema: str) -> None:
    path = tmp_path / "wrong.yml"
    path.write_text(text, encoding="utf-8")
    assert check(path, schema).returncode == 1


def test_the_page_shows_the_files_as_they_are() -> None:
    assert {name for name, _ in SHOWN} == {*FILES} - {".github/workflows/ci.yml"}
    for name, text in SHOWN:
        assert text == (ROOT / name).read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["docs/ci/github-gate.yml", "docs/ci/gitlab-ci.yml"])
def test_the_command_of_a_pipeline_runs(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, gate = job(name)
    steps = gate.get("script") or [step.get("run", "") for step in gate["steps"]]
    (command,) = [step for step in steps if step.startswith("rlhfdoctor gate")]
    monkeypatch.chdir(tmp_path)
    arguments = command.replace("\\\n", " ").split()[1:]
    place = arguments.index("$RUNS")
    arguments[place : place + 1] = [str(FIXTURES / "ppo_late"), str(FIXTURES / "ppo_healthy")]
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    assert run_cli(arguments) == 1
    written = {path.split("=")[1] for path in arguments if "=" in path}
    assert {path.name for path in tmp_path.iterdir()} == written


def job(name: str) -> "tuple[dict[Any, Any], dict[str, Any]]":
    """Return a pipeline, and its job that is the gate."""
    text = yaml.safe_load((ROOT / name).read_text(encoding="utf-8"))
    return text, text.get("rlhf-gate") or text["jobs"]["gate"]


@pytest.mark.parametrize("name", ["docs/ci/github-gate.yml", "docs/ci/gitlab-ci.yml"])
def test_a_pipeline_installs_from_a_pinned_place_and_no_name(name: str) -> None:
    text, gate = job(name)
    place = (gate.get("variables") or text["env"])["RLHFDOCTOR"]
    assert re.fullmatch(r"rlhfdoctor @ git\+https://\S+@COMMIT", place)
    raw = (ROOT / name).read_text(encoding="utf-8")
    assert re.findall(r"pip install (.*)", raw) == ['"$RLHFDOCTOR"']
    assert not str(gate.get("image")).endswith("-slim"), "a slim image has no git"


@pytest.mark.parametrize("name", ["README.md", *DOCS], ids=str)
def test_no_page_installs_a_name_that_is_not_ours(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    assert not re.search(r"pip install ['\"]?rlhfdoctor(?!\S* @)", text)


def test_the_runs_of_a_pipeline_are_there_before_they_are_judged() -> None:
    text, gate = job("docs/ci/github-gate.yml")
    steps = gate["steps"]
    (fetched,) = [step for step in steps if "download-artifact" in step.get("uses", "")]
    (judged,) = [step for step in steps if "rlhfdoctor gate" in step.get("run", "")]
    assert steps.index(fetched) < steps.index(judged)
    inputs = text[True]["workflow_dispatch"]["inputs"]  # YAML 1.1 takes the key "on" for true
    assert inputs["runs"]["default"] == f"{fetched['with']['path']}/*"
    assert text["permissions"]["actions"] == "read"
    assert job("docs/ci/gitlab-ci.yml")[1]["needs"] == ["train"]


def test_what_was_not_written_is_not_uploaded() -> None:
    (shown,) = [
        step
        for step in job("docs/ci/github-gate.yml")[1]["steps"]
        if "sarif_file" in step.get("with", {})
    ]
    assert shown["if"] == f"always() && hashFiles('{shown['with']['sarif_file']}') != ''"


def test_the_page_names_every_format() -> None:
    for report in registry.members("reports", Report):
        assert re.search(rf"^\| [^|]*\b{report.name}\b", PAGE, re.MULTILINE), report.name
