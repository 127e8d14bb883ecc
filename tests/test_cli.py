import gzip
import io
import json
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from rlhfdoctor import __version__
from rlhfdoctor.cli import run_cli
from rlhfdoctor.doctor import diagnose as diagnose_run
from rlhfdoctor.reports.json import dumps, published
from rlhfdoctor.runs import read_runs
from rlhfdoctor.tree import TREE
from tests.builders import FIXTURES, HEALTHY, RUNS, log_history, write_jsonl, write_state

SICK = sorted({*RUNS} - {*HEALTHY})
SCHEMA = json.loads(files("rlhfdoctor.reports").joinpath("schema.json").read_text(encoding="utf-8"))
VALIDATOR = Draft202012Validator(SCHEMA)


def cli(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    code = run_cli([str(argument) for argument in arguments])
    told = capsys.readouterr()
    return code, told.out, told.err


def document(capsys: pytest.CaptureFixture[str], *arguments: object) -> dict[str, Any]:
    """Run a command with --format json; check the schema and the exit code it names."""
    code, out, _ = cli(capsys, *arguments, "--format", "json")
    parsed: dict[str, Any] = json.loads(out)
    errors = [error.message for error in VALIDATOR.iter_errors(parsed)]
    assert not errors, errors
    assert parsed["exit_code"] == code
    return parsed


def assert_error_lines(err: str) -> None:
    lines = err.splitlines()
    assert len(lines) == 2, err
    assert lines[0].startswith("error: ")
    assert lines[1].startswith("hint: ")


# gate: the exit codes


@pytest.mark.parametrize("name", HEALTHY)
def test_gate_lets_a_healthy_run_pass(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = cli(capsys, "gate", FIXTURES / name)
    assert (code, err) == (0, "")
    assert out.startswith("PASS")
    assert len(out.splitlines()) == 1


@pytest.mark.parametrize("name", SICK)
def test_gate_stops_a_sick_run(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = cli(capsys, "gate", FIXTURES / name)
    assert (code, err) == (1, "")
    assert out.startswith("FAIL")


def test_gate_on_a_folder_without_a_log(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "readme.txt").write_text("nothing here")
    code, _, err = cli(capsys, "gate", tmp_path)
    assert code == 2
    assert_error_lines(err)


def test_gate_on_a_missing_path(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = cli(capsys, "gate", tmp_path / "nowhere")
    assert code == 2
    assert_error_lines(err)


def test_gate_cannot_look_at_unknown_keys(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [{"step": step, "foo": step * 0.1, "bar/baz": 1.0} for step in range(1, 40)]
    write_jsonl(tmp_path / "log.jsonl", rows)
    code, out, err = cli(capsys, "gate", tmp_path)
    assert (code, err) == (3, "")
    assert out.startswith("UNKNOWN")


@pytest.mark.parametrize("dialect", ["TRL", "generic"])
def test_gate_stops_a_run_that_is_all_nan(
    dialect: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nan = float("nan")
    if dialect == "TRL":
        rows = [
            {key: value if key in ("step", "epoch") else nan for key, value in row.items()}
            for row in log_history("grpo_healthy")
        ]
        write_state(tmp_path, rows)
    else:
        write_jsonl(
            tmp_path / "log.jsonl", [{"step": n, "loss": nan, "reward": nan} for n in range(1, 30)]
        )
    code, out, _ = cli(capsys, "gate", tmp_path)
    assert code == 1
    assert "NaN" in out or "nan" in out


def test_gate_of_several_runs_exits_with_the_first_of_2_1_3_0(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    unknown = tmp_path / "unknown"
    write_jsonl(unknown / "log.jsonl", [{"step": n, "foo": 1.0} for n in range(1, 20)])
    healthy, sick = FIXTURES / "ppo_healthy", FIXTURES / "ppo_crashed"
    assert cli(capsys, "gate", healthy, unknown)[0] == 3
    assert cli(capsys, "gate", unknown, sick, healthy)[0] == 1
    code, out, err = cli(capsys, "gate", sick, tmp_path / "nowhere", healthy)
    assert code == 2
    assert [line.split()[0] for line in out.splitlines()[:3]] == ["FAIL", "PASS", "UNKNOWN"]
    assert_error_lines(err)


def test_gate_fails_on_the_severity_that_is_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = FIXTURES / "grpo_healthy"
    assert cli(capsys, "gate", run, "--fail-on", "warning")[0] == 0
    assert cli(capsys, "gate", run, "--fail-on", "info")[0] == 1


def test_a_required_rule_that_could_not_look_is_no_pass(
    capsys: pytest.CaptureFixture[str],
) -> None:
    run = FIXTURES / "grpo_healthy"
    assert cli(capsys, "gate", run, "--require", "KL003")[0] == 0
    code, out, _ = cli(capsys, "gate", run, "--require", "KL002")
    assert code == 3
    assert "KL002" in out


def test_gate_prints_one_document_whatever_the_number_of_runs(
    capsys: pytest.CaptureFixture[str],
) -> None:
    one = document(capsys, "gate", FIXTURES / "ppo_late")
    two = document(capsys, "gate", FIXTURES / "ppo_late", FIXTURES / "ppo_healthy")
    assert [run["verdict"] for run in one["runs"]] == ["collapsed"]
    assert [run["verdict"] for run in two["runs"]] == ["collapsed", "healthy"]


def test_fewer_than_ten_rows_are_never_healthy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_state(tmp_path, log_history("grpo_healthy")[:9])
    assert cli(capsys, "gate", tmp_path)[0] == 3
    write_state(tmp_path, log_history("grpo_healthy")[:10])
    assert cli(capsys, "gate", tmp_path)[0] == 0


# diagnose


def test_diagnose_reports_and_exits_0_unless_told_to_fail(
    capsys: pytest.CaptureFixture[str],
) -> None:
    run = FIXTURES / "grpo_late"
    code, out, err = cli(capsys, "diagnose", run)
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0] == "COLLAPSED  grpo_late . TRL GRPO . 200 steps"
    assert lines[1].startswith("Since step 50 (49-51): KL 0 -> ")
    assert lines[2] == (
        "Cause: reward over-optimisation (probable; no held-out reward was logged): "
        "repair the reward first"
    )
    assert lines[3] == (
        "Go back to checkpoint-40 (perplexity 24.6). "
        'The table\'s row "< 1000: initial" is overruled: a later checkpoint exists, '
        "its weights unread. "
        "learning_rate 0.0004 -> 4e-05, reward_model -> renewed, kl_coef 0.02 -> 0.0544"
    )
    assert lines[4].startswith("Lost: 150 of 200 steps. Next: rlhfdoctor samples ")
    assert cli(capsys, "diagnose", run, "--fail-on", "critical")[0] == 1


@pytest.mark.parametrize("name", sorted((*SICK, *HEALTHY)))
def test_the_published_json_keeps_its_schema(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = document(capsys, "diagnose", FIXTURES / name)
    assert found["verdict"] == ("healthy" if name in HEALTHY else "collapsed")
    cited = {source["file"] for source in found["run"]["sources"]}
    for finding in found["findings"]:
        for evidence in finding["evidence"]:
            assert evidence["where"]["file"] in cited


def test_a_folder_of_runs_is_judged_run_by_run(capsys: pytest.CaptureFixture[str]) -> None:
    found = document(capsys, "diagnose", FIXTURES)
    assert len(found["runs"]) == len(SICK) + len(HEALTHY)
    third = document(capsys, "diagnose", FIXTURES, "--run", 3)
    assert third["run"]["id"] == found["runs"][2]["run"]["id"]
    assert cli(capsys, "diagnose", FIXTURES, "--run", 99)[0] == 2


def test_reports_are_written_beside_what_is_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "report.json"
    run = FIXTURES / "ppo_healthy"
    _, out, _ = cli(capsys, "diagnose", run, "--output", f"json={path}")
    assert out.startswith("HEALTHY")
    assert json.loads(path.read_text(encoding="utf-8"))["verdict"] == "healthy"


def test_nothing_is_written_into_a_run_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    shutil.copytree(FIXTURES / "grpo_killed", run)
    before = {path: path.stat().st_mtime_ns for path in run.rglob("*")}
    for command in ("diagnose", "gate", "rollback", "inspect"):
        cli(capsys, command, run)
    assert {path: path.stat().st_mtime_ns for path in run.rglob("*")} == before


def test_the_user_states_the_unit_that_the_log_leaves_open(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [
        {"step": n, "kl": 0.01 * n if n < 60 else 3.0, "entropy": 3.0 if n < 60 else 0.4, "lr": 1.0}
        for n in range(1, 101)
    ]
    log = write_jsonl(tmp_path / "log.jsonl", rows)
    unknown = document(capsys, "diagnose", log)
    kl = next(skip for skip in unknown["skipped"] if skip["code"] == "KL003")
    assert kl["command"] == "--map kl=kl_ref_token"
    assert "KL003" not in {finding["code"] for finding in unknown["findings"]}
    stated = document(capsys, "diagnose", log, "--map", "kl=kl_ref_token")
    assert "KL003" in {finding["code"] for finding in stated["findings"]}
    assert stated["verdict"] == "collapsed"
    response = document(capsys, "diagnose", log, "--map", "kl=kl_ref_response")
    assert {"KL002", "KL003"} & {item["code"] for item in response["findings"]} == set()


def test_limits_are_set_by_a_profile_and_by_the_command_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = FIXTURES / "grpo_healthy"
    profile = tmp_path / "strict.toml"
    profile.write_text("[KL003]\nceiling = 0.2\n")
    found = document(capsys, "diagnose", run, "--profile", profile)
    assert found["profile"] == "strict"
    assert found["limits"]["KL003"]["ceiling"] == 0.2
    assert found["verdict"] == "degraded"
    found = document(capsys, "diagnose", run, "--profile", profile, "--set", "KL003.ceiling=1.0")
    assert found["verdict"] == "healthy"


def test_a_built_in_profile_is_chosen_or_named(capsys: pytest.CaptureFixture[str]) -> None:
    run = FIXTURES / "dpo_healthy"
    found = document(capsys, "diagnose", run)
    assert (found["profile"], found["profile_reason"]) == ("dpo", "DPO")
    found = document(capsys, "diagnose", run, "--profile", "creative")
    assert (found["profile"], found["profile_reason"]) == ("creative", "")
    assert found["limits"]["KL001"]["high"] == 5.0
    _, out, _ = cli(capsys, "diagnose", run)
    assert "Limits: profile dpo (chosen: DPO)" in out
    for arguments in ([run, "--profile", "dpo"], [FIXTURES / "ppo_healthy"]):
        _, out, _ = cli(capsys, "diagnose", *arguments)
        assert "Limits: profile" not in out


def test_profile_show_prints_each_limit_and_where_it_came_from(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('extends = "creative"\nrequire = ["KL003"]\n[KL001]\nhigh = 6.0\n')
    code, out, _ = cli(capsys, "profile", "show", "--profile", path, "--set", "KL002.ceiling=4")
    assert code == 0
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert lines[:2] == ["profile mine", "required: KL003"]
    assert "KL001.rows = 10 (logged rows whose median is judged) rule default" in lines
    assert "KL001.low = 1 (nats per response) built-in profile creative" in lines
    assert f"KL001.high = 6 (nats per response) {path}" in lines
    assert "KL002.ceiling = 4 (nats per response) --set" in lines


def test_profile_show_says_what_a_run_would_choose(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = cli(capsys, "profile", "show", FIXTURES / "dpo_healthy")
    assert out.startswith("dpo_healthy: profile dpo (chosen: DPO)\n")
    found = document(capsys, "profile", "show", FIXTURES / "dpo_healthy")
    assert (found["run"], found["profile"], found["reason"]) == ("dpo_healthy", "dpo", "DPO")
    limits = {f"{item['code']}.{item['limit']}": item for item in found["limits"]}
    assert limits["CFG002.low"] == {
        "code": "CFG002",
        "rule": "beta_range",
        "limit": "low",
        "value": 0.01,
        "meaning": "beta of DPO and its kin, 1/nat",
        "origin": "built-in profile dpo",
    }
    assert limits["KL003.ceiling"]["origin"] == "rule default"


def test_profile_show_of_several_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = write_jsonl(
        tmp_path / "log.jsonl",
        [{"run": run, "step": n, "loss": 1.0 / n} for run in "ab" for n in range(1, 13)],
    )
    found = document(capsys, "profile", "show", log)
    assert [item["profile"] for item in found["runs"]] == ["default", "default"]


def test_profile_show_without_anything_is_the_rules_own_word(
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = document(capsys, "profile", "show")
    assert (found["run"], found["profile"], found["reason"]) == (None, "default", "")
    assert {item["origin"] for item in found["limits"]} == {"rule default"}


def test_standard_input_is_a_log(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = "".join(json.dumps(row) + "\n" for row in log_history("grpo_late"))
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(rows.encode())))
    code, out, _ = cli(capsys, "diagnose", "-")
    assert code == 0
    assert out.startswith("COLLAPSED")


def printed() -> bytes:
    keys = ("loss", "grad_norm", "learning_rate", "reward", "reward_std", "kl", "entropy")
    rows = [row for row in log_history("grpo_late") if set(keys) <= row.keys()]
    return "".join(f"{ {key: row[key] for key in keys} }\n" for row in rows).encode()


@pytest.mark.parametrize(
    ("text", "reader"),
    [
        pytest.param(
            lambda: (FIXTURES / "grpo_late" / "trainer_state.json").read_bytes(),
            "trainer_state",
            id="a trainer's state",
        ),
        pytest.param(printed, "console", id="a console"),
        pytest.param(lambda: gzip.compress(printed()), "console", id="a packed console"),
        pytest.param(
            lambda: next((FIXTURES / "grpo_killed" / "runs").rglob("*tfevents*")).read_bytes(),
            "tensorboard",
            id="an event file",
        ),
    ],
)
def test_standard_input_is_read_as_what_it_is(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    text: Callable[[], bytes],
    reader: str,
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text())))
    found = document(capsys, "inspect", "-")
    assert [source["reader"] for source in found["sources"]] == [reader]
    assert "loss_total" in {column["name"] for column in found["columns"]}


@pytest.mark.parametrize("text", [b"", b'{"a"', b"\x00\x01\x02 nothing", b"dear diary"])
def test_standard_input_that_nobody_understands_is_an_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], text: bytes
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text)))
    code, _, err = cli(capsys, "diagnose", "-")
    assert code == 2
    assert_error_lines(err)


# rollback


def test_rollback_inside_a_run_folder(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(FIXTURES / "grpo_late")
    code, out, _ = cli(capsys, "rollback", "--suggest")
    assert code == 0
    assert out.splitlines()[0] == "checkpoint-40"
    assert "overruled" in out


def test_the_ladder_shows_every_checkpoint_and_why_it_was_not_chosen(
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = document(capsys, "rollback", FIXTURES / "ppo_late")
    assert [rung["checkpoint"] for rung in found["ladder"]] == ["checkpoint-20", "checkpoint-40"]
    assert [rung["chosen"] for rung in found["ladder"]] == [True, False]
    assert found["ladder"][0]["kl_ref_response"] == pytest.approx(4.823, abs=1e-3)
    assert "not before the onset" in found["ladder"][1]["why_not"]


def test_the_crash_step_can_be_stated(capsys: pytest.CaptureFixture[str]) -> None:
    found = document(capsys, "rollback", FIXTURES / "grpo_late", "--crash-step", 30)
    assert found["rollback"]["checkpoint"] == "checkpoint-20"
    late = document(capsys, "rollback", FIXTURES / "grpo_late", "--crash-step", 100)
    assert late["rollback"]["checkpoint"] == "checkpoint-40"


@pytest.mark.parametrize(
    ("options", "checkpoint", "overruled"),
    [
        pytest.param((), "checkpoint-40", True, id="the evidence"),
        pytest.param(("--table-only",), None, False, id="the table alone"),
        pytest.param(("--table-only", "--crash-step", 9000), "checkpoint-60", False, id="its end"),
    ],
)
def test_the_table_alone(
    capsys: pytest.CaptureFixture[str],
    options: tuple[object, ...],
    checkpoint: str | None,
    overruled: bool,
) -> None:
    found = document(capsys, "rollback", FIXTURES / "grpo_late", *options)["rollback"]
    assert (found["checkpoint"], found["overruled"]) == (checkpoint, overruled)
    assert found["table"]


def test_another_table_comes_from_a_profile(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = tmp_path / "mine.toml"
    rows.write_text(
        '[[rollback]]\nlast = 10\ncheckpoint = "initial"\nchange = "read the samples"\n'
        '[[rollback]]\ncheckpoint = "last stable point"\nchange = "raise the KL penalty"\n'
    )
    options = ("--profile", rows)
    found = document(capsys, "rollback", FIXTURES / "grpo_late", *options)["rollback"]
    assert found["table"]["row"] == "> 10: last stable point"
    assert (found["checkpoint"], found["overruled"]) == ("checkpoint-40", False)
    assert found["changes"][0]["parameter"] == "kl_coef"
    code, out, _ = cli(capsys, "profile", "show", *options)
    assert code == 0
    assert "rollback < 11: initial, read the samples" in out


def test_weights_are_read_unless_told_otherwise(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = shutil.copytree(FIXTURES / "grpo_late", tmp_path / "run")
    weights = run / "checkpoint-40" / "model.safetensors"
    whole = weights.read_bytes()
    weights.write_bytes(whole[:-2] + b"\x00\x7c")  # the last float16 becomes infinite
    found = document(capsys, "rollback", run)["rollback"]
    assert found["checkpoint"] == "checkpoint-20"
    why = {item["checkpoint"]: item["why"] for item in found["rejected"]}
    assert why["checkpoint-40"].startswith("weights not finite: model.safetensors ")
    blind = document(capsys, "rollback", run, "--no-weights")["rollback"]
    assert blind["checkpoint"] == "checkpoint-40"
    assert "weights and optimizer state: not read" in blind["unchecked"]


# errors


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(["diagnose", "nowhere"], id="a missing path"),
        pytest.param(["diagnose", ".", "--format", "jsn"], id="an unknown report"),
        pytest.param(["diagnose", ".", "--set", "KL002"], id="a setting without a value"),
        pytest.param(["diagnose", ".", "--set", "KL999.x=1"], id="an unknown rule"),
        pytest.param(["diagnose", ".", "--set", "KL002.celing=1"], id="an unknown limit"),
        pytest.param(["diagnose", ".", "--set", "KL002.ceiling=x"], id="a limit of a wrong type"),
        pytest.param(["diagnose", ".", "--profile", "nowhere.toml"], id="a missing profile"),
        pytest.param(["diagnose", ".", "--map", "kl"], id="a map without a metric"),
        pytest.param(["diagnose", ".", "--map", "kl=kl_token"], id="a map to an unknown metric"),
        pytest.param(["diagnose", ".", "--dialect", "trl"], id="an unknown dialect"),
        pytest.param(["diagnose", ".", "--fail-on", "bad"], id="an unknown severity"),
        pytest.param(["diagnose", ".", "--output", "json"], id="an output without a path"),
        pytest.param(["diagnose", ".", "--output", "json=nowhere/x"], id="an output to nowhere"),
        pytest.param(["diagnose", ".", "--run", "0"], id="a run number below one"),
        pytest.param(["gate", ".", "--require", "KL2"], id="an unknown required rule"),
        pytest.param(["samples", "nowhere"], id="a missing sample file"),
        pytest.param(["explain", "KL2"], id="an unknown code"),
        pytest.param(["explain", "--tree", "--format", "markdown"], id="a tree in markdown"),
        pytest.param(["explain", "--format", "html"], id="rules in HTML"),
        pytest.param(["profile", "show", "--profile", "dialoge"], id="a profile misspelt"),
        pytest.param(["profile"], id="a group without its command"),
        pytest.param(["diagnos"], id="an unknown command"),
        pytest.param(["diagnose", "--bogus"], id="an unknown option"),
    ],
)
def test_a_mistake_is_answered_in_two_lines(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(FIXTURES / "ppo_healthy")
    code, _, err = cli(capsys, *arguments)
    assert code == 2
    assert_error_lines(err)


def test_an_error_in_json_is_a_document(capsys: pytest.CaptureFixture[str]) -> None:
    found = document(capsys, "diagnose", "nowhere")
    assert found["exit_code"] == 2
    assert found["error"]
    assert found["hint"]


def test_a_close_name_is_suggested(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(FIXTURES / "ppo_healthy")
    assert "did you mean ceiling" in cli(capsys, "diagnose", "--set", "KL002.celing=1")[2]
    assert "did you mean kl_ref_token" in cli(capsys, "diagnose", "--map", "kl=kl_ref_tokn")[2]


def test_a_bug_is_one_line_that_asks_to_report_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(*arguments: object, **options: object) -> None:
        raise ZeroDivisionError("division by zero")

    monkeypatch.setattr("rlhfdoctor.doctor.diagnose", broken)
    code, _, err = cli(capsys, "diagnose", FIXTURES / "ppo_healthy")
    assert code == 4
    assert_error_lines(err)
    assert "ZeroDivisionError" in err
    assert "Traceback" not in err
    code, _, err = cli(capsys, "--debug", "diagnose", FIXTURES / "ppo_healthy")
    assert code == 4
    assert "Traceback" in err


# the terminal


def process(*arguments: str, **options: Any) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "rlhfdoctor", *arguments],
        cwd=FIXTURES.parent,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        **options,
    )


def test_a_closed_pipe_is_quiet() -> None:
    done = process("diagnose", "fixtures/grpo_late")
    assert done.stdout is not None
    assert done.stderr is not None
    done.stdout.close()
    assert done.stderr.read() == b""
    done.stderr.close()
    assert done.wait() == 0


def listen_to_interrupts() -> None:
    """Undo what a shell without job control does to its background processes."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def test_an_interrupt_exits_with_130() -> None:
    options = {"stdin": subprocess.PIPE, "preexec_fn": listen_to_interrupts}
    with process("samples", "-", **options) as waiting:
        time.sleep(2.0)
        waiting.send_signal(signal.SIGINT)
        assert waiting.wait(timeout=20) == 130


def test_no_colour_without_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    assert "\x1b" not in cli(capsys, "diagnose", FIXTURES / "grpo_late")[1]


def test_text_of_a_run_cannot_command_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    evil = "\x1b[2J\x1b]0;owned\x07[bold]{0}\u202e"
    samples = [
        {"step": step, "response": f"{evil} " * 20, "reward": 1.0 + step, "token_ids": [1] * 20}
        for step in (0, 1)
        for _ in range(10)
    ]
    write_jsonl(tmp_path / "samples.jsonl", samples)
    write_state(tmp_path, [{**row, evil: 1.0} for row in log_history("grpo_late")])
    (tmp_path / "run_config.json").write_text(json.dumps({"ref_model": evil, "lr": 1e-3}))
    for command in (["diagnose"], ["inspect"], ["gate"], ["rollback", "--suggest"]):
        code, out, err = cli(capsys, *command, tmp_path)
        assert code in (0, 1), err
        assert "\x1b" not in out + err
        assert "\x07" not in out + err
        assert "\u202e" not in out + err
    _, out, _ = cli(capsys, "samples", tmp_path / "samples.jsonl")
    assert "\x1b" not in out
    assert "[bold]{0}" in out


def test_not_finite_numbers_are_strings() -> None:
    told = dumps({"a": [float("nan"), float("inf"), (float("-inf"), 1.5)]})
    assert json.loads(told) == {"a": ["NaN", "Infinity", ["-Infinity", 1.5]]}


def test_the_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli(capsys, "--version") == (0, f"rlhfdoctor {__version__}\n", "")


def test_explain_lists_rules_and_families(capsys: pytest.CaptureFixture[str]) -> None:
    _, everything, _ = cli(capsys, "explain")
    _, family, _ = cli(capsys, "explain", "len")
    codes = [line.split()[0] for line in everything.splitlines()]
    assert {"KL002", "NUM001", "DPO003"} <= set(codes)
    assert [line.split()[0] for line in family.splitlines()] == [
        code for code in codes if code.startswith("LEN")
    ]


def test_a_degraded_run_passes_the_gate_with_a_warning(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, out, _ = cli(capsys, "gate", FIXTURES / "grpo_healthy", "--set", "KL003.ceiling=0.2")
    assert (code, out.split()[:3]) == (0, ["WARN", "grpo_healthy", "degraded"])


def test_the_gate_names_the_finding_that_failed_a_healthy_run(
    capsys: pytest.CaptureFixture[str],
) -> None:
    _, out, _ = cli(capsys, "gate", FIXTURES / "ppo_healthy", "--fail-on", "info")
    assert out.startswith("FAIL     ppo_healthy  healthy  CFG001 learning rate 0.0001")


def test_explain_prints_a_rule_and_its_limits(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = cli(capsys, "explain", "KL002")
    assert code == 0
    assert "not verified" in out
    assert "KL002.ceiling = 5.0  (nats per response)" in out


@pytest.mark.parametrize("name", ["grpo_late", "dpo_healthy", "grpo_killed"])
def test_a_diagnosis_survives_json_and_back(name: str) -> None:
    found = published(diagnose_run(read_runs(FIXTURES / name)[0]), 0)
    once = dumps(found)
    assert dumps(json.loads(once)) == once


def test_explain_prints_rules_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    (rule,) = document(capsys, "explain", "KL001")["rules"]
    assert (rule["code"], rule["name"], rule["signal"]) == ("KL001", "kl_band", "kl")
    assert rule["limits"][0] == {"limit": "low", "default": 0.5, "meaning": "nats per response"}
    assert rule["remedy"].startswith("none by itself")
    family = document(capsys, "explain", "len")["rules"]
    assert {item["code"][:3] for item in family} == {"LEN"}
    assert len(document(capsys, "explain")["rules"]) > len(family)


def test_explain_draws_the_tree(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = cli(capsys, "explain", "--tree")
    assert (code, err) == (0, "")
    assert "\x1b" not in out
    for part in ("question", "cause", "remedy", "rules"):
        for value in _everywhere(document(capsys, "explain", "--tree")["tree"], part):
            for told in value if isinstance(value, list) else [value]:
                assert told in out


def test_the_tree_holds_every_root(capsys: pytest.CaptureFixture[str]) -> None:
    found = document(capsys, "explain", "--tree")
    assert [root["code"] for root in found["tree"]] == [root.code for root in TREE]
    assert {*_everywhere(found["tree"], "code")} >= {"A", "G1a", "H1"}


def _everywhere(tree: Any, key: str) -> list[Any]:
    """Every value of a key, wherever it stands."""
    if isinstance(tree, list):
        return [value for item in tree for value in _everywhere(item, key)]
    if not isinstance(tree, dict):
        return []
    own = [tree[key]] if key in tree else []
    return own + [value for item in tree.values() for value in _everywhere(item, key)]


@pytest.mark.parametrize("command", ["rollback", "backtest"])
def test_plans_and_backtests_are_written_beside_what_is_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    page, told = tmp_path / "page.md", tmp_path / "told.json"
    options = ("--no-rules",) if command == "backtest" else ("--suggest",)
    files = ("--output", f"markdown={page}", "--output", f"json={told}")
    code, out, _ = cli(capsys, command, FIXTURES / "grpo_late", *options, *files)
    assert code == 0
    assert "checkpoint" in out
    assert page.read_text(encoding="utf-8").startswith("# ")
    printed = document(capsys, command, FIXTURES / "grpo_late", *options)
    assert json.loads(told.read_text(encoding="utf-8")) == printed
    code, out, _ = cli(capsys, command, FIXTURES / "grpo_late", *options, "--format", "markdown")
    assert (code, out) == (0, page.read_text(encoding="utf-8"))


def test_a_packed_trainer_state_is_understood_on_standard_input(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    packed = gzip.compress((FIXTURES / "ppo_late" / "trainer_state.json").read_bytes())
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(packed)))
    code, out, _ = cli(capsys, "diagnose", "-")
    assert (code, out.split()[0]) == (0, "COLLAPSED")
