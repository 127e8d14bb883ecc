import csv
import io
import json
import math
import re
import shutil
import subprocess
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from polars.testing import assert_frame_equal
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from rlhfdoctor.curves import WINDOW, panels
from rlhfdoctor.doctor import diagnose
from rlhfdoctor.export import (
    CLOCKLESS,
    bands,
    clock,
    column_metadata,
    dashboard,
    harmless,
    named,
    openmetrics,
    record,
    run_names,
    table,
)
from rlhfdoctor.model import Checkpoint, Diagnosis, Run
from rlhfdoctor.runs import read_runs
from tests.builders import FIXTURES, RUNS, run_of
from tests.test_cli import assert_error_lines, cli

PROMTOOL = shutil.which("promtool")
GOLDEN = Path(__file__).parent / "golden"
SCHEMA = json.loads(
    (Path(__file__).parent / "schemas" / "grafana-dashboard.json").read_text(encoding="utf-8")
)


def small(**more: Any) -> Run:
    made = run_of(
        kl_ref_token=[0.0, 0.1, math.nan, 4.0],
        eval_reward_raw_mean=[None, 1.0, None, 2.0],
        entropy=[2.0, math.inf, -math.inf, None],
        **more,
    )
    return replace(made, framework="TRL", algorithm="GRPO")


def clocked(*times: float | None) -> Run:
    made = small()
    walls = pl.DataFrame(
        {"step": [1, 2, 3, 4], "wall_time": list(times)},
        schema={"step": pl.Int64, "wall_time": pl.Float64},
    )
    observed = made.observations.drop("wall_time", strict=False).join(walls.lazy(), on="step")
    return replace(made, observations=observed)


def families(parts: Iterable[str]) -> dict[str, list[tuple[dict[str, str], float, float]]]:
    """Parse OpenMetrics with the parser of the official client, which is strict."""
    return {
        family.name: [
            (dict(sample.labels), sample.value, float(sample.timestamp))
            for sample in family.samples
        ]
        for family in text_string_to_metric_families("".join(parts))  # type: ignore[no-untyped-call]
    }


# the clock


@pytest.mark.parametrize(
    ("times", "logged"),
    [
        pytest.param((10.0, 11.0, 12.0, 20.0), True, id="a clock that goes forward"),
        pytest.param((10.0, 11.0, 11.0, 20.0), False, id="one that stands still"),
        pytest.param((10.0, 9.0, 12.0, 20.0), False, id="one that goes back"),
        pytest.param((10.0, None, 12.0, 20.0), False, id="one with a gap"),
        pytest.param((10.0, math.nan, 12.0, 20.0), False, id="one with a NaN"),
        pytest.param((-5.0, 1.0, 2.0, 3.0), False, id="one before 1970"),
        pytest.param((1.0, 2.0, 3.0, 1e300), False, id="one beyond all time"),
        pytest.param((1.0, 1.0001, 2.0, 3.0), False, id="one finer than Prometheus keeps"),
        pytest.param((None, None, None, None), False, id="none"),
    ],
)
def test_the_time_of_a_row(times: tuple[float | None, ...], logged: bool) -> None:
    found = clock(clocked(*times))
    assert found.logged is logged
    assert found.at(4) == (times[3] if logged else 4.0)
    assert found.at(100) == found.at(4)
    assert found.at(0) == found.at(1)


# OpenMetrics


@pytest.mark.parametrize("name", sorted(RUNS))
def test_every_run_is_valid_openmetrics(name: str, tmp_path: Path) -> None:
    runs = read_runs(FIXTURES / name)
    text = "".join(openmetrics([diagnose(run) for run in runs]))
    found = families(text)
    assert text.endswith("# EOF\n")
    (run,) = runs
    assert [value for _, value, _ in found["rlhf_step"]] == run.metrics["step"].to_list()
    for column in run.columns:
        base = column.removeprefix("eval_").partition("[")[0]
        assert f"rlhf_{base}" in found, column
    assert found["rlhf_verdict"][0][0]["verdict"] == diagnose(run).verdict


@pytest.mark.skipif(PROMTOOL is None, reason="promtool (Debian's prometheus) is not installed")
@pytest.mark.parametrize("name", ["grpo_late", "dpo_healthy"])
def test_prometheus_takes_it(name: str, tmp_path: Path) -> None:
    path = tmp_path / "run.txt"
    path.write_text("".join(openmetrics([diagnose(run) for run in read_runs(FIXTURES / name)])))
    blocks = tmp_path / "tsdb"
    command = [
        str(PROMTOOL),
        "tsdb",
        "create-blocks-from",
        "openmetrics",
        *map(str, (path, blocks)),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert list(blocks.iterdir())


def test_values_are_told_as_they_were_logged() -> None:
    found = families(openmetrics([diagnose(small())]))
    values = [value for _, value, _ in found["rlhf_kl_ref_token"]]
    assert values[:2] + values[3:] == [0.0, 0.1, 4.0]
    assert math.isnan(values[2])
    assert [value for _, value, _ in found["rlhf_entropy"]] == [2.0, math.inf, -math.inf]
    (first, value, time), _ = found["rlhf_reward_raw_mean"]
    assert (first["split"], value, time) == ("eval", 1.0, 2.0)
    assert [value for _, value, _ in found["rlhf_kl_ref_token_ma10"]] == pytest.approx(
        [0.0, 0.05, 4.1 / 3]
    )
    assert [value for _, value, _ in found["rlhf_kl_ref_token_p90"]] == [0.0, 0.1, 4.0]


@given(st.text(max_size=30))
def test_no_name_breaks_out_of_a_label(name: str) -> None:
    found = families(openmetrics([diagnose(replace(small(), name=name, framework=name))]))
    told = found["rlhf_step"][0][0]["run"]
    assert told == name.encode("utf-8", "backslashreplace").decode()


def test_several_runs_share_a_family() -> None:
    one, two = diagnose(small()), diagnose(replace(small(), name="two"))
    found = families(openmetrics([one, two]))
    assert [labels["run"] for labels, _, _ in found["rlhf_step"]] == ["run"] * 4 + ["two"] * 4


@pytest.mark.parametrize(
    ("places", "names"),
    [
        pytest.param([("a", "x"), ("b", "y")], ["a", "b"], id="names that differ"),
        pytest.param([("a", "x"), ("a", "y"), ("b", "z")], ["x", "y", "b"], id="their paths"),
        pytest.param([("a", "x")] * 3, ["x", "x (2)", "x (3)"], id="one run three times"),
        pytest.param([("a", "b"), ("a", "c"), ("b", "z")], ["b", "c", "b (2)"], id="a path's name"),
        pytest.param([("\ud800", "x"), ("\\ud800", "y")], ["\\ud800", "\\ud800 (2)"], id="escapes"),
    ],
)
def test_no_two_runs_of_an_export_are_called_the_same(
    places: list[tuple[str, str]], names: list[str]
) -> None:
    runs = [replace(small(), name=name, path=path) for name, path in places]
    assert run_names(runs) == names
    assert table(runs)["run"].unique(maintain_order=True).to_list() == names
    assert record(runs).collect()["run"].unique(maintain_order=True).to_list() == names
    unlike(openmetrics([diagnose(run) for run in runs]))


COLUMN = st.text("ae_.-1[]", min_size=1, max_size=8).map("{}".format)


@given(
    st.lists(st.sampled_from(["", "eval_"]).flatmap(lambda s: COLUMN.map(s.__add__)), unique=True)
)
def test_no_two_columns_are_one_series(columns: list[str]) -> None:
    found = [(family, *sorted(labels.items())) for family, labels in map(named, columns)]
    assert len(set(found)) == len(found)


def test_the_usual_columns_need_no_label_of_their_own() -> None:
    assert named("eval_reward_component[format]") == (
        "rlhf_reward_component",
        {"split": "eval", "part": "format"},
    )


def test_columns_and_checkpoints_that_would_be_one_series_are_told_apart() -> None:
    clash: dict[str, Any] = {"reward_raw_mean[a]": [1.0, 2.0], "reward_raw_mean[a": [3.0, 4.0]}
    saved = [
        Checkpoint(step, path, "checkpoint-1", complete=True)
        for step, path in ((1, "a"), (1, "b"), (2, "c"), (10, "d"), (20, "e"))
    ]
    found = diagnose(run_of(checkpoints=saved, **clash))
    unlike(openmetrics([found]))
    times = clocked(10.0, 11.0, 12.0, 20.0)
    unlike(openmetrics([diagnose(replace(times, checkpoints=tuple(saved)))]))


def unlike(parts: Iterable[str]) -> None:
    """Require of OpenMetrics that no two samples have the same series and time."""
    found = [
        (line.rpartition("}")[0], line.rsplit(" ", 1)[1])
        for line in "".join(parts).splitlines()
        if not line.startswith("#")
    ]
    assert len(set(found)) == len(found)


def measured(**told: Any) -> list[Diagnosis]:
    """Diagnose runs that log the same two columns, each with its own unit and estimator."""
    logged = {"kl_ref_token": [0.1, 0.2], "entropy": [2.0, 1.0]}
    return [
        diagnose(replace(run_of(**logged, **more), name=name))  # type: ignore[arg-type]
        for name, more in told.items()
    ]


APART = [
    pytest.param(
        *("kl_ref_token", "estimator", "k1", "k3"),
        {name: {"estimators": {"kl_ref_token": name}} for name in ("k1", "k3")},
        id="estimators of a KL",
    ),
    pytest.param(
        *("kl_ref_token", "estimator", None, "k3"),
        {"none": {}, "k3": {"estimators": {"kl_ref_token": "k3"}}},
        id="an estimator and none that is known",
    ),
    pytest.param(
        *("entropy", "unit", "nats/token", "unknown"),
        {"known": {}, "unknown": {"units": {"entropy": "unknown"}}},
        id="a unit and one that nobody said",
    ),
]
"""A column, a label, its value in one run and in another, and what tells these runs apart."""


@pytest.mark.parametrize(("column", "label", "one", "other", "told"), APART)
def test_a_run_is_told_in_its_own_unit_and_estimator(
    column: str, label: str, one: str | None, other: str, told: dict[str, Any]
) -> None:
    for runs in (measured(**told), measured(**told)[::-1]):
        found = families(openmetrics(runs))[f"rlhf_{column}"]
        labelled = {labels["run"]: labels.get(label) for labels, _, _ in found}
        assert labelled == dict(zip(told, (one, other), strict=True))


@pytest.mark.parametrize(("column", "label", "one", "other", "told"), APART)
def test_a_panel_shows_no_run_that_is_measured_otherwise(
    column: str, label: str, one: str | None, other: str, told: dict[str, Any]
) -> None:
    runs = measured(**told)
    samples = families(openmetrics(runs))
    document = json.loads(dashboard(runs))
    drawn = []
    for panel in document["panels"]:
        for target in panel["targets"]:
            family, _, given = target["expr"].partition("{")
            wanted = dict(re.findall(r'(\w+)="([^"]*)"', given))
            if family.startswith(f"rlhf_{column}"):
                drawn.append(
                    {
                        labels["run"]
                        for labels, _, _ in samples[family]
                        if all(labels.get(name, "") == value for name, value in wanted.items())
                    }
                )
    assert drawn
    assert all(len(names) == 1 for names in drawn)


@pytest.mark.parametrize("order", [1, -1], ids=["a clock first", "a clock last"])
def test_a_run_without_a_clock_is_told_wherever_it_stands(order: int) -> None:
    runs = [clocked(10.0, 11.0, 12.0, 20.0), replace(small(), name="two")][::order]
    text = "".join(openmetrics([diagnose(run) for run in runs]))
    helps = [line for line in text.splitlines() if line.startswith("# HELP")]
    assert helps
    assert all(line.endswith(f". {CLOCKLESS}") for line in helps)
    assert CLOCKLESS not in "".join(openmetrics([diagnose(clocked(10.0, 11.0, 12.0, 20.0))]))


def test_a_run_without_a_log_is_nothing_but_an_end() -> None:
    assert families(openmetrics([diagnose(run_of())])) == {}


# Grafana


def panel_titles(document: dict[str, Any]) -> list[str]:
    return [panel["title"] for panel in document["panels"]]


@pytest.mark.parametrize("name", sorted(RUNS))
def test_every_run_has_a_dashboard(name: str) -> None:
    diagnoses = [diagnose(run) for run in read_runs(FIXTURES / name)]
    document = json.loads(dashboard(diagnoses))
    errors = [error.message for error in Draft202012Validator(SCHEMA).iter_errors(document)]
    assert not errors
    there = families(openmetrics(diagnoses))
    for panel in document["panels"]:
        for target in panel["targets"]:
            family, _, given = target["expr"].partition("{")
            wanted = dict(re.findall(r'(\w+)="([^"]*)"', given))
            assert {"split", "unit", "estimator"} <= wanted.keys()
            assert any(
                all(labels.get(name, "") == value for name, value in wanted.items())
                for labels, _, _ in there[family]
            )
    places = [tuple(panel["gridPos"].values()) for panel in document["panels"]]
    assert len(set(places)) == len(places)


def test_the_kl_is_three_lines() -> None:
    document = json.loads(dashboard([diagnose(small())]))
    (panel,) = [item for item in document["panels"] if item["title"].startswith("KL")]
    assert [target["expr"].partition("{")[0] for target in panel["targets"]] == [
        "rlhf_kl_ref_token",
        "rlhf_kl_ref_token_ma10",
        "rlhf_kl_ref_token_p90",
    ]


@pytest.mark.parametrize(
    ("column", "values"),
    [
        pytest.param("kl_ref_response", [None, 0.5, 3.0, 5.0], id="nats a response"),
        pytest.param("kl_ref_token", [None, 1.0], id="nats a token"),
        pytest.param("kl_unknown", [None], id="an unknown unit is judged by no band"),
    ],
)
def test_bands_are_those_of_the_unit(column: str, values: list[float | None]) -> None:
    units = {"kl_unknown": "unknown"} if column == "kl_unknown" else None
    logged: dict[str, Any] = {column: [0.1, 0.2, 0.3]}
    run = run_of(units=units, **logged)
    (panel,) = panels(run)
    steps, _ = bands([(panel, diagnose(run))])
    assert [step["value"] for step in steps] == values


def limited(column: str, **limits: float) -> Diagnosis:
    """Diagnose a run of one column, with limits of KL rules set: ``KL002_ceiling``."""
    logged: dict[str, Any] = {column: [0.1, 0.2, 0.3]}
    given: dict[str, dict[str, float]] = {}
    for name, value in limits.items():
        code, _, limit = name.partition("_")
        given.setdefault(code, {})[limit] = value
    found = diagnose(run_of(**logged))
    own = {code: {**values, **given.get(code, {})} for code, values in found.limits.items()}
    return replace(found, limits=own)


def banded(*diagnoses: Diagnosis) -> tuple[list[tuple[float | None, str]], str]:
    steps, told = bands([(panels(item.run)[0], item) for item in diagnoses])
    return [(step["value"], step["color"]) for step in steps], told


CLEAR = (None, "transparent")


@pytest.mark.parametrize(
    ("limits", "thresholds"),
    [
        pytest.param({}, [(0.5, "green"), (3.0, "transparent"), (5.0, "red")], id="the rules' own"),
        pytest.param(
            {"KL002_ceiling": 2.0}, [(0.5, "green"), (2.0, "red")], id="alarm in the band"
        ),
        pytest.param({"KL002_ceiling": 3.0}, [(0.5, "green"), (3.0, "red")], id="at its end"),
        pytest.param({"KL002_ceiling": 0.1}, [(0.1, "red")], id="an alarm below the band"),
        pytest.param({"KL001_low": 4.0}, [(5.0, "red")], id="a band without inside"),
    ],
)
def test_an_alarm_that_is_told_is_drawn_above_all_below_it(
    limits: dict[str, float], thresholds: list[tuple[float, str]]
) -> None:
    found = limited("kl_ref_response", **limits)
    drawn, told = banded(found)
    assert drawn == [CLEAR, *thresholds]
    assert f"alarm from {found.limits['KL002']['ceiling']} (KL002)" in told


@pytest.mark.parametrize("column", ["kl_ref_response", "kl_ref_token"])
def test_bands_of_several_runs_are_drawn_where_they_agree(column: str) -> None:
    one = limited(column)
    other = limited(column, KL002_ceiling=7.0, KL003_ceiling=7.0)
    assert banded(one, one) == banded(one)
    for pair in ((one, other), (other, one)):
        assert banded(*pair) == ([CLEAR], "the runs were judged by different limits: no band")


def test_a_panel_of_several_runs_has_the_lines_of_all() -> None:
    runs = [run_of(reward_raw_mean=[1.0]), run_of(reward_shaped_mean=[0.5])]
    (panel,) = json.loads(dashboard([diagnose(run) for run in runs]))["panels"]
    found = [target["expr"].partition("{")[0] for target in panel["targets"]]
    assert found == ["rlhf_reward_raw_mean", "rlhf_reward_shaped_mean"]


def test_the_moving_lines_are_called_by_their_window() -> None:
    found = families(openmetrics([diagnose(small())]))
    assert {name for name in found if name.startswith("rlhf_kl")} == {
        *("rlhf_kl_ref_token", f"rlhf_kl_ref_token_ma{WINDOW}", "rlhf_kl_ref_token_p90")
    }


def test_the_dashboard_spans_the_run() -> None:
    document = json.loads(dashboard([diagnose(small())]))
    assert document["time"]["from"] == "1970-01-01T00:00:01.000Z"
    assert "second n" in document["description"]


# tables


def test_a_table_has_a_row_a_step() -> None:
    frame = table([small(), replace(small(), name="two")])
    assert frame["run"].to_list() == ["run"] * 4 + ["two"] * 4
    assert frame["step"].to_list() == [1, 2, 3, 4] * 2


def test_parquet_is_read_back_equal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for long, expected in ((False, table), (True, record)):
        path = tmp_path / f"run-{long}.parquet"
        more = ["--long"] if long else []
        arguments = ["export", FIXTURES / "grpo_late", "--to", "parquet", "--output", path, *more]
        assert cli(capsys, *arguments) == (0, "", "")
        frame = expected(read_runs(FIXTURES / "grpo_late")).lazy().collect()
        assert_frame_equal(pl.read_parquet(path), frame, categorical_as_str=True)
        told = json.loads(pl.read_parquet_metadata(path)["rlhfdoctor.columns"])
        assert told["grpo_late"]["kl_ref_token"]["unit"] == "nats/token"


def test_csv_is_read_back_equal(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = cli(capsys, "export", FIXTURES / "grpo_late", "--to", "csv")
    assert (code, err) == (0, "")
    expected = table(read_runs(FIXTURES / "grpo_late"))
    assert_frame_equal(pl.read_csv(io.StringIO(out), schema=expected.schema), expected)


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "\r"])
def test_no_text_is_a_formula(start: str) -> None:
    frame = pl.LazyFrame({f"{start}x": [1.0], "key": [f"{start}cmd|'/C calc'!A0"], "step": [-1]})
    text = harmless(frame).collect().write_csv()
    head, row = list(csv.reader(io.StringIO(text, newline="")))
    assert head == [f"'{start}x", "key", "step"]
    assert row[1] == f"'{start}cmd|'/C calc'!A0"
    assert row[2] == "-1", "a number is no text"


def test_columns_tell_their_unit() -> None:
    told = json.loads(column_metadata([small()])["rlhfdoctor.columns"])
    assert told["run"]["entropy"]["unit"] == "nats/token"


def test_each_run_tells_the_estimator_of_its_own_column() -> None:
    runs = [
        replace(run_of(kl_ref_token=[0.1], estimators={"kl_ref_token": name}), name=name)
        for name in ("k1", "k3")
    ]
    told = json.loads(column_metadata(runs)["rlhfdoctor.columns"])
    assert {name: told[name]["kl_ref_token"]["estimator"] for name in told} == {
        "k1": "k1",
        "k3": "k3",
    }


def test_a_quoted_name_takes_the_place_of_no_other() -> None:
    frame = pl.LazyFrame({"=x": [1.0], "'=x": [2.0]})
    assert harmless(frame).collect().rows() == [(1.0, 2.0)]


# the command


@pytest.mark.parametrize("to", ["grafana", "openmetrics", "csv"])
def test_what_is_printed_is_what_is_written(
    to: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = FIXTURES / "ppo_healthy"
    code, out, _ = cli(capsys, "export", run, "--to", to)
    assert code == 0
    assert cli(capsys, "export", run, "--to", to, "--output", tmp_path / "it") == (0, "", "")
    assert (tmp_path / "it").read_text(encoding="utf-8") == out


@pytest.mark.parametrize(
    ("to", "ending"), [("grafana", "json"), ("openmetrics", "txt"), ("csv", "csv")]
)
def test_golden(to: str, ending: str, bless: bool, capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = cli(capsys, "export", FIXTURES / "dpo_healthy", "--to", to)
    out = out.replace(str(FIXTURES), "fixtures")
    if to == "openmetrics":  # the first rows of each family tell its shape
        kept: dict[str, int] = {}
        lines = []
        for line in out.splitlines():
            name = line.partition("{")[0]
            kept[name] = kept.get(name, 0) + 1
            if line.startswith("#") or kept[name] <= 2:
                lines.append(line)
        out = "\n".join(lines) + "\n"
    elif to == "csv":
        out = "".join(out.splitlines(keepends=True)[:4])
    else:
        out = re.sub(r'"uid": "rlhf-[0-9a-f]{12}"', '"uid": "rlhf-0"', out)
    path = GOLDEN / f"export-{to}.{ending}"
    if bless:
        path.write_text(out, encoding="utf-8")
    assert out == path.read_text(encoding="utf-8")


def test_an_export_is_never_written_into_a_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    shutil.copytree(FIXTURES / "dpo_healthy", run)
    state = next(run.rglob("trainer_state.json"))
    before = state.read_bytes()
    code, _, err = cli(capsys, "export", run, "--output", state)
    assert code == 2
    assert_error_lines(err)
    assert state.read_bytes() == before
