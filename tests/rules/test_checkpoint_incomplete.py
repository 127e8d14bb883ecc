from rlhfdoctor.model import Checkpoint
from tests.builders import clear, only, run_of, skipped


def saved(step: int, *missing: str) -> Checkpoint:
    name = f"checkpoint-{step}"
    return Checkpoint(step, f"run/{name}", name, complete=not missing, missing=missing)


def test_complete_checkpoints_are_clear() -> None:
    assert clear("CKP001", run_of(checkpoints=[saved(10), saved(20)]))


def test_a_run_without_checkpoints_is_not_judged() -> None:
    assert skipped("CKP001", run_of(loss_total=[1.0] * 5))


def test_a_broken_checkpoint_is_named_with_what_it_lacks() -> None:
    run = run_of(checkpoints=[saved(10), saved(20, "model.safetensors", "trainer_state.json")])
    finding = only("CKP001", run)
    assert finding.severity == "info"
    assert len(finding.evidence) == 1
    evidence = finding.evidence[0]
    assert evidence.kind == "checkpoint"
    assert evidence.subject == "checkpoint-20"
    assert evidence.where.file == "run/checkpoint-20"
    assert (evidence.first_step, evidence.last_step) == (20, 20)
    for name in ("model.safetensors", "trainer_state.json"):
        assert name in str(evidence.observed)
        assert name in finding.message
    assert "checkpoint-20 is incomplete" in finding.message
    assert "checkpoint-20 is incomplete" in finding.summary


def test_it_has_no_onset_because_it_says_nothing_of_the_policy() -> None:
    assert only("CKP001", run_of(checkpoints=[saved(20, "a")])).onset is None


def test_several_broken_checkpoints_are_one_finding() -> None:
    run = run_of(checkpoints=[saved(10, "a"), saved(20), saved(30, "b")])
    finding = only("CKP001", run)
    assert [item.subject for item in finding.evidence] == ["checkpoint-10", "checkpoint-30"]
    assert "checkpoint-10, checkpoint-30 are incomplete: a; b" in finding.message
    assert "checkpoint-20" not in finding.message


def test_a_checkpoint_that_lacks_no_file_still_has_a_reason() -> None:
    run = run_of(checkpoints=[Checkpoint(20, "run/checkpoint-20", "checkpoint-20")])
    finding = only("CKP001", run)
    assert finding.message.endswith(": its reader does not say why")
    assert finding.evidence[0].observed == "its reader does not say why"
