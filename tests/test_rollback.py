from dataclasses import replace

import polars as pl
import pytest

from rlhfdoctor.model import Cause, Checkpoint, Evidence, Finding, Location, Onset, RollbackPlan
from rlhfdoctor.rollback import INITIAL, TABLE, ladder, suggest, table_row
from tests.builders import batch, run_of, scanned, unread

DRIFT = (Cause("policy drift", "possible", "lower the learning rate", ("KL003",)),)


def saved(
    *steps: int, broken: tuple[int, ...] = (), epoch: float | None = None
) -> list[Checkpoint]:
    """Return checkpoints, one epoch every 1000 steps unless told otherwise."""
    return [
        Checkpoint(
            step,
            f"checkpoint-{step}",
            f"checkpoint-{step}",
            epoch=step / 1000 if epoch is None else epoch,
            complete=step not in broken,
            missing=("no weights",) if step in broken else (),
        )
        for step in steps
    ]


def planned(
    onset: int,
    *steps: int,
    broken: tuple[int, ...] = (),
    log_offset: int = 0,
    low: int | None = None,
    causes: tuple[Cause, ...] = DRIFT,
    findings: tuple[Finding, ...] = (),
    config: dict[str, float | str] | None = None,
) -> RollbackPlan:
    last = max((onset, *steps)) + 10
    run = run_of(
        steps=[1, onset, last],
        loss_total=[1.0, 1.0, 1.0],
        checkpoints=saved(*steps, broken=broken),
        log_offset=log_offset,
        config=config or {},
    )
    run = replace(run, metrics=run.metrics.with_columns(epoch=pl.col("step") / 1000))
    found = Onset(onset, onset if low is None else low, onset)
    return suggest(run, "collapsed", causes, findings, found)


@pytest.mark.parametrize(
    ("step", "row"),
    [
        (0, "< 1000"),
        (999, "< 1000"),
        (1000, "1000-5000"),
        (1001, "1000-5000"),
        (4999, "1000-5000"),
        (5000, "1000-5000"),
        (5001, "> 5000"),
        (10**9, "> 5000"),
    ],
)
def test_a_crash_step_belongs_to_one_row(step: int, row: str) -> None:
    assert table_row(step).name == row
    plan = planned(step + 1, 1) if step == 0 else planned(step)
    assert plan.table is not None
    if step:
        assert plan.table.row.startswith(row)


def test_the_table_is_the_practitioners_own() -> None:
    assert [(row.checkpoint, row.change) for row in TABLE] == [
        ("initial", "lower the learning rate"),
        ("last epoch", "raise the KL penalty"),
        ("last stable point", "renew the reward model"),
    ]


def test_the_first_row_is_overruled_by_a_later_sound_checkpoint() -> None:
    plan = planned(500, 100, 400, 600)
    assert plan.checkpoint is not None
    assert plan.checkpoint.name == "checkpoint-400"
    assert plan.overruled
    assert plan.table is not None
    assert plan.table.checkpoint == INITIAL
    assert '"< 1000: initial" is overruled: a later sound checkpoint exists' in plan.reason
    assert [item.checkpoint for item in plan.rejected] == ["checkpoint-600"]


def test_without_a_checkpoint_the_initial_model_is_left() -> None:
    plan = planned(500)
    assert plan.checkpoint is None
    assert not plan.overruled
    assert "no checkpoint was found" in plan.reason


def test_a_checkpoint_after_the_onset_is_none_to_go_back_to() -> None:
    plan = planned(500, 500, 600)
    assert plan.checkpoint is None
    assert "no complete checkpoint precedes the onset" in plan.reason
    assert all("not before the onset" in item.why for item in plan.rejected)


@pytest.mark.parametrize(
    ("offset", "low", "chosen"),
    [
        pytest.param(0, 401, True, id="its own step lies below the interval"),
        pytest.param(0, 400, False, id="its own step is the interval's low end"),
        pytest.param(1, 402, True, id="its log row lies below the interval"),
        pytest.param(1, 401, False, id="its log row is the interval's low end"),
    ],
)
def test_a_checkpoint_precedes_the_low_end_log_offset_minded(
    offset: int, low: int, chosen: bool
) -> None:
    plan = planned(450, 400, low=low, log_offset=offset)
    assert (plan.checkpoint is not None) is chosen


def test_an_incomplete_checkpoint_is_rejected_with_what_it_lacks() -> None:
    plan = planned(500, 300, 400, broken=(400,))
    assert plan.checkpoint is not None
    assert plan.checkpoint.step == 300
    assert [(item.checkpoint, item.why) for item in plan.rejected] == [
        ("checkpoint-400", "incomplete: no weights")
    ]


def test_the_only_candidate_is_corrupt() -> None:
    plan = planned(500, 400, broken=(400,))
    assert plan.checkpoint is None
    assert "the initial model is what is left" in plan.reason


def test_the_middle_row_names_the_last_epoch_s_checkpoint() -> None:
    plan = planned(2500, 1000, 2000, 2400)
    assert plan.table is not None
    assert plan.table.checkpoint == "checkpoint-2000"
    assert plan.checkpoint is not None
    assert plan.checkpoint.step == 2400
    assert plan.overruled


def test_the_middle_row_is_followed_where_nothing_later_is_sound() -> None:
    plan = planned(2500, 1000, 2000, 2600)
    assert plan.checkpoint is not None
    assert plan.checkpoint.name == "checkpoint-2000"
    assert not plan.overruled
    assert "as the table's row" in plan.reason


def test_the_middle_row_without_an_ended_epoch_says_so() -> None:
    plan = planned(1500, 1200, 1400)
    assert plan.checkpoint is not None
    assert plan.checkpoint.step == 1400
    assert "no epoch ended with a complete checkpoint before the onset" in plan.reason


def test_the_last_row_is_the_last_sound_checkpoint() -> None:
    plan = planned(6000, 1000, 5500, 7000)
    assert plan.table is not None
    assert plan.table.checkpoint == "checkpoint-5500"
    assert not plan.overruled
    assert {change.parameter for change in plan.changes} == {"reward_model", "learning_rate"}


def test_a_checkpoint_after_another_grave_finding_began_is_rejected() -> None:
    evidence = Evidence("metric", "entropy", 0.1, Location("log.jsonl"))
    early = Finding("critical", (evidence,), onset=Onset(300, 290, 300), code="ENT001")
    causes = (Cause("policy drift", "possible", "", ("KL003", "ENT001")),)
    plan = planned(500, 200, 400, causes=causes, findings=(early,))
    assert plan.checkpoint is not None
    assert plan.checkpoint.step == 200
    assert "ENT001 begins at step 290" in plan.rejected[0].why


@pytest.mark.parametrize(
    ("onset", "config", "changes"),
    [
        pytest.param(500, {"learning_rate": 4e-4}, {"learning_rate": 4e-5}, id="row one"),
        pytest.param(
            2000,
            {"learning_rate": 1e-6, "kl_coef": 0.05},
            {"kl_coef": 0.1, "learning_rate": 1e-7},
            id="row two doubles the penalty",
        ),
        pytest.param(
            2000,
            {"kl_coef": 0.0},
            {"kl_coef": 0.01, "learning_rate": None},
            id="row two starts one",
        ),
    ],
)
def test_changes_name_current_and_suggested_values(
    onset: int, config: dict[str, float | str], changes: dict[str, float | None]
) -> None:
    plan = planned(onset, config=config)
    assert {item.parameter: item.suggested for item in plan.changes} == pytest.approx(changes)
    for item in plan.changes:
        assert item.current == config.get(item.parameter)


@pytest.mark.parametrize("name", ["no learning signal", "no weight update"])
def test_where_nothing_was_learnt_nothing_is_changed(name: str) -> None:
    plan = planned(500, causes=(Cause(name, "confirmed", "", ("UPD001",)),))
    assert plan.changes == ()
    assert "restart after the fix" in plan.reason


def test_a_rate_is_changed_only_where_the_remedy_speaks_of_it() -> None:
    cut = Cause("answers cut at the length limit", "probable", "raise the limit", ("LEN009",))
    assert planned(500, causes=(cut,), config={"learning_rate": 1e-5}).changes == ()


def test_a_healthy_run_is_not_rolled_back() -> None:
    run = run_of(loss_total=[1.0] * 20, checkpoints=saved(10))
    plan = suggest(run, "healthy", (), (), None)
    assert (plan.checkpoint, plan.needed) == (None, False)


def test_an_interrupted_run_resumes_from_the_last_complete_checkpoint() -> None:
    run = run_of(loss_total=[1.0] * 20, checkpoints=saved(10, 15, 20, broken=(20,)))
    plan = suggest(run, "healthy", (Cause("interrupted", "possible", "", ("LOG001",)),), (), None)
    assert plan.checkpoint is not None
    assert (plan.checkpoint.step, plan.needed) == (15, False)


def test_a_stated_crash_step_replaces_the_onset() -> None:
    run = run_of(loss_total=[1.0] * 50, checkpoints=saved(10, 20, 30))
    plan = suggest(run, "healthy", (), (), None, crash_step=25)
    assert plan.checkpoint is not None
    assert plan.checkpoint.step == 20


def test_the_ladder_reads_the_row_that_belongs_to_a_checkpoint() -> None:
    run = run_of(
        entropy=[float(step) for step in range(1, 31)],
        checkpoints=saved(10, 20),
        log_offset=1,
        samples=batch(10, [[1, 2]] * 3, logprob=-1.0) + batch(10, [[1]], source="b.jsonl"),
    )
    plan = suggest(run, "collapsed", DRIFT, (), Onset(15, 15, 15))
    first, second = ladder(run, plan)
    assert first["entropy"] == 11.0
    assert first["perplexity_samples"] == pytest.approx(2.718281828)
    assert (first["chosen"], first["why_not"]) == (True, None)
    assert second["entropy"] == 21.0
    assert second["perplexity_samples"] is None
    assert "not before the onset" in str(second["why_not"])


def test_weights_that_are_not_finite_are_none_to_go_back_to() -> None:
    nan = {"finite": False, "non_finite": 1, "first_non_finite": "lm_head.weight", "norm": None}
    scans = [scanned(100), scanned(200, **nan), unread(300)]
    run = run_of(steps=[1, 500], loss_total=[1.0, 1.0], scans=scans)
    plan = suggest(run, "collapsed", DRIFT, (), Onset(500, 300, 500))
    assert plan.checkpoint is not None
    assert plan.checkpoint.name == "checkpoint-100"
    assert {item.checkpoint: item.why for item in plan.rejected} == {
        "checkpoint-200": "weights are not finite: lm_head.weight",
        "checkpoint-300": "not before the onset at 300 (log row 300)",
    }
