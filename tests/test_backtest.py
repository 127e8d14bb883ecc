from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from rlhfdoctor.backtest import (
    FUTURE,
    Alarm,
    Beginnings,
    Judge,
    Span,
    alarms,
    backtest,
    controllers,
    grid,
    plan,
)
from rlhfdoctor.doctor import diagnose
from rlhfdoctor.doctor import judge as rules_of
from rlhfdoctor.model import Checkpoint, Finding, Location, Run, Seam
from rlhfdoctor.profile import Profile, choose
from rlhfdoctor.replay import Constants
from rlhfdoctor.reports import Page
from rlhfdoctor.reports.terminal import backtest_lines, write
from rlhfdoctor.runs import read_runs
from tests.builders import FIXTURES, RUNS, batch, judge, log_history, run_of, write_state
from tests.test_cli import assert_error_lines, cli, document
from tests.test_replay import KL, LOSSES

STATED = Constants()


def alarm(name: str, run: Run, **constants: Any) -> Alarm:
    return next(item for item in alarms(run, Constants(**constants)) if item.alarm == name)


def replayed(run: Run, judged: Judge | None = None, **constants: Any) -> Any:
    """Return the document of a backtest."""
    return backtest(run, Constants(**constants), judged)


Judged = tuple[Sequence[Finding], Sequence[str]]


def by_all(run: Run) -> Judged:
    """Judge a run as the command line does."""
    found = rules_of(run, choose(run, Profile()))
    return found.findings, found.unanswered


def by_kl_runaway(run: Run) -> Judged:
    """Judge a run by one of our rules alone: the one about a KL above 5 for 10 rows."""
    found = judge("KL002", run)
    return (found, ()) if isinstance(found, list) else ((), ("a KL",))


# Alarms


def test_an_alarm_tells_when_it_rang_and_what_stopping_would_have_saved() -> None:
    run = run_of(
        kl_ref_response=[1.0] * 10 + [6.0] * 30,
        step_time=[3600.0] * 40,
        config={"gpus": 8},
    )
    found = alarm("kl", run)
    assert (found.condition, found.subject) == ("KL > 5 nats/response, 10 rows", "kl_ref_response")
    assert (found.fired_step, found.fired_row, found.observed) == (20, 20, 6.0)
    assert (found.saved_steps, found.saved_fraction, found.gpu_hours_saved) == (20, 0.5, 160.0)
    assert (found.times, found.spans) == (1, (Span(20, 40, None),))


def test_steps_between_logged_rows_are_saved_too() -> None:
    found = alarm("kl", run_of(kl_ref_response=[6.0] * 20, steps=[*range(10, 210, 10)]))
    assert (found.fired_step, found.fired_row, found.saved_steps) == (100, 10, 100)
    assert found.gpu_hours_saved is None


def test_a_stretch_that_is_over_recovered() -> None:
    kl = [6.0] * 12 + [1.0] * 5 + [6.0] * 11
    found = alarm("kl", run_of(kl_ref_response=kl))
    assert found.spans == (Span(10, 12, 13), Span(27, 28, None))
    assert found.times == 2


@pytest.mark.parametrize(
    ("columns", "why"),
    [
        pytest.param({"loss_total": [1.0]}, "no KL to the reference is logged", id="none"),
        pytest.param(
            {"kl_ref_token": [9.0] * 20}, "--kl-ceiling states a number in nats/token", id="token"
        ),
        pytest.param({"kl_unknown": [9.0] * 20}, "--map kl_unknown=kl_ref_response", id="unknown"),
        pytest.param({"kl_ref_response": [0.0] * 20}, "exact zeros throughout", id="placeholder"),
        pytest.param({"kl_ref_response": [9.0] * 9}, "rows with a KL: 9", id="too few rows"),
    ],
)
def test_a_kl_that_cannot_be_judged_is_unknown_and_says_why(
    columns: dict[str, Any], why: str
) -> None:
    found = alarm("kl", run_of(**columns))
    assert why in found.unknown
    assert (found.fired_step, found.times) == (None, 0)


def test_a_derived_kl_is_never_judged_by_a_band() -> None:
    run = run_of(kl_ref_response=[9.0] * 20, kl_ref_token=[0.1] * 20)
    column = replace(run.columns["kl_ref_response"], derived=True)
    run = replace(run, columns={**run.columns, "kl_ref_response": column})
    assert "per token" in alarm("kl", run).unknown
    assert controllers(run, STATED)["unknown"]


@pytest.mark.parametrize(
    ("column", "condition", "caveat"),
    [
        ("kl_ref_token", "KL > 0.5 nats/token, 10 rows", ""),
        ("kl_unknown", "KL > 0.5 (unit unknown), 10 rows", "the ceiling is yours"),
    ],
)
def test_a_ceiling_stated_in_the_runs_own_unit_is_held_against_any_kl(
    column: str, condition: str, caveat: str
) -> None:
    columns: dict[str, Any] = {column: [1.0] * 20}
    found = alarm("kl", run_of(**columns), kl_ceiling=0.5)
    assert (found.condition, found.fired_step) == (condition, 10)
    assert caveat in found.caveat


def test_a_length_is_judged_after_its_warm_up() -> None:
    lengths = [100.0, 102.0] * 6
    short = alarm("length", run_of(response_length_mean=lengths[:10]))
    assert short.unknown == "rows with a length: 10, it looks after 10"
    found = alarm("length", run_of(response_length_mean=[*lengths, 300.0, 300.0]))
    assert (found.fired_step, found.observed, found.times) == (13, 300.0, 1)


def test_the_perplexity_of_samples_is_dated_in_rows_of_the_log() -> None:
    tokens = [[1, 2, 3]] * 8
    drawn = [
        *batch(0, tokens, logprob=-3.0),
        *batch(10, tokens, logprob=-2.5),
        *batch(20, tokens, logprob=-1.0),
    ]
    run = run_of(samples=drawn, log_offset=1, loss_total=[1.0] * 30)
    found = alarm("perplexity", run)
    assert (found.subject, found.fired_step, found.fired_row) == ("samples.jsonl", 21, 21)
    assert found.observed == pytest.approx(2.718, abs=1e-3)


def test_several_files_ring_one_alarm() -> None:
    tokens = [[1, 2, 3]] * 8
    drawn = [
        sample
        for source in ("a.jsonl", "b.jsonl")
        for step, logprob in ((0, -3.0), (10, -1.0 if source == "b.jsonl" else -2.9), (20, -1.0))
        for sample in batch(step, tokens, logprob=logprob, source=source)
    ]
    found = alarm("perplexity", run_of(samples=drawn, loss_total=[1.0] * 30))
    assert (found.subject, found.spans) == ("b.jsonl", (Span(10, 20, None),))


@pytest.mark.parametrize(
    ("name", "column", "rows"),
    [
        ("kl", "kl_ref_response", 9),
        ("length", "response_length_mean", 10),
        ("perplexity", "ppl_policy", 5),
        ("entropy", "entropy", 5),
        ("loss_variance", "loss_total", 9),
    ],
)
def test_an_alarm_that_had_too_few_rows_to_ring_did_not_look(
    name: str, column: str, rows: int
) -> None:
    for count, looked in ((rows, False), (rows + 1, True)):
        columns: dict[str, Any] = {column: [1.0] * count}
        assert (alarm(name, run_of(**columns)).unknown == "") is looked


def test_few_responses_say_nothing_of_perplexity() -> None:
    drawn = [*batch(0, [[1, 2]] * 7, logprob=-3.0), *batch(10, [[1, 2]] * 7, logprob=-1.0)]
    assert alarm("perplexity", run_of(samples=drawn, loss_total=[1.0] * 20)).unknown


def test_a_logged_perplexity_and_an_entropy_have_the_same_limit() -> None:
    perplexity = [20.0] * 8 + [9.9, 10.1, 9.9]
    entropy = [3.0] * 8 + [2.3, 2.4, 2.3]
    for name, run in (
        ("perplexity", run_of(ppl_policy=perplexity)),
        ("entropy", run_of(entropy=entropy)),
    ):
        found = alarm(name, run)
        assert found.spans == (Span(9, 9, 10), Span(11, 11, None))


@pytest.mark.parametrize(
    ("algorithm", "columns", "counts"),
    [
        ("DPO", {}, True),
        ("unknown", {}, True),
        ("reward model", {}, True),
        ("GRPO", {}, False),
        ("PPO", {}, False),
    ],
)
def test_a_loss_that_is_cosmetic_rings_and_does_not_count(
    algorithm: str, columns: dict[str, Any], counts: bool
) -> None:
    run = run_of(loss_total=LOSSES, algorithm=algorithm, **columns)
    found = alarm("loss_variance", run)
    assert (found.fired_step, found.counts) == (10, counts)
    assert found.observed == pytest.approx(1.2096)
    assert bool(found.caveat) is not counts
    assert (plan(run, [found], STATED) is not None) is counts


def test_the_published_demonstration_from_its_log(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [
        {"step": step, "loss": loss, "kl": kl}
        for step, (loss, kl) in enumerate(zip(LOSSES, KL, strict=True), start=1)
    ]
    log = tmp_path / "log.jsonl"
    log.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    asked = ("backtest", log, "--no-rules", "--dialect", "generic")
    told = document(capsys, *asked, "--target", "0.05", "--start", "0.1")
    variance = next(item for item in told["alarms"] if item["alarm"] == "loss_variance")
    assert (variance["fired_step"], round(variance["observed"], 3)) == (10, 1.21)
    beta = told["controllers"]["replayed"][1]
    assert beta["controller"] == "adaptive"
    assert (round(beta["min"], 5), round(beta["last"], 4)) == (0.05905, 0.0786)
    assert (told["plan"]["alarm"], told["plan"]["fired_step"]) == ("loss_variance", 10)
    assert document(capsys, *asked)["controllers"]["unknown"]


# Without looking ahead

COLUMNS = st.fixed_dictionaries(
    {
        name: st.lists(st.none() | st.floats(-20, 20), min_size=40, max_size=40)
        for name in ("kl_ref_response", "kl_ref_token", "entropy", "loss_total", "ppl_policy")
    }
    | {"response_length_mean": st.lists(st.floats(1, 300), min_size=40, max_size=40)}
)


def rang(found: Sequence[Alarm], until: int) -> list[tuple[str, list[int], list[int | None]]]:
    """Return when each alarm began to ring and was over, up to a step."""
    return [
        (
            item.alarm,
            [span.from_step for span in item.spans if span.from_step <= until],
            [span.over_step for span in item.spans if (span.over_step or until + 1) <= until],
        )
        for item in found
    ]


@given(COLUMNS, st.integers(0, 40), st.booleans(), st.lists(st.floats(-4, -0.1), max_size=8))
@settings(deadline=None, max_examples=40)
def test_appending_rows_never_changes_an_earlier_alarm(
    columns: dict[str, Any], rows: int, stated: bool, logprobs: list[float]
) -> None:
    drawn = [
        sample
        for place, logprob in enumerate(logprobs)
        for sample in batch(5 * place, [[1, 2]] * 8, logprob=logprob)
    ]
    constants = Constants(kl_ceiling=1.0 if stated else None, target=1.0, kl_rows=3, warmup=4)
    whole = run_of(samples=drawn, log_offset=1, **columns)
    head = run_of(
        samples=[sample for sample in drawn if sample["step"] + 1 <= rows],
        log_offset=1,
        **{name: values[:rows] for name, values in columns.items()},
    )
    assert rang(alarms(head, constants), rows) == rang(alarms(whole, constants), rows)
    before = [item for item in alarms(head, constants) if item.fired_step is not None]
    for item in before:
        later = next(other for other in alarms(whole, constants) if other.alarm == item.alarm)
        assert (item.subject, item.fired_step, item.fired_row, item.observed) == (
            *(later.subject, later.fired_step, later.fired_row, later.observed),
        )


@given(COLUMNS, st.integers(1, 40))
@settings(deadline=None, max_examples=25)
def test_appending_rows_never_changes_an_earlier_beta(columns: dict[str, Any], rows: int) -> None:
    whole = controllers(run_of(**columns), STATED)
    head = controllers(run_of(**{name: values[:rows] for name, values in columns.items()}), STATED)
    for short, full in zip(betas(head), betas(whole), strict=False):
        assert full[: len(short)] == short


def betas(found: Any) -> list[list[float]]:
    return [item["beta"] for item in found["replayed"]]


STRETCHES = st.lists(st.tuples(st.sampled_from([1.0, 20.0]), st.integers(1, 25)), max_size=4)


@given(STRETCHES, st.integers(1, 90))
@settings(deadline=None, max_examples=15)
def test_appending_rows_never_changes_when_a_rule_first_spoke(
    stretches: list[tuple[float, int]], rows: int
) -> None:
    kl = [value for value, count in stretches for _ in range(count)] or [1.0]
    parts = (kl[:rows], kl)
    short, full = (replayed(run_of(kl_ref_response=part), by_kl_runaway) for part in parts)
    until = short["rules"]["last_row"]
    early, late = (
        [item for item in found["rules"]["codes"] if item["fired_row"] <= until]
        for found in (short, full)
    )
    assert [(item["code"], item["fired_row"], item["not_at_row"]) for item in early] == [
        (item["code"], item["fired_row"], item["not_at_row"]) for item in late
    ]
    fired = full["alarms"][-1]["fired_step"]
    assert short["alarms"][-1]["fired_step"] == (fired if fired and fired <= until else None)


def test_all_our_rules_say_of_a_beginning_what_they_say_with_more_behind_it() -> None:
    (run,) = read_runs(FIXTURES / "ppo_crashed")
    rows = Beginnings(run)
    told = [replayed(rows.of(count), by_all)["rules"]["codes"] for count in (20, 24)]
    short, full = ([item for item in found if item["fired_row"] <= 20] for found in told)
    assert short
    assert [item["code"] for item in short] == [item["code"] for item in full]
    assert [item["fired_row"] for item in short] == [item["fired_row"] for item in full]


@pytest.mark.parametrize("name", ["grpo_late", "ppo_late", "dpo_collapsed", "grpo_length"])
def test_a_log_that_was_read_earlier_rang_the_same_alarms(name: str, tmp_path: Path) -> None:
    rows = log_history(name)
    (whole,) = read_runs(write_state(tmp_path / "whole", rows))
    for count in (15, 40, 70):
        (head,) = read_runs(write_state(tmp_path / str(count), rows[:count]))
        until = head.last_step or 0
        assert rang(alarms(head), until) == rang(alarms(whole), until)


def test_the_grid_knows_nothing_of_the_length_of_the_run() -> None:
    assert [*grid(5000)][: len([*grid(200)])] == [*grid(200)]
    assert [*grid(20)] == [*range(1, 21)]
    assert [*grid(23)] == [*range(1, 24)]
    assert [*grid(0)] == []
    assert (len([*grid(200)]), len([*grid(5000)])) == (77, 143)


def test_a_beginning_holds_what_was_there_by_then() -> None:
    run = run_of(
        samples=[*batch(0, [[1]] * 2), *batch(9, [[1]] * 2), *batch(10, [[1]] * 2)],
        checkpoints=[
            Checkpoint(step, f"checkpoint-{step}", f"checkpoint-{step}", complete=True)
            for step in (9, 10)
        ],
        config={"planned_steps": 20, "ended_with": "KeyboardInterrupt", "learning_rate": 1e-6},
        log_offset=1,
        loss_total=[1.0] * 20,
        kl_ref_token=[None] * 15 + [0.1] * 5,
    )
    seams = (Seam(4, 3, Location("log.jsonl")), Seam(19, 15, Location("log.jsonl")))
    run = replace(run, seams=seams)
    begun = Beginnings(run).of(10)
    assert (begun.last_step, begun.logged_steps, set(begun.columns)) == (10, 10, {"loss_total"})
    assert begun.metrics.columns == ["step", "epoch", "loss_total"]
    assert begun.observations.collect()["step"].max() == 10
    assert begun.samples.collect()["step"].to_list() == [0, 0, 9, 9]
    assert [item.step for item in begun.checkpoints] == [9]
    assert set(begun.config) == {"learning_rate"}
    assert not set(FUTURE) & set(begun.config)
    assert (begun.seams, begun.notes, begun.conflicts) == (seams[:1], (), ())


def test_a_beginning_of_a_beginning_is_that_beginning() -> None:
    (run,) = read_runs(FIXTURES / "grpo_length")
    rows = Beginnings(run)
    once, twice = rows.of(12), Beginnings(rows.of(30)).of(12)
    assert once.metrics.equals(twice.metrics)
    assert once.samples.collect().equals(twice.samples.collect())
    assert once.observations.collect().equals(twice.observations.collect())
    assert diagnose(once).verdict == diagnose(twice).verdict


# Our own rules


def test_a_collapse_is_dated_within_the_grid_by_bisection() -> None:
    kl = [1.0] * 100 + [20.0] * 60
    found = replayed(run_of(kl_ref_response=kl), by_kl_runaway)
    own, rules = found["alarms"][-1], found["rules"]
    assert (own["alarm"], own["fired_step"], own["saved_steps"]) == ("rules", 110, 50)
    (code,) = rules["codes"]
    assert code == {
        "code": "KL002",
        "fired_step": 110,
        "fired_row": 110,
        "not_at_row": 109,
        "gone_at_row": None,
    }
    assert rules["at_end"] == ["KL002"]


def test_a_verdict_that_was_taken_back_says_so() -> None:
    kl = [1.0] * 20 + [20.0] * 40 + [1.0] * 60
    found = replayed(run_of(kl_ref_response=kl), by_kl_runaway)
    assert found["alarms"][-1]["spans"][0]["over_step"] is not None
    assert found["rules"]["codes"][0]["gone_at_row"] > 60
    assert found["rules"]["at_end"] == []


def test_a_collapse_behind_the_last_row_of_the_grid_is_told_and_dated_by_nobody() -> None:
    last = [*grid(160)][-1]
    assert last < 160
    kl = [1.0] * (last - 9) + [20.0] * (160 - last + 9)
    found = replayed(run_of(kl_ref_response=kl), by_kl_runaway)
    assert found["alarms"][-1]["fired_step"] is None
    assert found["rules"]["at_end"] == ["KL002"]


def test_without_rules_none_are_replayed() -> None:
    found = replayed(run_of(kl_ref_response=[9.0] * 20))
    assert found["rules"] is None
    assert [item["alarm"] for item in found["alarms"]] == [
        *("kl", "length", "perplexity", "entropy", "loss_variance"),
    ]


def test_rules_about_the_log_are_no_alarm() -> None:
    def by_the_log(part: Run) -> Judged:
        found = [item for item in diagnose(part).findings if item.code.startswith("LOG")]
        return [replace(item, severity="critical") for item in found], ()

    seam = Seam(4, 3, Location("log.jsonl"))
    resumed = replace(run_of(loss_total=[1.0] * 12), seams=(seam,))
    assert by_the_log(Beginnings(resumed).of(12))[0]
    found = replayed(resumed, by_the_log)
    assert (found["alarms"][-1]["fired_step"], found["rules"]["codes"]) == (None, [])


def test_rules_that_could_not_look_are_not_silent_for_health() -> None:
    found = replayed(run_of(loss_total=[1.0] * 12), by_kl_runaway)
    assert found["alarms"][-1]["unknown"] == "not in what was read: a KL"
    assert found["rules"]["unanswered"] == ["a KL"]
    looked = replayed(run_of(kl_ref_response=[1.0] * 12), by_kl_runaway)
    assert looked["alarms"][-1]["unknown"] == ""


# Controllers, normaliser, plan


def test_the_target_is_for_a_kl_per_response_unless_it_is_stated() -> None:
    token = run_of(kl_ref_token=[0.1, 0.2])
    assert "--target states a number in nats/token" in str(controllers(token, STATED)["unknown"])
    stated = controllers(token, Constants(target=0.1))
    assert (stated["metric"], stated["unit"], stated["unknown"]) == (
        *("kl_ref_token", "nats/token", ""),
    )
    assert controllers(run_of(kl_ref_response=[2.0]), STATED)["target"] == 2.0


@pytest.mark.parametrize(
    ("config", "stated", "expected"),
    [
        pytest.param({"batch_size": 64}, None, (64, "configuration"), id="of the configuration"),
        pytest.param({"batch_size": 64}, 512, (512, "option"), id="as stated"),
        pytest.param({}, None, (1, "default"), id="of nobody"),
        pytest.param({"batch_size": 1e300}, None, (10_000, "configuration"), id="of no batch"),
    ],
)
def test_zieglers_n(
    config: dict[str, float | str], stated: int | None, expected: tuple[int, str]
) -> None:
    found = controllers(run_of(kl_ref_response=[2.0], config=config), Constants(responses=stated))
    assert (found["responses"], found["responses_from"]) == expected


def test_rewards_are_normalised_as_batch_means_and_as_samples() -> None:
    drawn = [
        sample
        for step in range(8)
        for sample in batch(step, [[1]] * 4, rewards=[0.0, 0.0, 0.0, 100.0 if step == 7 else 0.0])
    ]
    run = run_of(reward_raw_mean=[1.0, 6.0], samples=drawn)
    means, samples = replayed(run)["normaliser"]
    assert (means["of"], means["count"], means["outside"], means["clipped"]) == (
        *("batch means", 2, 0.5, 0.0),
    )
    assert (samples["subject"], samples["count"]) == ("samples.jsonl", 32)
    assert (samples["outside"], samples["clipped"]) == (1 / 32, 1 / 32)


def test_the_plan_is_made_of_what_was_there_at_the_first_alarm() -> None:
    run = run_of(
        kl_ref_response=[9.0] * 40,
        lr=[0.0, *[3e-4] * 14, *[1e-4] * 25],
        samples=[sample for step in range(20) for sample in batch(step, [[1]] * 8)],
        checkpoints=[
            Checkpoint(4, "checkpoint-4", "checkpoint-4", complete=True),
            Checkpoint(9, "checkpoint-9", "checkpoint-9", complete=False),
            Checkpoint(10, "checkpoint-10", "checkpoint-10", complete=True),
        ],
        log_offset=1,
    )
    assert plan(run, alarms(run), Constants(keep=12)) == {
        "alarm": "kl",
        "fired_step": 10,
        "fired_row": 10,
        "learning_rate": 3e-4,
        "learning_rate_from": "log",
        "suggested": 3e-5,
        "samples": 12,
        "places": [{"file": "samples.jsonl", "first_line": 69, "last_line": 80}],
        "checkpoint": "checkpoint-4",
        "step": 4,
    }


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        pytest.param({"learning_rate": 1e-5}, (1e-5, "configuration", 1e-6), id="configured"),
        pytest.param({}, (None, None, None), id="not known"),
    ],
)
def test_the_learning_rate_of_the_plan_where_none_is_logged(
    config: dict[str, float | str], expected: tuple[object, ...]
) -> None:
    run = run_of(kl_ref_response=[9.0] * 12, config=config)
    found = plan(run, alarms(run), STATED)
    assert found is not None
    assert (found["learning_rate"], found["learning_rate_from"], found["suggested"]) == expected
    assert (found["samples"], found["places"], found["checkpoint"]) == (0, [], None)


def test_nothing_rang_no_plan() -> None:
    run = run_of(kl_ref_response=[1.0] * 30)
    assert plan(run, alarms(run), STATED) is None


def test_what_the_replay_rests_on_is_noted() -> None:
    run = run_of(samples=[{"response": "a"}], loss_total=[1.0])
    run = replace(run, seams=(Seam(4, 3, Location("log.jsonl")),))
    assert replayed(run)["notes"] == [
        "the run was resumed: rows that were written twice are replayed as written last",
        "1 sample carries no step: left out",
    ]


def test_numbers_that_no_arithmetic_can_bear_are_left_out() -> None:
    columns: dict[str, Any] = {
        name: [1e200, float("nan"), float("-inf")] * 5
        for name in ("kl_ref_response", "entropy", "loss_total", "reward_raw_mean", "lr")
    }
    found = replayed(run_of(**columns))
    assert all(item["unknown"] for item in found["alarms"])
    assert (found["normaliser"], found["controllers"]["unknown"] != "") == ([], True)


def test_a_run_of_samples_alone_has_steps_and_no_rows() -> None:
    tokens = [[1, 2]] * 8
    drawn = [*batch(0, tokens, logprob=-3.0), *batch(5, tokens, logprob=-0.1)]
    found = replayed(run_of(samples=drawn), by_all)
    perplexity = next(item for item in found["alarms"] if item["alarm"] == "perplexity")
    assert (perplexity["fired_step"], perplexity["fired_row"]) == (5, None)
    assert (perplexity["saved_steps"], perplexity["saved_fraction"]) == (None, None)
    assert found["alarms"][-1]["unknown"] == "no row is logged"
    assert (found["plan"]["fired_step"], found["plan"]["samples"]) == (5, 16)


def test_rows_of_evaluations_alone_are_rows_and_no_logged_steps() -> None:
    run = run_of(kl_ref_response=[9.0] * 12)
    evaluated = replace(run, logged_steps=11)
    found = replayed(evaluated)
    assert (found["rows"], found["logged_steps"]) == (12, 11)


def test_a_beta_that_has_no_bounds_is_held_where_the_replay_ends() -> None:
    held = [
        item["held_to"]
        for item in replayed(run_of(kl_ref_response=[2.0]))["controllers"]["replayed"]
    ]
    assert held == [[1e-30, 1e30], [0.01, 1.0], [1e-30, 1e30]]


# On the page


def page(run: Run, width: int, judged: Judge | None = None, **constants: Any) -> str:
    """Return a backtest as a terminal of that width shows it."""
    told = replayed(run, judged, **constants)
    return write(backtest_lines(told, width), Page(0, width=width, colour=False))


def recurring() -> Run:
    """Return a run whose alarms ring again and again, on GPUs that are told."""
    kl = ([1.0] * 10 + [20.0] * 30) * 5
    return run_of(
        kl_ref_response=kl,
        entropy=([3.0] * 10 + [1.0] * 30) * 5,
        response_length_mean=([100.0, 101.0] * 8 + [500.0] * 4) * 10,
        reward_raw_mean=[1.0, 7.0] * 100,
        step_time=[3600.0] * 200,
        config={"gpus": 8},
    )


@pytest.mark.parametrize("width", [60, 80, 120, 200])
def test_no_table_is_wider_than_the_page(width: int) -> None:
    text = page(recurring(), width)
    assert max(map(cell_len, text.splitlines())) <= width
    for start in ("alarm ", "KL ", "exponential ", "adaptive ", "ziegler "):
        rows = [line for line in text.splitlines() if line.startswith(f"  {start}")]
        assert rows, start
    header = next(line for line in text.splitlines() if "least" in line and "curve" in line)
    left = header.index("curve")
    curves = [line[left:] for line in text.splitlines() if line[left - 2 : left] == "  "]
    drawn = [
        cells
        for cells in curves
        if cells and set(cells) <= set("\u2581\u2582\u2583\u2584\u2585\u2586\u2587\u2588")
    ]
    assert len(drawn) == 4
    assert len(set(map(len, drawn))) == 1
    assert 8 <= len(drawn[0]) <= 24


@pytest.mark.parametrize(
    ("width", "gone"),
    [(120, ()), (80, ("row", "times")), (60, ("row", "times", "GPU-hours", "share"))],
    ids=str,
)
def test_a_narrow_page_does_without_rows_and_times_before_gpu_hours(
    width: int, gone: tuple[str, ...]
) -> None:
    run = replace(run_of(kl_ref_response=[9.0] * 20, step_time=[3600.0] * 20, config={"gpus": 8}))
    lines = page(run, width).splitlines()
    header = next(line for line in lines if line.startswith("  alarm "))
    columns = ("step", "row", "times", "saves", "share", "GPU-hours", "recovered")
    assert header.split()[1:] == [name for name in columns if name not in gone]


def test_every_table_says_what_its_columns_mean() -> None:
    text = page(recurring(), 0, by_kl_runaway)
    for words in (
        *("recovered: steps of a ring", "not at row: of the one judged before"),
        *("held: share of rows", "period: where it swings", "a clip to +-5 would cut"),
    ):
        assert words in text


def test_a_beta_that_ran_away_is_told_and_one_that_has_bounds_is_not() -> None:
    text = page(run_of(kl_ref_response=[90.0] * 100), 0)
    assert "exponential has no bounds: its beta ran to 1e+30" in text
    assert text.count("has no bounds") == 1
    still = page(run_of(kl_ref_response=[2.0] * 100), 0)
    assert "has no bounds" not in still


# In a diagnosis and on the command line


def test_a_diagnosis_tells_the_alarms() -> None:
    run = run_of(kl_ref_response=[1.0] * 10 + [9.0] * 30)
    assert diagnose(run).backtest == tuple(asdict(item) for item in alarms(run))


@pytest.mark.parametrize("form", ["terminal", "markdown"])
def test_a_sick_run_shows_its_alarms_and_a_healthy_one_does_not(
    form: str, capsys: pytest.CaptureFixture[str]
) -> None:
    _, sick, _ = cli(capsys, "diagnose", FIXTURES / "ppo_late", "--format", form)
    assert "Backtest" in sick
    assert "5 nats/response, 10 rows: at step 31, saves 129 steps (81%" in sick
    _, healthy, _ = cli(capsys, "diagnose", FIXTURES / "ppo_healthy", "--format", form)
    assert "Backtest" not in healthy


@pytest.mark.parametrize("name", RUNS)
def test_every_fixture_is_replayed_in_every_format(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    told = document(capsys, "backtest", FIXTURES / name, "--no-rules")
    assert told["run"]["id"] == name
    for form in ("terminal", "markdown"):
        code, out, err = cli(capsys, "backtest", FIXTURES / name, "--no-rules", "--format", form)
        assert (code, err) == (0, "")
        for title in ("Alarms", "KL controllers", "Emergency plan"):
            assert title in out
        for item in told["alarms"]:
            assert item["condition"].replace(">", "\\>" if form == "markdown" else ">")[:5] in out


def test_our_rules_are_replayed_unless_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = write_state(tmp_path, log_history("ppo_crashed")[:26])
    told = document(capsys, "backtest", log)
    assert told["alarms"][-1]["alarm"] == "rules"
    assert told["alarms"][-1]["fired_step"] is not None
    assert told["rules"]["judged"] >= 26
    assert told["rules"]["last_row"] == 26
    assert told["rules"]["codes"]


def test_of_several_runs_each_is_replayed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("ppo_healthy", "grpo_length"):
        write_state(tmp_path / name, log_history(name))
    told = document(capsys, "backtest", tmp_path, "--no-rules")
    assert [item["run"]["id"] for item in told["runs"]] == ["grpo_length", "ppo_healthy"]
    _, out, _ = cli(capsys, "backtest", tmp_path, "--no-rules")
    assert out.count("Emergency plan") == 2
    alone = document(capsys, "backtest", tmp_path, "--no-rules", "--run", 2)
    assert alone["run"]["id"] == "ppo_healthy"


@pytest.mark.parametrize(
    "option",
    [
        ("--kl-ceiling", "nan"),
        ("--kl-rows", "0"),
        ("--target", "-1"),
        ("--clip", "inf"),
        ("--beta-low", "2"),
        ("--start", "5"),
        ("--kl-rows", "1000001"),
        ("--eta", "x"),
        ("--format", "html"),
    ],
    ids=" ".join,
)
def test_a_constant_that_is_none_is_an_error_with_a_hint(
    option: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = cli(capsys, "backtest", FIXTURES / "ppo_healthy", *option)
    assert (code, out) == (2, "")
    assert_error_lines(err)


def test_every_constant_is_an_option_with_its_help(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = cli(capsys, "backtest", "--help")
    assert code == 0
    told = " ".join(out.split())
    for item in fields(Constants):
        assert f"--{item.name.replace('_', '-')} <" in told
        assert item.metadata["help"].split(":")[0] in told


def test_constants_of_the_command_line_are_those_of_the_replay(
    capsys: pytest.CaptureFixture[str],
) -> None:
    asked = ("--kl-ceiling", "0.5", "--kl-rows", "5", "--target", "0.2", "--no-rules")
    told = document(capsys, "backtest", FIXTURES / "grpo_late", *asked)
    assert told["alarms"][0]["condition"] == "KL > 0.5 nats/token, 5 rows"
    assert told["alarms"][0]["fired_step"] is not None
    assert told["controllers"]["target"] == told["constants"]["target"] == 0.2
    assert len(told["controllers"]["steps"]) == len(told["controllers"]["replayed"][0]["beta"])


def test_what_a_run_says_commands_no_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [{"step": step, "loss": 1.0, "kl\x1b[31m": 2.0} for step in range(1, 15)]
    rows = [{**row, "kl": 2.0} for row in rows]
    write_state(tmp_path / "run\x1b[2J", rows)
    for form in ("terminal", "markdown", "json"):
        _, out, _ = cli(capsys, "backtest", tmp_path / "run\x1b[2J", "--no-rules", "--format", form)
        assert out
        assert "\x1b" not in out
