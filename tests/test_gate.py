import json
import os
import shutil
import signal
import subprocess
import sys
import time
from datetime import date, timedelta
from pathlib import Path

import pytest

from rlhfdoctor import gate
from rlhfdoctor.cli import run_cli
from rlhfdoctor.profile import Profile
from tests.builders import FIXTURES, HEALTHY, RUNS, log_history, write_state
from tests.test_cli import cli, document

NEXT_WEEK = (date.today() + timedelta(days=7)).isoformat()
LAST_WEEK = (date.today() - timedelta(days=7)).isoformat()


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with two runs in it."""
    for name in ("ppo_late", "ppo_healthy"):
        shutil.copytree(FIXTURES / name, tmp_path / "runs" / name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def ignores(*codes: str, until: str = NEXT_WEEK, more: str = "") -> str:
    return "".join(
        f'[[ignore]]\ncode = "{code}"\nreason = "an experiment"\nuntil = {until}\n{more}\n'
        for code in codes
    )


def failing(capsys: pytest.CaptureFixture[str], run: str) -> list[str]:
    found = document(capsys, "gate", run)["runs"][0]["findings"]
    return sorted({item["code"] for item in found if item["severity"] == "critical"})


# the configuration of a project


@pytest.mark.parametrize(
    ("name", "head"),
    [
        pytest.param("rlhfdoctor.toml", "", id="its own file"),
        pytest.param("pyproject.toml", "[tool.rlhfdoctor]\n", id="the project's file"),
    ],
)
def test_the_working_directory_says_how_runs_are_judged(
    project: Path, capsys: pytest.CaptureFixture[str], name: str, head: str
) -> None:
    assert cli(capsys, "gate", "runs/ppo_late")[0] == 1
    codes = failing(capsys, "runs/ppo_late")
    assert codes
    text = head + ignores(*codes).replace(
        "[[ignore]]", "[[tool.rlhfdoctor.ignore]]" if head else "[[ignore]]"
    )
    (project / name).write_text(text, encoding="utf-8")
    assert cli(capsys, "gate", "runs/ppo_late")[0] == 0
    assert cli(capsys, "diagnose", "runs/ppo_late", "--fail-on", "critical")[0] == 0
    accepted = document(capsys, "gate", "runs/ppo_late")["runs"][0]
    assert accepted["verdict"] == "collapsed"
    assert accepted["profile"] == "default", "the run still chooses"


def test_its_own_file_comes_before_the_projects(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "rlhfdoctor.toml").write_text('fail-on = "info"\n', encoding="utf-8")
    (project / "pyproject.toml").write_text(
        '[tool.rlhfdoctor]\nfail-on = "nonsense"\n', encoding="utf-8"
    )
    assert cli(capsys, "gate", "runs/ppo_healthy")[0] == 1
    assert cli(capsys, "gate", "runs/ppo_healthy", "--fail-on", "critical")[0] == 0


def test_a_project_file_of_others_may_be_broken(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "pyproject.toml").write_text("[tool", encoding="utf-8")
    assert cli(capsys, "gate", "runs/ppo_healthy")[0] == 0
    (project / "pyproject.toml").write_text("[tool]\nrlhfdoctor.fail-on = 'info'\n")
    assert cli(capsys, "gate", "runs/ppo_healthy")[0] == 1
    (project / "pyproject.toml").write_text("[tool.rlhfdoctor", encoding="utf-8")
    code, _, err = cli(capsys, "gate", "runs/ppo_healthy")
    assert code == 2
    assert "no valid TOML" in err


@pytest.mark.parametrize("command", ["gate", "diagnose", "rollback"])
def test_a_run_has_no_say_in_how_it_is_judged(
    project: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    command: str,
) -> None:
    codes = failing(capsys, "runs/ppo_late")
    monkeypatch.chdir(project / "runs/ppo_late")
    Path("rlhfdoctor.toml").write_text(ignores(*codes), encoding="utf-8")
    code, _, err = cli(capsys, command, ".")
    assert "lies in the run and is not obeyed" in err
    assert code == (1 if command == "gate" else 0)
    if command == "gate":
        assert cli(capsys, command, ".", "--config", "rlhfdoctor.toml")[0] == 0


def test_limits_of_a_configuration_lie_over_the_profile_that_the_run_chooses(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "rlhfdoctor.toml").write_text("[KL002]\nceiling = 4.25\n", encoding="utf-8")
    limits = document(capsys, "profile", "show", "runs/ppo_late")
    stated = {f"{item['code']}.{item['limit']}": item for item in limits["limits"]}
    assert stated["KL002.ceiling"]["value"] == 4.25
    assert stated["KL002.ceiling"]["origin"] == "rlhfdoctor.toml"
    named = document(capsys, "profile", "show", "runs/ppo_late", "--profile", "creative")
    assert named["profile"] == "creative"
    values = {f"{item['code']}.{item['limit']}": item["value"] for item in named["limits"]}
    assert values["KL002.ceiling"] == 4.25, "a built-in profile lies below the configuration"


def test_a_named_profile_does_not_undo_what_the_project_requires(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "rlhfdoctor.toml").write_text(
        'extends = "reasoning"\nrequire = ["KL006"]\n', encoding="utf-8"
    )
    (project / "mine.toml").write_text("[KL002]\nceiling = 7.5\n", encoding="utf-8")
    for more in ([], ["--profile", "dialogue"], ["--profile", "mine.toml"]):
        assert cli(capsys, "gate", "runs/ppo_healthy", *more)[0] == 3
    told = document(capsys, "profile", "show", "--profile", "dialogue")
    assert told["profile"] == "dialogue"


def test_the_configuration_of_a_repository_holds_in_its_folders(
    project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "rlhfdoctor.toml").write_text('fail-on = "info"\n', encoding="utf-8")
    monkeypatch.chdir(project / "runs")
    assert cli(capsys, "gate", "ppo_healthy")[0] == 0, "nothing above is looked at outside git"
    (project / ".git").mkdir()
    assert cli(capsys, "gate", "ppo_healthy")[0] == 1


def test_an_ignore_of_no_run_is_warned_of(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = ignores("KL002", more='run = "runs/ppo_late"')
    (project / "rlhfdoctor.toml").write_text(text, encoding="utf-8")
    _, _, err = cli(capsys, "gate", "runs/ppo_late")
    assert "the ignore of KL002 for run runs/ppo_late matched none by its name" in err


def test_limits_that_a_project_set_are_told(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "rlhfdoctor.toml").write_text("[KL002]\nceiling = 900.0\n", encoding="utf-8")
    for form in ("terminal", "markdown", "junit", "html"):
        _, out, _ = cli(capsys, "diagnose", "runs/ppo_late", "--format", form)
        plain = out.replace("\\", "")
        assert "KL002.ceiling = 900, not 5 (rlhfdoctor.toml)" in plain, form
    told = document(capsys, "diagnose", "runs/ppo_late")["stated_limits"]
    assert told == [
        {"code": "KL002", "limit": "ceiling", "value": 900.0, "default": 5.0}
        | {"origin": "rlhfdoctor.toml"}
    ]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        pytest.param(ignores("KL9"), "no rule has the code KL9", id="an unknown rule"),
        pytest.param("fail_on = 'info'", "unknown entry fail_on", id="an unknown entry"),
        pytest.param("baseline = 'none.json'", "cannot read the baseline", id="a missing baseline"),
    ],
)
def test_a_wrong_configuration_is_no_pass(
    project: Path, capsys: pytest.CaptureFixture[str], text: str, told: str
) -> None:
    (project / "rlhfdoctor.toml").write_text(text, encoding="utf-8")
    code, out, err = cli(capsys, "gate", "runs/ppo_healthy")
    assert (code, out) == (2, "")
    assert told in err


def test_an_ignore_that_ended_is_warned_of(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    codes = failing(capsys, "runs/ppo_late")
    (project / "rlhfdoctor.toml").write_text(ignores(*codes, until=LAST_WEEK), encoding="utf-8")
    code, _, err = cli(capsys, "gate", "runs/ppo_late")
    assert code == 1
    assert f"the ignore of {codes[0]} ended on {LAST_WEEK}" in err


# the baseline


def test_a_baseline_lets_known_findings_pass(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli(capsys, "gate", "runs/ppo_late", "--write-baseline", "known.json")[0] == 0
    assert cli(capsys, "gate", "runs/ppo_late", "--baseline", "known.json")[0] == 0
    (project / "rlhfdoctor.toml").write_text('baseline = "known.json"\n', encoding="utf-8")
    assert cli(capsys, "gate", "runs/ppo_late")[0] == 0
    shutil.copytree("runs/ppo_late", "runs/ppo_next")
    assert cli(capsys, "gate", "runs/ppo_late", "runs/ppo_next")[0] == 1


def test_a_baseline_is_never_written_into_a_run(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    state = next(Path("runs/ppo_late").rglob("trainer_state.json"))
    before = state.read_bytes()
    assert cli(capsys, "gate", "runs/ppo_late", "--write-baseline", state)[0] == 2
    assert state.read_bytes() == before


def test_a_baseline_does_not_hide_what_was_not_looked_at(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_state(tmp_path, log_history("grpo_healthy")[:9])
    known = tmp_path.parent / f"{tmp_path.name}.json"
    assert cli(capsys, "gate", tmp_path, "--write-baseline", known)[0] == 3
    assert cli(capsys, "gate", tmp_path, "--allow-inconclusive")[0] == 0
    assert cli(capsys, "gate", tmp_path, "--allow-inconclusive", "--require", "KL002")[0] == 3


# many runs


def test_processes_say_the_same_as_one(capsys: pytest.CaptureFixture[str]) -> None:
    paths = [FIXTURES / name for name in sorted(RUNS)] + [FIXTURES / "nowhere"]
    one = cli(capsys, "gate", *paths, "--jobs", 1, "--format", "json")
    two = cli(capsys, "gate", *paths, "--jobs", 2, "--format", "json")
    assert one == two
    assert one[0] == 2
    assert len(json.loads(one[1])["runs"]) == len(RUNS)


@pytest.mark.parametrize(
    ("paths", "asked", "expected"),
    [(1, None, 1), (7, None, 1), (8, None, 2), (4000, None, 6), (3, 8, 3), (9, 2, 2), (0, None, 1)],
)
def test_how_many_processes(
    paths: int, asked: int | None, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gate, "_processors", lambda: 6)
    assert gate.processes(paths, asked) == expected


def _dies(given: gate.Given, terms: gate.Terms) -> gate.Outcome:
    if given.called.name == "bad":
        os.kill(os.getpid(), signal.SIGKILL)
    return gate.Outcome(given.called)


def test_a_process_that_is_killed_is_no_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate, "_of_path", _dies)
    paths = [gate.Given(Path(name), Path(name)) for name in ("bad", "good")]
    outcomes = list(gate.judged(paths, gate.Terms(Profile()), jobs=2))
    assert [item.path.name for item in outcomes] == ["bad", "good"]
    assert outcomes[0].exit_code == 2
    assert "was killed" in str(outcomes[0].error)


def test_the_same_exit_code_whatever_the_format(capsys: pytest.CaptureFixture[str]) -> None:
    from rlhfdoctor import registry
    from rlhfdoctor.reports import Report

    for name, expected in (("ppo_late", 1), (HEALTHY[0], 0)):
        for report in registry.members("reports", Report):
            assert run_cli(["gate", str(FIXTURES / name), "--format", report.name]) == expected
            capsys.readouterr()


def test_every_run_of_a_document_has_its_own_exit_code(
    capsys: pytest.CaptureFixture[str],
) -> None:
    told = document(capsys, "gate", FIXTURES / "ppo_late", FIXTURES / HEALTHY[0])
    assert told["exit_code"] == 1
    assert [run["exit_code"] for run in told["runs"]] == [1, 0]


def test_an_interrupt_ends_all_processes(tmp_path: Path) -> None:
    rows = [{"step": step, "kl": 0.1, "reward": 1.0} for step in range(1, 200_001)]
    for name in "abcd":
        (tmp_path / name).mkdir()
        write_state(tmp_path / name, rows)
    command = [sys.executable, "-m", "rlhfdoctor", "gate", *"abcd", "--jobs", "2"]
    process = subprocess.Popen(
        command,
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    time.sleep(2.0)
    os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert b"Traceback" not in err


def test_the_configuration_of_the_readme_is_one(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    readme = (FIXTURES.parent / "README.md").read_text(encoding="utf-8")
    text = readme.partition("```toml\n")[2].partition("```")[0]
    assert "[[ignore]]" in text
    (project / "rlhfdoctor.toml").write_text(text, encoding="utf-8")
    (project / "rlhf-baseline.json").write_text('{"baseline": 1, "accepted": []}', encoding="utf-8")
    assert cli(capsys, "gate", "runs/ppo_late")[0] == 1


@pytest.mark.parametrize("way", [["--format", "github"], ["--output", "github=notes.txt"]])
@pytest.mark.parametrize("command", [["gate"], ["diagnose", "--fail-on", "critical"]])
def test_the_summary_of_a_job_is_appended_where_github_is_asked(
    project: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    command: list[str],
    way: list[str],
) -> None:
    summary = project / "summary.md"
    summary.write_text("before\n", encoding="utf-8")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    assert cli(capsys, *command, "runs/ppo_late")[0] == 1
    assert summary.read_text(encoding="utf-8") == "before\n"
    assert cli(capsys, *command, "runs/ppo_late", *way)[0] == 1
    text = summary.read_text(encoding="utf-8")
    assert text.startswith("before\n")
    assert "FAIL" in text
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(project / "nowhere" / "summary.md"))
    code, _, err = cli(capsys, *command, "runs/ppo_late", *way)
    assert (code, "cannot write the job summary" in err) == (1, True)


@pytest.mark.parametrize(("fail_on", "failures"), [("critical", 0), ("info", 1)])
def test_a_diagnosis_that_may_fail_tells_junit_from_which_severity_up(
    capsys: pytest.CaptureFixture[str], fail_on: str, failures: int
) -> None:
    run = FIXTURES / "grpo_healthy"
    code, out, _ = cli(capsys, "diagnose", run, "--fail-on", fail_on, "--format", "junit")
    assert code == failures
    assert ("<failure" in out) == bool(failures)


# what is never written over


@pytest.mark.parametrize("option", ["json", "junit", "write-baseline"])
def test_a_log_that_could_not_be_read_is_not_written_over(
    project: Path, capsys: pytest.CaptureFixture[str], option: str
) -> None:
    for path in (project / "broken.json", project / "runs" / "broken" / "trainer_state.json"):
        path.parent.mkdir(exist_ok=True)
        path.write_text("not json{", encoding="utf-8")
        more = ["--write-baseline", path] if "base" in option else ["--output", f"{option}={path}"]
        run = path if path.parent == project else path.parent
        code, _, err = cli(capsys, "gate", run, *more)
        assert code == 2
        assert path.read_text(encoding="utf-8") == "not json{", err


def test_no_report_is_written_where_another_may_not_be(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    state = next(Path("runs/ppo_late").rglob("trainer_state.json"))
    more = ["--output", "json=one.json", "--output", f"html={state}", "--write-baseline", "b.json"]
    assert cli(capsys, "gate", "runs/ppo_late", *more)[0] == 2
    assert not Path("one.json").exists()
    assert not Path("b.json").exists()
    for more in (["--output", "json=-"], ["--output", "json=a", "--output", "html=./a"]):
        assert cli(capsys, "gate", "runs/ppo_late", *more)[0] == 2
    assert not Path("a").exists()


def test_a_run_that_could_not_be_judged_has_its_line(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = cli(capsys, "gate", "runs/ppo_healthy", "runs/nowhere")
    assert code == 2
    assert [line.split()[0] for line in out.splitlines()[:2]] == ["PASS", "UNKNOWN"]
    assert "no such file or folder" in out


@pytest.mark.parametrize("command", ["diagnose", "rollback", "compare"])
def test_a_baseline_that_is_not_there_yet_stops_none_but_the_gate(
    project: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    (project / "rlhfdoctor.toml").write_text('baseline = "none.json"\n', encoding="utf-8")
    assert cli(capsys, command, "runs/ppo_late")[0] == 0
    assert cli(capsys, "gate", "runs/ppo_late")[0] == 2
    assert cli(capsys, "gate", "runs/ppo_late", "--write-baseline", "none.json")[0] == 0
    assert cli(capsys, "gate", "runs/ppo_late")[0] == 0


def test_what_one_baseline_knows_another_does_not_lose(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cli(capsys, "gate", "runs/ppo_late", "--write-baseline", "a.json")
    shutil.copytree("runs/ppo_late", "runs/two")
    cli(capsys, "gate", "runs/two", "--write-baseline", "b.json")
    cli(capsys, "gate", "runs/ppo_late", "--baseline", "a.json", "--write-baseline", "b.json")
    known = json.loads(Path("b.json").read_text(encoding="utf-8"))["accepted"]
    assert {item["path"] for item in known} == {"runs/two", "runs/ppo_late"}


def test_secrets_do_not_leave_in_any_report(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    secret = "hf_" + "AbCdEfGhIjKlMnOpQrStUvWxYz01234567"
    shutil.copytree("runs/ppo_late", f"runs/{secret}")
    for form in ("terminal", "json", "junit", "sarif", "github", "slack", "html", "markdown"):
        _, out, _ = cli(capsys, "gate", f"runs/{secret}", "--format", form)
        assert secret not in out.replace("\\", ""), form


@pytest.mark.parametrize("part", ["checkpoint-50", "checkpoint-50/trainer_state.json"])
def test_no_part_of_a_run_brings_its_configuration_along(
    project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    codes = failing(capsys, "runs/ppo_late")
    monkeypatch.chdir(project / "runs/ppo_late")
    state = next(Path().rglob("trainer_state.json")).read_bytes()
    Path("checkpoint-50").mkdir(exist_ok=True)
    Path("checkpoint-50/trainer_state.json").write_bytes(state)
    Path("rlhfdoctor.toml").write_text(ignores(*codes), encoding="utf-8")
    _, _, err = cli(capsys, "gate", part)
    assert "lies in the run and is not obeyed" in err


def test_a_profile_does_not_undo_the_policy_of_the_project(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "rlhfdoctor.toml").write_text('fail-on = "info"\n', encoding="utf-8")
    (project / "mine.toml").write_text("allow-inconclusive = true\n", encoding="utf-8")
    assert cli(capsys, "gate", "runs/ppo_healthy", "--profile", "mine.toml")[0] == 1


def test_a_configuration_that_cannot_be_read_is_no_pass(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "rlhfdoctor.toml").mkdir()
    assert cli(capsys, "gate", "runs/ppo_healthy")[0] == 2


def test_an_empty_argument_is_not_the_working_directory(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli(capsys, "gate", "")[0] == 2


@pytest.mark.parametrize("option", ["--samples", "--baseline", "--config"])
def test_what_is_read_is_not_written_over(
    project: Path, capsys: pytest.CaptureFixture[str], option: str
) -> None:
    path = project / "read.jsonl"
    path.write_text("mine", encoding="utf-8")
    code, _, _ = cli(capsys, "gate", "runs/ppo_late", option, path, "--output", f"json={path}")
    assert code == 2
    assert path.read_text(encoding="utf-8") == "mine"


def test_another_name_of_a_file_is_the_file(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    state = next(Path("runs/ppo_late").rglob("trainer_state.json"))
    before = state.read_bytes()
    os.link(state, "other.json")
    for command in (
        ["export", "runs/ppo_late", "--output", "other.json"],
        ["gate", "runs/ppo_late", "--output", "json=other.json"],
    ):
        assert cli(capsys, *command)[0] == 2
    assert state.read_bytes() == before


def test_a_log_that_is_cut_is_no_pass(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_state(tmp_path, log_history("grpo_healthy"))
    path = tmp_path / "trainer_state.json"
    text = path.read_text(encoding="utf-8")
    assert cli(capsys, "gate", tmp_path)[0] == 0
    path.write_text(text[: len(text) // 2], encoding="utf-8")
    code, out, _ = cli(capsys, "gate", tmp_path)
    assert code == 3
    assert "the rest of trainer_state.json" in out
