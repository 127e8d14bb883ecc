"""Small logs in the shape that each framework leaves, with invented values, read to the end.

The table beside each folder says what a value is, and what a reader would take it for who knows the
key alone.
"""

import csv
from functools import cache
from pathlib import Path

import polars as pl
import pytest

from rlhfdoctor import registry
from rlhfdoctor.dialects import Dialect
from rlhfdoctor.model import Run
from rlhfdoctor.runs import read_runs

LOGS = Path(__file__).parent / "logs"
FOLDERS = {path.name: path for path in sorted(LOGS.iterdir()) if path.is_dir()}
DIALECTS = {item.name: item for item in registry.members("dialects", Dialect)}

VARIANTS = {
    "trl_grpo_0_15": "trl_grpo",
    "verl_0_3": "verl",
    "deepspeed_chat_2023": "deepspeed_chat",
    "moss_rlhf_console": "moss_rlhf",
    "summarize_details_console": "summarize_details",
    "minimind_ppo_2": "minimind_ppo",
}
"""Folders of another version or format of a dialect."""

ELSEWHERE = {"llamafactory_orpo", "llamafactory_kto_state"}
"""Dialects without a folder: told by a configuration alone, and tested by their keys."""


def expected(name: str) -> list[dict[str, str]]:
    with FOLDERS[name].with_suffix(".csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@cache
def run(name: str) -> Run:
    found = read_runs(FOLDERS[name])
    assert len(found) == 1
    return found[0]


@pytest.mark.parametrize("name", FOLDERS)
def test_the_log_chooses_its_dialect(name: str) -> None:
    assert run(name).dialect == VARIANTS.get(name, name)


@pytest.mark.parametrize("name", FOLDERS)
def test_every_expected_value_arrives_under_its_name_and_unit(name: str) -> None:
    found = run(name)
    for row in expected(name):
        metric = row["metric"]
        assert metric in found.columns, (metric, sorted(found.columns))
        values = found.metrics.filter(pl.col("step") == int(row["step"]))[metric].to_list()
        assert values == [pytest.approx(float(row["value"]), rel=1e-6, abs=1e-12)], metric
        assert found.columns[metric].unit == row["unit"], metric


@pytest.mark.parametrize("name", FOLDERS)
def test_a_naive_reader_gets_something_wrong(name: str) -> None:
    rows = expected(name)
    assert len(rows) >= 3
    assert any(row["what_a_naive_reader_says"] for row in rows)


def test_every_dialect_has_a_log() -> None:
    shown = {VARIANTS.get(name, name) for name in FOLDERS}
    assert shown == DIALECTS.keys() - ELSEWHERE


@pytest.mark.parametrize(
    ("name", "metric", "text"),
    [
        ("trlx", "kl_ref_response", "square root"),
        ("areal", "kl_old_token", "opposite sign"),
        ("minimind_grpo", "kl_ref_token", "negated"),
        ("nemo_rl", "frac_group_all_zero", "percent"),
        ("nemo_rl_dpo", "dpo_reward_chosen", "without beta"),
        ("llamafactory_kto", "kto_kl_baseline", "summed"),
        ("moss_rlhf", "neg_logp_token", "recovered"),
        ("slime", "kl_ref_token", "no KL is logged"),
    ],
)
def test_what_was_corrected_says_so(name: str, metric: str, text: str) -> None:
    assert text in run(name).columns[metric].corrections[0]


def test_an_estimate_is_marked_as_derived() -> None:
    assert run("moss_rlhf").columns["neg_logp_token"].derived
    assert not run("slime").columns["kl_ref_token"].derived


@pytest.mark.parametrize("name", ["nemo_rl_dpo", "nemo_aligner_dpo", "nemo_aligner_kto"])
def test_without_beta_no_reward_is_made_up(tmp_path: Path, name: str) -> None:
    log = (FOLDERS[name] / "history.jsonl").read_text(encoding="utf-8")
    (tmp_path / "history.jsonl").write_text(log, encoding="utf-8")
    found = read_runs(tmp_path)[0]
    assert found.dialect == name
    assert not {"dpo_reward_chosen", "dpo_margin"} & set(found.columns)
