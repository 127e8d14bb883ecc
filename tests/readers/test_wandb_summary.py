import json
from pathlib import Path

import pytest

from rlhfdoctor.readers.wandb_summary import wandb_summary
from tests.readers.helpers import Read, read, write


def summary(tmp_path: Path, record: object) -> Read:
    text = record if isinstance(record, str) else json.dumps(record)
    return read(wandb_summary, write(tmp_path / "wandb-summary.json", text))


def test_last_values_are_one_row(tmp_path: Path) -> None:
    histogram = {"_type": "histogram", "values": [1] * 64, "bins": [0] * 65}
    found = summary(
        tmp_path,
        {
            "objective/kl": 6.5,
            "env": {"reward": {"mean": 0.5}},
            "loss": "NaN",
            **{f"parameters/{layer}": histogram for layer in range(300)},
            "samples": {"_type": "table-file", "nrows": 4, "ncols": 2},
            "dist": [1, 2, 3],
            "_step": 249,
            "_timestamp": 1.8e9,
            "_runtime": 60,
            "_wandb": {"runtime": 61},
        },
    )
    assert len(found.rows) == 1
    row = found.rows[0]
    assert (row.step, row.wall_time, row.others) == (249, 1.8e9, ("dist", "step"))
    assert row.values == pytest.approx(
        {"objective/kl": 6.5, "env/reward/mean": 0.5, "loss": float("nan")}, nan_ok=True
    )
    assert found.told.splitlines() == [
        "wandb-summary.json: holds only the last value of each key, no history",
        "wandb-summary.json: holds besides numbers, unread: 300 histogram, 1 table-file",
        "wandb-summary.json: no numbers, so no metrics: dist (1 rows)",
    ]


def test_the_trainers_own_step_counts(tmp_path: Path) -> None:
    found = summary(tmp_path, {"train/loss": 1, "train/global_step": 500, "_step": 50})
    assert found.rows[0].step == 500


@pytest.mark.parametrize(
    ("text", "told"),
    [
        pytest.param("[1]", "is no table; nothing was read", id="an array"),
        pytest.param('{"_step": 3}', "holds no numbers", id="nothing but wandb's own keys"),
        pytest.param("{", "no valid JSON", id="a cut file"),
        pytest.param("[" * 100_000, "no valid JSON", id="nothing but brackets"),
    ],
)
def test_what_holds_no_values_says_so(tmp_path: Path, text: str, told: str) -> None:
    found = summary(tmp_path, text)
    assert found.rows == []
    assert found.notes[0].text.startswith(told)
    assert found.notes[0].unread is ("holds no numbers" not in told)


@pytest.mark.parametrize(
    ("name", "claimed"), [("wandb-summary.json", True), ("summary.json", False)]
)
def test_claims(name: str, claimed: bool) -> None:
    assert wandb_summary.claims(name, b"{}") is claimed
