"""The README's console sessions are run; what it prints is what happens."""

import re
import shlex

import pytest

from rlhfdoctor.cli import run_cli
from tests.builders import FIXTURES

ROOT = FIXTURES.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
SESSIONS = re.findall(r"```console\n\$ rlhfdoctor (.+)\n((?:.*\n)*?)```", README)
COMMANDS = {
    "diagnose",
    "samples",
    "rollback",
    "recompute",
    "gate",
    "inspect",
    "explain",
    "export",
    "profile",
    "backtest",
    "compare",
}


@pytest.mark.parametrize(("command", "printed"), SESSIONS, ids=[command for command, _ in SESSIONS])
def test_a_session_prints_what_the_readme_shows(
    command: str,
    printed: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(ROOT)
    run_cli(shlex.split(command))
    shown = printed.splitlines()
    lines = capsys.readouterr().out.splitlines()
    if shown[-1] == "...":
        shown = shown[:-1]
        lines = lines[: len(shown)]
    assert shown
    assert lines == shown


def test_every_command_is_in_the_readme() -> None:
    assert {command.split()[0] for command, _ in SESSIONS} == COMMANDS


def test_the_readme_names_every_exit_code_and_verdict() -> None:
    for word in ("| 0 |", "| 1 |", "| 2 |", "| 3 |", "| 4 |", "| 130 |", "inconclusive"):
        assert word in README
