from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import polars as pl
import pytest

from rlhfdoctor import rollback, tree
from rlhfdoctor.changes import ENTROPY_COLLAPSE, NON_FINITE, OVERFITTING
from rlhfdoctor.finite import Health
from rlhfdoctor.model import (
    Cause,
    Checkpoint,
    Confidence,
    Evidence,
    Finding,
    Location,
    Onset,
    RollbackPlan,
    Run,
    Seam,
    TableRow,
    Verdict,
)
from rlhfdoctor.rollback import (
    INITIAL,
    TABLE,
    Vet,
    by_table_alone,
    ladder,
    suggest,
    table_row,
)
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
    verdict: Verdict = "collapsed",
    vet: Vet | None = None,
    **logged: Any,
) -> RollbackPlan:
    last = max((onset, *steps)) + 10
    run = run_of(
        steps=[1, onset, last],
        loss_total=[1.0, 1.0, 1.0],
        checkpoints=saved(*steps, broken=broken),
        log_offset=log_offset,
        config=config or {},
        **logged,
    )
    run = replace(run, metrics=run.metrics.with_columns(epoch=pl.col("step") / 1000))
    found = Onset(onset, onset if low is None else low, onset)
    return suggest(run, verdict, causes, findings, found, vet=vet)


def because(name: str, confidence: Confidence = "probable") -> tuple[Cause, ...]:
    """Return a cause as the tree would end with."""
    return (Cause(name, confidence, "", ("KL003",)),)


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
    assert (
        '"< 1000: initial" is overruled: a later checkpoint exists, its weights unread'
        in plan.reason
    )
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


@pytest.mark.parametrize("name", ["no learning signal", "no weight update"])
def test_where_nothing_was_learnt_nothing_is_changed(name: str) -> None:
    plan = planned(1, causes=(Cause(name, "confirmed", "", ("UPD001",)),))
    assert plan.changes == ()
    assert "restart after the fix" in plan.reason


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
        entropy=[100.0 + step for step in range(1, 31)],
        checkpoints=saved(10, 20),
        log_offset=1,
        samples=batch(10, [[1, 2]] * 3, logprob=-1.0) + batch(10, [[1]], source="b.jsonl"),
    )
    plan = suggest(run, "collapsed", DRIFT, (), Onset(15, 15, 15))
    first, second = ladder(run, plan)
    assert first["entropy"] == 111.0
    assert first["perplexity_samples"] == pytest.approx(2.718281828)
    assert (first["chosen"], first["why_not"]) == (True, None)
    assert second["entropy"] == 121.0
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
        "checkpoint-200": "weights not finite: lm_head.weight",
        "checkpoint-300": "not before the onset, 300 at the earliest (its log row: 300)",
    }


# The table at its edges, with and without what it asks for


AT = (999, 1000, 1001, 4999, 5000, 5001)


@pytest.mark.parametrize(
    ("step", "row", "table", "chosen"),
    [
        (999, "< 1000: initial", INITIAL, "checkpoint-900"),
        (1000, "1000-5000: last epoch", "checkpoint-900", "checkpoint-900"),
        (1001, "1000-5000: last epoch", "checkpoint-1000", "checkpoint-1000"),
        (4999, "1000-5000: last epoch", "checkpoint-4000", "checkpoint-4900"),
        (5000, "1000-5000: last epoch", "checkpoint-4900", "checkpoint-4900"),
        (5001, "> 5000: last stable point", "checkpoint-5000", "checkpoint-5000"),
    ],
)
def test_with_checkpoints_on_both_sides(step: int, row: str, table: str, chosen: str) -> None:
    plan = planned(step, 900, 1000, 4000, 4900, 5000, 6000)
    assert plan.table is not None
    assert plan.checkpoint is not None
    assert (plan.table.row, plan.table.checkpoint) == (row, table)
    assert plan.checkpoint.name == chosen
    assert plan.overruled is (table != chosen)


@pytest.mark.parametrize("step", AT)
@pytest.mark.parametrize(
    ("saved_at", "broken", "why"),
    [
        pytest.param((), (), "no checkpoint was found", id="no checkpoint"),
        pytest.param(
            (800,), (800,), "no complete checkpoint precedes the onset", id="the only one corrupt"
        ),
        pytest.param(
            (7000, 8000), (), "no complete checkpoint precedes the onset", id="all after the onset"
        ),
    ],
)
def test_without_a_checkpoint_the_initial_model_is_left_in_every_row(
    step: int, saved_at: tuple[int, ...], broken: tuple[int, ...], why: str
) -> None:
    plan = planned(step, *saved_at, broken=broken)
    assert plan.checkpoint is None
    assert plan.table is not None
    assert plan.table.row.startswith(table_row(step).name)
    assert why in plan.reason
    assert len(plan.rejected) == len(saved_at)


# What the bytes of a checkpoint overrule


def vetting(**found: Health) -> Vet:
    """Return a vet that knows some checkpoints by their step and finds all others sound."""
    return lambda run, item: found.get(f"s{item.step}", Health(weights=True, optimizer=True))


def test_weights_that_are_not_finite_leave_the_checkpoint_before() -> None:
    broken = Health(weights=False, optimizer=None, where="model.safetensors lm_head")
    plan = planned(500, 200, 300, 400, vet=vetting(s400=broken))
    assert plan.checkpoint is not None
    assert plan.checkpoint.step == 300
    assert plan.unchecked[-1] == "KL: not measured"
    assert [(item.checkpoint, item.why) for item in plan.rejected] == [
        ("checkpoint-400", "weights not finite: model.safetensors lm_head")
    ]


def test_an_optimizer_state_that_is_not_finite_rejects_too() -> None:
    broken = Health(weights=True, optimizer=False, where="optimizer.pt storage 3")
    plan = planned(500, 300, 400, vet=vetting(s400=broken))
    assert plan.checkpoint is not None
    assert plan.checkpoint.step == 300
    assert plan.rejected[0].why == "optimizer state not finite: optimizer.pt storage 3"


def test_an_absent_optimizer_state_is_said_and_not_rejected() -> None:
    plan = planned(500, 400, vet=vetting(s400=Health(weights=True, optimizer=None)))
    assert plan.checkpoint is not None
    assert plan.checkpoint.step == 400
    assert "optimizer state: none, weights only" in plan.unchecked


def test_weights_that_nobody_read_are_said() -> None:
    assert "weights and optimizer state: not read" in planned(500, 400).unchecked
    unread = Health(None, None, unread={"weights": "a.bin: damaged", "optimizer state": "o: empty"})
    plan = planned(500, 400, vet=vetting(s400=unread))
    assert plan.unchecked[-2:] == ("weights: a.bin: damaged", "optimizer state: o: empty")


def test_where_every_candidate_is_broken_the_plan_says_so() -> None:
    broken = Health(weights=False, optimizer=None, where="model.safetensors w")
    plan = planned(500, 300, 400, vet=vetting(s300=broken, s400=broken))
    assert plan.checkpoint is None
    assert "no checkpoint before the onset is sound" in plan.reason


def test_no_more_weights_are_read_than_needed() -> None:
    seen: list[int] = []

    def vet(run: Run, item: Checkpoint) -> Health:
        seen.append(item.step)
        return Health(weights=item.step < 400, optimizer=None)

    planned(500, 100, 200, 300, 400, 600, vet=vet)
    assert seen == [400, 300]


def test_a_checkpoint_out_of_the_ladder_s_bounds_is_rejected() -> None:
    entropy = [2.0 if step < 300 else 1.0 for step in range(1, 601)]
    run = run_of(entropy=entropy, checkpoints=saved(200, 400))
    plan = suggest(run, "collapsed", DRIFT, (), Onset(500, 500, 500))
    assert plan.checkpoint is not None
    assert plan.checkpoint.step == 200
    assert [item.why for item in plan.rejected] == ["entropy 1 is 50% of the start's"]


# What the cause overrules


@pytest.mark.parametrize(
    ("name", "confidence", "onset", "why"),
    [
        pytest.param(
            tree.WRONG_REFERENCE, "probable", 300, "the fault was there from the first step",
            id="a wrong reference, whenever it showed",
        ),
        pytest.param(
            "log-probabilities that disagree", "probable", 300, "from the first step",
            id="log-probabilities that disagreed before the first update",
        ),
        pytest.param(
            tree.CUT_OFF, "probable", 1, "from the first step", id="a limit that was too short"
        ),
        pytest.param(
            tree.NO_SIGNAL, "confirmed", 1, "nothing is lost: restart after the fix",
            id="no signal",
        ),
        pytest.param(
            tree.NO_UPDATE, "confirmed", 1, "nothing is lost: restart after the fix",
            id="no update",
        ),
    ],
)  # fmt: skip
def test_a_fault_from_the_start_taints_every_checkpoint(
    name: str, confidence: Confidence, onset: int, why: str
) -> None:
    plan = planned(onset, 0, 100, 200, causes=because(name, confidence))
    assert plan.checkpoint is None
    assert why in plan.reason
    assert {item.why for item in plan.rejected} == {"has the fault that was there from the start"}


@pytest.mark.parametrize("name", tree.NOTHING_LEARNT)
def test_a_signal_that_was_lost_on_the_way_leaves_the_checkpoints_before(name: str) -> None:
    plan = planned(300, 100, 200, 400, causes=because(name, "confirmed"))
    assert plan.checkpoint is not None
    assert plan.checkpoint.step == 200
    assert "nothing was learnt" not in plan.reason


def test_a_limit_that_became_too_short_leaves_the_checkpoints_before() -> None:
    plan = planned(300, 100, 200, causes=because(tree.CUT_OFF))
    assert plan.checkpoint is not None
    assert plan.checkpoint.step == 200


@pytest.mark.parametrize(("offset", "first"), [(0, 201), (1, 201)])
def test_a_resume_fault_goes_back_to_the_last_checkpoint_before_the_resume(
    offset: int, first: int
) -> None:
    run = run_of(
        kl_ref_token=[0.002 * min(step, first) if step < first else 1e-4 for step in range(1, 401)],
        checkpoints=saved(100, 200, 300),
        log_offset=offset,
    )
    run = replace(run, seams=(Seam(250, first, Location("log.jsonl")),))
    causes = because(rollback.RECAPTURED)
    plan = suggest(run, "degraded", causes, (), Onset(first, first, first + 20))
    assert plan.checkpoint is not None
    assert plan.checkpoint.step == 200
    assert f"came with the resume at step {first}: the last checkpoint before it" in plan.reason


def exploding(*spikes: int) -> Run:
    """Return a run whose loss is NaN from step 380 on, with spikes of the gradient norm."""
    norms = [1.0 + 0.05 * (step % 3) for step in range(1, 381)]
    for step in spikes:
        norms[step - 1] = 30.0
    return run_of(
        steps=list(range(1, 401)),
        loss_total=[1.0] * 379 + [float("nan")] * 21,
        grad_norm=[*norms, *[None] * 20],
        checkpoints=saved(*range(20, 400, 20)),
    )


@pytest.mark.parametrize(
    ("spikes", "chosen", "said"),
    [
        pytest.param((), 360, "before the first number that is not", id="no anomaly before it"),
        pytest.param((375,), 360, "first anomaly (grad_norm at step 375)", id="one just before"),
        pytest.param((341, 350, 358, 365, 372), 340, "at step 341", id="a series of them"),
        pytest.param((100, 375), 360, "at step 375", id="one that had passed long before"),
    ],
)
def test_non_finite_values_go_back_to_before_the_first_anomaly(
    spikes: tuple[int, ...], chosen: int, said: str
) -> None:
    plan = suggest(exploding(*spikes), "collapsed", because(NON_FINITE), (), Onset(380, 380, 380))
    assert plan.checkpoint is not None
    assert plan.checkpoint.step == chosen
    assert said in plan.reason


def scored_out(scores: Mapping[int, float], name: str = "heldout_score") -> Run:
    columns: dict[str, Any] = {name: [scores.get(step) for step in range(1, 601)]}
    columns["reward_raw_mean"] = [step / 100 for step in range(1, 601)]
    return run_of(checkpoints=saved(100, 200, 300, 400), **columns)


def test_over_optimisation_goes_back_to_the_best_held_out_score() -> None:
    run = scored_out({100: 0.4, 200: 0.7, 300: 0.6, 400: 0.5, 500: 0.1})
    plan = suggest(run, "collapsed", because(tree.OVER_OPTIMISATION), (), Onset(450, 450, 450))
    assert plan.checkpoint is not None
    assert plan.checkpoint.step == 200, "the training reward is highest at 400"
    assert "is overruled by the cause" in plan.reason
    assert "never at the highest training reward" in plan.reason


def test_the_best_held_out_score_counts_also_after_the_fitted_onset() -> None:
    run = scored_out({100: 0.4, 200: 0.7, 300: 0.8, 400: 0.9, 500: 0.1})
    onset = Onset(350, 350, 350)
    plan = suggest(run, "collapsed", because(tree.OVER_OPTIMISATION), (), onset)
    assert plan.checkpoint is not None
    assert plan.checkpoint.step == 400
    stated = suggest(run, "collapsed", because(tree.OVER_OPTIMISATION), (), onset, 320)
    assert stated.checkpoint is not None
    assert stated.checkpoint.step == 300, "nothing goes beyond what the user states"


def test_the_best_evaluation_s_own_checkpoint_is_its_own_whatever_the_log_s_offset() -> None:
    run = replace(scored_out({100: 0.5, 200: 0.4, 300: 0.6}, "eval_loss_total"), log_offset=1)
    plan = suggest(run, "degraded", because(OVERFITTING), (), Onset(201, 201, 230))
    assert plan.checkpoint is not None
    assert plan.checkpoint.step == 200


@pytest.mark.parametrize(
    ("lucky", "chosen"),
    [pytest.param(0.515, 400, id="within the noise"), pytest.param(0.9, 100, id="beyond it")],
)
def test_one_lucky_evaluation_does_not_rule(lucky: float, chosen: int) -> None:
    scores = {step: 0.5 + 0.01 * (-1) ** (step // 25) for step in range(25, 450, 25)}
    run = scored_out({**scores, 100: lucky})
    plan = suggest(run, "collapsed", because(tree.OVER_OPTIMISATION), (), Onset(450, 450, 450))
    assert plan.checkpoint is not None
    assert plan.checkpoint.step == chosen


def test_pairs_learnt_by_heart_go_back_to_the_best_evaluation() -> None:
    run = scored_out({100: 0.6, 200: 0.5, 300: 0.55, 400: 0.9}, "eval_loss_total")
    plan = suggest(run, "degraded", because(OVERFITTING), (), Onset(450, 450, 450))
    assert plan.checkpoint is not None
    assert plan.checkpoint.step == 200


def test_over_optimisation_without_a_held_out_score_takes_the_last_sound_one() -> None:
    run = run_of(checkpoints=saved(100, 400), reward_raw_mean=[1.0] * 600)
    plan = suggest(run, "collapsed", because(tree.OVER_OPTIMISATION), (), Onset(450, 450, 450))
    assert plan.checkpoint is not None
    assert plan.checkpoint.step == 400


def test_an_entropy_collapse_goes_back_to_before_the_entropy_halved() -> None:
    entropy = [2.0 - 0.004 * max(step - 150, 0) for step in range(1, 501)]
    run = run_of(entropy=entropy, checkpoints=saved(100, 200, 300, 420))
    late = Onset(450, 450, 450)
    plan = suggest(run, "collapsed", because(ENTROPY_COLLAPSE), (), late)
    assert plan.checkpoint is not None
    assert "before the entropy halved at step 401" in plan.reason
    why = {item.checkpoint: item.why for item in plan.rejected}
    told = "not before the step at which the entropy halved (its log row: 420)"
    assert why["checkpoint-420"] == told
    assert plan.checkpoint.step == 200, "at 300 it is at 70 % of the start's"


def test_a_slow_fall_of_the_entropy_is_no_harm_before_half_of_it() -> None:
    entropy = [1.0 - 0.00098 * step for step in range(1, 1001)]
    run = run_of(entropy=entropy, checkpoints=saved(100, 200, 400))
    evidence = Evidence("metric", "entropy", 0.1, Location("log.jsonl"))
    found = Finding("critical", (evidence,), onset=Onset(460, 2, 515), code="KL003")
    slow = Onset(460, 2, 515)
    plan = suggest(run, "collapsed", because(ENTROPY_COLLAPSE), (found,), slow)
    assert plan.checkpoint is not None
    assert plan.checkpoint.step == 200
    assert "checkpoint-400 is later and was rejected for what it is like" in plan.reason


def test_a_kl_that_falls_on_the_way_to_another_collapse_rejects_nothing() -> None:
    kl = [0.5 - 0.0005 * step for step in range(1, 801)]
    run = run_of(kl_ref_token=kl, checkpoints=saved(100, 600))
    entropy = (Cause("policy collapse", "probable", "", ("ENT001",)),)
    plan = suggest(run, "collapsed", entropy, (), Onset(700, 700, 700))
    assert plan.checkpoint is not None
    assert plan.checkpoint.step == 600


def test_a_log_that_ends_early_hides_no_cause() -> None:
    kl = [0.002 * step if step < 201 else 1e-4 for step in range(1, 401)]
    run = run_of(kl_ref_token=kl, checkpoints=saved(100, 200, 300), log_offset=1)
    run = replace(run, seams=(Seam(250, 201, Location("log.jsonl")),))
    causes = (*because(tree.INTERRUPTED), *because(rollback.RECAPTURED))
    plan = suggest(run, "degraded", causes, (), Onset(201, 201, 220))
    assert plan.checkpoint is not None
    assert plan.checkpoint.step == 200
    assert plan.cause.startswith(rollback.RECAPTURED)


@pytest.mark.parametrize("name", tree.MEASUREMENT)
def test_a_fault_of_the_measurement_undoes_nothing(name: str) -> None:
    plan = planned(500, 100, 400, causes=because(name))
    assert (plan.checkpoint, plan.needed, plan.changes) == (None, False, ())


# The table alone, and another table


def test_the_table_alone_asks_no_evidence() -> None:
    run = run_of(loss_total=[1.0] * 50, checkpoints=saved(10, 20, 30, broken=(20,)))
    assert by_table_alone(run, 25).checkpoint is None
    stable = (TableRow("any", None, "last stable point", "renew the reward model"),)
    plan = by_table_alone(run, 25, stable)
    assert plan.checkpoint is not None
    assert plan.checkpoint.step == 20, "incomplete, and nobody looked"
    assert [item.parameter for item in plan.changes] == ["reward_model"]
    assert plan.unchecked == ("everything",)


def test_the_table_alone_needs_a_step() -> None:
    plan = by_table_alone(run_of(loss_total=[1.0]), None)
    assert (plan.needed, plan.reason) == (False, "no crash step: state one with --crash-step")


def test_another_table_gives_other_rows() -> None:
    rows = (TableRow("< 11", 10, "last stable point", "x"), TableRow("> 10", None, "initial", "y"))
    run = run_of(loss_total=[1.0] * 50, checkpoints=saved(4))
    low, high = (
        suggest(run, "collapsed", DRIFT, (), Onset(step, step, step), table=rows)
        for step in (10, 11)
    )
    assert low.table is not None
    assert high.table is not None
    assert (low.table.checkpoint, low.overruled) == ("checkpoint-4", False)
    assert (high.table.checkpoint, high.overruled) == (INITIAL, True)


def test_the_ladder_that_is_shown_is_the_one_that_judged() -> None:
    kl = [0.1 if step < 60 else 0.1 * (step - 58) for step in range(1, 201)]
    run = run_of(kl_ref_token=kl, checkpoints=saved(40, 80))
    plan = suggest(run, "collapsed", DRIFT, (), Onset(60, 60, 60), 150)
    assert plan.ladder[1].readings["kl"].base == pytest.approx(0.2, abs=0.1)
    assert [rung["chosen"] for rung in ladder(run, plan)] == [True, False]


def test_scanned_weights_that_are_not_finite_are_no_want_of_checkpoints() -> None:
    nan = {"finite": False, "non_finite": 1, "first_non_finite": "w", "norm": None}
    run = run_of(steps=[1, 500], loss_total=[1.0, 1.0], scans=[scanned(100, **nan)])
    plan = suggest(run, "collapsed", DRIFT, (), Onset(500, 300, 500))
    assert "no checkpoint before the onset is sound" in plan.reason
