import re
from pathlib import Path

import pytest

from rlhfdoctor import registry
from rlhfdoctor.cli import run_cli
from rlhfdoctor.reports import Page, Report
from rlhfdoctor.reports._inspection import profile_lines
from rlhfdoctor.reports.terminal import write
from tests.builders import FIXTURES


def printed(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    assert run_cli([str(argument) for argument in arguments]) == 0
    return capsys.readouterr().out


def words(line: str) -> str:
    return re.sub(r"\\(?=\W|_)|^- |^#+ ", "", line).strip()


@pytest.mark.parametrize(
    "command",
    [
        pytest.param(("inspect", FIXTURES / "grpo_late"), id="inspect"),
        pytest.param(("profile", "show", FIXTURES / "dpo_healthy"), id="profile show"),
        pytest.param(
            ("profile", "show", "--changed", "--set", "KL001.high=4"), id="profile show --changed"
        ),
    ],
)
def test_markdown_says_what_the_terminal_says(
    command: tuple[object, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    plain = [line.strip() for line in printed(capsys, *command).splitlines() if line.strip()]
    marked = printed(capsys, *command, "--format", "markdown").splitlines()
    assert [words(line) for line in marked if line] == plain
    assert marked[0].startswith("# ")


@pytest.mark.parametrize("form", ["json", "markdown", "terminal"])
def test_output_writes_what_format_prints(
    form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, run = tmp_path / "report", FIXTURES / "ppo_late"
    for command in (("inspect", run), ("profile", "show", run)):
        told = printed(capsys, *command, "--output", f"{form}={path}", "--format", form)
        assert path.read_text(encoding="utf-8") == told


def test_a_report_is_not_written_over_a_file_of_the_run(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    log = tmp_path / "log.jsonl"
    log.write_text('{"step": 1, "kl": 0.5}\n', encoding="utf-8")
    for command in (["inspect"], ["profile", "show"]):
        assert run_cli([*command, str(log), "--output", f"markdown={log}"]) == 2
        assert "is a file of the run" in capsys.readouterr().err
    assert log.read_text(encoding="utf-8") == '{"step": 1, "kl": 0.5}\n'


@pytest.mark.parametrize(
    ("options", "limits"),
    [
        pytest.param((), ["none but the rules' own"], id="none"),
        pytest.param(
            ("--set", "KL001.high=4"),
            ["KL001.high = 4  (nats per response)  --set"],
            id="one that was set",
        ),
    ],
)
def test_changed_lists_only_limits_that_the_rules_do_not_state(
    options: tuple[str, ...], limits: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    out = printed(capsys, "profile", "show", "--changed", *options)
    assert [line.strip() for line in out.splitlines()[3:]] == limits


def test_only_the_origin_of_a_limit_has_a_colour_of_its_own() -> None:
    limit = {"code": "KL001", "limit": "high", "value": 5.0, "meaning": "nats (per response)"}
    document = {
        **{"profile": "mine", "reason": "", "run": None, "require": None, "rollback": None},
        "limits": [{**limit, "origin": "rule default"}, {**limit, "origin": "mine.toml"}],
    }
    text = write(profile_lines(document), Page(width=80, colour=True))
    assert "\x1b[2m  rule default\x1b[0m" in text
    assert "\x1b[1;36mmine.toml\x1b[0m" in text


def test_help_names_every_report(capsys: pytest.CaptureFixture[str]) -> None:
    told = printed(capsys, "diagnose", "--help").partition("--format")[2].partition("--output")[0]
    for item in registry.members("reports", Report):
        assert item.name in told


def test_no_command_is_described_with_its_end_cut_off(capsys: pytest.CaptureFixture[str]) -> None:
    assert "..." not in printed(capsys, "--help").partition("Commands:")[2]
