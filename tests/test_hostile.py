"""Run folders are untrusted: what is damaged, absurd or malicious is told, never believed."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from rlhfdoctor.doctor import diagnose
from rlhfdoctor.model import Diagnosis
from rlhfdoctor.runs import read_runs
from tests.builders import FIXTURES, batch, log_history, write_jsonl, write_state
from tests.test_cli import assert_error_lines, cli, document

HEALTHY_ROWS = log_history("grpo_healthy")[:60]
COMMANDS = (["diagnose"], ["gate"], ["rollback"], ["rollback", "--suggest"], ["inspect"])


def diagnosed(path: Path) -> Diagnosis:
    return diagnose(read_runs(path)[0])


def without(*keys: str) -> list[dict[str, Any]]:
    return [{key: row[key] for key in row if key not in keys} for row in HEALTHY_ROWS]


# what could not be looked at is never healthy


def test_a_damaged_run_beside_a_good_one_does_not_vanish(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_state(tmp_path / "good", HEALTHY_ROWS)
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "trainer_state.json").write_text('{"log_history": [')
    (tmp_path / "ugly").mkdir()
    (tmp_path / "ugly" / "metrics.jsonl").write_bytes(bytes(range(256)) * 20)
    code, out, _ = cli(capsys, "gate", tmp_path)
    assert code == 3
    words = {line.split()[1]: line.split()[0] for line in out.splitlines()}
    assert words == {"good": "PASS", "bad": "UNKNOWN", "ugly": "UNKNOWN"}


def test_a_log_that_nobody_understands_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_state(tmp_path, HEALTHY_ROWS)
    (tmp_path / "metrics.jsonl").write_text("\x00\x01\n" * 50)
    _, out, _ = cli(capsys, "diagnose", tmp_path)
    assert "not read: metrics.jsonl" in out.splitlines()[1]


@pytest.mark.parametrize(
    "held",
    [
        pytest.param(b"", id="empty"),
        pytest.param(bytes(5000), id="NUL bytes"),
        pytest.param(b"garbage", id="garbage"),
        pytest.param(b'{"log_history": nul', id="cut"),
    ],
)
def test_a_log_that_broke_is_named_where_an_older_copy_is_read(
    held: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_state(tmp_path / "checkpoint-30", log_history("grpo_late")[:30])
    (tmp_path / "trainer_state.json").write_bytes(held)
    found = document(capsys, "diagnose", tmp_path)
    assert any(note["where"] == "trainer_state.json" for note in found["notes"])
    assert "\n  trainer_state.json: " in cli(capsys, "inspect", tmp_path)[1]


def test_a_first_record_of_five_kilobytes_hides_no_log(tmp_path: Path) -> None:
    rows = [{"argv": "x" * 5000}, *log_history("grpo_late")]
    write_jsonl(tmp_path / "metrics.jsonl", rows)
    assert diagnosed(tmp_path).verdict == "collapsed"


@pytest.mark.parametrize(
    "rows",
    [
        pytest.param(
            [*HEALTHY_ROWS[:1], *without("kl", "entropy")[1:]], id="a KL in one row of sixty"
        ),
        pytest.param(
            HEALTHY_ROWS[:12] + without("kl", "entropy")[12:], id="a KL that is no longer logged"
        ),
        pytest.param(
            [{**row, "kl": None, "entropy": None} for row in HEALTHY_ROWS], id="a KL of nulls"
        ),
        pytest.param(
            [{**row, "kl": 0.0, "entropy": 0.0} for row in HEALTHY_ROWS], id="columns of zeros"
        ),
    ],
)
def test_a_distance_that_was_not_measured_is_not_passed(
    rows: list[dict[str, Any]], tmp_path: Path
) -> None:
    write_state(tmp_path, rows)
    assert diagnosed(tmp_path).verdict == "inconclusive"


@pytest.mark.parametrize(
    ("count", "logprob"),
    [
        pytest.param(3, -2.0, id="three responses a step"),
        pytest.param(12, float("nan"), id="log-probabilities of NaN"),
        pytest.param(12, 1000.0, id="log-probabilities above zero"),
        pytest.param(12, -1e308, id="log-probabilities beyond sense"),
    ],
)
def test_samples_that_cannot_be_compared_do_not_stand_in_for_the_log(
    count: int, logprob: float, tmp_path: Path
) -> None:
    write_state(tmp_path, without("kl", "entropy"))
    ids = [list(range(n, n + 20)) for n in range(count)]
    rows = [r for step in (0, 10, 20) for r in batch(step, ids, logprob=logprob, ref_logprob=-2.0)]
    write_jsonl(tmp_path / "samples.jsonl", rows)
    assert diagnosed(tmp_path).verdict == "inconclusive"


@pytest.mark.parametrize(
    "value",
    [
        pytest.param("nan", id="nan as Python writes it"),
        pytest.param("-inf", id="minus infinity as Python writes it"),
        pytest.param(float("nan"), id="a bare NaN"),
    ],
)
def test_a_loss_that_ends_in_nan_is_no_pass(value: object, tmp_path: Path) -> None:
    rows = [{**row, "loss": value} if row["step"] > 6 else row for row in HEALTHY_ROWS]
    write_jsonl(tmp_path / "log.jsonl", rows)
    assert diagnosed(tmp_path).verdict == "collapsed"


def test_a_finite_row_now_and_then_is_no_recovery(tmp_path: Path) -> None:
    nan = float("nan")
    rows = [{**row, "loss": nan} if row["step"] % 3 else row for row in HEALTHY_ROWS]
    write_state(tmp_path, rows)
    assert diagnosed(tmp_path).verdict == "collapsed"


def test_a_tracker_s_prefix_hides_no_trainer(tmp_path: Path) -> None:
    rows = [
        {key if key == "step" else f"train/{key}": value for key, value in row.items()}
        for row in log_history("grpo_late")
    ]
    write_jsonl(tmp_path / "log.jsonl", rows)
    (run,) = read_runs(tmp_path)
    assert run.framework == "TRL"
    assert diagnose(run).verdict == "collapsed"


def test_a_run_that_starts_over_in_its_log_is_two_runs(tmp_path: Path) -> None:
    rows = [*log_history("grpo_late"), *HEALTHY_ROWS]
    write_jsonl(tmp_path / "log.jsonl", rows)
    first, second = read_runs(tmp_path)
    assert (first.logged_steps, second.logged_steps) == (200, 60)
    assert [diagnose(run).verdict for run in (first, second)] == ["collapsed", "healthy"]


def test_a_limit_of_nan_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = cli(capsys, "gate", FIXTURES / "ppo_crashed", "--set", "KL002.ceiling=nan")
    assert code == 2
    assert_error_lines(err)


# absurd content is no bug of ours


def absurd(folder: Path, name: str) -> None:
    """Write one kind of absurd run."""
    rows: list[dict[str, Any]] = [dict(row) for row in HEALTHY_ROWS]
    samples: list[dict[str, Any]] = []
    if name == "a step beyond 64 bits":
        rows[7]["step"] = 2**70
        samples = [*batch(0, [[1, 2]]), {"step": 10**19, "response": "a b"}]
    elif name == "a step of 1e300":
        rows[7]["step"] = 1e300
    elif name == "numbers too large to square":
        for index, row in enumerate(rows):
            row.update(kl=1e308, reward=(-1) ** index * 1e308, grad_norm=1e200)
    elif name == "a lone surrogate in a key":
        rows[3]["\ud800x"] = 1.0
        rows[4]["\ud800y"] = [1]
    elif name == "keys like a template":
        for row in rows:
            row["rewards/{0}{level}\x1b[2J\n/mean"] = float("nan")
    elif name == "a thousand tables deep":
        rows[5]["deep"] = "DEEP"
    elif name == "infinite log-probabilities":
        samples = [
            {"step": step, "response": "a b", "logprobs": [float("inf"), -float("inf")]}
            for step in (0, 1)
            for _ in range(9)
        ]
    elif name == "log-probabilities of 1000":
        ids = [[1, 2, 3]] * 9
        samples = batch(0, ids, logprob=1000.0, ref_logprob=1000.0)
        samples += batch(5, ids, logprob=1000.0, ref_logprob=-1.0)
    elif name == "endless plans":
        (folder / "run_config.json").write_text(
            '{"max_steps": Infinity, "lr": 1e400, "beta": 1' + "0" * 400 + ', "seed": "\\ud800"}'
        )
    path = write_state(folder, rows, max_steps=1e300 if name == "endless plans" else 60)
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace('"DEEP"', '{"a": ' * 1000 + "1.0" + "}" * 1000))
    if samples:
        write_jsonl(folder / "samples.jsonl", samples)


@pytest.mark.parametrize("form", ["terminal", "json"])
@pytest.mark.parametrize(
    "name",
    [
        "a step beyond 64 bits",
        "a step of 1e300",
        "numbers too large to square",
        "a lone surrogate in a key",
        "keys like a template",
        "a thousand tables deep",
        "infinite log-probabilities",
        "log-probabilities of 1000",
        "endless plans",
    ],
)
def test_absurd_content_is_borne(
    name: str, form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    absurd(tmp_path, name)
    for command in COMMANDS:
        if form == "json":
            document(capsys, *command, tmp_path)
            continue
        code, out, err = cli(capsys, *command, tmp_path)
        assert code in (0, 1, 3), err
        assert "\x1b" not in out + err


def test_unique_keys_in_every_row_do_not_multiply(tmp_path: Path) -> None:
    rows = [
        {"step": step, **{f"k{step}_{n}": 1.0 for n in range(50)}, "loss": 1.0}
        for step in range(1, 1001)
    ]
    write_jsonl(tmp_path / "log.jsonl", rows)
    (run,) = read_runs(tmp_path)
    assert run.observations.collect().height == 51 * 1000
    assert run.metrics.columns == ["step", "epoch", "loss_total"]


# absurd folders


def test_links_in_circles_and_to_outside_are_left_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    write_state(run, HEALTHY_ROWS)
    (tmp_path / "secret.jsonl").write_text('{"step": 1, "kl": 99.0}\n')
    (run / "a.jsonl").symlink_to(run / "b.jsonl")
    (run / "b.jsonl").symlink_to(run / "a.jsonl")
    (run / "c.jsonl").symlink_to(tmp_path / "secret.jsonl")
    (run / "loop").symlink_to(run)
    code, out, err = cli(capsys, "diagnose", run)
    assert (code, err) == (0, "")
    assert out.count("not followed") == 3
    assert "99" not in out


def test_special_files_are_named_and_do_not_block(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_state(tmp_path, HEALTHY_ROWS)
    os.mkfifo(tmp_path / "log.jsonl")
    _, out, _ = cli(capsys, "diagnose", tmp_path)
    assert "log.jsonl: is no regular file; not read" in out


def test_a_checkpoint_that_cannot_be_listed_is_noted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_state(tmp_path, HEALTHY_ROWS)
    (tmp_path / "checkpoint-40").mkdir()

    def refused(path: Path) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "iterdir", refused)
    assert cli(capsys, "gate", tmp_path)[0] == 0
    assert "Permission denied" in cli(capsys, "diagnose", tmp_path)[1]


def test_a_checkpoint_of_twenty_digits_is_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_state(tmp_path, HEALTHY_ROWS)
    (tmp_path / f"checkpoint-{'9' * 20}").mkdir()
    assert document(capsys, "rollback", tmp_path)["ladder"] == []


def test_names_that_no_encoding_carries_are_shown_escaped(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in (b"ev\xff\x1b[31mil", b"plain"):
        write_state(tmp_path / os.fsdecode(name), log_history("grpo_late"))
    found = document(capsys, "diagnose", tmp_path)
    assert len(found["runs"]) == 2
    for command in (["rollback"], ["gate"], ["diagnose"]):
        _, out, err = cli(capsys, *command, tmp_path)
        assert "\x1b" not in out + err
        assert "\\xff" in out


@pytest.mark.parametrize("command", ["diagnose", "gate", "samples", "rollback", "inspect"])
def test_a_path_too_long_to_exist_is_an_error_of_two_lines(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, err = cli(capsys, command, "x" * 300)
    assert code == 2
    assert_error_lines(err)


def test_a_link_in_a_checkpoint_is_not_opened(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    shutil.copytree(FIXTURES / "grpo_late", run)
    secret = tmp_path / "secret.json"
    secret.write_text('{"weight_map": {"a": "SECRET-TOKEN"}}')
    (run / "checkpoint-40" / "model.safetensors.index.json").symlink_to(secret)
    for command in COMMANDS:
        assert "SECRET-TOKEN" not in cli(capsys, *command, run)[1]


# reports go where the user said, and nowhere else


def test_a_report_overwrites_no_file_of_the_run_and_follows_no_link(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    log = write_jsonl(run / "log.jsonl", HEALTHY_ROWS)
    before = log.read_bytes()
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (run / "report.json").symlink_to(victim)
    monkeypatch.chdir(run)
    for target in ("log.jsonl", str(log), "report.json"):
        code, out, err = cli(capsys, "diagnose", "--output", f"json={target}")
        assert code == 2
        assert out == ""
        assert_error_lines(err)
    assert log.read_bytes() == before
    assert victim.read_text() == "precious"


@pytest.mark.parametrize("command", ["diagnose", "gate"])
def test_a_report_that_cannot_be_written_leaves_one_document(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = document(capsys, command, FIXTURES / "ppo_healthy", "--output", f"json={tmp_path}/no/x")
    assert found["exit_code"] == 2


def test_the_gate_names_the_runs_that_it_could_not_judge(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = document(capsys, "gate", FIXTURES / "ppo_healthy", tmp_path / "a", tmp_path / "b")
    assert [run["run"]["id"] for run in found["runs"]] == ["ppo_healthy"]
    assert [item["path"] for item in found["failed"]] == [
        str(tmp_path / "a"),
        str(tmp_path / "b"),
    ]


def test_a_bug_in_one_run_hides_no_other(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(path: Path, **options: object) -> Any:
        if "ppo" in str(path):
            raise ZeroDivisionError
        return read_runs(path)

    monkeypatch.setattr("rlhfdoctor.runs.read_runs", broken)
    code, out, err = cli(capsys, "gate", FIXTURES / "ppo_healthy", FIXTURES / "grpo_healthy")
    assert code == 4
    assert out.startswith("PASS     grpo_healthy")
    assert "a bug in rlhfdoctor" in err


def test_closed_and_full_streams_are_borne() -> None:
    command = [sys.executable, "-m", "rlhfdoctor", "diagnose", "fixtures/ppo_healthy"]
    root = FIXTURES.parent
    with open("/dev/full", "w") as full:
        done = subprocess.run(command, cwd=root, stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 2
    assert_error_lines(done.stderr)
    closed = subprocess.run(
        ["sh", "-c", '"$@" >&-', "sh", *command], cwd=root, capture_output=True, text=True
    )
    assert (closed.returncode, closed.stderr) == (0, "")


def test_json_carries_no_number_beyond_64_bits(capsys: pytest.CaptureFixture[str]) -> None:
    from rlhfdoctor.reports.json import dumps

    told = json.loads(dumps({"a": 2**70, "b": "\ud800", "\ud800": -(2**63)}))
    assert told["a"] == float(2**70)
    assert told["b"] == "\\ud800"


def test_steps_counted_anew_in_each_epoch_are_one_run(tmp_path: Path) -> None:
    rows = [
        {**row, "step": index % 20 + 1, "epoch": index // 20 + index % 20 / 20}
        for index, row in enumerate(HEALTHY_ROWS)
    ]
    write_jsonl(tmp_path / "log.jsonl", rows)
    (run,) = read_runs(tmp_path)
    assert run.metrics["step"].to_list() == list(range(1, 61))
    assert any("anew in each epoch" in note.text for note in run.notes)
