import json
import os
from pathlib import Path

import polars as pl
import pytest

from rlhfdoctor import claims
from rlhfdoctor.claims import found, is_log, sample_files
from rlhfdoctor.model import Note
from tests.builders import write_jsonl, write_state


def test_the_sample_files_of_a_folder_are_found_in_the_order_of_their_numbers(
    tmp_path: Path,
) -> None:
    write_state(tmp_path, [{"step": 1, "loss": 2.0}])
    write_jsonl(tmp_path / "metrics.jsonl", [{"step": 1, "kl": 0.1}])
    pl.DataFrame({"step": [1], "kl": [0.5]}).write_parquet(tmp_path / "metrics.parquet")
    (tmp_path / "log.csv").write_text("step,loss\n1,2\n")
    (tmp_path / "generations.csv").write_text("prompt,response\nq,a\n")
    for step in (10, 9):
        write_jsonl(tmp_path / "rollout" / f"{step}.jsonl", [{"input": "q", "output": "a"}])
        (tmp_path / "completions").mkdir(exist_ok=True)
        frame = pl.DataFrame({"step": [step], "prompt": ["q"], "completion": ["a"]})
        frame.write_parquet(tmp_path / "completions" / f"completions_{step}.parquet")
    (tmp_path / "pairs.json").write_text(json.dumps([{"chosen": "a", "rejected": "b"}]))
    notes: list[Note] = []
    found = [path.relative_to(tmp_path).as_posix() for path in sample_files(tmp_path, notes)]
    assert found == [
        "completions/completions_9.parquet",
        "completions/completions_10.parquet",
        "generations.csv",
        "pairs.json",
        "rollout/9.jsonl",
        "rollout/10.jsonl",
    ]
    assert notes == []


def test_what_is_named_like_samples_and_cannot_be_read_is_noted(tmp_path: Path) -> None:
    (tmp_path / "empty.jsonl").write_text("")
    (tmp_path / "away.jsonl").symlink_to("/etc/hostname")
    notes: list[Note] = []
    assert sample_files(tmp_path, notes) == []
    assert {note.where: note.text for note in notes} == {
        "away.jsonl": "is a link to outside the run folder, or to nowhere; not followed",
        "empty.jsonl": "is empty; nothing was read",
    }


EMPTY = "is empty; nothing was read"
NULS = "holds NUL bytes where it should begin; nothing was read"
STRANGE = "is no log or sample file that any reader understands; not read"


def told(root: Path) -> dict[str, str]:
    """Return what is told of the files under a folder that are not read, by name."""
    notes: list[Note] = []
    unread = {item.name: item.reason for item in found(root, notes) if item.reader is None}
    return {**unread, **{note.where: note.text for note in notes if note.unread}}


@pytest.mark.parametrize(
    ("held", "reason"),
    [
        pytest.param(b"", EMPTY, id="empty"),
        pytest.param(bytes(5000), NULS, id="NUL bytes"),
        pytest.param(b"garbage", STRANGE, id="other text"),
    ],
)
@pytest.mark.parametrize(
    "name",
    [
        *("trainer_state.json", "run7_trainer_state.json", "trainer_state.json.gz"),
        *("metrics.jsonl", "train.log", "run.wandb"),
        *("run_config.json", "args.json", "wandb-metadata.json"),
    ],
)
def test_what_a_name_promises_and_is_not_there_is_told(
    name: str, held: bytes, reason: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_bytes(held)
    assert told(tmp_path) == {name: reason}


@pytest.mark.parametrize("name", ["metrics.csv", "train_log.json", "metrics.parquet"])
@pytest.mark.parametrize(("held", "reason"), [(b"", EMPTY), (bytes(5000), NULS)])
def test_a_log_or_a_table_of_which_nothing_is_left_is_told(
    name: str, held: bytes, reason: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_bytes(held)
    assert told(tmp_path) == {name: reason}


@pytest.mark.parametrize("name", ["trainer_state.json", "wandb-summary.json", "metrics.csv"])
def test_a_file_that_cannot_be_opened_is_told(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(path: Path) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    (tmp_path / name).write_text("{}")
    monkeypatch.setattr(claims, "opened", refused)
    assert told(tmp_path) == {name: "cannot be opened (Permission denied); not read"}


@pytest.mark.parametrize(
    ("name", "held"),
    [
        pytest.param("tokenizer.json", "", id="an empty tokenizer"),
        pytest.param("config.json", "", id="an empty description of a model"),
        pytest.param("package.json", '{"dependencies": {}}', id="a package"),
        pytest.param("args.json", '{"model_type": "qwen2"}', id="arguments of a model"),
        pytest.param("catalog.json", '{"books": ["a"]}', id="a catalog"),
        pytest.param("colours.csv", "name,colour\n", id="a table of names"),
        pytest.param("README.md", "", id="an empty README"),
        pytest.param("notes.txt", "", id="empty notes"),
        pytest.param("training_args.bin", "", id="arguments that are never read"),
    ],
)
def test_what_is_merely_named_alike_is_not_told(name: str, held: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(held)
    assert told(tmp_path) == {}


@pytest.mark.parametrize("name", ["run_config.json", "wandb-metadata.json", "metrics.csv"])
def test_a_broken_file_that_is_no_log_makes_no_run(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(b"")
    os.mkfifo(tmp_path / f"2_{name}")
    assert found(tmp_path, []) == []


def test_a_log_that_is_a_link_to_outside_makes_a_run(tmp_path: Path) -> None:
    (tmp_path / "trainer_state.json").symlink_to("/etc/hostname")
    (item,) = found(tmp_path, [])
    assert item.reader is None
    assert "not followed" in item.reason


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        pytest.param("checkpoint-30/trainer_state.json", True, id="a trainer's state"),
        pytest.param("trainer_state.json.gz", True, id="a packed one"),
        pytest.param("metrics.jsonl", False, id="JSON Lines, which may be a placeholder"),
        pytest.param("slurm-7.err", False, id="an output, which may be empty"),
        pytest.param("run_config.json", False, id="a configuration"),
    ],
)
def test_which_names_only_a_log_bears(where: str, expected: bool) -> None:
    assert is_log(where) is expected
