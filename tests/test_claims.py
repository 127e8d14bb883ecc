import json
from pathlib import Path

import polars as pl

from rlhfdoctor.claims import sample_files
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
