"""The pipelines of docs/ci.md are valid, and the page shows them as they are."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from rlhfdoctor import registry
from rlhfdoctor.cli import run_cli
from rlhfdoctor.reports import Report
from tests.builders import FIXTURES

ROOT = FIXTURES.parent
PAGE = (ROOT / "docs" / "ci.md").read_text(encoding="utf-8")
SHOWN = re.findall(r"<!-- (\S+) -->\n```yaml\n(.*?)```", PAGE, re.DOTALL)
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
    text = yaml.safe_load((ROOT / name).read_text(encoding="utf-8"))
    job = text.get("rlhf-gate") or text["jobs"]["gate"]
    steps = job.get("script") or [step.get("run", "") for step in job["steps"]]
    (command,) = [step for step in steps if step.startswith("rlhfdoctor gate")]
    monkeypatch.chdir(tmp_path)
    arguments = command.replace("\\\n", " ").split()[1:]
    place = arguments.index("$RUNS")
    arguments[place : place + 1] = [str(FIXTURES / "ppo_late"), str(FIXTURES / "ppo_healthy")]
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    assert run_cli(arguments) == 1
    written = {path.split("=")[1] for path in arguments if "=" in path}
    assert {path.name for path in tmp_path.iterdir()} == written


def test_the_page_names_every_format() -> None:
    for report in registry.members("reports", Report):
        assert re.search(rf"^\| [^|]*\b{report.name}\b", PAGE, re.MULTILINE), report.name
