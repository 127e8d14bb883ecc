from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from rlhfdoctor.doctor import diagnose, gather, judge, settle
from rlhfdoctor.model import Checkpoint, Evidence, Finding, Location, Note, Onset, Severity, Source
from rlhfdoctor.profile import Profile, choose
from rlhfdoctor.rules import available
from rlhfdoctor.runs import read_runs
from rlhfdoctor.scores import SCORES
from tests.builders import began, log_history, run_of, scanned, scored, unread, write_state

CALM = [0.01 * index for index in range(1, 31)]
LOW = Evidence("metric", "x", 1.0, Location("log.jsonl", key="x"))


def finding(
    code: str, signal: str, severity: Severity = "critical", step: int = 10, **others: object
) -> Finding:
    made = Finding(severity, (LOW,), onset=Onset(step, step, step), code=code, signal=signal)
    return replace(made, **others)  # type: ignore[arg-type]


def severities(*findings: Finding) -> list[Severity]:
    return [item.severity for item in settle(findings)]


def test_a_critical_finding_alone_is_a_warning() -> None:
    assert severities(finding("KL003", "kl")) == ["warning"]


def test_a_critical_finding_stands_if_another_class_agrees() -> None:
    assert severities(finding("KL003", "kl"), finding("ENT001", "entropy")) == ["critical"] * 2
    agreeing = finding("RWD002", "reward", "warning")
    assert severities(finding("KL003", "kl"), agreeing) == ["critical", "warning"]


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(finding("KL005", "kl"), id="one of its own class"),
        pytest.param(finding("RWD003", "reward", "info"), id="an information"),
        pytest.param(finding("ENT001", "entropy", recovered_at=20), id="one that is over"),
        pytest.param(finding("CKP001", "checkpoint", "warning"), id="a class that proves nothing"),
    ],
)
def test_what_does_not_agree(other: Finding) -> None:
    assert severities(finding("KL003", "kl"), other)[0] == "warning"


def test_proof_stands_alone() -> None:
    assert severities(finding("NUM001", "numbers", alone=True)) == ["critical"]


def test_a_weak_finding_is_worth_what_its_rule_says() -> None:
    assert severities(finding("ENT001", "entropy", weak="info")) == ["info"]


@pytest.mark.parametrize("require", [(), ("LEN001",)], ids=("by the profile", "and required"))
def test_a_diagnosis_rests_on_what_all_rules_said(require: tuple[str, ...]) -> None:
    run = run_of(kl_ref_response=[1.0] * 30 + [50.0] * 30, entropy=[3.0] * 30 + [0.1] * 30)
    found = diagnose(run, require=require)
    said = judge(run, choose(run, Profile()), require)
    assert said.findings
    assert sorted(item.code for item in said.findings) == sorted(
        item.code for item in found.findings
    )
    assert (said.clear, said.skipped, said.unanswered) == (
        *(found.clear, found.skipped, found.unanswered),
    )
    assert ("LEN001 (required)" in said.unanswered) is bool(require)


def test_findings_of_one_rule_are_one_with_the_evidence_of_all() -> None:
    (one,) = gather([finding("KL005", "kl", step=20), finding("KL005", "kl", step=10)])
    assert one.onset_step == 10
    assert len(one.evidence) == 2


def test_a_finding_without_evidence_cannot_be_made() -> None:
    with pytest.raises(ValueError, match="no evidence"):
        Finding("critical", ())


def test_a_run_whose_required_rules_looked_is_healthy() -> None:
    run = run_of(kl_ref_token=CALM, grad_norm=[1.0] * 30, algorithm="GRPO")
    diagnosis = diagnose(run)
    assert (diagnosis.verdict, diagnosis.unanswered) == ("healthy", ())


@pytest.mark.parametrize(
    ("columns", "algorithm", "missing"),
    [
        pytest.param({"reward_raw_mean": CALM}, "GRPO", "KL, entropy", id="no distance"),
        pytest.param(
            {"kl_unknown": CALM, "grad_norm": CALM}, "unknown", "KL, entropy", id="no unit"
        ),
        pytest.param({"entropy": [3.0] * 30}, "PPO", "weight updates", id="nothing that moved"),
        pytest.param({"dpo_accuracy": [0.8] * 30}, "DPO", "loss", id="DPO without a loss"),
        pytest.param(
            {"kl_ref_token": CALM[:9], "grad_norm": CALM[:9]}, "GRPO", "10 logged", id="nine rows"
        ),
        pytest.param({}, "unknown", "10 logged", id="nothing at all"),
    ],
)
def test_silence_is_never_health(columns: dict[str, Any], algorithm: str, missing: str) -> None:
    diagnosis = diagnose(run_of(algorithm=algorithm, **columns))
    assert diagnosis.verdict == "inconclusive"
    assert missing in " ".join(diagnosis.unanswered)


def test_dpo_needs_no_kl() -> None:
    run = run_of(
        loss_total=[0.69 - value for value in CALM],
        dpo_accuracy=[0.7 + value / 100 for value in CALM],
        dpo_margin=CALM,
        algorithm="DPO",
    )
    diagnosis = diagnose(run)
    assert diagnosis.verdict == "healthy"
    assert "KL not measured" in diagnosis.headline


def test_a_recomputed_kl_is_told_of_a_healthy_run() -> None:
    rows = [began(), scored(5, 0.02), scored(10, 0.034)]
    run = run_of(entropy=[3.0] * 20, grad_norm=[1.0] * 20, scores=rows)
    assert "recomputed KL 0.034 nats/token" in diagnose(run).headline


def test_inconclusive_never_replaces_a_finding() -> None:
    run = run_of(grad_norm=[0.0] * 3)
    diagnosis = diagnose(run)
    assert diagnosis.verdict == "collapsed"
    assert diagnosis.unanswered


def test_required_rules_of_a_profile_replace_the_default() -> None:
    run = run_of(reward_raw_mean=CALM)
    assert diagnose(run, Profile(require=("RWD003",))).verdict == "healthy"
    assert diagnose(run, Profile(require=("KL003",))).unanswered == ("KL003 (required)",)
    assert "KL002 (required)" in diagnose(run, require=["KL002"]).unanswered


def test_findings_on_the_path_of_the_first_cause_come_first() -> None:
    run = run_of(
        kl_ref_token=CALM + [2.0 + value for value in CALM],
        entropy=[3.0] * 32 + [0.5] * 28,
        reward_raw_mean=[0.1] * 30 + [2.0] * 30,
        grad_norm=[1.0] * 60,
    )
    diagnosis = diagnose(run)
    assert diagnosis.verdict == "collapsed"
    assert diagnosis.causes[0].name == "reward over-optimisation"
    assert diagnosis.findings[0].code == "KL003"
    assert diagnosis.causes[0].path[0] == "KL003"
    assert diagnosis.cost is not None
    assert diagnosis.cost.steps_after_onset == 60 - (diagnosis.onset.step if diagnosis.onset else 0)
    assert diagnosis.cost.fraction == diagnosis.cost.steps_after_onset / 60


def test_a_warning_makes_a_run_degraded() -> None:
    run = run_of(kl_ref_token=CALM + [2.0 + value for value in CALM], grad_norm=[1.0] * 60)
    diagnosis = diagnose(run)
    assert diagnosis.verdict == "degraded"
    assert diagnosis.onset is not None
    assert diagnosis.headline.startswith(f"Since step {diagnosis.onset.step}")


def test_a_kl_that_is_near_whatever_its_unit_is_said_to_be() -> None:
    run = run_of(kl_unknown=[0.05 + 0.001 * row for row in range(30)], grad_norm=[1.0] * 30)
    diagnosis = diagnose(run)
    assert diagnosis.verdict == "healthy"
    assert "(unit unknown, near in every unit)" in diagnosis.headline


def test_a_kl_of_unknown_unit_is_shown_and_not_judged() -> None:
    run = run_of(kl_unknown=[10.0 * value for value in CALM], entropy=CALM, grad_norm=[1.0] * 30)
    diagnosis = diagnose(run)
    assert "KL 2.8 (unit unknown, not judged)" in diagnosis.headline
    assert "--map kl_unknown=kl_ref_response" in diagnosis.next_step
    assert "--map kl_unknown=kl_ref_token" in diagnosis.next_step


def test_nothing_is_lost_where_nothing_was_learnt() -> None:
    diagnosis = diagnose(run_of(grad_norm=[0.0] * 20, loss_total=[1.0] * 20))
    assert (diagnosis.verdict, diagnosis.cost) == ("collapsed", None)


def test_a_collapsed_run_is_not_to_be_resumed() -> None:
    run = run_of(
        grad_norm=[1.0] * 10 + [float("nan")] * 10,
        loss_total=[float("nan")] * 20,
        config={"planned_steps": 100},
    )
    advice = {cause.name: cause.remedy for cause in diagnose(run).causes}
    assert "do not resume" in advice["interrupted"]


def test_rows_without_a_known_key_are_counted() -> None:
    run = replace(run_of(), sources=(Source("log.jsonl", "jsonl", "generic", 59),))
    assert "59 rows read, no key with a known meaning" in diagnose(run).unanswered[0]


def test_the_healthy_headline_says_what_was_not_read() -> None:
    run = run_of(kl_ref_token=CALM, grad_norm=[1.0] * 30)
    noted = replace(run, notes=(Note("x.jsonl", "cannot be opened", unread=True),))
    assert "not read: x.jsonl" in diagnose(noted).headline


# what the weights of the checkpoints add


def test_checkpoints_that_differ_show_that_weights_were_updated() -> None:
    run = run_of(entropy=[3.0] * 30, algorithm="PPO", scans=[scanned(10), scanned(20)])
    assert diagnose(run).verdict == "healthy"
    one = run_of(entropy=[3.0] * 30, algorithm="PPO", scans=[scanned(10)])
    assert "weight updates" in " ".join(diagnose(one).unanswered)


def test_an_adapter_that_is_not_zero_may_have_been_trained_before() -> None:
    moved = scanned(10, adapter=True, adapter_zero=False)
    diagnosis = diagnose(run_of(entropy=[3.0] * 30, algorithm="PPO", scans=[moved]))
    assert "CKP006" in diagnosis.clear
    assert "weight updates" in " ".join(diagnosis.unanswered)
    zero = scanned(10, adapter=True, adapter_zero=True)
    diagnosis = diagnose(run_of(entropy=[3.0] * 30, algorithm="PPO", scans=[zero]))
    assert (diagnosis.verdict, diagnosis.unanswered) == ("collapsed", ())
    assert diagnosis.causes[0].name == "no weight update"


def test_weights_that_are_not_finite_are_a_collapse_whatever_the_log_says() -> None:
    nan = {"finite": False, "non_finite": 1, "first_non_finite": "w", "norm": None}
    run = run_of(
        kl_ref_token=CALM,
        grad_norm=[1.0] * 30,
        scans=[scanned(10), scanned(20), scanned(25, **nan)],
        algorithm="GRPO",
    )
    diagnosis = diagnose(run)
    assert diagnosis.verdict == "collapsed"
    assert diagnosis.causes[0].name == "non-finite values"
    assert diagnosis.rollback.checkpoint is not None
    assert diagnosis.rollback.checkpoint.name == "checkpoint-20"


def test_a_stale_save_degrades_a_run_and_asks_for_no_rollback() -> None:
    scans = [scanned(10), scanned(20, hash="a"), scanned(30, hash="a")]
    run = run_of(kl_ref_token=CALM, grad_norm=[1.0] * 30, scans=scans, algorithm="GRPO")
    diagnosis = diagnose(run)
    assert diagnosis.verdict == "degraded"
    assert [cause.name for cause in diagnosis.causes] == ["a checkpoint that was saved wrongly"]
    assert not diagnosis.rollback.needed


@pytest.mark.parametrize(
    ("columns", "step"),
    [
        pytest.param({"kl_ref_token": CALM, "grad_norm": CALM}, "inspect", id="healthy"),
        pytest.param({"reward_raw_mean": CALM}, "--reference MODEL", id="inconclusive"),
        pytest.param({"kl_unknown": CALM, "grad_norm": CALM}, "--map kl_unknown=", id="no unit"),
    ],
)
def test_weights_are_asked_for_where_nothing_else_tells(columns: dict[str, Any], step: str) -> None:
    saved = [Checkpoint(10, "checkpoint-10", "checkpoint-10", complete=True)]
    run = run_of(algorithm="GRPO", checkpoints=saved, **columns)
    diagnosis = diagnose(run)
    assert step in diagnosis.next_step
    assert ("--reference" in diagnosis.next_step) is ("--reference" in step)
    asked = {skip.command for skip in diagnosis.skipped if skip.missing == ("scans",)}
    assert asked == {"--reference MODEL"}
    bare = diagnose(replace(run, checkpoints=()))
    assert {skip.command for skip in bare.skipped if skip.missing == ("scans",)} == {None}
    scanned_in_vain = diagnose(replace(run, scans=run_of(scans=[unread(10)]).scans))
    told = {skip.command for skip in scanned_in_vain.skipped if skip.missing == ("scans",)}
    assert told == {None}


def test_a_recomputation_is_there_once_it_has_rows() -> None:
    run = run_of()
    none, row = pl.DataFrame(schema=SCORES), pl.DataFrame([{"step": 10}], schema=SCORES)
    assert not available(run, "scores", 0)
    assert not available(replace(run, scores=none), "scores", 0)
    assert available(replace(run, scores=row), "scores", 0)


@pytest.mark.parametrize(
    ("broken", "seen"),
    [
        pytest.param("trainer_state.json", False, id="the log that goes furthest"),
        pytest.param("checkpoint-30/trainer_state.json", True, id="a copy that it goes beyond"),
    ],
)
@pytest.mark.parametrize("text", ["", "\0" * 5000, "garbage"], ids=["empty", "zeros", "garbage"])
def test_a_log_that_could_not_be_read_is_not_looked_at(
    tmp_path: Path, broken: str, seen: bool, text: str
) -> None:
    rows = log_history("grpo_healthy")
    (tmp_path / "checkpoint-30").mkdir()
    write_state(tmp_path, rows)
    write_state(tmp_path / "checkpoint-30", rows[:30])
    (tmp_path / broken).write_text(text, encoding="utf-8")
    (run,) = read_runs(tmp_path)
    found = diagnose(run)
    assert (found.verdict == "healthy") is seen, found.headline
    assert any(broken in one for one in found.unanswered) is not seen
